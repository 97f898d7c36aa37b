"""Many sites in one summary: folded rows, and what differs by site."""
