"""Packages are hashed again only if a file changed since the last plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.files import file_trees, tree_hash_cache
from tests.git_repositories import run_git
from tests.workflow.module_packages.module_server import ModuleServer, commit_files

Run = Callable[..., tuple[int, str]]
MODULE = 'output "o" {\n  value = 1\n}\n'


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Return the list of trees that are hashed; files settle at once."""
    trees: list[Path] = []

    def compute(tree: Path) -> str:
        trees.append(tree)
        return file_trees.compute_tree_hash(tree)

    monkeypatch.setattr(tree_hash_cache, "compute_tree_hash", compute)
    monkeypatch.setattr(tree_hash_cache, "_SETTLED_NANOSECONDS", -(10**12))
    monkeypatch.setenv("NF_CACHE_DIR", str(tmp_path / "cache"))
    return trees


def install(server: ModuleServer, nf: Run) -> Path:
    commit_files(server.repositories / "m", {"main.nf.hcl": MODULE, "docs/a": "a"})
    Path("main.nf.hcl").write_text(
        f'module "m" {{\n  source = "{server.build_git_source("m")}"\n}}\n'
    )
    assert nf("init")[0] == 0
    return Path(".nexusform/modules/m")


def test_unchanged_package_is_hashed_once(
    server: ModuleServer, nf: Run, hashed: list[Path]
) -> None:
    install(server, nf)
    for command in ("plan", "validate", "plan"):
        assert nf(command)[0] == 0
    assert len(hashed) == 1


@pytest.mark.parametrize("change", ["content", "same size and time", "new", "removed", "link"])
def test_changed_package_is_found(
    server: ModuleServer, nf: Run, hashed: list[Path], change: str
) -> None:
    package = install(server, nf)
    assert nf("plan")[0] == 0
    file = package / "main.nf.hcl"
    status = file.stat()
    if change == "content":
        file.write_text(MODULE + MODULE.replace('"o"', '"p"'))
    elif change == "same size and time":
        file.write_text(MODULE.replace("1", "2"))
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "new":
        (package / "more.nf.hcl").write_text("")
    elif change == "removed":
        (package / "docs/a").unlink()
    else:
        (package / "docs/a").unlink()
        (package / "docs/a").symlink_to("../main.nf.hcl")
    code, text = nf("plan")
    assert code == 1
    assert "differ from" in text
    assert len(hashed) == 2


def test_hash_of_a_tree_that_changed_just_now_is_not_kept(
    server: ModuleServer, nf: Run, hashed: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_hash_cache, "_SETTLED_NANOSECONDS", 10**12)
    install(server, nf)
    assert nf("plan")[0] == 0
    assert nf("plan")[0] == 0
    assert len(hashed) == 2


def test_sandboxed_run_and_damaged_cache_hash_again(
    server: ModuleServer, nf: Run, hashed: list[Path], tmp_path: Path
) -> None:
    run_git(Path(), "init", "-q")
    install(server, nf)
    assert nf("plan")[0] == 0
    assert nf("plan", "-confine")[0] == 0
    assert len(hashed) == 2
    for entry in (tmp_path / "cache" / "trees").iterdir():
        entry.write_bytes(b"\xff nothing")
    assert nf("plan")[0] == 0
    assert len(hashed) == 3
