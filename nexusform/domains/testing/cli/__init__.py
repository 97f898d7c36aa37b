"""Commands of testing."""
