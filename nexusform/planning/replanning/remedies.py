"""Remedies of a plan, each tested by a plan of its own, with their price.

The price of a remedy are the consequences of its plan that the plan without it does not have.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import join_texts
from nexusform.placements.consequence_record import Consequence, build_consequence_document
from nexusform.placements.consequences import ConsequenceSeverity, get_worst_severity
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_sites
from nexusform.planning.conclusion.vm_placement_rows import build_unplaced_vm_rows
from nexusform.planning.plan_request import ArgumentAdjustment, PlanRequest
from nexusform.planning.verdicts.numa_samples import format_numa_sampling, is_certain_fit
from nexusform.plans.impact.consequence_texts import format_price
from nexusform.plans.impact.consequence_views import select_added_consequences
from nexusform.plans.impact.risk_assessment import compute_consequences


class Remedy(Struct, frozen=True):
    """One remedy: its kind, its text, its data (`change`), and the plan that tests it.

    It also has the arguments to change, if that is sufficient. `remark` follows the text and
    the price.
    """

    kind: str
    text: str
    outcome: PlanResult
    change: dict[str, Any] = field(default_factory=dict)
    edits: tuple[ArgumentAdjustment, ...] = ()
    remark: str = ""
    price: tuple[Consequence, ...] = ()

    @property
    def severity(self) -> ConsequenceSeverity:
        """Worst severity of the price."""
        return get_worst_severity(consequence.severity for consequence in self.price)


class RemedyPricing:
    """Prices of the remedies of a plan.

    `result` is the plan without a remedy; its sites before the plan are those of all trials.
    """

    def __init__(self, request: PlanRequest, result: PlanResult) -> None:
        self._registries = request.registries
        # A hypothetical plan has rows of VMs that fit nowhere.
        self._lacks_rows = not request.allows_shortage
        self._result = result
        # Most plans have no remedy.
        self._own_consequences: tuple[Consequence, ...] | None = None

    def add_price(self, remedy: Remedy) -> Remedy:
        """Return a remedy with its price."""
        types = self._registries.resource_types
        if self._own_consequences is None:
            self._result = add_sites(self._result, self._registries)
            plan = self._result.plan
            if self._lacks_rows:
                unplaced = build_unplaced_vm_rows(self._result.objects.values())
                plan = replace(plan, placements=(*plan.placements, *unplaced))
            self._own_consequences = compute_consequences(plan, types, includes_failed=True)
        trial = replace(remedy.outcome, occupied_before=self._result.occupied_before)
        plan = add_sites(trial, self._registries).plan
        consequences = compute_consequences(plan, types, includes_failed=True)
        price = select_added_consequences(consequences, self._own_consequences)
        return replace(remedy, price=price)


def sort_by_price(remedies: Iterable[Remedy]) -> list[Remedy]:
    """Return remedies without a loss first, those with a lasting loss last."""
    return sorted(remedies, key=lambda remedy: remedy.severity.rank)


def format_remedy(remedy: Remedy) -> str:
    """Return the text of a remedy, then its price, its certainty and its remark."""
    price = format_price(remedy.price)
    text = remedy.text
    if price:
        text = f"{text.removesuffix('.')}."
    return join_texts((text, price, _format_certainty(remedy.outcome), remedy.remark), " ")


def _format_certainty(outcome: PlanResult) -> str:
    """Return how many samples fit; "" if no unknown NUMA cell affects the remedy."""
    numa_sampling = outcome.plan.figures.numa_sampling
    if numa_sampling is None:
        return ""
    if is_certain_fit(outcome.sites):
        return "It is certain."
    return f"It fits {format_numa_sampling(numa_sampling)}."


def format_numbered_remedies(title: str, remedies: Sequence[Remedy]) -> str:
    """Format a title and the remedies below it, one numbered line each."""
    lines = [f" {number}. {format_remedy(remedy)}" for number, remedy in enumerate(remedies, 1)]
    return "\n".join([title, *lines])


def build_remedy_document(remedy: Remedy) -> dict[str, Any]:
    """Return a remedy for plan documents."""
    edits = [
        {"address": str(edit.address), "path": list(edit.path), "value": edit.value}
        for edit in remedy.edits
    ]
    return {
        "kind": remedy.kind,
        "text": format_remedy(remedy),
        **remedy.change,
        "severity": remedy.severity.value,
        "consequences": list(map(build_consequence_document, remedy.price)),
        "edits": edits,
    }
