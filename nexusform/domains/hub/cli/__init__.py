"""Command line of the hub domain."""
