"""Import every body of real servers without a change, and name the failed objects.

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
CASES = sorted(
    path for path in (Path(MORE).glob("*/*") if MORE else OWN.iterdir()) if path.is_dir()
)
KINDS = ("kubernetes_clusters", "virtual_machines", "bare_metal_machines", "agent_pools")


def list_failed_objects(folder: Path) -> list[str]:
    """Return the names of the objects with provisioning state Failed or detailed status Error."""
    names = []
    for kind in KINDS:
        path = folder / f"{kind}.json"
        read: Any = json.loads(path.read_text()) if path.exists() else []
        bodies = read["value"] if isinstance(read, dict) else read
        names += [body["name"] for body in bodies if _has_failed(body)]
    return names


def _has_failed(body: dict[str, Any]) -> bool:
    properties = body.get("properties") or body
    return (
        properties.get("provisioningState") == "Failed"
        or properties.get("detailedStatus") == "Error"
    )


@pytest.mark.parametrize("folder", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_bodies_of_real_servers_are_imported(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names = list_failed_objects(folder)
    code = run_command_line(["inventory", "check", str(folder)])
    assert code == 2 if names else code in (0, 2)
    checked = capsys.readouterr().out
    _check_failure_report(checked, names)
    assert run_command_line(["import", f"-from={folder}", "-generate-config-out=site.nf.hcl"]) == 0
    _check_failure_report(capsys.readouterr().out, names)
    assert run_command_line(["plan", "-detailed-exitcode", "-details"]) == 0
    planned = capsys.readouterr().out
    assert "No changes." in planned
    _check_failure_report(planned, names)


def _check_failure_report(text: str, names: list[str]) -> None:
    """Check that failed objects are reported, at least one of them by name."""
    said = " ".join(text.replace("│", " ").split())
    assert ("reported by Azure" in said) == bool(names)
    assert not names or any(name in said for name in names)
