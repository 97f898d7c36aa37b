"""Fleet phases of a plan: members, selected resources, placements in iterations.

Start at placement_phase.py.
"""

# public names of the package, by module.
PUBLIC = {
    "placement_spec": "build_placement_spec",
    "foreign_field_merge": "FOREIGN_FIELDS ON_HUB OWNERS UID DELETING",
    "selected_resources": "OPEN_CLUSTERS select_placement_resources",
    "placement_records": (
        "list_cluster_objects read_bindings read_applied_resources AppliedResources "
        "compute_body_hash"
    ),
    "planned_hub": "build_planned_hub",
    "fleet_outcome": "build_placement_warnings",
    "override_rendering": "select_overrides ClusterRenderer RenderedResources expand_envelopes",
    "placement_phase": "execute_evictions plan_rollouts",
    "placement_plan": "create_placement_plan PlacementPlan",
    "placement_iterations": "run_iterations",
    "binding_rows": "build_binding_rows",
    "fleet_snapshot": (
        "build_member_clusters FleetMemberState build_member parse_member_record ObservedHub"
    ),
    "recorded_case_prediction": "decide_placement",
    "fleet_phases": "find_planned_fleet",
}
