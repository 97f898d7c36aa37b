"""Tests of limits: excessive input gives a diagnostic for the whole plan.

The diagnostic comes quickly and with little memory.
"""

from __future__ import annotations

import signal
import subprocess
import time
import tracemalloc
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from nexusform.configuration.declarations.limits import (
    DEFAULT,
    PlanSizeLimits,
    merge_limits,
    parse_limit_overrides,
)
from nexusform.files.regular_files import UNCONFINED
from nexusform.workflow.opening.system_io import ConfinedFileAccess
from tests.commands import nexusform

SITE = 'resource "nexus_site" "s" {}\n'
RACK = """
resource "nexus_rack" "r" {
  count         = COUNT
  site_id       = nexus_site.s.id
  name          = "r${count.index}"
  machine_count = 256
  MORE
}
"""
CLUSTER = """
resource "nexus_kubernetes_cluster" "a" {
  count              = COUNT
  site_id            = nexus_site.s.id
  name               = "a${count.index}"
  kubernetes_version = "v1.29"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "p" {
    count       = NODES
    vm_sku_name = "NC_P22_112_v1"
  }
}
"""
MACHINE = """
  machine {
    numa_cells          = 2
    cpus_per_cell       = CPUS
    memory_gib_per_cell = GIB
    ephemeral_disk_gib  = 1
  }
"""
BRACKETS = "[" * 65_536 + "]" * 65_536


def build_racks(count: int, more: str = "") -> str:
    return SITE + RACK.replace("COUNT", str(count)).replace("MORE", more)


def build_machine(cpus: int, gib: int) -> str:
    return build_racks(1, MACHINE.replace("CPUS", str(cpus)).replace("GIB", str(gib)))


def build_clusters(count: int, nodes: int) -> str:
    return SITE + CLUSTER.replace("COUNT", str(count)).replace("NODES", str(nodes))


CASES = {
    "instances of a block": (
        'resource "nexus_site" "s" {\n  count = 1000000000\n}\n',
        "at most 200000",
    ),
    "instances of all blocks": (
        "".join(
            f'resource "nexus_site" "s{n}" {{\n  count = 150\n  name = "{n}-${{count.index}}"\n}}\n'
            for n in (1, 2)
        ),
        "more than 200 instances",
    ),
    "machines": (build_racks(100_000), "more than 200,000 machines"),
    "vms": (build_clusters(30, 400_000), "more than 2,000,000 VMs"),
    "nodes of a cluster": (build_clusters(1, 10**12), '"count" must be between 0 and 1000000'),
    "cpus of a cell": (
        build_machine(4097, 1),
        '"cpus_per_cell" must be between 1 and 4096, not 4097',
    ),
    "memory of a cell": (
        build_machine(1, 65_537),
        '"memory_gib_per_cell" must be between 1 and 65536, not 65537',
    ),
    "levels of YAML": (f'output "o" {{\n  value = yamldecode("{BRACKETS}")\n}}\n', "levels deep"),
    "levels of YAML mappings": (
        f'output "o" {{\n  value = yamldecode("{"{a: " * 30_000}")\n}}\n',
        "levels deep",
    ),
    "levels of JSON": (
        f'output "o" {{\n  value = jsondecode("{BRACKETS}")\n}}\n',
        "nested too deeply",
    ),
    "unseen characters in a line": ("locals {\n  a = 6" + "\u202e" * 20_000 + "\n}\n", "Invalid"),
    "many stars": ('output "o" {\n  value = fileset(".", "' + "**/" * 30 + 'y")\n}\n', ""),
}
FLAGS = {"instances of all blocks": ["-limit=instances=200"]}
SECONDS = 10
MEGABYTES = 400


