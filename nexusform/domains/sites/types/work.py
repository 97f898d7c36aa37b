"""What workers are asked, and what they answer: data alone, without state, credentials or sensitive values.

A task names a site; whatever is needed for it the worker reads where it is. Both cross processes as JSON.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct

from nexusform.plans.impact.effects import EffectCount
from nexusform.weights import Stake


class Kind(StrEnum):
    """What is to be done with a site.

    `prepare` takes its lock, plans it anew, compares, and keeps all that for `apply`; `release` lets go of
    it again. `status` only reads, and so does `ask`.
    """

    PLAN = "plan"
    PREPARE = "prepare"
    APPLY = "apply"
    RELEASE = "release"
    STATUS = "status"
    ASK = "ask"


class Status(StrEnum):
    """What becomes of a site."""

    UNCHANGED = "unchanged"
    PLANNED = "planned"
    REFUSED = "refused"
    APPLIED = "applied"
    FAILED = "failed"
    SKIPPED = "skipped"


class Fleet(Struct, frozen=True):
    """Where a fleet is, and how far its configuration is trusted: the same for all its tasks.

    `root` is the directory of its file, `definition` the digest of what was read for it. `now` is the time
    that all its plans take as now. `spool` is a directory that workers write plan files to ("": none), and
    `session` names this run of the command.
    """

    root: str
    definition: str
    now: str
    spool: str = ""
    session: str = ""
    confine: str = ""
    hidden: tuple[str, ...] = ()
    allow_remote: tuple[str, ...] = ()
    allowed_sources: tuple[str, ...] = ()
    limits: dict[str, int] = {}
    lock: bool = True
    lock_timeout: float = 0.0


class Asked(StrEnum):
    """What may be asked of sites."""

    CERTAINTY = "certainty"
    FAILURE = "failure"
    REPLAY = "replay"


class Question(Struct, frozen=True):
    """One part of a question, of `parts` that together are the whole answer, whoever answers them.

    `runs`: tie-breaks that this part repeats, from the seed `part * runs` on. `source`: the export that a
    replay looks at; SITE in it stands for the site's name.
    """

    asked: Asked
    part: int = 0
    parts: int = 1
    runs: int = 0
    source: str = ""


class Finding(Struct, frozen=True):
    """One row of what was found out: of a VM, a rack or a way of spreading. Figures of parts are added up."""

    name: str
    figures: dict[str, int | float] = {}
    words: tuple[str, ...] = ()
    bad: bool = False


class Task(Struct, frozen=True):
    """One thing to do with one site.

    `digest` is what its plan must come to, `plan` the digest of its plan file: both as they were approved.
    """

    kind: Kind
    site: str
    fleet: Fleet
    digest: str = ""
    plan: str = ""
    question: Question | None = None

    @property
    def identity(self) -> tuple[str, int]:
        """What tells tasks of one call from each other."""
        return self.site, self.question.part if self.question is not None else 0


class Trouble(Struct, frozen=True):
    """A diagnostic of a site as data: `file` and `line` are where it points to ("" and 0: nowhere).

    `level` is how much it weighs, and `held_before` says that the plan did not cause it.
    """

    severity: str
    id: str
    summary: str
    detail: str
    file: str = ""
    line: int = 0
    address: str = ""
    level: str = "error"
    held_before: bool = False


class Answer(Struct, frozen=True):
    """What came of a task.

    `reason` says why a site is refused, has failed or was skipped. `rows` say what its plan does, with
    the site's name as SITE, so that sites with which the same happens have the same rows;
    `redundancy_lost` names pools that stood on several racks and stand on one afterwards. `leaving`
    counts what does not go on running where it runs, `stake` is how bad that is, `at_stake` whose quorum
    or last replica is, and which separation rules end. `lost` and `forgotten` are among `moved` and
    `removed`. `state` is where its state is, `reads` the states of others that its plan was made from.
    `plan` is the digest of the plan file. `held`: the lock was taken and is kept. `broken_sure`: what its
    plan was sure of and is not so.
    `findings` answer a question.
    """

    site: str
    status: Status
    reason: str = ""
    digest: str = ""
    plan: str = ""
    rows: tuple[str, ...] = ()
    placed: int = 0
    moved: int = 0
    removed: int = 0
    lost: int = 0
    forgotten: int = 0
    stake: Stake = Stake.NOTHING
    leaving: tuple[EffectCount, ...] = ()
    at_stake: tuple[str, ...] = ()
    redundancy_lost: tuple[str, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    state: str = ""
    reads: tuple[str, ...] = ()
    serial: int = 0
    hits: int = 0
    misses: int = 0
    broken_sure: tuple[str, ...] = ()
    held: bool = False
    machines: int = 0
    vms: int = 0
    findings: tuple[Finding, ...] = ()


_TASKS: Final = msgspec.json.Decoder(Task)
_ANSWERS: Final = msgspec.json.Decoder(Answer)


def encode(message: Task | Answer) -> bytes:
    """A task or an answer as bytes."""
    return msgspec.json.encode(message)


def task_of(data: bytes) -> Task:
    """The task in these bytes. Raises msgspec.ValidationError."""
    return _TASKS.decode(data)


def answer_of(data: bytes) -> Answer:
    """The answer in these bytes. Raises msgspec.ValidationError."""
    return _ANSWERS.decode(data)
