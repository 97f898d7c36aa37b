"""Validation errors of KubeFleet's API and webhooks, with paths.

Source: pkg/utils/validator, apis/placement.
"""

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
from nexusform.domains.fleet.scheduling.staged_update import (
    APPROVAL,
    TIMED_WAIT,
    Stage,
    UpdateStageTask,
)
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
from nexusform.kubernetes.quantity import (
    IntegerOrPercent,
    InvalidQuantity,
    Quantity,
    parse_quantity,
)

Path = tuple[str | int, ...]
MAX_TERMS = 10
MAX_NAMES = 100
MAX_TOLERATIONS = 100
MAX_WEIGHT = 100
FULL_PERCENTAGE = 100  # per cent
_REQUIRED: Path = (
    "affinity",
    "cluster_affinity",
    "required_during_scheduling_ignored_during_execution",
    "cluster_selector_term",
)
_PREFERRED: Path = (
    "affinity",
    "cluster_affinity",
    "preferred_during_scheduling_ignored_during_execution",
)
_TEXT_PROPERTIES = (
    "k8s.io/k8s-version",
    "k8s.io/cluster-entrypoint",
    "k8s.io/cluster-certificate-authority-data",
)


INVALID: Final = "invalid-fleet-object"
UNUSUAL: Final = "hub-behaviour-differs"


def build_error(path: Path, detail: str) -> Problem:
    """Build an error; `detail` is a clause.

    `path` leads to the argument: ("toleration", 0, "key").
    """
    return Problem(path, INVALID, detail)


def build_violations(*rules: tuple[object, Path, str]) -> list[Problem]:
    """Build an error for each violated rule, given as (whether it is violated, path, clause)."""
    return [build_error(path, detail) for is_violated, path, detail in rules if is_violated]


def build_hub_difference_warning(path: Path, detail: str) -> Problem:
    """Build a warning about behaviour of a real hub that differs from the plan.

    `detail` is a clause.
    """
    return Problem(path, UNUSUAL, detail, Severity.WARNING)


def format_sentence(clause: str) -> str:
    """Return a clause as a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}."


def check_name(name: str) -> list[Problem]:
    """Return the problems of a fleet object's name: a DNS subdomain of at most 63 characters."""
    path: Path = ("name",)
    too_long = f"the name field cannot have length exceeding {MAX_NAME_LENGTH}"
    problems = _build_errors(path, f'name "{name}"', validate_dns_subdomain(name))
    return problems + build_violations((len(name) > MAX_NAME_LENGTH, path, too_long))


def check_policy(policy: Policy) -> list[Problem]:
    """Return the problems of a policy; paths start below `policy`."""
    problems = _check_unsupported_fields(policy)
    # supports no terms and tolerations.
    if policy.placement_type is PlacementType.PICK_FIXED:
        return problems + _check_cluster_names(policy.cluster_names)
    if policy.placement_type is PlacementType.PICK_N:
        problems += _check_number_of_clusters(policy.number_of_clusters)
        for i, constraint in enumerate(policy.spread_constraints):
            problems += _check_spread_constraint(constraint, ("topology_spread_constraint", i))
        for i, term in enumerate(policy.preferred_terms):
            path: Path = (*_PREFERRED, i)
            text = f"weight must be from -100 to 100, got {term.weight}"
            problems += build_violations((abs(term.weight) > MAX_WEIGHT, (*path, "weight"), text))
            problems += _check_preferred_term(term.preference, (*path, "preference"))
    return problems + _check_required_terms(policy) + check_tolerations(policy.tolerations)


