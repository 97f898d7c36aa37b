"""What a plan's passes share: functions, data sources, SKUs, and what stood before."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

from nexusform.address import parse_address
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, diagnostic
from nexusform.language.functions.registry import standard_functions
from nexusform.plain_data import unknown_paths
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import Setting
from nexusform.planning.request import PlanRequest
from nexusform.ports import ReadContext, ResourceType


class PlanClock:
    """The time as the plan sees it: one reading."""

    def __init__(self, now: str) -> None:
        self._now = datetime.fromisoformat(now)

    def now(self) -> datetime:
        """The plan's time, UTC."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Planning never waits."""
        raise AssertionError(seconds)


def setting_for(request: PlanRequest, bodies: PreparedBodies) -> Setting:
    """The setting of a plan."""
    clock = PlanClock(request.now)
    registries = request.registries

    @cache
    def functions() -> Mapping[str, Any]:
        # Relative paths start at the root module, in every module: elsewhere users write path.module.
        return standard_functions(
            request.files,
            clock,
            request.configuration.root.directory,
            plan_time=clock.now(),
            applying=request.applying,
            new_uuid=request.new_uuid,
        )

    def read_data(
        block: ResourceBlock, arguments: Mapping[str, Any], address: str
    ) -> tuple[dict[str, Any] | None, list[Diagnostic]]:
        source = registries.data_sources[block.type]
        given = _given(source, arguments, address, request)
        if given is not None:
            return given, []
        return _read(source, block, arguments, address, request, bodies)

    return Setting(
        request.configuration,
        request.variables,
        functions,
        bodies.of,
        registries.schemas,
        read_data,
        request.working_directory,
        request.workspace,
        request.applying,
    )


def _given(
    source: ResourceType, arguments: Mapping[str, Any], address: str, request: PlanRequest
) -> dict[str, Any] | None:
    """The values that stand in for reading a data block, None when it is to be read."""
    if not request.data_values:
        return None
    parsed = parse_address(address)
    found = next((d.values for d in request.data_values if d.covers(parsed)), None)
    if found is None:
        return None
    names = (*source.schema.attributes, *source.schema.blocks)
    return {name: found.get(name, arguments.get(name)) for name in names}


def _read(
    source: ResourceType,
    block: ResourceBlock,
    arguments: Mapping[str, Any],
    address: str,
    request: PlanRequest,
    bodies: PreparedBodies,
) -> tuple[dict[str, Any] | None, list[Diagnostic]]:
    body = bodies.of(block)

    def told(problem: Problem) -> Diagnostic:
        span = body.locate(problem.path) if body is not None and problem.path else block.header_span
        return diagnostic(
            problem.severity,
            problem.id,
            problem.detail,
            span,
            address=address,
            block=block.header,
            headline=problem.headline,
        )

    waiting = [path for path in unknown_paths(dict(arguments)) if path]
    if waiting:
        problem = Problem(
            waiting[0],
            "data-source-depends-on-an-unknown-value",
            "A data source is read while the plan is made, so its arguments must be known by then; this "
            "value is known only after apply.",
        )
        return None, [told(problem)]
    problems = source.check(arguments) if source.check is not None else []
    if any(p.severity is Severity.ERROR for p in problems):
        return None, [told(p) for p in problems]
    assert source.read is not None
    context = ReadContext(request.files, request.now, request.configuration.root.directory, _managed(request))
    computed, more = source.read(arguments, context)
    told_all = [told(p) for p in [*problems, *more]]
    if any(p.severity is Severity.ERROR for p in more):
        return None, told_all
    values = {name: arguments.get(name) for name in source.schema.attributes}
    values |= {name: arguments.get(name) for name in source.schema.blocks}
    values |= computed
    values.setdefault("id", source.identify(values))
    return values, told_all


def _managed(request: PlanRequest) -> frozenset[str]:
    """What state holds, as inventories name it: clusters and VMs by name, separate pools as
    `<cluster>/<pool>`.
    """
    found = set()
    for address, state in request.state.instances.items():
        resource_type = request.registries.resource_types.get(address.type)
        if state.current is None or resource_type is None or resource_type.vms is None:
            continue
        attributes = state.current.attributes
        cluster = str(attributes.get("kubernetes_cluster_id") or "").rpartition("/")[2]
        name = str(attributes.get("name"))
        found.add(f"{cluster}/{name}" if cluster else name)
    return frozenset(found)
