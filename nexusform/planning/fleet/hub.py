"""What stands on the hub in a plan: objects, and what acts on placements."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from nexusform.diagnostics import Diagnostic, Problem
from nexusform.importers.fleet_model import (
    FleetBudget,
    FleetEviction,
    FleetOverride,
    FleetRun,
    FleetStrategy,
    HubObjects,
)
from nexusform.importers.kubernetes_manifests import Manifest, unwrapped
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action
from nexusform.scheduling.fleet.staged import transition_problem

_DOING = (Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_ONCE = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


class Hub(Struct):
    """`manifests` in the order of their resources and documents. `evictions` and `runs` are those that
    this plan carries out, with the instance they come from.
    """

    manifests: list[Manifest] = field(default_factory=list)
    overrides: list[FleetOverride] = field(default_factory=list)
    budgets: dict[str, tuple[Instance, FleetBudget]] = field(default_factory=dict)
    evictions: list[tuple[Instance, FleetEviction]] = field(default_factory=list)
    strategies: dict[str, FleetStrategy] = field(default_factory=dict)
    runs: list[tuple[Instance, FleetRun]] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def take(self, instance: Instance) -> None:
        """Add what an instance is."""
        assert instance.type.fleet is not None
        assert instance.planned is not None
        thing = instance.type.fleet(instance.planned)
        match thing:
            case HubObjects():
                self._take_objects(instance, thing)
            case FleetOverride():
                self.overrides.append(thing)
            case FleetBudget():
                self.budgets[thing.placement] = (instance, thing)
            case FleetEviction() if instance.action in _ONCE:
                self.evictions.append((instance, thing))
            case FleetStrategy():
                self.strategies[thing.name] = thing
            case FleetRun():
                self._take_run(instance, thing)
            case _:
                return

    def _take_objects(self, instance: Instance, objects: HubObjects) -> None:
        if not objects.cluster_id:
            self.manifests += objects.manifests
        for finding in unwrapped(objects.manifests).findings:
            line = f":{finding.line}" if finding.line else ""
            detail = f"yaml_body{line}: {finding.detail}"
            problem = Problem(("yaml_body",), finding.id, detail, finding.severity)
            self.diagnostics.append(instance.problem(problem))

    def _take_run(self, instance: Instance, run: FleetRun) -> None:
        if instance.before is not None and not instance.replaced and instance.type.fleet is not None:
            old = instance.type.fleet(instance.before)
            wrong = transition_problem(old.state, run.state) if isinstance(old, FleetRun) else None
            if wrong is not None:
                text = f"{wrong[:1].upper()}{wrong[1:]}. Make another run, or replace it with -replace."
                self.diagnostics.append(instance.error("invalid-state-of-a-staged-run", text, ("state",)))
                return
        if instance.action in _DOING:
            self.runs.append((instance, run))


def read_hub(instances: Iterable[Instance]) -> Hub:
    """The hub of a plan."""
    hub = Hub()
    for instance in instances:
        if instance.type.fleet is None or instance.going or instance.broken or instance.planned is None:
            continue
        hub.take(instance)
    return hub
