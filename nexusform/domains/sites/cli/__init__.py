"""`nexusform sites ...`."""
