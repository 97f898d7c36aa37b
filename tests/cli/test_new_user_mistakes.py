"""Tests of the first minutes with nexusform: messages for typical errors of new users."""

from __future__ import annotations

import csv
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests import commands

SITE = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  for_each      = toset(["1", "2"])
  site_id       = nexus_site.lab.id
  name          = "rack${each.key}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
}
"""

WHATIF = pytest.mark.of_domains("whatif")


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a command in an empty directory; return exit code and output.

    Line breaks of the output are blanks.
    """
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str]:
        code = run_command_line(list(arguments))
        printed = capfd.readouterr()
        lines = [line.strip("│╷╵ ") for line in (printed.out + printed.err).splitlines()]
        return code, " ".join(line for line in lines if line)

    return run_command


# --- files and variables with names of other tools -----------------------------------------------


def test_empty_directory_gets_instructions(nf: Callable[..., tuple[int, str]]) -> None:
    code, text = nf("plan")
    assert code == 1
    assert "`nexusform init` at a terminal offers to write a first one." in text


@pytest.mark.parametrize(
    ("name", "new"), [("main.tf", "main.nf.hcl"), ("a.tf.json", "a.nf.json"), ("a.hcl", "a.nf.hcl")]
)
def test_configuration_of_another_tool_is_reported(
    nf: Callable[..., tuple[int, str]], name: str, new: str
) -> None:
    Path(name).touch()
    code, text = nf("validate")
    assert code == 1
    assert f'rename "{name}" to "{new}"' in text


def test_unread_file_with_values_is_reported(
    nf: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text('variable "a" {}\n')
    Path("lon.nfvars.hcl").touch()
    assert '"lon.nfvars.hcl" is read only with -var-file=lon.nfvars.hcl.' in nf("plan")[1]
    assert "lon.nfvars.hcl" not in nf("plan", "-var-file=lon.nfvars.hcl")[1]
    Path("terraform.tfvars").touch()
    Path("lon.nfvars.hcl").unlink()
    assert (
        '"terraform.tfvars" is not read: its name would have to be "nexusform.nfvars.hcl".'
        in nf("plan")[1]
    )
    monkeypatch.setenv("TF_VAR_a", "1")
    assert "TF_VAR_a is set in the environment, but nexusform reads NF_VAR_a." in nf("plan")[1]


def test_values_of_other_tools_are_reported_despite_a_default(
    nf: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text(
        'variable "a" {\n  default = "1"\n}\noutput "a" {\n  value = var.a\n}\n'
    )
    assert "not read" not in nf("plan")[1]
    Path("terraform.tfvars").write_text('a = "2"\n')
    monkeypatch.setenv("TF_VAR_a", "3")
    told = nf("plan")[1]
    assert '"terraform.tfvars" is not read: its name would have to be' in told
    assert "TF_VAR_a is set in the environment, but nexusform reads NF_VAR_a" in told
    assert "not read" not in nf("plan", "-var=a=4")[1]
    # Next to a configuration of Terraform, these values belong to Terraform.
    Path("main.tf").touch()
    told = nf("plan")[1]
    assert "terraform.tfvars" not in told
    assert "TF_VAR_a" in told


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("machineCount = 4", '"machine_count"'),
        ("server_count = 4", '"machine_count"'),
        ("hardware = 4", '"machine_sku"'),
        ("zone = 4", '"availability_zone"'),
        ("machine_overrides = 4", 'a block of type "machine_override"'),
        ("machine_counts = 4", '"machine_count"'),
    ],
)
def test_suggested_name_is_configurable(
    nf: Callable[..., tuple[int, str]], written: str, meant: str
) -> None:
    Path("main.nf.hcl").write_text(f'resource "nexus_rack" "r" {{\n  {written}\n}}\n')
    assert f"Did you mean {meant}?" in nf("validate")[1]


