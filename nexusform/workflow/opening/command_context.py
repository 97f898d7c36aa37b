"""Context of a command (directory, environment, flags), and its configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.configuration.declarations.configuration import Configuration, Variable
from nexusform.configuration.declarations.limits import PlanSizeLimits, merge_limits
from nexusform.configuration.loader import (
    list_automatic_variable_files,
    list_ignore_comments,
    load_configuration,
    read_given_variables,
    read_root_variables,
)
from nexusform.configuration.variable_values import VariableValueSource
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    SourceFile,
    build_error,
    select_errors,
)
from nexusform.files.regular_files import UNCONFINED, Confinement, read_regular
from nexusform.files.run_log import log_duration
from nexusform.resource_types.registry import build_registries
from nexusform.values.typed_value import Value

if TYPE_CHECKING:
    from nexusform.configuration.remote_modules.module_packages import LockedPackages, PackageFinder
    from nexusform.providers.kubeconfig import KubeconfigTrust

DEFAULT_WORKSPACE: Final = "default"
# The content of an `encryption` block.
ENCRYPTION_VARIABLE: Final = "NF_ENCRYPTION"
_DISABLED_WORDS: Final = ("0", "false")
_NO_LIMITS: Final[Mapping[str, int]] = {}
_MAX_SELECTION_BYTES: Final = 4096  # bytes


class ConfinementSource(StrEnum):
    """Source of the confinement of a run, or of its absence."""

    NONE = "none"
    # -confine or NF_CONFINE.
    OPERATOR = "operator"
    # NF_IN_AUTOMATION, unless overridden by those.
    AUTOMATION = "automation"
    # The evaluated configuration is from an unverified plan file.
    PLAN = "plan"
    # -confine=false or NF_CONFINE=false.
    DISABLED = "switched off"


_CONFINEMENT_NOTES: Final[Mapping[ConfinementSource, str]] = {
    ConfinementSource.AUTOMATION: (
        "NF_IN_AUTOMATION confines a run; to disable this, use -confine=false or NF_CONFINE=false"
    ),
    ConfinementSource.PLAN: (
        "a plan file is evaluated in a sandbox unless `apply -verify=key:FILE` verifies its "
        "signature; to disable this, use -confine=false or NF_CONFINE=false"
    ),
}


class CommandContext(Struct, frozen=True):
    """Directory and external inputs of a command.

    `directory` is that of the root module, and `environment` are the variables of the process.
    `state_path` is the flag -state ("": as configured). `variables` are -var and -var-file in
    typed order, each with its name. The configuration may use paths within `confinement`, and
    addresses with a prefix in `allow_remote`. `limits` are the operator's maximums for plans, by
    name. `allow_other_hub` is the uid of a hub accepted instead of the recorded one.
    With `allow_unchecked_site` a plan is applied to a site that cannot be read again.
    `unsaved_files` are texts of an editor, by real path. `init` may download modules from
    addresses with a prefix in `allow_module`. `modules_directory` has downloaded modules ("":
    below the data directory). A state that the backend rejects is written to `rescue_path` ("":
    next to the configuration). `ask_for_value` asks for a missing variable and returns the answer,
    None at the end of the input.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "."
    state_path: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    confinement: Confinement = UNCONFINED
    confinement_source: ConfinementSource = ConfinementSource.NONE
    allow_remote: tuple[str, ...] = ()
    backend_config: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    unsaved_files: Mapping[str, str] = field(default_factory=dict)
    take_ownership: bool = False
    allow_other_hub: str = ""
    allow_unchecked_site: bool = False
    rescue_path: str = ""
    allow_module: tuple[str, ...] = ()
    modules_directory: str = ""
    ask_for_value: Callable[[Variable], str | None] | None = None

    def merge_limits(self, configured_limits: Mapping[str, int]) -> PlanSizeLimits:
        """Merge the configured limits with those of the operator."""
        return merge_limits(configured_limits, self.limits, confined=bool(self.confinement.root))

    def get_max_file_size(self, configured_limits: Mapping[str, int] = _NO_LIMITS) -> int:
        """Return the maximum size of a state, journal or plan file in bytes."""
        return self.merge_limits(configured_limits).file_bytes

    def get_planning_seconds(self, configured_limits: Mapping[str, int]) -> int:
        """Return the time limit of planning; 0 = none.

        An unconfined run has none unless the operator set one.
        """
        if not self.confinement.root and "seconds" not in self.limits:
            return 0
        return self.merge_limits(configured_limits).seconds

    def is_allowed(self, address: str) -> bool:
        """Return whether the configuration may use a remote address.

        An unconfined configuration may use any address, a confined one those of -allow-remote.
        """
        return not self.confinement.root or any(
            _is_below(address, prefix) for prefix in self.allow_remote
        )

    def is_module_allowed(self, address: str) -> bool:
        """Return whether `init` may download a module from an address.

        An unconfined run may download from any address, a confined one from those of -allow-module.
        """
        return not self.confinement.root or any(
            _is_below(address, prefix) for prefix in self.allow_module
        )

    def explain_rejection(self, subject: str) -> str:
        """Explain why `subject` is not used.

        It is a phrase with a remote address of the configuration.
        """
        return (
            f"{subject} is set in the configuration, and -confine does not allow it. Allow it with "
            f"-allow-remote=URL-PREFIX or NF_ALLOW_REMOTE.{self.confinement_note}"
        )

    @property
    def kubeconfig_trust(self) -> KubeconfigTrust:
        """The limits for kubeconfigs: files in the confinement, and allowed servers."""
        from nexusform.providers.kubeconfig import KubeconfigTrust

        return KubeconfigTrust(self.confinement, self.is_allowed)

    @property
    def confinement_note(self) -> str:
        """The reason of a confinement without -confine, as a sentence in brackets after a space.

        It is "" in every other case.
        """
        note = _CONFINEMENT_NOTES.get(self.confinement_source, "")
        return f" ({note[0].upper()}{note[1:]}.)" if note else ""

    @property
    def working_directory(self) -> str:
        """The absolute path of the directory, for `path.cwd`."""
        # The path of the process may be deleted.
        with suppress(FileNotFoundError):
            return str(Path(self.directory).absolute())
        return self.directory

    @property
    def directory_confinement(self) -> Confinement:
        """The confinement for files of the directory.

        An unverified plan file confines only its own configuration.
        """
        return UNCONFINED if self.confinement_source is ConfinementSource.PLAN else self.confinement

    @property
    def is_data_directory_trusted(self) -> bool:
        """Whether the data directory is trusted.

        It is trusted if it is outside of -confine, or if only the configuration of a
        plan is confined.
        """
        return self.confinement_source is ConfinementSource.PLAN or not self.confinement.is_inside(
            self.data_directory
        )

    @property
    def data_directory(self) -> str:
        """NF_DATA_DIR, the directory of data saved between commands."""
        return str(Path(self.directory) / (self.environment.get("NF_DATA_DIR") or ".nexusform"))

    @property
    def packages_directory(self) -> str:
        """The directory of downloaded modules."""
        return self.modules_directory or str(Path(self.data_directory) / "modules")

    @property
    def workspace(self) -> str:
        """The selected workspace, else the default one.

        NF_WORKSPACE, TF_WORKSPACE or the last `workspace select` selects it, in this order. Raises
        DiagnosticsError if this selection cannot be read: the default workspace is another state.
        """
        name = self.environment.get("NF_WORKSPACE") or self.environment.get("TF_WORKSPACE", "")
        if not name and self.is_data_directory_trusted:
            return _read_selected_workspace(get_selection_path(self))
        return name or DEFAULT_WORKSPACE


