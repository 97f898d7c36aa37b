"""A plan as rows, for every format alike: what changes, what is placed, what a reader must know."""
