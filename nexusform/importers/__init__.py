"""Foreign documents to our values. Pure."""
