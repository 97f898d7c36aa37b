"""Commands of azure."""
