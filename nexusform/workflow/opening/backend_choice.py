"""Backend selected by a configuration, and the selection saved by `init`."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS, explain_unknown_backend
from nexusform.configuration.body_preparation import build_prepared_body
from nexusform.configuration.declarations.configuration import Settings
from nexusform.configuration.static_arguments import EMPTY_SCOPE, evaluate_string
from nexusform.configuration.variable_values import parse_variable_file
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    Span,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.files.access_record import record_file_access
from nexusform.files.regular_files import (
    PRIVATE,
    OutsideConfinement,
    read_regular,
    write_file_atomically,
)
from nexusform.interfaces.plugins import FileProblem
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.language.syntax.syntax_nodes import Attribute
from nexusform.schemas.value_types import BOOL, Type
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.system_io import ConfinedFileAccess

_CHOICE_FILE: Final = "backend.json"
_MIGRATION: Final = "migration"
_MAX_CHOICE_BYTES: Final = 1 << 20  # bytes
NO_FLAGS: Final[Mapping[str, str]] = {}
# Settings that name the state inside a backend, and no server.
_STATE_LOCATION_SETTINGS: Final = ("path", "key", "workspace_key_prefix", "schema_name")
# Their state location is a path.
_LOCAL_KINDS: Final = ("local", "memory")


class BackendChoice(Struct, frozen=True, rename={"kind": "type", "from_flags": "given"}):
    """A kind of backend and its settings; `from_flags` are those of -backend-config only.

    Saved with other names.
    """

    kind: str
    settings: Mapping[str, Any]
    from_flags: Mapping[str, str]


# Choice without a backend block.
DEFAULT_CHOICE: Final = BackendChoice("local", settings={}, from_flags={})


def choose_backend(
    settings: Settings, context: CommandContext
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Open the backend for the default workspace.

    Without -backend-config, settings other than those recorded by `init` are an error, because the
    state would seem to be missing. -state applies to the local backend only.
    """
    from_flags, problems = parse_backend_flags(context, settings.backend_type)
    if has_errors(problems):
        return None, problems
    # The choice that `init` recorded.
    saved_choice = None if context.backend_config else load_backend_choice(context)
    # After a change of the kind, `init` must run first, so do not report its missing settings.
    rejection = _check_interrupted_migration(context) or _check_backend_kind(saved_choice, settings)
    if rejection is not None:
        return None, [*problems, rejection]
    # The -backend-config of the last `init` still applies.
    if saved_choice is not None:
        from_flags = dict(saved_choice.from_flags)
    choice, new_problems = read_configured_choice(settings, from_flags, context)
    problems += new_problems
    if choice is None:
        return None, problems
    if saved_choice is None:
        rejection = _check_unreadable_choice(context) or _check_default_backend(
            choice, settings, context
        )
    elif saved_choice != choice:
        # Of the same kind, as checked above.
        rejection = _build_changed_error("its settings changed", settings)
    if rejection is not None:
        return None, [*problems, rejection]
    if context.state_path:
        if choice.kind != "local":
            detail = f'The state is in the backend "{choice.kind}". Remove -state.'
            return None, [*problems, build_error("unsupported-state-flag", detail)]
        path = {"path": context.state_path}
        choice = BackendChoice("local", {**choice.settings, **path}, {**choice.from_flags, **path})
    backend, new_problems = open_chosen_backend(choice, settings, context)
    return backend, [*problems, *new_problems]


def _check_interrupted_migration(context: CommandContext) -> Diagnostic | None:
    """Return an error if `init -migrate-state` was interrupted: its marker file still exists."""
    if not _is_record_used(context, get_migration_path(context.data_directory)):
        return None
    return build_error(
        "migration-interrupted",
        "`nexusform init -migrate-state` was interrupted, so either backend may have part of the "
        "state. Run it again with the new backend in the configuration; the previous backend still "
        "has the whole state. To use the configured backend without migration, run `nexusform init "
        "-reconfigure`.",
    )


def _is_record_used(context: CommandContext, path: Path) -> bool:
    """Return whether a file of `init` exists and is used.

    Such a file is not used with -backend-config or in an untrusted directory.
    """
    return (
        context.is_data_directory_trusted and not context.backend_config and os.path.lexists(path)
    )


def _check_unreadable_choice(context: CommandContext) -> Diagnostic | None:
    """Return an error if the file of the choice saved by `init` exists.

    Called only if this file could not be read.
    """
    choice_path = Path(context.data_directory, _CHOICE_FILE)
    if not _is_record_used(context, choice_path):
        return None
    return build_error(
        "unknown-recorded-backend",
        f'"{choice_path}" is not readable, so the backend of the last run is unknown. With another '
        "backend the state would appear empty. If the configuration has the right backend, run "
        "`nexusform init`.",
    )


