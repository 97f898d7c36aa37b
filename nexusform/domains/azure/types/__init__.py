"""Data sources of azure."""
