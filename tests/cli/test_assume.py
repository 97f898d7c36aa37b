"""Tests of hypothetical plans: `plan -assume`."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from nexusform.cli.main import run_command_line
from nexusform.cli.report_flag import FORMATS

SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 3
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 3
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "workers" {
    count       = 4
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
LOSS = "-assume=lost:rack/lab/rack1"
WORKERS = "nexus_kubernetes_cluster.web:agent_pool.workers"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run a command in the directory of an applied site; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    Path("main.nf.hcl").write_text(SITE)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = run_command_line(list(arguments))
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    code, _, text = run_command("apply", "-auto-approve")
    assert code == 0, text
    yield run_command
    # Nothing was written, and nothing of the assumption remains.
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    assert [path.name for path in tmp_path.iterdir() if "nfplan" in path.name] == []


def find_beginning(name: str, text: str) -> str:
    """Return the first text of a report that a reader or program meets."""
    match name:
        case "json":
            document = json.loads(text)
            assert (document["hypothetical"], document["applyable"]) == (True, False)
            assert document["assumptions"] == ["lost:rack/lab/rack1"]
            return "Hypothetical plan"
        case "html":
            return re.findall(r"<h1>([^<]+)", text)[0]
        case "svg":
            return re.findall(r"<desc[^>]*>([^<]+)", text)[0]
        case "junit":
            return ET.fromstring(text).attrib["name"]
        case "sarif":
            return str(json.loads(text)["runs"][0]["automationDetails"]["description"]["text"])
        case "github-review":
            return str(json.loads(text)["body"]).removeprefix("### ")
        case "csv":
            header, first, *_ = csv.reader(text.splitlines())
            assert first[0] == "lost:rack/lab/rack1"
            return header[0].replace("_", " ").capitalize()
    return text.lstrip().removeprefix("### ")


@pytest.mark.parametrize("name", FORMATS)
def test_every_report_begins_with_hypothetical_plan(nf: Command, name: str) -> None:
    Path("changes.diff").write_text("")
    code, text, _ = nf("plan", LOSS, f"-report={name}:-", "-diff=changes.diff")
    assert code == 0
    assert find_beginning(name, text).startswith("Hypothetical plan")


@pytest.mark.parametrize("flags", [(), ("-details",), ("-compat=terraform",)])
def test_terminal_begins_with_hypothetical_plan_and_suggests_no_apply(
    nf: Command, flags: tuple[str, ...]
) -> None:
    code, text, _ = nf("plan", LOSS, *flags)
    assert code == 0
    assert text.lstrip().startswith("Hypothetical plan: it assumes lost:rack/lab/rack1.")
    assert "-out" not in text
    assert "nexusform apply" not in text


def test_stream_of_events_has_a_hypothetical_plan(nf: Command) -> None:
    code, text, _ = nf("plan", LOSS, "-json")
    events = [json.loads(line) for line in text.splitlines()]
    [event] = [event for event in events if event["type"] == "hypothetical_plan"]
    assert code == 0
    assert (event["hypothetical"], event["assumptions"]) == (True, ["lost:rack/lab/rack1"])
    planned = [number for number, event in enumerate(events) if event["type"] == "planned_change"]
    assert events.index(event) < planned[0]


def test_vms_of_a_lost_rack_are_recreated_on_the_others(nf: Command) -> None:
    _, text, _ = nf("plan", LOSS, "-report=json:-", "-placements=all")
    document = json.loads(text)
    rows = document["placement_changes"]
    lost = [row for row in rows if row["trigger"] == "machine_lost"]
    assert lost
    assert {row["from"]["rack"] for row in lost} == {"rack1"}
    assert "rack1" not in {row["to"]["rack"] for row in rows}
    # The configuration of the rack does not change.
    changed = {
        change["address"]
        for change in document["resource_changes"]
        if change["change"]["actions"] != ["no-op"]
    }
    assert changed == {"nexus_kubernetes_cluster.web"}
    [capacity] = document["decision"]["capacity"]
    assert capacity["after"] != capacity["before"]
    # A lost VM is not drained.
    assert document["decision"]["impact"]["minutes"] is None


def test_assumptions_add_up_and_show_their_effect(nf: Command) -> None:
    code, text, _ = nf("plan", f"-assume={WORKERS}.count=6", "-assume=lost:machine/lab/rack2-bm01")
    assert code == 0
    assert f"it assumes {WORKERS}.count=6 and lost:machine/lab/rack2-bm01." in text
    assert "workers count 4 -> 6" in text
    assert "Since the plan without assumptions: " in text


def test_lost_node_is_recreated(nf: Command) -> None:
    _, text, _ = nf("plan", "-assume=lost:node/web/web-workers-1", "-report=json:-")
    [row] = json.loads(text)["placement_changes"]
    assert (row["object"], row["action"]) == ("web-workers-1", "move")


@pytest.mark.parametrize(
    ("assumption", "reason"),
    [
        ("lost:rack/lab/rack9", 'there is no rack "lab/rack9".'),
        ("lost:machine/rack1-bm01", 'Did you mean "lab/rack1-bm01"?'),
        ("lost:node/web/web-workers-9", 'there is no node "web/web-workers-9".'),
        ("lost:planet/mars", 'there is no kind of loss "planet".'),
        ("rack1", "this is not an assumption. Write -assume=lost:KIND/NAME"),
        (f"{WORKERS}.count", "this is not an assumption."),
        (f"{WORKERS}.count=", "this is not an assumption."),
        (f"{WORKERS}.count=-1", '"count" must be between 0 and 1000000, not -1.'),
        (f'{WORKERS}.count="x"', "a number is required"),
        (f"{WORKERS}.count=var.x", "Write a literal"),
        (f"{WORKERS}.count=null", 'The argument "count" is required'),
        (f"{WORKERS}.count=[", "-assume"),
        (f"{WORKERS}.count=1\nvm_sku_name = 2", "write one value"),
        (f"{WORKERS}.colour=1", "has no argument agent_pool.workers.colour"),
        (f"{WORKERS}=1", "has no argument agent_pool.workers"),
        ("nexus_kubernetes_cluster.web:agent_pool.np9.count=1", 'has no agent_pool["np9"]'),
        ("nexus_kubernetes_cluster.wab:name=1", 'Did you mean "nexus_kubernetes_cluster.web"?'),
        ("nexus_rack.rack:machine_count=1", 'Did you mean "nexus_rack.rack['),
        ("nexus_rack.rack[0]:id=1", "has no argument id"),
        ("data.nexus_rack.rack:name=1", "no configured resource has the address"),
        ("module.a:name=1", "names a module"),
    ],
)
def test_invalid_assumption_is_an_error(nf: Command, assumption: str, reason: str) -> None:
    code, out, text = nf("plan", f"-assume={assumption}")
    assert code == 1
    assert out.lstrip().startswith("Hypothetical plan")
    assert f"-assume={assumption.splitlines()[0]}" in text
    assert reason in text
    assert "Internal error" not in text


def test_all_invalid_assumptions_are_reported_at_once(nf: Command) -> None:
    _, _, text = nf("plan", "-assume=lost:rack/a", "-assume=lost:rack/b")
    assert text.count("Invalid assumption") == 2


@pytest.mark.parametrize(
    "flag",
    [
        "-out=p.nfplan",
        "-sign=key.pem",
        "-max-age=1h",
        "-generate-config-out=g.nf.hcl",
        "-check-with=kube-scheduler=x",
        "-destroy",
        "-refresh-only",
    ],
)
def test_hypothetical_plan_cannot_be_saved_or_signed(nf: Command, flag: str) -> None:
    code, out, text = nf("plan", LOSS, flag)
    assert code == 1
    assert f"-assume and {flag.partition('=')[0]} cannot be combined: " in text
    assert "rack1" not in out


def test_guard_rails_check_a_hypothetical_plan(nf: Command) -> None:
    _, text, _ = nf("plan", "-report=json:-")
    [site] = json.loads(text)["decision"]["capacity"]
    limit = f"-fail-on=capacity:{site['after']}"
    assert nf("plan", limit)[0] == 0
    code, text, _ = nf("plan", limit, LOSS)
    assert (code, "BLOCKED by capacity" in text) == (1, True)


def test_plan_that_does_not_fit_after_a_loss_says_so(nf: Command) -> None:
    code, out, text = nf("plan", LOSS, "-assume=lost:rack/lab/rack2", f"-assume={WORKERS}.count=40")
    assert code == 0, text
    assert out.lstrip().startswith("Hypothetical plan")
    assert "insufficient-capacity" in out
    assert "web/workers does not fit" in out
