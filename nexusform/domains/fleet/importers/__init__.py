"""Objects of a fleet's hub: placements, overrides, staged runs, members, and what a hub exports."""
