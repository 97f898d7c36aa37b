"""Commands of the editor domain."""
