"""Tests of -refresh-only: it records observed values and what follows from them.

New addresses and dependent outputs follow from them, and nothing else is recorded.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.interfaces.plugins import ProviderProblem

CommandResult = tuple[int, str, str]

PROVIDER = 'provider "simulated" {\n  reality = "reality.json"\n}\n'


def format_sku(label: str, names: str = '"one"', *, gib: int = 10, count: str = "") -> str:
    return f"""
resource "nexus_vm_sku" "{label}" {{
  {f"count = {count}" if count else ""}
  name       = {names}
  vcpus      = 2
  memory_gib = 4
  disk_gib   = {gib}
}}
"""


def format_moved_block(source: str, target: str) -> str:
    return f"moved {{\n  from = nexus_vm_sku.{source}\n  to   = nexus_vm_sku.{target}\n}}\n"


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """Return a function for command lines with a configuration in a separate directory.

    It returns code, stdout and stderr.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reality.json").write_text("[]")

    def run_command(configuration: str, *arguments: str) -> CommandResult:
        Path("main.nf.hcl").write_text(PROVIDER + configuration)
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def read_state() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path("state/nexusform.nfstate").read_text())
    return document


def read_disks() -> dict[str, int]:
    """Return the disk of every SKU in the state, by address."""
    disks: dict[str, int] = {}
    for resource in read_state()["resources"]:
        for instance in resource["instances"]:
            key = instance.get("index_key")
            address = resource["name"] if key is None else f"{resource['name']}[{key}]"
            disks[address] = instance["attributes"]["disk_gib"]
    return disks


def double_disks() -> None:
    """Double the disk of every SKU in the reality file."""
    reality = json.loads(Path("reality.json").read_text())
    for each in reality:
        each["attributes"]["disk_gib"] *= 2
    Path("reality.json").write_text(json.dumps(reality))


def test_moves_and_outputs_are_shown_and_recorded(nf: Callable[..., CommandResult]) -> None:
    before = (
        format_sku("a")
        + 'output "disk" {\n  value = nexus_vm_sku.a.disk_gib\n}\noutput "old" {\n  value = 1\n}\n'
    )
    assert nf(before, "apply", "-auto-approve")[0] == 0
    double_disks()
    after = (
        format_sku("b", '["one", "two"][count.index]', count="2")
        + format_moved_block("a", "b[0]")
        + 'output "disk" {\n  value = nexus_vm_sku.b[0].disk_gib\n}\n'
        + 'output "second" {\n  value = nexus_vm_sku.b[1].disk_gib\n}\n'
        + 'output "new" {\n  value = 7\n}\n'
    )
    code, out, _ = nf(after, "plan", "-refresh-only", "-detailed-exitcode", "-out=p")
    assert code == 2
    assert "nexus_vm_sku.b[0]  one: moved from nexus_vm_sku.a" in out
    assert "~ disk = 10 -> 20\n  + new  = 7\n  - old  = 1 -> null\n" in out
    assert "+ nexus_vm_sku.b[1]" not in out
    assert nf(after, "apply", "p")[0] == 0
    assert read_disks() == {"b[0]": 20}
    # outputs of objects not created yet have no value
    assert {name: output["value"] for name, output in read_state()["outputs"].items()} == {
        "disk": 20,
        "new": 7,
    }
    assert nf(after, "plan", "-refresh-only", "-detailed-exitcode")[0] == 0
    _, out, _ = nf(after, "plan")
    assert "Plan: 1 to add, 1 to change, 0 to destroy." in out


def test_moved_object_with_drift_is_one_object(nf: Callable[..., CommandResult]) -> None:
    assert nf(format_sku("a"), "apply", "-auto-approve")[0] == 0
    double_disks()
    assert nf(format_sku("b") + format_moved_block("a", "b"), "apply", "-auto-approve")[0] == 0
    assert read_disks() == {"b": 10}


def test_chain_of_moves_is_followed_to_its_end(nf: Callable[..., CommandResult]) -> None:
    assert nf(format_sku("a"), "apply", "-auto-approve")[0] == 0
    chain = format_sku("c") + format_moved_block("b", "c") + format_moved_block("a", "b")
    assert nf(chain, "apply", "-auto-approve", "-refresh-only")[0] == 0
    assert read_disks() == {"c": 10}
    assert nf(chain, "plan", "-detailed-exitcode")[0] == 0


