"""Hypothetical plans: the plan of a request with edits, beside the plan without them.

The plan without edits is made first: it has the objects that an assumption names.
"""

# Public names of the package, by module.
PUBLIC = {
    "hypothetical_plan": "plan_assumptions plan_hypothesis",
    "losses": "LossKind list_loss_kinds",
    "outages": "list_site_pools",
    "recreations": (
        "bound_missing_recreations count_missing_recreations has_capacity_in_layout "
        "list_recreated_pools"
    ),
    "start_points": "StartPoint build_snapshot_request",
}
