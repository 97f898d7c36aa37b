"""Settings of evaluation: checked bodies, functions, data sources and names.

The module also evaluates names from the state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from typing import Any, Final

from msgspec import json
from msgspec.structs import replace

from nexusform.configuration.body_preparation import PreparedBody, build_prepared_resource
from nexusform.configuration.declarations.configuration import Module, ResourceBlock
from nexusform.diagnostics.diagnostic import Diagnostic, Problem, build_diagnostic, has_errors
from nexusform.interfaces.plugins import (
    DataResult,
    Files,
    ReadContext,
    RemoteStateQuery,
    ResourceType,
    ServerQuery,
    ServerReader,
    StateReader,
)
from nexusform.json_data.plain_data import list_unknown_paths
from nexusform.planning.name_resolution.instance_scope import (
    EvaluationReads,
    EvaluationSettings,
    ModuleInstance,
)
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.name_resolution.repetition import InstanceView, ResourceView
from nexusform.planning.plan_request import PlanRequest
from nexusform.resources.address import Address, ConfigAddress, Mode, parse_address
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state.objects import EMPTY_INSTANCE, State

_UNKNOWN_ARGUMENT: Final = "data-source-argument-unknown"


class PlanClock:
    """Clock of a plan: one fixed time."""

    def __init__(self, now: str) -> None:
        self._now = datetime.fromisoformat(now)

    def read_time(self) -> datetime:
        """Return the plan's time, UTC."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Fail, because planning never waits."""
        raise AssertionError(seconds)


def build_evaluation_settings(
    request: PlanRequest, bodies: PreparedBodyCache, state: State
) -> EvaluationSettings:
    """Build the settings to evaluate expressions for a plan.

    Their `reads` records all files and data read.
    """
    clock = PlanClock(request.now)
    registries = request.registries
    reads = EvaluationReads()

    @cache
    def functions() -> Mapping[str, Any]:
        from nexusform.language.functions.registry import build_functions

        # Relative paths start at the root module, in every module; for other bases
        # there is path.module.
        return build_functions(
            FileReadRecorder(request.files, reads.files, reads.searches),
            clock,
            request.configuration.root.directory,
            plan_time=clock.read_time(),
            is_applying=request.is_applying,
            new_uuid=request.new_uuid,
        )

    reader = _DataBlockReader(request, bodies, state, reads)
    settings = EvaluationSettings(
        configuration=request.configuration,
        variables=request.variables,
        functions=functions,
        get_body=bodies.get_body,
        schemas=registries.schemas,
        read_data=reader.read,
        working_directory=request.working_directory,
        workspace=request.workspace,
        is_applying=request.is_applying,
        reads=reads,
        files=FileReadRecorder(request.files, reads.files, reads.searches),
        maximum_instances=request.limits.instances,
    )
    # The reader lists the configured arguments of other blocks with them.
    reader.settings = settings
    return settings


class _DataBlockReader:
    """Reader of the data blocks of one plan; `reads` records everything they read.

    `settings` are those of the plan, set before the first block is read.
    """

    def __init__(
        self, request: PlanRequest, bodies: PreparedBodyCache, state: State, reads: EvaluationReads
    ) -> None:
        self._request = request
        self._bodies = bodies
        self._state = state
        self._reads = reads
        # Set later, because the settings contain this reader.
        self.settings: EvaluationSettings

    def read(
        self, block: ResourceBlock, arguments: Mapping[str, Any], address: str
    ) -> tuple[DataResult | None, list[Diagnostic]]:
        """Return the result of a data block, None on errors, and its problems."""
        request = self._request
        reads = self._reads
        source = request.registries.data_sources[block.type]
        override = _find_data_override(source, arguments, address, request)
        # Of a test (override_data); it replaces reading.
        if override is not None:
            return DataResult(override), []
        context = ReadContext(
            files=FileReadRecorder(request.files, reads.data_files),
            now=request.now,
            managed_names=_list_managed_names(request, self._state),
            types=request.registries.resource_types,
            list_configured=partial(_list_configured_arguments, self.settings),
        )
        if request.read_state is not None:
            read_state = partial(
                _read_remote_state_and_record, request.read_state, block.name, address, reads.states
            )
            context = replace(context, read_state=read_state)
        if request.query is not None:
            context = replace(
                context,
                query_server=partial(_query_server_and_record, request.query, reads.answers),
            )
        answer, problems = _read_data_source(source, arguments, context)
        if answer is not None:
            reads.unread += answer.unread
            # With an address, they are those of no VM.
            reads.unread += [replace(fact, address=address) for fact in answer.unread_of_pods]
        body = self._bodies.get_body(block)
        assert body is not None, "its arguments were evaluated"
        diagnostics = []
        for problem in problems:
            # An invalid part is unknown, and its own error is reported with the body.
            if problem.id == _UNKNOWN_ARGUMENT and block.address in self._bodies.invalid_blocks:
                continue
            diagnostic = build_diagnostic(
                problem.severity,
                problem.id,
                problem.detail,
                body.locate(problem.path) if problem.path else block.header_span,
                address=address,
                block=block.header,
                headline=problem.headline,
            )
            diagnostics.append(diagnostic)
        return answer, diagnostics


