"""Doubts: what is not known about a subject, and what it may change."""

# Public names of the package, by module.
PUBLIC = {
    "doubt": "Doubt Influence build_doubt_rows is_doubt_row read_doubt_rows",
    "finding_doubts": ("build_finding_doubts hides_bindings hides_capacity"),
    "ledger": "DoubtLedger PlacedPool build_ledger explain_uncertain_vm merge_influences",
}
