"""Tests of sources of `import -from=`.

Domains register them, and a missing domain is a usage error.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.workflow.runs import object_import

IMPORT = ("import", "-from=export", "-generate-config-out=site.nf.hcl")


def test_directory_without_matching_domain_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("export").mkdir()
    monkeypatch.setattr(object_import, "SOURCE_IMPORTERS", {})
    assert run_command_line(list(IMPORT)) == 1
    told = capsys.readouterr().err
    assert 'no installed importer supports "export"' in " ".join(told.split())
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


@pytest.mark.parametrize(
    ("named", "asked"), [("hub", "hub"), ("export", "DIR"), ("nowhere", "DIR")]
)
def test_source_is_a_registered_name_or_a_directory(
    named: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(object_import, "SOURCE_IMPORTERS", {"hub": "hub", "DIR": "DIR"})
    assert object_import.find_source_importer(named) == asked
    # A directory with the name of a source takes precedence.
    Path(named).mkdir()
    assert object_import.find_source_importer(named) == "DIR"
