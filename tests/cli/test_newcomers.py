"""The first minutes with nexusform: what it says where a newcomer stumbles."""

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
    """Run a command in an empty directory: its exit code, and what it printed with line breaks as blanks."""
    monkeypatch.chdir(tmp_path)

    def command(*arguments: str) -> tuple[int, str]:
        code = run_command_line(list(arguments))
        printed = capfd.readouterr()
        lines = [line.strip("│╷╵ ") for line in (printed.out + printed.err).splitlines()]
        return code, " ".join(line for line in lines if line)

    return command


# --- files and variables under other tools' names ------------------------------------------------


def test_an_empty_directory_is_told_how_to_begin(nf: Callable[..., tuple[int, str]]) -> None:
    code, text = nf("plan")
    assert code == 1
    assert "`nexusform init` at a terminal offers to write a first one." in text


@pytest.mark.parametrize(
    ("name", "new"), [("main.tf", "main.nf.hcl"), ("a.tf.json", "a.nf.json"), ("a.hcl", "a.nf.hcl")]
)
def test_configuration_of_another_tool_is_noticed(nf: Callable[..., tuple[int, str]], name: str, new: str) -> None:
    Path(name).touch()
    code, text = nf("validate")
    assert code == 1
    assert f'rename "{name}" to "{new}"' in text


