"""A saved plan as what a hub and clusters take."""

from __future__ import annotations

from nexusform.diagnostics import Diagnostic, warning
from nexusform.domains.fleet.rendering.manifests import fleet_manifests, node_labels_script
from nexusform.plans.plan import Plan
from nexusform.resource_types.registry import registries


def manifests(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Kubernetes manifests of fleet objects."""
    export = fleet_manifests(plan, registries())
    return export.text, [warning("not-said-in-the-export", each) for each in export.unsaid]


def node_labels(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """`kubectl label` commands."""
    return node_labels_script(plan), []
