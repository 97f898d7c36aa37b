"""What is not sure of placements: ties that other seeds break otherwise, and cells that nobody told."""

# What other rooms may use of this one.
DOOR = {
    "certainty": (
        "default_runs FEWEST_RUNS MOST_RUNS Operation PoolCertainty repeat replay Stand Token VmPlaced "
        "VmReleased"
    ),
    "splits": "kept_away name_of PACKED Roomiest RULES Splits SPREAD Way",
}
