"""Export of a saved plan for VNF managers."""

from __future__ import annotations

import json

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.diagnostics.phrases import format_first_items
from nexusform.domains.vnf.rendering.sol003 import build_grant_requests
from nexusform.plans.plan import Plan


def export_sol003(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Export the grant requests as JSON; "" if the plan has no VNFs."""
    grants = build_grant_requests(plan)
    problems: list[Diagnostic] = []
    if grants.inexact_rules:
        detail = (
            "A SOL003 constraint either allows or forbids a shared location, so the export is "
            f"stricter than the plan: {format_first_items(grants.inexact_rules, 5)}."
        )
        problems.append(build_warning("missing-in-export", detail))
    without_id = [address for address, request in grants.requests.items() if "vnfdId" not in request]
    if without_id:
        names = format_first_items(without_id, 5)
        detail = f"SOL003 requires vnfdId, and these VNFs have no VNFD with a descriptor_id: {names}."
        problems.append(build_warning("missing-in-export", detail))
    if not grants.requests:
        return "", problems
    return json.dumps(grants.requests, indent=2, ensure_ascii=False) + "\n", problems
