"""Helpers to plan configurations, and to build the states after a successful apply."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nexusform.configuration.loader import load_configuration, read_root_variables
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, has_errors
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.planner import make_plan
from nexusform.plans.impact.risk_assessment import compute_consequences
from nexusform.plans.plan import Action, Change, PlacementChange, Plan
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address, parse_address
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State

NOW = "2026-01-01T00:00:00Z"

SITE = 'resource "nexus_site" "s" {}\n'
RACKS = """
resource "nexus_site" "s" {}
resource "nexus_rack" "r" {
  count         = 3
  name          = "r${count.index}"
  site_id       = nexus_site.s.id
  machine_count = 4
}
"""


@cache
def build_all_types() -> PluginRegistries:
    return build_registries()


def add_consequences(made: Plan) -> Plan:
    """Return a plan with its consequences, for plans that are not completed with their sites."""
    types = build_all_types().resource_types
    return replace(
        made, impact=replace(made.impact, consequences=compute_consequences(made, types))
    )


class UnreadableConfigurationError(Exception):
    """Raised if the configuration is rejected before planning."""

    def __init__(self, problems: Sequence[Diagnostic]) -> None:
        super().__init__("; ".join(f"{p.summary}: {p.detail}" for p in problems))
        self.problems = tuple(problems)


def plan(
    files: str | Mapping[str, Any],
    state: State = EMPTY,
    *,
    variables: Sequence[str] = (),
    samples: int | None = 0,
    suggested_fixes: bool = False,
    directory: str = "",
    files_there: Any = None,
    **options: Any,
) -> PlanResult:
    """Plan files in `directory` or in a temporary one.

    Text is main.nf.hcl; values other than text are written as JSON.
    """
    with contextlib.ExitStack() as stack:
        # Planning reads its files, too.
        name = directory or stack.enter_context(tempfile.TemporaryDirectory())
        request = build_request(
            files,
            state,
            variables=variables,
            samples=samples,
            suggested_fixes=suggested_fixes,
            directory=name,
            files_there=files_there,
            **options,
        )
        return make_plan(request)


def build_request(
    files: str | Mapping[str, Any],
    state: State = EMPTY,
    *,
    variables: Sequence[str] = (),
    samples: int | None = 0,
    suggested_fixes: bool = False,
    directory: str = "",
    files_there: Any = None,
    **options: Any,
) -> PlanRequest:
    """Return the request of `plan`; without `directory` its files are gone afterwards."""
    texts = {"main.nf.hcl": files} if isinstance(files, str) else files
    types = build_all_types()
    with contextlib.ExitStack() as stack:
        name = directory or stack.enter_context(tempfile.TemporaryDirectory())
        for path, content in texts.items():
            file = Path(name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        configuration, problems = load_configuration(
            name, cache_directory=None, managed=types.schemas["managed"], data=types.schemas["data"]
        )
        if configuration is None or has_errors(problems):
            raise UnreadableConfigurationError(problems)
        values, problems = read_root_variables(
            configuration,
            environment={},
            var_options=[("var", v) for v in variables],
            directory=name,
        )
        if has_errors(problems):
            raise UnreadableConfigurationError(problems)
        return PlanRequest(
            configuration,
            {n: value for n, (value, _) in values.items()},
            state,
            types,
            files_there,
            NOW,
            samples=samples,
            includes_remedies=suggested_fixes,
            **options,
        )


def plan_without_certainty(
    files: str | Mapping[str, Any], state: State = EMPTY, **options: Any
) -> PlanResult:
    """Plan files like `plan`, with every pod counted as certain.

    Predictions under other assumptions take most of the time of a plan.
    """
    return plan(files, state, verifies_certainty=False, **options)


def list_errors(result: PlanResult) -> list[Diagnostic]:
    return [d for d in result.plan.diagnostics if d.severity is Severity.ERROR]


def list_warnings(result: PlanResult) -> list[Diagnostic]:
    return [d for d in result.plan.diagnostics if d.severity is Severity.WARNING]


def require_success(result: PlanResult) -> PlanResult:
    """Return the result after a check for errors."""
    assert not result.plan.errored, [(d.summary, d.detail) for d in list_errors(result)]
    return result


def build_state_after(result: PlanResult, state: State = EMPTY) -> State:
    """Return the state after an apply with every step successful."""
    require_success(result)
    found = {
        c.address: InstanceState(build_object_state(c))
        for c in result.plan.changes
        if c.after is not None
    }
    return State(
        state.lineage or "lineage",
        state.serial + 1,
        "0.1",
        result.plan.start.catalogue,
        found,
        dict(result.plan.root_values.planned_outputs),
        (),
        max([state.last_creation, *(c.creation for c in result.plan.changes)]),
    )


def build_object_state(change: Change) -> ObjectState:
    assert change.after is not None
    return ObjectState(
        change.after,
        change.creation,
        change.sensitive_after,
        change.dependencies,
        create_before_destroy=change.create_before_destroy,
        skip_destroy=change.skip_destroy,
        provider=change.provider,
        private=change.private,
    )


def build_state(files: str | Mapping[str, Any], state: State = EMPTY, **options: Any) -> State:
    return build_state_after(plan(files, state, **options), state)


def at(text: str) -> Address:
    return parse_address(text)


def attributes(state: State, address: str) -> Mapping[str, Any]:
    current = state.instances[at(address)].current
    assert current is not None
    return current.attributes


def vms(state: State) -> dict[str, dict[str, Any]]:
    """Return every VM of a state with its placement, by name."""
    found: dict[str, dict[str, Any]] = {}
    for instance in state.instances.values():
        assert instance.current is not None
        values = instance.current.attributes
        found |= values.get("nodes") or {}
        if "cpu_cores" in values:
            found[values["name"]] = {**values, "numa_cells": values["cells"]}
    return found


def list_places(state: State) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (vm["machine"], tuple(vm["numa_cells"] or ())) for name, vm in vms(state).items()}


def list_rows(result: PlanResult) -> dict[str, PlacementChange]:
    """Return the rows of changed VMs, by name."""
    return {r.object: r for r in result.plan.placements if r.action != "keep"}


def list_triggers(result: PlanResult) -> dict[str, tuple[str, str]]:
    """Return the (action, trigger) of every changed VM."""
    return {name: (str(row.action), row.trigger) for name, row in list_rows(result).items()}


def list_actions(result: PlanResult) -> dict[str, str]:
    """Return the actions of changed objects, by address."""
    return {
        str(c.address): str(c.action) for c in result.plan.changes if c.action is not Action.NO_OP
    }


def get_change(plan_: Plan, address: str) -> Change:
    return next(c for c in plan_.changes if str(c.address) == address)


def list_addresses(result: PlanResult) -> list[str]:
    """Return the addresses in planning order."""
    return [str(c.address) for c in result.plan.changes]


def is_empty(result: PlanResult) -> bool:
    moved = any(r.action != "keep" for r in result.plan.placements)
    return not result.plan.has_changes and not result.plan.steps and not moved


def get_line(diagnostic: Diagnostic) -> tuple[str, int]:
    assert diagnostic.subject is not None, diagnostic
    return diagnostic.subject.filename.rsplit("/", 1)[-1], diagnostic.subject.start.line


def cluster(
    name: str, *, arguments: str = "", pools: str = "", plane: str = "NC_G6_28_v1", count: int = 1
) -> str:
    return f"""
resource "nexus_kubernetes_cluster" "{name}" {{
  site_id = nexus_site.s.id
  {arguments}
  control_plane {{
    count       = {count}
    vm_sku_name = "{plane}"
  }}
  {pools}
}}
"""


def pool(name: str, count: int | str, sku: str = "NC_G6_28_v1", more: str = "") -> str:
    return f"""
  agent_pool "{name}" {{
    count       = {count}
    vm_sku_name = "{sku}"
    {more}
  }}
"""


def agent_pool(name: str, of: str, count: int, sku: str = "NC_G6_28_v1", more: str = "") -> str:
    return f"""
resource "nexus_agent_pool" "{name}" {{
  kubernetes_cluster_id = {of}
  node_count            = {count}
  vm_sku_name           = "{sku}"
  {more}
}}
"""


def replace_passage(text: str, old: str, new: str = "") -> str:
    """Return the text with one passage replaced; the passage must occur exactly once."""
    assert text.count(old) == 1, (text.count(old), old)
    return text.replace(old, new)
