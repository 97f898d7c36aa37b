"""A saved plan as what VNF managers carry out."""

from __future__ import annotations

import json

from nexusform.diagnostics import Diagnostic, warning
from nexusform.domains.vnf.rendering.sol003 import grant_requests
from nexusform.plans.plan import Plan
from nexusform.words import first_of


def sol003(plan: Plan) -> tuple[str, list[Diagnostic]]:
    """Requests for grants; "" where the plan has no VNFs."""
    grants = grant_requests(plan)
    problems: list[Diagnostic] = []
    if grants.unsaid:
        detail = (
            "A placement constraint lets two VNFCs share a place or not, so what is written is stricter than "
            f"the plan: {first_of(grants.unsaid, 5)}."
        )
        problems.append(warning("not-said-in-the-export", detail))
    if not grants.requests:
        return "", problems
    return json.dumps(grants.requests, indent=2, ensure_ascii=False) + "\n", problems