@pytest.mark.parametrize("name", CASES)
def test_excessive_input_is_a_diagnostic(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, expected = CASES[name]
    Path("main.nf.hcl").write_text(text)
    deep = Path(*("d" * 60))
    deep.mkdir(parents=True)
    (deep / "x").write_text("")
    started = time.process_time()
    assert run_command_line(["plan", "-confine", *FLAGS.get(name, ())]) == (1 if expected else 0)
    assert time.process_time() - started < SECONDS
    assert expected in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_many_machines_use_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(build_racks(10_000))
    tracemalloc.start()
    try:
        assert run_command_line(["plan", "-limit=machines=3000"]) == 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEGABYTES << 20


NESTED = """
variable "v" {
  type = any
}
locals {
  json = jsondecode(file("list.txt"))
  yaml = yamldecode(file("map.txt"))
}
output "all" {
  value = [var.v, local.json, local.yaml]
}
output "text" {
  value = [yamldecode(yamlencode(local.json)) == local.json, jsonencode(local.yaml)]
}
resource "fleet_hub_manifest" "m" {
  yaml_body = file("manifest.yaml")
}
"""


def write_nested_documents(directory: Path, levels: int, leaf: str = "1") -> None:
    """Write a configuration reading documents of the given nesting depth in every supported way."""
    (directory / "main.nf.hcl").write_text(NESTED)
    mapping = '{"a":' * levels + leaf + "}" * levels
    (directory / "map.txt").write_text(mapping)
    (directory / "list.txt").write_text("[" * levels + leaf + "]" * levels)
    (directory / "x.auto.nfvars.json").write_text(mapping.replace("a", "v", 1))
    head = '{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": '
    (directory / "manifest.yaml").write_text(head + '{"a":' * (levels - 1) + leaf + "}" * levels)


@pytest.mark.of_domains("fleet")
def test_documents_nest_up_to_the_limit(tmp_path: Path) -> None:
    def run_and_read_output(*words: str) -> str:
        command = [*nexusform(), *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1)
        return " ".join((done.stdout + done.stderr).replace("│", " ").split())

    write_nested_documents(tmp_path, 512)
    assert "1 to add" in run_and_read_output(
        "plan", "-out=p", "-report=json:p.json", "-report=html:p.html"
    )
    assert "Apply complete" in run_and_read_output("apply", "p")
    write_nested_documents(tmp_path, 512, "2")
    assert "Apply complete" in run_and_read_output("apply", "-auto-approve")
    assert "No changes" in run_and_read_output("plan")
    write_nested_documents(tmp_path, 513)
    refused = run_and_read_output("plan")
    assert "nested more than 512 levels deep" in refused
    assert "Invalid JSON syntax on x.auto.nfvars.json line 1" in refused
    assert "Internal error" not in refused


LONG_WORDS = {
    "digits": ("main.nf.hcl", "locals {\n  a = " + "9" * (1 << 20) + "\n}\n"),
    "escapes": ("main.nf.json", '{"locals": {"a": "' + r"\n" * (1 << 19) + '"}}'),
}


@pytest.mark.parametrize("name", LONG_WORDS)
def test_long_token_uses_little_memory(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file, text = LONG_WORDS[name]
    Path(file).write_text(text)
    tracemalloc.start()
    try:
        run_command_line(["validate"])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # A hundred times its length.
    assert peak < 100 << 20


def test_only_flag_and_environment_raise_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(build_machine(5000, 1))
    assert run_command_line(["plan"]) == 1
    assert run_command_line(["plan", "-limit=cpus_per_cell=5000", "-confine"]) == 0
    monkeypatch.setenv("NF_LIMIT_CPUS_PER_CELL", "6000")
    monkeypatch.setenv("NF_LIMIT_MACHINES", "7")
    assert run_command_line(["plan"]) == 1
    assert "more than 7 machines" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert run_command_line(["plan", "-limit=machines=256"]) == 0


def test_confined_configuration_can_lower_but_not_raise_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = "nexusform {\n  limits {\n    cpus_per_cell = 6000\n    machines = 7\n  }\n}\n"
    Path("main.nf.hcl").write_text(limits + build_machine(5000, 1))
    assert run_command_line(["plan", "-limit=machines=256"]) == 0
    assert run_command_line(["plan"]) == 1
    assert "more than 7 machines" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert run_command_line(["plan", "-confine", "-limit=machines=256"]) == 1
    assert "between 1 and 4096, not 5000" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )
    assert run_command_line(["plan", "-confine"]) == 1
    assert "more than 7 machines" in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_limit_errors_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    limits = (
        'nexusform {\n  limits {\n    vm = 1\n    machines = 1.5\n    instances = "many"\n  }\n}\n'
    )
    Path("main.nf.hcl").write_text(limits)
    assert run_command_line(["validate"]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert all(
        words in said
        for words in ('Did you mean "vms"?', '"machines": a whole number', '"instances"')
    )


def test_limits_in_a_module_are_reported_as_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m").mkdir()
    Path("m/main.nf.hcl").write_text(
        "nexusform {\n  limits {\n    machines = 7\n  }\n}\n" + build_machine(96, 1)
    )
    Path("main.nf.hcl").write_text('module "m" {\n  source = "./m"\n}\n')
    assert run_command_line(["plan"]) == 0
    assert "Settings ignored" in capsys.readouterr().out


LARGE = """
resource "nexus_site" "s" {}
output "long" {
  value = "${join("", [for n in range(140) : format("%010000d", n)])}"
}
"""
LIMITED = "nexusform {\n  limits {\n    file_mib = MIB\n  }\n}\n"


def test_operator_sets_the_maximum_file_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(LARGE)

    def said(*words: str) -> str:
        capsys.readouterr()
        assert run_command_line(words) == 1, words
        captured = capsys.readouterr()
        return " ".join((captured.out + captured.err).replace("│", " ").split())

    assert "more than commands read" in said("plan", "-out=p", "-limit=file_mib=1")
    assert "Planning failed with 1 error" in said("apply", "p")
    assert run_command_line(["plan", "-out=p"]) == 0
    for command in (
        ["show", "p"],
        ["apply", "p"],
        ["graph", "-plan=p"],
        ["export", "-format=az", "p"],
    ):
        assert "larger than 1048576 bytes, the limit for files. To allow" in said(
            *command, "-limit=file_mib=1"
        )
    assert run_command_line(["apply", "p"]) == 0
    limits = Path("limits.nf.hcl")
    for words in (["plan"], ["state", "list"], ["output"], ["state", "verify"]):
        limits.unlink(missing_ok=True)
        assert "raise the limit: -limit=file_mib=N" in said(*words, "-limit=file_mib=1")
        limits.write_text(LIMITED.replace("MIB", "1"))
        assert "larger than 1048576 bytes" in said(*words)
        assert run_command_line([*words, "-limit=file_mib=9"]) == 0
    monkeypatch.setenv("NF_LIMIT_FILE_MIB", "1")
    assert "larger than 1048576 bytes" in said("state", "push", "state/nexusform.nfstate")


@pytest.mark.parametrize("confined", [[], ["-confine"]])
def test_nesting_limit_cannot_be_set(
    confined: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text("nexusform {\n  limits {\n    nesting = 600\n  }\n}\n")
    assert run_command_line(["plan", *confined]) == 1
    told = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert '"nesting" cannot be set: YAML and JSON nest at most 512 levels' in told
    assert "on main.nf.hcl line 3" in told
    assert run_command_line(["plan", "-limit=nesting=600", *confined]) == 1
    assert '-limit: "nesting" cannot be set' in " ".join(capsys.readouterr().err.split())


def test_default_limits() -> None:
    assert (
        PlanSizeLimits(2_000_000, 200_000, 200_000, 4_096, 64 * 1024, 1024, 2_048, 600) == DEFAULT
    )
    assert DEFAULT.file_bytes == 1 << 30
    limits = parse_limit_overrides(
        {"NF_LIMIT_VMS": "2", "NF_LIMIT_MACHINES": "5"}, ["vms=3", "vms=4"]
    )
    assert limits == {"vms": 4, "machines": 5}
    assert merge_limits({"vms": 9, "instances": 8}, limits, confined=True) == PlanSizeLimits(
        4, 5, 8
    )
    assert merge_limits({"file_mib": 4096}, {}, confined=True) == DEFAULT


@pytest.mark.parametrize(
    "word", ["vm=3", "vms", "vms=", "vms=-1", "vms=x", "vms=1e9", "vms=1" + "0" * 20]
)
def test_invalid_limit_flag_is_reported(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["plan", f"-limit={word}"]) == 1
    assert "-limit" in capsys.readouterr().err


def test_repeated_reads_count_toward_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("big").write_bytes(b"x" * (1 << 20))
    Path("main.nf.hcl").write_text(
        'output "h" {\n  value = [for n in range(9) : filesha512("big")]\n}\n'
    )
    assert run_command_line(["plan"]) == 0
    capsys.readouterr()
    assert run_command_line(["plan", "-limit=read_mib=4"]) == 1
    assert "-limit=read_mib=N" in " ".join(capsys.readouterr().err.replace("│", " ").split())


@pytest.mark.parametrize("words", [["plan"], ["sites", "plan"]])
def test_read_limit_cannot_be_caught_by_try(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ConfinedFileAccess.__init__, "__defaults__", (UNCONFINED, 4))
    Path("big").write_bytes(b"x" * (1 << 20))
    read = '[for n in range(9) : try(filesha512("big"), "")]'
    if words[0] == "sites":
        Path("nexusform.sites.hcl").write_text(f"sites {{\n  for_each = toset({read})\n}}\n")
    else:
        Path("main.nf.hcl").write_text(f'output "h" {{\n  value = {read}\n}}\n')
    if words[0] == "plan":
        words = ["plan", "-limit=read_mib=4"]
    code = run_command_line(words)
    err = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert (code, "Read budget" in err) == (1, True)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_planning_stops_at_its_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    long = "[for n in range(600) : length(setproduct(range(300), range(300)))]"
    Path("main.nf.hcl").write_text(f'output "h" {{\n  value = try(length({long}), 0)\n}}\n')
    assert run_command_line(["plan", "-confine", "-limit=seconds=1", "-out=p"]) == 1
    assert "Time budget" in capsys.readouterr().err
    assert run_command_line(["apply", "p"]) == 1
    assert "Planning failed with 1 error: Time budget" in " ".join(
        capsys.readouterr().err.replace("│", " ").split()
    )
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL


@pytest.mark.parametrize("junk", ["\0", "\0\1", "@"])
def test_binary_junk_uses_little_memory(
    junk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    size = 1 << 20
    Path("main.nf.hcl").write_text(junk * size)
    tracemalloc.start()
    assert run_command_line(["plan"]) == 1
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # One token per character took 300 times as much.
    assert most < 32 * size * len(junk)
    assert "main.nf.hcl line 1" in capsys.readouterr().err
