"""Saved plans: writing them, and deciding whether one may still be applied."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

import nexusform
from nexusform.configuration.configuration import Configuration
from nexusform.configuration.loader import load, read_variables
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors, warning
from nexusform.plain_data import from_plain, to_plain
from nexusform.planning.guard_rails import broken_limits
from nexusform.planning.modules.outputs import read_all_data
from nexusform.planning.names.setting import standing_evaluation
from nexusform.planning.plan import Action, Mode, Plan, VariableValue
from nexusform.planning.saved import plan_file
from nexusform.planning.saved.plan_file import SavedPlan
from nexusform.planning.saved.record_codec import write_record
from nexusform.planning.verification.verification import problem_of
from nexusform.ports import FileProblem, Files
from nexusform.regular_files import FREE, Confinement, Outside
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state import codec, json_text
from nexusform.state.objects import EMPTY, State
from nexusform.state_ports import BackendProblem, StateBackend, is_sealed
from nexusform.values import Value
from nexusform.words import first_of, listed
from nexusform.workflow.encryption import opened, sealed_plan
from nexusform.workflow.place import Confining, Place, both_allow, confined_to_plan, load_configuration
from nexusform.workflow.project import Opened, open_backend, project_with
from nexusform.workflow.run import PlanOptions, Run, base_request
from nexusform.workflow.surroundings import commit_of, read_file, write_output

_RAISE: Final = "If it is meant to be so large, raise the limit: -limit=file_mib=N or NF_LIMIT_FILE_MIB=N."
_MOST_NAMED = 5
_NOT_GIVEN = "no-value-for-required-variable"


Signer: TypeAlias = Callable[[str], Mapping[str, str]]  # a digest to what stands in the plan file


def save_plan(
    plan: Plan, run: Run, path: str, signer: Signer | None = None, *, durable: bool = True
) -> list[Diagnostic]:
    """Write a plan file, signed when a signer is there, encrypted when plans are to be. One that this command
    will gather is not `durable`.
    """
    project = run.project  # with the configuration that planning may have written
    configuration = project.configuration
    snapshot = {name: source.text for name, source in configuration.files.items()}
    try:
        recorded = with_confinement(plan, project.place)
        document = plan_file.write(recorded, snapshot, run.prior_document() or b"", signer)
    except (BackendProblem, FileProblem) as problem:
        return [error("the-plan-cannot-be-saved", str(problem))]
    if len(document) > project.place.largest_file():
        detail = f"It has {len(document)} bytes, more than any command would read. {_RAISE}"
        return [error("the-plan-cannot-be-saved", detail)]
    document, problems = sealed_plan(document, configuration, project.place)
    if has_errors(problems):
        return problems
    try:
        # sensitive values stand in it
        write_output(path, document, private=True, durable=durable)
    except OSError as problem:
        return [
            *problems,
            error("the-plan-cannot-be-saved", f'"{path}" cannot be written: {problem.strerror}.'),
        ]
    return problems


def read_plan(path: str, place: Place) -> tuple[SavedPlan | None, list[Diagnostic]]:
    """Read a plan file; an encrypted one by what the place's configuration and environment say."""
    try:
        data = read_limited(path, place)
    except FileProblem as problem:
        return None, [error("the-plan-cannot-be-read", str(problem))]
    data, problems = unsealed(data, path, place)
    if has_errors(problems):
        return None, problems
    saved, more = plan_file.read(data, path)
    return saved, [*problems, *more]


def prior_of(saved: SavedPlan, path: str) -> tuple[State | None, list[Diagnostic]]:
    """The state that a plan was made from; None, with problems, when it cannot be read."""
    if not saved.prior_state:
        return EMPTY, []
    return codec.decode(saved.prior_state, path)


def sources_of(saved: SavedPlan) -> dict[str, SourceFile]:
    """The files of the configuration that a plan was made from, as they were."""
    return {name: SourceFile(name, text) for name, text in saved.snapshot.items()}


def read_limited(path: str, place: Place) -> bytes:
    """The content of a plan or state file that the operator names. Raises FileProblem."""
    largest = place.largest_file()
    confinement = place.confinement.of_operator(path)
    return read_file(path, largest, confinement, hint=_RAISE)


def unsealed(document: bytes, path: str, place: Place) -> tuple[bytes, list[Diagnostic]]:
    """A state or plan file, decrypted as the place says when it is encrypted."""
    if not is_sealed(document):
        return document, []
    configuration, _ = load_configuration(place)
    return opened(document, path, configuration, place)