def test_json_lists_moves_as_drift(nf: Callable[..., CommandResult]) -> None:
    both = format_sku("a") + format_sku("still", '"two"')
    assert nf(both, "apply", "-auto-approve")[0] == 0
    double_disks()
    reality = json.loads(Path("reality.json").read_text())
    reality[1]["attributes"]["disk_gib"] = 10
    Path("reality.json").write_text(json.dumps(reality))
    renamed = (
        format_sku("b")
        + format_sku("c", '"two"')
        + format_moved_block("a", "b")
        + format_moved_block("still", "c")
    )
    assert nf(renamed, "plan", "-refresh-only", "-out=p")[0] == 0
    document = json.loads(nf(renamed, "show", "-json", "p")[1])
    assert document["resource_changes"] == []
    assert [
        (each["previous_address"], each["address"], each["change"]["actions"])
        for each in document["resource_drift"]
    ] == [
        ("nexus_vm_sku.a", "nexus_vm_sku.b", ["update"]),
        ("nexus_vm_sku.still", "nexus_vm_sku.c", ["no-op"]),
    ]
    stream = [
        json.loads(line) for line in nf(renamed, "plan", "-refresh-only", "-json")[1].splitlines()
    ]
    drift = [each["change"]["action"] for each in stream if each["type"] == "resource_drift"]
    assert drift == ["update", "move"]


def test_only_targets_are_recorded(nf: Callable[..., CommandResult]) -> None:
    both = format_sku("a") + format_sku("b", '"two"')
    assert nf(both, "apply", "-auto-approve")[0] == 0
    double_disks()
    assert nf(both, "apply", "-auto-approve", "-refresh-only", "-target=nexus_vm_sku.a")[0] == 0
    assert read_disks() == {"a": 20, "b": 10}


def test_failed_condition_is_no_error(nf: Callable[..., CommandResult]) -> None:
    text = format_sku("a") + (
        'output "x" {\n  value = 1\n  precondition {\n    condition = nexus_vm_sku.a.disk_gib == '
        "10\n"
        '    error_message = "It has grown."\n  }\n}\n'
    )
    assert nf(text, "apply", "-auto-approve")[0] == 0
    double_disks()
    code, out, _ = nf(text, "plan", "-refresh-only", "-details")
    assert code == 0
    assert "It has grown." in out
    assert "Warning: Module output value precondition failed" in out


def test_configuration_error_is_reported(nf: Callable[..., CommandResult]) -> None:
    assert nf(format_sku("a"), "apply", "-auto-approve")[0] == 0
    code, _, err = nf(
        format_sku("a") + 'output "x" {\n  value = nexus_vm_sku.zz.id\n}\n', "plan", "-refresh-only"
    )
    assert code == 1
    assert "nexus_vm_sku" in err


