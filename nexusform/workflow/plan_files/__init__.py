"""Saved plans: write, sign, read, show, apply and resume."""

# Public names of the package, by module.
PUBLIC = {
    "approval_checks": "check_saved_plan_beside_apply",
    "import_execution": "import_with_new_file",
    "plan_execution": "apply_plan apply_remaining_steps PlanApplyOptions ApplyOutcome RESCUE",
    "resource_graph": "build_graph render_dot_svg",
    "remaining_steps": (
        "check_inputs_unchanged count_steps discard_remaining_steps open_remaining_steps "
        "check_interrupted_apply RemainingSteps find_remaining_steps"
    ),
    "saved_plans": (
        "load_plan_configuration open_limited_file open_saved_plan check_variables_unchanged "
        "build_plan_context get_planned_variables read_prior_state read_limited_file read_plan "
        "save_plan get_configuration_sources decrypt_document export_plan FORMATS "
        "build_failed_plan check_plan_path prepare_plan_file check_failed_plan save_failed_plan "
        "UNFINISHED"
    ),
    "show_target": "find_show_target ShownContent",
    "plan_signing": "check_signable sign_plan create_signer write_signed_plan",
    "plan_acceptance": (
        "PlanIdentity PlanVerification build_plan_identity check_plan_acceptance "
        "check_plan_signatures"
    ),
    "plan_revocations": "withdraw_plan",
    "plan_statement": "Signer StatementContent write_statement",
}
