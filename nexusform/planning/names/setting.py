"""What names are evaluated in: checked bodies, functions and data sources, and the names as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from typing import Any

from msgspec import json
from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress, Mode, parse_address
from nexusform.configuration.body_evaluation import PreparedBody, prepare_resource
from nexusform.configuration.declared.configuration import ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, diagnostic, has_errors
from nexusform.plain_data import Path, unknown_paths
from nexusform.planning.names.evaluation import Evaluation
from nexusform.planning.names.repetition import ObjectView, ResourceView
from nexusform.planning.names.scope import ModuleInstance, Reads, Setting
from nexusform.planning.request import PlanRequest
from nexusform.ports import (
    Ask,
    DataAnswer,
    Files,
    Question,
    ReadContext,
    ResourceType,
    StateQuery,
    StateReader,
)
from nexusform.schema import BlockSchema
from nexusform.state.objects import State


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
    reads = Reads()

    @cache
    def functions() -> Mapping[str, Any]:
        from nexusform.language.functions.registry import standard_functions  # when the first is called

        # Relative paths start at the root module, in every module: elsewhere users write path.module.
        return standard_functions(
            NotedFiles(request.files, reads.files),
            clock,
            request.configuration.root.directory,
            plan_time=clock.now(),
            applying=request.applying,
            new_uuid=request.new_uuid,
        )

    def read_data(
        block: ResourceBlock, arguments: Mapping[str, Any], address: str
    ) -> tuple[DataAnswer | None, list[Diagnostic]]:
        source = registries.data_sources[block.type]
        stand_in = _stand_in(source, arguments, address, request)
        if stand_in is not None:
            return DataAnswer(stand_in), []
        managed = _managed(request, state)
        files = NotedFiles(request.files, reads.data_files)
        context = ReadContext(files, request.now, managed, registries.resource_types)
        if request.read_state is not None:
            read_state = partial(_state_for, request.read_state, block.name, address, reads.states)
            context = replace(context, read_state=read_state)
        if request.ask is not None:
            context = replace(context, ask=partial(_asked, request.ask, reads.answers))
        answer, problems = _read(source, arguments, context)
        body = bodies.of(block)
        return answer, [_at(problem, block, body, address) for problem in problems]

    return Setting(
        configuration=request.configuration,
        variables=request.variables,
        functions=functions,
        prepared=bodies.of,
        schemas=registries.schemas,
        read_data=read_data,
        working_directory=request.working_directory,
        workspace=request.workspace,
        applying=request.applying,
        reads=reads,
        files=NotedFiles(request.files, reads.files),
        most_instances=request.limits.instances,
    )


def _state_for(
    read: StateReader, reader: str, address: str, noted: dict[str, str], query: StateQuery
) -> tuple[State | None, list[Problem]]:
    """The state that a data block of this name asks for; which one it was is noted."""
    state, problems = read(replace(query, reader=reader))
    if state is not None:
        noted[address] = f"{state.lineage} {state.serial}"
    return state, problems


def _asked(ask: Ask, noted: dict[str, str], question: Question) -> str:
    """The answer to a question, noted."""
    answer = ask(question)
    noted[key_of_question(question)] = answer
    return answer


def key_of_question(question: Question) -> str:
    """A question as a text: of one run, one question has one answer."""
    arguments = {name: value for name, value in question.arguments.items() if value is not None}
    return f"{question.reader} {json.encode(arguments, order='sorted').decode()}"


class NotedFiles:
    """Files, the digests of which are noted as they are read (Files of the ports)."""

    def __init__(self, files: Files, digests: dict[str, str]) -> None:
        self._files = files
        self._digests = digests

    def read(self, path: str) -> bytes:
        """The whole content."""
        content = self._files.read(path)
        self._digests[path] = sha256(content).hexdigest()
        return content

    def exists(self, path: str) -> bool:
        """Whether a regular file stands there."""
        return self._files.exists(path)

    def glob(self, base: str, pattern: str) -> list[str]:
        """Regular files below `base` that match."""
        return self._files.glob(base, pattern)

    def absolute(self, path: str) -> str:
        """The absolute, cleaned form of a path."""
        return self._files.absolute(path)

    def expand_home(self, path: str) -> str:
        """`~` at the start replaced by the home directory."""
        return self._files.expand_home(path)


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
) -> tuple[DataAnswer | None, list[Problem]]:
    """The attributes of a data block, None when it could not be read."""
    unknown = next((path for path in unknown_paths(dict(arguments)) if path), None)
    if unknown is not None:
        return None, [_depends_on_unknown(unknown)]
    problems = source.check(arguments) if source.check is not None else []
    if _any_error(problems):
        return None, problems
    assert source.read is not None
    answer = source.read(arguments, context)
    problems = [*problems, *answer.problems]
    if _any_error(problems):
        return None, problems
    names = (*source.schema.attributes, *source.schema.blocks)
    values = {name: arguments.get(name) for name in names} | answer.attributes
    values.setdefault("id", source.identify(values))
    return replace(answer, attributes=values), problems


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


# --- bodies of blocks --------------------------------------------------------------------------


class PreparedBodies:
    """Bodies checked against their schema, once per block."""

    def __init__(self, schemas: Mapping[Mode, Mapping[str, BlockSchema]]) -> None:
        self._schemas = schemas
        self._known: dict[ConfigAddress, PreparedBody | None] = {}
        self.diagnostics: list[Diagnostic] = []
        self.flawed: set[ConfigAddress] = set()

    def of(self, block: ResourceBlock) -> PreparedBody | None:
        """The block's body, None for an unknown type. What is wrong with it was reported, its block
        is `flawed`, and what is wrong reads as unknown.
        """
        if block.address not in self._known:
            schema = self._schemas[block.mode].get(block.type)
            body = None
            if schema is not None:
                body, problems = prepare_resource(block, schema)
                self.diagnostics += problems
                if has_errors(problems):
                    self.flawed.add(block.address)
            self._known[block.address] = body
        return self._known[block.address]


# --- names as they stand -----------------------------------------------------------------------


class StandingEvaluation(Evaluation):
    """An evaluation in which a resource is what the state holds of it; what it lacks is unknown."""

    def __init__(self, setting: Setting, request: PlanRequest) -> None:
        super().__init__(setting)
        self._state: State = request.state
        self._types = request.registries.resource_types

    def resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """The instances of a block, of data blocks too."""
        key = (instance.path, block.mode, block.type, block.name)
        if block.mode == "data" or key in self.resources:
            return super().resource(instance, block)
        kind = self._types.get(block.type)
        view = ResourceView("") if kind is None else self._standing(instance, block, kind)
        self.resources[key] = view
        return view

    def _standing(self, instance: ModuleInstance, block: ResourceBlock, kind: ResourceType) -> ResourceView:
        """A resource as state has it, instance by instance."""
        expansion, problems = self.expansion(block, self.scope(instance))
        self.diagnostics += problems
        if expansion is None or expansion.unknown:
            return ResourceView("")
        view = ResourceView(expansion.shape)
        for repetition in expansion.repetitions:
            address = Address(instance.path, "managed", block.type, block.name, repetition.key)
            known = self._state.instances.get(address)
            current = known.current if known is not None else None
            view.items[repetition.key] = ObjectView(
                current.attributes if current is not None else None,
                current.sensitive if current is not None else (),
                kind.schema,
                kind.present,
            )
        return view


def standing_evaluation(request: PlanRequest) -> StandingEvaluation:
    """The names of the request's configuration over its state."""
    bodies = PreparedBodies(request.registries.schemas)
    return StandingEvaluation(setting_for(request, bodies, request.state), request)
