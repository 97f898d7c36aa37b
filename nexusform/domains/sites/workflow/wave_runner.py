"""Application of a fleet's plan, wave by wave; the entry point is `apply_waves`.

For a wave all locks are taken and all plans are repeated first; the first site is applied only if
every plan is the approved one. A stopped wave stops the later ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import (
    format_count,
    format_duration,
    format_first_items,
    format_list,
    select_word_form,
)
from nexusform.domains.sites.rendering.site_reports import format_locked_sites
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite, Wave
from nexusform.domains.sites.types.site_tasks import (
    FleetContext,
    SiteResult,
    SiteStatus,
    SiteTaskKind,
    Task,
    TaskEngine,
    TaskEngineError,
    select_results,
)
from nexusform.domains.sites.workflow.fleet_tasks import (
    read_locked_sites,
    release_locks,
    split_wave_by_dependencies,
)
from nexusform.domains.sites.workflow.site_results import LOCKED
from nexusform.domains.sites.workflow.wave_progress import (
    FleetApplyProgress,
    ProgressEventKind,
    WaveProgressLine,
)
from nexusform.interfaces.plugins import Clock

# Seconds between checks for a stop request.
_POLL_SECONDS: Final = 1.0
_FAILED_STATUSES: Final = (SiteStatus.REJECTED, SiteStatus.FAILED)
_MAX_NAMES: Final = 3
# Running sites without a limit of the wave.
_UNLIMITED: Final = 10_000


class WaveStop(Struct, frozen=True):
    """Reason of a stop, id of its diagnostic, and whether -resume can continue."""

    reason: str
    id: str = "stopped-wave"
    is_resumable: bool = True


class ApplyObserver(Struct, frozen=True):
    """Callbacks of an apply: messages, results, approval of waves, and stop requests."""

    print_message: Callable[[str], None]
    on_result: Callable[[SiteResult], None]
    approve_wave: Callable[[Wave, int], bool]
    is_stopping: Callable[[], bool]
    # It says whether a user can answer a request for approval.
    can_ask: bool


class FleetApply(Struct):
    """One run over waves.

    `results` are the results of sites so far.
    """

    plan: FleetPlan
    fleet: FleetContext
    engine: TaskEngine
    progress: FleetApplyProgress
    clock: Clock
    observer: ApplyObserver
    results: dict[str, SiteResult] = field(default_factory=dict)

    def record_event(
        self,
        event: ProgressEventKind,
        wave: str,
        reason: str = "",
        *,
        site: str = "",
        status: SiteStatus | None = None,
    ) -> None:
        """Record an event of a wave, or, with `site` and `status`, of a site in it.

        Raises FileProblem.
        """
        time = self.clock.read_time().timestamp()
        self.progress.add_line(
            WaveProgressLine(self.progress.plan, event, wave, time, site, status, reason)
        )


def apply_waves(fleet_apply: FleetApply, waves: Sequence[Wave]) -> WaveStop | None:
    """Apply `waves` in order; return the stop, None if all are finished.

    Raises FileProblem, TaskEngineError.
    """
    gate = [_wait_for_soak, _stop_without_approval]
    if not fleet_apply.observer.can_ask:
        # A missing approval stops the run before the wait.
        gate.reverse()
    for wave in waves:
        if fleet_apply.progress.is_finished(wave.name):
            # The wave was done in an earlier run.
            continue
        steps = (_check_rejected_sites, *gate, _apply_wave)
        stop = next(filter(None, (step(fleet_apply, wave) for step in steps)), None)
        if stop is not None:
            fleet_apply.record_event(ProgressEventKind.STOPPED, wave.name, stop.reason)
            return stop
        fleet_apply.record_event(ProgressEventKind.FINISHED, wave.name)
    return None


def _check_rejected_sites(fleet_apply: FleetApply, wave: Wave) -> WaveStop | None:
    """Stop a wave before any approval if more of its sites than allowed could not be planned."""
    tally = _WaveCounts(wave)
    _record_unplanned_as_failed(fleet_apply, wave, tally)
    if not tally.stop_reason:
        return None
    # A new plan is needed, not -resume.
    tally.is_resumable = False
    return _build_wave_stop(
        fleet_apply, tally, f"{tally.explain_why_stopped()} No changes were made in this wave."
    )


def _record_unplanned_as_failed(fleet_apply: FleetApply, wave: Wave, tally: _WaveCounts) -> None:
    """Count the sites that could not be planned as failures, and record their results.

    Skipped sites are included.
    """
    for site in fleet_apply.plan.select_wave(wave.name):
        if site.result.status in (SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED):
            fleet_apply.results[site.name] = site.result
            tally.count_result(replace(site.result, status=SiteStatus.REJECTED))


def _wait_for_soak(fleet_apply: FleetApply, wave: Wave) -> WaveStop | None:
    """Wait until the soak time of earlier waves with changes is over.

    Return a stop if interrupted, else None.
    """
    plan = fleet_apply.plan
    # Nothing will be applied.
    if not plan.has_pending_sites(wave.name):
        return None
    start_time = 0.0
    for earlier in takewhile(lambda plan_wave: plan_wave.name != wave.name, plan.waves):
        finished = fleet_apply.progress.find_time(ProgressEventKind.FINISHED, earlier.name)
        if finished is not None and earlier.soak and plan.has_pending_sites(earlier.name):
            start_time = max(start_time, finished + earlier.soak)
    delay = start_time - fleet_apply.clock.read_time().timestamp()
    # The delay in seconds is printed as at least one.
    if delay > 0:
        message = f'Waiting {format_duration(max(delay, 1))} before the wave "{wave.name}" (soak).'
        fleet_apply.observer.print_message(message)
    while (delay := start_time - fleet_apply.clock.read_time().timestamp()) > 0:
        if fleet_apply.observer.is_stopping():
            return WaveStop(f'The run was interrupted while the wave "{wave.name}" waited.')
        fleet_apply.clock.sleep(min(delay, _POLL_SECONDS))
    return None


def _stop_without_approval(fleet_apply: FleetApply, wave: Wave) -> WaveStop | None:
    """Request the approval of a wave with changes once, if it needs one.

    Return None if it may start, else the stop.
    """
    if not wave.needs_approval or not fleet_apply.plan.has_pending_sites(wave.name):
        return None
    if fleet_apply.progress.find_time(ProgressEventKind.APPROVED, wave.name) is not None:
        # An earlier run approved it.
        return None
    count = len(fleet_apply.plan.select_wave(wave.name))
    if not fleet_apply.observer.approve_wave(wave, count):
        reason = f'The wave "{wave.name}" waits for approval. Approve it with -wave={wave.name}.'
        return WaveStop(reason, id="wave-waits-for-approval", is_resumable=False)
    fleet_apply.record_event(ProgressEventKind.APPROVED, wave.name)
    return None


class _WaveCounts(Struct):
    """Counts of a wave."""

    wave: Wave
    failure_count: int = 0
    correct_predictions: int = 0
    wrong_predictions: int = 0
    wrong_certain: tuple[str, ...] = ()
    stop_reason: str = ""
    is_resumable: bool = True

    def count_result(self, result: SiteResult) -> None:
        """Count the result of a site.

        Also keep the first reason to stop the wave, if there is one.
        """
        self.failure_count += result.status in _FAILED_STATUSES
        self.correct_predictions += result.correct_predictions
        self.wrong_predictions += result.wrong_predictions
        self.wrong_certain += tuple(
            f"{result.site}: {prediction}" for prediction in result.wrong_certain
        )
        self.stop_reason = self.stop_reason or self.explain_why_stopped()

    def explain_why_stopped(self) -> str:
        """Explain why no further site may start, "" if one may."""
        if self.failure_count > self.wave.max_failures:
            sites = format_count(self.failure_count, "site")
            verb = select_word_form(
                self.failure_count, "was rejected or has failed", "were rejected or have failed"
            )
            return f"{sites} {verb}; max_failures is {self.wave.max_failures}."
        if self.wrong_certain:
            count = format_count(len(self.wrong_certain), "certain prediction")
            verb = select_word_form(len(self.wrong_certain), "was", "were")
            return (
                f"{count} {verb} wrong. {format_first_items(self.wrong_certain, _MAX_NAMES, '; ')}."
            )
        verified = self.correct_predictions + self.wrong_predictions
        if verified and self.wrong_predictions / verified > self.wave.max_miss_rate:
            return (
                f"{self.wrong_predictions:,} of {verified:,} predictions were wrong; max_miss_rate "
                f"is {self.wave.max_miss_rate:g}."
            )
        return ""

    def compute_parallel_limit(self) -> int:
        """Compute the maximum of sites running at a time."""
        limits = [_UNLIMITED]
        if self.wave.max_parallel is not None:
            limits.append(self.wave.max_parallel)
        if self.wave.max_unavailable is not None:
            # Failed sites stay unavailable.
            limits.append(self.wave.max_unavailable - self.failure_count)
        return max(min(limits), 0)


def _apply_wave(fleet_apply: FleetApply, wave: Wave) -> WaveStop | None:
    """Apply one wave; return the reason of a stop, None if it finished.

    Sites run in rounds: a reader of states of other sites of the wave is in a later round. Sites
    without a plan count as failed from the start.
    """
    sites = {site.name: site for site in fleet_apply.plan.select_wave(wave.name)}
    tally = _WaveCounts(wave)
    _record_unplanned_as_failed(fleet_apply, wave, tally)
    fleet_apply.record_event(ProgressEventKind.STARTED, wave.name)
    # With a plan.
    names = [name for name in sites if name not in fleet_apply.results]
    fleet_apply.observer.print_message(f'Wave "{wave.name}": {format_count(len(names), "site")}.')
    rounds = split_wave_by_dependencies(names, {name: sites[name].dependencies for name in names})
    for number, round_names in enumerate(rounds):
        reason = _apply_until_stop(
            fleet_apply, [sites[name] for name in round_names], tally, is_first=number == 0
        )
        if reason:
            return _build_wave_stop(fleet_apply, tally, reason)
    status_counts = Counter(fleet_apply.results[name].status for name in sites)
    counts = [
        f"{status_counts[status]:,} {status.value}"
        for status in SiteStatus
        if status_counts[status]
    ]
    fleet_apply.observer.print_message(f'Wave "{wave.name}" is done: {format_list(counts)}.')
    return None


def _apply_until_stop(
    fleet_apply: FleetApply, sites: Sequence[PlannedSite], tally: _WaveCounts, *, is_first: bool
) -> str:
    """Lock and plan sites again, then apply them, unless a result stops the wave before.

    Return the reason of a stop, "" for none. With `is_first`, no site of the wave was applied in
    this run yet.
    """
    prepared = _prepare_sites(fleet_apply, sites, tally)
    # None of `sites` is applied.
    if tally.stop_reason:
        _release_site_locks(fleet_apply, prepared)
        no_changes_note = _describe_no_changes(fleet_apply, tally.wave) if is_first else ""
        return f"{tally.stop_reason}{no_changes_note}{_describe_blocking_locks(fleet_apply, tally)}"

    def is_stopping() -> bool:
        return (
            bool(tally.stop_reason)
            or not tally.compute_parallel_limit()
            or fleet_apply.observer.is_stopping()
        )

    def record_result(_: Task, result: SiteResult) -> None:
        _record_result(fleet_apply, tally, result)

    tasks = [_build_task(fleet_apply, SiteTaskKind.APPLY, site) for site in prepared]
    remaining = fleet_apply.engine.run_tasks_until_stopped(
        tasks, record_result, max_running=tally.compute_parallel_limit, is_stopping=is_stopping
    )
    if not remaining:
        return tally.stop_reason
    not_started = {task.site for task in remaining}
    _release_site_locks(fleet_apply, [site for site in prepared if site.name in not_started])
    if tally.stop_reason:
        return tally.stop_reason
    if fleet_apply.observer.is_stopping():
        return "The run was interrupted; sites in progress were finished."
    # Failed sites have used up the limit of running sites.
    return (
        f"{format_count(tally.failure_count, 'site')} failed; max_unavailable is "
        f"{tally.wave.max_unavailable}."
    )


def _prepare_sites(
    fleet_apply: FleetApply, sites: Sequence[PlannedSite], tally: _WaveCounts
) -> list[PlannedSite]:
    """Lock and plan all sites again; return the sites to apply now.

    `tally.stop_reason` is set to stop the wave.
    """
    site_by_name = {site.name: site for site in sites}
    prepared: list[PlannedSite] = []
    rejected: list[SiteResult] = []

    def record_result(task: Task, result: SiteResult) -> None:
        """Keep a locked site to apply it; record the result of any other."""
        if result.is_locked:
            prepared.append(site_by_name[task.site])
            return
        if result.status in _FAILED_STATUSES:
            rejected.append(result)
        _record_result(fleet_apply, tally, result)

    def is_stopping() -> bool:
        return fleet_apply.observer.is_stopping() or any(map(_is_final_rejection, rejected))

    tasks = [_build_task(fleet_apply, SiteTaskKind.PREPARE, site) for site in sites]
    remaining = fleet_apply.engine.run_tasks_until_stopped(
        tasks,
        record_result,
        max_running=lambda: fleet_apply.engine.parallelism,
        is_stopping=is_stopping,
    )
    final_rejections = list(filter(_is_final_rejection, rejected))
    if final_rejections:
        names = format_list((result.site for result in final_rejections), _MAX_NAMES)
        tally.stop_reason = f"{names}: {final_rejections[0].reason}"
        # A changed plan needs an approval.
        tally.is_resumable = not any(result.digest for result in final_rejections)
    elif remaining:
        # Without a final rejection, only an interruption leaves tasks.
        tally.stop_reason = "The run was interrupted."
    return prepared


def _describe_no_changes(fleet_apply: FleetApply, wave: Wave) -> str:
    """Describe a wave stopped before the first write of this run.

    No changes, or only the ones of earlier runs.
    """
    names = {site.name for site in fleet_apply.plan.select_wave(wave.name)}
    applied_results = select_results(fleet_apply.results.values(), SiteStatus.APPLIED)
    applied = sum(result.site in names for result in applied_results)
    if not applied:
        return " No changes were made in this wave."
    verb = select_word_form(applied, "was", "were")
    return (
        f" This run made no changes; {format_count(applied, 'site')} of the wave {verb} applied "
        "before."
    )


def _describe_blocking_locks(fleet_apply: FleetApply, tally: _WaveCounts) -> str:
    """Reject the locked sites of a wave stopped by a lock.

    Return their locks and release commands as text, else "".
    """
    if not any(map(_has_lock_error, fleet_apply.results.values())):
        return ""
    names = [site.name for site in fleet_apply.plan.select_wave(tally.wave.name)]
    locked = read_locked_sites(fleet_apply.engine, fleet_apply.fleet, names)
    for result in locked:
        assert result.lock is not None, "a locked site"
        reason = f"{result.lock.who} holds its lock."
        fleet_apply.results[result.site] = replace(
            result, status=SiteStatus.REJECTED, reason=reason
        )
    return format_locked_sites(locked, fleet_apply.clock.read_time())


def _is_final_rejection(result: SiteResult) -> bool:
    """Return True if a rejection always stops the wave.

    By a changed plan (`digest` is the new one), or by a lock.
    """
    return bool(result.digest) or _has_lock_error(result)


def _has_lock_error(result: SiteResult) -> bool:
    return any(site_diagnostic.id == LOCKED for site_diagnostic in result.diagnostics)


def _record_result(fleet_apply: FleetApply, tally: _WaveCounts, result: SiteResult) -> None:
    """Keep, count and log the result of a site, and pass it to the observer."""
    fleet_apply.results[result.site] = result
    tally.count_result(result)
    fleet_apply.record_event(
        ProgressEventKind.SITE,
        tally.wave.name,
        result.reason,
        site=result.site,
        status=result.status,
    )
    fleet_apply.observer.on_result(result)


def _release_site_locks(fleet_apply: FleetApply, sites: Sequence[PlannedSite]) -> None:
    """Release the locks of prepared sites that are not applied."""
    tasks = [_build_task(fleet_apply, SiteTaskKind.RELEASE, site) for site in sites]
    fleet_apply.engine.run_tasks_until_stopped(
        tasks,
        lambda _task, _answer: None,
        max_running=lambda: fleet_apply.engine.parallelism,
        is_stopping=lambda: False,
    )


def stop_after_lost_engine(
    fleet_apply: FleetApply, engine: TaskEngine, problem: TaskEngineError
) -> WaveStop:
    """Stop the wave in progress after its engine was lost (`problem`).

    Locks of sites not started are released on another engine, `engine`.
    Raises TaskEngineError, FileProblem.
    """
    wave = fleet_apply.progress.find_unfinished_wave()
    wave_names = [site.name for site in fleet_apply.plan.select_wave(wave)]
    for name in problem.running:
        reason = "The engine was lost while this site was in progress; its result is not known."
        fleet_apply.results[name] = SiteResult(name, SiteStatus.FAILED, reason)
    not_started = [name for name in wave_names if name not in fleet_apply.results]
    releases = release_locks(engine, fleet_apply.fleet, not_started)
    released_count = len(select_results(releases, SiteStatus.APPLIED))
    for name in not_started:
        fleet_apply.results[name] = SiteResult(name, SiteStatus.SKIPPED, "Its wave was stopped.")
    locked = read_locked_sites(engine, fleet_apply.fleet, wave_names)
    reason = f'The wave "{wave}" was stopped: {problem}'
    if released_count:
        reason += (
            f" Released {format_count(released_count, 'lock')} of sites that were not started."
        )
    fleet_apply.record_event(ProgressEventKind.STOPPED, wave, reason)
    return WaveStop(reason + format_locked_sites(locked, fleet_apply.clock.read_time()))


def _build_task(fleet_apply: FleetApply, kind: SiteTaskKind, site: PlannedSite) -> Task:
    return Task(
        kind,
        site.name,
        fleet_apply.fleet,
        digest=site.result.digest,
        plan_digest=site.result.plan_digest,
    )


def _build_wave_stop(fleet_apply: FleetApply, tally: _WaveCounts, reason: str) -> WaveStop:
    """Build the stop of a wave; sites not applied are skipped."""
    wave = tally.wave
    for site in fleet_apply.plan.select_wave(wave.name):
        skipped = SiteResult(site.name, SiteStatus.SKIPPED, "Its wave was stopped.")
        fleet_apply.results.setdefault(site.name, skipped)
    return WaveStop(
        f'The wave "{wave.name}" was stopped: {reason}', is_resumable=tally.is_resumable
    )
