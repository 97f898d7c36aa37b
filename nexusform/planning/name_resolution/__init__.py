"""Resolution of names during planning: variables, locals, modules, resources."""

# Public names of the package, by module.
PUBLIC = {
    "name_evaluation": "Evaluation",
    "repetition": "BlockExpansion",
    "value_origins": "ValueOriginTracer",
    "instance_scope": "InstanceScope ModuleInstance",
    "evaluation_settings": (
        "build_query_key FileReadRecorder PlanClock PreparedBodyCache build_evaluation_settings "
        "build_state_evaluation StateEvaluation"
    ),
}
