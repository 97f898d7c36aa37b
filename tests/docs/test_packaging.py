"""What nexusform is handed out as: hooks, man pages, the image."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from nexusform.cli.main import COMMANDS, run

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOOKS = {
    hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
}


@pytest.mark.parametrize(
    ("hook", "name", "code"),
    [
        ("nexusform-fmt", "lon/main.nf.hcl", 0),
        ("nexusform-fmt", "lon/a.nftest.hcl", 0),
        ("nexusform-validate", "lon/main.nf.hcl", 1),
    ],
)
def test_a_hook_does_its_work_on_the_files_it_asks_for(
    hook: str, name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lon").mkdir()
    Path(name).write_text('resource "nexus_site" "a" {\nnme="x"\n}\n')
    assert re.search(HOOKS[hook]["files"], name)
    assert not re.search(HOOKS[hook]["files"], "lon/main.tf")
    program, *words = HOOKS[hook]["entry"].split()
    assert program in PROJECT["scripts"]
    assert run([*words, name]) == code
    if hook == "nexusform-fmt":
        assert Path(name).read_text() == 'resource "nexus_site" "a" {\n  nme = "x"\n}\n'


def test_validate_takes_root_modules_and_files_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("lon", "ber"):
        Path(name).mkdir()
        Path(name, "main.nf.hcl").write_text(f'output "a" {{ value = local.{name} }}\n')
    assert run(["validate", "lon/main.nf.hcl", "ber", "lon"]) == 1
    told = capfd.readouterr().err
    assert told.count("on lon/main.nf.hcl line 1") == 1
    assert told.count("on ber/main.nf.hcl line 1") == 1
    assert run(["validate", "nowhere"]) == 1


def test_every_command_has_a_man_page(tmp_path: Path) -> None:
    pytest.importorskip("click_man", reason="click-man is not installed")
    script = [sys.executable, str(ROOT / "packaging" / "man_pages.py"), str(tmp_path)]
    subprocess.run(script, check=True, cwd=ROOT, capture_output=True)
    pages = {page.name for page in tmp_path.iterdir()}
    assert pages >= {f"nexusform-{command}.1" for command in COMMANDS} | {
        "nexusform.1",
        "nexusform-state-list.1",
    }
    page = (tmp_path / "nexusform-plan.1").read_text()
    assert r"\-out=FILE" in page
    assert COMMANDS["plan"].summary in page


def test_the_image_is_made_of_what_there_is() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    shown = set((ROOT / ".dockerignore").read_text(encoding="utf-8").split())
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        for name in line.split()[:-1]:
            assert (ROOT / name).exists()
            assert f"!{name}" in shown
    (extras,) = re.findall(r'"\.\[(.*)\]"', text)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