def open_saved(
    place: Place, saved: SavedPlan, backend: StateBackend | None = None, *, vouched: bool = False
) -> Opened:
    """The project of a saved plan: its configuration and variables, as they were reviewed.

    Its state is in `backend`; without one, in the backend that its configuration names. `vouched` is that
    of `place_of_plan`.
    """
    configuration, problems = configuration_of(place, saved)
    sources = sources_of(saved)
    if configuration is None or has_errors(problems):
        return Opened(None, tuple(problems), sources)
    problems += other_variables(place, configuration, saved.plan)
    try:
        own_place, place = place, place_of_plan(place, saved.plan, vouched=vouched)
    except ValueError as problem:
        return Opened(None, (*problems, error("the-plan-cannot-be-read", str(problem))), sources)
    if backend is None:
        # Where the directory says the same, it is not the plan that says where credentials go.
        is_own = place.confining is Confining.PLAN and _stands_here(own_place, saved)
        backend, wrong = open_backend(own_place if is_own else place, configuration)
        problems += wrong
    if backend is None or has_errors(problems):
        return Opened(None, tuple(problems), sources)
    variables = planned_variables(saved.plan)
    answers = saved.plan.basis.answers
    project = project_with(place, configuration, variables, sources, backend, answers)
    return Opened(project, tuple(problems), sources)


def with_confinement(plan: Plan, place: Place) -> Plan:
    """The plan with a record of how the place confined it."""
    is_confined = bool(place.confinement.root)
    allowed = place.allow_remote if is_confined else ()
    confined = "yes" if is_confined else "no"
    return replace(plan, basis=replace(plan.basis, confined=confined, allowed=tuple(sorted(allowed))))


def place_of_plan(place: Place, plan: Plan, *, vouched: bool = False) -> Place:
    """Where what a plan file says is evaluated: never freer than the plan was, whatever it says of itself.

    `vouched`: its signature was verified, or it stood in the journal of the state; then it is believed that
    it was not confined. Raises ValueError when it cannot be confined here.
    """
    if place.confining is Confining.SWITCHED_OFF:
        return place
    basis = plan.basis
    if vouched and basis.confined == "no" and place.confining is not Confining.OPERATOR:
        return replace(place, confinement=FREE, confining=Confining.NOBODY)
    if not place.confinement.root:
        place = confined_to_plan(place)
    if basis.confined != "yes":
        return place
    return replace(place, allow_remote=both_allow(place.allow_remote, basis.allowed))


def _stands_here(place: Place, saved: SavedPlan) -> bool:
    """Whether the plan's configuration is that of the directory. No variable says which backend."""
    standing, _ = load_configuration(place)
    return standing is not None and _is_snapshot(standing, saved.snapshot)


def _is_snapshot(configuration: Configuration, snapshot: Mapping[str, str]) -> bool:
    return {name: source.text for name, source in configuration.files.items()} == dict(snapshot)


def planned_variables(plan: Plan) -> dict[str, Value]:
    """The variables as a plan saw them."""
    return {name: _value(variable) for name, variable in plan.variables.items()}


def _value(variable: VariableValue) -> Value:
    return from_plain(variable.value, variable.type, [()] if variable.sensitive else ())


def configuration_of(place: Place, saved: SavedPlan) -> tuple[Configuration | None, list[Diagnostic]]:
    """The directory's configuration when it is still that of the plan, otherwise the snapshot's."""
    standing, _ = load_configuration(place)
    if standing is not None and _is_snapshot(standing, saved.snapshot):
        return standing, []
    known = registries()
    with tempfile.TemporaryDirectory(prefix="nexusform-plan-") as directory:
        root = _unpack(saved.snapshot, Path(directory))
        configuration, problems = load(
            str(root),
            cache_directory=None,
            managed=known.schemas["managed"],
            data=known.schemas["data"],
            confinement=Confinement(os.path.realpath(directory)),
        )
    return configuration, [p for p in problems if p.severity is Severity.ERROR]


