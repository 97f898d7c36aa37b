"""Start points of hypothetical plans without a configuration: objects of a state or plan.

Questions about a state or a saved plan start here: what happens to the objects after edits?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NoReturn

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, Module, Settings
from nexusform.diagnostics.diagnostic import DiagnosticsError, select_errors
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import Edit, apply_edits
from nexusform.planning.hypothesis.hypothetical_plan import plan_hypothesis
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.planning.replanning.capacity_remedies import add_remedies
from nexusform.planning.verdicts.placement_fit import DOES_NOT_FIT
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.scheduling.racks.uncertainty.splits import SplitChoice
from nexusform.state.objects import InstanceState, ObjectState, State


class _NoFiles:
    """File access of a plan without a configuration: nothing refers to a file."""

    def __getattr__(self, name: str) -> NoReturn:
        raise AssertionError(f"a plan without a configuration reads no file ({name})")


class StartPoint(Struct, frozen=True, dict=True):
    """Start point of questions: the request that keeps all objects, and its plan.

    The plan without edits is made once for all questions.
    """

    request: PlanRequest

    @cached_property
    def before(self) -> PlanResult:
        """The plan without edits."""
        return make_plan(self.request)

    def plan_site(self, site_id: str, edits: Sequence[Edit]) -> PlanResult:
        """Return the hypothetical plan with these edits; it has the site.

        It has no capacity rows. Raises DiagnosticsError if the objects cannot be planned, for
        example with an unknown SKU catalogue.
        """
        after = plan_hypothesis(self.request, edits, self.before, _keep_result).after
        if site_id not in after.sites:
            raise DiagnosticsError(*select_errors(after.diagnostics))
        return after

    def find_fixes(self, edits: Sequence[Edit], after: PlanResult) -> list[dict[str, Any]]:
        """Return the tested fixes of a hypothetical plan that lacks capacity, as documents.

        `after` is the plan with the edits. Other objects stay as they are.
        """
        request = apply_edits(self.request, edits)
        fixed = add_remedies(request, after, make_plan)
        for diagnostic in fixed.plan.diagnostics:
            if diagnostic.id == DOES_NOT_FIT:
                return list(diagnostic.extra["fit"].get("suggested_fixes", ()))
        return []

    def plan_layout(self, edits: Sequence[Edit], split_choice: SplitChoice) -> PlanResult:
        """Return the hypothetical plan with these edits in one layout of unknown NUMA cells."""
        request = replace(self.request, split_choice=split_choice, is_layout_fixed=True)
        return make_plan(apply_edits(request, edits))

    def replace_objects(self, objects: Iterable[SiteObject]) -> StartPoint:
        """Return the start point with other objects, such as those after a hypothetical plan."""
        return StartPoint(
            build_snapshot_request(
                objects,
                self.request.registries,
                self.request.state,
                self.request.now,
                self.request.recorded_machines,
            )
        )


def _keep_result(result: PlanResult, _request: PlanRequest) -> PlanResult:
    return result


def build_snapshot_request(
    objects: Iterable[SiteObject],
    registries: PluginRegistries,
    state: State,
    now: str,
    recorded_machines: frozenset[tuple[str, str]] | None = None,
) -> PlanRequest:
    """Return the request of the plan that keeps these objects, from a state or after a plan.

    It has no configuration: only edits change something. The platform re-creates lost nodes of NKS
    clusters. Other lost VMs stay down. `state` has the version of the SKU catalogue, and the unread
    facts of the data sources of the objects. `recorded_machines` (site id, name) exist before a
    plan; None for a state: all.
    """
    instances = {
        item.address: InstanceState(
            ObjectState(item.attributes, item.creation, private=item.note or {})
        )
        for item in objects
    }
    return PlanRequest(
        configuration=Configuration(Module((), "."), Settings(), {}),
        variables={},
        state=State(catalogue=state.catalogue, instances=instances, unread=state.unread),
        registries=registries,
        files=_NoFiles(),
        now=now,
        keeps_objects=True,
        recorded_machines=recorded_machines,
        samples=0,
        includes_remedies=False,
    )
