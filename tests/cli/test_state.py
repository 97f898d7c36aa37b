"""Tests of `nexusform state ...`: output, exit code and written files."""

import json
import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.interfaces.state_storage import LockInfo
from nexusform.resources.address import parse_address
from nexusform.state.journal import InstanceOutcome, Intent
from nexusform.state.journal import encode_journal_record as line_of
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import decode_state, encode_state

PATH = Path("state/nexusform.nfstate")


def build_rack(name: str, creation: int = 1, **more: object) -> InstanceState:
    attributes = {"id": f"lab/{name}", "name": name, "site_id": "lab", "machine_count": 1}
    return InstanceState(ObjectState(attributes, creation, **more))  # type: ignore[arg-type]


STATE = State(
    "lineage-1",
    3,
    "0.1.0",
    "c",
    {
        parse_address("nexus_rack.r[0]"): build_rack("r0", 1),
        parse_address("nexus_rack.r[1]"): build_rack("r1", 2),
        parse_address('module.m["k"].nexus_rack.x'): build_rack(
            "x", 3, dependencies=("nexus_rack.r",)
        ),
    },
    last_creation=3,
)


@pytest.fixture(autouse=True)
def state_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("NF_WORKSPACE", "NF_DATA_DIR", "NF_CLI_ARGS"):
        monkeypatch.delenv(name, raising=False)
    PATH.parent.mkdir()
    PATH.write_bytes(encode_state(STATE))


def read_state() -> State:
    state, problems = decode_state(PATH.read_bytes(), str(PATH))
    assert problems == []
    assert state is not None
    return state


def list_instances() -> list[str]:
    return sorted(str(address) for address in read_state().instances)


def lock_by_another_process() -> LocalBackend:
    """Lock the state as another running process."""
    backend = LocalBackend(str(PATH))
    backend.lock(
        LockInfo("their-id", "apply", "them", "0", "now", "p", socket.gethostname(), os.getpid())
    )
    return backend


def test_list_shows_one_address_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "list"]) == 0
    assert (
        capsys.readouterr().out == 'nexus_rack.r[0]\nnexus_rack.r[1]\nmodule.m["k"].nexus_rack.x\n'
    )


@pytest.mark.parametrize(
    ("arguments", "listed"),
    [
        (["module.m"], ['module.m["k"].nexus_rack.x']),
        (["nexus_rack.r[1]", "nexus_rack.r[0]"], ["nexus_rack.r[0]", "nexus_rack.r[1]"]),
        (["-id=lab/r1"], ["nexus_rack.r[1]"]),
        (["-id=lab/none"], []),
    ],
)
def test_list_can_be_filtered(
    arguments: list[str], listed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["state", "list", *arguments]) == 0
    assert capsys.readouterr().out.split() == listed


def test_list_of_unknown_address_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    for address in ("nexus_rack.r[7]", "nexus_rack.q", "module.n"):
        assert run_command_line(["state", "list", "nexus_rack.r", address]) == 1
        shown = capsys.readouterr()
        assert shown.out == ""
        assert f"The state has no object at {address}." in " ".join(
            shown.err.replace("│", " ").split()
        )


@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["show", "a.b"],
        ["mv", "a.b", "a.c"],
        ["rm", "a.b"],
        ["mv", "-dry-run", "a.b", "a.c"],
        ["rm", "-dry-run", "a.b"],
    ],
)
def test_commands_without_a_state_fail(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    PATH.unlink()
    assert run_command_line(["state", *words]) == 1
    error = capsys.readouterr().err
    assert "No state file was found!" in error
    assert "state list" not in error


def test_invalid_address_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "rm", "nexus_rack."]) == 1
    assert "Invalid address" in capsys.readouterr().err


def test_show_prints_the_block_of_one_instance(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "show", "nexus_rack.r[1]"]) == 0
    text = capsys.readouterr().out
    assert text.startswith('# nexus_rack.r[1]:\nresource "nexus_rack" "r" {\n')
    assert '"lab/r1"' in text
    assert run_command_line(["state", "show", "nexus_rack.r"]) == 1
    assert "matches 2" in capsys.readouterr().err


def test_damaged_state_is_reported_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    PATH.write_bytes(PATH.read_bytes()[:200])
    before = PATH.read_bytes()
    for words in (["list"], ["pull"], ["rm", "nexus_rack.r"]):
        assert run_command_line(["state", *words]) == 1
        shown = capsys.readouterr().err
        assert "State is not valid JSON" in shown
        assert "Traceback" not in shown
    assert PATH.read_bytes() == before


