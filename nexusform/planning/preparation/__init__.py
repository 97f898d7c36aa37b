"""Before anything is planned: addresses that moved, imports, the order of blocks, the selection."""
