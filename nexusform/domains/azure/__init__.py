"""A site as Azure shows it, and acting on it."""
