"""Consequences of a plan: objects that it ends, and risks that it causes, as rows."""

from collections.abc import Iterator

from msgspec import Struct

from nexusform.plans.impact.ended_objects import list_destroyed_objects, list_replaced_objects
from nexusform.plans.impact.risk_assessment import RiskSeverity, list_plan_risks
from nexusform.plans.plan import Plan


class Consequence(Struct, frozen=True):
    """An object that a plan ends, or a risk that it causes.

    `kind` is destroyed, replaced or risk, `finding_id` the id of its diagnostic. Only a risk has a
    name and a severity of its own: the others are lasting if they are destroyed.
    """

    kind: str
    finding_id: str
    name: str
    address: str
    text: str
    is_lasting: bool
    risk: str = ""
    severity: str = ""


def list_consequences(plan: Plan) -> Iterator[Consequence]:
    """Yield the destroyed objects, the replaced ones, then the risks that the plan causes.

    Risks that the state had before the plan are findings already.
    """
    for kind, finding_id, objects in (
        ("destroyed", "destroyed-object", list_destroyed_objects(plan)),
        ("replaced", "replaced-object", list_replaced_objects(plan)),
    ):
        for ended in objects:
            is_lasting = kind == "destroyed"
            yield Consequence(kind, finding_id, ended.name, ended.address, ended.text, is_lasting)
    for risk in list_plan_risks(plan):
        is_lasting = risk.severity is RiskSeverity.LASTING
        yield Consequence(
            "risk",
            risk.risk,
            risk.subject,
            risk.address,
            risk.text,
            is_lasting,
            risk.risk,
            risk.severity.value,
        )