def test_list_and_show_print_documents(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "list", "-json", "nexus_rack.r"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "format_version": "1.0",
        "resources": [
            {
                "address": f"nexus_rack.r[{index}]",
                "mode": "managed",
                "type": "nexus_rack",
                "name": "r",
                "index": index,
                "id": f"lab/r{index}",
            }
            for index in (0, 1)
        ],
        "diagnostics": [],
    }
    assert run_command_line(["state", "show", "-json", 'module.m["k"].nexus_rack.x']) == 0
    document = json.loads(capsys.readouterr().out)
    assert run_command_line(["show", "-json"]) == 0
    shown = json.loads(capsys.readouterr().out)["values"]["root_module"]["child_modules"][0]
    assert document == {
        "format_version": "1.0",
        "resource": shown["resources"][0],
        "diagnostics": [],
    }
    assert document["resource"]["values"]["name"] == "x"


def test_documents_have_deposed_objects(capsys: pytest.CaptureFixture[str]) -> None:
    address = parse_address("nexus_rack.r[0]")
    rack = STATE.instances[address]
    old = build_rack("old", 3).current
    assert old is not None
    for current, listed in ((rack.current, {"id": "lab/r0"}), (None, {})):
        instance = InstanceState(current, {"ab": old})
        PATH.write_bytes(encode_state(replace(STATE, instances={address: instance})))
        assert run_command_line(["state", "list", "-json"]) == 0
        resource = json.loads(capsys.readouterr().out)["resources"][0]
        assert {**resource, **listed, "deposed_keys": ["ab"]} == resource
        assert run_command_line(["state", "show", "-json", str(address)]) == 0
        document = json.loads(capsys.readouterr().out)
        objects = [document["resource"], *document.get("deposed_resources", [])]
        names = [(item["values"]["name"], item.get("deposed_key")) for item in objects]
        assert names == [("r0", None), ("old", "ab")][current is None :]


@pytest.mark.parametrize(
    ("command", "part", "error"),
    [
        (["list", "-json", "nexus_rack.q"], "resources", "no-such-resource-instance"),
        (["list", "-json", "["], "resources", "invalid-address"),
        (["show", "-json", "nexus_rack.r"], "resource", "no-instance-found-for-the-given-address"),
        (["show", "-json", "nexus_rack.r[0]"], "resource", "no-state-file-was-found"),
        (["list", "-json"], "resources", "no-state-file-was-found"),
    ],
)
def test_errors_are_part_of_the_documents(
    capsys: pytest.CaptureFixture[str], command: list[str], part: str, error: str
) -> None:
    if error == "no-state-file-was-found":
        PATH.unlink()
    assert run_command_line(["state", *command]) == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["diagnostics"][0]["id"], captured.err) == (error, "")
    assert not document[part]


def test_mv_renames_and_reports_moves(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "mv", "nexus_rack.r", "nexus_rack.s"]) == 0
    shown = capsys.readouterr().out
    assert 'Move "nexus_rack.r[0]" to "nexus_rack.s[0]"\n' in shown
    assert shown.endswith("Successfully moved 2 object(s).\n")
    assert list_instances() == ['module.m["k"].nexus_rack.x', "nexus_rack.s[0]", "nexus_rack.s[1]"]
    after = read_state()
    assert (after.serial, after.lineage) == (4, "lineage-1")
    moved = after.instances[parse_address('module.m["k"].nexus_rack.x')].current
    assert moved is not None
    assert moved.dependencies == ("nexus_rack.s",)
    assert not PATH.with_name("nexusform.nfstate.lock.info").exists()


def test_mv_moves_objects_of_a_module() -> None:
    assert run_command_line(["state", "mv", "module.m", "module.n"]) == 0
    assert 'module.n["k"].nexus_rack.x' in list_instances()


def test_dry_run_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = PATH.read_bytes()
    assert run_command_line(["state", "mv", "-dry-run", "nexus_rack.r[0]", "nexus_rack.one"]) == 0
    assert capsys.readouterr().out == 'Would move "nexus_rack.r[0]" to "nexus_rack.one"\n'
    assert run_command_line(["state", "rm", "-dry-run", "module.m"]) == 0
    assert capsys.readouterr().out == 'Would remove module.m["k"].nexus_rack.x\n'
    assert PATH.read_bytes() == before


