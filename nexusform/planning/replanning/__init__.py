"""Repeated plans: to test remedies, or with all values known at apply."""

# Public names of the package, by module.
PUBLIC = {
    "known_after_apply": (
        "finalize_plan WrongOutput FinalResults evaluate_final_results evaluate_write_only "
        "WriteOnlyValues"
    ),
    "step_replay": "build_replay_request",
    "trials": "plan_trial",
}
