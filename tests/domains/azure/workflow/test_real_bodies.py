"""Bodies of real servers: every one is taken over without a change, and what failed there is named.

NEXUSFORM_AZURE_BODIES names a folder with more of them: `sites/NNN` and `clusters/NNN`.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

OWN = Path(__file__).parents[1] / "importers" / "cases" / "azure"
MORE = os.environ.get("NEXUSFORM_AZURE_BODIES", "")
CASES = sorted(path for path in (Path(MORE).glob("*/*") if MORE else OWN.iterdir()) if path.is_dir())
KINDS = ("kubernetes_clusters", "virtual_machines", "bare_metal_machines", "agent_pools")


def failed(folder: Path) -> list[str]:
    """The names of what the bodies have as Failed, or in Error."""
    names = []
    for kind in KINDS:
        path = folder / f"{kind}.json"
        read: Any = json.loads(path.read_text()) if path.exists() else []
        bodies = read["value"] if isinstance(read, dict) else read
        names += [body["name"] for body in bodies if _has_failed(body)]
    return names


def _has_failed(body: dict[str, Any]) -> bool:
    properties = body.get("properties") or body
    return properties.get("provisioningState") == "Failed" or properties.get("detailedStatus") == "Error"


@pytest.mark.parametrize("folder", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_bodies_of_real_servers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = failed(folder)
    code = run_command_line(["inventory", "check", str(folder)])
    assert code == 2 if names else code in (0, 2)
    checked = capsys.readouterr().out
    _tells(checked, names)
    assert run_command_line(["import", f"-from={folder}", "-generate-config-out=site.nf.hcl"]) == 0
    _tells(capsys.readouterr().out, names)
    assert run_command_line(["plan", "-detailed-exitcode", "-details"]) == 0
    planned = capsys.readouterr().out
    assert "No changes." in planned
    _tells(planned, names)


def _tells(text: str, names: list[str]) -> None:
    """Whether what failed is told, and the first of it by name."""
    said = " ".join(text.replace("│", " ").split())
    assert ("reported by Azure" in said) == bool(names)
    assert not names or any(name in said for name in names)
