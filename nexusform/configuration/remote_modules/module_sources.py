"""Addresses in the `source` of a module block: git, archives and registries.

The forms are those of Terraform. Each address has one canonical form, without credentials: mirrors,
messages and -allow-module use it. The lock file has the source without parameters of a server.
"""

import re
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from msgspec import Struct

_LOCAL_PREFIXES: Final = ("./", "../")
_LOOPBACK_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
# Hosts with a shorthand: `github.com/org/repo//path`.
_SHORTHAND_HOSTS: Final = ("github.com", "gitlab.com", "bitbucket.org")
DEFAULT_REGISTRY: Final = "registry.opentofu.org"
_ARCHIVE_ENDINGS: Final = {".zip": "zip", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}
# `git@github.com:org/repo.git`
_SCP_ADDRESS: Final = re.compile(r"(?:([\w.-]+)@)([\w.-]+):(?!//)([^:]+)")
_USER: Final = re.compile(r"\w[\w.-]*")
_REF: Final = re.compile(r"\w[\w./+@#=%-]*")
_BAD_REF_PARTS: Final = ("..", "@{", "//")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CHECKSUM: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_REGISTRY_NAME: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?")
_REGISTRY_PROVIDER: Final = re.compile(r"[0-9a-z]{1,64}")
_REGISTRY_HOST: Final = re.compile(r"(?:[\w-]+\.)+[\w-]+(?::[0-9]{1,5})?|localhost:[0-9]{1,5}")
_GIT_PARAMETERS: Final = frozenset({"ref", "depth"})
_ARCHIVE_PARAMETERS: Final = frozenset({"archive", "checksum"})
_OWN_PARAMETERS: Final = _GIT_PARAMETERS | _ARCHIVE_PARAMETERS
_HELP: Final = (
    'Write a local path ("./name"), "git::https://HOST/REPO.git?ref=TAG", '
    '"git::ssh://git@HOST/REPO.git?ref=TAG", "github.com/ORG/REPO?ref=TAG", the https address of a '
    '.zip or .tar.gz file with "?checksum=sha256:...", or NAMESPACE/NAME/PROVIDER of a registry.'
)


class InvalidModuleSource(ValueError):
    """Source that nexusform does not read; the message is for the user."""


class ModuleSource(Struct, frozen=True):
    """Remote source of a module.

    `kind` is "git", "archive" or "registry". `address` is the URL of the repository or archive, or
    the address HOST/NAMESPACE/NAME/PROVIDER of a registry. `ref` is a branch, tag or commit, "" for
    the default branch. `archive` is the format of an archive, and `checksum` its SHA-256.
    `subdirectory` is the directory of the module in the package, "" for its top. With
    `strips_top_directory` the package is the only directory at the top of the archive (`//*`).
    """

    kind: str
    address: str
    ref: str = ""
    archive: str = ""
    checksum: str = ""
    subdirectory: str = ""
    strips_top_directory: bool = False

    @property
    def package(self) -> str:
        """The canonical form of the package, without the subdirectory.

        It has no parameters of a server, which may be secret: the checksum identifies an archive.
        """
        if self.kind == "git":
            return f"git::{self.address}" + (f"?ref={quote(self.ref)}" if self.ref else "")
        if self.kind == "archive":
            parameters = {"archive": self.archive}
            if self.checksum:
                parameters["checksum"] = f"sha256:{self.checksum}"
            base = self.address.partition("?")[0]
            top = "//*" if self.strips_top_directory else ""
            return f"{base}{top}?{urlencode(parameters, safe=':')}"
        return self.address

    @property
    def is_commit(self) -> bool:
        """Whether the ref is the full id of a commit."""
        return _COMMIT.fullmatch(self.ref) is not None


def is_local_path(source: str) -> bool:
    """Return whether a source is a path relative to the module of the block."""
    return source.startswith(_LOCAL_PREFIXES) or source in {".", ".."}


def hide_server_parameters(source: str) -> str:
    """Return a source for messages: without parameters of a server, which may be a secret."""
    base, _, query = source.partition("?")
    shown_parts = [part for part in query.split("&") if part.partition("=")[0] in _OWN_PARAMETERS]
    return base + ("?" + "&".join(shown_parts) if shown_parts else "")