def test_mv_to_existing_address_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "mv", "nexus_rack.r[0]", "nexus_rack.r[1]"]) == 1
    assert "Move target exists" in capsys.readouterr().err
    assert read_state() == STATE


def test_rm_removes_objects_from_state(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "rm", "nexus_rack.r[0]", "module.m"]) == 0
    shown = capsys.readouterr().out
    assert shown.endswith(
        'Removed nexus_rack.r[0]\nRemoved module.m["k"].nexus_rack.x\nSuccessfully removed 2 '
        "resource instance(s).\n"
    )
    assert list_instances() == ["nexus_rack.r[1]"]
    assert run_command_line(["state", "rm", "nexus_rack.r[0]"]) == 1
    assert "No matching objects found" in capsys.readouterr().err


def test_rm_of_vms_warns_about_running_vms(capsys: pytest.CaptureFixture[str]) -> None:
    state_directory = {"machine": "bm1", "rack": "r1", "availability_zone": "1", "numa_cells": [0]}
    vm = ObjectState(
        {"id": "lab/v", "name": "v", "cpu_cores": 4, "memory_size_gb": 8, **state_directory}, 4
    )
    address = parse_address("nexus_virtual_machine.v")
    PATH.write_bytes(encode_state(STATE.replace_instance(address, InstanceState(vm))))
    assert run_command_line(["state", "rm", "nexus_virtual_machine.v"]) == 0
    shown = capsys.readouterr().out
    assert "Forgotten VMs keep running" in shown
    assert "nexus_virtual_machine.v: 1 VM" in shown


