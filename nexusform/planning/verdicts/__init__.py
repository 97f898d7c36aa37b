"""Verdicts after placement of all VMs: certainty, VMs without capacity, separation rules."""

# Public names of the package, by module.
PUBLIC = {
    "placement_fit": "DOES_NOT_FIT PINNED_DOES_NOT_FIT",
    "separation_rules": "SEPARATION_VIOLATED",
}
