"""Planning: configuration and prior state to a Plan.

Pure; start reading at planner.py.
"""

# Public names of the package, by module.
PUBLIC = {
    "edits": (
        "AddedBlocks Edit LostMachines MachineOutage PlacementOrder RemovedInstance VmReplacement"
    ),
    "phases": "collect_claims DomainPhasesResult ProposedFix ScheduledPod Instances DomainPhases",
    "planner": "make_plan",
    "plan_request": (
        "ArgumentAdjustment ValueOverride ImportedObject PlanRequest Progress PlanningStage"
    ),
}
