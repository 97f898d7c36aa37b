"""Follow a plan's steps through providers. Decides nothing."""
