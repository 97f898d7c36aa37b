"""Plans as bytes and back."""

# What other rooms may use of this one.
DOOR = {
    "comparison": "parts_made_otherwise things_seen_otherwise",
    "plan_file": (
        "digest member_at pack packed PLAN_OF_SITES read SavedPlan signature_of signature_over unpack "
        "with_signature write"
    ),
    "record_codec": "write_record",
}
