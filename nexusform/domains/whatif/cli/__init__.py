"""Commands of whatif."""
