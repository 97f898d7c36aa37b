"""VMs on bare-metal machines: the rule of docs/fidelity.md."""

# What other rooms may use of this one.
DOOR = {
    "engine": "RackScheduler",
    "explanation": "Explanation Ranked Ranking Shortage",
    "layout": "Share",
    "rule": "KeyPart MachineFilter RoomFilter",
    "vms": (
        "anybodys ANYWHERE common_terms CONTROL_PLANE DEFAULT_SEED Demand gib Hint HintScope Interval "
        "Machine MachineSku MIB_PER_GIB Placement RackSpread StandingVm Terms total VFS_PER_CELL VmName "
        "VmSku whole_mib"
    ),
}
