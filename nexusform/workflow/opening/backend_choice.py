"""Which backend a configuration names, and what `init` remembers of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends.backend_kind import Directories
from nexusform.backends.registry import BACKENDS
from nexusform.configuration.body_evaluation import prepare_body
from nexusform.configuration.declared.configuration import Settings
from nexusform.configuration.declared.constants import NO_NAMES, constant
from nexusform.configuration.variable_values import from_file
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.language.syntax.nodes import Expression
from nexusform.plain_data import to_plain
from nexusform.ports import FileProblem
from nexusform.regular_files import PRIVATE, Outside, read_regular, write_whole
from nexusform.schema import BlockSchema
from nexusform.source import SourceFile, Span
from nexusform.state_ports import BackendProblem, StateBackend
from nexusform.value_types import BOOL, Type
from nexusform.workflow.opening.place import NO_LIMITS, Place
from nexusform.workflow.opening.surroundings import RealFiles

_MEMORY: Final = "backend.json"
_MIGRATION: Final = "migration"
_LARGEST_MEMORY: Final = 1 << 20  # bytes
NO_FLAGS: Final[Mapping[str, str]] = {}
_OF_THIS_MACHINE: Final = ("local", "memory")  # where they keep state is a matter of paths


class BackendChoice(Struct, frozen=True):
    """A kind of backend and its settings; `from_flags` are those of -backend-config alone."""

    kind: str
    settings: Mapping[str, Any]
    from_flags: Mapping[str, str]


PLAIN: Final = BackendChoice("local", {}, {})  # where no block says otherwise


def choose_backend(settings: Settings | None, place: Place) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend for the default workspace.

    The flag -state counts for the local backend only. Refused when `init` has seen other settings: the state
    would seem to be gone. Whoever gives -backend-config here says which settings count.
    """
    from_flags, problems = backend_settings(place)
    if has_errors(problems):
        return None, problems
    known = None if place.backend_config else remembered_choice(place)
    # Both first: a block of another backend says nothing yet of what is missing in it.
    refusal = _broken_off(place) or _changed_kind(known, settings)
    if refusal is not None:
        return None, [*problems, refusal]
    choice, wrong = configured_choice(settings, from_flags or (known.from_flags if known else {}), place)
    problems += wrong
    if choice is None:
        return None, problems
    if known is not None and known != choice:
        return None, [*problems, _changed("its settings changed", settings)]
    refusal = _forgotten(place, known) or (_left_behind(choice, settings, place) if known is None else None)
    if refusal is not None:
        return None, [*problems, refusal]
    if place.state_path:
        if choice.kind != "local":
            return None, [
                *problems,
                error(
                    "flag-state-needs-the-local-backend",
                    f'This state is kept by the backend "{choice.kind}".',
                ),
            ]
        path = {"path": place.state_path}
        choice = BackendChoice("local", {**choice.settings, **path}, {**choice.from_flags, **path})
    backend, wrong = open_choice(choice, settings, place)
    return backend, [*problems, *wrong]


def _broken_off(place: Place) -> Diagnostic | None:
    """Why nothing may be done between two backends: a migration did not come to its end."""
    if not place.remembers or place.backend_config or not migration_file(place.data_directory).exists():
        return None
    return error(
        "a-migration-was-broken-off",
        "`nexusform init -migrate-state` did not come to its end, so part of the state may be in either "
        "backend. Run it again with the new backend in the configuration (the earlier one still holds all); "
        "to use what the configuration says as it stands, run `nexusform init -reconfigure`.",
    )


def _forgotten(place: Place, known: BackendChoice | None) -> Diagnostic | None:
    """Why nothing may be done where what `init` remembered is there and says nothing."""
    memory = Path(place.data_directory, _MEMORY)
    if known is not None or not place.remembers or place.backend_config or not os.path.lexists(memory):
        return None
    return error(
        "the-backend-is-not-known-any-more",
        f'"{memory}" is not what init wrote, so that nobody knows which backend was used here last: with '
        "another one than now the state would seem to be gone. If the configuration says the right backend, "
        "run `nexusform init`.",
    )


def _left_behind(choice: BackendChoice, settings: Settings | None, place: Place) -> Diagnostic | None:
    """Why a backend is not used where `init` never ran: the default one holds what it would make again."""
    if choice == PLAIN or place.backend_config or place.state_path:
        return None
    default, _ = open_choice(PLAIN, settings, place)
    chosen, _ = open_choice(choice, settings, place) if choice.kind == PLAIN.kind else (None, [])
    if default is None or (chosen is not None and chosen.describe() == default.describe()):
        return None
    try:
        document = default.read()
    except BackendProblem:
        return None  # such as a confined run, where nobody of ours wrote it
    if not _holds_objects(document):
        return None
    block = settings.backend if settings else None
    return error(
        "the-backend-changed",
        f'The configuration says backend "{choice.kind}", `nexusform init` never ran here, and '
        f"{default.describe()} holds objects that would be made again. To take that state along, run "
        "`nexusform init -migrate-state`; to use what the new place holds, run `nexusform init "
        "-reconfigure`.",
        block.header_span if block else None,
    )


def _holds_objects(document: bytes | None) -> bool:
    """Whether a state document holds anything; one that cannot be read may."""
    if document is None:
        return False
    try:
        return bool(json.loads(document).get("resources", True))
    except (ValueError, AttributeError, RecursionError):
        return True