def test_pulled_state_can_be_pushed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["state", "pull"]) == 0
    text = capsys.readouterr().out
    assert text.encode() == encode_state(STATE)
    document = json.loads(text) | {"serial": 9}
    Path("mine.json").write_text(json.dumps(document))
    assert run_command_line(["state", "push", "mine.json"]) == 0
    assert read_state().serial == 9


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({"lineage": "other"}, "Unrelated state"),
        ({"serial": 2}, "Outdated state"),
        ({"catalogue": "d"}, "Conflicting state serial"),
    ],
)
def test_push_of_unrelated_or_outdated_state_requires_force(
    changes: dict[str, object], summary: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(encode_state(STATE)) | changes
    Path("mine.json").write_text(json.dumps(document))
    assert run_command_line(["state", "push", "mine.json"]) == 1
    assert summary in capsys.readouterr().err
    assert read_state() == STATE
    assert run_command_line(["state", "push", "-force", "mine.json"]) == 0
    after = read_state()
    assert after.serial == 4
    assert after.lineage == document["lineage"]


def test_forced_push_replaces_a_damaged_state(capsys: pytest.CaptureFixture[str]) -> None:
    Path("backup.json").write_bytes(encode_state(STATE))
    PATH.write_bytes(PATH.read_bytes()[:40])
    damaged = PATH.read_bytes()
    assert run_command_line(["state", "push", "backup.json"]) == 1
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "is not valid JSON" in said
    assert "`nexusform state push -force FILE`" in said
    assert PATH.read_bytes() == damaged
    assert run_command_line(["state", "push", "-force", "backup.json"]) == 0
    assert "its serial and lineage are unknown" in " ".join(
        capsys.readouterr().out.replace("│", " ").split()
    )
    assert read_state().instances == STATE.instances
    # The backup is the damaged document now.
    assert run_command_line(["state", "history"]) == 0
    said = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "version backup is not valid JSON" in said
    assert "version backup.backup" not in said
    assert "It is left out of the history." in said


def test_push_of_older_state_reuses_no_creation_number() -> None:
    document = json.loads(encode_state(STATE)) | {"serial": 1, "last_creation": 1, "resources": []}
    Path("mine.json").write_text(json.dumps(document))
    assert run_command_line(["state", "push", "-force", "mine.json"]) == 0
    assert read_state().last_creation == 3


def test_push_of_unchanged_state_changes_nothing() -> None:
    Path("mine.json").write_bytes(PATH.read_bytes())
    assert run_command_line(["state", "push", "mine.json"]) == 0
    assert read_state() == STATE


@pytest.mark.parametrize(
    ("file", "said"), [("none.json", "cannot be read"), (".", "cannot be read")]
)
def test_push_of_unreadable_file_is_reported(
    file: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["state", "push", file]) == 1
    assert said in capsys.readouterr().err


def test_push_reports_errors_in_the_document(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.json").write_text(
        '{"format": "nexusform", "kind": "state",\n "version": 1, "resources": 3}'
    )
    assert run_command_line(["state", "push", "mine.json"]) == 1
    shown = capsys.readouterr().err
    assert "mine.json line 2" in shown
    assert read_state() == STATE


@pytest.mark.parametrize("flags", [[], ["-force"]])
def test_push_rejects_a_document_that_no_plan_would_read(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(encode_state(STATE)) | {"serial": 9}
    document["resources"][0]["instances"][0]["attributes"]["machine_count"] = "many"
    Path("mine.json").write_text(json.dumps(document, indent=1))
    assert run_command_line(["state", "push", *flags, "mine.json"]) == 1
    assert '"machine_count" must be' in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert read_state() == STATE
    text = encode_state(STATE).decode().rstrip()
    Path("mine.json").write_text(text[:-1] + ', "serial": 9}')
    assert run_command_line(["state", "push", *flags, "mine.json"]) == 1
    assert "duplicate keys" in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert read_state() == STATE


def test_writing_commands_require_the_lock(capsys: pytest.CaptureFixture[str]) -> None:
    other = lock_by_another_process()
    Path("mine.json").write_bytes(PATH.read_bytes())
    for words in (
        ["state", "mv", "nexus_rack.r", "nexus_rack.s"],
        ["state", "rm", "module.m"],
        ["state", "push", "mine.json"],
        ["untaint", "nexus_rack.r[0]"],
    ):
        assert run_command_line(words) == 1
        assert "their-id" in capsys.readouterr().err
    assert read_state() == STATE
    assert run_command_line(["state", "list"]) == 0
    assert run_command_line(["state", "rm", "-lock=false", "module.m"]) == 0
    other.unlock("their-id")


def test_records_of_killed_apply_are_read_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    made = build_rack("new", 4)
    backend = LocalBackend(str(PATH))
    backend.append(line_of(InstanceOutcome(parse_address("nexus_rack.new"), 4, made)))
    assert run_command_line(["state", "list", "nexus_rack.new"]) == 0
    assert capsys.readouterr().out == "nexus_rack.new\n"
    assert run_command_line(["state", "rm", "module.m"]) == 0
    assert read_state().instances[parse_address("nexus_rack.new")] == made
    assert backend.read_journal() == []


def test_step_with_unknown_outcome_stops_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    intent = Intent(parse_address("nexus_rack.new"), "create", "nexus_rack", "lab/new", 4)
    LocalBackend(str(PATH)).append(line_of(intent))
    assert run_command_line(["state", "rm", "module.m"]) == 1
    shown = capsys.readouterr().err
    assert "Apply interrupted" in shown
    assert "nexus_rack.new" in shown
    assert read_state() == STATE


@pytest.mark.parametrize(
    "command",
    [
        "show",
        "show nexus_rack.x",
        "output",
        "console",
        "graph",
        "advise",
        "explain nexus_rack.x",
        "simulate capacity",
        "state list",
        "state pull",
        "state history",
        "state verify",
    ],
)
def test_missing_state_file_is_no_empty_state(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A misspelled file is an error of every command that only reads."""
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {\n}\n')
    assert run_command_line([*command.split(), "-state=states/lab.nfstat"]) == 1
    assert 'there is no state "states/lab.nfstat".' in capsys.readouterr().err


def test_state_with_a_journal_only_is_read() -> None:
    """A first apply that was interrupted has written no state yet."""
    Path("new.nfstate.journal").write_bytes(b"")
    assert run_command_line(["show", "-state=new.nfstate"]) == 0


@pytest.mark.parametrize("flags", [[], ["-dry-run"]])
def test_rm_of_an_unknown_address_warns_beside_a_known_one(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = list_instances()
    assert run_command_line(["state", "rm", *flags, "nexus_rack.q"]) == 1
    captured = capsys.readouterr()
    assert "The state has no object at nexus_rack.q." in captured.err
    assert "changes were made." in captured.err
    assert list_instances() == before
    # As in Terraform, the known one is removed.
    assert run_command_line(["state", "rm", *flags, "nexus_rack.r[0]", "nexus_rack.q"]) == 0
    out = capsys.readouterr().out
    assert "The state has no object at nexus_rack.q." in out
    assert "changes were made." not in out
    assert "nexus_rack.r[0]" in out
    assert len(list_instances()) == len(before) - (not flags)