def _check_default_backend(
    choice: BackendChoice, settings: Settings, context: CommandContext
) -> Diagnostic | None:
    """Return an error if init never ran, and the unused default backend has objects.

    A plan would create them again.
    """
    is_named_by_flags = context.backend_config or context.state_path
    if choice == DEFAULT_CHOICE or is_named_by_flags:
        return None
    default_backend, _ = open_chosen_backend(DEFAULT_CHOICE, settings, context)
    if default_backend is None:
        return None
    # The block may name the default path.
    if choice.kind == DEFAULT_CHOICE.kind:
        chosen_backend, _ = open_chosen_backend(choice, settings, context)
        if chosen_backend is not None and chosen_backend.describe() == default_backend.describe():
            return None
    try:
        document = default_backend.read()
    except BackendProblem:
        # For example a sandboxed run with an untrusted state file.
        return None
    if not _has_objects(document):
        return None
    return build_error(
        "backend-changed",
        f'The configuration uses backend "{choice.kind}", but `nexusform init` never ran here, and '
        f"{default_backend.describe()} has objects that would be re-created. To migrate that "
        "state, run `nexusform init -migrate-state`. To use the state of the new backend, run "
        "`nexusform init -reconfigure`.",
        _get_block_span(settings),
    )


def _get_block_span(settings: Settings) -> Span | None:
    """Return the position of the `backend` block; None without one."""
    return settings.backend.header_span if settings.backend is not None else None


def _has_objects(document: bytes | None) -> bool:
    """Return whether a state document (None: no state) has objects.

    A document that is encrypted or cannot be parsed counts as one with objects.
    """
    if document is None:
        return False
    try:
        # An encrypted document has no such member.
        return bool(json.loads(document).get("resources", True))
    except (ValueError, AttributeError, RecursionError):
        return True


def get_migration_path(data_directory: str) -> Path:
    """Return the path of the marker file of a running migration."""
    return Path(data_directory) / _MIGRATION


def read_configured_choice(
    settings: Settings, from_flags: Mapping[str, str], context: CommandContext
) -> tuple[BackendChoice | None, list[Diagnostic]]:
    """Read the choice from the `backend` block, overridden by `from_flags` (-backend-config).

    Return None with errors.
    """
    kind = settings.backend_type
    block = settings.backend
    values, problems = evaluate_backend_settings(settings)
    backend = BACKENDS.get(kind)
    if backend is None:
        return None, problems
    if block is not None:
        rejection = explain_rejected_settings(kind, values, context, from_flags)
        if rejection:
            detail = f"{rejection} Set it with -backend-config=NAME=VALUE."
            problems.append(build_error("remote-address-not-allowed", detail, block.header_span))
    # They replace settings of the block.
    for name, text in from_flags.items():
        if name not in backend.schema.attributes:
            suggestion = suggest_name(name, backend.schema.attributes)
            problems.append(
                build_error(
                    "unknown-backend-setting",
                    f'-backend-config: the backend "{kind}" has no setting "{name}".{suggestion}',
                )
            )
            continue
        value, new_problems = _parse_setting(name, text, backend.schema.attributes[name].type)
        problems += new_problems
        values[name] = value
    # A null setting counts as omitted.
    settings_values = {name: value for name, value in values.items() if value is not None}
    required_names = [
        name for name, attribute in backend.schema.attributes.items() if attribute.required
    ]
    missing = [name for name in required_names if name not in settings_values]
    # A misspelled or rejected setting explains a missing one.
    if missing and not has_errors(problems):
        problems.append(
            _build_missing_settings_error(kind, missing, context, _get_block_span(settings))
        )
    return (
        None if has_errors(problems) else BackendChoice(kind, settings_values, dict(from_flags))
    ), problems


def evaluate_backend_settings(settings: Settings) -> tuple[dict[str, Any], list[Diagnostic]]:
    """Evaluate the arguments of the `backend` block; a kind that does not exist is an error.

    All are optional here: -backend-config may set a missing one.
    """
    kind = settings.backend_type
    block = settings.backend
    backend = BACKENDS.get(kind)
    if backend is None:
        detail = explain_unknown_backend(kind)
        return {}, [build_error("unknown-backend", detail, _get_block_span(settings))]
    if block is None:
        return {}, []
    optional_attributes = {
        name: replace(attribute, required=False, optional=True)
        for name, attribute in backend.schema.attributes.items()
    }
    schema = replace(backend.schema, attributes=optional_attributes)
    body, misplaced = build_prepared_body(block.body, schema, block.header_span)
    values, _, invalid = body.evaluate(EMPTY_SCOPE)
    return dict(values), [*misplaced, *invalid]


