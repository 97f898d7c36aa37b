"""Data source of a live hub."""
