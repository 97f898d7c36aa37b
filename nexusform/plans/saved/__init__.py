"""Plans as bytes and back."""
