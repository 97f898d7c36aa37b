"""Access to a Kubernetes API server: kubeconfigs as read by kubectl, or a pod's service account.

Several files are merged: of two entries with one name the first wins, and so does the first
current context. Paths are relative to their file. Source: kubernetes.io, "Organizing Cluster
Access Using kubeconfig Files".
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, ValidationError, convert

from nexusform.diagnostics.missing_packages import describe_missing_package
from nexusform.diagnostics.phrases import format_list, select_word_form
from nexusform.files.access_record import read_variable
from nexusform.files.external_files import (
    explain_untrusted_file,
    is_untrusted_path,
    list_command_files,
)
from nexusform.files.limited_program import run_program
from nexusform.files.program_environment import build_program_environment
from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.files.sandbox import declare_path, declare_program
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, get_value_at_path
from nexusform.json_data.wrong_values import describe_wrong_value

if TYPE_CHECKING:
    from nexusform.network.api_client import ApiClient

# --- authentication by a program that prints a token, such as kubelogin --------------------------
#
# All versions of the API are called alike. Source: kubernetes.io, "Authenticating", section
# "client-go credential plugins".

# Time limit: an interactive sign-in prompt would not be visible.
_SECONDS: Final = 60


class ExecPluginProblem(Exception):
    """Program without a token: the message has the program and the reason."""


class ExecPlugin(Struct, frozen=True):
    """A program with arguments, environment and API version, and the cluster if it needs it."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    version: str
    cluster: Mapping[str, Any] | None = None

    def fetch_token(self) -> str:
        """Run the program and return its token.

        Raises ExecPluginProblem if it fails, hangs or prints no token.
        """
        name = Path(self.command[0]).name
        spec: dict[str, Any] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = self.cluster
        exec_info = json.dumps({"kind": "ExecCredential", "apiVersion": self.version, "spec": spec})
        environment = {
            **build_program_environment(signs_in=True),
            **self.environment,
            "KUBERNETES_EXEC_INFO": exec_info,
        }
        try:
            declare_program(self.command)
            result = run_program(self.command, environment, _SECONDS)
        except subprocess.TimeoutExpired:
            raise ExecPluginProblem(
                f"The sign-in program {name} did not finish within {_SECONDS} s. If it waits for "
                "input, run it by hand first."
            ) from None
        except OSError as problem:
            raise ExecPluginProblem(f"Cannot run the sign-in program {name}: {problem}") from None
        if result.returncode:
            lines = result.stderr.decode(errors="replace").strip().splitlines()
            # Characters, of the last line only: earlier ones may have secrets.
            maximum_length = 200
            last_line = ["no error output", *lines][-1].strip()[:maximum_length]
            raise ExecPluginProblem(
                f"The sign-in program {name} failed ({result.returncode}): {last_line}"
            )
        try:
            token = get_text(json.loads(result.stdout), "status", "token")
        except ValueError:
            # It printed no JSON.
            token = ""
        if not token:
            raise ExecPluginProblem(
                f"The sign-in program {name} printed no ExecCredential with a token."
            )
        return token


_SECTIONS: Final = ("clusters", "contexts", "users")
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
# Fields that an untrusted kubeconfig must not have: programs, credentials of the runner, and other
# routes to servers.
_UNTRUSTED_FIELDS: Final = (
    "exec",
    "auth-provider",
    "tokenFile",
    "client-key",
    "proxy-url",
    "insecure-skip-tls-verify",
)
# Bytes of a kubeconfig.
_MAXIMUM_SIZE: Final = 1 << 24


class KubeconfigProblem(Exception):
    """Unusable access data for an API server: the message has the file and the reason."""


class KubernetesAccount(Struct, frozen=True):
    """Credentials and server: the entries of a context as in a kubeconfig, with absolute paths."""

    source: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    user_name: str
    context: str = ""

    @property
    def server(self) -> str:
        """URL of the server, without a trailing slash."""
        return str(self.cluster["server"]).rstrip("/")

    def explain_unverified_server(self) -> str:
        """Return a warning if the certificate of the server is not verified, else ""."""
        if not self.cluster.get("insecure-skip-tls-verify"):
            return ""
        return (
            f"The certificate of {self.server} is not verified (insecure-skip-tls-verify in the "
            "kubeconfig): another server could answer and receive the credentials. Set "
            "certificate-authority-data instead."
        )


