"""Tests of waves: stop conditions, tolerated failures, soak times, and recorded progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from nexusform.domains.sites.types.fleet_plan import (
    FleetPlan,
    PlannedSite,
    Wave,
    compute_fleet_digest,
)
from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    OnResult,
    SiteDiagnostic,
    SiteResult,
    SiteStatus,
    SiteTaskKind,
    Task,
)
from nexusform.domains.sites.workflow.wave_progress import (
    ProgressEventKind,
    WaveProgressLine,
    read_wave_progress,
)
from nexusform.domains.sites.workflow.wave_runner import (
    ApplyObserver,
    FleetApply,
    WaveStop,
    apply_waves,
)

LOCKED = SiteDiagnostic("error", "state-lock-error", "", "")


class ScriptedEngine:
    """Engine of one worker with given answers; records its tasks."""

    parallelism = 1

    def __init__(self, answers: dict[tuple[SiteTaskKind, str], SiteResult]) -> None:
        self.answers = answers
        self.asked: list[tuple[SiteTaskKind, str]] = []

    def run_tasks_until_stopped(
        self,
        tasks: Sequence[Task],
        on_result: OnResult,
        *,
        max_running: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> list[Task]:
        remaining = list(tasks)
        while remaining and not is_stopping() and max_running():
            task = remaining.pop(0)
            self.asked.append((task.kind, task.site))
            held = SiteResult(task.site, SiteStatus.PLANNED, is_locked=True)
            applied = SiteResult(task.site, SiteStatus.APPLIED)
            usual = {SiteTaskKind.PREPARE: held, SiteTaskKind.APPLY: applied}.get(
                task.kind, SiteResult(task.site, SiteStatus.SKIPPED)
            )
            on_result(task, self.answers.get((task.kind, task.site), usual))
        return remaining

    def close(self) -> None:
        """Do nothing: there are no workers."""


class FakeClock:
    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def read_time(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class WaveFixture:
    """Return four sites in a wave "one", one in a wave "two"."""

    def __init__(
        self,
        path: Path,
        one: Wave,
        answers: dict[tuple[SiteTaskKind, str], SiteResult] | None = None,
    ) -> None:
        self.engine = ScriptedEngine(answers or {})
        self.clock = FakeClock()
        self.path = path
        names = {"a": "one", "b": "one", "c": "one", "d": "one", "e": "two"}
        sites = [
            PlannedSite(wave, SiteResult(name, SiteStatus.PLANNED, digest="x"))
            for name, wave in names.items()
        ]
        self.sites = sites
        self.waves = (one, Wave("two"))
        self.said: list[str] = []
        self.approval = True
        self.can_ask = True
        self.is_stopping: Callable[[], bool] = lambda: False

    def go(self) -> WaveStop | None:
        plan = FleetPlan(tuple(self.sites), self.waves, "", "", digest="d")
        watching = ApplyObserver(
            self.said.append,
            lambda _: None,
            lambda *_: self.approval,
            self.is_stopping,
            self.can_ask,
        )
        progress = read_wave_progress(str(self.path / "f"), "d")
        self.applying = FleetApply(
            plan, FleetContext("", "", ""), self.engine, progress, self.clock, watching
        )
        return apply_waves(self.applying, self.waves)

    def statuses(self) -> dict[str, str]:
        return {name: answer.status.value for name, answer in self.applying.results.items()}

    def applied(self) -> list[str]:
        return [site for kind, site in self.engine.asked if kind is SiteTaskKind.APPLY]


def build_failure(site: str) -> dict[tuple[SiteTaskKind, str], SiteResult]:
    return {(SiteTaskKind.APPLY, site): SiteResult(site, SiteStatus.FAILED, "boom")}


def test_all_locks_are_acquired_before_first_write(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one"))
    assert fixture.go() is None
    kinds = [kind for kind, _ in fixture.engine.asked]
    assert kinds == [
        *[SiteTaskKind.PREPARE] * 4,
        *[SiteTaskKind.APPLY] * 4,
        SiteTaskKind.PREPARE,
        SiteTaskKind.APPLY,
    ]


def test_failure_stops_wave_and_releases_other_locks(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one"), build_failure("b"))
    stop = fixture.go()
    assert stop is not None
    assert stop.is_resumable
    assert "max_failures is 0" in stop.reason
    assert fixture.statuses() == {"a": "applied", "b": "failed", "c": "skipped", "d": "skipped"}
    assert fixture.engine.asked[-2:] == [(SiteTaskKind.RELEASE, "c"), (SiteTaskKind.RELEASE, "d")]
    assert read_wave_progress(str(tmp_path / "f"), "d").find_unfinished_wave() == "one"


def test_failures_are_tolerated_up_to_max_failures(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one", max_failures=1), build_failure("b"))
    assert fixture.go() is None
    assert fixture.applied() == ["a", "b", "c", "d", "e"]


def test_failed_sites_count_as_unavailable(tmp_path: Path) -> None:
    fixture = WaveFixture(
        tmp_path, Wave("one", max_failures=3, max_unavailable=1), build_failure("b")
    )
    stop = fixture.go()
    assert stop is not None
    assert "max_unavailable is 1" in stop.reason
    assert fixture.applied() == ["a", "b"]


@pytest.mark.parametrize(
    ("wave", "answer", "words"),
    [
        (
            Wave("one"),
            SiteResult(
                "a",
                SiteStatus.APPLIED,
                correct_predictions=9,
                wrong_certain=("vm1 was certain to be on bm1",),
            ),
            "1 certain prediction was wrong. a: vm1 was certain to be on bm1.",
        ),
        (
            Wave("one", max_miss_rate=0.5),
            SiteResult("a", SiteStatus.APPLIED, correct_predictions=1, wrong_predictions=2),
            "2 of 3 predictions",
        ),
    ],
)
def test_wrong_predictions_stop_wave(
    wave: Wave, answer: SiteResult, words: str, tmp_path: Path
) -> None:
    fixture = WaveFixture(tmp_path, wave, {(SiteTaskKind.APPLY, "a"): answer})
    stop = fixture.go()
    assert stop is not None
    assert words in stop.reason
    assert fixture.applied() == ["a"]


@pytest.mark.parametrize(
    "answer",
    [
        SiteResult(
            "c", SiteStatus.REJECTED, "Planning again gives something else.", digest="other"
        ),
        SiteResult("c", SiteStatus.REJECTED, "held", diagnostics=(LOCKED,)),
    ],
)
def test_changed_plan_or_lock_stops_wave_despite_tolerance(
    answer: SiteResult, tmp_path: Path
) -> None:
    fixture = WaveFixture(
        tmp_path, Wave("one", max_failures=9), {(SiteTaskKind.PREPARE, "c"): answer}
    )
    stop = fixture.go()
    assert stop is not None
    assert "No changes were made in this wave." in stop.reason
    assert fixture.applied() == []
    assert (SiteTaskKind.RELEASE, "a") in fixture.engine.asked
    assert (SiteTaskKind.RELEASE, "b") in fixture.engine.asked


def test_sites_rejected_in_plan_count_as_failures(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one"))
    fixture.sites[0] = PlannedSite("one", SiteResult("a", SiteStatus.REJECTED, "broken"))
    stop = fixture.go()
    assert stop is not None
    assert not stop.is_resumable
    assert fixture.engine.asked == []
    fixture.waves = (Wave("one", max_failures=1), Wave("two"))
    assert fixture.go() is None
    assert fixture.applied() == ["b", "c", "d", "e"]


def test_soak_is_not_repeated_after_resume(tmp_path: Path) -> None:
    fixture = WaveFixture(
        tmp_path,
        Wave("one", soak=3600),
        {(SiteTaskKind.PREPARE, "e"): SiteResult("e", SiteStatus.REJECTED, "x")},
    )
    began = fixture.clock.read_time()
    assert fixture.go() is not None
    assert fixture.clock.read_time() - began == timedelta(hours=1)
    fixture.engine.answers = {}
    assert fixture.go() is None
    assert fixture.clock.read_time() - began == timedelta(hours=1)


@pytest.mark.parametrize("can_ask", [True, False])
def test_wave_without_possible_approval_stops_without_soak(can_ask: bool, tmp_path: Path) -> None:
    """A CI job must not wait an hour to report that an approval is missing.

    In a terminal the soak comes first.
    """
    fixture = WaveFixture(tmp_path, Wave("one", soak=3600))
    fixture.waves = (fixture.waves[0], Wave("two", needs_approval=True))
    fixture.approval = False
    fixture.can_ask = can_ask
    began = fixture.clock.time
    stop = fixture.go()
    assert stop is not None
    assert stop.id == "wave-waits-for-approval"
    assert fixture.clock.time - began == timedelta(hours=can_ask)
    fixture.approval = True
    assert fixture.go() is None
    assert fixture.clock.time - began >= timedelta(hours=1)


def test_interrupted_soak_is_resumable(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one", soak=3600))
    began = fixture.clock.time
    fixture.is_stopping = lambda: fixture.clock.time > began
    stop = fixture.go()
    assert stop is not None
    assert (stop.reason, stop.is_resumable) == (
        'The run was interrupted while the wave "two" waited.',
        True,
    )
    assert fixture.applied() == ["a", "b", "c", "d"]
    fixture.is_stopping = lambda: False
    assert fixture.go() is None
    assert fixture.applied() == ["a", "b", "c", "d", "e"]


def test_interrupted_preparation_changes_nothing_and_releases_locks(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one"))
    fixture.is_stopping = lambda: len(fixture.engine.asked) == 2
    stop = fixture.go()
    assert stop is not None
    assert stop.reason.endswith("The run was interrupted. No changes were made in this wave.")
    assert fixture.engine.asked[2:] == [(SiteTaskKind.RELEASE, "a"), (SiteTaskKind.RELEASE, "b")]
    assert set(fixture.statuses().values()) == {"skipped"}


def test_approval_is_kept(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one", needs_approval=True), build_failure("a"))
    fixture.approval = False
    stop = fixture.go()
    assert stop is not None
    assert stop.id == "wave-waits-for-approval"
    fixture.approval = True
    assert fixture.go() is not None
    fixture.approval = False
    fixture.engine.answers = {}
    assert fixture.go() is None


def test_site_is_applied_after_site_it_reads(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one"))
    fixture.sites[0] = PlannedSite("one", SiteResult("a", SiteStatus.PLANNED), dependencies=("d",))
    assert fixture.go() is None
    assert fixture.applied() == ["b", "c", "d", "a", "e"]


def test_truncated_progress_line_is_ignored(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one"))
    assert fixture.go() is None
    path = tmp_path / "f.progress"
    path.write_bytes(path.read_bytes()[:-5])
    progress = read_wave_progress(str(tmp_path / "f"), "d")
    assert progress.is_finished("one")
    assert progress.find_time(ProgressEventKind.FINISHED, "two") is None
    assert read_wave_progress(str(tmp_path / "f"), "another").lines == []
    progress.add_line(WaveProgressLine("d", ProgressEventKind.FINISHED, "two", at=1.0))
    assert (
        read_wave_progress(str(tmp_path / "f"), "d").find_time(ProgressEventKind.FINISHED, "two")
        == 1.0
    )


def test_wave_without_changes_needs_no_approval_or_soak(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one", soak=3600, needs_approval=True))
    fixture.approval = False
    fixture.sites = [
        replace(site, result=replace(site.result, status=SiteStatus.UNCHANGED))
        if site.wave == "one"
        else site
        for site in fixture.sites
    ]
    same = {
        (SiteTaskKind.PREPARE, name): SiteResult(name, SiteStatus.UNCHANGED, digest="x")
        for name in ("a", "b", "c", "d")
    }
    fixture.engine.answers = same
    began = fixture.clock.time
    assert fixture.go() is None
    assert fixture.applied() == ["e"]
    assert fixture.clock.time == began


def test_blocked_wave_requests_no_approval(tmp_path: Path) -> None:
    fixture = WaveFixture(tmp_path, Wave("one", needs_approval=True))
    fixture.approval = False
    fixture.sites[0] = PlannedSite("one", SiteResult("a", SiteStatus.REJECTED, "broken"))
    stop = fixture.go()
    assert stop is not None
    assert "max_failures is 0. No changes were made in this wave." in stop.reason


def test_different_reasons_have_different_digests() -> None:
    one, other = (
        PlannedSite("all", SiteResult("a", SiteStatus.REJECTED, why))
        for why in ("broken", "locked")
    )
    assert compute_fleet_digest((one,), ()) != compute_fleet_digest((other,), ())