def test_vms_observed_on_another_machine_are_listed(nf: Callable[..., CommandResult]) -> None:
    site = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  depends_on = [nexus_rack.r]
}
"""
    assert nf(site, "apply", "-auto-approve")[0] == 0
    reality = json.loads(Path("reality.json").read_text())
    [node] = [value for each in reality for value in each["attributes"].get("nodes", {}).values()]
    old = node["machine"]
    node["machine"] = next(name for name in ("r-bm01", "r-bm02") if name != old)
    Path("reality.json").write_text(json.dumps(reality))
    code, out, _ = nf(site, "plan", "-refresh-only", "-report=json:p.json")
    assert code == 0
    assert f"= web-control-plane-0  {old} -> {node['machine']} (observed_elsewhere)" in " ".join(
        out.split(" ")
    )
    [row] = json.loads(Path("p.json").read_text())["placement_changes"]
    assert (row["action"], row["trigger"], row["to"]["machine"]) == (
        "keep",
        "observed_elsewhere",
        node["machine"],
    )
    assert nf(site, "apply", "-refresh-only", "-auto-approve")[0] == 0
    assert "observed_elsewhere" not in nf(site, "plan", "-refresh-only")[1]


def test_saved_plan_is_observed_again_before_its_values_are_recorded(
    nf: Callable[..., CommandResult],
) -> None:
    both = format_sku("a") + format_sku("b", '"two"')
    assert nf(both, "apply", "-auto-approve")[0] == 0
    double_disks()
    assert nf(both, "plan", "-refresh-only", "-out=p")[0] == 0
    approved = Path("reality.json").read_text()
    later = json.loads(approved)
    later[0]["attributes"]["disk_gib"] = 40
    Path("reality.json").write_text(json.dumps(later))
    code, _, err = nf(both, "apply", "p")
    assert code == 1
    assert "A new plan from current values differs: nexus_vm_sku.a." in err
    assert read_disks() == {"a": 10, "b": 10}
    # an object deleted since the plan
    Path("reality.json").write_text(json.dumps(later[1:]))
    assert nf(both, "apply", "p")[0] == 1
    assert read_disks() == {"a": 10, "b": 10}
    Path("reality.json").write_text(approved)
    assert nf(both, "apply", "p")[0] == 0
    assert read_disks() == {"a": 20, "b": 20}


def set_disk(position: int, gib: int) -> None:
    """Set the disk of one SKU in the reality file."""
    reality = json.loads(Path("reality.json").read_text())
    reality[position]["attributes"]["disk_gib"] = gib
    Path("reality.json").write_text(json.dumps(reality))


def join_lines(text: str) -> str:
    """Return the words of a message without its box."""
    return " ".join(text.replace("│", " ").split())


class SlowUser(io.StringIO):
    """User who approves after another person changed the disk of the first SKU."""

    def readline(self, *_arguments: Any) -> str:
        set_disk(0, 40)
        return "yes\n"


IGNORED = "  lifecycle {\n    ignore_changes = [disk_gib]\n  }\n}\n"
DRIFTED = format_sku("a").removesuffix("}\n") + IGNORED


def test_saved_plan_records_the_drift_that_apply_reads(nf: Callable[..., CommandResult]) -> None:
    """The saved plan shows the object as it was, and does not change it."""
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    double_disks()
    both = DRIFTED + format_sku("b", '"two"')
    assert nf(both, "plan", "-out=p")[0] == 0
    set_disk(0, 40)
    code, out, _ = nf(both, "apply", "p")
    assert code == 0
    assert "other values were set outside of nexusform: nexus_vm_sku.a." in join_lines(out)
    assert read_disks() == {"a": 40, "b": 10}


def test_saved_plan_records_no_drift_that_is_gone(nf: Callable[..., CommandResult]) -> None:
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    double_disks()
    both = DRIFTED + format_sku("b", '"two"')
    assert nf(both, "plan", "-out=p")[0] == 0
    set_disk(0, 10)
    code, out, _ = nf(both, "apply", "p")
    assert code == 0
    assert "Drift changed since plan" in out
    assert read_disks() == {"a": 10, "b": 10}


def fail_to_read(*_arguments: Any) -> None:
    raise ProviderProblem("no answer")


def test_saved_plan_records_no_drift_that_cannot_be_read(
    nf: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    double_disks()
    both = DRIFTED + format_sku("b", '"two"')
    assert nf(both, "plan", "-out=p")[0] == 0
    monkeypatch.setattr("nexusform.workflow.runs.site_checks.refresh_request", fail_to_read)
    code, out, _ = nf(both, "apply", "p")
    assert code == 0
    assert "made outside of nexusform are not recorded: nexus_vm_sku.a." in join_lines(out)
    assert "They cannot be read now: no answer" in join_lines(out)
    assert read_disks() == {"a": 10, "b": 10}


def test_unchanged_drift_of_a_saved_plan_is_recorded(nf: Callable[..., CommandResult]) -> None:
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    double_disks()
    both = DRIFTED + format_sku("b", '"two"')
    assert nf(both, "plan", "-out=p")[0] == 0
    code, out, _ = nf(both, "apply", "p")
    assert (code, "Warning" in out) == (0, False)
    assert read_disks() == {"a": 20, "b": 10}


def test_drift_is_read_again_after_the_question(
    nf: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    double_disks()
    monkeypatch.setattr("sys.stdin", SlowUser())
    code, out, err = nf(DRIFTED, "apply", "-refresh-only")
    assert code == 1
    assert "a new plan differs: nexus_vm_sku.a. No changes were made." in join_lines(err)
    assert "Apply complete" not in out
    assert read_disks() == {"a": 10}
    # The disk has this value already.
    assert nf(DRIFTED, "apply", "-refresh-only")[0] == 0
    assert read_disks() == {"a": 40}
    set_disk(0, 20)
    code, out, _ = nf(DRIFTED + format_sku("b", '"two"'), "apply")
    # The simulated provider does not write a reality that another process changed.
    assert code == 1
    assert "Drift changed since plan" in out
    assert "Another process changed the reality" in join_lines(out)
    assert read_disks() == {"a": 40}


def test_missing_reality_is_not_a_deletion_of_all_objects(nf: Callable[..., CommandResult]) -> None:
    reality = Path("reality.json")
    reality.unlink()
    # The first apply creates the file.
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    content = reality.read_text()
    reality.unlink()
    for arguments in (["plan"], ["plan", "-refresh-only"], ["apply", "-auto-approve"]):
        code, out, err = nf(DRIFTED, *arguments)
        assert code == 1
        assert "reality.json does not exist, so the objects in state are unknown" in (
            join_lines(out + err)
        )
    assert not reality.exists()
    reality.write_text("[]")
    assert nf(DRIFTED, "plan", "-detailed-exitcode")[0] == 2
    reality.write_text(content)
    assert nf(DRIFTED, "plan", "-detailed-exitcode")[0] == 0
    assert nf(DRIFTED, "destroy", "-auto-approve")[0] == 0
    assert nf("", "plan", "-detailed-exitcode")[0] == 0


def test_plan_without_refresh_says_that_nothing_was_read(nf: Callable[..., CommandResult]) -> None:
    assert nf(DRIFTED, "apply", "-auto-approve")[0] == 0
    Path("reality.json").write_text("[]")
    code, out, _ = nf(DRIFTED, "plan", "-refresh=false", "-detailed-exitcode")
    assert code == 0
    assert "has not read the infrastructure (-refresh=false)" in join_lines(out)
    assert "0 then means only that the recorded state has no changes" in (
        join_lines(nf(DRIFTED, "plan", "-help")[1])
    )
