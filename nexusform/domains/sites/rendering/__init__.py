"""Summary of many sites: folded rows, and differences by site."""
