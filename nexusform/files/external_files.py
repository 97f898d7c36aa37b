"""Files of a run besides its configuration, and their writers.

A variable or default path may lead to settings with a server, a program or credentials. In a
sandboxed run such a file must not be in the work tree: the author of a pull request controls it.
"""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

from nexusform.files.regular_files import Confinement


class AllowedWriter(StrEnum):
    """Allowed writer of a file in a sandboxed run."""

    # A file of the work tree is rejected.
    OPERATOR = "operator"
    # Its reader rejects targets, programs and credentials.
    LIMITED = "work tree, with limits"
    # Data: a link must stay in the work tree.
    WORK_TREE = "work tree"
    # Output: created or replaced, never read.
    COMMAND = "the command itself"


class PathValueForm(StrEnum):
    """Form of a value with file names."""

    PATH = "path"
    # Separated as in PATH.
    PATHS = "paths"
    # A program and its arguments.
    COMMAND = "command"
    # The name of a program, found through PATH.
    PROGRAM = "program"
    # A connection string of PostgreSQL.
    PARAMETERS = "parameters"
    BUDGET = "budget"  # N:DIRECTORY
    # A default path below the home directory.
    HOME = "home"
    # A default path in the current directory.
    CURRENT = "current"
    # A directory, "true" or "false".
    WORK_TREE = "work tree"
    # A word such as `azure`, or a path with the name of a site instead of SITE.
    SOURCE = "source"
    # The form is key:FILE, or another word.
    KEY = "key"
    # NAME=VALUE, or a file of such settings.
    SETTING = "setting"
    # PROGRAM=LOCATION
    LOCATION = "location"
    # FORMAT:PATH
    REPORT = "report"


class ExternalFile(Struct, frozen=True):
    """A variable, default path or program, with its content and allowed writer."""

    name: str
    content: str
    writer: AllowedWriter = AllowedWriter.OPERATOR
    form: PathValueForm = PathValueForm.PATH


class ArgumentFile(Struct, frozen=True):
    """What the value of a flag or positional argument leads to, and its allowed writer.

    A sandboxed run rejects an argument that leads to a file or a program without it.
    """

    content: str
    writer: AllowedWriter = AllowedWriter.WORK_TREE
    form: PathValueForm = PathValueForm.PATH

    def list_paths(self, word: str) -> list[str]:
        """List the paths in a word of an argument: files and directories, but no programs."""
        form = self.form
        if form in (PathValueForm.COMMAND, PathValueForm.WORK_TREE) or not word:
            return []
        if form is PathValueForm.KEY:
            return [word.removeprefix("key:")] if word.startswith("key:") else []
        if form is PathValueForm.SETTING:
            return [word.partition("=")[2] or word]
        if form in (PathValueForm.REPORT, PathValueForm.LOCATION):
            path = word.partition(":" if form is PathValueForm.REPORT else "=")[2]
            return [path] if path not in ("", "-") else []
        if form is PathValueForm.SOURCE and "SITE" in word:
            # The directories of all sites.
            return [os.path.dirname(word.partition("SITE")[0]) or "."]  # noqa: PTH120
        return [word]


