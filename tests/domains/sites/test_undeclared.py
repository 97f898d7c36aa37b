"""Tests of undeclared sites.

Every command reports their existing objects, and only an explicit request destroys them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.sites.types.fleet_plan import UndeclaredSite
from nexusform.domains.sites.workflow import undeclared_states
from tests.domains.sites.conftest import DEFINITION

Command = Callable[..., tuple[int, str, str]]
Fleet = Callable[..., None]
Golden = Callable[[str, str], None]
THREE: dict[str, Any] = {"par1": {}, "par2": {}}


def apply_fleet(command: Command) -> None:
    assert command("plan", "-out=f.nfsites")[0] == 0
    assert command("apply", "f.nfsites")[0] == 0


def test_every_command_reports_undeclared_sites(
    fleet: Fleet, command: Command, golden: Golden
) -> None:
    fleet(THREE)
    apply_fleet(command)
    standing = Path("states/par2.nfstate").read_bytes()
    fleet({"par1": {"workers": 3}})
    code, plan, _ = command(
        "plan", "-out=g.nfsites", "-report=sarif:g.sarif", "-report=html:g.html"
    )
    assert code == 0
    code, apply, _ = command("apply", "g.nfsites")
    assert code == 0
    code, status, _ = command("status", "-report=markdown:status.md", "-report=html:status.html")
    assert code == 0
    for path in ("status.md", "status.html"):
        assert "par2" in Path(path).read_text()
    golden(
        "undeclared.txt",
        "\n".join(part.partition("Saved the")[0] for part in (plan, apply, status)),
    )
    assert Path("states/par2.nfstate").read_bytes() == standing
    for words in (["plan", "-json"], ["status", "-json"]):
        (gone,) = json.loads(command(*words)[1])["undeclared"]
        assert (gone["name"], gone["objects"], gone["placed"]) == ("par2", 4, {"vm": 3})
    results = json.loads(Path("g.sarif").read_text())["runs"][0]["results"]
    assert [each["level"] for each in results if each["ruleId"] == "site-no-longer-declared"] == [
        "warning"
    ]
    assert "par2: its state states/par2.nfstate exists" in Path("g.html").read_text()


def test_site_selection_excludes_undeclared_sites(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    apply_fleet(command)
    fleet({"par1": {}})
    assert "no longer declared" not in command("plan", "-site=lon*")[1]
    code, _, err = command("plan", "-site=par2")
    assert code == 1
    assert "Existing states: par2's state states/par2.nfstate." in " ".join(
        err.replace("│", "").split()
    )


def test_undeclared_site_is_destroyed_with_destroy_argument(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    apply_fleet(command)
    text = DEFINITION.replace(
        "  name     = each.key", '  name     = each.key\n  destroy = each.key == "par2"'
    )
    fleet(THREE, text)
    code, out, _ = command("plan", "-out=d.nfsites")
    assert (code, "3 VMs are removed on 1 site" in " ".join(out.split())) == (0, True)
    assert command("apply", "d.nfsites")[0] == 0
    fleet({"par1": {}})
    assert "no longer declared" not in command("status")[1]


@pytest.mark.parametrize("state", ["", "{", '{"encryption": {}}'])
def test_unreadable_state_is_a_row_with_reason(fleet: Fleet, command: Command, state: str) -> None:
    fleet({"par1": {}})
    Path("states").mkdir()
    Path("states/old.nfstate").write_text(state)
    code, out, _ = command("plan")
    assert code == 0
    assert "old: its state states/old.nfstate may exist." in " ".join(out.split())


def test_undeclared_remote_state_is_found_in_records(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(
        THREE,
        DEFINITION.replace(
            'path = "states/${site.name}.nfstate"', 'path = "${site.name}/own.nfstate"'
        ),
    )
    apply_fleet(command)
    monkeypatch.setattr(undeclared_states, "_find_state_files", lambda _template, _fleet: ())
    # The definition names another location for all sites.
    fleet({"par1": {}})
    (gone,) = json.loads(command("plan", "-json")[1])["undeclared"]
    assert (gone["name"], gone["state"], gone["placed"]) == ("par2", "par2/own.nfstate", {"vm": 3})


def test_unreachable_state_is_unknown_instead_of_deleted() -> None:
    seen = undeclared_states._KnownState("s3", "s3://bucket/par9.nfstate")
    site = undeclared_states._read_undeclared_site("par9", seen, (), None)  # type: ignore[arg-type] # nothing is opened
    assert isinstance(site, UndeclaredSite)
    assert site.objects is None
    assert "was not read" in site.reason


def test_renamed_site_with_same_state_is_not_undeclared(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    apply_fleet(command)
    text = DEFINITION.replace(
        'site "lon1" {',
        'site "lon2" {\n  backend "local" {\n    path = "states/lon1.nfstate"\n  }\n',
    )
    fleet(THREE, text)
    assert "no longer declared" not in command("plan")[1]


@pytest.mark.parametrize("content", ["", "{", '{"par2": 1}'])
def test_unreadable_list_of_states_is_an_error(
    fleet: Fleet, command: Command, content: str
) -> None:
    """Else a deleted row with a remote state would not be noticed."""
    fleet(THREE)
    apply_fleet(command)
    fleet({"par1": {"workers": 3}, "par2": {}})
    assert command("plan", "-out=g.nfsites")[0] == 0
    known_states = Path(".nexusform/sites/.seen.json")
    known_states.write_text(content)
    before = Path("states/par1.nfstate").read_bytes()
    for words in (["plan"], ["status"], ["apply", "g.nfsites"]):
        code, _, err = command(*words)
        assert code == 1
        assert "the list of known states, cannot be read: it is damaged" in " ".join(err.split())
    assert known_states.read_text() == content
    assert Path("states/par1.nfstate").read_bytes() == before
    known_states.unlink()
    assert command("apply", "g.nfsites")[0] == 0


def test_warning_if_states_cannot_be_recorded(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    Path(".nexusform").mkdir()
    # A directory cannot be created there, also by root.
    Path(".nexusform/sites").write_text("")
    apply_fleet(command)
    code, out, _ = command("status")
    assert code == 0
    assert "Known states not recorded" in out