def _list_configured_arguments(
    settings: EvaluationSettings, type_name: str
) -> list[dict[str, Any]]:
    """Return the arguments of the managed blocks of a type, each with its name.

    A data source needs them before anything is planned: no data is read for them, and values from
    data or resources are unknown.
    """
    tentative = replace(
        settings, read_data=lambda _block, _arguments, _address: (None, []), is_tentative=True
    )
    evaluation = Evaluation(tentative)
    configured: list[dict[str, Any]] = []
    for path, block in _iterate_blocks(settings.configuration.root, path=()):
        if (block.mode, block.type) != ("managed", type_name):
            continue
        prepared = settings.get_body(block)
        assert prepared is not None, "data sources ask only for types that are part of nexusform"
        for instance in evaluation.list_module_instances(path):
            for repetition in evaluation.list_repetitions(instance, block):
                arguments, _, _ = prepared.evaluate(evaluation.build_scope(instance, repetition))
                configured.append({**arguments, "name": arguments.get("name") or block.name})
    return configured


def _iterate_blocks(
    module: Module, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], ResourceBlock]]:
    """Yield the blocks of a module and of all below it, with the path of their module.

    The path has the names of module calls.
    """
    for block in module.resources.values():
        yield path, block
    for call in module.calls.values():
        yield from _iterate_blocks(call.module, (*path, call.name))


def _read_remote_state_and_record(
    read: StateReader, reader: str, address: str, recorded: dict[str, str], query: RemoteStateQuery
) -> tuple[State | None, str, list[Problem]]:
    """Return the state read by the data block named `reader`.

    Its version is recorded at `address`.
    """
    state, version, problems = read(replace(query, reader=reader))
    if state is not None:
        recorded[address] = version
    return state, version, problems


def _query_server_and_record(
    read: ServerReader, recorded: dict[str, str], query: ServerQuery
) -> str:
    """Return the answer of a server to a query, and record it by the key of the query."""
    answer = read(query)
    recorded[build_query_key(query)] = answer
    return answer


def build_query_key(query: ServerQuery) -> str:
    """Return a query as text, the key of its answer: equal queries of a run have one answer."""
    arguments = {name: value for name, value in query.arguments.items() if value is not None}
    return f"{query.reader} {json.encode(arguments, order='sorted').decode()}"


def _quote(text: str) -> str:
    return json.encode(text).decode()


class FileReadRecorder:
    """Files with recorded digests of every read.

    Digests of the results of searches are recorded in `searches`, if given, by the function call.
    """

    def __init__(
        self, files: Files, digests: dict[str, str], searches: dict[str, str] | None = None
    ) -> None:
        self._files = files
        self._digests = digests
        self._searches = {} if searches is None else searches

    def read(self, path: str) -> bytes:
        """Read the whole content and record its digest."""
        content = self._files.read(path)
        self._digests[path] = sha256(content).hexdigest()
        return content

    def is_file(self, path: str) -> bool:
        """Return whether a regular file exists at a path, and record it."""
        exists = self._files.is_file(path)
        self._record_search(f"fileexists({_quote(path)})", str(exists))
        return exists

    def find_files(self, base: str, pattern: str) -> list[str]:
        """Return regular files below `base` that match, and record their names.

        Raises MissingDirectory, which is recorded as no file.
        """
        names: list[str] = []
        try:
            names = self._files.find_files(base, pattern)
        finally:
            self._record_search(f"fileset({_quote(base)}, {_quote(pattern)})", "\0".join(names))
        return names

    def _record_search(self, call: str, result: str) -> None:
        self._searches[call] = sha256(result.encode("utf-8", "surrogateescape")).hexdigest()

    def resolve_path(self, path: str) -> str:
        """Return the absolute, cleaned form of a path."""
        return self._files.resolve_path(path)

    def expand_home(self, path: str) -> str:
        """Replace `~` at the start by the home directory."""
        return self._files.expand_home(path)


def _find_data_override(
    source: ResourceType, arguments: Mapping[str, Any], address: str, request: PlanRequest
) -> dict[str, Any] | None:
    """Return all values of a data block overridden by a test, None for others.

    Values not set by the test are as configured, or null.
    """
    block = parse_address(address)
    values = next(
        (override.values for override in request.data_overrides if override.is_for(block)), None
    )
    if values is None:
        return None
    names = (*source.schema.attributes, *source.schema.blocks)
    return {name: values.get(name, arguments.get(name)) for name in names}