# A saved plan. Its evaluation enters a sandbox, whatever the flags are.
PLAN_FILE: Final = ArgumentFile("plan, evaluated in the sandbox")
_LIMITED = AllowedWriter.LIMITED
_PATHS = PathValueForm.PATHS
_HOME = PathValueForm.HOME
_PROGRAM = PathValueForm.PROGRAM
# Every variable, default path and program; arguments declare their files in their records.
# docs/security.md is generated from both.
EXTERNAL_FILES: Final = (
    ExternalFile("NF_ENCRYPTION_COMMAND", "program that prints keys", form=PathValueForm.COMMAND),
    ExternalFile("NF_CACHE_DIR", "parsed configuration"),
    ExternalFile("XDG_CACHE_HOME", "parsed configuration"),
    ExternalFile("~/.cache/nexusform", "parsed configuration", form=_HOME),
    ExternalFile("NF_AZURE_REQUESTS", "times of requests to Azure", form=PathValueForm.BUDGET),
    ExternalFile("NF_CLUSTER_CA", "certificate authority of workers"),
    ExternalFile("NF_CLUSTER_CERT", "certificate for workers"),
    ExternalFile("NF_CLUSTER_KEY", "private key for workers"),
    ExternalFile("NF_LOG_PATH", "log; a link is rejected", _LIMITED),
    ExternalFile("NF_DATA_DIR", "settings of init; ignored in the work tree", _LIMITED),
    ExternalFile("NF_FLEET_KUBECONFIG", "server and credentials of a hub", _LIMITED),
    ExternalFile("NF_KUBECONFIG_DIR", "servers and credentials of clusters", _LIMITED),
    ExternalFile("KUBECONFIG", "server and credentials of a hub", _LIMITED, _PATHS),
    ExternalFile("~/.kube/config", "server and credentials of a hub", _LIMITED, _HOME),
    ExternalFile("ARM_OIDC_TOKEN_FILE_PATH", "token for Azure Storage"),
    ExternalFile("AZURE_CLIENT_CERTIFICATE_PATH", "certificate and key for Azure"),
    ExternalFile("AZURE_FEDERATED_TOKEN_FILE", "token for Azure"),
    ExternalFile("AZURE_CONFIG_DIR", "sign-in and extensions of az"),
    ExternalFile("AZURE_EXTENSION_DIR", "extensions of az"),
    ExternalFile("AZD_CONFIG_DIR", "sign-in of azd"),
    ExternalFile("~/.azure", "sign-in and extensions of az", form=_HOME),
    ExternalFile("~/.azd", "sign-in of azd", form=_HOME),
    ExternalFile("az", "program that signs in to Azure", form=_PROGRAM),
    ExternalFile("azd", "program that signs in to Azure", form=_PROGRAM),
    ExternalFile("pwsh", "program that signs in to Azure", form=_PROGRAM),
    ExternalFile("dot", "program that draws graphs", form=_PROGRAM),
    ExternalFile("AWS_CONFIG_FILE", "settings of AWS; may name a program"),
    ExternalFile("AWS_SHARED_CREDENTIALS_FILE", "credentials of AWS; may name a program"),
    ExternalFile("AWS_WEB_IDENTITY_TOKEN_FILE", "token for AWS"),
    ExternalFile("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "token for AWS"),
    ExternalFile("AWS_CA_BUNDLE", "certificate authorities"),
    ExternalFile("AWS_DATA_PATH", "addresses of AWS", form=_PATHS),
    ExternalFile("BOTO_CONFIG", "settings of AWS"),
    ExternalFile("~/.aws", "settings and credentials of AWS; may name a program", form=_HOME),
    ExternalFile("~/.boto", "settings of AWS", form=_HOME),
    ExternalFile(
        "PG_CONN_STR", "server, and files with credentials", form=PathValueForm.PARAMETERS
    ),
    ExternalFile("PGSERVICEFILE", "servers of PostgreSQL"),
    ExternalFile("PGSYSCONFDIR", "servers of PostgreSQL"),
    ExternalFile("PGPASSFILE", "passwords of PostgreSQL"),
    ExternalFile("PGSSLCERT", "certificate for PostgreSQL"),
    ExternalFile("PGSSLKEY", "private key for PostgreSQL"),
    ExternalFile("PGSSLROOTCERT", "certificate authorities of PostgreSQL"),
    ExternalFile("PGSSLCRL", "revoked certificates of PostgreSQL"),
    ExternalFile("PGSSLCRLDIR", "revoked certificates of PostgreSQL"),
    ExternalFile("~/.pg_service.conf", "servers of PostgreSQL", form=_HOME),
    ExternalFile("~/.pgpass", "passwords of PostgreSQL", form=_HOME),
    ExternalFile("~/.postgresql", "certificates and keys for PostgreSQL", form=_HOME),
    ExternalFile("OS_CLIENT_CONFIG_FILE", "servers and credentials of OpenStack"),
    ExternalFile("OS_CACERT", "certificate authorities of OpenStack"),
    ExternalFile(
        "clouds.yaml",
        "servers and credentials of OpenStack; rejected",
        _LIMITED,
        PathValueForm.CURRENT,
    ),
    ExternalFile(
        "~/.config/openstack/clouds.yaml", "servers and credentials of OpenStack", form=_HOME
    ),
    ExternalFile("SSL_CERT_FILE", "certificate authorities"),
    ExternalFile("SSL_CERT_DIR", "certificate authorities", form=_PATHS),
    ExternalFile("REQUESTS_CA_BUNDLE", "certificate authorities"),
    ExternalFile("CURL_CA_BUNDLE", "certificate authorities"),
    ExternalFile("OPENSSL_CONF", "settings of TLS; may name a library"),
    ExternalFile("SSLKEYLOGFILE", "session keys of TLS"),
    ExternalFile("NETRC", "passwords of servers"),
    ExternalFile("~/.netrc", "passwords of servers", form=_HOME),
    ExternalFile("git", "program that downloads modules", form=_PROGRAM),
    ExternalFile("ssh", "program that downloads modules", form=_PROGRAM),
    ExternalFile("GIT_CONFIG_GLOBAL", "settings of git; may name a program"),
    ExternalFile("GIT_CONFIG_SYSTEM", "settings of git; may name a program"),
    ExternalFile("GIT_EXEC_PATH", "programs of git"),
    ExternalFile("GIT_SSH", "program that downloads modules"),
    ExternalFile("GIT_SSH_COMMAND", "program that downloads modules", form=PathValueForm.COMMAND),
    ExternalFile("GIT_ASKPASS", "program that prints passwords of git"),
    ExternalFile("SSH_ASKPASS", "program that prints passwords of git"),
    ExternalFile("GIT_SSL_CAINFO", "certificate authorities of git"),
    ExternalFile("GIT_SSL_CAPATH", "certificate authorities of git"),
    ExternalFile("GIT_SSL_CERT", "certificate for git"),
    ExternalFile("GIT_SSL_KEY", "private key for git"),
    ExternalFile("~/.gitconfig", "settings of git; may name a program", form=_HOME),
    ExternalFile("~/.config/git", "settings of git; may name a program", form=_HOME),
    ExternalFile("~/.git-credentials", "passwords of git", form=_HOME),
    ExternalFile("~/.ssh", "keys and settings of ssh", form=_HOME),
    ExternalFile("DASK_CONFIG", "settings of workers"),
    ExternalFile("DASK_ROOT_CONFIG", "settings of workers"),
    ExternalFile("~/.config/dask", "settings of workers", form=_HOME),
)
_CACHES: Final = ("NF_CACHE_DIR", "XDG_CACHE_HOME", "~/.cache/nexusform")
_FILE_PARAMETER: Final = re.compile(
    r"(?:passfile|servicefile|sslcert|sslkey|sslrootcert|sslcrl|sslcrldir)\s*=\s*'?([^\s&']+)"
)


def find_untrusted_files(
    environment: Mapping[str, str], confinement: Confinement
) -> list[tuple[ExternalFile, str]]:
    """List the files reserved for the operator, but in the work tree: pairs of entry and path.

    Without confinement the work tree is trusted, and there are none.
    """
    if not confinement.root:
        return []
    # Of the caches only the first configured one is used, and none in automation.
    unused_caches = set(_CACHES)
    if not environment.get("NF_IN_AUTOMATION"):
        *variables, default_path = _CACHES
        unused_caches.remove(
            next((name for name in variables if environment.get(name)), default_path)
        )
    untrusted_files: list[tuple[ExternalFile, str]] = []
    for entry in EXTERNAL_FILES:
        if entry.writer is not AllowedWriter.OPERATOR or entry.name in unused_caches:
            continue
        paths = list_entry_paths(entry, environment)
        untrusted_files += [(entry, path) for path in paths if is_untrusted_path(path, confinement)]
    return untrusted_files


def is_untrusted_path(path: str | Path, confinement: Confinement) -> bool:
    """Return whether a path, or the target of its links, is in the work tree of a sandboxed run."""
    return confinement.is_inside(path) or confinement.is_inside(os.path.realpath(path))


def explain_untrusted_file(name: str, path: str, content: str) -> str:
    """Explain why a sandboxed run rejects a file of the work tree.

    `content` is a remark in parentheses.
    """
    return (
        f'{name}: "{path}" is in the work tree of a sandboxed run ({content}). '
        "Use a file outside of the work tree, or -confine=false."
    )


def list_entry_paths(entry: ExternalFile, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of files named by an entry.

    They are read from the value of its variable in the form of the entry. The forms HOME and
    PROGRAM have no variable: they give an existing file at a default path, and a program in PATH.
    """
    value = environment.get(entry.name, "")
    if entry.form is PathValueForm.HOME:
        home = environment.get("HOME") or os.path.expanduser("~")  # noqa: PTH111
        path = os.path.join(home, entry.name.removeprefix("~/"))  # noqa: PTH118
        if os.path.lexists(path):
            yield path
    elif entry.form is PathValueForm.PROGRAM:
        path = shutil.which(entry.name, path=environment.get("PATH")) or ""
        # The job's own Python environment is trusted.
        if path and not Path(path).is_relative_to(sys.prefix):
            yield path
    elif entry.form is PathValueForm.CURRENT or not value:
        # The reader of a file of the current directory checks it; an unset variable names no file.
        return
    elif entry.form is PathValueForm.COMMAND:
        # Reported where the command is run.
        with suppress(ValueError):
            yield from list_command_files(shlex.split(value), environment)
    elif entry.form is PathValueForm.PARAMETERS:
        yield from _FILE_PARAMETER.findall(value)
    elif entry.form is PathValueForm.BUDGET:
        yield value.partition(":")[2]  # the directory
    elif entry.form is PathValueForm.PATHS:
        yield from value.split(os.pathsep)
    else:
        yield value


def list_command_files(words: Sequence[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the path of a command line's program, and its arguments with paths of files.

    Only paths of existing files are considered.
    """
    program = shutil.which(words[0] if words else "", path=environment.get("PATH"))
    if program is not None:
        yield program
    yield from filter(os.path.lexists, words[1:])
