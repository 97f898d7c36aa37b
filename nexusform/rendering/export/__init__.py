"""A plan as what other tools carry out."""
