"""Tests of consequences of a replay: those that the approved plan covers, and those it does not."""

from __future__ import annotations

from typing import Any

import pytest

from nexusform.placements.consequence_record import Consequence, ConsequenceKind
from nexusform.placements.consequences import ConsequenceSeverity
from nexusform.plans.impact.approved_consequences import list_unapproved_consequences
from nexusform.plans.plan import Plan, PlanImpact


def build_plan(**values: Any) -> Plan:
    """Return a plan with one consequence: the end of a namespace and three objects in it."""
    fields: dict[str, Any] = {
        "kind": ConsequenceKind.ENDS,
        "risk": "destroyed-object",
        "severity": ConsequenceSeverity.LASTING,
        "subject": "Namespace web and 3 objects",
        "text": "Namespace web is deleted",
        "address": "fleet_hub_manifest.web",
        "objects": 3,
    }
    return Plan(
        changes=(), placements=(), impact=PlanImpact(consequences=(Consequence(**fields | values),))
    )


@pytest.mark.parametrize(
    ("values", "is_approved"),
    [
        # Some objects were deleted already: the name of the rest counts fewer.
        ({"subject": "Namespace web", "objects": 0}, True),
        ({"subject": "Namespace web and 4 objects", "objects": 4}, False),
        ({"address": "fleet_hub_manifest.other"}, False),
        ({"risk": "replaced-object", "kind": ConsequenceKind.REPLACED}, False),
        # An object on a cluster is known by its name: an address has many.
        ({"risk": "destroyed-content", "subject": "ConfigMap web/b"}, False),
    ],
)
def test_end_of_a_resource_is_approved_by_its_address(
    values: dict[str, Any], is_approved: bool
) -> None:
    clauses = list_unapproved_consequences(build_plan(), build_plan(**values))
    assert (clauses == []) is is_approved
