"""Command `nexusform test`: assertions over plans."""
