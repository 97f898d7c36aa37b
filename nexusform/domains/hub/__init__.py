"""A fleet hub that is there: read, be judged by it, act on it."""
