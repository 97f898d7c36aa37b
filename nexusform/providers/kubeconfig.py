"""How an API server of Kubernetes is reached: kubeconfigs as kubectl reads them, or a pod's service account.

Several files are merged: of two entries with one name the first holds, and so does the first current
context. Paths go from the file that names them. Source: kubernetes.io, "Organizing Cluster Access Using
kubeconfig Files".
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, ValidationError, convert

from nexusform.providers.exec_plugin import ExecPlugin, signed_in_by
from nexusform.words import listed

if TYPE_CHECKING:
    from httpx2 import Client, Request

_SECTIONS: Final = ("clusters", "contexts", "users")
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_LARGEST: Final = 1 << 24  # bytes of a kubeconfig


class KubeconfigProblem(Exception):
    """An API server cannot be reached as the files say: the message says which file, and why."""


class Account(Struct, frozen=True):
    """Who asks which server: the entries that a context names, and the files that they are from. `user` and
    `cluster` have the fields of a kubeconfig, with absolute paths.
    """

    source: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    user_name: str

    @property
    def server(self) -> str:
        """The server's URL, without a slash at its end."""
        return str(self.cluster["server"]).rstrip("/")


# --- reading -------------------------------------------------------------------------------------


def read_account(paths: Sequence[Path], context: str = "") -> Account:
    """What a context of the files says, "" for the current one. Raises KubeconfigProblem."""
    _require_lightkube()
    source = listed([str(path) for path in paths])
    entries: dict[str, dict[str, Mapping[str, Any]]] = {section: {} for section in _SECTIONS}
    current = context
    for path in paths:
        document = _document(path)
        current = current or str(document.get("current-context") or "")
        for section in _SECTIONS:
            for name, entry in _named(path, document, section):
                entries[section].setdefault(name, entry)
    if not current:
        raise KubeconfigProblem(
            f"{source} names no current context. Name one: {_those_of(entries['contexts'])}."
        )
    chosen = _entry(source, entries["contexts"], current, "context", "")
    cluster_name, user_name = str(chosen.get("cluster") or ""), str(chosen.get("user") or "")
    named_by = f", which the context {current} names"
    cluster = _entry(source, entries["clusters"], cluster_name, "cluster", named_by)
    user = _entry(source, entries["users"], user_name, "user", named_by) if user_name else {}
    if not cluster.get("server"):
        raise KubeconfigProblem(f"{source} cannot be used: the cluster {cluster_name} has no server.")
    return Account(source, cluster, user, user_name)


def _require_lightkube() -> None:
    """Raises KubeconfigProblem."""
    try:
        import lightkube.config.client_adapter  # noqa: F401 - whether it is there
    except ImportError:
        raise KubeconfigProblem(
            'Speaking to Kubernetes needs lightkube: pip install "nexusform[kubernetes]".'
        ) from None


def _document(path: Path) -> Mapping[str, Any]:
    import yaml

    from nexusform.regular_files import read_regular

    try:
        document = yaml.safe_load(read_regular(path, _LARGEST))
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark is not None else 1
        raise KubeconfigProblem(f"{path} cannot be used: line {line}: {problem.problem}.") from None
    except (OSError, ValueError, yaml.YAMLError) as problem:
        raise KubeconfigProblem(f"{path} cannot be used: {problem}.") from None
    if document is None:
        raise KubeconfigProblem(f"{path} cannot be used: it is empty.")
    if not isinstance(document, dict) or not any(section in document for section in _SECTIONS):
        raise KubeconfigProblem(f"{path} cannot be used: it is no kubeconfig, with {listed(_SECTIONS)}.")
    return document


