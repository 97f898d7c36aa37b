"""Consequences of a plan: objects that it ends, and risks that it causes, as rows."""

from collections.abc import Iterator

from msgspec import Struct

from nexusform.plans.impact.ended_objects import list_destroyed_objects, list_replaced_objects
from nexusform.plans.impact.risk_assessment import RiskSeverity, list_plan_risks
from nexusform.plans.plan import Plan


class Consequence(Struct, frozen=True):
    """An object that a plan ends, or a risk that it causes.

    `kind` is destroyed, replaced or risk. Only a risk has an id and a severity: the others are
    lasting if they are destroyed.
    """

    kind: str
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
    for kind, objects in (
        ("destroyed", list_destroyed_objects(plan)),
        ("replaced", list_replaced_objects(plan)),
    ):
        for ended in objects:
            is_lasting = kind == "destroyed"
            yield Consequence(kind, ended.name, ended.address, ended.text, is_lasting)
    for risk in list_plan_risks(plan):
        is_lasting = risk.severity is RiskSeverity.LASTING
        severity = risk.severity.value
        yield Consequence(
            "risk", risk.subject, risk.address, risk.text, is_lasting, risk.risk, severity
        )
