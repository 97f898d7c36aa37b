"""Command `nexusform explore`: an interactive plan in a local browser."""
