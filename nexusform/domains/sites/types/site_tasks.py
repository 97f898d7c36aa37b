"""Tasks and results of workers: plain data without state, credentials or sensitive values.

A task names a site; the worker reads everything else itself. Both are sent between processes as
JSON. `TaskEngine` is the interface of engines that run them.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from nexusform.diagnostics.diagnostic import Severity
from nexusform.plans.impact.decision_figures import ImpactSummary
from nexusform.rendering.report.decision_record import DecisionRecord


class SiteTaskKind(StrEnum):
    """Kind of a task.

    `prepare` locks the site, plans again, compares, and keeps both for `apply`; `release` unlocks
    it. `unlock` removes the lock of a dead process. `status` and `ask` only read.
    """

    PLAN = "plan"
    PREPARE = "prepare"
    APPLY = "apply"
    RELEASE = "release"
    UNLOCK = "unlock"
    STATUS = "status"
    ASK = "ask"


class SiteStatus(StrEnum):
    """Status of a site."""

    UNCHANGED = "unchanged"
    PLANNED = "planned"
    REJECTED = "rejected"
    APPLIED = "applied"
    FAILED = "failed"
    SKIPPED = "skipped"


class FleetContext(Struct, frozen=True):
    """Location and trust of a fleet, common to all its tasks.

    `root` is the directory of its file, `definition_digest` the digest of the files read, and `now`
    the current time of all plans. `spool` is the directory for plan files ("": none), and `session`
    the id of the command run. `guard_rails` are the names of the limits to measure.
    """

    root: str
    definition_digest: str
    now: str
    spool: str = ""
    session: str = ""
    confine: str = ""
    hidden_paths: tuple[str, ...] = ()
    allow_remote: tuple[str, ...] = ()
    allowed_sources: tuple[str, ...] = ()
    limits: dict[str, int] = {}
    guard_rails: tuple[str, ...] = ()
    has_lock: bool = True
    lock_timeout: float = 0.0


class SiteLock(Struct, frozen=True):
    """Lock of a site.

    With `has_started`, its journal has steps of an apply. With `is_running`, the process lives on
    this machine. `unlock_command` removes it.
    """

    id: str
    host: str
    who: str
    created: str
    has_started: bool
    unlock_command: str
    info: str = ""
    is_running: bool = False


class QuestionKind(StrEnum):
    """Kind of a question."""

    CERTAINTY = "certainty"
    FAILURE = "failure"
    REPLAY = "replay"


class SiteQuestion(Struct, frozen=True):
    """One of `parts` of a question; the parts together are independent of the workers.

    `runs` is the number of samples, from the seed `part * runs`. `source` is the export of a
    replay, with SITE as placeholder.
    """

    kind: QuestionKind
    part: int = 0
    parts: int = 1
    runs: int = 0
    source: str = ""


class SiteQuestionFinding(Struct, frozen=True):
    """One row of a result, about a VM, a rack or a spread.

    Figures of parts are added.
    """

    name: str
    figures: dict[str, int | float] = {}
    texts: tuple[str, ...] = ()
    is_problem: bool = False


class Task(Struct, frozen=True):
    """One task for one site.

    `digest` is the approved digest of its plan, and `plan_digest` the approved digest of its plan
    file. `unlock_host` is the host of the locks to release ("": those of this run).
    """

    kind: SiteTaskKind
    site: str
    fleet: FleetContext
    digest: str = ""
    plan_digest: str = ""
    question: SiteQuestion | None = None
    unlock_host: str = ""

    @property
    def identity(self) -> tuple[str, int]:
        """Site and part of a question (0 without one).

        Unique among the tasks of one call of an engine.
        """
        return self.site, self.question.part if self.question is not None else 0


class SiteDiagnostic(Struct, frozen=True):
    """Diagnostic of a site as data.

    `file` and `line` are its location ("" and 0: none). `level` is its weight. With
    `is_preexisting`, it is not caused by the plan.
    """

    severity: str
    id: str
    summary: str
    detail: str
    file: str = ""
    line: int = 0
    address: str = ""
    level: str = "error"
    is_preexisting: bool = False


def describe_diagnostic(problem: SiteDiagnostic) -> str:
    """Describe a diagnostic in a line: `nexusform.sites.hcl:3: Unsupported block type: ...`."""
    location = f"{problem.file}:{problem.line}: " if problem.file else ""
    detail = " ".join(problem.detail.split())
    return f"{location}{problem.summary}{f': {detail}' if detail else ''}"


class SiteResult(Struct, frozen=True):
    """Result of a task.

    `reason` explains a rejected, failed or skipped site. `rows` are the changes of its plan with
    SITE as name, equal for equal changes. `decision` is the record of its decision block, None
    without a plan. `impact` counts the objects that it affects. `state_location` is the place of
    its state, and `read_states` are the states of other sites read. `plan_digest` is the digest of
    the plan file. With `is_locked`, the lock is kept. `wrong_certain` are wrong
    predictions reported as certain. `findings` are the answers of a question. `lock` is the lock of
    its state.
    """

    site: str
    status: SiteStatus
    reason: str = ""
    digest: str = ""
    plan_digest: str = ""
    rows: tuple[str, ...] = ()
    impact: ImpactSummary = ImpactSummary()
    decision: DecisionRecord | None = None
    diagnostics: tuple[SiteDiagnostic, ...] = ()
    state_location: str = ""
    read_states: tuple[str, ...] = ()
    serial: int = 0
    correct_predictions: int = 0
    wrong_predictions: int = 0
    wrong_certain: tuple[str, ...] = ()
    is_locked: bool = False
    machines: int = 0
    vms: int = 0
    findings: tuple[SiteQuestionFinding, ...] = ()
    lock: SiteLock | None = None

    @property
    def problem_findings(self) -> list[SiteQuestionFinding]:
        """Findings with a problem."""
        return [finding for finding in self.findings if finding.is_problem]

    @property
    def warnings(self) -> list[str]:
        """Texts of its warnings."""
        return [item.detail for item in self.diagnostics if item.severity == Severity.WARNING.value]


def select_results(results: Iterable[SiteResult], *statuses: SiteStatus) -> list[SiteResult]:
    """Select the results with one of these statuses."""
    return [result for result in results if result.status in statuses]


# Messages between processes. Decoding raises msgspec.ValidationError.
encode_task_message: Final = msgspec.json.encode
decode_task: Final = msgspec.json.Decoder(Task).decode
decode_task_result: Final = msgspec.json.Decoder(SiteResult).decode


OnResult: TypeAlias = Callable[[Task, SiteResult], None]


class TaskEngineError(Exception):
    """Unusable engine, or failed; the message is for the user.

    `running` are the sites with a task in progress.
    """

    def __init__(self, message: str, running: Iterable[str] = ()) -> None:
        super().__init__(message)
        # Sites with a task in progress.
        self.running = frozenset(running)


class TaskEngine(Protocol):
    """Runner of tasks on workers.

    The crash of a worker affects no other task.
    """

    @property
    def parallelism(self) -> int:
        """Number of tasks running at a time."""
        ...

    def run_tasks_until_stopped(
        self,
        tasks: Sequence[Task],
        on_result: OnResult,
        *,
        max_running: Callable[[], int],
        is_stopping: Callable[[], bool],
    ) -> list[Task]:
        """Run all tasks and report each result; return the tasks not started.

        Before each start, `max_running` gives the maximum of running tasks (0: none now), and
        `is_stopping` if no further task may start. A task with a crashed worker is retried on
        another one. Raises TaskEngineError.
        """
        ...

    def close(self) -> None:
        """Release the workers."""
        ...


def build_lost_result(task: Task, reason: str) -> SiteResult:
    """Build the result of a task without a result of its own.

    The result is rejected for a plan or question, else failed.
    """
    status = (
        SiteStatus.REJECTED
        if task.kind in (SiteTaskKind.PLAN, SiteTaskKind.ASK)
        else SiteStatus.FAILED
    )
    return SiteResult(task.site, status, reason)
