"""Blocks to instances: their arguments, what changes, and what becomes of each. Start at blocks.py."""

# What other rooms may use of this one.
DOOR = {
    "argument_evaluation": "undecided undecided_error",
    "blocks": "Blocks show",
    "condition_verdicts": "evaluate_condition failure ID_OF_CONDITION",
    "difference": "planned_attributes",
    "instance": "Arguments Decision Instance",
}
