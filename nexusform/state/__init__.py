"""State documents, journals and edits.

The package is pure: backends read and write the bytes.
"""

# Public names of the package, by module.
PUBLIC = {
    "state_codec": (
        "decode_state encode_state decode_plain_document format_json_path build_plain_document"
    ),
    "attribute_validation": "validate_attributes validate_private_data validate_schema_version",
    "earlier_keys": "rename_earlier_keys",
    "state_draft": "build_plan_parts UnfinishedApply build_draft StateDraft",
    "state_edits": (
        "select_instances move_instances plan_moves find_instance remove_instances remove_taint"
    ),
    "journal": (
        "ApplyStart InstanceOutcome encode_journal_record find_journal_end ApplyEnd Intent "
        "InstanceMoves NO_STEP OpenStepIntent OPERATION_CONTINUATION PlanPart ApplyProgress "
        "parse_journal Record RecordSequence RunningOperation"
    ),
    "json_codec": "decode_text_for_display render_json JsonProblem parse_json convert_mapping",
    "objects": (
        "EMPTY EMPTY_INSTANCE InstanceState ObjectState OutputState State get_current_object "
        "iterate_current_objects replace_note_entry"
    ),
}
