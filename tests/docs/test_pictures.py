"""Tests of the pictures in README and docs: the script draws them, and they show current output."""

from __future__ import annotations

import json
import os
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from tests.docs.documented_domains import of_documented_domains
from tests.kill_points import long_case

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
OLD = "the pictures are old: python packaging/pictures.py"


def _load_module() -> Any:
    spec = spec_from_file_location("pictures", ROOT / "packaging" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plan_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the plan of the pictures in all its formats."""
    directory = tmp_path_factory.mktemp("plan")
    _load_module().report(directory)
    return directory


@of_documented_domains
def test_pictures_show_current_output(plan_directory: Path) -> None:
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        _load_module().draw(plan_directory, PICTURES)
    assert _load_module().texts(plan_directory) == json.loads(
        (PICTURES / "texts.json").read_text(encoding="utf-8")
    ), OLD


def test_alert_with_a_list_is_an_alert() -> None:
    page = _load_module().as_github_shows("> [!CAUTION]\n> - a\n")
    assert '<blockquote class="alert CAUTION"><p class="title">CAUTION</p>\n<ul>' in page
    page = _load_module().as_github_shows("> [!NOTE]\n> a\n")
    assert '<p class="title">NOTE</p><p>a</p>' in page


def test_every_picture_is_small_and_used() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    used = {
        name
        for page in pages
        for name in re.findall(r"!\[.+]\(.*pictures/(.+)\)", page.read_text())
    }
    assert used == {picture.name for picture in PICTURES.iterdir()} - {"texts.json"}
    assert sum(picture.stat().st_size for picture in PICTURES.iterdir()) < 300_000


@of_documented_domains
@pytest.mark.skipif(
    _load_module().CHROMIUM is None, reason="Chromium is not installed (apt-get install chromium)"
)
@long_case
def test_script_draws_the_pictures(plan_directory: Path, tmp_path: Path) -> None:
    _load_module().draw(plan_directory, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in PICTURES.iterdir()}
    assert "cluster-a-pool1-5" in (tmp_path / "plan.svg").read_text(encoding="utf-8")
    for name in ("comment.webp", "page.webp"):
        assert (tmp_path / name).read_bytes()[8:12] == b"WEBP"
        assert (tmp_path / name).stat().st_size > 20_000
