"""Phases 5 and 6: members, what is selected, placements in rounds. Start at phase.py."""

# What other rooms may use of this one.
DOOR = {
    "asked": "asked_of",
    "beside_others": "OF_OTHERS ON_HUB OWNERS UID",
    "brought": "prepare_resources",
    "contents": "objects_on_clusters read_bindings",
    "hub": "Hub read_hub",
    "outcome": "placement_warnings",
    "overrides": "picked",
    "phase": "evict_once roll_out_all",
    "placement": "begin PlacementPlan",
    "rounds": "run_rounds",
    "rows": "binding_rows",
    "world": "Clusters clusters_of FleetMemberState member_of remembered ShownHub",
}
