"""Remote inputs of a plan: other states and server responses, each read once.

States are read without locks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct, field

from nexusform.backends.backend_definition import Directories
from nexusform.backends.registry import BACKENDS, explain_unknown_backend
from nexusform.configuration.declarations.configuration import Settings
from nexusform.diagnostics.diagnostic import Problem, Severity, suggest_name
from nexusform.domain_table import LazyTable, collect_loaders
from nexusform.interfaces.plugins import RemoteStateQuery, ServerQuery
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.planning.name_resolution.evaluation_settings import build_query_key
from nexusform.schemas.block_schema import AttributeSchema
from nexusform.schemas.value_types import BOOL
from nexusform.state.objects import State
from nexusform.values.typed_value import format_number
from nexusform.workflow.opening.backend_choice import explain_rejected_settings
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.stored_state import read_stored_state

if TYPE_CHECKING:
    from nexusform.providers.kubeconfig import KubeconfigTrust

_Answer = tuple[State | None, str, list[Problem]]


class RemoteStateReader(Struct, frozen=True):
    """Reader of remote states.

    Each state is read once, so that re-planning uses the same data. `settings` are those of the
    reading configuration; they define how encrypted states are opened. `locations` are the kinds
    and locations of the requested states.
    """

    context: CommandContext
    settings: Settings
    answers: dict[str, _Answer] = field(default_factory=dict)
    locations: dict[tuple[str, str], None] = field(default_factory=dict)

    def read(self, query: RemoteStateQuery) -> _Answer:
        """Return the requested state, which is read only once.

        Return None with problems if it is missing or unreadable.
        """
        key = repr(query)
        if key not in self.answers:
            self.answers[key] = self._read_remote_state(query)
        return self.answers[key]

    def _read_remote_state(self, query: RemoteStateQuery) -> _Answer:
        """Read a state without cache, and record its location.

        Return None with problems if it is missing or unreadable.
        """
        backend, problems = self._open_backend(query)
        if backend is None:
            return None, "", problems
        self.locations[query.backend, backend.describe()] = None
        stored, diagnostics = read_stored_state(backend)
        for diagnostic in diagnostics:
            detail = diagnostic.detail
            # The message names the missing setting.
            if diagnostic.id == "encrypted-state":
                detail = (
                    "The state is encrypted, and this block has no decryption method. Add "
                    "`remote_state_data_sources` to the `encryption` block. It needs a `default`, "
                    f'or a `remote_state_data_source "{query.reader}"` that names the method.'
                )
            problems.append(Problem((), diagnostic.id, detail, diagnostic.severity))
        if stored is None:
            return None, "", problems
        # Nothing was ever written.
        if not stored.state.lineage:
            missing_problem = Problem(
                (),
                "missing-remote-state",
                f'There is no state at {backend.describe()} (workspace "{query.workspace}"). Apply '
                "its configuration first, or correct backend, config or workspace of this block.",
            )
            return None, "", [*problems, missing_problem]
        version = f"{stored.state.lineage} {stored.state.serial} {stored.digest}"
        if stored.has_journal or stored.open_intents:
            detail = (
                f"The last apply of the state at {backend.describe()} runs or was interrupted: its "
                "resources are as of now, and its outputs those of the apply before. Plan again "
                "once it is complete; `nexusform apply -resume` there completes an interrupted one."
            )
            problems.append(Problem((), "unfinished-remote-apply", detail, Severity.WARNING))
            version += " unfinished"
        return stored.state, version, problems

    def _open_backend(self, query: RemoteStateQuery) -> tuple[StateBackend | None, list[Problem]]:
        """Open the backend of the state's workspace with the decryption configured here.

        Return None with problems if that fails.
        """
        settings, problems = _evaluate_settings(query)
        if settings is None:
            return None, problems
        context = self.context
        rejection = explain_rejected_settings(query.backend, settings, context)
        if rejection:
            return None, [Problem(("config",), "remote-address-not-allowed", rejection)]
        try:
            max_bytes = context.get_max_file_size(self.settings.limits)
            directories = Directories(
                context.directory, context.data_directory, context.confinement, max_bytes
            )
            kind = BACKENDS[query.backend]
            plain_backend = kind.open_backend(settings, directories)
        except BackendProblem as problem:
            return None, [Problem(("config",), "backend-open-failed", str(problem))]
        warning = kind.explain_unverified_server(settings)
        problems += (
            [Problem(("config",), "unverified-server", warning, Severity.WARNING)]
            if warning
            else []
        )
        from nexusform.workflow.opening.encryption_settings import wrap_remote_backend

        backend, new_problems = wrap_remote_backend(
            plain_backend, query.reader, self.settings, context
        )
        problems += [
            Problem((), diagnostic.id, diagnostic.detail, diagnostic.severity)
            for diagnostic in new_problems
        ]
        if backend is None:
            return None, problems
        try:
            return backend.select_workspace(query.workspace), problems
        except BackendProblem as problem:
            return None, [*problems, Problem(("workspace",), "invalid-workspace", str(problem))]


def _evaluate_settings(query: RemoteStateQuery) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Check the settings of `config` and convert them to plain data; None with problems.

    Null settings are omitted.
    """
    kind = BACKENDS.get(query.backend)
    if kind is None:
        detail = explain_unknown_backend(query.backend)
        return None, [Problem(("backend",), "unknown-backend", detail)]
    if not isinstance(query.config, Mapping):
        detail = "An object is needed: config = { NAME = VALUE, ... }."
        return None, [Problem(("config",), "invalid-backend-setting", detail)]
    attributes = kind.schema.attributes
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in query.config.items():
        if name not in attributes:
            detail = (
                f'The backend "{query.backend}" has no setting '
                f'"{name}".{suggest_name(name, attributes)}'
            )
            problems.append(Problem(("config",), "unknown-backend-setting", detail))
        elif value is not None:
            values[name] = _convert_setting(name, value, attributes[name], problems)
    required_names = [name for name, attribute in attributes.items() if attribute.required]
    missing = [f'"{name}"' for name in required_names if name not in values]
    # A misspelled name explains a missing one.
    if missing and not problems:
        detail = f'The backend "{query.backend}" needs {" and ".join(missing)} in config.'
        problems.append(Problem(("config",), "missing-backend-setting", detail))
    return (None if problems else values), problems


