"""Plans of the configuration with one more placement, or with evictions.

Planning takes no lock and changes nothing.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import DEFAULT_PROVIDER, Configuration
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.levels import Level, get_diagnostic_level
from nexusform.diagnostics.phrases import enclose, format_first_items
from nexusform.domains.fleet.planning.placement_records import read_bindings
from nexusform.domains.pods.importers.manifest_parser import parse_manifests
from nexusform.domains.whatif.questions.fleet_edits import (
    MEMBER_TYPE,
    MemberEdit,
    MemberEditKind,
    build_plan_edits,
)
from nexusform.domains.whatif.questions.placement_trials import (
    BINDING,
    OVERRIDE_SUFFIX,
    EvictionCandidate,
    EvictionProposal,
    MemberBlock,
    PlacementPolicy,
    RebalanceRequest,
    RebalanceResult,
    SimulatedPlacement,
    TrialOutcome,
    build_trial_configuration,
    build_trial_outcome,
    find_member_blocks,
    find_minimum_evictions,
    list_unusable_manifests,
    render_evictions,
    render_taints,
)
from nexusform.domains.whatif.workflow.simulation_input import UnreadableInput
from nexusform.domains.whatif.workflow.state_warnings import list_missing_data_of_plan
from nexusform.files.regular_files import remove_file
from nexusform.interfaces.plugins import FileProblem
from nexusform.json_data.plain_data import get_text
from nexusform.language.formatter import format_text
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.edits import AddedBlocks
from nexusform.plans.plan import PlacementAction, PlacementChange, Plan
from nexusform.rendering.notation.json_values import omit_empty
from nexusform.state.objects import State
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.opening.system_io import SIZE_CAP, read_file
from nexusform.workflow.runs.object_import import (
    CONFIGURATION_SUFFIX,
    check_generated_path,
    write_new_file,
)
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run
from nexusform.workflow.runs.state_locking import LockOptions

_PLACEMENT_TYPE: Final = "fleet_cluster_resource_placement"
_MAX_NAMES: Final = 4
# File of the trials, which is never written.
_MEMBERS_FILE: Final = "simulated-fleet.nf.hcl"
_EVICTIONS_FILE: Final = "simulated-rebalance.nf.hcl"
_TAINTS_FILE: Final = f"simulated-rebalance{OVERRIDE_SUFFIX}"


class RebalanceAnswer(Struct, frozen=True):
    """Answer with the generated texts, and the warnings about missing data of the plan."""

    result: RebalanceResult
    warnings: tuple[Diagnostic, ...]
    sources: Mapping[str, SourceFile]
    evictions: str = ""
    taints: str = ""


class HypotheticalFleet(Struct, frozen=True):
    """Plan with edits of fleet members, and the plan without them."""

    plan: Plan
    before: Plan

    @property
    def has_findings(self) -> bool:
        """Whether the edits cause a warning, such as a placement with too few clusters."""
        known = {(warning.id, warning.address) for warning in self.before.diagnostics}
        return any(
            get_diagnostic_level(diagnostic) is Level.WARNING
            and (diagnostic.id, diagnostic.address) not in known
            for diagnostic in self.plan.diagnostics
        )


def plan_rebalancing(request: RebalanceRequest, context: CommandContext) -> RebalanceAnswer:
    """Find the fewest evictions by plans of the configuration.

    Raises UnreadableInput, also if it has errors.
    """
    with begin_trial_run(context) as (run, sources):
        members = find_member_blocks(run.project.configuration)
        candidates = tuple(list_candidate_bindings(run.project.configuration, run.stored.state))
        trials = _EvictionTrials(run, members)
        # The plan without evictions has to work.
        trials.evaluate(EvictionProposal())
        problems = (
            trials.problems
            or _check_unrecorded_bindings(
                _find_unrecorded_bindings(trials.base.plan, run.stored.state)
            )
            or list(_build_unknown_name_errors(request, candidates))
        )
        if problems:
            raise UnreadableInput(problems, sources)
        result = find_minimum_evictions(request, candidates, members, trials.evaluate)
        warnings = tuple(list_missing_data_of_plan(trials.base.plan))
    if result.trial is None:
        return RebalanceAnswer(result, warnings, sources)
    evictions, _ = format_text(SourceFile(_EVICTIONS_FILE, render_evictions(result.trial, members)))
    taints, _ = format_text(SourceFile(_TAINTS_FILE, render_taints(result.trial, members)))
    return RebalanceAnswer(result, warnings, sources, evictions=evictions, taints=taints)


def get_taints_path(path: str) -> str:
    """Return the path of the override file with the taints of a generated file."""
    return path.removesuffix(CONFIGURATION_SUFFIX) + OVERRIDE_SUFFIX


def check_output_path(path: str) -> list[Diagnostic]:
    """Return errors if the configuration cannot be written to a path."""
    problems = [check_generated_path(path), check_generated_path(get_taints_path(path))]
    if path.endswith(OVERRIDE_SUFFIX):
        detail = (
            f'"{path}" is the name of an override file. It cannot contain new blocks. Choose '
            "another name."
        )
        problems.append(build_error("unwritable-generated-configuration", detail))
    return [problem for problem in problems if problem is not None]


def write_rebalancing(
    path: str, rebalancing: RebalanceAnswer, context: CommandContext
) -> list[Diagnostic]:
    """Write the evictions to `path`, and their taints to its override file.

    If the second file fails, remove the first one. Return problems, also a warning if nexusform
    does not read the file there.
    """
    problems = write_new_file(path, rebalancing.evictions)
    if rebalancing.taints and not problems:
        problems = write_new_file(get_taints_path(path), rebalancing.taints)
        if problems:
            # The evictions are wrong without their taints.
            remove_file(path)
    is_in_directory = Path(path).resolve().parent == Path(context.directory).resolve()
    if not problems and not (is_in_directory and path.endswith(CONFIGURATION_SUFFIX)):
        detail = (
            f"The configuration was written to {path}. nexusform reads *{CONFIGURATION_SUFFIX} "
            "files only from the directory of the root module. Move the file there before the next "
            "plan."
        )
        problems = [build_warning("generated-configuration-exists", detail)]
    return problems


class _EvictionTrials:
    """Plans with evictions, each made once.

    `problems` are errors of the base: the plan without evictions.
    """

    def __init__(self, run: Run, members: Mapping[str, MemberBlock]) -> None:
        """Start without plans.

        `members` are the blocks that can get taints, by cluster name.
        """
        self.run = run
        self.members = members
        # Errors of the plan without evictions.
        self.problems: list[Diagnostic] = []
        # The plan without evictions.
        self._before: PlanResult | None = None
        # Of the trials planned so far.
        self._outcomes: dict[EvictionProposal, TrialOutcome] = {}

    @property
    def base(self) -> PlanResult:
        """The plan without evictions."""
        assert self._before is not None
        return self._before

    def evaluate(self, trial: EvictionProposal) -> TrialOutcome:
        """Return the outcome of a plan with these evictions and taints.

        Equal trials are planned once.
        """
        if trial not in self._outcomes:
            self._outcomes[trial] = self._plan_trial(trial)
        return self._outcomes[trial]

    def _plan_trial(self, trial: EvictionProposal) -> TrialOutcome:
        """Plan the project with the blocks of a trial.

        Errors with evictions only reject the trial. Errors without any eviction are kept in
        `problems`: the configuration itself is invalid.
        """
        texts = {
            _EVICTIONS_FILE: render_evictions(trial, self.members),
            _TAINTS_FILE: render_taints(trial, self.members),
        }
        extra = tuple(SourceFile(name, text) for name, text in omit_empty(texts).items())
        options = PlanOptions(
            refresh=False,
            samples=0,
            includes_remedies=False,
            verifies_certainty=False,
            before=self._before,
        )
        if extra:
            configuration, problems = load_project_configuration(self.run.project.context, extra)
            errors = _select_errors(problems)
            if errors:
                return TrialOutcome(error=errors[0].detail)
            options = replace(options, edits=(AddedBlocks(configuration),))
        result = self.run.plan(options)
        errors = _select_errors(result.diagnostics)
        if not trial.evictions:
            self.problems = errors
            self._before = result
        return build_trial_outcome(result.plan, errors[0].detail if errors else "")


def _find_unrecorded_bindings(
    plan: Plan, state: State, *, left_members: Collection[str] = ()
) -> Iterator[PlacementChange]:
    """Yield the existing bindings of placements, or on `left_members`, that the state lacks.

    They were only read from a hub. Evictions and the departure of a member start from the state,
    so these bindings would seem to stay.
    """
    recorded = {address for address, _ in state.list_current_objects()}
    recorded_members = {
        str(change.before["name"])
        for change in plan.changes
        if change.address.type == MEMBER_TYPE and change.before is not None
    }
    for row in plan.placements:
        if row.kind != BINDING or row.source is None or row.action is PlacementAction.REMOVE:
            continue
        is_placement_missing = row.address.type == _PLACEMENT_TYPE and row.address not in recorded
        is_member_missing = row.object not in recorded_members
        if is_member_missing if row.object in left_members else is_placement_missing:
            yield row


def _check_unrecorded_bindings(rows: Iterable[PlacementChange]) -> list[Diagnostic]:
    """Return the error about bindings that the state lacks, if there are any."""
    names = [f"{row.address} on {row.object}" for row in rows]
    if not names:
        return []
    detail = (
        f"The state lacks bindings that were read: {format_first_items(names, _MAX_NAMES)}. This "
        "question starts from the state. Record them first:\n\n    nexusform apply"
    )
    return [build_error("invalid-simulation", detail)]


def _select_errors(problems: Iterable[Diagnostic]) -> list[Diagnostic]:
    return [problem for problem in problems if has_errors([problem])]


def list_candidate_bindings(
    configuration: Configuration, state: State
) -> Iterator[EvictionCandidate]:
    """Yield the bindings to evict: of cluster-scoped placements, not being deleted.

    Provider "" is the default.
    """
    blocks = {block.address: block for block in configuration.root.resources.values()}
    for address, current in state.list_current_objects():
        # Another object, or a namespaced placement.
        if address.type != _PLACEMENT_TYPE:
            continue
        attributes = current.attributes
        policy = PlacementPolicy(
            get_text(attributes, "policy", "placement_type") or PlacementPolicy.PICK_ALL
        )
        block = blocks.get(address.config_address)
        provider = block.provider if block is not None else current.provider
        # An eviction block needs no `provider` for it.
        if provider == DEFAULT_PROVIDER:
            provider = ""
        for binding in read_bindings(attributes):
            if not binding.is_deleting:
                yield EvictionCandidate(
                    str(attributes["name"]), binding.cluster, policy, address, provider
                )


def _build_unknown_name_errors(
    request: RebalanceRequest, candidates: tuple[EvictionCandidate, ...]
) -> Iterator[Diagnostic]:
    """Yield an error per unknown cluster or placement of the request."""
    # Each has a flag, a noun, the requested name and the known names.
    checks = (
        (
            "-from",
            "cluster with a placement",
            request.source_cluster,
            {item.cluster for item in candidates},
        ),
        ("-for", "applied placement", request.placement, {item.placement for item in candidates}),
    )
    for flag, noun, name, names in checks:
        if name and name not in names:
            choice = enclose(" Known: ", ", ".join(sorted(names)), ".")
            detail = f'{flag}: There is no {noun} "{name}".{suggest_name(name, names)}{choice}'
            yield build_error("invalid-simulation", detail)


def read_trial_manifests(
    path: str, count: int | None, clusters: tuple[str, ...], context: CommandContext
) -> SimulatedPlacement:
    """Read the manifests of a placement on `count` clusters, `clusters` or all.

    Raises UnreadableInput.
    """
    try:
        text = read_file(
            path, SIZE_CAP, context.confinement.get_operator_confinement(path)
        ).decode()
    except (FileProblem, UnicodeDecodeError) as problem:
        raise UnreadableInput([build_error("unreadable-manifest", f"-f: {problem}")]) from None
    reading = parse_manifests(path, text)
    messages = [finding.detail for finding in reading.findings] + list_unusable_manifests(
        reading.manifests
    )
    if not reading.manifests and not messages:
        messages = [f'"{path}" has no manifest.']
    if messages:
        raise UnreadableInput(build_error("unreadable-manifest", message) for message in messages)
    return SimulatedPlacement(text, reading.manifests, count, clusters)


def plan_trial_placement(
    trial: SimulatedPlacement, context: CommandContext
) -> tuple[Plan, Mapping[str, SourceFile]]:
    """Plan the directory with the placement, without reading providers.

    Return the plan and the source files. Raises UnreadableInput.
    """
    with begin_trial_run(context) as (run, _):
        configuration, problems = load_project_configuration(
            context, [build_trial_configuration(trial)]
        )
        errors = _select_errors(problems)
        if not errors:
            edits = (AddedBlocks(configuration),)
            options = PlanOptions(refresh=False, samples=0, includes_losses=True, edits=edits)
            plan = run.plan(options).plan
            errors = _select_errors(plan.diagnostics)
    if errors:
        raise UnreadableInput(errors, configuration.files)
    return plan, configuration.files


def plan_member_edits(edits: Sequence[MemberEdit], run: Run) -> HypotheticalFleet:
    """Plan the directory with edits of fleet members, without reading providers.

    Raises DiagnosticsError: for invalid edits, and if the plan without them fails.
    """
    before = run.plan(PlanOptions(refresh=False))
    errors = _select_errors(before.plan.diagnostics)
    if errors:
        raise UnreadableInput(errors, run.project.sources)
    changes = build_plan_edits(before.plan, edits)
    left_members = {edit.member for edit in edits if edit.kind is MemberEditKind.LEAVE}
    errors = _check_unrecorded_bindings(
        row
        for row in _find_unrecorded_bindings(
            before.plan, run.stored.state, left_members=left_members
        )
        if row.object in {*left_members, *changes.drained}
    )
    if errors:
        raise UnreadableInput(errors, run.project.sources)
    bindings = list_candidate_bindings(run.project.configuration, run.stored.state)
    evictions = [
        replace(item, purpose="drain") for item in bindings if item.cluster in changes.drained
    ]
    added_text = changes.blocks + render_evictions(EvictionProposal(tuple(evictions)), {})
    plan_edits = changes.edits
    if added_text:
        configuration, problems = load_project_configuration(
            run.project.context, [SourceFile(_MEMBERS_FILE, added_text)]
        )
        errors = _select_errors(problems)
        if errors:
            raise UnreadableInput(errors, configuration.files)
        plan_edits = (AddedBlocks(configuration), *plan_edits)
    assumptions = tuple(edit.text for edit in edits)
    options = PlanOptions(refresh=False, assumptions=assumptions, edits=plan_edits, before=before)
    return HypotheticalFleet(run.plan(options).plan, before.plan)


@contextmanager
def begin_trial_run(context: CommandContext) -> Iterator[tuple[Run, Mapping[str, SourceFile]]]:
    """Begin a run without a lock; yield it and the source files.

    Raises UnreadableInput.
    """
    opened = open_project(context)
    if opened.project is None:
        raise UnreadableInput(opened.diagnostics, opened.sources)
    locking = LockOptions(enabled=False, is_exclusive=True)
    # Nothing is written: changes of an interrupted apply are read, but not saved.
    with begin_run(opened.project, "OperationTypePlan", locking, records_recovery=False) as run:
        # Its diagnostics are the reasons.
        if not run.is_ready:
            raise UnreadableInput((*opened.diagnostics, *run.diagnostics), opened.sources)
        yield run, opened.sources