def explain_rejected_settings(
    kind: str,
    values: Mapping[str, Any],
    context: CommandContext,
    from_flags: Mapping[str, str] = NO_FLAGS,
) -> str:
    """Explain why a sandboxed run rejects settings of a backend; "" if it accepts them all.

    An untrusted configuration could send the state to another server by its settings. Accepted
    are settings typed by the operator (`from_flags`), and address settings if -allow-remote
    covers all addresses.
    """
    # The confinement itself limits paths.
    if kind in _LOCAL_KINDS or not context.confinement.root:
        return ""
    backend = BACKENDS[kind]
    settings = {name: value for name, value in values.items() if value is not None}
    accepted_names = {*from_flags}
    addresses = backend.list_server_urls(settings)
    has_only_allowed_addresses = bool(addresses) and all(
        map(context.is_allowed, addresses)
    )  # by -allow-remote
    if has_only_allowed_addresses:
        accepted_names.update(backend.address_settings)
    rejected_names = ", ".join(f'"{name}"' for name in settings if name not in accepted_names)
    if not rejected_names:
        return ""
    subject = f'The setting {rejected_names} of the backend "{kind}"'
    if has_only_allowed_addresses:
        remedy = "Set it with -backend-config=NAME=VALUE, or by a variable of the environment."
        reason = "is set in the configuration, and -allow-remote allows addresses only"
        return f"{subject} {reason}. {remedy}{context.confinement_note}"
    return context.explain_rejection(subject)


def _parse_setting(name: str, text: str, value_type: Type) -> tuple[Any, list[Diagnostic]]:
    """Parse the text of a -backend-config setting: a bool or a text.

    Return None with an error for an invalid bool.
    """
    if value_type != BOOL:
        return text, []
    if text in ("true", "false"):
        return text == "true", []
    return None, [
        build_error(
            "invalid-backend-setting", f'-backend-config: {name}="{text}": use true or false.'
        )
    ]


def _build_missing_settings_error(
    kind: str, names: Sequence[str], context: CommandContext, span: Span | None
) -> Diagnostic:
    """Build the error for required settings without a value, with advice for a sandboxed run."""
    name_list = " and ".join(f'"{name}"' for name in names)
    detail = (
        f'The backend "{kind}" needs {name_list}: set it in the block or with '
        "-backend-config=NAME=VALUE."
    )
    if not context.is_data_directory_trusted:
        detail += (
            " A sandboxed run ignores the files of `init` in the work tree. Set NF_DATA_DIR to a "
            f"directory outside of it.{context.confinement_note}"
        )
    return build_error("missing-backend-setting", detail, span)


def open_chosen_backend(
    choice: BackendChoice, settings: Settings, context: CommandContext
) -> tuple[StateBackend | None, list[Diagnostic]]:
    """Open the backend of a choice.

    An unverified server is a warning; after an error the result is None.
    """
    path = choice.from_flags.get("path")
    try:
        confinement = context.confinement
        # Set by the operator: unrestricted, unless it is in the work tree.
        if path is not None:
            confinement = confinement.get_operator_confinement(Path(context.directory, path))
        max_bytes = context.get_max_file_size(settings.limits)
        directories = Directories(context.directory, context.data_directory, confinement, max_bytes)
        definition = BACKENDS[choice.kind]
        warning = definition.explain_unverified_server(choice.settings)
        is_set_by_flag = definition.unverified_setting in choice.from_flags
        span = None if is_set_by_flag else _get_block_span(settings)
        warnings = [build_warning("unverified-server", warning, span)] if warning else []
        return definition.open_backend(choice.settings, directories), warnings
    except BackendProblem as problem:
        is_path_of_block = path is None and "path" in choice.settings
        # The error behind this one.
        is_outside = isinstance(problem.__context__, OutsideConfinement)
        remedy = (
            " Set it with -backend-config=path=PATH." if is_path_of_block and is_outside else ""
        )
        return None, [build_error("backend-open-failed", f"{problem}{remedy}")]


