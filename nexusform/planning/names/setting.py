"""What a plan's passes share: functions, data sources, SKUs, and what stood before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from nexusform.address import parse_address
from nexusform.configuration.evaluation import PreparedBody
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, diagnostic
from nexusform.plain_data import Path, unknown_paths
from nexusform.planning.names.bodies import PreparedBodies
from nexusform.planning.names.evaluation import Setting
from nexusform.planning.request import PlanRequest
from nexusform.ports import ReadContext, ResourceType
from nexusform.state.model import State


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


def setting_for(request: PlanRequest, bodies: PreparedBodies, state: State) -> Setting:
    """The setting of a plan over what stands."""
    clock = PlanClock(request.now)
    registries = request.registries

    @cache
    def functions() -> Mapping[str, Any]:
        from nexusform.language.functions.registry import standard_functions  # when the first is called

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
        stand_in = _stand_in(source, arguments, address, request)
        if stand_in is not None:
            return stand_in, []
        directory = request.configuration.root.directory
        context = ReadContext(request.files, request.now, directory, _managed(request, state))
        values, problems = _read(source, arguments, context)
        body = bodies.of(block)
        return values, [_at(problem, block, body, address) for problem in problems]

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


def _stand_in(
    source: ResourceType, arguments: Mapping[str, Any], address: str, request: PlanRequest
) -> dict[str, Any] | None:
    """The values that stand in for reading a data block, None when it is to be read."""
    if not request.data_values:
        return None
    block = parse_address(address)
    values = next((data.values for data in request.data_values if data.covers(block)), None)
    if values is None:
        return None
    names = (*source.schema.attributes, *source.schema.blocks)
    return {name: values.get(name, arguments.get(name)) for name in names}


def _read(
    source: ResourceType, arguments: Mapping[str, Any], context: ReadContext
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """The attributes of a data block, None when it could not be read."""
    unknown = next((path for path in unknown_paths(dict(arguments)) if path), None)
    if unknown is not None:
        return None, [_depends_on_unknown(unknown)]
    problems = source.check(arguments) if source.check is not None else []
    if _any_error(problems):
        return None, problems
    assert source.read is not None
    computed, more = source.read(arguments, context)
    problems = [*problems, *more]
    if _any_error(problems):
        return None, problems
    names = (*source.schema.attributes, *source.schema.blocks)
    values = {name: arguments.get(name) for name in names} | computed
    values.setdefault("id", source.identify(values))
    return values, problems


def _any_error(problems: Iterable[Problem]) -> bool:
    return any(problem.severity is Severity.ERROR for problem in problems)


def _depends_on_unknown(path: Path) -> Problem:
    return Problem(
        path,
        "data-source-depends-on-an-unknown-value",
        "A data source is read while the plan is made, so its arguments must be known by then; this "
        "value is known only after apply.",
    )


def _at(problem: Problem, block: ResourceBlock, body: PreparedBody | None, address: str) -> Diagnostic:
    """The problem as a diagnostic at its line."""
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


def _managed(request: PlanRequest, state: State) -> frozenset[str]:
    """What state holds, as inventories name it: clusters and VMs by name, separate pools as
    `<cluster>/<pool>`.
    """
    names = set()
    for address, instance in state.instances.items():
        resource_type = request.registries.resource_types.get(address.type)
        if instance.current is None or resource_type is None or resource_type.vms is None:
            continue
        attributes = instance.current.attributes
        cluster = str(attributes.get("kubernetes_cluster_id") or "").rpartition("/")[2]
        name = str(attributes.get("name"))
        names.add(f"{cluster}/{name}" if cluster else name)
    return frozenset(names)
