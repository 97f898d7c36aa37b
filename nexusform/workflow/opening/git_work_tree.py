"""Repository, directory and commit of a Git work tree.

They are from the files in .git, without .git from the CI environment. The program git runs only to
compare commits, without the settings of the work tree that start programs.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from nexusform.files.regular_files import UNCONFINED, Confinement, read_regular

# The answer if there is no repository, or no commit in it.
NONE: Final = "none"
# A repository without a remote, or with one that is a local path.
LOCAL: Final = "local"
_COMMIT_VARIABLES: Final = ("GITHUB_SHA", "CI_COMMIT_SHA", "BUILD_SOURCEVERSION")
_COMMIT_PATTERN: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPOSITORY_VARIABLES: Final = ("CI_PROJECT_URL", "BUILD_REPOSITORY_URI")
_REMOTE_HEADER: Final = '[remote "origin"]'
# `user@host:path`, as ssh reads it. A host of one letter is a drive.
_SSH_ADDRESS: Final = re.compile(r"(?:[^/]*@)?([^/:@]{2,}):(.+)")
_HOST_ALIASES: Final = {"ssh.github.com": "github.com"}
# The forms of Azure DevOps as host and path: organization, project and repository.
_AZURE_FORMS: Final = (
    re.compile(r"dev\.azure\.com/([^/]+)/(?:([^/]+)/)?_git/([^/]+)"),
    re.compile(r"(?:ssh\.dev\.azure\.com|vs-ssh\.visualstudio\.com)/v3/([^/]+)/([^/]+)/([^/]+)"),
    re.compile(r"([^/.]+)\.visualstudio\.com/(?:defaultcollection/)?(?:([^/]+)/)?_git/([^/]+)"),
)
# Maximum bytes of a file in .git.
_MAX_REFERENCE_BYTES: Final = 1 << 24
_GIT_SECONDS: Final = 60


def find_commit(
    directory: str, environment: Mapping[str, str], confinement: Confinement = UNCONFINED
) -> str:
    """Return the checked-out commit from .git, else from the CI environment; "" without one."""
    commit = find_commit_or_none(directory, environment, confinement)
    return "" if commit == NONE else commit


def find_commit_or_none(
    directory: str, environment: Mapping[str, str], confinement: Confinement = UNCONFINED
) -> str:
    """Return the checked-out commit, NONE if there is no commit, "" if it cannot be read.

    The CI environment may name another one: the merge commit of a pull request, or that of the
    workflow's repository. So it counts only without .git.
    """
    top = find_top(directory)
    if top is None:
        commits = (environment.get(name, "") for name in _COMMIT_VARIABLES)
        return next((commit for commit in commits if _COMMIT_PATTERN.fullmatch(commit)), NONE)
    try:
        return _read_commit(top, confinement)
    except (OSError, UnicodeDecodeError):
        return ""


def find_repository(
    directory: str, environment: Mapping[str, str], confinement: Confinement = UNCONFINED
) -> str:
    """Return host and path of the repository, without credentials, such as `github.com/o/r`.

    Return LOCAL without a remote, NONE outside of a work tree, and "" if it cannot be read. The CI
    environment counts only without .git.
    """
    top = find_top(directory)
    if top is None:
        return _find_repository_in_environment(environment)
    try:
        _, common_git = _find_git_directories(top, confinement)
        if not (common_git / "config").exists():
            return LOCAL
        return _find_remote(_read_text(common_git / "config", confinement))
    except (OSError, UnicodeDecodeError):
        return ""


def _find_repository_in_environment(environment: Mapping[str, str]) -> str:
    """Return the repository of the CI environment; NONE without one."""
    name = environment.get("GITHUB_REPOSITORY", "")
    if name:
        server = environment.get("GITHUB_SERVER_URL") or "https://github.com"
        return _normalize_address(f"{server}/{name}")
    addresses = (environment.get(variable, "") for variable in _REPOSITORY_VARIABLES)
    address = next(filter(None, addresses), "")
    return _normalize_address(address) if address else NONE


def describe_directory(directory: str) -> str:
    """Return a directory relative to the top of its work tree; outside of one, its name."""
    path = Path(os.path.realpath(directory))
    top = find_top(directory)
    return path.name if top is None else path.relative_to(top).as_posix()


def explain_not_ancestor(ancestor: str, commit: str, directory: str) -> str:
    """Return why a commit is not known to be an ancestor of another one; "" if it is.

    A commit is its own ancestor.
    """
    import subprocess  # most runs start no program

    if not _COMMIT_PATTERN.fullmatch(ancestor) or not _COMMIT_PATTERN.fullmatch(commit):
        return "The commit of the plan or of this directory is not a commit ID."
    top = find_top(directory)
    if top is None:
        return "This directory is in no Git work tree, so the history is unknown."
    try:
        _, common_git = _find_git_directories(top, UNCONFINED)
        is_shallow = (common_git / "shallow").exists()
    except (OSError, UnicodeDecodeError) as problem:
        return f"The files of .git cannot be read: {problem}."
    if is_shallow:
        return (
            "This clone is shallow, so the ancestors of its commit are unknown. Fetch the whole "
            "history: git fetch --unshallow (in actions/checkout, fetch-depth: 0)."
        )
    # No setting of the work tree or of the machine starts a program, and no commit is fetched.
    settings = ("safe.directory=*", "core.fsmonitor=false", "core.hooksPath=/dev/null")
    command = ["git", *[word for setting in settings for word in ("-c", setting)]]
    command += ["merge-base", "--is-ancestor", ancestor, commit]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_NO_LAZY_FETCH": "1",
        "LC_ALL": "C",
    }
    try:
        result = subprocess.run(  # noqa: S603 - a fixed program with fixed settings
            command,
            cwd=top,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"The program git cannot compare the commits: {problem}."
    # 0: an ancestor, 1: none.
    if result.returncode == 0:
        return ""
    if result.returncode == 1:
        return f"Commit {ancestor[:12]} is not an ancestor of the current commit {commit[:12]}."
    reason = result.stderr.strip().partition("\n")[0] or f"exit code {result.returncode}"
    return f"The program git cannot compare the commits: {reason}."


def find_top(directory: str) -> Path | None:
    """Return the top of the work tree around a directory, with links resolved.

    Return None if the directory is in no repository.
    """
    path = Path(os.path.realpath(directory))
    for folder in (path, *path.parents):
        # Every run asks several times, and most folders have none.
        if not os.access(f"{folder}/.git", os.F_OK):
            continue
        git = folder / ".git"
        # A directory without HEAD is no repository.
        if git.is_file() or (git / "HEAD").is_file():
            return folder
    return None


def _find_git_directories(top: Path, confinement: Confinement) -> tuple[Path, Path]:
    """Return the Git directory of a work tree, and that of its branches.

    They differ for a further work tree. Raises OSError.
    """
    git = top / ".git"
    # A further work tree, or a submodule.
    if git.is_file():
        git = top / _read_line(git, confinement).removeprefix("gitdir: ")
    if (git / "commondir").exists():
        return git, git / _read_line(git / "commondir", confinement)
    return git, git


def _read_commit(top: Path, confinement: Confinement) -> str:
    """Return the commit in HEAD, NONE if its branch has none, "" for damaged files.

    Raises OSError.
    """
    git, common_git = _find_git_directories(top, confinement)
    commit = _read_line(git / "HEAD", confinement)
    if commit.startswith("ref: "):
        branch = commit.removeprefix("ref: ")
        commit = _find_branch_commit((git, common_git), branch, confinement)
        if not commit:
            return NONE
    return commit if _COMMIT_PATTERN.fullmatch(commit) else ""


def _find_branch_commit(directories: tuple[Path, Path], name: str, confinement: Confinement) -> str:
    """Return the commit of a branch (`refs/heads/NAME`): of this work tree, else of the repository.

    Return "" if the branch is not found.
    """
    for directory in directories:
        if (directory / name).is_file():
            return _read_line(directory / name, confinement)
    packed_references = directories[1] / "packed-refs"
    if not packed_references.exists():
        return ""
    for line in _read_text(packed_references, confinement).splitlines():
        commit, _, branch = line.partition(" ")
        if branch == name:
            return commit
    return ""


def _read_text(path: Path, confinement: Confinement) -> str:
    """Read a file in .git; in a sandboxed run, only below its root.

    Raises OSError.
    """
    real_path = os.path.realpath(path)
    if confinement.root and not Confinement(confinement.root).is_inside(real_path):
        raise PermissionError(f"{path} is outside of the sandbox")
    return read_regular(real_path, _MAX_REFERENCE_BYTES).decode()


def _read_line(path: Path, confinement: Confinement) -> str:
    return _read_text(path, confinement).partition("\n")[0].strip()


def _find_remote(settings: str) -> str:
    """Return the address of the remote `origin` in the text of .git/config; LOCAL without one."""
    is_remote = False
    for line in map(str.strip, settings.splitlines()):
        if line.startswith("["):
            is_remote = line == _REMOTE_HEADER
        name, _, address = line.partition("=")
        if is_remote and name.strip() == "url" and address.strip():
            return _normalize_address(address.strip())
    return LOCAL


def _normalize_address(address: str) -> str:
    """Return host and path of a repository's address: equal for https and ssh.

    Credentials are removed. A path of this machine is LOCAL.
    """
    if "://" in address:
        try:
            url = urlsplit(address)
            host = url.hostname or ""
            path = url.path
        except ValueError:
            return ""
    else:
        ssh_match = _SSH_ADDRESS.fullmatch(address)
        host, path = ssh_match.groups() if ssh_match else ("", address)
    return normalize_repository(f"{host}/{path.strip('/').removesuffix('.git')}")


def normalize_repository(repository: str) -> str:
    """Return a repository in its normal form, also one that an earlier version recorded."""
    if repository.startswith("/"):
        return LOCAL
    host, slash, path = repository.lower().partition("/")
    normal_form = f"{_HOST_ALIASES.get(host, host)}{slash}{path}"
    for pattern in _AZURE_FORMS:
        azure_match = pattern.fullmatch(normal_form)
        if azure_match is not None:
            organization, project, name = azure_match.groups()
            # A project's first repository has its name.
            return f"dev.azure.com/{organization}/{project or name}/{name}"
    return normal_form
