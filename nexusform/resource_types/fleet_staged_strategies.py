"""What the two types of staged update strategies have in common."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from nexusform.diagnostics import Problem
from nexusform.importers.fleet_model import FleetObject, FleetStrategy
from nexusform.ports import ResourceType
from nexusform.resource_types.fleet_kinds import FleetKind, Values, fleet_type
from nexusform.resource_types.fleet_reading import amount_problems, read_amount, read_label_selector
from nexusform.resource_types.fleet_schemas import LABEL_SELECTOR, many, one, text
from nexusform.scheduling.fleet.changes import check_stages
from nexusform.scheduling.fleet.staged import Stage, Task
from nexusform.scheduling.fleet.validation import invalid
from nexusform.scheduling.quantity import Amount, parse_duration
from nexusform.schema import BlockSchema

_TASK: Final = BlockSchema(
    {
        "type": text("Approval or TimedWait.", required=True, choices=("Approval", "TimedWait")),
        "wait_time": text("How long, such as 1h30m (TimedWait)."),
    }
)
_SPEC: Final = BlockSchema(
    {},
    {
        "stage": many(
            "The stages in order.",
            BlockSchema(
                {
                    "name": text("Name: lower-case letters and digits.", required=True),
                    "sorting_label_key": text("Label whose whole number orders the clusters."),
                    "max_concurrency": text(
                        "How many clusters at a time: a number or per cent.", default="1"
                    ),
                },
                {
                    "label_selector": one(
                        "The clusters: an empty block stands for all that are picked, no block for none.",
                        LABEL_SELECTOR,
                    ),
                    "before_stage_task": many("What is waited for before the stage.", _TASK),
                    "after_stage_task": many("What is waited for after the stage.", _TASK),
                },
            ),
        )
    },
)


def _read(attributes: Values, arguments: Values) -> FleetStrategy:
    stages = tuple(
        Stage(
            str(block.get("name") or ""),
            read_label_selector(block.get("label_selector")),
            block.get("sorting_label_key"),
            read_amount(block.get("max_concurrency"), Amount(1)) or Amount(1),
            _tasks(block.get("before_stage_task")),
            _tasks(block.get("after_stage_task")),
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


def _findings(strategy: FleetObject, arguments: Values) -> Iterator[Problem]:
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
    fleet = FleetKind(kind, _SPEC, namespaced)
    return fleet_type(name, fleet, description, read=_read, findings=_findings)
