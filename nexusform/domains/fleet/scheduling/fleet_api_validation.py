"""Validation errors of KubeFleet's API and webhooks, and warnings about accepted but failing placements. Every problem
has its path in the configuration. Source: KubeFleet pkg/utils/validator and apis/placement/v1beta1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    Member,
    PlacementType,
    Policy,
    PropertyRequirement,
    ResourceUsage,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.eviction import PlacementDisruptionBudget
from nexusform.domains.fleet.scheduling.properties import (
    CAPACITY_TYPES,
    COMPARISONS,
    RESOURCE_PREFIX,
    find_contradictory_requirements,
)
from nexusform.domains.fleet.scheduling.rules.cluster_affinity import ASCENDING, DESCENDING
from nexusform.domains.fleet.scheduling.staged_update import APPROVAL, TIMED_WAIT, Stage, UpdateStageTask
from nexusform.kubernetes.matching import (
    EQUAL,
    EXISTS,
    MAX_NAME_LENGTH,
    NO_SCHEDULE,
    LabelSelector,
    Taint,
    Toleration,
    validate_dns_subdomain,
    validate_label_value,
    validate_qualified_name,
    validate_selector,
)
from nexusform.kubernetes.quantity import IntegerOrPercent, InvalidQuantity, Quantity, parse_quantity

Path = tuple[str | int, ...]
MAX_TERMS, MAX_NAMES, MAX_TOLERATIONS = 10, 100, 100
MAX_WEIGHT = 100
FULL_PERCENTAGE = 100  # per cent
_REQUIRED: Path = (
    "affinity",
    "cluster_affinity",
    "required_during_scheduling_ignored_during_execution",
    "cluster_selector_term",
)
_PREFERRED: Path = ("affinity", "cluster_affinity", "preferred_during_scheduling_ignored_during_execution")
_TEXT_PROPERTIES = ("k8s.io/k8s-version", "k8s.io/cluster-entrypoint", "k8s.io/cluster-certificate-authority-data")


INVALID: Final = "invalid-fleet-object"
UNUSUAL: Final = "hub-behaviour-differs"


def build_error(path: Path, detail: str) -> Problem:
    """Build an error with a clause. `path` is as in the configuration, repeated blocks by index from 0."""
    return Problem(path, INVALID, detail)


def build_hub_difference_warning(path: Path, detail: str) -> Problem:
    """Build a warning about different behaviour of a real hub."""
    return Problem(path, UNUSUAL, detail, Severity.WARNING)


def format_sentence(clause: str) -> str:
    """Return a clause as a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}."


def check_name(name: str) -> list[Problem]:
    """Return the problems of a fleet object's name: a DNS subdomain of at most 63 characters."""
    problems = [build_error(("name",), f'name "{name}": {problem}') for problem in validate_dns_subdomain(name)]
    if len(name) > MAX_NAME_LENGTH:
        problems.append(build_error(("name",), f"the name field cannot have length exceeding {MAX_NAME_LENGTH}"))
    return problems


def check_policy(policy: Policy) -> list[Problem]:
    """Return the problems of a policy; paths start below `policy`."""
    problems = _check_unsupported_fields(policy)
    if policy.placement_type is PlacementType.PICK_FIXED:  # supports no terms and tolerations
        return problems + _check_cluster_names(policy.cluster_names)
    if policy.placement_type is PlacementType.PICK_N:
        problems += _check_number_of_clusters(policy.number_of_clusters)
        for i, constraint in enumerate(policy.spread_constraints):
            problems += _check_spread_constraint(constraint, ("topology_spread_constraint", i))
        for i, term in enumerate(policy.preferred_terms):
            path: Path = (*_PREFERRED, i)
            if abs(term.weight) > MAX_WEIGHT:
                problems.append(build_error((*path, "weight"), f"weight must be from -100 to 100, got {term.weight}"))
            problems += _check_preferred_term(term.preference, (*path, "preference"))
    return problems + _check_required_terms(policy) + check_tolerations(policy.tolerations)


