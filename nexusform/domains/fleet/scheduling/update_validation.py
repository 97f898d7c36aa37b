"""Validation of placement updates, disruption budgets and staged strategies. Findings about updates belong to
a plan; the remedy is to replace the placement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.fleet.scheduling.bindings import PlacementType, Policy
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.fleet_api_validation import FULL_PERCENTAGE, Path, build_error, check_selector
from nexusform.domains.fleet.scheduling.staged_update import APPROVAL, TIMED_WAIT, Stage, UpdateStageTask

EXTERNAL, ROLLING_UPDATE = "External", "RollingUpdate"
MAX_STAGES, MAX_BEFORE_TASKS, MAX_AFTER_TASKS, MAX_STAGE_NAME_LENGTH = 31, 1, 2, 63


def check_policy_change(old_policy: Policy | None, new_policy: Policy | None) -> list[Problem]:
    """Return the problems of a policy update; paths start at the placement."""
    problems: list[Problem] = []
    if old_policy is not None and new_policy is None:
        problems.append(build_error(("policy",), "policy cannot be removed once set"))
    old_type = old_policy.placement_type if old_policy else PlacementType.PICK_ALL
    new_type = new_policy.placement_type if new_policy else PlacementType.PICK_ALL
    if old_type is not new_type:
        problems.append(build_error(("policy", "placement_type"), "placement type is immutable"))
    old_tolerations = old_policy.tolerations if old_policy else ()
    new_tolerations = new_policy.tolerations if new_policy else ()
    if not set(old_tolerations) <= set(new_tolerations):
        text = "tolerations have been updated/deleted, only additions to tolerations are allowed"
        problems.append(build_error(("policy", "toleration"), text))
    return problems


def check_strategy_change(old_type: str, new_type: str) -> list[Problem]:
    """Return the problems of a strategy type update."""
    if old_type == EXTERNAL and new_type != EXTERNAL:
        text = "the rollout strategy type cannot be changed back once it is External"
        return [build_error(("strategy", "type"), text)]
    return []


def check_disruption_budget(budget: PlacementDisruptionBudget, placement_type: PlacementType | None) -> list[Problem]:
    """Return the problems of a disruption budget; `placement_type` None: unknown placement."""
    problems: list[Problem] = []
    if budget.max_unavailable is not None and budget.min_available is not None:
        problems.append(build_error((), "max_unavailable and min_available cannot both be set"))
    elif budget == PlacementDisruptionBudget():
        text = "this budget blocks every eviction of the placement"
        problems.append(Problem((), "fully-blocking-budget", text, Severity.WARNING))
    for name, amount in (("max_unavailable", budget.max_unavailable), ("min_available", budget.min_available)):
        if amount is not None and amount.value < 0:
            problems.append(build_error((name,), f"{name} must be greater than or equal to 0, got {amount}"))
    if placement_type is not PlacementType.PICK_ALL:
        return problems
    start = "cluster resource placement policy type PickAll is not supported with"
    if budget.max_unavailable is not None:
        text = f"{start} any specified max unavailable {budget.max_unavailable}"
        problems.append(build_error(("max_unavailable",), text))
    if budget.min_available is not None and budget.min_available.is_percent:
        text = f"{start} min available as a percentage {budget.min_available}"
        problems.append(build_error(("min_available",), text))
    return problems


def check_update_stages(stages: Iterable[Stage]) -> list[Problem]:
    """Return the problems of the stages of a staged update strategy."""
    all_stages = tuple(stages)
    problems: list[Problem] = []
    if len(all_stages) > MAX_STAGES:
        problems.append(build_error(("stage",), f"at most {MAX_STAGES} stages, got {len(all_stages)}"))
    names = [stage.name for stage in all_stages]
    for i, stage in enumerate(all_stages):
        path: Path = ("stage", i)
        if not re.fullmatch(r"[a-z0-9]+", stage.name, re.ASCII) or len(stage.name) > MAX_STAGE_NAME_LENGTH:
            text = f"stage name {stage.name!r} must be 1 to {MAX_STAGE_NAME_LENGTH} lower-case letters and digits"
            problems.append(build_error((*path, "name"), text))
        if stage.name in names[:i]:
            problems.append(build_error((*path, "name"), f"duplicate stage name {stage.name!r}"))
        concurrency = stage.max_concurrency
        if concurrency.value < 1 or (concurrency.is_percent and concurrency.value > FULL_PERCENTAGE):
            text = f"max_concurrency must be at least 1, or from 1% to 100%, got {concurrency}"
            problems.append(build_error((*path, "max_concurrency"), text))
        problems += check_selector(stage.label_selector, (*path, "label_selector"))
        problems += _check_tasks(stage.before, (*path, "before_stage_task"), MAX_BEFORE_TASKS, (APPROVAL,))
        problems += _check_tasks(stage.after, (*path, "after_stage_task"), MAX_AFTER_TASKS, (APPROVAL, TIMED_WAIT))
    return problems


def _check_tasks(
    tasks: tuple[UpdateStageTask, ...], path: Path, maximum: int, allowed_types: tuple[str, ...]
) -> list[Problem]:
    """Return the problems of the tasks before or after a stage."""
    problems: list[Problem] = []
    if len(tasks) > maximum:
        problems.append(build_error(path, f"at most {maximum}, got {len(tasks)}"))
    for i, task in enumerate(tasks):
        task_path = (*path, i)
        if task.type not in allowed_types:
            problems.append(build_error((*task_path, "type"), f"task type {task.type} is not allowed here"))
        if task.type in [earlier.type for earlier in tasks[:i]]:
            problems.append(
                build_error((*task_path, "type"), f"there cannot be more than one task of type {task.type}")
            )
        if task.type == APPROVAL and task.wait_seconds is not None:
            problems.append(build_error((*task_path, "wait_time"), "task type is Approval, waitTime is not allowed"))
        if task.type == TIMED_WAIT and task.wait_seconds is None:
            problems.append(build_error((*task_path, "wait_time"), "task type is TimedWait, waitTime is required"))
        if task.wait_seconds is not None and task.wait_seconds < 0:
            problems.append(build_error((*task_path, "wait_time"), "waitTime must be a non-negative duration"))
    return problems
