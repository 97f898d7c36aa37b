"""VMs on bare-metal machines: the rule of docs/fidelity.md."""

# What other rooms may use of this one.
DOOR = {
    "certainty": (
        "default_runs FEWEST_RUNS MOST_RUNS Operation PoolCertainty repeat replay Stand Token VmPlaced "
        "VmReleased"
    ),
    "engine": "RackScheduler",
    "explanation": "Explanation Ranked Ranking Shortage",
    "rooms": "Share",
    "rule": "KeyPart MachineFilter RoomFilter",
    "splits": "kept_away name_of PACKED Roomiest RULES Splits SPREAD Way",
    "vms": (
        "anybodys ANYWHERE common_terms CONTROL_PLANE DEFAULT_SEED Demand gib Hint HintScope Interval "
        "Machine MachineSku MIB_PER_GIB Placement RackSpread StandingVm Terms total VFS_PER_CELL VmName "
        "VmSku whole_mib"
    ),
}
