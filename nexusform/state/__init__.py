"""What nexusform remembers. Pure: bytes come from and go to a backend."""

# What other rooms may use of this one.
DOOR = {
    "codec": "decode encode from_plain_document path_text plain_document",
    "conformity": "misfits",
    "draft": "planned_records Remaining replayed StateDraft",
    "edits": "matching moved moves only_instance without without_taint",
    "journal": (
        "Begun Done encode Finished Intent Moved NO_STEP OpenIntent Planned Progress read Record UnderWay"
    ),
    "json_text": "as_text collector_paused dumps JsonProblem loads plain_mapping",
    "objects": "EMPTY InstanceState ObjectState OutputState State",
}