def _unpack(snapshot: Mapping[str, str], directory: Path) -> Path:
    """Write the files of a snapshot; the root module's directory, deep enough for names with `..`."""
    depth = max((PurePosixPath(name).parts.count("..") for name in snapshot), default=0)
    root = directory.joinpath(*(f"d{n}" for n in range(depth + 1)))
    root.mkdir(parents=True)
    for name, text in snapshot.items():
        path = (root / name.lstrip("/")).resolve()
        if path.is_relative_to(directory.resolve()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return root


def other_variables(place: Place, configuration: Configuration, plan: Plan) -> list[Diagnostic]:
    """Variables given now that have another value in the plan."""
    variables, problems = read_variables(
        configuration,
        environment=place.environment,
        var_options=place.variables,
        directory=place.directory,
        confinement=place.confinement,
    )
    differing = [p for p in problems if p.severity is Severity.ERROR and p.id != _NOT_GIVEN]
    for name, (value, origin) in variables.items():
        planned = plan.variables.get(name)
        if origin.text == "default" or planned is None:
            continue
        if value.is_wholly_known and to_plain(value)[0] != planned.value:
            differing.append(
                error(
                    "saved-plan-has-other-variables",
                    f'The variable "{name}" has another value now ({origin.text}) than in the saved plan, '
                    "which is applied as it was reviewed. Leave the variable out, or plan again.",
                )
            )
    return differing


# --- may it be applied -------------------------------------------------------------------------


class CheckedPlan(Struct, frozen=True):
    """What is to be applied (None: refused) and what to say of it."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...] = ()


def judge(run: Run, saved: SavedPlan, *, replan: bool = False) -> CheckedPlan:
    """Whether a saved plan may be applied to the state as it is now.

    What it was made of may be another since: then, and with `replan`, planning again must give the same.
    """
    plan, state = saved.plan, run.stored.state
    refusal = _refusal(run, saved) or _unseen(run, plan)
    if refusal is not None:
        return CheckedPlan(None, (refusal,))
    remarks = _other_configuration(run, saved)
    if plan.serial != state.serial:
        verdict = _still_the_same(run, plan)
        return replace(verdict, diagnostics=(*remarks, *verdict.diagnostics))
    others = _others_since(run, saved)
    differing = _differing(plan, _planned_again(run, plan)) if others or replan else ""
    if differing:
        return CheckedPlan(None, (*remarks, _not_the_same(others, differing)))
    problem = problem_of(plan, state, run.project.registries.resource_types)
    if problem:
        return CheckedPlan(None, (_disagreeing(problem),))
    compared = _shown_otherwise(run, plan)
    if has_errors(compared):
        return CheckedPlan(None, tuple(compared))
    return CheckedPlan(plan, (*remarks, *map(_other_but_alike, others), *compared))


# What a plan says of how it was made.
_NOT_COMPARED: Final = frozenset({"basis", "nexusform_version", "timestamp", "variables", "prior_digest"})


def _shown_otherwise(run: Run, plan: Plan) -> list[Diagnostic]:
    """An error for what a plan shows that does not follow from its configuration and the state, a warning
    where that cannot be looked at.

    The plan is made once more of what it was made of, with what its providers saw then.
    """
    if plan.nexusform_version != nexusform.__version__:
        return [_not_compared(f"It was made by nexusform {plan.nexusform_version}.")]
    changed = _changed_files(plan.basis.files, run.project.files)
    if changed:
        return [_not_compared(f"It was made of another {first_of(changed, _MOST_NAMED)}.")]
    again = run.plan_of(plan)
    if again.errored:
        first = next(each for each in again.diagnostics if each.severity is Severity.ERROR)
        fails = f"Planning again fails here: {first.summary}.{run.project.place.why_confined}"
        # It did not fail when the plan was made of the same.
        return [_disagreeing(fails) if _is_all_here(run, plan) else _not_compared(fails)]
    shown, made = write_record(plan), write_record(again)
    # Providers and imports may have said more; what planning says must be there.
    said = {_text(each) for each in shown.pop("diagnostics", [])}
    if not {_text(each) for each in made.pop("diagnostics", [])} <= said:
        return [_disagreeing("It does not show all warnings that planning gives.")]
    for name in {**shown, **made}:
        if name not in _NOT_COMPARED and _text(shown.get(name)) != _text(made.get(name)):
            return [_disagreeing(f"Its {name.replace('_', ' ')} are not those that planning gives.")]
    return []


def _is_all_here(run: Run, plan: Plan) -> bool:
    """Whether the plan's configuration stands here, and everything that it read from outside can be read."""
    project = run.project
    if plan.basis.states or project.configuration.root.directory != project.place.directory:
        return False
    files = [*plan.basis.files, *plan.basis.data_files]
    return all(_is_readable(path, project.files) for path in files)


def _is_readable(path: str, files: Files) -> bool:
    try:
        files.read(path)
    except FileProblem:
        return False
    return True


def _not_compared(why: str) -> Diagnostic:
    return warning(
        "what-the-plan-shows-was-not-compared",
        f"{why} Its steps, changes and places of VMs agree with each other and with the state; rows of pods, "
        "room, tables and warnings could not be compared with what planning gives.",
    )


def _text(record: Any) -> bytes:
    return json_text.dumps(_without_places(record), sort=True, default=str)


def _without_places(record: Any) -> Any:
    """The same without places in files, which stand in another directory for the plan's own configuration."""
    if isinstance(record, dict):
        is_place = record.keys() == {"filename", "start", "end"}
        return None if is_place else {name: _without_places(part) for name, part in record.items()}
    if isinstance(record, list):
        return [_without_places(part) for part in record]
    return record


def _disagreeing(problem: str) -> Diagnostic:
    return error(
        "saved-plan-does-not-mean-what-it-shows",
        f"{problem} Steps, changes and placements of a plan agree with each other and with the state; "
        "somebody changed this one. Plan again and review the new plan.",
    )


def _refusal(run: Run, saved: SavedPlan) -> Diagnostic | None:
    """Why a saved plan cannot be applied to what stands."""
    plan, state = saved.plan, run.stored.state
    if plan.errored:
        return error(
            "saved-plan-has-errors", "A plan with errors cannot be applied. Mend them and plan again."
        )
    limits = broken_limits(plan)
    if limits:
        return error(
            "saved-plan-breaks-a-guard-rail",
            f"When it was made, it broke {listed(limits)}. Nothing was done. If that is meant, plan again "
            "with a limit that allows it.",
        )
    if plan.workspace != run.project.workspace:
        return error(
            "saved-plan-is-for-another-workspace",
            f'It was made for the workspace "{plan.workspace}", and "{run.project.workspace}" is selected.',
        )
    if saved.digest in state.applied_plans:
        return error(
            "saved-plan-was-applied-already",
            "The state says that this very plan was applied. If that apply did not come to its end, "
            "`nexusform apply -resume` does what it left to do; otherwise plan again.",
        )
    if plan.lineage != state.lineage:
        return error(
            "saved-plan-does-not-match-the-state",
            f"The plan was made for {_history(plan.lineage)}, and here is "
            f"{_history(state.lineage)}. Plan again.",
        )
    return None


def _history(lineage: str) -> str:
    return f'the state with lineage "{lineage}"' if lineage else "an empty state"


def _still_the_same(run: Run, plan: Plan) -> CheckedPlan:
    """A plan on an older serial: accepted when planning again gives the same changes."""
    if plan.mode is not Mode.NORMAL or plan.targets or plan.excludes or plan.replaces:
        return CheckedPlan(None, (_stale(run, plan, "Plans with special options are not compared."),))
    again = _planned_again(run, plan)
    differing = _differing(plan, again)
    if differing:
        return CheckedPlan(None, (_stale(run, plan, f"Planning again gives other changes: {differing}"),))
    said = warning(
        "the-state-changed-since-the-plan-was-saved",
        f"The plan was made on serial {plan.serial}, and the state has serial {run.stored.state.serial} now. "
        "Planning again gives the identical changes, so they are applied.",
    )
    return CheckedPlan(again, (said,))


def _planned_again(run: Run, plan: Plan) -> Plan:
    """The plan of today, asked for as that one was, at its time."""
    options = PlanOptions(
        mode=plan.mode,
        targets=plan.targets,
        excludes=plan.excludes,
        replaces=plan.replaces,
        now=plan.timestamp,
    )
    return run.plan(options).plan


def _differing(plan: Plan, again: Plan) -> str:
    """What a reviewer would see otherwise in the plan of today, "" when nothing is."""
    if again.errored:
        first = next(each for each in again.diagnostics if each.severity is Severity.ERROR)
        return f"it fails ({first.summary}{', ' if first.address else ''}{first.address})."
    before, now = _essence(plan), _essence(again)
    names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}." if names else ""


