"""Fleet phases of a plan: members, selected resources, placements in iterations.

Start at placement_phase.py.
"""

# public names of the package, by module.
PUBLIC = {
    "foreign_field_merge": "FOREIGN_FIELDS ON_HUB OWNERS UID DELETING",
    "selected_resources": "OPEN_CLUSTERS",
    "placement_records": (
        "read_bindings read_applied_resources AppliedResources compute_body_hash CONDITIONAL"
    ),
    "override_rendering": (
        "select_overrides ClusterRenderer RenderedResources collect_selection_keys expand_envelopes"
    ),
    "placement_plan": "PlacementPlan",
    "fleet_phases": "find_planned_fleet",
}