def parse_backend_flags(
    context: CommandContext, kind: str
) -> tuple[dict[str, str], list[Diagnostic]]:
    """Parse -backend-config: settings `K=V`, or files of settings.

    Later settings win. In a sandboxed run, a file of the work tree may only name the location of
    the state within the backend, and no other server or credentials.
    """
    values: dict[str, str] = {}
    problems: list[Diagnostic] = []
    for flag in context.backend_config:
        name, equals, value = flag.partition("=")
        if equals:
            values[name.strip()] = value
            continue
        # The flag is the path of a file with settings.
        try:
            text = (
                ConfinedFileAccess()
                .read(context.confinement.resolve_path_of_operator(flag))
                .decode()
            )
        except (FileProblem, OSError, UnicodeDecodeError) as problem:
            problems.append(build_error("invalid-backend-config", f"{problem}"))
            continue
        record_file_access(flag, text)
        settings, new_problems = parse_variable_file(SourceFile(flag, text))
        problems += new_problems
        file_values: dict[str, str] = {}
        for setting in settings:
            assert not isinstance(setting.value, str), (
                "only values of flags and the environment are texts"
            )
            span = setting.value.span
            text_value = evaluate_string(
                Attribute(setting.name, setting.value, span, span), problems
            )
            # A null is not set.
            if text_value is not None:
                file_values[setting.name] = text_value
        from nexusform.files.external_files import is_untrusted_path

        if is_untrusted_path(flag, context.confinement):
            problems += _check_untrusted_settings(flag, file_values, kind, context)
        values |= file_values
    return values, problems


def _check_untrusted_settings(
    path: str, values: Mapping[str, str], kind: str, context: CommandContext
) -> list[Diagnostic]:
    """Return an error if a -backend-config file sets more than the state's location.

    The file is in the work tree, the location in its backend.
    """
    restricted = {
        name: value for name, value in values.items() if name not in _STATE_LOCATION_SETTINGS
    }
    # Unknown kinds are reported later.
    rejection = explain_rejected_settings(kind, restricted, context) if kind in BACKENDS else ""
    if not rejection:
        return []
    return [
        build_error(
            "remote-address-not-allowed",
            (
                f'"{path}" is a file of the work tree. {rejection} Set it with '
                "-backend-config=NAME=VALUE."
            ),
        )
    ]


def load_backend_choice(context: CommandContext) -> BackendChoice | None:
    """Load the choice saved by `init`.

    Return None if there is no choice, or if it is unreadable or not trusted.
    """
    if not context.is_data_directory_trusted:
        return None
    try:
        document = read_regular(
            Path(context.data_directory) / _CHOICE_FILE, _MAX_CHOICE_BYTES, follow=False
        )
        return msgspec.json.decode(document, type=BackendChoice)
    except (OSError, msgspec.MsgspecError):
        # An unreadable one is reported by _check_unreadable_choice.
        return None


def save_backend_choice(choice: BackendChoice, data_directory: str) -> None:
    """Save a choice for later commands, readable by the owner only.

    Raises OSError.
    """
    path = Path(data_directory, _CHOICE_FILE)
    text = json.dumps(msgspec.to_builtins(choice), indent=2, sort_keys=True) + "\n"
    # Settings may contain a password, and an existing file may be world-readable.
    write_file_atomically(path, text.encode(), PRIVATE, keeps_mode=False, makes_directories=True)


def record_backend_choice(settings: Settings, context: CommandContext) -> list[Diagnostic]:
    """Save the choice of a first apply without `init`.

    Later commands then notice another backend. Return a warning if it cannot be saved.
    """
    is_named_by_flags = context.backend_config or context.state_path
    if (
        is_named_by_flags
        or not context.is_data_directory_trusted
        or load_backend_choice(context) is not None
    ):
        return []
    choice, _ = read_configured_choice(settings, NO_FLAGS, context)
    if choice in (None, DEFAULT_CHOICE):
        return []
    try:
        save_backend_choice(choice, context.data_directory)
    except OSError as problem:
        return [
            build_warning(
                "backend-record-failed",
                f"{context.data_directory} cannot be written: {problem.strerror}. Later commands "
                "will not notice a change of the `backend` block. Make it writable, or set "
                "NF_DATA_DIR, then run `nexusform init`.",
            )
        ]
    return []


def _check_backend_kind(
    saved_choice: BackendChoice | None, settings: Settings
) -> Diagnostic | None:
    """Return an error if the block has another kind of backend than the last init.

    Unknown kinds are reported later.
    """
    kind = settings.backend_type
    if saved_choice is None or saved_choice.kind == kind or kind not in BACKENDS:
        return None
    return _build_changed_error(f'from "{saved_choice.kind}" to "{kind}"', settings)


def _build_changed_error(change_text: str, settings: Settings) -> Diagnostic:
    """Build the error for a backend changed since the last init.

    `change_text` is a clause about the change.
    """
    return build_error(
        "backend-changed",
        f"The backend of this configuration changed since the last init or apply ({change_text}). "
        "To migrate the state, run `nexusform init -migrate-state`. To use the state of the new "
        "backend, run `nexusform init -reconfigure`.",
        _get_block_span(settings),
    )