def _check_unsupported_fields(policy: Policy) -> list[Problem]:
    """Return the problems of fields that the placement type does not support.

    The texts are those of the hub's webhook.
    """
    kind = policy.placement_type
    # In the order of the enumeration.
    pick_all, pick_fixed, pick_n = PlacementType
    suffix = f"for policy type {kind}, only valid for"
    ignored = (
        f"PreferredDuringSchedulingIgnoredDuringExecution will be ignored for policy type {kind}"
    )
    has_affinity = policy.required_terms is not None or bool(policy.preferred_terms)
    has_number = policy.number_of_clusters is not None
    # (value, types that use it, path, message).
    fields: tuple[tuple[object, tuple[PlacementType, ...], Path, str], ...] = (
        (
            policy.cluster_names,
            (pick_fixed,),
            ("cluster_names",),
            f"cluster names needs to be empty {suffix} PickFixed",
        ),
        (
            has_number,
            (pick_n,),
            ("number_of_clusters",),
            f"number of clusters must be nil {suffix} PickN",
        ),
        (
            has_affinity,
            (pick_all, pick_n),
            ("affinity",),
            f"affinity must be nil {suffix} PickAll and PickN",
        ),
        (
            policy.spread_constraints,
            (pick_n,),
            ("topology_spread_constraint", 0),
            f"topology spread constraints needs to be empty {suffix} PickN",
        ),
        (
            policy.tolerations,
            (pick_all, pick_n),
            ("toleration", 0),
            f"tolerations needs to be empty {suffix} PickAll and PickN",
        ),
        (policy.preferred_terms, (pick_fixed, pick_n), (*_PREFERRED, 0), ignored),
    )
    return [
        build_error(path, text)
        for value, types, path, text in fields
        if value and kind not in types
    ]


def _check_cluster_names(names: tuple[str, ...]) -> list[Problem]:
    """Return the problems of the names of a PickFixed policy.

    A missing list, then all invalid, then all long, then repeated names.
    """
    path: Path = ("cluster_names",)
    problems: list[Problem] = []
    # The scheduler then changes nothing. Webhooks and rules of other versions reject it.
    if not names:
        text = (
            "PickFixed without cluster_names selects no cluster, and removes none: existing "
            "bindings stay. Hubs of some versions reject it"
        )
        problems = [build_hub_difference_warning(path, text)]
    for i, name in enumerate(names):
        text = f"PickFixed cluster name {name} is not a valid member name"
        problems += _build_errors((*path, i), text, validate_dns_subdomain(name))
    for i, name in enumerate(names):
        text = f"PickFixed cluster name {name} cannot have length exceeding {MAX_NAME_LENGTH}"
        problems += build_violations((len(name) > MAX_NAME_LENGTH, (*path, i), text))
    for i, name in enumerate(names):
        text = f"cluster names must be unique for policy type PickFixed: duplicate {name}"
        problems += build_violations((name in names[:i], (*path, i), text))
    too_many = f"at most {MAX_NAMES} cluster names, got {len(names)}"
    return problems + build_violations((len(names) > MAX_NAMES, path, too_many))


def _check_number_of_clusters(number: int | None) -> list[Problem]:
    """Return the problems of N of a PickN policy (None: not set, which its shape rejects)."""
    path: Path = ("number_of_clusters",)
    text = f"number of clusters cannot be {number} for policy type PickN"
    return build_violations((number is not None and number < 0, path, text))


def _check_spread_constraint(constraint: TopologySpreadConstraint, path: Path) -> list[Problem]:
    """Return the problems of one topology spread constraint."""
    action = constraint.when_unsatisfiable
    max_skew = constraint.max_skew
    is_unknown = action not in ("DoNotSchedule", "ScheduleAnyway")
    return build_violations(
        (is_unknown, (*path, "when_unsatisfiable"), f"unknown unsatisfiable type {action}"),
        (max_skew < 1, (*path, "max_skew"), f"max_skew must be 1 or more, got {max_skew}"),
    )


def _check_required_terms(policy: Policy) -> list[Problem]:
    """Return the problems of the required terms: too many, or invalid selectors and sorters."""
    terms = policy.required_terms or ()
    too_many = f"at most {MAX_TERMS} cluster selector terms, got {len(terms)}"
    problems = build_violations((len(terms) > MAX_TERMS, _REQUIRED, too_many))
    for i, term in enumerate(terms):
        path: Path = (*_REQUIRED, i)
        problems += check_selector(term.label_selector, (*path, "label_selector"))
        text = (
            "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution "
            "affinity"
        )
        problems += build_violations(
            (term.property_sorter is not None, (*path, "property_sorter"), text)
        )
        problems += _check_property_requirements(
            term.property_selector or (), (*path, "property_selector")
        )
    return problems


