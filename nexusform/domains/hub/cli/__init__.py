"""The hub at the command line."""
