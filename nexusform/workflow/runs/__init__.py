"""A run: lock, look at what stands, take over what is adopted, plan."""

# What other rooms may use of this one.
DOOR = {
    "importing": (
        "address_to_import ENDING generated_block import_one refusal_to_generate Takeover "
        "take_over_from with_computed write_new"
    ),
    "locking": "break_lock find_holder Locking",
    "plan_verdicts": "judge",
    "run": "base_request begin Notices PlanOptions Run",
    "what_stands": "refresh",
}
