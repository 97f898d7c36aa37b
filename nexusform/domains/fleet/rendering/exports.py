"""Exports of a saved plan for hubs and clusters."""

from __future__ import annotations

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.domains.fleet.rendering.manifest_export import render_fleet_manifests, render_node_labels
from nexusform.plans.plan import Plan
from nexusform.resource_types.registry import build_registries


def export_manifests(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Render the fleet objects of a plan as Kubernetes manifests."""
    export = render_fleet_manifests(plan, build_registries())
    return export.text, [build_warning("missing-in-export", sentence) for sentence in export.limitations]


def export_node_labels(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Render the node labels of a plan as `kubectl label` commands."""
    return render_node_labels(plan), []
