"""Saved plans: writing them, and deciding whether one may still be applied."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, TypeAlias

from msgspec.structs import replace

from nexusform.configuration.declared.configuration import Configuration, Module
from nexusform.configuration.loader import load, read_variables
from nexusform.diagnostics import Diagnostic, Severity, error, has_errors
from nexusform.plain_data import from_plain, to_plain
from nexusform.plans.plan import Plan, VariableValue
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.ports import FileProblem
from nexusform.regular_files import FREE, Confinement
from nexusform.resource_types.registry import registries
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import EMPTY, State
from nexusform.state_ports import StateBackend, is_sealed
from nexusform.values import Value
from nexusform.workflow.opening.encryption import opened, sealed_plan
from nexusform.workflow.opening.place import (
    Confining,
    Place,
    both_allow,
    confined_to_plan,
    load_configuration,
)
from nexusform.workflow.opening.project import Opened, open_backend, project_with
from nexusform.workflow.opening.surroundings import open_file, read_file, write_output
from nexusform.workflow.runs.run import Run

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
        prior = run.stored.state
        before = {} if prior is EMPTY else codec.plain_document(prior)
        document = plan_file.write(recorded, snapshot, before, signer)
    except FileProblem as problem:
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
    return codec.from_plain_document(saved.prior_state, path)


def sources_of(saved: SavedPlan) -> dict[str, SourceFile]:
    """The files of the configuration that a plan was made from, as they were."""
    return {name: SourceFile(name, text) for name, text in saved.snapshot.items()}


def read_limited(path: str, place: Place) -> bytes:
    """The content of a plan or state file that the operator names. Raises FileProblem."""
    largest = place.largest_file()
    confinement = place.confinement.of_operator(path)
    return read_file(path, largest, confinement, hint=_RAISE)


def open_limited(path: str, place: Place) -> BinaryIO:
    """A plan file that the operator names, to be read piece by piece. Raises FileProblem."""
    return open_file(path, place.largest_file(), place.confinement.of_operator(path), hint=_RAISE)


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
        if configuration is not None:
            standing_in = _moved_to(configuration.root, str(root), place.directory)
            configuration = replace(configuration, root=standing_in)
    return configuration, [p for p in problems if p.severity is Severity.ERROR]


def _moved_to(module: Module, root: str, directory: str) -> Module:
    """A module with all below it, as if the root module's directory were another."""
    there = os.path.normpath(Path(directory, os.path.relpath(module.directory, root)))
    calls = {
        name: replace(call, module=_moved_to(call.module, root, directory))
        for name, call in module.calls.items()
    }
    return replace(module, directory=there, calls=calls)


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