def _read_data_source(
    source: ResourceType, arguments: Mapping[str, Any], context: ReadContext
) -> tuple[DataResult | None, list[Problem]]:
    """Return the result of a data block with all its attributes, and its problems.

    The result is None on errors.
    """
    unknown_path = next(list_unknown_paths(dict(arguments)), None)
    if unknown_path is not None:
        unknown_argument_problem = Problem(
            unknown_path,
            _UNKNOWN_ARGUMENT,
            "A data source is read while the plan is made, so its arguments must be known by then; "
            "this value is known only after apply.",
        )
        return None, [unknown_argument_problem]
    problems = source.check(arguments)
    if has_errors(problems):
        return None, problems
    assert source.read is not None
    answer = source.read(arguments, context)
    problems = [*problems, *answer.problems]
    if has_errors(problems):
        return None, problems
    names = (*source.schema.attributes, *source.schema.blocks)
    values = {name: arguments.get(name) for name in names} | answer.attributes
    values.setdefault("id", source.build_id(values))
    return replace(answer, attributes=values), problems


def _list_managed_names(request: PlanRequest, state: State) -> frozenset[str]:
    """Return the names managed in state, as in inventories.

    Clusters, VMs, and separate pools as `<cluster>/<pool>`.
    """
    names = set()
    for address, current in state.list_current_objects():
        resource_type = request.registries.resource_types.get(address.type)
        if resource_type is None or resource_type.vms is None:
            continue
        attributes = current.attributes
        # Cluster of a pool; "" for other objects.
        cluster = str(attributes.get("kubernetes_cluster_id") or "").rpartition("/")[2]
        name = str(attributes.get("name"))
        names.add(f"{cluster}/{name}" if cluster else name)
    return frozenset(names)


class PreparedBodyCache:
    """Bodies checked against their schema, once per block."""

    def __init__(self, schemas: Mapping[Mode, Mapping[str, BlockSchema]]) -> None:
        self._schemas = schemas
        # None: a block of an unknown type.
        self._cache: dict[ConfigAddress, PreparedBody | None] = {}
        # Diagnostics of all bodies so far.
        self.diagnostics: list[Diagnostic] = []
        self.invalid_blocks: set[ConfigAddress] = set()  # with errors

    def get_body(self, block: ResourceBlock) -> PreparedBody | None:
        """Return the block's body, None for an unknown type.

        Problems are reported; invalid parts read as unknown.
        """
        if block.address in self._cache:
            return self._cache[block.address]
        schema = self._schemas[block.mode].get(block.type)
        body = None
        if schema is not None:
            body, problems = build_prepared_resource(block, schema)
            self.diagnostics += problems
            if has_errors(problems):
                self.invalid_blocks.add(block.address)
        self._cache[block.address] = body
        return body


class StateEvaluation(Evaluation):
    """Evaluation with resources from the state; missing ones are unknown."""

    def __init__(self, settings: EvaluationSettings, request: PlanRequest) -> None:
        super().__init__(settings)
        self._state: State = request.state
        self._types = request.registries.resource_types

    def get_resource(self, instance: ModuleInstance, block: ResourceBlock) -> ResourceView:
        """Return the instances of a block.

        A resource is as in state, a data block as read by its provider.
        """
        key = (instance.path, block.mode, block.type, block.name)
        resource_type = self._types.get(block.type)
        if block.mode == "data" or resource_type is None or key in self.resources:
            return super().get_resource(instance, block)
        # The first use of a resource. Without known keys it has no instances.
        expansion, problems = self.expand_block(block, self.build_scope(instance))
        self.diagnostics += problems
        view = ResourceView("" if expansion.unknown else expansion.shape)
        for repetition in expansion.repetitions:
            address = Address(instance.path, "managed", block.type, block.name, repetition.key)
            item = InstanceView(
                attributes=None,
                sensitive=(),
                schema=resource_type.schema,
                present=resource_type.present,
            )
            recorded = self._state.instances.get(address, EMPTY_INSTANCE).current
            if recorded is not None:
                item.attributes = recorded.attributes
                item.sensitive = recorded.sensitive
            view.items[repetition.key] = item
        self.resources[key] = view
        return view


def build_state_evaluation(request: PlanRequest) -> StateEvaluation:
    """Return an evaluation of the configuration with the resources in state, without a plan."""
    bodies = PreparedBodyCache(request.registries.schemas)
    return StateEvaluation(build_evaluation_settings(request, bodies, request.state), request)