def _essence(plan: Plan) -> dict[str, list[object]]:
    """What a reviewer saw, by the name of each thing; creation numbers are bookkeeping."""
    seen: dict[str, list[object]] = {}
    for change in plan.changes:
        if change.action is not Action.NO_OP or change.previous_address or change.importing:
            key = f"{change.address} (deposed {change.deposed})" if change.deposed else str(change.address)
            seen.setdefault(key, []).append(replace(change, creation=0, prior_creation=0, source=None))
    for row in plan.placements:
        seen.setdefault(f"where {row.object} of {row.address} is", []).append(row)
    for output in plan.outputs:
        seen[f"output.{output.name}"] = [output]
    for upgrade in plan.upgrades:
        seen.setdefault(f"how {upgrade.cluster} is made anew", []).append(upgrade)
    seen |= {f"{old} moved to {new}": [] for old, new in plan.moved}
    return seen


# --- what it was made of -----------------------------------------------------------------------


def _unseen(run: Run, plan: Plan) -> Diagnostic | None:
    """Why a confined run cannot tell whether what the plan was made of is another now."""
    place = run.project.place
    if not place.confinement.root:
        return None
    paths = (*plan.basis.files, *plan.basis.data_files)
    names = [f'"{path}"' for path in paths if not _admits(place.confinement, path)]
    if plan.basis.states:
        readable = _states_now(run)
        names += [f"the state that {name} reads" for name in plan.basis.states if name not in readable]
    if not names:
        return None
    return error(
        "saved-plan-reads-what-is-confined",
        f"It was made of {first_of(names, _MOST_NAMED)}, which a confined run does not read, so that nobody "
        f"can tell whether it is another now. Nothing was done.{place.why_confined}",
    )