def _check_unsupported_fields(policy: Policy) -> list[Problem]:
    """Return the problems of fields unsupported by the placement type, with the texts of the hub's webhook."""
    kind = policy.placement_type
    is_fixed, is_pick_n = kind is PlacementType.PICK_FIXED, kind is PlacementType.PICK_N
    suffix = f"for policy type {kind}, only valid for"
    problems: list[Problem] = []
    if not is_fixed and policy.cluster_names:
        problems.append(build_error(("cluster_names",), f"cluster names needs to be empty {suffix} PickFixed"))
    if not is_pick_n and policy.number_of_clusters is not None:
        problems.append(build_error(("number_of_clusters",), f"number of clusters must be nil {suffix} PickN"))
    if is_fixed and (policy.required_terms is not None or policy.preferred_terms):
        problems.append(build_error(("affinity",), f"affinity must be nil {suffix} PickAll and PickN"))
    if not is_pick_n and policy.spread_constraints:
        text = f"topology spread constraints needs to be empty {suffix} PickN"
        problems.append(build_error(("topology_spread_constraint", 0), text))
    if is_fixed and policy.tolerations:
        problems.append(build_error(("toleration", 0), f"tolerations needs to be empty {suffix} PickAll and PickN"))
    if kind is PlacementType.PICK_ALL and policy.preferred_terms:
        text = f"PreferredDuringSchedulingIgnoredDuringExecution will be ignored for policy type {kind}"
        problems.append(build_error((*_PREFERRED, 0), text))
    return problems


def _check_cluster_names(names: tuple[str, ...]) -> list[Problem]:
    """Return the problems of the names of a PickFixed policy."""
    path: Path = ("cluster_names",)
    problems: list[Problem] = []
    for i, name in enumerate(names):
        text = f"PickFixed cluster name {name} is not a valid member name"
        problems += [build_error((*path, i), f"{text}: {problem}") for problem in validate_dns_subdomain(name)]
    problems += [
        build_error((*path, i), f"PickFixed cluster name {name} cannot have length exceeding {MAX_NAME_LENGTH}")
        for i, name in enumerate(names)
        if len(name) > MAX_NAME_LENGTH
    ]
    problems += [
        build_error((*path, i), f"cluster names must be unique for policy type PickFixed: duplicate {name}")
        for i, name in enumerate(names)
        if name in names[:i]
    ]
    if len(names) > MAX_NAMES:
        problems.append(build_error(path, f"at most {MAX_NAMES} cluster names, got {len(names)}"))
    return problems


def _check_number_of_clusters(number: int | None) -> list[Problem]:
    """Return the problems of N of a PickN policy (None: not set)."""
    path: Path = ("number_of_clusters",)
    if number is None:
        text = "PickN without number_of_clusters: the plan selects every eligible cluster, but a real hub rejects it"
        return [build_hub_difference_warning(path, text)]
    if number < 0:
        return [build_error(path, f"number of clusters cannot be {number} for policy type PickN")]
    return []


def _check_spread_constraint(constraint: TopologySpreadConstraint, path: Path) -> list[Problem]:
    """Return the problems of one topology spread constraint."""
    problems: list[Problem] = []
    if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
        text = f"unknown unsatisfiable type {constraint.when_unsatisfiable}"
        problems.append(build_error((*path, "when_unsatisfiable"), text))
    if constraint.max_skew < 1:
        problems.append(build_error((*path, "max_skew"), f"max_skew must be 1 or more, got {constraint.max_skew}"))
    return problems


def _check_required_terms(policy: Policy) -> list[Problem]:
    """Return the problems of the required terms: too many, or invalid selectors and sorters."""
    terms = policy.required_terms or ()
    problems: list[Problem] = []
    if len(terms) > MAX_TERMS:
        problems.append(build_error(_REQUIRED, f"at most {MAX_TERMS} cluster selector terms, got {len(terms)}"))
    for i, term in enumerate(terms):
        path: Path = (*_REQUIRED, i)
        problems += check_selector(term.label_selector, (*path, "label_selector"))
        if term.property_sorter is not None:
            text = "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity"
            problems.append(build_error((*path, "property_sorter"), text))
        problems += _check_property_requirements(term.property_selector or (), (*path, "property_selector"))
    return problems