def _check_preferred_term(preference: ClusterSelectorTerm, path: Path) -> list[Problem]:
    """Return the problems of one preferred term's selector and sorter."""
    problems = check_selector(preference.label_selector, (*path, "label_selector"))
    text = (
        "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution "
        "affinity"
    )
    problems += build_violations(
        (preference.property_selector is not None, (*path, "property_selector"), text)
    )
    sorter = preference.property_sorter
    if sorter is None:
        return problems
    problems += _check_property_name(sorter.name, (*path, "property_sorter", "name"))
    order = sorter.sort_order
    order_path = (*path, "property_sorter", "sort_order")
    is_invalid = order not in (ASCENDING, DESCENDING)
    return problems + build_violations(
        (is_invalid, order_path, f"invalid property sort order {order}")
    )


def check_selector(selector: LabelSelector | None, path: Path) -> list[Problem]:
    """Return the problems of a label selector."""
    return (
        [build_error(path, problem) for problem in validate_selector(selector)] if selector else []
    )


def _check_property_requirements(
    requirements: Iterable[PropertyRequirement], path: Path
) -> list[Problem]:
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
        last_index, _ = group[-1]
        text = f"inconsistent requirements on property {name}: {problem}"
        problems += build_violations((problem, (*path, "match_expression", last_index), text))
    return problems


def _check_requirement_values(requirement: PropertyRequirement, path: Path) -> list[Problem]:
    """Return the problems of one requirement's operator and value."""
    operator = requirement.operator
    values = requirement.values
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
        return _build_errors(
            path, f"property name {name} is not valid", validate_qualified_name(name)
        )
    problems: list[Problem] = []
    # Both return problems.
    if validate_dns_subdomain(prefix) and validate_qualified_name(prefix):
        text = (
            f"property name first segment {prefix} is neither a valid DNS subdomain nor a valid "
            "qualified name"
        )
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
        text = (
            f"invalid resource property name {name}, expected "
            "[PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
        )
        return [build_error(path, text)]
    if kind not in CAPACITY_TYPES:
        supported = " ".join(CAPACITY_TYPES)
        text = (
            f"invalid capacity type in resource property name {name}, supported values are "
            f"[{supported}]"
        )
        return [build_error(path, text)]
    problems = _build_errors(
        path, f"property name {name} is not valid", validate_qualified_name(name)
    )
    # The scheduler splits the name at dashes.
    if not problems and (not resource or "-" in resource):
        text = (
            f"{name} passes the webhook but stops the scheduler: the resource name is missing or "
            "has a dash"
        )
        problems.append(build_hub_difference_warning(path, text))
    return problems


def check_tolerations(tolerations: tuple[Toleration, ...]) -> list[Problem]:
    """Return the problems of a policy's tolerations."""
    too_many = f"at most {MAX_TOLERATIONS} tolerations, got {len(tolerations)}"
    problems = build_violations((len(tolerations) > MAX_TOLERATIONS, ("toleration",), too_many))
    for i, toleration in enumerate(tolerations):
        path: Path = ("toleration", i)
        text = "toleration already exists, tolerations must be unique"
        problems += _check_toleration(toleration, path) + build_violations(
            (toleration in tolerations[:i], path, text)
        )
    return problems


def _check_toleration(toleration: Toleration, path: Path) -> list[Problem]:
    """Return the problems of one toleration."""
    key = toleration.key
    operator = toleration.operator
    value = toleration.value
    effect = toleration.effect
    # An empty key matches all keys, with Exists only; an empty effect matches all effects.
    problems = _build_errors(
        (*path, "key"), "invalid toleration key", validate_qualified_name(key) if key else ()
    )
    problems += build_violations(
        (
            operator not in (EQUAL, EXISTS),
            (*path, "operator"),
            f"unsupported toleration operator {operator}",
        ),
        (
            operator == EXISTS and value,
            (*path, "value"),
            "toleration value needs to be empty, when operator is Exists",
        ),
    )
    if operator == EQUAL:
        problems += build_violations(
            (not key, (*path, "key"), "toleration key cannot be empty, when operator is Equal")
        )
        problems += _build_errors(
            (*path, "value"), "invalid toleration value", validate_label_value(value)
        )
    return problems + _check_effect(effect, ("", NO_SCHEDULE), path)


def _check_effect(effect: str, supported: tuple[str, ...], path: Path) -> list[Problem]:
    text = f"unsupported effect {effect}: only NoSchedule exists"
    return build_violations((effect not in supported, (*path, "effect"), text))