def test_computed_attribute_is_not_suggested(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text('resource "nexus_rack" "r" {\n  machines2 = 4\n}\n')
    assert 'Did you mean "machines"?' not in nf("validate")[1]


def test_validate_finds_instances_without_names(nf: Callable[..., tuple[int, str]]) -> None:
    nameless = SITE.replace('  name          = "rack${each.key}"\n', "")
    Path("main.nf.hcl").write_text(nameless)
    code, text = nf("validate")
    assert code == 1
    assert 'name = "rack-${each.key}"' in text
    Path("main.nf.hcl").write_text(nameless.replace('toset(["1", "2"])', "toset([])"))
    assert nf("validate")[0] == 0


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["-target", "-exclude"])
@pytest.mark.parametrize("address", ["nexus_rack.rac", "module.x", "data.nexus_inventory.rack"])
def test_unmatched_target_address_is_an_error(
    nf: Callable[..., tuple[int, str]], option: str, address: str
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("plan", f"{option}={address}")
    assert code == 1
    assert f"{option}={address} is in neither configuration nor state." in text


def test_missing_instance_is_an_error_and_existing_one_is_accepted(
    nf: Callable[..., tuple[int, str]],
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("plan", '-target=nexus_rack.rack["3"]')
    assert code == 1
    assert 'Did you mean "nexus_rack.rack["2"]"?' in text
    assert nf("apply", "-auto-approve")[0] == 0
    Path("main.nf.hcl").write_text(SITE.replace('toset(["1", "2"])', 'toset(["1"])'))
    # The address to add names the VMs on the rack; with their cluster the rack can be deleted.
    code, text = nf("plan", '-target=nexus_rack.rack["2"]')
    assert code == 1
    added = re.search(r"-target='(.+?)'", " ".join(text.split()))
    assert added is not None
    code, text = nf("plan", '-target=nexus_rack.rack["2"]', f"-target={added[1]}")
    assert code == 0
    assert "1 to destroy" in text


@pytest.mark.parametrize(
    ("path", "reason"), [("no/p.nfplan", 'no directory "no"'), (".", "is a directory")]
)
def test_unwritable_output_file_stops_the_plan(
    nf: Callable[..., tuple[int, str]], path: str, reason: str
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    for flag in (f"-out={path}", f"-report=json:{path}"):
        code, text = nf("plan", flag)
        assert code == 1
        assert reason in text
        assert "Plan:" not in text


def test_help_and_version_follow_other_tools(nf: Callable[..., tuple[int, str]]) -> None:
    assert nf("help", "plan") == nf("plan", "-help")
    assert nf("help", "state", "list") == nf("state", "list", "-help")
    assert nf("help") == nf("-help")
    assert nf("-v") == nf("version")


def test_guard_rails_fail_after_reports_are_written(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("plan", "-fail-on=moved:0,capacity:5,certainty:0", "-out=a.nfplan")
    assert (code, "BLOCKED" in text) == (0, False)
    code, text = nf(
        "plan",
        "-fail-on=moved:0,capacity:5000000,certainty:1",
        "-out=b.nfplan",
        "-report=json:b.json",
    )
    assert code == 1
    assert "Plan: 4 to add" in text
    assert "-fail-on=capacity:5000000 requires at least 5000000." in text
    assert "of 3 VMs; -fail-on=certainty:1" in text
    assert json.loads(Path("b.json").read_text())["errored"] is False
    assert Path("b.nfplan").exists()


@pytest.mark.parametrize(
    "limits", ["moves:0", "moved", "moved:-1", "moved:0.5", "certainty:2", ","]
)
def test_invalid_limits_are_rejected(nf: Callable[..., tuple[int, str]], limits: str) -> None:
    code, text = nf("plan", f"-fail-on={limits}")
    assert code == 1
    assert text.startswith("Error: -fail-on: ")


def test_all_errors_in_limits_are_reported_together(nf: Callable[..., tuple[int, str]]) -> None:
    code, text = nf("plan", "-fail-on=capacity:-1,certainty:7,speed:1,moved:0,moved:1")
    assert code == 1
    told = " ".join(text.split())
    for words in (
        '"capacity:-1" needs',
        '"certainty:7" needs',
        'no limit "speed"',
        '"moved" is given twice',
    ):
        assert words in told


def test_placements_as_csv_table(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    assert nf("plan", "-report=csv:p.csv", "-report=json:p.json")[0] == 0
    with Path("p.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    listed = json.loads(Path("p.json").read_text())["placement_changes"]
    assert [(r["object"], r["to_machine"], r["trigger"]) for r in rows] == [
        (r["object"], r["to"]["machine"], r["trigger"]) for r in listed
    ]
    assert {row["vm_sku_name"] for row in rows} == {"NC_G12_56_v1"}
    assert all(row["to_numa_cells"] in {"0", "1"} and not row["from_machine"] for row in rows)


# --- init and the log -----------------------------------------------------------------------------


def _run_init_at_terminal(directory: Path, typed: str) -> str:
    words = [*commands.nexusform(), "init"]
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        os.execv(words[0], words)
    os.write(terminal, typed.encode())
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.waitpid(pid, 0)
    os.close(terminal)
    return shown.decode()


def test_init_offers_missing_files_of_new_directory(
    nf: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    assert nf("init")[0] == 1
    shown = _run_init_at_terminal(tmp_path, "no\n")
    assert "Write main.nf.hcl and .gitignore?" in shown
    assert list(tmp_path.iterdir()) == []
    shown = _run_init_at_terminal(tmp_path, "yes\n")
    assert "Wrote main.nf.hcl." in shown
    assert "has been successfully initialized!" in shown
    code, text = nf("plan")
    assert code == 0
    assert "7 to place" in text
    assert nf("fmt", "-check")[0] == 0
    assert ".nexusform/" in Path(".gitignore").read_text().splitlines()
    assert "Write" not in _run_init_at_terminal(tmp_path, "")


def _run_plan_with_log(
    directory: Path, level: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*commands.nexusform(), "plan", "-var", "secret=hunter2"],
        cwd=directory,
        env={**os.environ, "NF_LOG": level, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_log_names_steps_of_a_run_and_no_values(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(f'{SITE}\nvariable "secret" {{}}\n')
    as_json = _run_plan_with_log(tmp_path, "json")
    lines = [json.loads(line) for line in as_json.stderr.splitlines()]
    assert {line["@level"] for line in lines} == {"info", "debug"}
    assert "plan made" in [line["@message"] for line in lines]
    assert "hunter2" not in as_json.stderr
    assert "[DEBUG]" not in _run_plan_with_log(tmp_path, "info").stderr
    assert _run_plan_with_log(tmp_path, "warn").stderr == ""
    log = tmp_path / "run.log"
    assert _run_plan_with_log(tmp_path, "debug", NF_LOG_PATH=str(log)).stderr == ""
    assert "state read: state=state/nexusform.nfstate" in log.read_text()


def test_unknown_log_level_is_an_error(
    nf: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_LOG", "loud")
    code, text = nf("version")
    assert code == 1
    assert 'there is no level "loud"' in text


def test_vm_without_required_argument(nf: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    vm = (
        f'{SITE}\nresource "nexus_virtual_machine" "v" {{\n  site_id = nexus_site.lab.id\n  name = '
        '"v"\n}\n'
    )
    (tmp_path / "main.nf.hcl").write_text(vm)
    code, text = nf("plan")
    assert code == 1
    assert 'The argument "disk_gib" is required' in text
    assert "bug" not in text


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["plan", "-chdir=lab"], "-chdir must precede the command: nexusform -chdir=lab plan ..."),
        (["state", "list", "-chdir", "lab"], "nexusform -chdir=DIR state list ..."),
        (["plan", "-confine", "true"], "Unexpected argument: true. Write -confine=true."),
        (["plan", "-lock", "false"], "Write -lock=false."),
        (["plan", "-lock="], "-lock': an empty value is neither true nor false."),
        (["plan", "-refresh=maybe"], '"maybe" is neither true nor false.'),
        (["plan", "lab"], "Unexpected argument: lab."),
        pytest.param(["simulate", "failure", "rack1"], "-rack=rack1", marks=WHATIF),
        pytest.param(["simulate", "runtime-upgrade", "lab"], "Write -site=lab.", marks=WHATIF),
        (["plan", "-out=a", "-sign=key:me.pem"], "-sign=me.pem."),
    ],
)
def test_usage_error_names_the_right_command(
    words: list[str], advice: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(words) == 1
    told = capfd.readouterr().err
    assert advice in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80


def test_object_name_instead_of_address_gets_a_hint(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("explain", "web-control-plane-0")
    assert code == 1
    assert "nexusform explain ADDRESS web-control-plane-0" in text
    assert nf("apply", "-auto-approve", "-samples=0")[0] == 0
    code, text = nf("explain", "web-control-plane-0")
    assert code == 0
    assert text == nf("explain", "nexus_kubernetes_cluster.web", "web-control-plane-0")[1]


def test_output_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE)
    explain = ["explain", "nexus_kubernetes_cluster.web", "web-control-plane-0"]
    for words in (["apply", "-auto-approve"], ["init"], ["advise"], explain):
        # Two racks cannot keep a quorum.
        assert run_command_line(words) == (2 if words == ["advise"] else 0)
        assert max(map(len, capfd.readouterr().out.splitlines())) <= 80
