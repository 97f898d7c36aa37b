"""Text to tree to value. Knows nothing of resources, state or plans."""