class KubeconfigTrust(Struct, frozen=True):
    """Trust in the kubeconfigs of a run.

    In a sandboxed run a kubeconfig of the work tree is untrusted. `is_url_allowed` returns whether
    the operator allowed a server (-allow-remote).
    """

    confinement: Confinement = UNCONFINED
    is_url_allowed: Callable[[str], bool] = lambda _url: False


TRUSTED: Final = KubeconfigTrust()


def read_account(
    paths: Sequence[Path], context: str = "", trust: KubeconfigTrust = TRUSTED
) -> KubernetesAccount:
    """Read one context ("": the current one) of kubeconfig files.

    The first of several entries with the same name in a section counts. In a sandboxed run, files
    in the work tree must pass the checks of `trust`. Raises KubeconfigProblem.
    """
    _require_lightkube()
    source = format_list(list(map(str, paths)))
    # By section and name.
    entries: dict[str, dict[str, Mapping[str, Any]]] = {section: {} for section in _SECTIONS}
    current = context
    for path in paths:
        document = _read_kubeconfig_file(path, trust)
        current = current or get_text(document, "current-context")
        for section in _SECTIONS:
            for name, entry in _iterate_entries(path, document, section):
                entries[section].setdefault(name, entry)
    if not current:
        raise KubeconfigProblem(
            f"{source} has no current context. Set one: {_format_names(entries['contexts'])}."
        )
    context_entry = _get_named_entry(source, entries["contexts"], current, "context", origin="")
    cluster_name = get_text(context_entry, "cluster")
    user_name = get_text(context_entry, "user")
    origin = f" of the context {current}"
    cluster = _get_named_entry(source, entries["clusters"], cluster_name, "cluster", origin)
    user = (
        _get_named_entry(source, entries["users"], user_name, "user", origin) if user_name else {}
    )
    if not cluster.get("server"):
        raise KubeconfigProblem(
            f"{source} cannot be used: the cluster {cluster_name} has no server."
        )
    account = KubernetesAccount(source, cluster, user, user_name, current)
    untrusted_paths = [path for path in paths if is_untrusted_path(path, trust.confinement)]
    # In the work tree of a sandboxed run.
    if untrusted_paths:
        _check_untrusted_account(untrusted_paths, account, trust)
    else:
        # Only files of the operator.
        _reject_files_in_work_tree(account, trust.confinement)
    return account


def _reject_files_in_work_tree(account: KubernetesAccount, confinement: Confinement) -> None:
    """Reject files of the work tree in the operator's kubeconfig.

    Such files are certificates, credentials and programs.
    """
    entries = {**account.cluster, **account.user}
    named_files = [(name, str(entries[name])) for name in _PATHS if entries.get(name)]
    plug_in = entries.get("exec")
    # List files of the command only for a sandboxed run.
    if isinstance(plug_in, Mapping) and confinement.root:
        words = [str(plug_in.get("command")), *map(str, get_list(plug_in, "args"))]
        named_files += [("exec", path) for path in list_command_files(words, os.environ)]
    for name, path in named_files:
        if is_untrusted_path(path, confinement):
            raise KubeconfigProblem(
                explain_untrusted_file(f"{account.source}: {name}", path, "of a kubeconfig")
            )
        declare_path(path)


def _check_untrusted_account(
    paths: Sequence[Path], account: KubernetesAccount, trust: KubeconfigTrust
) -> None:
    """Reject an untrusted account with programs, credentials, weak TLS or another server."""
    entries = {**account.cluster, **account.user}
    fields = [name for name in _UNTRUSTED_FIELDS if entries.get(name)]
    file_fields = [
        name for name in ("certificate-authority", "client-certificate") if entries.get(name)
    ]
    is_inside = trust.confinement.is_inside
    # A file elsewhere.
    fields += [name for name in file_fields if not is_inside(os.path.realpath(entries[name]))]
    prefix = f"{format_list(list(map(str, paths)))} is in the work tree of a sandboxed run"
    if fields:
        raise KubeconfigProblem(
            f"{prefix}: {format_list(fields)} {select_word_form(len(fields), 'is', 'are')} not "
            "allowed there. Use a kubeconfig outside of the work tree."
        )
    if not trust.is_url_allowed(account.server):
        raise KubeconfigProblem(
            f"{prefix}: its server {account.server} is not allowed. Use a kubeconfig outside of "
            f"the work tree, or allow the server:\n-allow-remote={account.server}"
        )