def check_taints(taints: tuple[Taint, ...]) -> list[Problem]:
    """Return the problems of a member cluster's taints."""
    problems: list[Problem] = []
    for i, taint in enumerate(taints):
        path: Path = ("taint", i)
        problems += _build_errors(
            (*path, "key"), "invalid taint key", validate_qualified_name(taint.key)
        )
        problems += _build_errors(
            (*path, "value"), "invalid taint value", validate_label_value(taint.value)
        )
        problems += _check_effect(taint.effect, (NO_SCHEDULE,), path)
        problems += build_violations(
            (taint in taints[:i], path, "taint already exists, taints must be unique")
        )
    return problems


def check_member(member: Member) -> list[Problem]:
    """Return the problems of a member's name, labels or taints.

    Properties may be any text.
    """
    problems = check_name(member.name)
    for key, value in sorted(member.labels.items()):
        path: Path = ("labels", key)
        texts = (*validate_qualified_name(key), *validate_label_value(value))
        problems += [build_error(path, text) for text in texts]
    return problems + check_taints(member.taints)


def parse_resource_usage(
    total: Mapping[str, str], allocatable: Mapping[str, str], available: Mapping[str, str]
) -> tuple[ResourceUsage, list[Problem]]:
    """Parse a member's resource usage.

    Invalid quantities are left out and reported, by map and resource name.
    """
    problems: list[Problem] = []

    def parse_amounts(name: str, texts: Mapping[str, str]) -> dict[str, Quantity]:
        amounts: dict[str, Quantity] = {}
        for resource, text in sorted(texts.items()):
            amount = parse_quantity(text)
            if isinstance(amount, InvalidQuantity):
                problems.append(
                    build_error(
                        (name, resource), f'"{text}" is not a valid quantity: {amount.message}'
                    )
                )
            else:
                amounts[resource] = amount
        return amounts

    usage = ResourceUsage(
        parse_amounts("total", total),
        parse_amounts("allocatable", allocatable),
        parse_amounts("available", available),
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
    problems = build_violations(
        (is_external, (), "rolling_update is not valid for the External strategy type")
    )
    for name, amount in (("max_unavailable", max_unavailable), ("max_surge", max_surge)):
        is_above_all = amount.is_percent and amount.value > FULL_PERCENTAGE
        problems += build_violations(
            (amount.value < 0, (name,), f"{name} must be greater than or equal to 0, got {amount}"),
            (is_above_all, (name,), f"{name} must be a number, or from 0% to 100%, got {amount}"),
        )
    text = (
        "unavailable_period_seconds must be greater than or equal to 0, got "
        f"{unavailable_period_seconds}"
    )
    problems += build_violations(
        (unavailable_period_seconds < 0, ("unavailable_period_seconds",), text)
    )
    if max_unavailable.value == max_surge.value == 0:
        text = "max_unavailable and max_surge are both 0: no rollout can make progress"
        problems.append(build_hub_difference_warning(path=(), detail=text))
    return problems


EXTERNAL = "External"
ROLLING_UPDATE = "RollingUpdate"
MAX_STAGES = 31
MAX_BEFORE_TASKS = 1
MAX_AFTER_TASKS = 2
MAX_STAGE_NAME_LENGTH = 63


def check_policy_change(old_policy: Policy | None, new_policy: Policy | None) -> list[Problem]:
    """Return the problems of a policy update; paths start at the placement."""
    # Without a policy: PickAll.
    old = old_policy or Policy()
    new = new_policy or Policy()
    is_removed = old_policy is not None and new_policy is None
    has_fewer_tolerations = not set(old.tolerations) <= set(new.tolerations)
    text = "tolerations have been updated/deleted, only additions to tolerations are allowed"
    return build_violations(
        (is_removed, ("policy",), "policy cannot be removed once set"),
        (
            old.placement_type is not new.placement_type,
            ("policy", "placement_type"),
            "placement type is immutable",
        ),
        (has_fewer_tolerations, ("policy", "toleration"), text),
    )


def check_strategy_change(old_type: str, new_type: str) -> list[Problem]:
    """Return the problems of a strategy type update."""
    text = "the rollout strategy type cannot be changed back once it is External"
    return build_violations(
        (old_type == EXTERNAL and new_type != EXTERNAL, ("strategy", "type"), text)
    )


def check_disruption_budget(
    budget: PlacementDisruptionBudget, placement_type: PlacementType | None
) -> list[Problem]:
    """Return the problems of a disruption budget.

    With `placement_type` None (unknown placement), only the general problems are returned.
    """
    problems: list[Problem] = []
    if budget.max_unavailable is not None and budget.min_available is not None:
        problems.append(build_error((), "max_unavailable and min_available cannot both be set"))
    elif budget == PlacementDisruptionBudget():
        text = "this budget blocks every eviction of the placement"
        problems.append(Problem((), "fully-blocking-budget", text, Severity.WARNING))
    for name, amount in (
        ("max_unavailable", budget.max_unavailable),
        ("min_available", budget.min_available),
    ):
        is_negative = amount is not None and amount.value < 0
        problems += build_violations(
            (is_negative, (name,), f"{name} must be greater than or equal to 0, got {amount}")
        )
    # The further rules are for PickAll.
    if placement_type is not PlacementType.PICK_ALL:
        return problems
    start = "cluster resource placement policy type PickAll is not supported with"
    has_percentage = budget.min_available is not None and budget.min_available.is_percent
    unavailable = f"{start} any specified max unavailable {budget.max_unavailable}"
    return problems + build_violations(
        (budget.max_unavailable is not None, ("max_unavailable",), unavailable),
        (
            has_percentage,
            ("min_available",),
            f"{start} min available as a percentage {budget.min_available}",
        ),
    )


def check_update_stages(stages: Sequence[Stage]) -> list[Problem]:
    """Return the problems of the stages of a staged update strategy."""
    count_text = f"at most {MAX_STAGES} stages, got {len(stages)}"
    problems = build_violations((len(stages) > MAX_STAGES, ("stage",), count_text))
    names = [stage.name for stage in stages]
    for i, stage in enumerate(stages):
        path: Path = ("stage", i)
        concurrency = stage.max_concurrency
        # At most 63 letters and digits; a percentage of at most 100.
        is_valid_name = re.fullmatch(
            rf"[a-z0-9]{{1,{MAX_STAGE_NAME_LENGTH}}}", stage.name, re.ASCII
        )
        is_above_all = concurrency.is_percent and concurrency.value > FULL_PERCENTAGE
        form = f"must be 1 to {MAX_STAGE_NAME_LENGTH} lower-case letters and digits"
        range_text = f"max_concurrency must be at least 1, or from 1% to 100%, got {concurrency}"
        problems += build_violations(
            (not is_valid_name, (*path, "name"), f"stage name {stage.name!r} {form}"),
            (stage.name in names[:i], (*path, "name"), f"duplicate stage name {stage.name!r}"),
            (concurrency.value < 1 or is_above_all, (*path, "max_concurrency"), range_text),
        )
        problems += check_selector(stage.label_selector, (*path, "label_selector"))
        problems += _check_tasks(
            stage.before, (*path, "before_stage_task"), MAX_BEFORE_TASKS, (APPROVAL,)
        )
        problems += _check_tasks(
            stage.after, (*path, "after_stage_task"), MAX_AFTER_TASKS, (APPROVAL, TIMED_WAIT)
        )
    return problems


def _check_tasks(
    tasks: tuple[UpdateStageTask, ...], path: Path, maximum: int, allowed_types: tuple[str, ...]
) -> list[Problem]:
    """Return the problems of the tasks before or after a stage.

    A stage has at most `maximum` tasks, each of an allowed type and once.
    """
    problems = build_violations(
        (len(tasks) > maximum, path, f"at most {maximum}, got {len(tasks)}")
    )
    types = [task.type for task in tasks]
    for i, task in enumerate(tasks):
        kind = task.type
        seconds = task.wait_seconds
        type_path = (*path, i, "type")
        wait_path = (*path, i, "wait_time")
        has_wait = seconds is not None
        problems += build_violations(
            (kind not in allowed_types, type_path, f"task type {kind} is not allowed here"),
            (kind in types[:i], type_path, f"there cannot be more than one task of type {kind}"),
            (
                kind == APPROVAL and has_wait,
                wait_path,
                "task type is Approval, waitTime is not allowed",
            ),
            (
                kind == TIMED_WAIT and not has_wait,
                wait_path,
                "task type is TimedWait, waitTime is required",
            ),
            (
                seconds is not None and seconds < 0,
                wait_path,
                "waitTime must be a non-negative duration",
            ),
        )
    return problems
