"""What the staged types have in common, cluster-wide and of a namespace: strategies, runs, approvals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.importers.fleet_model import FleetApproval, FleetObject, FleetRun, FleetStrategy
from nexusform.domains.fleet.scheduling.changes import check_stages
from nexusform.domains.fleet.scheduling.staged import RunState, Stage, Task
from nexusform.domains.fleet.scheduling.validation import invalid
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.domains.fleet.types.fleet_reading import amount_problems, read_amount, read_label_selector
from nexusform.domains.fleet.types.fleet_schemas import (
    LABEL_SELECTOR,
    PLACEMENT_NAME,
    argument,
    many,
    one,
    text,
)
from nexusform.kubernetes.quantity import Amount, parse_duration
from nexusform.ports import ResourceType
from nexusform.schema import BlockSchema, OnChange, Reference
from nexusform.value_types import BOOL, STRING, SetType

# --- runs --------------------------------------------------------------------------------------

_APPROVALS: Final = argument(SetType(STRING), "Approved requests: <run>-before-<stage>, <run>-after-<stage>.")


def _run_spec(strategy: str) -> BlockSchema:
    return BlockSchema(
        {
            "placement_name": replace(
                PLACEMENT_NAME, required=True, optional=False, on_change=OnChange.REPLACE
            ),
            "staged_rollout_strategy_name": text(
                "Name of the staged update strategy.",
                required=True,
                on_change=OnChange.REPLACE,
                refers_to=Reference((strategy,), by="name"),
            ),
            "resource_snapshot_index": text(
                "Number of the resource snapshot. Default: the latest.", on_change=OnChange.REPLACE
            ),
            "state": text(
                "Requested state of the run.",
                default="Initialize",
                choices=tuple(str(state) for state in RunState),
            ),
        }
    )


def _read_run(attributes: Values, arguments: Values) -> FleetRun:
    index = str(arguments.get("resource_snapshot_index") or "")
    approvals = attributes.get("approvals") or ()
    return FleetRun(
        name=str(attributes.get("name") or ""),
        placement=str(arguments.get("placement_name") or ""),
        strategy=str(arguments.get("staged_rollout_strategy_name") or ""),
        resource_index=int(index) if index.isdecimal() and len(index) < 10 else None,
        state=RunState(arguments.get("state") or RunState.INITIALIZE),
        approvals=frozenset(name for name in approvals if isinstance(name, str)),
        namespace=str(attributes.get("namespace") or ""),
    )


def _run_findings(_run: FleetObject, arguments: Values) -> Iterator[Problem]:
    index = arguments.get("resource_snapshot_index")
    if index and not (str(index).isdecimal() and len(str(index)) < 10):
        text_ = f'"{index}" is not the number of a resource snapshot'
        yield invalid(("resource_snapshot_index",), text_)


def run_type(name: str, kind: str, *, strategy: str, namespaced: bool) -> ResourceType:
    """The resource type of a staged update run; `strategy` is the type of its strategy."""
    placement = "resource placement of its namespace" if namespaced else "cluster resource placement"
    return fleet_type(
        name,
        FleetKind(kind, _run_spec(strategy), namespaced),
        f"Rolls out a {placement} with the strategy External, stage by stage, on creation or change.",
        read=_read_run,
        findings=_run_findings,
        values={"approvals": _APPROVALS},
    )


# --- approval requests -------------------------------------------------------------------------


_APPROVAL_SPEC: Final = BlockSchema(
    {
        "parent_stage_rollout": text(
            "Name of the staged update run.", required=True, on_change=OnChange.REPLACE
        ),
        "target_stage": text("Name of the waiting stage.", required=True, on_change=OnChange.REPLACE),
    }
)
_APPROVED: Final = argument(
    BOOL,
    "Whether the request is approved. Default: condition Approved of the manifest; true for blocks.",
)


def _read_approval(attributes: Values, arguments: Values, fleet: FleetKind) -> FleetApproval:
    document = fleet.document(attributes)
    approved = attributes.get("approved")
    return FleetApproval(
        name=str(attributes.get("name") or ""),
        namespace=str(attributes.get("namespace") or ""),
        run=str(arguments.get("parent_stage_rollout") or ""),
        stage=str(arguments.get("target_stage") or ""),
        approved=approved if isinstance(approved, bool) else document is None or document.is_true("Approved"),
    )


def _approval_findings(approval: FleetObject, _arguments: Values) -> Iterator[Problem]:
    """A warning of a request that no run asks for."""
    assert isinstance(approval, FleetApproval)
    run, stage = approval.run, approval.stage
    names = [f"{run}-{when}-{stage}" for when in ("before", "after")]
    if approval.name and run and stage and approval.name not in names:
        text = (
            f"a run asks for {names[0]} or {names[1]}; a hub takes {approval.name}, and nothing waits for it"
        )
        yield Problem((), "approval-request-is-of-no-use", text, Severity.WARNING)


def approval_type(name: str, kind: str, *, run: str, namespaced: bool) -> ResourceType:
    """The resource type of an approval request; `run` is the type of the run that asks for it, and that goes
    on once it is granted.
    """
    fleet = FleetKind(kind, _APPROVAL_SPEC, namespaced)
    return fleet_type(
        name,
        fleet,
        "Approval of a stage of a staged update run. The run continues once approved.",
        read=partial(_read_approval, fleet=fleet),
        findings=_approval_findings,
        values={"approved": _APPROVED},
        goes_beside=(run,),
    )


# --- strategies --------------------------------------------------------------------------------


_TASK: Final = BlockSchema(
    {
        "type": text("Approval or TimedWait.", required=True, choices=("Approval", "TimedWait")),
        "wait_time": text("Duration such as 1h30m (TimedWait)."),
    }
)
_STRATEGY_SPEC: Final = BlockSchema(
    {},
    {
        "stage": many(
            "The stages in order.",
            BlockSchema(
                {
                    "name": text("Name: lower-case letters and digits.", required=True),
                    "sorting_label_key": text("Label with an integer value that orders the clusters."),
                    "max_concurrency": text("Clusters at a time: a number or percent.", default="1"),
                },
                {
                    "label_selector": one(
                        "The clusters. Empty block: all picked clusters. No block: none.",
                        LABEL_SELECTOR,
                    ),
                    "before_stage_task": many("Condition before the stage.", _TASK),
                    "after_stage_task": many("Condition after the stage.", _TASK),
                },
            ),
        )
    },
)


def _read_strategy(attributes: Values, arguments: Values) -> FleetStrategy:
    stages = tuple(
        Stage(
            name=str(block.get("name") or ""),
            label_selector=read_label_selector(block.get("label_selector")),
            sorting_label_key=block.get("sorting_label_key"),
            max_concurrency=read_amount(block.get("max_concurrency"), Amount(1)) or Amount(1),
            before=_tasks(block.get("before_stage_task")),
            after=_tasks(block.get("after_stage_task")),
        )
        for block in arguments.get("stage") or ()
    )
    namespace = str(attributes.get("namespace") or "")
    return FleetStrategy(str(attributes.get("name") or ""), stages, namespace)


def _tasks(blocks: Iterable[Values] | None) -> tuple[Task, ...]:
    tasks = []
    for block in blocks or ():
        written = block.get("wait_time")
        seconds = parse_duration(written) if written is not None else None
        tasks.append(Task(str(block.get("type") or ""), seconds if isinstance(seconds, float) else None))
    return tuple(tasks)


def _strategy_findings(strategy: FleetObject, arguments: Values) -> Iterator[Problem]:
    """What is wrong with the stages of a strategy."""
    assert isinstance(strategy, FleetStrategy)
    wrong: list[Problem] = []
    for i, block in enumerate(arguments.get("stage") or ()):
        here = ("stage", i)
        wrong += amount_problems(block, ("max_concurrency",), here)
        for kind in ("before_stage_task", "after_stage_task"):
            for k, task in enumerate(block.get(kind) or ()):
                written = task.get("wait_time")
                seconds = parse_duration(written) if written is not None else None
                if isinstance(seconds, str):
                    wrong.append(invalid((*here, kind, k, "wait_time"), seconds))
    yield from wrong
    if not strategy.stages:
        yield invalid((), "a staged update strategy needs at least one stage")
    said = {f.path for f in wrong}
    yield from (f for f in check_stages(strategy.stages) if f.path not in said)


def strategy_type(name: str, kind: str, description: str, *, namespaced: bool) -> ResourceType:
    """The resource type of a staged update strategy."""
    fleet = FleetKind(kind, _STRATEGY_SPEC, namespaced)
    return fleet_type(name, fleet, description, read=_read_strategy, findings=_strategy_findings)