def _admits(confinement: Confinement, path: str) -> bool:
    try:
        confinement.admitted(path)
    except Outside:
        return False
    return True


def _states_now(run: Run) -> Mapping[str, str]:
    """The states of other configurations that can be read: lineage and serial by the data block's address."""
    evaluation = standing_evaluation(base_request(run.project, run.stored))
    read_all_data(run.project.configuration, evaluation)
    return evaluation.setting.reads.states


def _others_since(run: Run, saved: SavedPlan) -> list[str]:
    """What the plan stands on and is another now: the state of that serial, inventories, other states."""
    plan, others = saved.plan, []
    if plan.prior_digest != run.stored.digest:
        others.append(f"the state under serial {plan.serial}")
    others += [
        f'"{path.removeprefix("./")}"' for path in _changed_files(plan.basis.data_files, run.project.files)
    ]
    if plan.basis.states:
        now = _states_now(run)
        # One that cannot be read now says nothing of whether it changed.
        changed = [name for name, state in plan.basis.states.items() if now.get(name, state) != state]
        others += [f"the state that {name} reads" for name in changed]
    return others


def _changed_files(digests: Mapping[str, str], files: Files) -> list[str]:
    """Files with another content than was read; one that is not here is none of them."""
    changed: list[str] = []
    for path, digest in digests.items():
        try:
            content = files.read(path)
        except FileProblem:
            continue
        if sha256(content).hexdigest() != digest:
            changed.append(path)
    return changed


def _other_configuration(run: Run, saved: SavedPlan) -> list[Diagnostic]:
    """A warning when the configuration that stands here is not the one that was reviewed."""
    standing, _ = load_configuration(run.project.place)
    if standing is None or not standing.files:
        return []
    here = {name: file.text for name, file in standing.files.items()}
    names = [name for name in {**saved.snapshot, **here} if saved.snapshot.get(name) != here.get(name)]
    names += _changed_files(saved.plan.basis.files, run.project.files)
    if not names:
        return []
    place = run.project.place
    commit, now = (
        saved.plan.basis.commit,
        commit_of(place.directory, place.environment, place.confinement_of_directory),
    )
    commits = f" The plan was made at commit {commit[:12]}, and here is {now[:12]}." if commit and now else ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return [
        warning(
            "configuration-changed-since-the-plan-was-saved",
            f"{', '.join(names[:_MOST_NAMED])}{more}: another content than the plan was made of.{commits} "
            "The plan is applied as it was reviewed; plan again to see what the configuration says now.",
        )
    ]


def _other_but_alike(name: str) -> Diagnostic:
    return warning(
        "what-the-plan-stands-on-changed",
        f"Since the plan was made {name} changed. Planning again gives the identical changes, so they are "
        "applied.",
    )


def _not_the_same(others: Sequence[str], differing: str) -> Diagnostic:
    why = f"Since the plan was made {' and '.join(others)} changed, and planning" if others else "Planning"
    return error(
        "saved-plan-is-not-what-planning-gives-now",
        f"{why} again gives something else: {differing} Nothing was done. Plan again and review the new "
        "plan.",
    )


def _stale(run: Run, plan: Plan, why: str) -> Diagnostic:
    return error(
        "saved-plan-is-stale",
        f"The plan was made on serial {plan.serial} of the state, which has serial "
        f"{run.stored.state.serial} now. {why} Plan again and review the new plan.",
    )