def _named(path: Path, document: Mapping[str, Any], section: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The entries of a section with their names. Raises KubeconfigProblem."""
    items = document.get(section) or []
    kind = section.removesuffix("s")
    for number, item in enumerate(items if isinstance(items, list) else (None,)):
        name = item.get("name") if isinstance(item, dict) else None
        entry = (item.get(kind) or {}) if isinstance(item, dict) else None
        if not name or not isinstance(entry, dict):
            raise KubeconfigProblem(
                f"{path} cannot be used: {section}[{number}] must have a name and a {kind}."
            )
        yield str(name), _with_absolute_paths(entry, path.absolute().parent)


def _with_absolute_paths(entry: Mapping[str, Any], directory: Path) -> Mapping[str, Any]:
    """A cluster or user with the paths of its file made absolute; so is a plug-in's that holds a slash."""
    absolute = {key: str(directory / entry[key]) for key in _PATHS if isinstance(entry.get(key), str)}
    plug_in = entry.get("exec")
    if isinstance(plug_in, dict) and os.sep in str(plug_in.get("command")):
        plug_in = {**plug_in, "command": str(directory / plug_in["command"])}
    return {**entry, **absolute, **({"exec": plug_in} if plug_in else {})}


def _entry(
    source: str, entries: Mapping[str, Mapping[str, Any]], name: str, kind: str, named_by: str
) -> Mapping[str, Any]:
    if name not in entries:
        raise KubeconfigProblem(
            f'{source} cannot be used: there is no {kind} "{name}" in it{named_by}; there is '
            f"{_those_of(entries)}."
        )
    return entries[name]


def _those_of(entries: Mapping[str, Any]) -> str:
    return listed(sorted(entries)) or "none"


def account_of_pod() -> Account:
    """The service account of the pod in which this runs. Raises KubeconfigProblem."""
    _require_lightkube()
    from lightkube.config.kubeconfig import SERVICE_ACCOUNT

    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    account = Path(SERVICE_ACCOUNT)
    if not (account / "token").is_file():
        raise KubeconfigProblem(f"The service account of this pod cannot be used: {account} holds no token.")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    cluster = {"server": server, "certificate-authority": str(account / "ca.crt")}
    return Account("the service account of this pod", cluster, {"tokenFile": str(account / "token")}, "")


# --- signing in ----------------------------------------------------------------------------------


def http_client(account: Account, seconds: float) -> Client:
    """An HTTP client of the server that signs in as the account; `seconds` bound a request. Its requests
    raise PluginProblem where a plug-in gives no token. Raises KubeconfigProblem.
    """
    from httpx2 import Client, Timeout
    from lightkube.config.client_adapter import user_auth, verify_cluster
    from lightkube.config.models import Cluster, User

    _refuse_what_is_gone(account)
    signs_in = {key: value for key, value in account.user.items() if key != "exec"}
    try:
        cluster, user = convert(account.cluster, Cluster), convert(signs_in, User)
        return Client(
            base_url=account.server,
            verify=verify_cluster(cluster, user, lambda path: path),
            auth=signed_in_by(_plug_in_of(account)) if account.user.get("exec") else user_auth(user),
            timeout=Timeout(seconds),
            proxy=account.cluster.get("proxy-url") or None,
            headers=_impersonated(account.user),
            event_hooks={"request": [_under_another_name(account)]},
        )
    except ValidationError as problem:
        raise KubeconfigProblem(f"{account.source} cannot be used: {problem}.") from None
    except OSError as problem:  # of certificates, which ssl reads
        names = [entry[key] for entry in (account.cluster, account.user) for key in _PATHS if key in entry]
        lacking = [str(name) for name in names if not Path(str(name)).is_file()]
        why = f"there is no {listed(lacking)}" if lacking else f"its certificates: {problem}"
        raise KubeconfigProblem(f"{account.source} cannot be used: {why}.") from None
    except ValueError as problem:  # of base64, of URLs
        raise KubeconfigProblem(f"{account.source} cannot be used: {problem}.") from None


def _refuse_what_is_gone(account: Account) -> None:
    """Raises KubeconfigProblem."""
    if account.user.get("auth-provider"):
        raise KubeconfigProblem(
            f"{account.source} cannot be used: the user {account.user_name} signs in by an auth-provider, "
            "which Kubernetes 1.26 took away. An exec plug-in takes its place."
        )


def _under_another_name(account: Account) -> Callable[[Request], None]:
    """Lets a request expect the certificate of `tls-server-name`."""
    name = account.cluster.get("tls-server-name")

    def expect(request: Request) -> None:
        if name:
            request.extensions["sni_hostname"] = str(name)

    return expect


def _impersonated(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Headers of who is impersonated, as `as`, `as-uid`, `as-groups` and `as-user-extra` say."""
    headers = [("Impersonate-User", str(user["as"]))] if user.get("as") else []
    headers += [("Impersonate-Uid", str(user["as-uid"]))] if user.get("as-uid") else []
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        headers += [(f"Impersonate-Extra-{key}", str(value)) for value in values]
    return headers


def _plug_in_of(account: Account) -> ExecPlugin:
    """The program by which an account signs in. Raises KubeconfigProblem and ValidationError."""
    from lightkube.config.models import UserExec

    written = account.user["exec"]
    plug_in = convert(written, UserExec)
    if shutil.which(plug_in.command) is None:
        hint = (plug_in.installHint or "").strip()
        raise KubeconfigProblem(
            f'{account.source} cannot be used: the program "{plug_in.command}", by which the user '
            f"{account.user_name} signs in, is not found.{f' {hint}' if hint else ''}"
        )
    environment = {each.name: each.value for each in plug_in.env or ()}
    cluster = account.cluster if written.get("provideClusterInfo") else None
    return ExecPlugin((plug_in.command, *(plug_in.args or ())), environment, plug_in.apiVersion, cluster)
