"""Place and evaluation of a plan for reviewers, and results of its checks.

The checks are guard rails, an earlier plan, and real programs.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class EvaluatedFile(Struct, frozen=True):
    """File read by the evaluation.

    `in_root` means that it is in the work tree, with links resolved.
    """

    path: str
    sha256: str
    in_root: bool


class EvaluationEnvironment(Struct, frozen=True):
    """Circumstances of an evaluation.

    `confined` means that it ran in a sandbox. `root` is the top of the work tree or sandbox,
    relative to the directory of the configuration. `origins` are the contacted servers,
    `programs` the names of started programs, `environment_read` the names of variables with
    settings or credentials.
    """

    confined: bool
    root: str = "."
    files: tuple[EvaluatedFile, ...] = ()
    origins: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    environment_read: tuple[str, ...] = ()


class PlanOrigin(Struct, frozen=True, omit_defaults=True):
    """Place that a plan was made for.

    `repository` is host and path of the Git remote, `directory` the path in the work tree.
    `backend` is the kind of the backend, and `location` that of the state in it. `commit` is the
    checked-out one. "none" means that there is none, "" that it is unknown. Without
    `has_work_tree`, `directory` is only a name.
    """

    repository: str
    directory: str
    backend: str
    location: str
    commit: str
    has_work_tree: bool = True


class GuardRailOutcome(StrEnum):
    """Outcome of a limit: UNKNOWN without a figure, which blocks too; REVIEW does not block."""

    PASSED = "passed"
    BLOCKED = "blocked"
    UNKNOWN = "unknown"
    REVIEW = "review"


class GuardRailResult(Struct, frozen=True):
    """Result of one limit of `-fail-on`, or of `-warn-on`, which does not block.

    `value` is the measured figure, None if unknown. `reason` explains every result but PASSED.
    """

    name: str
    limit: float
    value: float | None
    result: GuardRailOutcome
    reason: str = ""
    blocks: bool = True


class PreviousPlanDifferences(Struct, frozen=True):
    """Differences from an earlier plan of the same branch.

    `ref` is its commit, or its time. The numbers are later minus earlier: VMs, bindings and pods
    that move or lose their host, removed ones, and VMs that fit: in all, and by name of the sites
    with a difference. `objects` are the VMs, bindings and pods with another action, location or
    trigger, `resources` the addresses of other resources with another action or attributes.
    `has_other_differences` means that outputs, findings or figures differ.
    """

    ref: str
    moved: int
    removed: int
    capacity: int
    clusters_no_longer_affected: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    has_other_differences: bool = False
    capacity_by_site: Mapping[str, int] = field(default_factory=dict)


class DecisionDifference(Struct, frozen=True):
    """Different decisions on one object: `predicted` in the plan, and `actual` by the program.

    A location of "" means none. With `is_reading`, they are readings of a document, not locations.
    `refusal` is the reason of a program that refuses to create the object, "" if it creates it.
    """

    address: str
    object: str
    predicted: str
    actual: str
    is_reading: bool = False
    refusal: str = ""


class ProgramCheck(Struct, frozen=True):
    """Decisions of a plan repeated by a real program: `checked` of `total` objects named `noun`.

    `readers` are the programs that built its requests, with their versions. `not_checked` names
    what the program was not asked about any of them.
    """

    program: str
    version: str
    checked: int
    total: int
    noun: str
    differences: tuple[DecisionDifference, ...] = ()
    readers: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()
