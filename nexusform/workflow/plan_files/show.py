"""What `show` may be pointed at: the state, a saved plan, or one resource."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from nexusform.address import Address, AddressPattern, AddressProblem, address_order, parse_pattern
from nexusform.configuration.declared.configuration import Configuration
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.ports import FileProblem
from nexusform.source import SourceFile
from nexusform.state import codec
from nexusform.state.objects import EMPTY, InstanceState, State
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.project import find_backend
from nexusform.workflow.opening.stored import read_stored, schemas
from nexusform.workflow.plan_files.saved_plans import (
    configuration_of,
    prior_of,
    read_limited,
    read_plan,
    sources_of,
    unsealed,
)


class Shown(Struct, frozen=True):
    """What is to be shown.

    Either a saved plan with its configuration and prior state, or a state of which `instances` are
    to be shown (None: all of it).
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    sources: Mapping[str, SourceFile] | None = None
    saved: SavedPlan | None = None
    configuration: Configuration | None = None
    state: State = EMPTY
    instances: Mapping[Address, InstanceState] | None = None


def find_shown(place: Place, target: str) -> Shown:
    """An existing file wins, then an address; "" is the whole state."""
    if target and Path(target).is_file():
        return _file(place, target)
    pattern: AddressPattern | None = None
    if target:
        try:
            pattern = parse_pattern(target)
        except AddressProblem as problem:
            return Shown((error("nothing-to-show", f'There is no file "{target}", and {problem}'),))
    backend, problems, sources = find_backend(place)
    if backend is None:
        return Shown(tuple(problems), sources)
    stored, wrong = read_stored(backend)
    problems += wrong
    if stored is None:
        return Shown(tuple(problems), sources)
    if pattern is None:
        return Shown(tuple(problems), sources, state=stored.state)
    return _chosen(stored.state, pattern, target, problems, sources)


def _chosen(
    state: State,
    pattern: AddressPattern,
    target: str,
    problems: list[Diagnostic],
    sources: Mapping[str, SourceFile],
) -> Shown:
    """The part of a state at an address."""
    addresses = sorted(filter(pattern.matches, state.instances), key=address_order)
    if not addresses:
        near = did_you_mean(target, [str(a) for a in state.instances])
        problems.append(error("no-such-resource-in-the-state", f"The state holds nothing at {target}.{near}"))
    instances = {address: state.instances[address] for address in addresses}
    return Shown(tuple(problems), sources, state=state, instances=instances)


def _file(place: Place, path: str) -> Shown:
    """What a file holds: a saved plan, or a state."""
    try:
        content = read_limited(path, place)
    except FileProblem as problem:
        return Shown((error("nothing-to-show", str(problem)),))
    content, problems = unsealed(content, path, place)
    if has_errors(problems):
        return Shown(tuple(problems))
    if not content.startswith(b"PK"):
        state, problems = codec.decode(content, path, schemas())
        return Shown(tuple(problems), state=state or EMPTY)
    saved, problems = read_plan(path, place)
    if saved is None:
        return Shown(tuple(problems))
    configuration, _ = configuration_of(place, saved)
    prior, wrong = prior_of(saved, path)
    problems += wrong
    if has_errors(problems):
        return Shown(tuple(problems))
    sources = sources_of(saved)
    return Shown(tuple(problems), sources, saved, configuration, prior or EMPTY)
