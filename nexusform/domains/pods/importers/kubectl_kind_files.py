"""Files with one kind of a cluster each, as written by the script of `inventory script`."""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.pods.importers.object_needs import NAMED_KINDS
from nexusform.interfaces.plugins import FileProblem, ReadContext
from nexusform.kubernetes.dump_script import (
    CLUSTER_KINDS,
    FORBIDDEN,
    NO_SUCH_KIND,
    build_dump_script,
)

_SUFFIX: Final = ".error"


class KubectlKindFiles(Struct, frozen=True):
    """Files of a directory with their contents, the missing kinds, and the problems found."""

    contents: tuple[tuple[str, bytes], ...]
    unread_kinds: tuple[str, ...]
    problems: tuple[Problem, ...]


def read_kind_files(directory: str, context: ReadContext) -> KubectlKindFiles:
    """Read the file of each kind.

    A kind without a readable file is unread, unless it is unknown to the server.
    """
    contents: list[tuple[str, bytes]] = []
    unread_kinds: list[str] = []
    # A kind unknown to the server, such as one of a CRD that is not installed, is no problem.
    # The right to list kinds that only some pods name is optional: these pods are unknown then.
    optional_names = {f"{CLUSTER_KINDS[kind]}{_SUFFIX}" for kind in NAMED_KINDS}
    problems = list(
        list_dump_errors(
            directory, context, ignored_message=NO_SUCH_KIND, optional_names=optional_names
        )
    )
    for kind, name in CLUSTER_KINDS.items():
        path = f"{directory.rstrip('/')}/{name}.json"
        if context.files.is_file(path):
            try:
                contents.append((path, context.files.read(path)))
                continue
            except FileProblem as problem:
                problems.append(Problem(("directory",), "unreadable-file", str(problem)))
        if NO_SUCH_KIND not in _read_kubectl_error(
            f"{directory.rstrip('/')}/{name}{_SUFFIX}", context
        ):
            unread_kinds.append(kind)
    return KubectlKindFiles(tuple(contents), tuple(unread_kinds), tuple(problems))


def list_dump_errors(
    directory: str | None,
    context: ReadContext,
    *,
    ignored_message: str | None = None,
    optional_names: Collection[str] = (),
) -> Iterator[Problem]:
    """Yield a warning with kubectl's message for each kind not listed.

    Messages with `ignored_message` are left out, and missing rights for files of `optional_names`.
    """
    if directory is None:
        # Files are named instead.
        return
    base = directory.rstrip("/")
    for file in context.files.find_files(base, f"*{_SUFFIX}"):
        message = _read_kubectl_error(f"{base}/{file}", context)
        if ignored_message and ignored_message in message:
            continue
        if file in optional_names and FORBIDDEN in message:
            continue
        detail = f"kubectl could not list {file.removesuffix(_SUFFIX)}: {message or 'no message'}"
        yield Problem(("directory",), "kind-not-listed", detail, Severity.WARNING)


def _read_kubectl_error(path: str, context: ReadContext) -> str:
    """Return the first line of a file with kubectl's errors.

    The result is "" if it is missing, unreadable or empty.
    """
    try:
        text = context.files.read(path).decode("utf-8", "replace").strip()
    except FileProblem:
        return ""
    return next(iter(text.splitlines()), "")


def build_export_script(directory: str) -> str:
    """Return the script that lists the objects of a cluster with kubectl, one file per kind."""
    optional_names = {CLUSTER_KINDS[kind] for kind in NAMED_KINDS}
    return build_dump_script(directory, CLUSTER_KINDS.values(), optional_names)
