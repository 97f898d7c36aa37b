"""VM placement on bare-metal machines: the rule of docs/fidelity.md."""

# Public names of the package, by module.
PUBLIC = {
    "rack_scheduler": "RackScheduler",
    "explanation": "DecisionExplanation RankedCandidate MachineRanking",
    "layout": "Share FreeCapacity NumberedSite",
    "rule": (
        "RankingFigure MachineFilter CapacityFilter CountFilter Filter RankedItemKind MachineLoad "
        "RejectionCheck Weigh ShortageContext CapacityCheck DemandFilter"
    ),
    "vms": (
        "build_standalone_demand format_pool_name NO_CONSTRAINTS find_common_constraints "
        "CONTROL_PLANE DEFAULT_SEED "
        "Demand convert_to_gib Hint HintScope Interval Machine MachineStatus MachineSku "
        "MIB_PER_GIB Placement RackSpread ScheduledVm PlacementConstraints sum_count_intervals "
        "VFS_PER_CELL VmName VmSku round_up_to_mib NoFitReason UNKNOWN_STATE UnschedulableReason "
        "join_reasons"
    ),
    "profile": "RACK_KEYS MACHINE_KEYS SchedulerProfile",
}
