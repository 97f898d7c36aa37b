"""Packages from git repositories, by the installed program `git`.

Nothing of a repository is run: it is fetched into an empty bare repository and its files are read
as objects. So there is no checkout, no hook, no filter, no attribute and no submodule.
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, Self
from urllib.parse import urlsplit

from msgspec import Struct

from nexusform.configuration.remote_modules.module_sources import ModuleSource
from nexusform.files.file_trees import TreeEntry, TreeLimits
from nexusform.files.program_environment import build_program_environment
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.network.deadlines import read_deadline
from nexusform.workflow.module_packages.package_download import DownloadError

# Bytes of the objects of a fetch, and of a list of refs.
MAX_FETCH_BYTES: Final = 1 << 30
_MAX_LIST_BYTES: Final = 1 << 26
_CHECK_SECONDS: Final = 0.1
# Settings of git that the operator may give by environment; all others come from files.
_KEPT_VARIABLES: Final = re.compile(
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|ASKPASS|EXEC_PATH|SSL_\w+|HTTP_\w+|PROXY_SSL_\w+"
    r"|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
# Keys and agents of ssh, and what credential helpers need to find their stores.
_GIT_VARIABLES: Final = (
    *("SSH_*", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "GCM_*"),
    *("GNUPGHOME", "KRB5*", "GH_CONFIG_DIR", "GLAB_CONFIG_DIR"),
)
# Overrides every file of settings.
_SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.alternateRefsCommand": "",
    "protocol.ext.allow": "never",
    "protocol.file.allow": "never",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
}
_ALL_REFS: Final = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_SHORT_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")
# They follow every failure of ssh, whose own message is before them.
_ADVICE_OF_GIT: Final = ("Please make sure you have the correct", "and the repository exists.")
_LINE_WITH_SECRET: Final = re.compile(r"(?<=://)[^/\s@'\"]+(?=@)")


class GitLimitError(DownloadError):
    """Repository that takes too long or is too large: another attempt would, too."""


class GitSelection(Struct, frozen=True):
    """Commit of a repository, and the name it was found by ("" for a bare commit id)."""

    commit: str
    ref_name: str = ""


class GitRepository:
    """Temporary bare repository for one source."""

    def __init__(
        self, source: ModuleSource, environment: Mapping[str, str], *, confined: bool
    ) -> None:
        """Prepare for a source; `confined` also rejects redirects to other addresses."""
        self._source = source
        self._environment = dict(environment)
        self._is_confined = confined
        self._folder = tempfile.TemporaryDirectory(prefix="nexusform-git-")
        self._directory = Path(self._folder.name)
        # "" until `init`.
        self._program = ""
        # Names of submodules left out of the tree.
        self.submodules: list[str] = []

    def __enter__(self) -> Self:
        program = shutil.which("git", path=self._environment.get("PATH"))
        if program is None or not os.path.isabs(program):  # noqa: PTH117
            self._folder.cleanup()
            raise DownloadError("the program git is not installed. Install it")
        self._program = program
        try:
            self._run(["init", "--quiet", "--bare", "--template="])
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def select_commit(self) -> GitSelection:
        """Return the commit of the source's ref.

        Raises DownloadError.
        """
        refs = self._list_remote_refs()
        ref = self._source.ref
        names = (
            [f"refs/tags/{ref}", f"refs/heads/{ref}", ref if ref.startswith("refs/") else ""]
            if ref
            else ["HEAD"]
        )
        for name in filter(None, names):
            # The commit of an annotated tag has the suffix.
            commit = refs.get(f"{name}^{{}}") or refs.get(name)
            if commit:
                return GitSelection(commit, name)
        if self._source.is_commit:
            return GitSelection(ref)
        if not ref:
            raise DownloadError("the repository has no default branch. Add ?ref=BRANCH")
        if _SHORT_COMMIT.fullmatch(ref):
            self._fetch(_ALL_REFS, depth=0)
            commit = self._find_commit(ref)
            if commit:
                return GitSelection(commit)
        known = sorted(
            name.removeprefix("refs/tags/").removeprefix("refs/heads/")
            for name in refs
            if name.startswith(("refs/tags/", "refs/heads/")) and not name.endswith("^{}")
        )
        hint = f" It has {', '.join(known[-5:])}." if known else ""
        raise DownloadError(f'the repository has no branch, tag or commit "{ref}".{hint}')

    def fetch(self, selection: GitSelection) -> None:
        """Fetch a commit: alone if the server allows it, else with its branch or all branches.

        Raises DownloadError.
        """
        commit = selection.commit
        # A server may reject ids, and a static one has no shallow history.
        name = selection.ref_name or commit
        attempts: list[tuple[Sequence[str], int]] = [
            ([f"+{name}:refs/nexusform/commit"], 1),
            ([f"+{name}:refs/nexusform/commit"], 0),
            (_ALL_REFS, 0),
        ]
        failure: DownloadError | None = None
        for refspecs, depth in attempts:
            try:
                self._fetch(refspecs, depth)
                failure = None
            except GitLimitError:
                raise
            except DownloadError as problem:
                failure = problem
            if self._find_commit(commit):
                return
        if failure is not None:
            raise failure
        raise DownloadError(
            f"the repository has no commit {commit} any more. If its history was rewritten, "
            "select another one with `nexusform init -upgrade`"
        )

    def read_files(self, commit: str) -> Iterator[TreeEntry]:
        """Yield the files of a commit.

        Raises DownloadError, UnsafeTree.
        """
        listing = self._run(["ls-tree", "-r", "-z", "--full-tree", "-l", commit])
        limits = TreeLimits()
        objects: list[tuple[str, str, str, int]] = []
        for line in filter(None, listing.split(b"\0")):
            head, _, name = line.partition(b"\t")
            mode, kind, object_id, size = head.decode().split()
            path = name.decode(errors="surrogateescape")
            if kind == "commit":
                self.submodules.append(path if path.isprintable() else ascii(path))
                continue
            limits.count(int(size))
            objects.append((mode, object_id, path, int(size)))
        yield from self._read_objects(objects)

    def _read_objects(self, objects: Sequence[tuple[str, str, str, int]]) -> Iterator[TreeEntry]:
        with subprocess.Popen(  # noqa: S603 - the operator's git, without a shell
            [*self._build_command(), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._build_environment(),
            cwd=self._directory,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                for mode, object_id, path, size in objects:
                    process.stdin.write(f"{object_id}\n".encode())
                    process.stdin.flush()
                    content = _read_object(process.stdout, object_id, size)
                    # 120000: a link.
                    if mode == "120000":
                        yield TreeEntry(path, link=content.decode(errors="surrogateescape"))
                    else:
                        yield TreeEntry(path, content)
            except OSError as problem:
                raise DownloadError(f"git ended: {problem.strerror}") from None
            finally:
                process.kill()

    def _find_commit(self, text: str) -> str:
        """Return the full id of a fetched commit; "" without one."""
        try:
            commit = f"{text}^{{commit}}"
            output = self._run(["rev-parse", "--verify", "--quiet", "--end-of-options", commit])
        except DownloadError:
            return ""
        return output.decode().strip()

    def _list_remote_refs(self) -> dict[str, str]:
        output = self._run(["ls-remote", "--", self._source.address])
        refs: dict[str, str] = {}
        for line in output.decode(errors="replace").splitlines():
            commit, _, name = line.partition("\t")
            if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):
                refs[name] = commit
        return refs

    def _fetch(self, refspecs: Sequence[str], depth: int) -> None:
        words = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
        ]
        if depth:
            words.append(f"--depth={depth}")
        self._run([*words, "--", self._source.address, *refspecs])

    def _build_command(self) -> list[str]:
        settings = dict(_SETTINGS)
        if self._is_confined:
            settings["http.followRedirects"] = "false"
        options = [word for pair in settings.items() for word in ("-c", "=".join(pair))]
        return [self._program, *options]

    def _build_environment(self) -> dict[str, str]:
        """Build the environment of git by an allow-list, without the repository of the caller.

        Also a run of nexusform in a hook of git uses the temporary repository only.
        """
        settings = {
            name: value
            for name, value in self._environment.items()
            if _KEPT_VARIABLES.fullmatch(name)
        }
        environment = {
            **build_program_environment(_GIT_VARIABLES, self._environment, signs_in=True),
            **settings,
        }
        is_plain = urlsplit(self._source.address).scheme == "http"
        return {
            **environment,
            "GIT_DIR": str(self._directory),
            "GIT_CEILING_DIRECTORIES": str(self._directory.parent),
            "GIT_ALLOW_PROTOCOL": "https:ssh:http" if is_plain else "https:ssh",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GCM_INTERACTIVE": "never",
            "SSH_ASKPASS_REQUIRE": "never",
            "LC_ALL": "C",
        }

    def _run(self, words: Sequence[str]) -> bytes:
        """Run git and return its output.

        It has no terminal, so that nothing prompts. Raises DownloadError if it fails, takes too
        long, or writes too much.
        """
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(  # noqa: S603 - the operator's git, without a shell
                    [*self._build_command(), *words],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    env=self._build_environment(),
                    cwd=self._directory,
                    start_new_session=True,
                )
            except OSError as problem:
                raise DownloadError(f"git cannot be started: {problem.strerror}") from None
            try:
                self._wait(process, output, errors)
            finally:
                _end_process_group(process)
            size = output.seek(0, os.SEEK_END)
            if process.returncode == 0:
                if size > _MAX_LIST_BYTES:
                    raise GitLimitError(
                        f"git lists {size:,} bytes of its refs or files, more than "
                        f"{_MAX_LIST_BYTES:,}"
                    )
                output.seek(0)
                return output.read()
            errors.seek(0)
            raise DownloadError(_describe_git_error(errors.read(1 << 16)))

    def _wait(self, process: subprocess.Popen[bytes], *files: IO[bytes]) -> None:
        """Wait for git, which writes to files.

        Raises DownloadError over a limit of time or size.
        """
        seconds = _read_seconds()
        ends_at = time.monotonic() + seconds
        pause = 0.005
        while True:
            try:
                process.wait(pause)
            except subprocess.TimeoutExpired:
                pause = min(2 * pause, _CHECK_SECONDS)
            else:
                return
            if time.monotonic() >= ends_at:
                raise GitLimitError(
                    f"no result within {seconds:.0f} s. Check the server, or set "
                    "NF_NET_DEADLINE=SECONDS to wait longer"
                )
            size = sum(os.fstat(file.fileno()).st_size for file in files)
            size += _measure_directory(self._directory)
            if size > MAX_FETCH_BYTES:
                raise GitLimitError(f"it has more than {MAX_FETCH_BYTES >> 20} MiB")


def _read_seconds() -> float:
    try:
        return read_deadline()
    except BackendProblem as problem:
        raise DownloadError(str(problem).rstrip(".")) from None


def _measure_directory(directory: Path) -> int:
    """Return the bytes of the files below a directory; files may vanish meanwhile."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118
    return total


def _end_process_group(process: subprocess.Popen[bytes]) -> None:
    """Kill git and the programs that it started, such as ssh."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(OSError):
        process.kill()
    process.wait()


def _read_object(output: IO[bytes], object_id: str, size: int) -> bytes:
    """Read one answer of `git cat-file --batch`."""
    head = output.readline(200).decode(errors="replace").split()
    if head != [object_id, "blob", str(size)]:
        raise DownloadError(f"the repository lacks the object {object_id}")
    content = output.read(size + 1)
    if len(content) != size + 1:
        raise DownloadError(f"the object {object_id} is cut off")
    return content[:-1]


def _describe_git_error(text: bytes) -> str:
    """Return the last lines of git's message, printable and without credentials."""
    lines = text.decode(errors="replace").splitlines()
    messages = [
        line.removeprefix("fatal: ").removeprefix("error: ").strip()
        for line in lines
        if line.strip() and not line.startswith(_ADVICE_OF_GIT)
    ]
    shown_text = "; ".join(messages[-3:])
    printable_text = "".join(letter if letter.isprintable() else "?" for letter in shown_text)
    safe_text = _LINE_WITH_SECRET.sub("...", printable_text)
    return f"git reports: {safe_text[:400] or 'no message'}".rstrip(".")