def _check_preferred_term(preference: ClusterSelectorTerm, path: Path) -> list[Problem]:
    """Return the problems of one preferred term's selector and sorter."""
    problems = check_selector(preference.label_selector, (*path, "label_selector"))
    if preference.property_selector is not None:
        text = "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity"
        problems.append(build_error((*path, "property_selector"), text))
    sorter = preference.property_sorter
    if sorter is None:
        return problems
    problems += _check_property_name(sorter.name, (*path, "property_sorter", "name"))
    if sorter.sort_order not in (ASCENDING, DESCENDING):
        text = f"invalid property sort order {sorter.sort_order}"
        problems.append(build_error((*path, "property_sorter", "sort_order"), text))
    return problems


def check_selector(selector: LabelSelector | None, path: Path) -> list[Problem]:
    """Return the problems of a label selector."""
    return [build_error(path, problem) for problem in validate_selector(selector)] if selector else []


def _check_property_requirements(requirements: Iterable[PropertyRequirement], path: Path) -> list[Problem]:
    """Return the problems of property requirements, singly and together per property."""
    problems: list[Problem] = []
    by_name: dict[str, list[tuple[int, PropertyRequirement]]] = {}
    for i, requirement in enumerate(requirements):
        item_path: Path = (*path, "match_expression", i)
        problems += _check_property_name(requirement.name, (*item_path, "name"))
        problems += _check_requirement_values(requirement, item_path)
        by_name.setdefault(requirement.name, []).append((i, requirement))
    for name, group in by_name.items():
        problem = find_contradictory_requirements([requirement for _, requirement in group])
        if problem is not None:
            text = f"inconsistent requirements on property {name}: {problem}"
            last_index, _ = group[-1]
            problems.append(build_error((*path, "match_expression", last_index), text))
    return problems


def _check_requirement_values(requirement: PropertyRequirement, path: Path) -> list[Problem]:
    """Return the problems of one requirement's operator and value."""
    operator, values = requirement.operator, requirement.values
    if operator not in COMPARISONS:
        return [build_error((*path, "operator"), f"unsupported operator {operator}")]
    if len(values) != 1:
        text = f"operator {operator} requires exactly one value, got {len(values)}"
        return [build_error((*path, "values"), text)]
    quantity = parse_quantity(values[0])
    if isinstance(quantity, InvalidQuantity):
        text = f'value "{values[0]}" is not a valid resource.Quantity: {quantity.message}'
        return [build_error((*path, "values"), text)]
    return []


def _build_errors(path: Path, subject: str, problems: Iterable[str]) -> list[Problem]:
    """Build the errors of a subject from the problems of its text."""
    return [build_error(path, f"{subject}: {problem}") for problem in problems]


def _check_property_name(name: str, path: Path) -> list[Problem]:
    """Return the problems of a property name: a resource, or segments joined by slashes."""
    if name.startswith(RESOURCE_PREFIX):
        return _check_resource_name(name, path)
    prefix, *segments = name.split("/")
    if not segments:  # no slash
        return _build_errors(path, f"property name {name} is not valid", validate_qualified_name(name))
    problems: list[Problem] = []
    if validate_dns_subdomain(prefix) and validate_qualified_name(prefix):  # both return problems
        text = f"property name first segment {prefix} is neither a valid DNS subdomain nor a valid qualified name"
        problems.append(build_error(path, text))
    for segment in segments:
        text = f"property name segment {segment} is not valid"
        problems += _build_errors(path, text, validate_qualified_name(segment))
    if name in _TEXT_PROPERTIES:
        text = f"{name} is text, not a quantity, and stops the scheduler"
        problems.append(build_hub_difference_warning(path, text))
    return problems