def _read_selected_workspace(path: Path) -> str:
    """Read the name of the selected workspace; the default one without a file.

    Raises DiagnosticsError.
    """
    try:
        name = read_regular(path, _MAX_SELECTION_BYTES, follow=False).decode().strip()
        reason = "" if name else "it is empty"
    except (FileNotFoundError, NotADirectoryError):
        # None was selected here.
        return DEFAULT_WORKSPACE
    except OSError as problem:
        reason = str(problem.strerror or problem)
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    if not reason:
        return name
    detail = (
        f'The selected workspace cannot be read from "{path}": {reason}. No changes were made. '
        "Select it again (`nexusform workspace select NAME`), or set NF_WORKSPACE to its name."
    )
    raise DiagnosticsError(build_error("unreadable-workspace-selection", detail))


def _is_below(address: str, prefix: str) -> bool:
    """Return whether a URL is at or below a prefix, by whole path parts.

    `https://a/bc` is not below `https://a/b`.

    A URL with an unusual form is not below any prefix, because a client may send it to another
    server or path.
    """
    try:
        url = urlsplit(address)
        prefix_url = urlsplit(prefix)
        server = (url.scheme, url.hostname, url.port)
        is_same_server = server == (prefix_url.scheme, prefix_url.hostname, prefix_url.port)
    except ValueError:
        # Not a URL, or one with an invalid port.
        return False
    if not is_same_server or not url.hostname:
        return False
    path = unquote(url.path)
    has_unusual_form = "@" in url.netloc or "\\" in address or ".." in path.split("/")
    if has_unusual_form:
        return False
    return f"{path}/".startswith(f"{prefix_url.path.rstrip('/')}/")