def test_a_value_in_a_file_that_is_not_read_is_noticed(
    nf: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text('variable "a" {}\n')
    Path("lon.nfvars.hcl").touch()
    assert '"lon.nfvars.hcl" is read only with -var-file=lon.nfvars.hcl.' in nf("plan")[1]
    assert "lon.nfvars.hcl" not in nf("plan", "-var-file=lon.nfvars.hcl")[1]
    Path("terraform.tfvars").touch()
    Path("lon.nfvars.hcl").unlink()
    assert '"terraform.tfvars" is not read: its name would have to be "nexusform.nfvars.hcl".' in nf("plan")[1]
    monkeypatch.setenv("TF_VAR_a", "1")
    assert "TF_VAR_a is set in the environment, but nexusform reads NF_VAR_a." in nf("plan")[1]


def test_values_that_another_tool_would_read_are_told_though_there_is_a_default(
    nf: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text('variable "a" {\n  default = "1"\n}\noutput "a" {\n  value = var.a\n}\n')
    assert "not read" not in nf("plan")[1]
    Path("terraform.tfvars").write_text('a = "2"\n')
    monkeypatch.setenv("TF_VAR_a", "3")
    told = nf("plan")[1]
    assert '"terraform.tfvars" is not read: its name would have to be' in told
    assert "TF_VAR_a is set in the environment, but nexusform reads NF_VAR_a" in told
    assert "not read" not in nf("plan", "-var=a=4")[1]
    # Beside Terraform's own configuration these are Terraform's.
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
def test_the_name_that_is_meant_is_one_that_can_be_set(
    nf: Callable[..., tuple[int, str]], written: str, meant: str
) -> None:
    Path("main.nf.hcl").write_text(f'resource "nexus_rack" "r" {{\n  {written}\n}}\n')
    assert f"Did you mean {meant}?" in nf("validate")[1]


def test_nobody_means_what_is_computed(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text('resource "nexus_rack" "r" {\n  machines2 = 4\n}\n')
    assert 'Did you mean "machines"?' not in nf("validate")[1]


def test_instances_without_names_are_found_by_validate(nf: Callable[..., tuple[int, str]]) -> None:
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
def test_an_address_of_nothing_is_an_error(nf: Callable[..., tuple[int, str]], option: str, address: str) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("plan", f"{option}={address}")
    assert code == 1
    assert f"{option}={address} names nothing in the configuration or the state." in text


def test_an_instance_that_there_is_not_is_an_error_and_one_that_stands_is_none(
    nf: Callable[..., tuple[int, str]],
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("plan", '-target=nexus_rack.rack["3"]')
    assert code == 1
    assert 'Did you mean "nexus_rack.rack"?' in text
    assert nf("apply", "-auto-approve")[0] == 0
    Path("main.nf.hcl").write_text(SITE.replace('toset(["1", "2"])', 'toset(["1"])'))
    # The VMs on the rack are named by the address to add; with their cluster the rack may go.
    code, text = nf("plan", '-target=nexus_rack.rack["2"]')
    assert code == 1
    added = re.search(r"-target='(.+?)'", " ".join(text.split()))
    assert added is not None
    code, text = nf("plan", '-target=nexus_rack.rack["2"]', f"-target={added[1]}")
    assert code == 0
    assert "1 to destroy" in text


@pytest.mark.parametrize(("path", "reason"), [("no/p.nfplan", 'no directory "no"'), (".", "is a directory")])
def test_a_plan_that_could_not_be_saved_is_not_made(nf: Callable[..., tuple[int, str]], path: str, reason: str) -> None:
    Path("main.nf.hcl").write_text(SITE)
    for flag in (f"-out={path}", f"-report=json:{path}"):
        code, text = nf("plan", flag)
        assert code == 1
        assert reason in text
        assert "Plan:" not in text


def test_help_and_version_as_other_tools_have_them(nf: Callable[..., tuple[int, str]]) -> None:
    assert nf("help", "plan") == nf("plan", "-help")
    assert nf("help", "state", "list") == nf("state", "list", "-help")
    assert nf("help") == nf("-help")
    assert nf("-v") == nf("version")


def test_guard_rails_fail_after_all_is_written(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("plan", "-fail-on=moved:0,capacity:5,certainty:0", "-out=a.nfplan")
    assert (code, "BLOCKED" in text) == (0, False)
    code, text = nf("plan", "-fail-on=moved:0,capacity:5000000,certainty:1", "-out=b.nfplan", "-report=json:b.json")
    assert code == 1
    assert "Plan: 4 to add" in text
    assert "-fail-on=capacity:5000000 allows at least 5000000." in text
    assert "of 3 VMs; -fail-on=certainty:1" in text
    assert json.loads(Path("b.json").read_text())["errored"] is False
    assert Path("b.nfplan").exists()


@pytest.mark.parametrize("limits", ["moves:0", "moved", "moved:-1", "moved:0.5", "certainty:2", ","])
def test_limits_that_are_none(nf: Callable[..., tuple[int, str]], limits: str) -> None:
    code, text = nf("plan", f"-fail-on={limits}")
    assert code == 1
    assert text.startswith("Error: -fail-on: ")


def test_all_mistakes_in_limits_are_told_at_once(nf: Callable[..., tuple[int, str]]) -> None:
    code, text = nf("plan", "-fail-on=capacity:-1,certainty:7,speed:1,moved:0,moved:1")
    assert code == 1
    told = " ".join(text.split())
    for words in ('"capacity:-1" needs', '"certainty:7" needs', 'no limit "speed"', '"moved" is given twice'):
        assert words in told


def test_placements_as_a_table(nf: Callable[..., tuple[int, str]]) -> None:
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


def _at_a_terminal(directory: Path, typed: str) -> str:
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


def test_init_offers_what_a_new_directory_lacks(nf: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    assert nf("init")[0] == 1
    shown = _at_a_terminal(tmp_path, "no\n")
    assert "Write main.nf.hcl and .gitignore?" in shown
    assert list(tmp_path.iterdir()) == []
    shown = _at_a_terminal(tmp_path, "yes\n")
    assert "Wrote main.nf.hcl." in shown
    assert "has been successfully initialized!" in shown
    code, text = nf("plan")
    assert code == 0
    assert "7 to place" in text
    assert nf("fmt", "-check")[0] == 0
    assert ".nexusform/" in Path(".gitignore").read_text().splitlines()
    assert "Write" not in _at_a_terminal(tmp_path, "")


def _logged(directory: Path, level: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*commands.nexusform(), "plan", "-var", "secret=hunter2"],
        cwd=directory,
        env={**os.environ, "NF_LOG": level, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_log_says_what_a_run_does_and_no_value(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(f'{SITE}\nvariable "secret" {{}}\n')
    as_json = _logged(tmp_path, "json")
    lines = [json.loads(line) for line in as_json.stderr.splitlines()]
    assert {line["@level"] for line in lines} == {"info", "debug"}
    assert "plan made" in [line["@message"] for line in lines]
    assert "hunter2" not in as_json.stderr
    assert "[DEBUG]" not in _logged(tmp_path, "info").stderr
    assert _logged(tmp_path, "warn").stderr == ""
    log = tmp_path / "run.log"
    assert _logged(tmp_path, "debug", NF_LOG_PATH=str(log)).stderr == ""
    assert "state read: state=state/nexusform.nfstate" in log.read_text()


def test_a_level_that_there_is_not(nf: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NF_LOG", "loud")
    code, text = nf("version")
    assert code == 1
    assert 'there is no level "loud"' in text


def test_a_vm_that_lacks_an_argument(nf: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    vm = f'{SITE}\nresource "nexus_virtual_machine" "v" {{\n  site_id = nexus_site.lab.id\n  name = "v"\n}}\n'
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
        (["plan", "lab"], "Unexpected argument: lab."),
        pytest.param(["simulate", "failure", "rack1"], "-rack=rack1", marks=WHATIF),
        pytest.param(["simulate", "runtime-upgrade", "lab"], "Write -site=lab.", marks=WHATIF),
        (["plan", "-out=a", "-sign=key:me.pem"], "-sign=me.pem."),
    ],
)
def test_a_usage_error_says_what_to_type(words: list[str], advice: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(words) == 1
    told = capfd.readouterr().err
    assert advice in " ".join(told.split())
    assert max(map(len, told.splitlines())) <= 80


def test_an_object_in_place_of_its_address_is_told_where_it_belongs(nf: Callable[..., tuple[int, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text = nf("explain", "web-control-plane-0")
    assert code == 1
    assert "nexusform explain ADDRESS web-control-plane-0" in text
    assert nf("apply", "-auto-approve", "-samples=0")[0] == 0
    code, text = nf("explain", "web-control-plane-0")
    assert code == 0
    assert text == nf("explain", "nexus_kubernetes_cluster.web", "web-control-plane-0")[1]


def test_what_is_printed_fits_80_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE)
    explain = ["explain", "nexus_kubernetes_cluster.web", "web-control-plane-0"]
    for words in (["apply", "-auto-approve"], ["init"], ["advise"], explain):
        assert run_command_line(words) == 0
        assert max(map(len, capfd.readouterr().out.splitlines())) <= 80