def _check_resource_name(name: str, path: Path) -> list[Problem]:
    """Return the problems of a resource property's name."""
    kind, dash, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
    if not dash:
        text = f"invalid resource property name {name}, expected [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
        return [build_error(path, text)]
    if kind not in CAPACITY_TYPES:
        supported = " ".join(CAPACITY_TYPES)
        text = f"invalid capacity type in resource property name {name}, supported values are [{supported}]"
        return [build_error(path, text)]
    problems = _build_errors(path, f"property name {name} is not valid", validate_qualified_name(name))
    if not problems and (not resource or "-" in resource):  # the scheduler splits the name at dashes
        text = f"{name} passes the webhook but stops the scheduler: the resource name is missing or has a dash"
        problems.append(build_hub_difference_warning(path, text))
    return problems


def check_tolerations(tolerations: tuple[Toleration, ...]) -> list[Problem]:
    """Return the problems of a policy's tolerations."""
    problems: list[Problem] = []
    if len(tolerations) > MAX_TOLERATIONS:
        problems.append(build_error(("toleration",), f"at most {MAX_TOLERATIONS} tolerations, got {len(tolerations)}"))
    for i, toleration in enumerate(tolerations):
        path: Path = ("toleration", i)
        problems += _check_toleration(toleration, path)
        if toleration in tolerations[:i]:
            problems.append(build_error(path, "toleration already exists, tolerations must be unique"))
    return problems


def _check_toleration(toleration: Toleration, path: Path) -> list[Problem]:
    """Return the problems of one toleration."""
    problems: list[Problem] = []
    if toleration.key:  # an empty one matches all keys, with Exists only
        problems += _build_errors((*path, "key"), "invalid toleration key", validate_qualified_name(toleration.key))
    if toleration.operator not in (EQUAL, EXISTS):
        problems.append(build_error((*path, "operator"), f"unsupported toleration operator {toleration.operator}"))
    if toleration.operator == EXISTS and toleration.value:
        problems.append(build_error((*path, "value"), "toleration value needs to be empty, when operator is Exists"))
    if toleration.operator == EQUAL:
        if not toleration.key:
            problems.append(build_error((*path, "key"), "toleration key cannot be empty, when operator is Equal"))
        problems += _build_errors((*path, "value"), "invalid toleration value", validate_label_value(toleration.value))
    if toleration.effect not in ("", NO_SCHEDULE):  # "" matches all effects
        problems.append(
            build_error((*path, "effect"), f"unsupported effect {toleration.effect}: only NoSchedule exists")
        )
    return problems


def check_taints(taints: tuple[Taint, ...]) -> list[Problem]:
    """Return the problems of a member cluster's taints."""
    problems: list[Problem] = []
    for i, taint in enumerate(taints):
        path: Path = ("taint", i)
        problems += _build_errors((*path, "key"), "invalid taint key", validate_qualified_name(taint.key))
        problems += _build_errors((*path, "value"), "invalid taint value", validate_label_value(taint.value))
        if taint.effect != NO_SCHEDULE:
            problems.append(
                build_error((*path, "effect"), f"unsupported effect {taint.effect}: only NoSchedule exists")
            )
        if taint in taints[:i]:
            problems.append(build_error(path, "taint already exists, taints must be unique"))
    return problems


def check_member(member: Member) -> list[Problem]:
    """Return the problems of a member's name, labels or taints. Properties may be any text."""
    problems = check_name(member.name)
    for key, value in sorted(member.labels.items()):
        path: Path = ("labels", key)
        problems += [build_error(path, problem) for problem in validate_qualified_name(key)]
        problems += [build_error(path, problem) for problem in validate_label_value(value)]
    return problems + check_taints(member.taints)


def parse_resource_usage(
    total: Mapping[str, str], allocatable: Mapping[str, str], available: Mapping[str, str]
) -> tuple[ResourceUsage, list[Problem]]:
    """Parse a member's resource usage; invalid quantities are left out and reported, by map and resource name."""
    problems: list[Problem] = []

    def parse_amounts(name: str, texts: Mapping[str, str]) -> dict[str, Quantity]:
        amounts: dict[str, Quantity] = {}
        for resource, text in sorted(texts.items()):
            amount = parse_quantity(text)
            if isinstance(amount, InvalidQuantity):
                problems.append(build_error((name, resource), f'"{text}" is not a valid quantity: {amount.message}'))
            else:
                amounts[resource] = amount
        return amounts

    usage = ResourceUsage(
        parse_amounts("total", total), parse_amounts("allocatable", allocatable), parse_amounts("available", available)
    )
    return usage, problems


