"""Plans that are saved: written, signed, read again, shown, applied, and gone on with."""

# What other rooms may use of this one.
DOOR = {
    "apply": "apply_plan apply_rest ApplyOptions ApplyOutcome RESCUE",
    "exporting": "export_plan FORMATS",
    "graph": "find_graph svg_of_dot",
    "resuming": "differences discard find_rest remarks_on_rest Rest rest_of",
    "saved_plans": (
        "configuration_of open_limited open_saved other_variables place_of_plan planned_variables "
        "prior_of read_limited read_plan save_plan Signer sources_of unsealed"
    ),
    "show": "find_shown Shown",
    "signed_plans": "sign_plan signature_problems signer_of write_signed",
}
