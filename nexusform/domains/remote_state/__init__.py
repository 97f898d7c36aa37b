"""Remote state backends."""