def intersect_prefixes(
    first_prefixes: Sequence[str], second_prefixes: Sequence[str]
) -> tuple[str, ...]:
    """Return the address prefixes allowed by both lists: the longer of each matching pair.

    For example, ["https://a"] and ["https://a/b", "https://c"] give ["https://a/b"].
    """
    pairs = chain(
        product(first_prefixes, second_prefixes), product(second_prefixes, first_prefixes)
    )
    return tuple(sorted({longer for longer, shorter in pairs if _is_below(longer, shorter)}))


def detect_confinement_source(flag_value: str, environment: Mapping[str, str]) -> ConfinementSource:
    """Return the source of the confinement.

    `flag_value` is -confine, else NF_CONFINE, "" without both.
    """
    if flag_value in _DISABLED_WORDS:
        return ConfinementSource.DISABLED
    if flag_value:
        return ConfinementSource.OPERATOR
    return (
        ConfinementSource.AUTOMATION
        if environment.get("NF_IN_AUTOMATION")
        else ConfinementSource.NONE
    )


def parse_confinement(
    flag_value: str, environment: Mapping[str, str], directory: str = "."
) -> Confinement:
    """Parse `flag_value`, the value of -confine or NF_CONFINE.

    Raises ValueError with a message. "false" is no confinement, "true" the top of the work tree,
    and any other value a directory. Without a value ("") it is as "true" under NF_IN_AUTOMATION,
    otherwise as "false".
    """
    source = detect_confinement_source(flag_value, environment)
    if source in (ConfinementSource.NONE, ConfinementSource.DISABLED):
        return UNCONFINED
    confinement = _build_confinement(flag_value or "true", environment, directory)
    return replace(confinement, reason=_CONFINEMENT_NOTES.get(source, ""))


def restrict_context_to_plan(context: CommandContext) -> CommandContext:
    """Return the context for the configuration of an unverified plan: confined to the work tree.

    Raises ValueError.
    """
    confinement = _build_confinement("true", context.environment, context.directory)
    confinement = replace(confinement, reason=_CONFINEMENT_NOTES[ConfinementSource.PLAN])
    return replace(context, confinement=confinement, confinement_source=ConfinementSource.PLAN)


def _build_confinement(
    flag_value: str, environment: Mapping[str, str], directory: str
) -> Confinement:
    """Restrict access to files to the directory `flag_value` ("true" or "1": the work tree).

    The data directory of nexusform is hidden even there. Raises ValueError.
    """
    root = (
        find_work_tree(directory) if flag_value in ("1", "true") else os.path.realpath(flag_value)
    )
    if not Path(root).is_dir():
        raise ValueError(f'-confine: there is no directory "{flag_value}".')
    if root == Path(root).anchor:  # `/`
        raise ValueError(
            f'-confine: "{root}" holds every file. Name the directory of the work tree.'
        )
    context = CommandContext(environment, directory)
    data_directory = context.data_directory
    try:
        hidden_data_directory = Confinement(root).resolve_path_of_operator(data_directory)
    except OSError:
        raise ValueError(
            f'-confine: "{data_directory}" is a link to a path outside of "{root}". Remove the '
            "link."
        ) from None
    confinement = Confinement(root, (os.path.realpath(hidden_data_directory),))
    return confinement.reveal(context.packages_directory)


def create_editor_context(
    directory: str, environment: Mapping[str, str], unsaved: Mapping[str, str] | None = None
) -> CommandContext:
    """Create the context of a directory opened in an editor.

    It is confined by the environment only, because editors pass no flags. An invalid confinement
    becomes the directory itself.
    """
    try:
        confinement = parse_confinement(environment.get("NF_CONFINE", ""), environment, directory)
    except ValueError:
        confinement = Confinement(os.path.realpath(directory))
    allow_remote = tuple(environment.get("NF_ALLOW_REMOTE", "").split())
    if allow_remote and confinement.root:
        from nexusform.files.external_files import find_untrusted_files

        # Files of the operator in the work tree may be forged. An editor uses no server;
        # a command fails.
        if find_untrusted_files(environment, confinement):
            allow_remote = ()
    return CommandContext(
        environment=environment,
        directory=directory,
        unsaved_files=unsaved or {},
        confinement=confinement,
        confinement_source=detect_confinement_source(
            environment.get("NF_CONFINE", ""), environment
        ),
        allow_remote=allow_remote,
    )


