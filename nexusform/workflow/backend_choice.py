"""Which backend a configuration names, and what `init` remembers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends.registry import BACKENDS, Directories
from nexusform.configuration.configuration import Settings
from nexusform.configuration.constants import NO_NAMES
from nexusform.configuration.evaluation import prepare_body
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.ports import BackendProblem, StateBackend
from nexusform.regular_files import PRIVATE, read_regular, write_whole
from nexusform.schema import BlockSchema
from nexusform.source import Span
from nexusform.value_types import BOOL, Type

_MEMORY: Final = "backend.json"
_LARGEST_MEMORY: Final = 1 << 20  # bytes


class BackendChoice(Struct, frozen=True):
    """A kind of backend and its settings; `from_flags` are those of -backend-config alone."""

    kind: str
    settings: Mapping[str, Any]
    from_flags: Mapping[str, str]


def choose_backend(
    settings: Settings | None, directory: str, data_directory: str, state_path: str = ""
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend for the default workspace.

    `state_path` is the flag -state and counts for the local backend only. Refused when `init` has
    seen other settings: the state would seem to be gone.
    """
    known = remembered_choice(data_directory)
    choice, problems = configured_choice(settings, known.from_flags if known else {})
    if choice is None:
        return None, problems
    if known is not None and known != choice:
        return None, [*problems, _changed(known, choice, settings)]
    if state_path:
        if choice.kind != "local":
            return None, [
                *problems,
                error(
                    "flag-state-needs-the-local-backend",
                    f'This state is kept by the backend "{choice.kind}".',
                ),
            ]
        choice = BackendChoice("local", {**choice.settings, "path": state_path}, choice.from_flags)
    return _opened(choice, directory, data_directory, problems)


def configured_choice(
    settings: Settings | None, from_flags: Mapping[str, str]
) -> tuple[BackendChoice | None, list[Diagnostic]]:
    """What the `backend` block says, with the values of -backend-config over it."""
    kind = settings.backend_type if settings else "local"
    block = settings.backend if settings else None
    backend = BACKENDS.get(kind)
    if backend is None:
        near = did_you_mean(kind, BACKENDS)
        known = ", ".join(BACKENDS)
        return None, [
            error(
                "unknown-backend",
                f'There is no backend "{kind}". Known are: {known}.{near}',
                block.header_span if block else None,
            )
        ]
    values: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    if block is not None:
        body, misplaced = prepare_body(block.body, _any_part_of(backend.schema), block.header_span)
        evaluated, _, invalid = body.evaluate(NO_NAMES)
        problems += [*misplaced, *invalid]
        values.update(evaluated)
    for name, text in from_flags.items():
        if name not in backend.schema.attributes:
            near = did_you_mean(name, backend.schema.attributes)
            problems.append(
                error(
                    "unknown-backend-setting",
                    f'-backend-config: the backend "{kind}" has no setting "{name}".{near}',
                )
            )
            continue
        value, wrong = _from_text(name, text, backend.schema.attributes[name].type)
        problems += wrong
        values[name] = value
    chosen = {name: value for name, value in values.items() if value is not None}
    missing = [
        name for name, each in backend.schema.attributes.items() if each.required and name not in chosen
    ]
    if missing and not has_errors(problems):
        problems.append(_missing(kind, missing, block.header_span if block else None))
    return (None if has_errors(problems) else BackendChoice(kind, chosen, dict(from_flags))), problems


def _any_part_of(schema: BlockSchema) -> BlockSchema:
    """The schema with nothing required: what the block leaves out may come from -backend-config."""
    attributes = {
        name: replace(attribute, required=False, optional=True)
        for name, attribute in schema.attributes.items()
    }
    return replace(schema, attributes=attributes)


def _from_text(name: str, text: str, of: Type) -> tuple[Any, list[Diagnostic]]:
    """A setting of -backend-config as plain data of its type."""
    if of != BOOL:
        return text, []
    if text in ("true", "false"):
        return text == "true", []
    return None, [error("invalid-backend-setting", f'-backend-config: {name}="{text}": use true or false.')]


def _missing(kind: str, names: Sequence[str], span: Span | None) -> Diagnostic:
    listed = " and ".join(f'"{name}"' for name in names)
    return error(
        "missing-backend-setting",
        f'The backend "{kind}" needs {listed}: give it in the block or by -backend-config=NAME=VALUE.',
        span,
    )


def open_choice(
    choice: BackendChoice, directory: str, data_directory: str
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend of a choice, for `init`, which may open an old and a new one."""
    return _opened(choice, directory, data_directory, [])


def remembered_choice(data_directory: str) -> BackendChoice | None:
    """What `init` remembered, None when it never ran here."""
    try:
        document = json.loads(read_regular(Path(data_directory) / _MEMORY, _LARGEST_MEMORY, follow=False))
        return BackendChoice(str(document["type"]), dict(document["settings"]), dict(document["given"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember_choice(choice: BackendChoice, data_directory: str) -> None:
    """Keep a choice for the commands to come. Raises OSError."""
    directory = Path(data_directory)
    directory.mkdir(parents=True, exist_ok=True)
    document = {"type": choice.kind, "settings": dict(choice.settings), "given": dict(choice.from_flags)}
    text = json.dumps(document, indent=2, sort_keys=True) + "\n"
    path = directory / _MEMORY
    write_whole(path, text.encode(), PRIVATE)
    path.chmod(PRIVATE)  # settings may hold a password, and an earlier file may be for everybody


def _opened(
    choice: BackendChoice, directory: str, data_directory: str, problems: list[Diagnostic]
) -> tuple[StateBackend | None, list[Diagnostic]]:
    try:
        return BACKENDS[choice.kind].open(choice.settings, Directories(directory, data_directory)), problems
    except BackendProblem as problem:
        return None, [*problems, error("the-backend-cannot-be-opened", str(problem))]


def _changed(known: BackendChoice, choice: BackendChoice, settings: Settings | None) -> Diagnostic:
    what = f'from "{known.kind}" to "{choice.kind}"' if known.kind != choice.kind else "its settings changed"
    block = settings.backend if settings else None
    return error(
        "the-backend-changed",
        f"Since the last init the backend of this configuration changed ({what}). To take the state along, "
        "run `nexusform init -migrate-state`; to use what the new place holds, run "
        "`nexusform init -reconfigure`.",
        block.header_span if block else None,
    )
