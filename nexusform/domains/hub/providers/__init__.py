"""Provider for live hubs."""