def parse_module_source(source: str, *, needs_checksum: bool = True) -> ModuleSource:
    """Parse a remote source.

    Raises InvalidModuleSource. Without `needs_checksum` (an answer of a registry), an archive may
    come without one: the hash of the lock file counts.
    """
    _check_source_text(source)
    forced_kind, separator, address = source.partition("::")
    if not separator:
        forced_kind = ""
        address = source
    if forced_kind not in ("", "git", "https"):
        raise InvalidModuleSource(
            f'"{forced_kind}::" is not supported. {_HELP}'
            if _USER.fullmatch(forced_kind)
            else f"The source is not supported. {_HELP}"
        )
    address, subdirectory = _split_subdirectory(address)
    if forced_kind == "git":
        return _parse_git(address, subdirectory)
    host = address.partition("/")[0]
    if host in _SHORTHAND_HOSTS and forced_kind == "":
        return _parse_git(_expand_shorthand(host, address), subdirectory)
    if _SCP_ADDRESS.fullmatch(address.partition("?")[0]):
        return _parse_git(address, subdirectory)
    if "://" in address:
        scheme = address.partition("://")[0]
        if scheme == "ssh" or address.partition("?")[0].endswith(".git"):
            return _parse_git(address, subdirectory)
        return _parse_archive(address, subdirectory, needs_checksum=needs_checksum)
    return _parse_registry(address, subdirectory, source)


def _check_source_text(source: str) -> None:
    """Reject texts that are no source of any kind.

    Raises InvalidModuleSource.
    """
    if not source.isprintable() or any(letter.isspace() for letter in source) or "\\" in source:
        raise InvalidModuleSource(
            "The source has a blank, a backslash or an invisible character. Remove it."
        )
    if source.startswith("/"):
        raise InvalidModuleSource(
            'Write the directory relative to this module, beginning with "./" or "../", not '
            f'"{source}".'
        )
    if source.startswith(("oci://", "oci::")):
        raise InvalidModuleSource(
            "Modules of OCI registries are not supported: nexusform has no client for them. "
            "Publish the directory in a git repository, in a registry of modules or as an "
            f"archive. Or pull it with another program and write its local path. {_HELP}"
        )


def _split_subdirectory(address: str) -> tuple[str, str]:
    """Split `REPO//DIR?QUERY` into the address with the query, and the directory."""
    start = address.find("://") + 3 if "://" in address else 0
    base, question_mark, query = address.partition("?")
    position = base.find("//", start)
    if position < 0:
        return address, ""
    subdirectory = base[position + 2 :].strip("/")
    parts = subdirectory.split("/")
    if any(part in ("", ".", "..") or part.casefold() == ".git" for part in parts):
        raise InvalidModuleSource(
            f'"//{subdirectory}" is not a directory in the package. Write plain names separated by '
            "slashes."
        )
    return base[:position] + question_mark + query, subdirectory


def _expand_shorthand(host: str, address: str) -> str:
    """Return the https address of a repository given as `github.com/org/repo`."""
    base, question_mark, query = address.partition("?")
    parts = base.split("/")
    if host != "gitlab.com" and len(parts) != 3:
        raise InvalidModuleSource(
            f'"{base}" is not a repository. Write {host}/ORG/REPO, and a directory in it after '
            '"//".'
        )
    repository = base if base.endswith(".git") else f"{base}.git"
    return f"https://{repository}{question_mark}{query}"


def _read_parameters(query: str, allowed: frozenset[str]) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in allowed:
            names = " and ".join(sorted(f'"{word}"' for word in allowed))
            shown_name = name if _USER.fullmatch(name) else "..."
            raise InvalidModuleSource(
                f'The parameter "{shown_name}" of the source is not supported here. Supported are '
                f"{names}."
            )
        if name in parameters:
            raise InvalidModuleSource(f'The parameter "{name}" of the source is given twice.')
        parameters[name] = value
    return parameters


def _parse_git(address: str, subdirectory: str) -> ModuleSource:
    base, _, query = address.partition("?")
    scp = _SCP_ADDRESS.fullmatch(base)
    if scp is not None:
        user, host, path = scp.groups()
        base = f"ssh://{user}@{host}/{path.lstrip('/')}"
    parameters = _read_parameters(query, _GIT_PARAMETERS)
    ref = parameters.get("ref", "")
    if "ref" in parameters:
        check_ref(ref)
    url = _check_url(base, ("https", "ssh", "http"))
    return ModuleSource("git", url, ref, subdirectory=subdirectory)


def check_ref(ref: str) -> None:
    """Reject a ref that is no name or commit, or looks like an option of git.

    Raises InvalidModuleSource.
    """
    if not _REF.fullmatch(ref) or any(part in ref for part in _BAD_REF_PARTS):
        raise InvalidModuleSource(
            "The ref of the source is not the name of a branch or tag, or the id of a commit."
        )


