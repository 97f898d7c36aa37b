"""A plan as rows, for every format alike: what changes, what is placed, what a reader must know."""

# What other rooms may use of this one.
DOOR = {
    "code_origin": "CodeOrigin",
    "entries": "Finding plan_findings",
    "folding": "instance_texts instances_text names_text",
    "object_rows": "object_folds",
    "overview": "stake_of",
    "placement_rows": "Detail",
    "report": "schema_lookup",
    "stakes": "endangered ending_rules",
    "wording": "claims_text",
}
