"""Resolution of names during planning: variables, locals, modules, resources."""

# Public names of the package, by module.
PUBLIC = {
    "evaluation": "Evaluation",
    "origins": "ValueOrigins",
    "scope": "InstanceScope",
    "evaluation_settings": (
        "build_question_key RecordedFiles PlanClock PreparedBodies build_settings build_state_evaluation "
        "StateEvaluation"
    ),
}
