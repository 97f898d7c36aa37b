"""Work trees with committed links: nothing outside of a tree is written, renamed or deleted."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from nexusform.files.directories import LinkInWorkTree, open_directory, resolve_links
from nexusform.files.regular_files import write_file_atomically
from tests.git_repositories import run_git
from tests.programs import can_trace_calls
from tests.workflow.module_packages.module_server import (
    ModuleServer,
    build_zip,
    start_module_server,
)

ROOT: Final = Path(__file__).parents[2]
MODULE: Final = {"main.nf.hcl": 'output "o" {\n  value = 1\n}\n'}
_LINK: Final = "in the work tree is a link to"
KEPT: Final = "kept by the user\n"
_WRITES: Final = re.compile(
    r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|\b(?:rename|unlink|rmdir|mkdir|link|symlink)(?:at2?)?\("
    r"|\bf?chmod(?:at2?)?\(|\btruncate\("
)


class PlantedLink(Struct, frozen=True):
    """Link of a tree: its path, its target below the directory of the user, and a command.

    `reason` is a part of the message; "" for a link that the command replaces or ignores.
    """

    path: str
    target: str
    command: tuple[str, ...] = ("init",)
    reason: str = _LINK


LINKS: Final = (
    PlantedLink(".nexusform", ""),
    PlantedLink(".nexusform", "empty"),
    PlantedLink(".nexusform", "missing"),
    PlantedLink(".nexusform", "../user/./modules/.."),
    PlantedLink(".nexusform/modules", ""),
    PlantedLink(".nexusform/modules", "modules"),
    PlantedLink(".nexusform/modules", "missing"),
    PlantedLink(".nexusform/modules", "chain"),
    # The link itself is replaced.
    PlantedLink(".nexusform/modules/lab", "lab", reason=""),
    PlantedLink(".nexusform/modules/lab", "missing", reason=""),
    PlantedLink(".nexusform/modules/lab", "file", reason=""),
    PlantedLink(".nexusform.lock.hcl", "file", reason="Invalid block definition"),
    PlantedLink(".nexusform/environment", "file", ("workspace", "new", "w"), reason=""),
    PlantedLink("mirror", "", ("modules", "mirror", "mirror")),
    PlantedLink("mirror", "modules", ("modules", "mirror", "mirror/m")),
    PlantedLink("out", "", ("plan", "-out=out/p.nfplan")),
    PlantedLink("out", "", ("plan", "-report=json:out/file")),
    PlantedLink("out/p.nfplan", "file", ("plan", "-out=out/p.nfplan"), reason=""),
    PlantedLink("state", "", ("apply", "-auto-approve")),
    PlantedLink("state/nexusform.nfstate", "file", ("apply", "-auto-approve")),
    PlantedLink("state/nexusform.nfstate.d", "", ("workspace", "new", "w")),
    PlantedLink(
        "state/nexusform.nfstate.journal", "file", ("apply", "-auto-approve"), "not a regular file"
    ),
    PlantedLink("linked.nf.hcl", "unformatted.nf.hcl", ("fmt",)),
)


def write_user_directory(directory: Path) -> None:
    """Write a directory of the user, with names that a command would use."""
    for name in ("lab", "modules/lab", "empty", "nexusform.nfstate.d/lab"):
        (directory / name).mkdir(parents=True)
    for name in ("lab/file", "modules/lab/file", "file", "index.json"):
        (directory / name).write_text(KEPT)
    (directory / "unformatted.nf.hcl").write_text('output   "o" {\nvalue=1\n}\n')
    (directory / "chain").symlink_to("modules")


def read_directory(directory: Path) -> dict[str, str]:
    return {
        str(path.relative_to(directory)): path.read_text() if path.is_file() else ""
        for path in sorted(directory.rglob("*"))
    }


def write_tree(tree: Path, server: ModuleServer, planted: PlantedLink, user: Path) -> None:
    """Write a tree with a module, and commit it with its link."""
    tree.mkdir()
    run_git(tree, "init", "-q")
    source = server.add_file("/m.zip", build_zip(MODULE))
    text = f'module "lab" {{\n  source = "{source}"\n}}\n'
    (tree / "main.nf.hcl").write_text(text)
    is_prepared = planted.command[0] != "init"
    if is_prepared:
        assert run_program(tree, "init").returncode == 0
    link = tree / planted.path
    link.parent.mkdir(parents=True, exist_ok=True)
    target = planted.target if planted.target.startswith("..") else str(user / planted.target)
    link.symlink_to(target)
    run_git(tree, "add", "-f", planted.path)
    run_git(tree, "commit", "-q", "-m", "tree")


def run_program(
    tree: Path, *arguments: str, before: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(tree.parent), **variables}
    command = [*before, sys.executable, "-m", "nexusform", *arguments]
    return subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ModuleServer]:
    with start_module_server(tmp_path) as running:
        yield running


def join_lines(text: str) -> str:
    return " ".join(text.replace("│", " ").split())


@pytest.mark.skipif(not can_trace_calls(), reason="no strace, or it may not trace")
@pytest.mark.parametrize(
    "planted", LINKS, ids=lambda link: f"{link.command[0]} {link.path} {link.target}"
)
def test_committed_link_leads_no_write_out_of_the_tree(
    server: ModuleServer, tmp_path: Path, planted: PlantedLink
) -> None:
    user = tmp_path / "user"
    write_user_directory(user)
    before = read_directory(user)
    write_tree(tmp_path / "tree", server, planted, user)
    log = tmp_path / "calls"
    tracing = ("strace", "-f", "-qq", "-y", "-e", "trace=file,fchmod", "-o", str(log))
    result = run_program(tmp_path / "tree", *planted.command, before=tracing)
    output = join_lines(result.stdout + result.stderr)
    assert "Traceback" not in output
    assert read_directory(user) == before
    written = [
        line
        for line in log.read_text(errors="replace").splitlines()
        if _WRITES.search(line) and str(user) in line
    ]
    assert written == []
    if planted.reason:
        assert result.returncode != 0, output
        assert planted.reason in output
        if planted.reason == _LINK:
            assert f'"{planted.path}" {_LINK}' in output
            assert ("set NF_DATA_DIR" in output) is planted.path.startswith(".nexusform")
        assert (tmp_path / "tree" / planted.path).is_symlink()
    else:
        assert result.returncode == 0, output


def write_linked_tree(server: ModuleServer, tmp_path: Path) -> Path:
    """Write a tree whose data directory is an untracked link of the user."""
    tree = tmp_path / "tree"
    tree.mkdir()
    (tmp_path / "user").mkdir()
    run_git(tree, "init", "-q")
    source = server.add_file("/m.zip", build_zip(MODULE))
    (tree / "main.nf.hcl").write_text(f'module "lab" {{\n  source = "{source}"\n}}\n')
    run_git(tree, "add", "main.nf.hcl")
    run_git(tree, "commit", "-q", "-m", "tree")
    return tree


def test_untracked_link_of_the_user_is_followed(server: ModuleServer, tmp_path: Path) -> None:
    tree = write_linked_tree(server, tmp_path)
    (tree / ".nexusform").symlink_to(tmp_path / "user")
    result = run_program(tree, "init")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "user" / "modules" / "lab" / "main.nf.hcl").exists()


def test_directory_of_the_variable_is_followed(server: ModuleServer, tmp_path: Path) -> None:
    tree = write_linked_tree(server, tmp_path)
    (tree / ".nexusform").symlink_to(tmp_path / "nowhere")
    run_git(tree, "add", "-f", ".nexusform")
    (tmp_path / "link").symlink_to(tmp_path / "user")
    (tree / "own").symlink_to(tmp_path / "user")
    assert run_program(tree, "init").returncode == 1
    for directory in (str(tmp_path / "link"), "own"):
        result = run_program(tree, "init", NF_DATA_DIR=directory)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "user" / "modules" / "lab" / "main.nf.hcl").exists()


def test_data_directory_without_a_repository_has_no_link(
    server: ModuleServer, tmp_path: Path
) -> None:
    tree = write_linked_tree(server, tmp_path)
    (tree / ".git").rename(tmp_path / "git")
    (tree / ".nexusform").mkdir()
    (tree / ".nexusform/modules").symlink_to(tmp_path / "user")
    result = run_program(tree, "init")
    assert result.returncode == 1
    assert '".nexusform/modules" in the work tree is a link to' in join_lines(result.stderr)
    assert [*(tmp_path / "user").iterdir()] == []


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tree = tmp_path / "tree"
    (tree / "inside").mkdir(parents=True)
    (tmp_path / "user").mkdir()
    run_git(tree, "init", "-q")
    monkeypatch.chdir(tree)
    return tree


Commit = Callable[[str, str], None]


@pytest.fixture
def commit_link(repository: Path) -> Commit:
    def commit(path: str, target: str) -> None:
        (repository / path).symlink_to(target)
        run_git(repository, "add", path)

    return commit


@pytest.mark.parametrize("target", ["inside", "../user", "../tree/inside", ".git", "missing"])
def test_committed_link_is_never_followed(commit_link: Commit, target: str) -> None:
    commit_link("link", target)
    with pytest.raises(LinkInWorkTree, match='"link" in the work tree is a link to'):
        write_file_atomically("link/file", b"x", 0o600)
    with pytest.raises(LinkInWorkTree):
        resolve_links("link")


def test_link_of_the_user_may_not_lead_to_a_committed_one(
    repository: Path, commit_link: Commit
) -> None:
    commit_link("link", "../user")
    (repository / "own").symlink_to("link")
    with pytest.raises(LinkInWorkTree, match='"link" in the work tree'):
        write_file_atomically("own/file", b"x", 0o600)


def test_link_that_becomes_committed_is_noticed(repository: Path) -> None:
    (repository / "own").symlink_to("../user")
    write_file_atomically("own/file", b"x", 0o600)
    (repository / "own").unlink()
    (repository / "own").symlink_to("../user")
    run_git(repository, "add", "own")
    with pytest.raises(LinkInWorkTree):
        write_file_atomically("own/file", b"y", 0o600)


def test_links_in_a_circle_are_an_error(repository: Path) -> None:
    (repository / "a").symlink_to("b")
    (repository / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        open_directory("a")


def test_renamed_directory_is_still_the_one_that_was_opened(repository: Path) -> None:
    """A link put in place of an opened directory is not followed."""
    with open_directory("inside") as inside:
        (repository / "inside").rename(repository / "moved")
        (repository / "inside").symlink_to("../user")
        os.close(inside.open_file("file", os.O_WRONLY | os.O_CREAT))
    assert (repository / "moved" / "file").exists()
    assert [*(repository.parent / "user").iterdir()] == []


def test_entry_is_a_name(repository: Path) -> None:
    with open_directory(repository) as directory:
        for name in ("", ".", "..", "a/b", "/etc"):
            with pytest.raises(OSError, match="is not the name of a file"):
                directory.open_file(name, os.O_WRONLY | os.O_CREAT)
