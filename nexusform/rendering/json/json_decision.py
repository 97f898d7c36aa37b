"""Key `decision` of a plan document: the figures of the decision block."""

from typing import Any, Final

from nexusform.json_data.record_forms import RecordForm
from nexusform.plans.impact.decision_figures import (
    DrainMinuteRange,
    ImpactSummary,
    PlacementConfidenceSummary,
    SpareCapacitySummary,
    SurgeVerdict,
    build_decision,
)
from nexusform.plans.plan import Plan
from nexusform.plans.plan_checks import GuardRailResult, PreviousPlanDifferences
from nexusform.scheduling.racks.vms import Interval

_IMPACT_FORM: Final = RecordForm(
    ImpactSummary,
    "recreated moved removed host_lost max_down minutes [stopped] [max_stopped]",
    minutes=RecordForm(DrainMinuteRange),
)
_CONFIDENCE_FORM: Final = RecordForm(
    PlacementConfidenceSummary, "vms exact_rack_counts exact_machines pods certain_pods [doubts]"
)


def _convert_number(number: float) -> float:
    """Return a whole number as an integer."""
    return int(number) if number.is_integer() else number


_GUARD_RAIL_FORM: Final = RecordForm(
    GuardRailResult, "name limit value result [reason]", limit=_convert_number, value=_convert_number
)
_SINCE_FORM: Final = RecordForm(PreviousPlanDifferences)
_UPGRADE_FORM: Final = RecordForm(SurgeVerdict, "site cluster result")


def build_decision_document(plan: Plan) -> dict[str, Any]:
    """Build the figures of a plan. Capacity is the certain number of VMs, null if unknown."""
    decision = build_decision(plan)
    return {
        "impact": _IMPACT_FORM(decision.impact),
        "capacity": list(map(_build_spare_capacity, decision.capacity)),
        "upgrades": list(map(_UPGRADE_FORM, decision.upgrades)),
        "confidence": _CONFIDENCE_FORM(decision.confidence),
        "guard_rails": list(map(_GUARD_RAIL_FORM, decision.guard_rails)),
        "since": None if plan.since is None else _SINCE_FORM(plan.since),
    }


def _build_spare_capacity(row: SpareCapacitySummary) -> dict[str, Any]:
    """Build the minimum figures of a site; those before are None for a new site, and all are None without data."""

    def get_minimum(figure: Interval | None) -> int | None:
        return None if figure is None or row.lacks_data else figure.minimum

    return {
        "site": row.site,
        "vm_sku_name": row.vm_sku_name,
        "before": get_minimum(row.before),
        "after": get_minimum(row.after),
        "rack_down_before": get_minimum(row.rack_down_before),
        "rack_down_after": get_minimum(row.rack_down_after),
    }