def check_rolling_update(
    max_unavailable: IntegerOrPercent,
    max_surge: IntegerOrPercent,
    unavailable_period_seconds: int,
    *,
    is_external: bool = False,
) -> list[Problem]:
    """Return the problems of the rolling_update block of a strategy; paths start below it."""
    problems: list[Problem] = []
    if is_external:
        problems.append(build_error((), "rolling_update is not valid for the External strategy type"))
    for name, amount in (("max_unavailable", max_unavailable), ("max_surge", max_surge)):
        if amount.value < 0:
            problems.append(build_error((name,), f"{name} must be greater than or equal to 0, got {amount}"))
        if amount.is_percent and amount.value > FULL_PERCENTAGE:
            problems.append(build_error((name,), f"{name} must be a number, or from 0% to 100%, got {amount}"))
    if unavailable_period_seconds < 0:
        text = f"unavailable_period_seconds must be greater than or equal to 0, got {unavailable_period_seconds}"
        problems.append(build_error(("unavailable_period_seconds",), text))
    if max_unavailable.value == max_surge.value == 0:
        text = "max_unavailable and max_surge are both 0: no rollout can make progress"
        problems.append(build_hub_difference_warning(path=(), detail=text))
    return problems


EXTERNAL, ROLLING_UPDATE = "External", "RollingUpdate"
MAX_STAGES, MAX_BEFORE_TASKS, MAX_AFTER_TASKS, MAX_STAGE_NAME_LENGTH = 31, 1, 2, 63


def check_policy_change(old_policy: Policy | None, new_policy: Policy | None) -> list[Problem]:
    """Return the problems of a policy update; paths start at the placement."""
    problems: list[Problem] = []
    if old_policy is not None and new_policy is None:
        problems.append(build_error(("policy",), "policy cannot be removed once set"))
    old, new = old_policy or Policy(), new_policy or Policy()  # without a policy: PickAll
    if old.placement_type is not new.placement_type:
        problems.append(build_error(("policy", "placement_type"), "placement type is immutable"))
    if not set(old.tolerations) <= set(new.tolerations):
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
    """Return the problems of a disruption budget; with `placement_type` None (unknown placement), the general ones."""
    problems: list[Problem] = []
    if budget.max_unavailable is not None and budget.min_available is not None:
        problems.append(build_error((), "max_unavailable and min_available cannot both be set"))
    elif budget == PlacementDisruptionBudget():
        text = "this budget blocks every eviction of the placement"
        problems.append(Problem((), "fully-blocking-budget", text, Severity.WARNING))
    for name, amount in (("max_unavailable", budget.max_unavailable), ("min_available", budget.min_available)):
        if amount is not None and amount.value < 0:
            problems.append(build_error((name,), f"{name} must be greater than or equal to 0, got {amount}"))
    if placement_type is not PlacementType.PICK_ALL:  # the further rules are for PickAll
        return problems
    start = "cluster resource placement policy type PickAll is not supported with"
    if budget.max_unavailable is not None:
        text = f"{start} any specified max unavailable {budget.max_unavailable}"
        problems.append(build_error(("max_unavailable",), text))
    if budget.min_available is not None and budget.min_available.is_percent:
        text = f"{start} min available as a percentage {budget.min_available}"
        problems.append(build_error(("min_available",), text))
    return problems


def check_update_stages(stages: Sequence[Stage]) -> list[Problem]:
    """Return the problems of the stages of a staged update strategy."""
    problems: list[Problem] = []
    if len(stages) > MAX_STAGES:
        problems.append(build_error(("stage",), f"at most {MAX_STAGES} stages, got {len(stages)}"))
    names = [stage.name for stage in stages]
    for i, stage in enumerate(stages):
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
    """Return the problems of the tasks before or after a stage: at most `maximum`, each of an allowed type, once."""
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
