"""`nexusform test`: assertions over plans."""