def _require_lightkube() -> None:
    try:
        import lightkube.config.client_adapter  # noqa: F401 - checks the installation
    except ImportError as problem:
        package = describe_missing_package(problem)
        raise KubeconfigProblem(f"Kubernetes access needs {package}.") from None


def _read_kubeconfig_file(path: Path, trust: KubeconfigTrust) -> Mapping[str, Any]:
    """Read one kubeconfig file.

    Raises KubeconfigProblem if it is unreadable, empty, or has none of the sections.
    """
    import yaml

    from nexusform.documents.yaml_documents import load_yaml
    from nexusform.files.regular_files import read_regular

    try:
        document = load_yaml(
            read_regular(trust.confinement.resolve_path_of_operator(path), _MAXIMUM_SIZE)
        )
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark is not None else 1
        raise KubeconfigProblem(f"{path} cannot be used: line {line}: {problem.problem}.") from None
    except (OSError, ValueError, yaml.YAMLError) as problem:
        raise KubeconfigProblem(f"{path} cannot be used: {problem}.") from None
    if document is None:
        raise KubeconfigProblem(f"{path} cannot be used: it is empty.")
    if not isinstance(document, dict) or not any(section in document for section in _SECTIONS):
        raise KubeconfigProblem(
            f"{path} cannot be used: it is not a kubeconfig with {format_list(_SECTIONS)}."
        )
    return document


