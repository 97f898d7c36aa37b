"""What names mean while a plan is made: variables, locals, modules, resources."""

# What other rooms may use of this one.
DOOR = {
    "evaluation": "Evaluation",
    "origins": "Origins",
    "scope": "InstanceScope",
    "setting": (
        "key_of_question NotedFiles PlanClock PreparedBodies setting_for standing_evaluation "
        "StandingEvaluation"
    ),
}
