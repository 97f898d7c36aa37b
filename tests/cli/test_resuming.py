"""Tests of unfinished applies.

The remaining steps are applied as planned, or discarded, and never planned again.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.diagnostics.diagnostic import build_error
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.planning.conclusion import plan_assembly
from nexusform.plans.saved import plan_file
from tests import commands
from tests.cli.killed_commands import DIED
from tests.kill_points import SHARE, tries_all

STATE = Path("state/nexusform.nfstate")
SITE = """provider "simulated" {{
  reality = "site.json"
}}
resource "nexus_site" "lab" {{
  name = "lab"
  scheduler {{
    tie_break_seed = {seed}
  }}
}}
resource "nexus_rack" "r" {{
  count         = 4
  site_id       = nexus_site.lab.id
  name          = "rack${{count.index + 1}}"
  machine_count = 8
}}
resource "nexus_kubernetes_cluster" "c" {{
  count      = 3
  name       = "c${{count.index}}"
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r]
  control_plane {{
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }}
  agent_pool "workers" {{
    count       = {workers}
    vm_sku_name = "NC_P46_224_v1"
  }}
}}
output "machines" {{
  value = {{ for c in nexus_kubernetes_cluster.c : c.name => {{ for n, v in c.nodes : n => v.machine }} }}
}}
"""  # noqa: E501

Shell = Callable[..., tuple[int, str]]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    monkeypatch.chdir(tmp_path)
    write_configuration()

    def run_and_join_output(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run_command_line(list(words))
        both = capsys.readouterr()
        return code, " ".join((both.out + both.err).replace("│", " ").split())

    return run_and_join_output


def write_configuration(seed: int = 8, workers: int = 3) -> None:
    Path("main.nf.hcl").write_text(SITE.format(seed=seed, workers=workers))


def read_machines() -> dict[str, Any]:
    """Return the machine of every node in the state."""
    document = json.loads(STATE.read_text())
    return {
        name: node["machine"]
        for resource in document["resources"]
        if resource["type"] == "nexus_kubernetes_cluster"
        for instance in resource["instances"]
        for name, node in instance["attributes"]["nodes"].items()
    }


def kill_apply(words: list[str], call: int) -> bool:
    """Run apply in a process killed at a durable call; return whether it was killed."""
    command = [*commands.build_module_command("tests.cli.killed_commands"), str(call), *words]
    return subprocess.run(command, capture_output=True, check=False).returncode == DIED


@pytest.mark.slow
def test_reviewed_plan_is_completed_after_a_kill_at_any_call(nf: Shell, tmp_path: Path) -> None:
    points = 0
    for call in range(1, 100, 1 if tries_all() else SHARE):
        place = tmp_path / f"point{call}"
        place.mkdir()
        os.chdir(place)
        write_configuration()
        assert nf("plan", "-out=p.plan")[0] == 0
        # A new plan would differ from here, so only the reviewed plan may be applied.
        reviewed = json.loads(_read_planned_machines(nf))
        if not kill_apply(["apply", "-parallelism=2", "p.plan"], call):
            break
        points += 1
        code, told = nf("apply", "-resume")
        if code and "Nothing to resume" in told:
            # Killed before the plan was in the journal (then it can still be applied), or after
            # its last step.
            code, told = nf("apply", "p.plan")
            code = 0 if "Saved plan already applied" in told else code
        assert code == 0, (call, told)
        assert read_machines() == reviewed, call
        assert nf("plan", "-detailed-exitcode")[0] == 0
        assert not list(Path("state").glob("*.journal"))
    # The opening, three steps of which each needs the one before, the last outcomes and the state.
    # More steps share a write on a slow disk, so that there are more points on a fast one.
    assert points >= (5 if tries_all() else 1)


def _read_planned_machines(nf: Shell) -> str:
    assert nf("show", "-report=json:plan.json", "p.plan")[0] == 0
    document = json.loads(Path("plan.json").read_text())
    rows = document["placement_changes"]
    return json.dumps({row["object"]: row["to"]["machine"] for row in rows if row["kind"] == "vm"})


def interrupt_apply(nf: Shell, call: int = 6) -> None:
    """Kill an apply of the configuration in the middle."""
    assert kill_apply(["apply", "-auto-approve", "-parallelism=1"], call)
    assert nf("state", "list")[0] == 0


def test_lost_last_record_of_an_earlier_run_is_noticed(nf: Shell) -> None:
    assert kill_apply(["apply", "-auto-approve", "-parallelism=1"], 4)
    assert kill_apply(["apply", "-resume", "-parallelism=1"], 6)
    journal = STATE.with_name(f"{STATE.name}.journal")
    complete = journal.read_bytes().splitlines(keepends=True)
    assert nf("state", "list")[0] == 0
    [progress] = [line for line in complete if b'"kind":"progress"' in line]
    assert complete[-1] != progress
    journal.write_bytes(b"".join(line for line in complete if line != progress))
    code, told = nf("apply", "-resume")
    assert code == 1
    assert "Damaged journal" in told
    assert "Records before it are missing" in told
    journal.write_bytes(b"".join(complete))
    code, told = nf("apply", "-resume")
    assert code == 0, told


def test_next_apply_completes_a_killed_apply_first(nf: Shell) -> None:
    interrupt_apply(nf)
    code, told = nf("plan")
    assert code == 0
    assert "Apply interrupted" in told
    assert "`nexusform apply -resume`" in told
    code, told = nf("apply", "-auto-approve")
    assert code == 0
    assert "Finishing an earlier apply first" in told
    assert "No changes." in told
    assert nf("plan", "-detailed-exitcode")[0] == 0


def test_run_without_lock_beside_a_running_apply_does_not_call_it_interrupted(nf: Shell) -> None:
    interrupt_apply(nf)
    journal = STATE.with_name("nexusform.nfstate.journal")
    (lock_file,) = Path("state").glob("*.lock*")
    dead_lock = lock_file.read_text()
    assert "Apply interrupted" in nf("plan", "-lock=false")[1]
    # The holder lives: it is this process.
    lock = json.loads(dead_lock) | {"Pid": os.getpid(), "Start": ""}
    lock_file.write_text(json.dumps(lock))
    before = (STATE.read_bytes() if STATE.exists() else b"", journal.read_bytes())
    code, told = nf("plan", "-lock=false")
    assert code == 0, told
    assert "Apply interrupted" not in told
    assert "An apply of " in told
    assert f"is in progress (lock {lock['ID']})" in told
    for words in (
        ["apply", "-auto-approve", "-lock=false"],
        ["apply", "-resume", "-lock=false"],
        ["state", "rm", "-lock=false", "nexus_site.lab"],
    ):
        code, told = nf(*words)
        assert code == 1, words
        assert "is in progress" in told, (words, told)
        assert "nterrupted" not in told, (words, told)
    assert (STATE.read_bytes() if STATE.exists() else b"", journal.read_bytes()) == before
    # A plan writes nothing: the apply was interrupted before it.
    lock_file.write_text(json.dumps(lock | {"Operation": "OperationTypePlan"}))
    assert "Apply interrupted" in nf("plan", "-lock=false")[1]


def test_changed_configuration_is_not_mixed_with_killed_apply(nf: Shell) -> None:
    interrupt_apply(nf)
    write_configuration(workers=4)
    before = STATE.with_name("nexusform.nfstate.journal").read_bytes()
    code, told = nf("apply", "-auto-approve")
    assert code == 1
    assert "The configuration changed since." in told
    assert "`nexusform apply -resume`" in told
    assert "`nexusform apply -discard`" in told
    code, told = nf("apply", "-resume")
    assert code == 0, told
    assert len(read_machines()) == 12
    code, told = nf("apply", "-auto-approve")
    assert code == 0
    assert len(read_machines()) == 15
    assert before


def test_remaining_steps_can_be_discarded(nf: Shell) -> None:
    interrupt_apply(nf)
    code, told = nf("apply", "-discard")
    assert code == 0
    assert "Dropped" in told
    assert "steps of an earlier apply" in told
    assert "Nothing to resume" in nf("apply", "-resume")[1]
    code, told = nf("plan")
    assert "Apply interrupted" not in told
    assert nf("apply", "-discard")[1] == "No unfinished apply."


def test_journal_of_another_state_is_kept_beside_it(nf: Shell) -> None:
    interrupt_apply(nf)
    journal = STATE.with_name("nexusform.nfstate.journal")
    lines = journal.read_bytes()
    assert nf("apply", "-auto-approve")[0] == 0
    document = STATE.read_bytes()
    # As with a state that another machine wrote.
    journal.write_bytes(lines)
    code, told = nf("plan")
    assert code == 1
    assert "run `nexusform apply -discard` in a directory with the `backend` block" in told
    code, told = nf("apply", "-discard")
    assert code == 0
    assert 'are kept in "state/nexusform.nfstate.journal.old"' in told
    assert "No unfinished apply" not in told
    assert STATE.with_name("nexusform.nfstate.journal.old").read_bytes() == lines
    assert STATE.read_bytes() == document
    assert nf("plan", "-detailed-exitcode")[0] == 0
    assert nf("apply", "-discard")[1] == "No unfinished apply."


def test_apply_is_not_resumed_after_change_of_state(nf: Shell) -> None:
    interrupt_apply(nf)
    # determines the outcome of the interrupted step.
    assert nf("apply", "-refresh-only", "-auto-approve")[0] == 0
    assert nf("state", "mv", "nexus_site.lab", "nexus_site.other")[0] == 0
    code, told = nf("apply", "-resume")
    assert code == 1
    assert "State changed since apply" in told
    assert "-discard" in told
    assert nf("apply", "-discard")[0] == 0


def test_crash_during_recovery_loses_nothing(nf: Shell) -> None:
    """The remaining steps stay in the journal after an interrupt at any point.

    The points are those of recovery and compaction.
    """
    reviewed: dict[str, Any] = {}
    for call in range(1, 12):
        for path in Path("state").glob("*"):
            path.unlink()
        Path("site.json").unlink(missing_ok=True)
        interrupt_apply(nf)
        died = kill_apply(["apply", "-refresh-only", "-auto-approve"], call)
        code, told = nf("apply", "-resume")
        assert code == 0, (call, told)
        reviewed = reviewed or read_machines()
        assert read_machines() == reviewed
        if not died:
            break
    assert call > 1


def test_remaining_steps_migrate_with_their_state(nf: Shell) -> None:
    interrupt_apply(nf)
    # determines the outcome of the interrupted step.
    assert nf("apply", "-refresh-only", "-auto-approve")[0] == 0
    here = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(
        'nexusform {\n  backend "local" {\n    path = "elsewhere/s.nfstate"\n  }\n}\n' + here
    )
    code, told = nf("init", "-migrate-state")
    assert code == 0, told
    code, told = nf("apply", "-resume")
    assert code == 0, told
    assert "Apply complete!" in told
    document = json.loads(Path("elsewhere/s.nfstate").read_text())
    kinds = [resource["type"] for resource in document["resources"]]
    assert kinds.count("nexus_kubernetes_cluster") == 1
    assert not list(Path("elsewhere").glob("*.journal"))
    assert nf("plan", "-detailed-exitcode")[0] == 0


def test_import_keeps_remaining_steps(nf: Shell) -> None:
    interrupt_apply(nf)
    assert nf("apply", "-refresh-only", "-auto-approve")[0] == 0
    reality = json.loads(Path("site.json").read_text())
    rack = next(entry for entry in reality if entry["type"] == "nexus_rack")
    foreign = {**rack, "id": "lab/spare", "creation": 90}
    foreign["attributes"] = {**rack["attributes"], "id": "lab/spare", "name": "spare"}
    Path("site.json").write_text(json.dumps([*reality, foreign]))
    with Path("main.nf.hcl").open("a") as file:
        file.write(
            'resource "nexus_rack" "spare" {\n  site_id = nexus_site.lab.id\n  name = '
            '"spare"\n  machine_count = 8\n}\n'
        )
    code, told = nf("import", "nexus_rack.spare", "lab/spare")
    assert code == 0, told
    code, told = nf("apply", "-discard")
    assert "steps of an earlier apply" in told


def test_unreadable_remaining_steps_stop_a_new_apply(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_apply(nf)
    assert nf("apply", "-refresh-only", "-auto-approve")[0] == 0
    before = STATE.read_bytes()
    unreadable = build_error("unreadable-plan", "the plan in the journal: it is damaged.")
    monkeypatch.setattr(plan_file, "read_plan_file", lambda _document, _name: (None, [unreadable]))
    code, told = nf("apply", "-auto-approve")
    assert code == 1
    assert "the plan in the journal: it is damaged." in told
    assert STATE.read_bytes() == before
    assert "Dropped" in nf("apply", "-discard")[1]
    assert nf("apply", "-auto-approve")[0] == 0


def test_remaining_steps_of_a_newer_version_are_a_warning_of_plan(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = (
        'fault {\n    address = "nexus_rack.r[*]"\n    operation = "create"\n    error = "no '
        'power"\n  }'
    )
    configuration = Path("main.nf.hcl")
    configuration.write_text(
        configuration.read_text().replace('"site.json"', f'"site.json"\n  {fault}')
    )
    with monkeypatch.context() as patch:
        patch.setattr(plan_assembly, "__version__", "999.0.0")
        assert nf("apply", "-auto-approve")[0] == 1
    write_configuration()
    code, told = nf("plan")
    assert code == 0
    assert "Error:" not in told
    assert (
        "Warning: Steps not applied The plan in the journal was created by nexusform 999.0.0"
        in told
    )
    for flags in (("-resume",), ("-auto-approve",)):
        code, told = nf("apply", *flags)
        assert code == 1
        assert "Error: Newer plan format" in told
        assert "`nexusform apply -discard` drops" in told
    assert nf("apply", "-discard")[0] == 0
    assert nf("apply", "-auto-approve")[0] == 0


def fail_with_full_disk(_self: LocalBackend, _document: bytes, _keep: object = ()) -> None:
    raise BackendProblem("The disk is full.")


@pytest.mark.parametrize("flags", [(), ("-json",)])
def test_apply_with_unsaved_state_is_not_reported_as_complete(
    nf: Shell, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    monkeypatch.setattr(LocalBackend, "write_merged_state", fail_with_full_disk)
    code, told = nf("apply", "-auto-approve", *flags)
    assert code == 1
    assert "errored.nfstate" in told
    assert "Apply complete!" not in told


def test_rescued_state_is_pushed_despite_truncated_journal(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full: the journal ends early, and the document cannot be written."""
    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "write_merged_state", fail_with_full_disk)
        code, told = nf("apply", "-auto-approve", "-parallelism=1")
    assert code == 1
    assert "errored.nfstate" in told
    journal = STATE.with_name("nexusform.nfstate.journal")
    whole = journal.read_bytes().splitlines(keepends=True)
    rescued = Path("errored.nfstate").read_bytes()
    # No line, up to the middle of a step, nearly all.
    for kept in (0, len(whole) // 2, len(whole) - 4):
        journal.write_bytes(b"".join(whole[:kept]))
        STATE.unlink(missing_ok=True)
        Path("errored.nfstate").write_bytes(rescued)
        code, told = nf("state", "push", "errored.nfstate")
        assert code == 0, told
        assert len(read_machines()) == 12
        assert nf("apply", "-discard")[0] == 0
        assert nf("plan", "-detailed-exitcode")[0] == 0
    journal.unlink(missing_ok=True)
    assert nf("state", "mv", "nexus_site.lab", "nexus_site.other")[0] == 0
    # The state has changed since.
    assert nf("state", "push", "errored.nfstate")[0] == 1


def test_journal_truncated_in_its_opening_allows_apply_of_plan(nf: Shell) -> None:
    assert nf("plan", "-out=p.plan")[0] == 0
    reviewed = json.loads(_read_planned_machines(nf))
    assert kill_apply(["apply", "-parallelism=1", "p.plan"], 2)
    journal = STATE.with_name("nexusform.nfstate.journal")
    lines = journal.read_bytes().splitlines(keepends=True)
    opening = 1 + next(at for at, line in enumerate(lines) if b'"intent"' in line)
    assert opening > 2
    for kept in range(opening):
        for path in STATE.parent.glob("*"):
            path.unlink()
        Path("site.json").unlink(missing_ok=True)
        journal.write_bytes(b"".join(lines[:kept]))
        code, told = nf("apply", "-resume")
        if code:
            assert "Nothing to resume" in told
            code, told = nf("apply", "p.plan")
        assert code == 0, (kept, told)
        assert read_machines() == reviewed


def test_apply_without_any_write_leaves_no_errored_state(
    nf: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert nf("plan", "-out=p.plan")[0] == 0
    reviewed = json.loads(_read_planned_machines(nf))

    def fail_with_lost_connection(_self: LocalBackend, *_: object) -> None:
        raise BackendProblem("The connection is lost.")

    with monkeypatch.context() as patch:
        patch.setattr(LocalBackend, "append_all", fail_with_lost_connection)
        patch.setattr(LocalBackend, "write_merged_state", fail_with_lost_connection)
        code, told = nf("apply", "p.plan")
    assert code == 1
    assert "No objects were changed; the plan can still be applied." in told
    assert not Path("errored.nfstate").exists()
    assert nf("apply", "p.plan")[0] == 0
    assert read_machines() == reviewed
