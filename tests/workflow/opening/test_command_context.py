from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.workflow.opening.command_context import find_cache_directory


@pytest.mark.parametrize(
    ("environment", "directory"),
    [
        ({"NF_CACHE_DIR": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"),
        ({"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/nexusform"),
        ({"XDG_CACHE_HOME": "below/the/work/tree", "HOME": "/h"}, "/h/.cache/nexusform"),
        ({"HOME": "/h"}, "/h/.cache/nexusform"),
        ({"HOME": "."}, None),
        ({}, None),
        ({"NF_CACHE_DIR": "/c", "HOME": "/h", "NF_IN_AUTOMATION": "1"}, None),
    ],
)
def test_cache_belongs_to_the_user_and_is_outside_the_work_tree(
    environment: dict[str, str], directory: str | None
) -> None:
    assert find_cache_directory(environment) == directory


def test_cache_of_the_work_tree_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NF_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("NF_IN_AUTOMATION", raising=False)
    sites = "".join(f'resource "nexus_site" "s{n}" {{}}\n' for n in range(200))
    Path("main.nf.hcl").write_text(sites)
    assert run_command_line(["validate"]) == 0
    assert (tmp_path / "cache" / "key").exists()
    assert not Path(".nexusform").exists()
