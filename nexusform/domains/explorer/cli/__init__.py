"""Commands of explorer."""
