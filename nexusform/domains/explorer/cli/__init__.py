"""Commands of the explorer."""
