"""Input of what-if questions: the snapshot from the state or a saved plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.loader import read_root_variables
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    Severity,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
    select_errors,
)
from nexusform.diagnostics.levels import MISSING_VALUE, VMS_WITHOUT_MACHINE
from nexusform.diagnostics.phrases import enclose, format_count, format_first_items
from nexusform.domains.pods.importers.kubectl_snapshot import KubectlSnapshot, parse_snapshot
from nexusform.domains.pods.planning.external_clusters import list_read_blocks
from nexusform.domains.pods.planning.node_clusters import build_existing_clusters
from nexusform.domains.whatif.questions.pod_outage import ClusterPods
from nexusform.domains.whatif.questions.pod_snapshot import (
    ClusterObservations,
    build_observations_after,
    build_observed_pods,
    build_pods,
)
from nexusform.domains.whatif.workflow.state_warnings import (
    has_node_data,
    list_unfinished_step_warnings,
    list_unread_warnings,
)
from nexusform.doubts.findings import hides_capacity
from nexusform.interfaces.plugins import PlanningKind
from nexusform.planning.hypothesis.start_points import StartPoint, build_snapshot_request
from nexusform.planning.name_resolution.evaluation_settings import build_state_evaluation
from nexusform.planning.plan_request import PlanRequest
from nexusform.planning.preparation.planning_order import iterate_resource_blocks
from nexusform.planning.vm_planning.site_plans import SiteObject
from nexusform.plans.plan import Plan
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.providers.clock import read_clock
from nexusform.rendering.report.plan_sentences import describe_inventory, describe_inventory_age
from nexusform.resource_types.registry import build_registries
from nexusform.snapshots.snapshot import (
    Snapshot,
    build_snapshot,
    list_planned_objects,
    list_recorded_machines,
    list_state_objects,
)
from nexusform.state.objects import State
from nexusform.values.typed_value import Value
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import Project, find_backend
from nexusform.workflow.opening.remote_inputs import RemoteStateReader, ServerResponseCache
from nexusform.workflow.opening.stored_state import StoredState, read_stored_state
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from nexusform.workflow.plan_files.saved_plans import (
    build_plan_context,
    check_failed_plan,
    check_variables_unchanged,
    get_configuration_sources,
    get_planned_variables,
    load_plan_configuration,
    read_plan,
    read_prior_state,
)
from nexusform.workflow.runs.run import record_sources

_MAX_NAMES: Final = 5
_NO_CONFIGURATION: Final = "no-configuration-files"
# The instance key of an address, absent in the address of its block.
_INSTANCE_KEY: Final = re.compile(r'\[(?:\d+|"(?:[^"\\]|\\.)*")\]')


# Clusters by id, and problems.
_NodeReading: TypeAlias = tuple[Mapping[str, KubectlSnapshot], list[Diagnostic]]


class SimulationInput(Struct, frozen=True):
    """Input of a what-if question.

    `origin` is its source for messages. `pods` are the known pods by cluster id, and `objects` all
    objects. `observations` are the clusters observed by data blocks. `diagnostics` are warnings.
    `start` is the start point of hypothetical plans.
    """

    snapshot: Snapshot
    origin: str
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]
    pods: Mapping[str, ClusterPods]
    objects: tuple[SiteObject, ...]
    observations: ClusterObservations
    start: StartPoint


class UnreadableInput(DiagnosticsError):
    """Error of an input that cannot be read, with the source files of its diagnostics."""

    def __init__(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceFile] | None = None
    ) -> None:
        """Create the error.

        `sources` are files to quote in the diagnostics, by name.
        """
        super().__init__(*diagnostics)
        self.sources = sources or {}


def open_observed_clusters(location: CommandContext, plan_path: str) -> SimulationInput:
    """Read the clusters listed by kubectl and their pods, in the state or after a plan.

    Raises UnreadableInput.
    """
    source = read_input(location, plan_path)
    pods = build_observed_pods(source.start.request.state, build_registries(), source.observations)
    return replace(source, pods=pods)


def open_snapshot(location: CommandContext, plan_path: str) -> SimulationInput:
    """Read sites and pods; warn about nodes without a VM.

    Raises UnreadableInput, also without a site.
    """
    source = read_input(location, plan_path)
    if not source.snapshot.sites:
        problem = build_error(
            "nothing-to-simulate",
            f"There is no site in {source.origin}. Apply a configuration with one, or use a saved "
            "plan: `nexusform plan -out=FILE`, then this command with -plan=FILE.",
        )
        raise UnreadableInput((*source.diagnostics, problem), source.sources)
    return _add_unknown_node_warnings(source)


def locate_diagnostics(
    location: CommandContext, problems: Iterable[Diagnostic]
) -> tuple[list[Diagnostic], Mapping[str, SourceFile]]:
    """Add the declaring block, if still there, to diagnostics about an object.

    Return them with the source files.
    """
    problems = list(problems)
    if not any(problem.address and problem.subject is None for problem in problems):
        # Every location is known, or there is no object.
        return problems, {}
    configuration, _ = load_project_configuration(location)
    blocks = {str(block.address): block for block in iterate_resource_blocks(configuration)}
    for position, problem in enumerate(problems):
        # Without the key of the instance.
        block = blocks.get(_INSTANCE_KEY.sub("", problem.address))
        if block is not None and problem.subject is None:
            problems[position] = replace(problem, subject=block.header_span, block=block.header)
    return problems, configuration.files


def _add_unknown_node_warnings(source: SimulationInput) -> SimulationInput:
    """Return the input with a warning for each cluster with nodes that match no VM."""
    return replace(source, diagnostics=(*source.diagnostics, *_build_unknown_node_warnings(source)))


def _build_unknown_node_warnings(source: SimulationInput) -> Iterator[Diagnostic]:
    """Build a warning for each cluster listed by kubectl with unmatched nodes.

    They match no VM of the snapshot.
    """
    # Nothing to compare.
    if not source.observations.clusters:
        return
    clusters = build_existing_clusters(
        source.objects, build_registries(), source.start.request.state.catalogue
    )
    for cluster_id in source.observations.clusters:
        observed_cluster = source.observations.bind_cluster(
            cluster_id, clusters.get(cluster_id), own_workloads=()
        )
        if observed_cluster is not None and observed_cluster.unknown_nodes:
            detail = (
                f"{format_count(len(observed_cluster.unknown_nodes), 'node')} of the cluster "
                f'"{cluster_id}" '
                f"({format_first_items(observed_cluster.unknown_nodes, _MAX_NAMES)}) match no VM "
                "by name or provider id. Their pods and capacity are not counted."
            )
            yield build_warning("node-without-vm", detail)


def read_input(location: CommandContext, plan_path: str) -> SimulationInput:
    """Read the input after the saved plan at this path, or from the state if the path is "".

    Raises UnreadableInput.
    """
    return _read_plan_input(plan_path, location) if plan_path else _read_state_input(location)


def _read_state_input(location: CommandContext) -> SimulationInput:
    """Read the input from the state, with observed pods.

    Raises UnreadableInput.
    """
    backend, problems, sources = find_backend(location)
    if backend is None:
        raise UnreadableInput(problems, sources)
    stored, read_problems = read_stored_state(backend)
    problems += read_problems
    if stored is None or has_errors(problems):
        raise UnreadableInput(problems, sources)
    reading = _read_observed_clusters(location, stored.state)
    return _build_state_input(stored, reading, problems, sources, read_clock(location.environment))


def read_project_input(project: Project, stored: StoredState, now: str) -> SimulationInput:
    """Read the input from the state of an open project, with its observed pods."""
    reading: _NodeReading = ({}, [])
    if has_node_data(project.configuration, project.registries):
        reading = _read_observed_nodes(
            project.context, project.configuration, project.variables, stored.state, now
        )
    return _add_unknown_node_warnings(_build_state_input(stored, reading, (), project.sources, now))


def _build_state_input(
    stored: StoredState,
    reading: _NodeReading,
    problems: Iterable[Diagnostic],
    sources: Mapping[str, SourceFile],
    now: str,
) -> SimulationInput:
    """Build the input from a state and the clusters read for it, with their problems."""
    state = stored.state
    origin = f"state serial {state.serial}" if state.lineage else "the state, which is empty"
    origin += enclose(", inventory ", describe_inventory_age(state.exports.values(), now))
    clusters, node_problems = reading
    return _build_input(
        list_state_objects(state),
        state,
        ClusterObservations(clusters),
        origin,
        [*problems, *list_unfinished_step_warnings(stored), *node_problems],
        sources,
        list_recorded_machines(state, build_registries()),
        now,
    )


def _read_plan_input(path: str, location: CommandContext) -> SimulationInput:
    """Read the input after the saved plan at a path.

    The input has its planned objects, and the clusters of its data blocks. Raises UnreadableInput,
    also if variables differ from those of the plan.
    """
    saved, problems = read_plan(path, location)
    if saved is None:
        raise UnreadableInput(problems)
    try:
        location = build_plan_context(location, saved.plan)
    except ValueError as problem:
        raise UnreadableInput((*problems, build_error("unreadable-plan", str(problem)))) from None
    prior, prior_problems = read_prior_state(saved, path)
    problems += prior_problems
    problems += check_failed_plan(saved, path)
    # Missing data that counts as free capacity. VMs without a machine are in the snapshot.
    problems += [
        problem
        for problem in saved.plan.diagnostics
        if hides_capacity(problem.id)
        and problem.id != VMS_WITHOUT_MACHINE
        and problem.severity is not Severity.ERROR
    ]
    # They have to be those of the plan.
    if location.variables:
        configuration, _ = load_project_configuration(location)
        problems += check_variables_unchanged(location, configuration, saved.plan)
    if prior is None or has_errors(problems):
        raise UnreadableInput(problems)
    objects = list_planned_objects(saved.plan, prior)
    state = _build_state_after(saved.plan, prior)
    clusters, node_problems = _read_planned_clusters(location, saved, objects, state)
    problems += node_problems
    sources = get_configuration_sources(saved)
    observations = build_observations_after(saved.plan, clusters)
    recorded_machines = list_recorded_machines(prior, build_registries())
    return _build_input(
        objects,
        state,
        observations,
        f"after plan {path}{enclose(', inventory ', describe_inventory(saved.plan))}",
        problems,
        sources,
        recorded_machines,
        saved.plan.start.timestamp,
    )


def _build_input(
    objects: tuple[SiteObject, ...],
    state: State,
    observations: ClusterObservations,
    origin: str,
    problems: Iterable[Diagnostic],
    sources: Mapping[str, SourceFile],
    recorded_machines: frozenset[tuple[str, str]],
    now: str,
) -> SimulationInput:
    """Build the input with the snapshot and pods of these objects.

    `state` has the version of the SKU catalogue, and the unread facts.
    """
    registries = build_registries()
    snapshot = build_snapshot(objects, registries, state.catalogue, recorded_machines)
    start = StartPoint(build_snapshot_request(objects, registries, state, now, recorded_machines))
    pods = build_pods(start.request.state, registries, observations)
    problems = (*problems, *list_unread_warnings(start.request.state, registries.resource_types))
    return SimulationInput(snapshot, origin, problems, sources, pods, objects, observations, start)


def _build_state_after(plan: Plan, prior: State) -> State:
    """Return the state before a plan with the SKU catalogue and the unread facts of the plan."""
    return replace(
        record_sources(prior, plan, plan.start.timestamp), catalogue=plan.start.catalogue
    )


def _read_observed_clusters(location: CommandContext, state: State) -> _NodeReading:
    """Read the clusters in data blocks of the current configuration.

    References are evaluated from the state. Raises UnreadableInput for wrong -var and -var-file.
    """
    configuration, problems = load_project_configuration(location)
    errors = [problem for problem in select_errors(problems) if problem.id != _NO_CONFIGURATION]
    # Blocks may be missing, among them data blocks of clusters.
    if errors:
        return {}, [
            build_warning(
                "nodes-not-counted",
                "The configuration has errors. Pods on clusters in its data blocks are not "
                "counted. Run `nexusform validate`.",
                errors[0].subject,
            )
        ]
    variables, problems = read_root_variables(
        configuration,
        environment=location.environment,
        var_options=location.variables,
        directory=location.directory,
        confinement=location.confinement,
    )
    # A missing value matters only to data blocks.
    wrong_values = [error for error in select_errors(problems) if error.id != MISSING_VALUE]
    if location.variables and wrong_values:
        raise UnreadableInput(wrong_values, configuration.files)
    # No data block lists nodes.
    if not has_node_data(configuration, build_registries()):
        return {}, []
    values = {name: value for name, (value, _) in variables.items()}
    observed, warnings = _read_observed_nodes(
        location, configuration, values, state, read_clock(location.environment)
    )
    # A wrong variable may be why a cluster was not read.
    if warnings:
        warnings = [
            *(replace(error, severity=Severity.WARNING) for error in select_errors(problems)),
            *warnings,
        ]
    return observed, warnings


def _read_planned_clusters(
    location: CommandContext, saved: SavedPlan, objects: Iterable[SiteObject], state: State
) -> _NodeReading:
    """Read the clusters in data blocks of a saved plan.

    References are evaluated from `objects` (after the plan). `state` has the SKU catalogue.
    """
    # Its data sources read no file, so no output of kubectl.
    if not saved.plan.basis.data_files:
        return {}, []
    configuration, _ = load_plan_configuration(location, saved)
    # No data block lists nodes.
    if not has_node_data(configuration, build_registries()):
        return {}, []
    state = build_snapshot_request(
        objects, build_registries(), state, saved.plan.start.timestamp
    ).state
    values = get_planned_variables(saved.plan)
    observed, problems = _read_observed_nodes(
        location, configuration, values, state, saved.plan.start.timestamp
    )
    # Locations in the plan's temporary copy of its configuration are meaningless to users.
    for position, problem in enumerate(problems):
        if (
            problem.subject is not None
            and problem.subject.filename not in saved.configuration_files
        ):
            problems[position] = replace(problem, subject=None)
    return observed, problems


def _read_observed_nodes(
    location: CommandContext,
    configuration: Configuration,
    variables: Mapping[str, Value],
    state: State,
    now: str,
) -> _NodeReading:
    """Read clusters as listed by kubectl, by id, and warnings.

    An error becomes a warning about a cluster left out.
    """
    request = PlanRequest(
        configuration=configuration,
        variables=variables,
        state=state,
        registries=build_registries(),
        files=ConfinedFileAccess(location.confinement),
        now=now,
        workspace=location.workspace,
        working_directory=location.working_directory,
        read_state=RemoteStateReader(location, configuration.settings).read,
        query=ServerResponseCache(location).query,
    )
    evaluation = build_state_evaluation(request)
    observed = {
        str(attributes.get("cluster_id")): parse_snapshot(str(attributes.get("objects")))
        for _, attributes in list_read_blocks(PlanningKind.NODES, request, evaluation)
    }
    warnings = []
    for problem in evaluation.diagnostics:
        if problem.severity is not Severity.ERROR:
            # A warning about nodes does not keep them from being read.
            continue
        detail = f"{problem.detail} Pods on its nodes are not counted."
        warnings.append(
            build_warning(
                "nodes-not-counted",
                detail,
                problem.subject,
                address=problem.address,
                block=problem.block,
            )
        )
    return observed, warnings