def _iterate_entries(
    path: Path, document: Mapping[str, Any], section: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and entries of a section, with absolute paths of files.

    Raises KubeconfigProblem.
    """
    items = document.get(section) or []
    if not isinstance(items, list):
        items = [None]  # rejected below
    kind = section.removesuffix("s")
    for number, item in enumerate(items):
        name = get_value_at_path(item, "name")
        entry = get_value_at_path(item, kind) or {}
        if not name or not isinstance(entry, dict):
            raise KubeconfigProblem(
                f"{path} cannot be used: {section}[{number}] must have a name and a {kind}."
            )
        yield str(name), _resolve_paths_of_entry(entry, path, f"{section}[{number}]")


def _resolve_paths_of_entry(entry: Mapping[str, Any], file: Path, title: str) -> Mapping[str, Any]:
    """Return an entry with absolute paths; relative ones start at the kubeconfig.

    Raises KubeconfigProblem.
    """
    directory = file.absolute().parent
    plug_in = get_mapping(entry, "exec")
    paths = {key: entry[key] for key in _PATHS if entry.get(key) is not None}
    command = plug_in.get("command") or ""
    for key, value in {**paths, "command": command}.items():
        if not isinstance(value, str):
            raise KubeconfigProblem(f"{file} cannot be used: {title}: {key} must be a text.")
    resolved: dict[str, Any] = {key: str(directory / value) for key, value in paths.items()}
    # A path, not a name in PATH.
    if os.sep in command:
        resolved["exec"] = {**plug_in, "command": str(directory / command)}
    return {**entry, **resolved}


def _get_named_entry(
    source: str, entries: Mapping[str, Mapping[str, Any]], name: str, kind: str, origin: str
) -> Mapping[str, Any]:
    """Return an entry.

    Raises KubeconfigProblem without it; `origin` is part of its text: " of the context a".
    """
    if name not in entries:
        existing = _format_names(entries)
        raise KubeconfigProblem(
            f'{source} cannot be used: no {kind} "{name}"{origin}. Existing: {existing}.'
        )
    return entries[name]


def _format_names(entries: Mapping[str, Any]) -> str:
    return format_list(sorted(entries)) or "none"


def read_pod_account() -> KubernetesAccount:
    """Return the service account of the current pod.

    Raises KubeconfigProblem.
    """
    _require_lightkube()
    from lightkube.config.kubeconfig import SERVICE_ACCOUNT

    host = read_variable("KUBERNETES_SERVICE_HOST")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    account = Path(SERVICE_ACCOUNT)
    if not (account / "token").is_file():
        raise KubeconfigProblem(
            f"The service account of this pod cannot be used: {account} has no token."
        )
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    cluster = {"server": server, "certificate-authority": str(account / "ca.crt")}
    user = {"tokenFile": str(account / "token")}
    return KubernetesAccount("the service account of this pod", cluster, user, user_name="")


def build_api_client(account: KubernetesAccount) -> ApiClient:
    """Return an authenticated client of the server.

    Its requests raise ExecPluginProblem if a plug-in returns no token. Raises KubeconfigProblem for
    an unusable URL, entry or certificate.
    """
    from lightkube.config.client_adapter import user_auth, verify_cluster
    from lightkube.config.models import Cluster, User

    from nexusform.network.api_client import ApiClient, build_token_auth
    from nexusform.network.web_errors import check_plain_credentials

    if account.user.get("auth-provider"):
        raise KubeconfigProblem(
            f"{account.source} cannot be used: the user {account.user_name} uses an auth-provider, "
            "removed in Kubernetes 1.26. Use an exec plug-in."
        )
    # Credentials over plain HTTP.
    rejection = check_plain_credentials(account.server) if account.user else ""
    if rejection:
        raise KubeconfigProblem(f"{account.source} cannot be used: {rejection}.")
    # `_build_plugin` reads exec.
    user_entry = {key: value for key, value in account.user.items() if key != "exec"}
    # The certificates of the system take 20 ms to load, so a plain HTTP server without settings of
    # TLS needs none.
    names = (*account.cluster, *account.user)
    has_tls_settings = any(name.startswith(("certificate", "client", "proxy")) for name in names)
    needs_tls = has_tls_settings or not account.server.startswith("http:")
    try:
        cluster = convert(account.cluster, Cluster)
        user = convert(user_entry, User)
        verify = needs_tls and verify_cluster(cluster, user, lambda path: path)
        has_plugin = bool(account.user.get("exec"))
        auth = (
            build_token_auth(_build_plugin(account).fetch_token) if has_plugin else user_auth(user)
        )
        return ApiClient(
            account.server,
            get_text(account.cluster, "tls-server-name"),
            verify=verify,
            auth=auth,
            proxy=account.cluster.get("proxy-url") or None,
            headers=_build_impersonation_headers(account.user),
        )
    except OSError as problem:
        # Files of certificates, which ssl reads.
        files = [
            str(entry[key])
            for entry in (account.cluster, account.user)
            for key in _PATHS
            if key in entry
        ]
        missing_files = [file for file in files if not Path(file).is_file()]
        reason = (
            f"missing {format_list(missing_files)}"
            if missing_files
            else f"its certificates: {problem}"
        )
        raise KubeconfigProblem(f"{account.source} cannot be used: {reason}.") from None
    except (ValidationError, ValueError) as problem:
        # An invalid entry; invalid base64 or an invalid URL.
        reason = describe_wrong_value(problem)
        raise KubeconfigProblem(f"{account.source} cannot be used: {reason}.") from None


def _build_impersonation_headers(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Build the impersonation headers from `as`, `as-uid`, `as-groups` and `as-user-extra`.

    Raises ValidationError. The result is a list of pairs, because a header may repeat: one for each
    group, and for each value of an extra.
    """
    headers: list[tuple[str, str]] = []
    for field_name, header in (("as", "Impersonate-User"), ("as-uid", "Impersonate-Uid")):
        if user.get(field_name):
            headers.append((header, str(user[field_name])))
    groups = convert(user.get("as-groups") or [], list[str])
    headers += [("Impersonate-Group", group) for group in groups]
    extras = convert(user.get("as-user-extra") or {}, dict[str, list[str]])
    for key, values in extras.items():
        headers += [(f"Impersonate-Extra-{key}", value) for value in values]
    return headers


def _build_plugin(account: KubernetesAccount) -> ExecPlugin:
    """Return the sign-in program of an account.

    Raises KubeconfigProblem (not installed), ValidationError (invalid).
    """
    from lightkube.config.models import UserExec

    entry = account.user["exec"]
    plug_in = convert(entry, UserExec)
    if shutil.which(plug_in.command) is None:
        hint = (plug_in.installHint or "").strip()
        raise KubeconfigProblem(
            f'{account.source} cannot be used: the sign-in program "{plug_in.command}" of the user '
            f"{account.user_name} is not found. {hint}".rstrip()
        )
    environment = {variable.name: variable.value for variable in plug_in.env or ()}
    cluster = account.cluster if entry.get("provideClusterInfo") else None
    return ExecPlugin(
        (plug_in.command, *(plug_in.args or ())), environment, plug_in.apiVersion, cluster
    )
