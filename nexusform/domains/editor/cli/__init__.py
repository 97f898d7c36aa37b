"""Commands of editor."""
