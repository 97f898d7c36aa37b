"""Configuration and prior state to a Plan. Pure; start reading at planner.py."""

# What other rooms may use of this one.
DOOR = {
    "phases": "claimed_in Contribution HostedWorkload Instances Phases",
    "planner": "make_plan",
    "pool_reasons": "explain_pools",
    "request": "Adjustment DataValues Imported PlanRequest Progress Stage",
}
