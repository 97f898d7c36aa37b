"""Placement as Nova and Placement decide it."""
