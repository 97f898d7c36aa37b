"""Plans as bytes and back."""

# What other rooms may use of this one.
DOOR = {
    "comparison": "parts_made_otherwise things_seen_otherwise",
    "plan_file": (
        "digest each_member pack packed PLAN_OF_SITES read SavedPlan signature_of signature_over Torn unpack "
        "with_signature write"
    ),
    "record_codec": "write_record",
}
