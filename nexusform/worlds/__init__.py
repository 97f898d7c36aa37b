"""Who stands where, read from a state or a plan alike, and what else would fit."""

# What other rooms may use of this one.
DOOR = {
    "availability": (
        "ask_again down_by_cluster DrawnRoom place_anew PlacedAnew pool_left PoolLeft pools_hit "
        "quorum_of Replacement"
    ),
    "other_places": "find_ways Need Way",
    "world_view": (
        "Cluster holds_when_empty lists_hardware OwnerKind Pool SiteView things_after things_of_state "
        "view_world WorldView"
    ),
}
