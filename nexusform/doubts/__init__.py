"""Doubts: unknown properties of a subject, and their possible effects."""

# Public names of the package, by module.
PUBLIC = {
    "doubt": "Doubt Influence build_doubt_rows is_doubt_row read_doubt_rows",
    "findings": "build_finding_doubts hides_bindings hides_capacity",
    "ledger": "DoubtLedger PlacedPool build_ledger explain_uncertain_vm merge_influences",
}
