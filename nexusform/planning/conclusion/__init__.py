"""What was worked out to the plan: changes, rows, tables, steps. Start at conclusion.py."""

# What other rooms may use of this one.
DOOR = {
    "changes": "drift_between",
    "conclusion": "without_changes",
    "conservation": "kinds_held names_of",
    "result": "ExplainedVm PlanResult",
    "room_left": "with_room",
    "running_out": "RUNS_OUT",
}
