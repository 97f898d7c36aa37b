"""What may not change in a placement, a budget or a staged strategy, and what each of them may not say.

Findings that compare with the previous object belong to a plan; the way out is to replace the placement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.scheduling.bindings import PlacementType, Policy
from nexusform.domains.fleet.scheduling.eviction import DisruptionBudget
from nexusform.domains.fleet.scheduling.staged import APPROVAL, TIMED_WAIT, Stage, Task
from nexusform.domains.fleet.scheduling.validation import WHOLE, Path, check_selector, invalid

EXTERNAL, ROLLING_UPDATE = "External", "RollingUpdate"
MOST_STAGES, MOST_BEFORE, MOST_AFTER, LONGEST_STAGE = 31, 1, 2, 63


def check_policy_change(before: Policy | None, after: Policy | None) -> list[Problem]:
    """What is wrong with a policy against the one it follows; paths start at the placement."""
    problems: list[Problem] = []
    if before is not None and after is None:
        problems.append(invalid(("policy",), "policy cannot be removed once set"))
    old = before.placement_type if before else PlacementType.PICK_ALL
    new = after.placement_type if after else PlacementType.PICK_ALL
    if old is not new:
        problems.append(invalid(("policy", "placement_type"), "placement type is immutable"))
    old_tolerations = before.tolerations if before else ()
    new_tolerations = after.tolerations if after else ()
    if not set(old_tolerations) <= set(new_tolerations):
        text = "tolerations have been updated/deleted, only additions to tolerations are allowed"
        problems.append(invalid(("policy", "toleration"), text))
    return problems


def check_strategy_change(before: str, after: str) -> list[Problem]:
    """What is wrong with a strategy's type against the one it follows."""
    if before == EXTERNAL and after != EXTERNAL:
        text = "the rollout strategy type cannot be changed back once it is External"
        return [invalid(("strategy", "type"), text)]
    return []


def check_budget(budget: DisruptionBudget, placement_type: PlacementType | None) -> list[Problem]:
    """What is wrong with a disruption budget; `placement_type` None: its placement is not known (yet)."""
    problems: list[Problem] = []
    if budget.max_unavailable is not None and budget.min_available is not None:
        problems.append(invalid((), "max_unavailable and min_available cannot both be given"))
    elif budget == DisruptionBudget():
        text = "this budget lets nothing go: no eviction of the placement is executed"
        problems.append(Problem((), "budget-blocks-every-eviction", text, Severity.WARNING))
    for name, amount in (
        ("max_unavailable", budget.max_unavailable),
        ("min_available", budget.min_available),
    ):
        if amount is not None and amount.value < 0:
            problems.append(invalid((name,), f"{name} must be greater than or equal to 0, got {amount}"))
    if placement_type is not PlacementType.PICK_ALL:
        return problems
    start = "cluster resource placement policy type PickAll is not supported with"
    if budget.max_unavailable is not None:
        text = f"{start} any specified max unavailable {budget.max_unavailable}"
        problems.append(invalid(("max_unavailable",), text))
    if budget.min_available is not None and budget.min_available.percent:
        text = f"{start} min available as a percentage {budget.min_available}"
        problems.append(invalid(("min_available",), text))
    return problems


def check_stages(stages: Iterable[Stage]) -> list[Problem]:
    """What is wrong with the stages of a staged update strategy."""
    every = tuple(stages)
    problems: list[Problem] = []
    if len(every) > MOST_STAGES:
        problems.append(invalid(("stage",), f"at most {MOST_STAGES} stages, got {len(every)}"))
    names = [stage.name for stage in every]
    for i, stage in enumerate(every):
        path: Path = ("stage", i)
        if not re.fullmatch(r"[a-z0-9]+", stage.name, re.ASCII) or len(stage.name) > LONGEST_STAGE:
            text = f"stage name {stage.name!r} must be 1 to {LONGEST_STAGE} lower-case letters and digits"
            problems.append(invalid((*path, "name"), text))
        if stage.name in names[:i]:
            problems.append(invalid((*path, "name"), f"stage name {stage.name!r} is there twice"))
        at_once = stage.max_concurrency
        if at_once.value < 1 or (at_once.percent and at_once.value > WHOLE):
            text = f"max_concurrency must be at least 1, or from 1% to 100%, got {at_once}"
            problems.append(invalid((*path, "max_concurrency"), text))
        problems += check_selector(stage.label_selector, (*path, "label_selector"))
        problems += _check_tasks(stage.before, (*path, "before_stage_task"), MOST_BEFORE, (APPROVAL,))
        problems += _check_tasks(stage.after, (*path, "after_stage_task"), MOST_AFTER, (APPROVAL, TIMED_WAIT))
    return problems


def _check_tasks(tasks: tuple[Task, ...], path: Path, most: int, allowed: tuple[str, ...]) -> list[Problem]:
    """What is wrong with the tasks before or after a stage."""
    problems: list[Problem] = []
    if len(tasks) > most:
        problems.append(invalid(path, f"at most {most}, got {len(tasks)}"))
    for i, task in enumerate(tasks):
        task_path = (*path, i)
        if task.type not in allowed:
            problems.append(invalid((*task_path, "type"), f"task type {task.type} is not allowed here"))
        if task.type in [earlier.type for earlier in tasks[:i]]:
            problems.append(
                invalid((*task_path, "type"), f"there cannot be more than one task of type {task.type}")
            )
        if task.type == APPROVAL and task.wait_seconds is not None:
            problems.append(
                invalid((*task_path, "wait_time"), "task type is Approval, waitTime is not allowed")
            )
        if task.type == TIMED_WAIT and task.wait_seconds is None:
            problems.append(
                invalid((*task_path, "wait_time"), "task type is TimedWait, waitTime is required")
            )
        if task.wait_seconds is not None and task.wait_seconds < 0:
            problems.append(invalid((*task_path, "wait_time"), "waitTime must be a non-negative duration"))
    return problems