def find_work_tree(directory: str) -> str:
    """Return the directory at or above this one with `.git`, else this one."""
    start = Path(os.path.realpath(directory))
    for folder in (start, *start.parents):
        if os.path.lexists(folder / ".git"):
            return str(folder)
    return str(start)


def find_cache_directory(environment: Mapping[str, str]) -> str | None:
    """Return the directory of the parser cache: NF_CACHE_DIR, else one of the user.

    Return None in automation, or if no variable names a directory.
    """
    if environment.get("NF_IN_AUTOMATION"):
        return None
    if environment.get("NF_CACHE_DIR"):
        return environment["NF_CACHE_DIR"]
    for variable, subdirectory in (("XDG_CACHE_HOME", ""), ("HOME", ".cache")):
        home = Path(environment.get(variable, ""))
        if home.is_absolute():
            return str(home / subdirectory / "nexusform")
    return None


def get_selection_path(context: CommandContext) -> Path:
    """Return the path of the file with the selected workspace."""
    return Path(context.data_directory) / "environment"


def create_locked_packages(context: CommandContext) -> LockedPackages:
    """Create the finder of modules that match the lock file of the directory."""
    from nexusform.configuration.remote_modules.module_packages import LockedPackages

    # A sandboxed run trusts no file of an earlier one.
    cache_directory = (
        None if context.confinement.root else find_cache_directory(context.environment)
    )
    return LockedPackages(
        context.directory, context.packages_directory, context.confinement, cache_directory
    )


def load_project_configuration(
    context: CommandContext,
    extra: Sequence[SourceFile] = (),
    packages: PackageFinder | None = None,
    *,
    reads_calls: bool = True,
) -> tuple[Configuration, list[Diagnostic]]:
    """Load and check the configuration of the directory.

    `extra` are further texts of the root module. `packages` finds remote modules, by default those
    of the lock file. Without `reads_calls`, called modules are empty.
    """
    type_registries = build_registries()
    with log_duration("configuration read", directory=context.directory):
        configuration, problems = load_configuration(
            context.directory,
            cache_directory=find_cache_directory(context.environment),
            managed=type_registries.schemas["managed"],
            data=type_registries.schemas["data"],
            extra=extra,
            confinement=context.confinement,
            unsaved=context.unsaved_files,
            read_constants=lambda variables: _read_constants(context, variables),
            open_packages=lambda: packages or create_locked_packages(context),
            reads_calls=reads_calls,
        )
    ignored_rules = list(configuration.settings.ignored_rules.items())
    for span, ids in chain.from_iterable(map(list_ignore_comments, configuration.files.values())):
        ignored_rules += [(rule_id, span) for rule_id in sorted(ids) or [""]]
    if ignored_rules:
        from nexusform.advice.registry import check_ignored_rules

        problems += check_ignored_rules(ignored_rules)
    return configuration, problems


def _read_constants(
    context: CommandContext, variables: Mapping[str, Variable]
) -> tuple[Mapping[str, Value], list[Diagnostic]]:
    """Return the values of constant variables, with their errors."""
    values, problems = read_given_variables(
        variables,
        environment=context.environment,
        var_options=context.variables,
        directory=context.directory,
        confinement=context.confinement,
        ask_for_value=context.ask_for_value,
    )
    # Flags and files may also set variables not in `variables`: those are no constants.
    errors = [
        error for error in select_errors(problems) if error.id != "value-for-undeclared-variable"
    ]
    return {name: value for name, (value, _) in values.items()}, errors


def list_variable_files(context: CommandContext) -> list[str]:
    """Return the paths of the variable files: the automatic ones, then those of -var-file."""
    option_files = [path for kind, path in context.variables if kind == "var-file"]
    return [*list_automatic_variable_files(context.directory), *option_files]


def read_project_variables(
    context: CommandContext,
    configuration: Configuration,
    *,
    only_options: bool = False,
    can_ask: bool = False,
) -> tuple[dict[str, tuple[Value, VariableValueSource]], list[Diagnostic]]:
    """Read the values of the input variables with their origins.

    They come from flags, files and environment; with `only_options` from -var and -var-file alone.
    With `can_ask` the user is asked for missing values, if the command allows it.
    """
    return read_root_variables(
        configuration,
        environment=context.environment,
        var_options=context.variables,
        directory=context.directory,
        confinement=context.confinement,
        only_options=only_options,
        ask_for_value=context.ask_for_value if can_ask else None,
    )