def migration_file(data_directory: str) -> Path:
    """What stands while a state is taken from one backend to another."""
    return Path(data_directory) / _MIGRATION


def backend_type(settings: Settings | None) -> str:
    """The kind that the configuration names."""
    return settings.backend_type if settings else PLAIN.kind


def configured_choice(
    settings: Settings | None, from_flags: Mapping[str, str], place: Place
) -> tuple[BackendChoice | None, list[Diagnostic]]:
    """What the `backend` block says, with the values of -backend-config over it."""
    kind = backend_type(settings)
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
        refusal = refusal_of_settings(kind, values, place, from_flags)
        if refusal:
            detail = f"{refusal} Give it by -backend-config=NAME=VALUE."
            problems.append(error("remote-address-is-not-allowed", detail, block.header_span))
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
        problems.append(_missing(kind, missing, place, block.header_span if block else None))
    return (None if has_errors(problems) else BackendChoice(kind, chosen, dict(from_flags))), problems


def refusal_of_settings(
    kind: str, values: Mapping[str, Any], place: Place, from_flags: Mapping[str, str] = NO_FLAGS
) -> str:
    """Why settings of a backend that stand in configuration do not count in a confined run; "" if they do."""
    backend = BACKENDS[kind]
    settings = {name: value for name, value in values.items() if value is not None}
    chosen = [name for name in settings if name not in from_flags]
    if kind in _OF_THIS_MACHINE or not place.confinement.root:
        return ""
    addresses = backend.addresses(settings)
    if addresses and all(place.allows(address) for address in addresses):
        chosen = [name for name in chosen if name not in backend.naming]
    listed = ", ".join(f'"{name}"' for name in chosen)
    return place.refusal_of(f'The setting {listed} of the backend "{kind}"') if chosen else ""


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


def _missing(kind: str, names: Sequence[str], place: Place, span: Span | None) -> Diagnostic:
    listed = " and ".join(f'"{name}"' for name in names)
    detail = f'The backend "{kind}" needs {listed}: give it in the block or by -backend-config=NAME=VALUE.'
    if not place.remembers:
        detail += (
            " A confined run does not believe what `init` left in the work tree: let NF_DATA_DIR name a "
            f"directory outside of it.{place.why_confined}"
        )
    return error("missing-backend-setting", detail, span)


def open_choice(
    choice: BackendChoice, settings: Settings | None, place: Place
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """The backend of a choice; `init` may open an old and a new one."""
    path = choice.from_flags.get("path")
    try:
        # A path that the operator gave is free, unless it is one of the work tree.
        confinement = place.confinement
        if path is not None:
            confinement = confinement.of_operator(Path(place.directory, path))
        largest = place.largest_file(settings.limits if settings else NO_LIMITS)
        directories = Directories(place.directory, place.data_directory, confinement, largest)
        return BACKENDS[choice.kind].open(choice.settings, directories), []
    except BackendProblem as problem:
        refused = isinstance(problem.__context__, Outside) and "path" in choice.settings and path is None
        way_out = " Give it by -backend-config=path=PATH." if refused else ""
        return None, [error("the-backend-cannot-be-opened", f"{problem}{way_out}")]


def backend_settings(place: Place) -> tuple[dict[str, str], list[Diagnostic]]:
    """What -backend-config says: the settings of `K=V` and of files, later ones over earlier ones."""
    values: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for flag in place.backend_config:
        name, equals, value = flag.partition("=")
        if equals and not Path(flag).exists():
            values[name.strip()] = value
            continue
        try:
            text = RealFiles().read(place.confinement.followed(flag)).decode()
        except (FileProblem, OSError, UnicodeDecodeError) as problem:
            problems.append(error("invalid-backend-config", f"{problem}"))
            continue
        settings, wrong = from_file(SourceFile(flag, text))
        problems += wrong
        for setting in settings:
            problems += _take(setting.name, setting.value, values)
    return values, problems


def _take(name: str, expression: str | Expression, values: dict[str, str]) -> list[Diagnostic]:
    """Note the text of one setting."""
    if isinstance(expression, str):
        values[name] = expression
        return []
    value, problems = constant(expression)
    if not has_errors(problems):
        values[name] = str(to_plain(value)[0])
    return problems


def remembered_choice(place: Place) -> BackendChoice | None:
    """What `init` remembered, None when it never ran here or what stands here is not to be believed."""
    if not place.remembers:
        return None
    try:
        document = json.loads(
            read_regular(Path(place.data_directory) / _MEMORY, _LARGEST_MEMORY, follow=False)
        )
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


def _changed_kind(known: BackendChoice | None, settings: Settings | None) -> Diagnostic | None:
    """Why nothing may be done where the block names another backend than the last init saw."""
    kind = backend_type(settings)
    if known is None or known.kind == kind or kind not in BACKENDS:
        return None
    return _changed(f'from "{known.kind}" to "{kind}"', settings)


def _changed(what: str, settings: Settings | None) -> Diagnostic:
    block = settings.backend if settings else None
    return error(
        "the-backend-changed",
        f"Since the last init the backend of this configuration changed ({what}). To take the state along, "
        "run `nexusform init -migrate-state`; to use what the new place holds, run "
        "`nexusform init -reconfigure`.",
        block.header_span if block else None,
    )