def _convert_setting(
    name: str, value: Any, attribute: AttributeSchema, problems: list[Problem]
) -> Any:
    """Convert one setting to a bool or text.

    Return None with a new entry in `problems` if it is neither.
    """
    # A bool is also an int.
    is_bool = isinstance(value, bool)
    expected_type = "a string"
    if attribute.type == BOOL:
        if is_bool or value in ("true", "false"):
            return value in (True, "true")
        expected_type = "true or false"
    elif isinstance(value, str):
        return value
    elif isinstance(value, int | Fraction) and not is_bool:
        return format_number(Fraction(value))
    problems.append(
        Problem(
            ("config",), "invalid-backend-setting", f'config: "{name}" must be {expected_type}.'
        )
    )
    return None


# (arguments, trust in kubeconfigs) -> the response. Raises ExternalQueryProblem.
Reader: TypeAlias = "Callable[[Mapping[str, Any], KubeconfigTrust], str]"
_SERVER_READERS: Final[Mapping[str, Reader]] = LazyTable(collect_loaders("server_readers"))


class ServerResponseCache(Struct, frozen=True):
    """Server responses, fetched once for all re-planning.

    `answers` may start with saved ones.
    """

    context: CommandContext
    answers: dict[str, str] = field(default_factory=dict)

    def query(self, question: ServerQuery) -> str:
        """Return the response to a query, from `answers` if fetched before.

        Raises ExternalQueryProblem.
        """
        key = build_query_key(question)
        if key not in self.answers:
            reader = _SERVER_READERS[question.reader]
            self.answers[key] = reader(question.arguments, self.context.kubeconfig_trust)
        return self.answers[key]
