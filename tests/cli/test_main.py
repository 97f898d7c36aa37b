from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from nexusform.cli.command_groups import LazyGroup
from nexusform.cli.command_table import COMMANDS
from nexusform.cli.main import ALIASES, ROOT, run_command_line
from nexusform.cli.version import version
from nexusform.command_entry import CommandEntry
from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error

HEAVY = {
    "networkx",
    "deepdiff",
    "hcl2",
    "lark",
    "rich",
    "yaml",
    "orjson",
    "asyncio",
    "nexusform.planning",
}


def run_command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run_command_line(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def list_loaded_modules(*arguments: str, where: Path | None = None) -> set[str]:
    """Run a command; return the modules imported at its successful end."""
    script = (
        "import sys, json\n"
        "from nexusform.cli.main import run_command_line as run\n"
        f"code = run({list(arguments)!r})\n"
        "sys.stderr.write(json.dumps([code, sorted(sys.modules)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=where
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert done.stdout
    return set(modules)


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["-help"], ["version", "-json"]])
def test_start_imports_no_heavy_modules(arguments: list[str]) -> None:
    assert not HEAVY & list_loaded_modules(*arguments)


def test_plan_imports_modules_of_its_configuration_only(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text('resource "nexus_site" "lab" {}\n')
    modules = list_loaded_modules("plan", where=tmp_path)
    assert "nexusform.planning" in modules
    assert not {"deepdiff", "hcl2", "lark", "rich", "yaml", "asyncio"} & modules
    assert (
        not {
            "nexusform.domains.vnf.importers.vnf_reading",
            "nexusform.domains.azure.importers.az_inventory",
        }
        & modules
    )


# Unused by a plan without fleets, pods, inventories, imports or reports.
NOT_FOR_QUICKSTART = (
    "nexusform.domains.",
    "nexusform.importers",
    "nexusform.language.functions.registry",
    "nexusform.planning.replanning",
    "nexusform.plans.saved",
    "nexusform.rendering.answers",
    "nexusform.rendering.page",
    "nexusform.rendering.pull_request",
)
# Each module adds a fifth of a millisecond to a plan. There is room for a few that a plan uses,
# such as a rule or a lint rule. A package that it does not use has dozens.
MOST_MODULES = 266
MOST_MODULES_OF_ONE_VM = 237
ONE_VM = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "left" {
  site_id       = nexus_site.lab.id
  machine_count = 4
}

resource "nexus_virtual_machine" "one" {
  site_id    = nexus_site.lab.id
  cpu_cores  = 4
  memory_gib = 8
  disk_gib   = 10
}
"""


def select_own_modules(modules: set[str]) -> list[str]:
    return sorted(name for name in modules if name.partition(".")[0] == "nexusform")


def test_plan_of_quickstart_imports_few_modules_and_no_unused_ones(tmp_path: Path) -> None:
    quickstart = Path(__file__).parents[2] / "examples" / "quickstart" / "main.nf.hcl"
    (tmp_path / "main.nf.hcl").write_text(quickstart.read_text())
    modules = list_loaded_modules("plan", where=tmp_path)
    assert not HEAVY - {"nexusform.planning"} & modules
    unused = {m for m in modules if m.startswith(NOT_FOR_QUICKSTART)}
    assert not unused
    ours = select_own_modules(modules)
    assert len(ours) <= MOST_MODULES, ours


def test_plan_of_one_vm_imports_few_modules(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(ONE_VM)
    ours = select_own_modules(list_loaded_modules("plan", where=tmp_path))
    assert "nexusform.scheduling.racks.rack_scheduler" in ours
    assert len(ours) <= MOST_MODULES_OF_ONE_VM, ours


def test_every_command_can_be_loaded_and_has_usage_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in [*COMMANDS, *ALIASES]:
        code, out, _ = run_command(capsys, name, "-help")
        assert code == 0, name
        assert out.startswith(f"Usage: nexusform {name}"), name


def test_help_lists_main_commands_and_help_all(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_command(capsys, "-help")
    assert code == 0
    main, _, examples = out.partition("Main commands:")[2].partition("Examples:")
    names = [line.split()[0] for line in main.splitlines() if line.strip()]
    # The engine's commands, then those of the domains.
    assert names == [
        "validate",
        "fmt",
        "plan",
        "apply",
        "show",
        "explain",
        "import",
        "predict",
        "reconcile",
        "simulate",
    ]
    assert examples.count("  nexusform ") == 3
    assert "All commands: nexusform help all" in examples
    assert run_command(capsys, "help") == run_command(capsys, "help", "help") == (0, out, "")


def test_help_all_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_command(capsys, "help", "all")
    assert code == 0
    assert all(f"  {name} " in out for name in COMMANDS)
    assert all(entry.summary for entry in COMMANDS.values())
    assert run_command(capsys, "-help=all") == (0, out, "")


def test_help_of_command_has_its_own_flags_and_examples_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = run_command(capsys, "plan", "-help")
    flags = [line.split("=")[0].split()[0] for line in out.splitlines() if line.startswith("  -")][
        1:
    ]
    assert flags == [
        "-out",
        "-var",
        "-target",
        "-replace",
        "-destroy",
        "-report",
        "-fail-on",
        "-previous",
    ]
    assert out.endswith("\nAll flags: nexusform plan -help=all\n")
    for command in (["untaint"], ["sites", "plan"], ["state", "mv"]):
        _, short, _ = run_command(capsys, *command, "-help")
        _, full, _ = run_command(capsys, *command, "-help=all")
        assert "-confine" not in short
        assert "-confine" in full
        assert "nexusform plan -out" not in full


def test_unknown_command_suggests_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run_command(capsys, "aply")
    assert (code, out) == (1, "")
    assert 'Unknown command "aply". Did you mean "apply"?' in err


@pytest.mark.parametrize(
    "flag", ["-detailed-exitcod", "--detailed-exitcod", "-detailed-exitcod=true"]
)
def test_unknown_flag_suggests_the_nearest(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    code, _, err = run_command(capsys, "plan", flag)
    assert code == 1
    assert 'Did you mean "-detailed-exitcode"?' in " ".join(err.split())
    assert "nexusform plan -help" in err


@pytest.mark.parametrize("command", [("advise",), ("simulate", "capacity"), ("inventory", "check")])
def test_json_flag_names_the_format_flag(
    capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    code, _, err = run_command(capsys, *command, "-json")
    assert code == 1
    assert "Unknown flag -json. Use -format=json." in err


@pytest.mark.parametrize("flag", ["-json", "--json", "-json=true", "--json=1"])
def test_flags_accept_one_dash_or_two(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    code, out, _ = run_command(capsys, "version", flag)
    assert code == 0
    assert json.loads(out)["nexusform_version"]


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "-input=false", "-parallelism=3", "-compact-warnings"),
        ("plan", "-input", "-parallelism", "3"),
        ("version", "-compact-warnings"),
        ("state", "list", "-compact-warnings"),
    ],
)
def test_flags_of_terraform_are_accepted_and_hidden(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    _, plain, wrong = run_command(
        capsys, *(word for word in words if not word.startswith("-") and word != "3")
    )
    assert run_command(capsys, *words)[1:] == (plain, wrong)
    _, shown, _ = run_command(capsys, *words[:1], "-help=all")
    assert not [flag for flag in ("-parallelism", "-compact-warnings") if flag in shown]


def test_switch_can_be_turned_off(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run_command(capsys, "version", "-json=false")
    assert code == 0
    assert out.startswith("nexusform v")


def test_value_may_follow_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, joined = run_command(capsys, "plan", "-lock-timeout=soon")
    _, _, apart = run_command(capsys, "plan", "-lock-timeout", "soon")
    assert '"soon" is not a duration' in joined
    assert joined == apart
    _, _, missing = run_command(capsys, "plan", "-lock-timeout")
    assert "The flag -lock-timeout needs a value: -lock-timeout=DURATION." in missing


@pytest.mark.parametrize(
    "words",
    [
        "plan -confine=",
        "plan -out=",
        "plan -previous=",
        "plan -sign= -out=p",
        "plan -state=",
        "advise -plan=",
        "test -junit-xml=",
    ],
)
def test_empty_file_name_is_a_usage_error(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command_line(words.split()) == 1
    flag = words.split()[1].rstrip("=")
    assert f"The flag {flag} needs a value: {flag}=" in capsys.readouterr().err


def test_arguments_from_environment_precede_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_CLI_ARGS_version", "-json")
    assert run_command(capsys, "version")[1].startswith("{")
    assert run_command(capsys, "version", "-json=false")[1].startswith("nexusform v")
    monkeypatch.setenv("NF_CLI_ARGS_version", "'")
    assert "NF_CLI_ARGS_version cannot be parsed" in run_command(capsys, "version")[2]


def test_chdir_precedes_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(Path.cwd())
    (tmp_path / "main.nf.hcl").write_text('resource "nexus_site" "here" {}\n')
    code, out, _ = run_command(capsys, f"-chdir={tmp_path}", "graph")
    assert code == 0
    assert "nexus_site.here" in out
    code, _, err = run_command(capsys, "-chdir=/does/not/exist", "graph")
    assert code == 1
    assert 'the directory "/does/not/exist" cannot be entered' in err


def test_unknown_global_option_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_command(capsys, "-chdri=x", "plan")
    assert code == 1
    assert 'Did you mean "chdir"?' in err


def raise_internal_error() -> None:
    raise RuntimeError("a bug")


def test_internal_error_prints_one_paragraph_and_writes_a_log(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(ROOT, "main", lambda *_, **__: raise_internal_error())
    code, out, err = run_command(capsys, "version")
    assert (code, out) == (1, "")
    assert "Traceback" not in err
    assert "\n\n" not in err.strip()
    (log,) = tmp_path.iterdir()
    assert str(log) in err
    # A message may quote a value of the configuration.
    assert "in raise_internal_error" in log.read_text()
    assert log.read_text().endswith("RuntimeError: ...\n")
    monkeypatch.setenv("NF_LOG", "debug")
    assert "RuntimeError: ..." in run_command(capsys, "version")[2]


def test_closed_reader_of_output_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "nexusform", "-help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert done.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("arguments", [["version"], ["-help"], ["version", "-help"]])
def test_full_output_device_is_reported_in_one_sentence(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "nexusform", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(b"Error: the output cannot be written: No space left on device.")
    assert b"\n\n" not in done.stderr.strip()


def test_closed_standard_streams_are_accepted(tmp_path: Path) -> None:
    command = f"cd {tmp_path} && exec {sys.executable} -m nexusform validate"
    (tmp_path / "main.nf.hcl").write_text('resource "nexus_site" "lab" {}\n')
    assert subprocess.run(["sh", "-c", f"{command} >&- 2>&-"], check=False).returncode == 0
    assert (
        subprocess.run(["sh", "-c", f"{command} <&-"], capture_output=True, check=False).returncode
        == 0
    )


def test_unsupported_character_of_terminal_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(
        'output "x" {\n  value = "\u76ee"\n  wrong = 1\n}\n', encoding="utf-8"
    )
    done = subprocess.run(
        [sys.executable, "-m", "nexusform", f"-chdir={tmp_path}", "validate"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 1
    assert b"Unsupported argument" in done.stderr
    assert b"bug" not in done.stderr


def test_group_loads_its_commands_on_demand() -> None:
    loaded = []

    def load_version() -> click.Command:
        loaded.append("v")
        return version

    group = LazyGroup("g", {"v": CommandEntry("Version", load=load_version)}, aliases={"w": "v"})
    assert loaded == []
    context = group.make_context("g", ["v"])
    assert group.get_command(context, "v") is group.get_command(context, "w")
    assert group.get_command(context, "x") is None


def test_help_lists_each_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_command(capsys, "help", "all")
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles[0] == "Main commands:"
    listed = [
        line.split()[0]
        for line in out.splitlines()
        if line.startswith("  ") and line[2:3].islower()
    ]
    assert sorted(name for name in listed if name in COMMANDS) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("login", "read their own credentials"),
        ("env", '"nexusform workspace"'),
        ("cloud", "your backend"),
        ("providers lock", "no lock file"),
        ("state replace-provider", "the next plan applies it"),
    ],
)
def test_unsupported_terraform_command_names_an_alternative(
    capsys: pytest.CaptureFixture[str], word: str, hint: str
) -> None:
    code, _, err = run_command(capsys, *word.split())
    assert code == 1
    assert hint in " ".join(err.split())


def test_every_error_that_ends_a_command_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise DiagnosticsError(
            *(
                build_error("unreadable-file", f"{name} is too large.")
                for name in ("a.json", "b.json")
            )
        )

    monkeypatch.setattr(ROOT, "main", fail)
    code, out, err = run_command(capsys, "plan")
    assert (code, out) == (1, "")
    assert [line for line in err.splitlines() if line.endswith(" is too large.")] == [
        "a.json is too large.",
        "b.json is too large.",
    ]


def test_interrupted_plan_reports_no_changes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(ROOT, "main", interrupt)
    assert run_command(capsys, "plan")[2] == "\nInterrupted. No changes were made.\n"
    assert run_command(capsys, "apply")[2] == "\nInterrupted.\n"
    # A plan file named like a command.
    assert run_command(capsys, "apply", "plan")[2] == "\nInterrupted.\n"


def test_ignored_variables_of_terraform_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CLI_ARGS_version", "-json")
    code, out, err = run_command(capsys, "version")
    assert (code, err) == (0, "TF_CLI_ARGS_version is ignored. Use NF_CLI_ARGS_version.\n")
    assert out.startswith("nexusform v")
    monkeypatch.setenv("NF_CLI_ARGS_version", "-json")
    monkeypatch.setenv("TF_LOG", "debug")
    assert run_command(capsys, "version")[2] == "TF_LOG is ignored. Use NF_LOG.\n"
    monkeypatch.setenv("NF_LOG", "error")
    assert run_command(capsys, "version")[2] == ""


def test_help_of_plan_is_grouped_and_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_command(capsys, "plan", "-help=all")
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert titles == [
        "Plan options:",
        "Result:",
        "Output:",
        "Apply options:",
        "State and backend:",
        "Confinement:",
        "Other options:",
        "Examples:",
    ]
    others = out.partition("Other options:")[2].partition("Examples:")[0]
    assert others.split()[0] == "--help", (
        "a new flag of plan belongs to a chapter (cli/help_rows.py)"
    )
    assert len(others.strip().splitlines()) == 1
    assert "  nexusform plan -out=p.nfplan  " in out
    _, few, _ = run_command(capsys, "untaint", "-help")
    assert "Options:" in few
    assert "Examples:" not in few


def test_deleted_current_directory_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    monkeypatch.chdir(deleted)
    deleted.rmdir()
    assert run_command_line(["plan", "-report=json:x.json"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert (
        said
        == "Error: the current directory was deleted. Change to another one, or use -chdir=DIR."
    )


@pytest.mark.parametrize("value", ["abc", "-1", "1.5", "253402300800"])
def test_wrong_source_date_epoch_is_an_error(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", value)
    code, out, err = run_command(capsys, "plan")
    assert (code, out) == (1, "")
    assert f'SOURCE_DATE_EPOCH="{value}" is not a time: ' in " ".join(err.split())
    # As if it was unset.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "")
    assert run_command(capsys, "version")[0] == 0
