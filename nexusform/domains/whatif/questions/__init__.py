"""Questions asked of a state or a plan."""
