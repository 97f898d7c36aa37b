"""Apply a fleet's plan, wave by wave. Start reading at `apply_waves`.

For a wave all locks are taken and all plans are made anew first; only where each comes to what was approved
is the first one applied. Whatever stops a wave stops those after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.domains.sites.ports import Engine
from nexusform.domains.sites.types.definition import Wave
from nexusform.domains.sites.types.fleet_plan import FleetPlan, PlannedSite
from nexusform.domains.sites.types.work import Answer, Fleet, Kind, Status, Task
from nexusform.domains.sites.workflow.order import rounds
from nexusform.domains.sites.workflow.progress import Event, Line, Progress
from nexusform.domains.sites.workflow.site_answers import LOCKED
from nexusform.ports import Clock
from nexusform.words import counted, duration, first_of, form, listed

_PAUSE: Final = 1.0  # seconds between looks at whether somebody wants to stop
_BAD: Final = (Status.REFUSED, Status.FAILED)
_FEW: Final = 3
_ALL_AT_ONCE: Final = 10_000  # sites under way where the wave says no number


class Stop(Struct, frozen=True):
    """Why waves stopped, the id of the diagnostic that says so, and whether -resume may go on with them."""

    why: str
    id: str = "wave-was-stopped"
    resumable: bool = True


class Watching(Struct, frozen=True):
    """Who looks on: what is told, who approves of a wave, and whether somebody wants to stop."""

    say: Callable[[str], None]
    told: Callable[[Answer], None]
    approves: Callable[[Wave, int], bool]
    stopping: Callable[[], bool]


class Applying(Struct):
    """One run over waves. `answers` is what came of sites so far."""

    plan: FleetPlan
    fleet: Fleet
    engine: Engine
    progress: Progress
    clock: Clock
    watching: Watching
    answers: dict[str, Answer] = field(default_factory=dict)

    def note(self, event: Event, wave: str, answer: Answer | None = None, reason: str = "") -> None:
        """Note what happened. Raises FileProblem."""
        line = Line(self.progress.plan, event, wave, self.clock.now().timestamp(), reason=reason)
        if answer is not None:
            line = replace(line, site=answer.site, status=answer.status, reason=answer.reason)
        self.progress.add(line)


def apply_waves(applying: Applying, waves: Sequence[Wave]) -> Stop | None:
    """Apply these waves in their order; why it stopped, None when all came to their end. Raises FileProblem,
    EngineProblem.
    """
    for wave in waves:
        if applying.progress.is_finished(wave.name):
            continue
        stop = (
            _too_many_refused(applying, wave)
            or _after_soaking(applying, wave)
            or _approved(applying, wave)
            or _apply(applying, wave)
        )
        if stop is not None:
            applying.note(Event.STOPPED, wave.name, reason=stop.why)
            return stop
        applying.note(Event.FINISHED, wave.name)
    return None


def _too_many_refused(applying: Applying, wave: Wave) -> Stop | None:
    """Stop a wave of which the plan refused more sites than it tolerates, before anybody is asked."""
    tally = _Tally(wave)
    _take_refused(applying, wave, tally)
    if not tally.stop:
        return None
    tally.resumable = False
    return _stopped(applying, tally, f"{tally.why()} Nothing of it was written.")


def _take_refused(applying: Applying, wave: Wave, tally: _Tally) -> None:
    """Count the sites that could not be planned as failures."""
    for site in applying.plan.of_wave(wave.name):
        if site.answer.status in (Status.REFUSED, Status.FAILED, Status.SKIPPED):
            applying.answers[site.name] = site.answer
            tally.take(replace(site.answer, status=Status.REFUSED))


def _after_soaking(applying: Applying, wave: Wave) -> Stop | None:
    """Wait until the waves before that changed something have soaked; why that was given up."""
    plan = applying.plan
    names = [each.name for each in plan.waves]
    if not plan.has_work(wave.name):
        return None
    ends = [
        finished + earlier.soak
        for earlier in plan.waves[: names.index(wave.name)]
        if earlier.soak
        and plan.has_work(earlier.name)
        and (finished := applying.progress.when(Event.FINISHED, earlier.name)) is not None
    ]
    due = max(ends, default=0.0)
    left = due - applying.clock.now().timestamp()
    if left > 0:
        applying.watching.say(f'Waiting {duration(max(left, 1))} before the wave "{wave.name}" (soak).')
    while (left := due - applying.clock.now().timestamp()) > 0:
        if applying.watching.stopping():
            return Stop(f'It was interrupted while the wave "{wave.name}" waited.')
        applying.clock.sleep(min(left, _PAUSE))
    return None


def _approved(applying: Applying, wave: Wave) -> Stop | None:
    """Ask whether a wave with a gate may begin; once said, it is not asked again. A wave in which nothing
    changes needs nobody's word.
    """
    if not wave.approve or not applying.plan.has_work(wave.name):
        return None
    if applying.progress.when(Event.APPROVED, wave.name) is not None:
        return None
    count = len(applying.plan.of_wave(wave.name))
    if not applying.watching.approves(wave, count):
        why = f'The wave "{wave.name}" waits for approval: -wave={wave.name} gives it.'
        return Stop(why, "wave-waits-for-approval", resumable=False)
    applying.note(Event.APPROVED, wave.name)
    return None


# --- one wave ------------------------------------------------------------------------------------


class _Tally(Struct):
    """How a wave goes."""

    wave: Wave
    bad: int = 0
    hits: int = 0
    misses: int = 0
    broken_sure: tuple[str, ...] = ()
    stop: str = ""
    resumable: bool = True

    def take(self, answer: Answer) -> None:
        """Count what came of a site."""
        self.bad += answer.status in _BAD
        self.hits += answer.hits
        self.misses += answer.misses
        self.broken_sure += tuple(f"{answer.site}: {words}" for words in answer.broken_sure)
        self.stop = self.stop or self.why()

    def why(self) -> str:
        """Why nothing further may begin."""
        if self.bad > self.wave.max_failures:
            sites = counted(self.bad, "site")
            verb = form(self.bad, "is refused or has failed", "are refused or have failed")
            return f"{sites} {verb}, and max_failures is {self.wave.max_failures}."
        if self.broken_sure:
            count = counted(len(self.broken_sure), "prediction")
            verb = form(len(self.broken_sure), "was", "were")
            return f"{count} that {verb} called sure did not hold. {first_of(self.broken_sure, _FEW, '; ')}."
        judged = self.hits + self.misses
        if judged and self.misses / judged > self.wave.max_miss_rate:
            return (
                f"{self.misses:,} of {judged:,} predictions were missed, and max_miss_rate is "
                f"{self.wave.max_miss_rate:g}."
            )
        return ""

    def room(self) -> int:
        """How many sites may be under way."""
        limits = [_ALL_AT_ONCE]
        if self.wave.max_parallel is not None:
            limits.append(self.wave.max_parallel)
        if self.wave.max_unavailable is not None:
            limits.append(self.wave.max_unavailable - self.bad)
        return max(min(limits), 0)


def _apply(applying: Applying, wave: Wave) -> Stop | None:
    """Apply one wave; why it stopped, None when it came to its end."""
    sites = {site.name: site for site in applying.plan.of_wave(wave.name)}
    tally = _Tally(wave)
    _take_refused(applying, wave, tally)
    applying.note(Event.BEGUN, wave.name)
    names = [name for name in sites if name not in applying.answers]
    applying.watching.say(f'Wave "{wave.name}": {counted(len(names), "site")}.')
    before = {name: site.after for name, site in sites.items()}
    for turn, part in enumerate(rounds(names, before)):
        why = _apply_round(applying, [sites[name] for name in part], tally, first=not turn)
        if why:
            return _stopped(applying, tally, why)
    applying.watching.say(f'Wave "{wave.name}" is done: {_figures(applying, sites)}.')
    return None


def _figures(applying: Applying, names: Mapping[str, PlannedSite]) -> str:
    """`38 applied, 2 unchanged`."""
    statuses = [applying.answers[name].status for name in names]
    return listed(f"{statuses.count(each):,} {each.value}" for each in Status if each in statuses)


def _apply_round(applying: Applying, sites: Sequence[PlannedSite], tally: _Tally, *, first: bool) -> str:
    """Prepare sites, and apply them where all are as approved; why it stopped."""
    held = _prepare(applying, sites, tally, first=first)
    if tally.stop:
        _release(applying, held)
        return tally.stop

    def stopping() -> bool:
        return bool(tally.stop) or not tally.room() or applying.watching.stopping()

    def done(_: Task, answer: Answer) -> None:
        _take(applying, tally, answer)

    tasks = [_task(applying, Kind.APPLY, site) for site in held]
    left = applying.engine.run(tasks, done, at_once=tally.room, stopping=stopping)
    if not left:
        return tally.stop
    unbegun = {task.site for task in left}
    _release(applying, [site for site in held if site.name in unbegun])
    if tally.stop or applying.watching.stopping():
        return tally.stop or "It was interrupted; the sites that were under way were finished."
    return f"{counted(tally.bad, 'site')} failed, and max_unavailable is {tally.wave.max_unavailable}."


def _prepare(
    applying: Applying, sites: Sequence[PlannedSite], tally: _Tally, *, first: bool
) -> list[PlannedSite]:
    """Take all locks and plan all sites anew; those that are to be applied now."""
    by_name = {site.name: site for site in sites}
    held: list[PlannedSite] = []
    refused: list[Answer] = []

    def done(task: Task, answer: Answer) -> None:
        if answer.held:
            held.append(by_name[task.site])
            return
        if answer.status in _BAD:
            refused.append(answer)
        _take(applying, tally, answer)

    def stopping() -> bool:
        return applying.watching.stopping() or any(map(_is_final, refused))

    tasks = [_task(applying, Kind.PREPARE, site) for site in sites]
    left = applying.engine.run(tasks, done, at_once=lambda: applying.engine.workers, stopping=stopping)
    final = [answer for answer in refused if _is_final(answer)]
    nothing = " Nothing of it was written." if first else ""
    if final:
        names = listed((answer.site for answer in final), _FEW)
        tally.stop = f"{names}: {final[0].reason}{nothing}"
        tally.resumable = not any(answer.digest for answer in final)
    elif left:
        tally.stop = f"It was interrupted.{nothing}"
    elif tally.stop:
        tally.stop += nothing
    return held


def _is_final(answer: Answer) -> bool:
    """Whether a refusal stops the wave whatever it tolerates: another plan than approved, or a lock."""
    return bool(answer.digest) or any(trouble.id == LOCKED for trouble in answer.troubles)


def _take(applying: Applying, tally: _Tally, answer: Answer) -> None:
    """Take in what came of a site."""
    applying.answers[answer.site] = answer
    tally.take(answer)
    applying.note(Event.SITE, tally.wave.name, answer)
    applying.watching.told(answer)


def _release(applying: Applying, sites: Sequence[PlannedSite]) -> None:
    """Let go of sites that were prepared and are not applied."""
    tasks = [_task(applying, Kind.RELEASE, site) for site in sites]
    applying.engine.run(
        tasks,
        lambda _task, _answer: None,
        at_once=lambda: applying.engine.workers,
        stopping=lambda: False,
    )


def _task(applying: Applying, kind: Kind, site: PlannedSite) -> Task:
    return Task(kind, site.name, applying.fleet, digest=site.answer.digest, plan=site.answer.plan)


def _stopped(applying: Applying, tally: _Tally, why: str) -> Stop:
    """What is said of a wave that stopped: its sites that were not applied are skipped."""
    wave = tally.wave
    for site in applying.plan.of_wave(wave.name):
        if site.name not in applying.answers:
            applying.answers[site.name] = Answer(site.name, Status.SKIPPED, "Its wave was stopped.")
    return Stop(f'The wave "{wave.name}" was stopped: {why}', resumable=tally.resumable)
