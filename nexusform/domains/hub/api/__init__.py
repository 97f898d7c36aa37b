"""What speaks to the API server of a hub."""
