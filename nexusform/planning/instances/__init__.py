"""Blocks to instances: arguments, differences and actions.

Start at block_planner.py.
"""

# Public names of the package, by module.
PUBLIC = {
    "argument_evaluation": "find_unknown_placement_arguments build_unknown_placement_error",
    "block_planner": "BlockPlanner expose_instance",
    "condition_checks": "evaluate_condition build_failure ID_OF_CONDITION",
    "attribute_differences": "plan_attributes",
    "instance": "ActionDecision EvaluatedArguments Instance",
}
