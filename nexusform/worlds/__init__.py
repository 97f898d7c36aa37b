"""Who stands where, read from a state or a plan alike, and what else would fit."""
