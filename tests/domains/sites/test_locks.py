"""Tests of locks of a dead host.

All of a wave are reported at once and released in one command, and apply resumes.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.domains.sites.cli import apply as sites_apply
from nexusform.domains.sites.engines.local_workers import LocalTaskEngine
from nexusform.domains.sites.types.site_tasks import OnResult, SiteTaskKind, Task, TaskEngineError
from nexusform.rendering.report.report_tree import Report
from nexusform.rendering.text.report_text import render_report_text
from nexusform.state.journal import ApplyStart, encode_journal_record

Command = Callable[..., tuple[int, str, str]]
Fleet = Callable[..., None]
NAMES = [f"par{number}" for number in range(6)]


def join_lines(text: str) -> str:
    """Return the words of a text, without box characters."""
    return " ".join(text.replace("│", " ").split())


def lock_site(name: str, *, host: str = "worker-3", has_started: bool = False) -> Path:
    """Lock a site like a process on another host, at 2026-01-01T00:00:00Z minus 14 minutes."""
    Path("states").mkdir(exist_ok=True)
    lock = Path(f"states/{name}.nfstate.lock.info")
    lock.write_text(
        json.dumps(
            {
                "ID": f"id-{name}",
                "Operation": "OperationTypeApply",
                "Who": f"ci@{host}",
                "Host": host,
                "Pid": 7,
                "Created": "2025-12-31T23:46:00Z",
                "Version": "0.1.0",
                "Info": "",
                "Path": "",
            }
        )
    )
    if has_started:
        record = encode_journal_record(ApplyStart(lineage="lineage", serial=1))
        Path(f"states/{name}.nfstate.journal").write_bytes(record + b"\n")
    return lock


def test_all_locks_of_wave_are_reported_at_once(fleet: Fleet, command: Command) -> None:
    fleet({name: {} for name in NAMES})
    assert command("plan", "-out=f.nfsites")[0] == 0
    for name in NAMES[2:]:
        lock_site(name)
    code, _, err = command("apply", "f.nfsites")
    message = join_lines(err)
    assert code == 1
    assert "4 sites are locked:" in message
    assert all(f"{name}: ID id-{name}, host worker-3, age" in message for name in NAMES[2:])
    assert "nexusform sites unlock -host=worker-3" in message
    assert not list(Path("states").glob("par[01].nfstate*"))


def test_one_command_releases_locks_of_host_and_resume_applies_the_rest(
    fleet: Fleet, command: Command
) -> None:
    fleet({name: {} for name in NAMES})
    assert command("plan", "-out=f.nfsites")[0] == 0
    for name in NAMES[1:]:
        lock_site(name)
    other = lock_site(NAMES[0], host="worker-4")
    assert command("apply", "f.nfsites")[0] == 1
    code, out, _ = command("unlock", "-host=worker-3", "-force")
    assert (code, out) == (0, "Released 5 locks of worker-3.\n")
    assert other.exists()
    code, out, _ = command("unlock", "-host=worker-4", "-force")
    assert (code, out) == (0, "Released 1 lock of worker-4.\n")
    assert command("apply", "-resume", "f.nfsites")[0] == 0
    assert command("plan", "-detailed-exitcode")[0] == 0


def test_lock_of_started_site_is_kept_and_removed_by_force_unlock(
    fleet: Fleet, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet({name: {} for name in NAMES})
    lock_site("par0")
    started = lock_site("par1", has_started=True)
    code, out, _ = command("unlock", "-host=worker-3", "-force")
    assert code == 1
    assert "par1: its apply has started" in out
    assert started.exists()
    assert not Path("states/par0.nfstate.lock.info").exists()
    line = next(line.strip() for line in out.splitlines() if "force-unlock" in line)
    assert run_command_line([*shlex.split(line)[1:], "-force"]) == 0
    monkeypatch.chdir(tmp_path)
    assert not started.exists()


def test_unlocked_host_and_missing_host_flag_are_explained(fleet: Fleet, command: Command) -> None:
    fleet()
    code, _, err = command("unlock", "-host=worker-9", "-force")
    assert (code, err) == (1, 'No site is locked by the host "worker-9".\n')
    lock_site("par1")
    assert "Hosts with locks: worker-3." in command("unlock", "-host=worker-9", "-force")[2]
    code, _, err = command("unlock")
    assert code != 0
    assert "nexusform sites status" in join_lines(err)


def test_site_with_unreadable_lock_is_named(fleet: Fleet, command: Command) -> None:
    fleet()
    lock_site("par1").unlink()
    Path("states/par2.nfstate").write_text("{")
    code, _, err = command("unlock", "-host=worker-3", "-force")
    assert code == 1
    assert "par2: " in join_lines(err)
    lock_site("par1")
    code, out, err = command("unlock", "-host=worker-3", "-force")
    assert (code, out) == (1, "Released 1 lock of worker-3.\n")
    assert "par2: " in join_lines(err)


def test_no_lock_is_released_without_confirmation(fleet: Fleet, command: Command) -> None:
    fleet()
    lock = lock_site("par1")
    assert command("unlock", "-host=worker-3")[0] == 1
    assert lock.exists()


def test_status_lists_locks(fleet: Fleet, command: Command) -> None:
    fleet()
    lock_site("par1")
    _, out, _ = command("status")
    row = next(line for line in out.splitlines() if "id-par1" in line)
    assert row.split()[:4] == ["par1", "id-par1", "worker-3", "ci@worker-3"]
    assert row.rstrip().endswith("not started")
    sites = {site["name"]: site for site in json.loads(command("status", "-json")[1])["sites"]}
    assert sites["par2"]["lock"] is None
    assert (sites["par1"]["lock"]["id"], sites["par1"]["lock"]["started"]) == ("id-par1", False)


class LostEngine(LocalTaskEngine):
    """Engine lost after its first apply, with the locks of all other sites."""

    def run_tasks_until_stopped(
        self, tasks: Sequence[Task], on_result: OnResult, **options: Callable[[], int]
    ) -> list[Task]:
        if tasks and tasks[0].kind is SiteTaskKind.APPLY and tasks[0].site != "lon1":
            super().run_tasks_until_stopped(tasks[:1], on_result, **options)  # type: ignore[arg-type]
            for worker in self._processes:
                worker.process.kill()
            for task in tasks[1:]:
                path = Path(f"states/{task.site}.nfstate.lock.info")
                path.write_text(
                    path.read_text().replace(json.loads(path.read_text())["Host"], "worker-3")
                )
            raise TaskEngineError("The scheduler is gone.")
        return super().run_tasks_until_stopped(tasks, on_result, **options)  # type: ignore[arg-type]


def test_lost_engine_leaves_no_locks_of_unstarted_sites(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet({name: {} for name in NAMES})
    assert command("plan", "-out=f.nfsites")[0] == 0
    from nexusform.domains.sites.cli import site_flags

    make_engine = site_flags.make_engine
    monkeypatch.setattr(site_flags, "make_engine", lambda *_: LostEngine(1))
    reports: list[Report] = []

    def record_report(report: Report, **options: Any) -> str:
        reports.append(report)
        return render_report_text(report, **options)

    monkeypatch.setattr(sites_apply, "render_report_text", record_report)
    code, out, err = command("apply", "f.nfsites")
    message = join_lines(err)
    assert code == 1
    assert "The scheduler is gone. Released 5 locks of sites that were not started." in message
    assert "Applied 2 of 7 sites" in out
    assert not list(Path("states").glob("*.lock.info"))
    assert message.endswith("continues once that is fixed. ╵")
    monkeypatch.setattr(site_flags, "make_engine", make_engine)
    code, out, err = command("apply", "-resume", "f.nfsites")
    assert code == 0, err
    # Red and green.
    assert [report.is_finding for report in reports] == [True, False]
    assert command("plan", "-detailed-exitcode")[0] == 0


class UnreachableEngine(LocalTaskEngine):
    """Engine lost before its first task."""

    def run_tasks_until_stopped(self, *_: object, **_options: object) -> list[Task]:
        raise TaskEngineError("The scheduler is gone.")


class InterruptedEngine(LocalTaskEngine):
    """Engine stopped before its first task."""

    def run_tasks_until_stopped(
        self, tasks: Sequence[Task], *_: object, **_options: object
    ) -> list[Task]:
        return list(tasks)


def test_interrupted_plan_cannot_be_applied(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet()
    from nexusform.domains.sites.cli import site_flags

    monkeypatch.setattr(site_flags, "make_engine", lambda *_: InterruptedEngine(1))
    code, out, err = command("plan", "-out=f.nfsites")
    assert (code, "3 not planned" in out, "Not all sites were planned." in err) == (1, True, True)
    code, _, err = command("apply", "f.nfsites")
    assert (code, "Planning failed" in err) == (1, True)


@pytest.mark.parametrize(
    "words", [("status",), ("replay", "-from=."), ("unlock", "-host=a"), ("plan",)]
)
def test_lost_engine_ends_command_without_internal_error(
    fleet: Fleet, command: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    fleet()
    from nexusform.domains.sites.cli import site_flags

    monkeypatch.setattr(site_flags, "make_engine", lambda *_: UnreachableEngine(1))
    code, out, err = command(*words)
    assert (code, out) == (1, "")
    assert "The scheduler is gone." in err
    assert "Internal error" not in err