def _parse_archive(address: str, subdirectory: str, *, needs_checksum: bool) -> ModuleSource:
    base, _, query = address.partition("?")
    own_parts: list[str] = []
    # Those of the server.
    other_parts: list[str] = []
    for part in query.split("&"):
        is_own = part.partition("=")[0] in _ARCHIVE_PARAMETERS
        (own_parts if is_own else other_parts).append(part)
    parameters = _read_parameters("&".join(own_parts), _ARCHIVE_PARAMETERS)
    url = _check_url(base, ("https", "http"))
    endings = [form for ending, form in _ARCHIVE_ENDINGS.items() if base.endswith(ending)]
    archive = parameters.get("archive", endings[0] if endings else "")
    archive = {"tgz": "tar.gz"}.get(archive, archive)
    if archive not in _ARCHIVE_ENDINGS.values():
        raise InvalidModuleSource(
            'The address does not end with .zip, .tar.gz or .tgz. Add "?archive=zip" or '
            '"?archive=tar.gz", or write "git::" before the address of a repository.'
        )
    checksum = parameters.get("checksum", "")
    match = _CHECKSUM.fullmatch(checksum)
    if match is None and (checksum or needs_checksum):
        raise InvalidModuleSource(
            'An archive needs its SHA-256: add "?checksum=sha256:..." with 64 hexadecimal digits '
            "(sha256sum FILE prints them)."
        )
    if any(other_parts):
        url = f"{url}?{'&'.join(other_parts)}"
    first, _, rest = subdirectory.partition("/")
    return ModuleSource(
        kind="archive",
        address=url,
        archive=archive,
        checksum=match.group(1) if match else "",
        subdirectory=rest if first == "*" else subdirectory,
        strips_top_directory=first == "*",
    )


def _check_url(text: str, schemes: tuple[str, ...]) -> str:
    """Return the canonical form of a URL.

    Raises InvalidModuleSource, without repeating a password.
    """
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise InvalidModuleSource(f"The address is invalid. {_HELP}") from None
    if url.scheme not in schemes:
        shown_scheme = url.scheme if url.scheme.isalnum() else "..."
        raise InvalidModuleSource(f'"{shown_scheme}://" is not supported. {_HELP}')
    host = (url.hostname or "").lower()
    user = url.username or ""
    if not host or not re.fullmatch(r"[0-9a-z]([0-9a-z._-]*[0-9a-z])?|::1", host):
        raise InvalidModuleSource("The address has no valid host name.")
    if url.password is not None or (user and url.scheme != "ssh"):
        raise InvalidModuleSource(
            "The address contains credentials. Remove them: git reads them from its credential "
            "helper or from ssh."
        )
    if user and not _USER.fullmatch(user):
        raise InvalidModuleSource("The address has no valid user name.")
    if url.scheme == "http" and host not in _LOOPBACK_HOSTS:
        raise InvalidModuleSource(f'"http://" is not encrypted. Write "https://{host}/...".')
    path = url.path
    names = unquote(path).split("/")
    if not path.strip("/") or ".." in names or any(name.startswith("-") for name in names):
        raise InvalidModuleSource("The path of the address is not that of a repository or file.")
    if url.fragment:
        raise InvalidModuleSource("The address has a fragment (#...). Remove it.")
    shown_host = f"[{host}]" if ":" in host else host
    netloc = (f"{user}@" if user else "") + shown_host + (f":{port}" if port else "")
    return urlunsplit((url.scheme, netloc, path, "", ""))


def _parse_registry(address: str, subdirectory: str, source: str) -> ModuleSource:
    if "?" in address:
        shown_source = hide_server_parameters(source)
        raise InvalidModuleSource(f'"{shown_source}" is not a module source. {_HELP}')
    parts = address.split("/")
    host = DEFAULT_REGISTRY
    if len(parts) == 4:
        host = parts.pop(0).lower()
    is_valid = (
        len(parts) == 3
        and all(_REGISTRY_NAME.fullmatch(name) for name in parts[:2])
        and _REGISTRY_PROVIDER.fullmatch(parts[2])
        and _REGISTRY_HOST.fullmatch(host)
    )
    if not is_valid:
        hint = f' For a directory write "./{source}".' if _USER.fullmatch(source) else ""
        raise InvalidModuleSource(f'"{source}" is not a module source.{hint} {_HELP}')
    return ModuleSource("registry", "/".join([host, *parts]), subdirectory=subdirectory)


def find_package_name(source: str) -> str:
    """Return the canonical form of the package of a source; "" for an invalid or local one."""
    try:
        return "" if is_local_path(source) else parse_module_source(source).package
    except InvalidModuleSource:
        return ""


def get_contacted_address(source: ModuleSource) -> str:
    """Return the URL that -allow-module must allow, without a user name."""
    if source.kind == "registry":
        host, _, name = source.address.partition("/")
        return f"{get_registry_url(host)}/{name}"
    url = urlsplit(source.address)
    return urlunsplit((url.scheme, url.netloc.rpartition("@")[2], url.path, "", ""))


def get_registry_url(host: str) -> str:
    """Return the URL of a registry: https, or http on this machine."""
    name = host.partition(":")[0]
    return f"{'http' if name in _LOOPBACK_HOSTS else 'https'}://{host}"
