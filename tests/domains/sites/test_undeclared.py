"""A site that is taken out of the file is said to stand, by every command, and taken down only when asked."""

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


def applied(command: Command) -> None:
    assert command("plan", "-out=f.nfsites")[0] == 0
    assert command("apply", "f.nfsites")[0] == 0


def test_every_command_says_what_stands(fleet: Fleet, command: Command, golden: Golden) -> None:
    fleet(THREE)
    applied(command)
    standing = Path("states/par2.nfstate").read_bytes()
    fleet({"par1": {"workers": 3}})
    code, plan, _ = command("plan", "-out=g.nfsites", "-report=sarif:g.sarif", "-report=html:g.html")
    assert code == 0
    code, apply, _ = command("apply", "g.nfsites")
    assert code == 0
    code, status, _ = command("status")
    assert code == 0
    golden("undeclared.txt", "\n".join(part.partition("Saved the")[0] for part in (plan, apply, status)))
    assert Path("states/par2.nfstate").read_bytes() == standing
    for words in (["plan", "-json"], ["status", "-json"]):
        (gone,) = json.loads(command(*words)[1])["undeclared"]
        assert (gone["name"], gone["objects"], gone["placed"]) == ("par2", 4, {"vm": 3})
    results = json.loads(Path("g.sarif").read_text())["runs"][0]["results"]
    assert [each["level"] for each in results if each["ruleId"] == "site-no-longer-declared"] == ["warning"]
    assert "par2: its state states/par2.nfstate exists" in Path("g.html").read_text()


def test_a_selection_of_sites_asks_for_those_alone(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    applied(command)
    fleet({"par1": {}})
    assert "no longer declared" not in command("plan", "-site=lon*")[1]
    code, _, err = command("plan", "-site=par2")
    assert code == 1
    assert "Existing states: par2's state states/par2.nfstate." in " ".join(err.replace("│", "").split())


def test_it_is_taken_down_when_it_is_declared_with_destroy(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    applied(command)
    text = DEFINITION.replace("  name     = each.key", '  name     = each.key\n  destroy = each.key == "par2"')
    fleet(THREE, text)
    code, out, _ = command("plan", "-out=d.nfsites")
    assert (code, "3 VMs are removed on 1 site" in " ".join(out.split())) == (0, True)
    assert command("apply", "d.nfsites")[0] == 0
    fleet({"par1": {}})
    assert "no longer declared" not in command("status")[1]


@pytest.mark.parametrize("state", ["", "{", '{"encryption": {}}'])
def test_a_state_that_cannot_be_read_is_a_row_with_its_reason(fleet: Fleet, command: Command, state: str) -> None:
    fleet({"par1": {}})
    Path("states").mkdir()
    Path("states/old.nfstate").write_text(state)
    code, out, _ = command("plan")
    assert code == 0
    assert "old: its state states/old.nfstate may exist." in " ".join(out.split())


def test_a_state_elsewhere_is_known_from_what_was_seen(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet(THREE, DEFINITION.replace('path = "states/${site.name}.nfstate"', 'path = "${site.name}/own.nfstate"'))
    applied(command)
    monkeypatch.setattr(undeclared_states, "_find_state_files", lambda _template, _fleet: ())
    fleet({"par1": {}})  # the definition that names another place for all
    (gone,) = json.loads(command("plan", "-json")[1])["undeclared"]
    assert (gone["name"], gone["state"], gone["placed"]) == ("par2", "par2/own.nfstate", {"vm": 3})


def test_where_nothing_leads_to_a_state_it_is_not_taken_for_gone() -> None:
    seen = undeclared_states._KnownState("s3", "s3://bucket/par9.nfstate")
    site = undeclared_states._read_undeclared_site("par9", seen, (), None)  # type: ignore[arg-type] # nothing is opened
    assert isinstance(site, UndeclaredSite)
    assert site.objects is None
    assert "was not read" in site.reason


def test_a_renamed_site_that_keeps_its_state_is_no_other_one(fleet: Fleet, command: Command) -> None:
    fleet(THREE)
    applied(command)
    text = DEFINITION.replace(
        'site "lon1" {', 'site "lon2" {\n  backend "local" {\n    path = "states/lon1.nfstate"\n  }\n'
    )
    fleet(THREE, text)
    assert "no longer declared" not in command("plan")[1]
