"""What KubeFleet's API and webhooks refuse, and what stops a placement though they let it pass.

Every problem has the place in the configuration that it is about. Source: KubeFleet pkg/utils/validator
and apis/placement/v1beta1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.scheduling.bindings import (
    ClusterTerm,
    Member,
    PlacementType,
    Policy,
    PropertyRequirement,
    ResourceUsage,
    SpreadConstraint,
)
from nexusform.domains.fleet.scheduling.properties import (
    CAPACITY_TYPES,
    COMPARISONS,
    RESOURCE_PREFIX,
    contradiction,
)
from nexusform.domains.fleet.scheduling.rules.cluster_affinity import ASCENDING, DESCENDING
from nexusform.kubernetes.matching import (
    EQUAL,
    EXISTS,
    LONGEST_NAME,
    NO_SCHEDULE,
    LabelSelector,
    Taint,
    Toleration,
    dns_subdomain_problems,
    label_value_problems,
    qualified_name_problems,
    selector_problems,
)
from nexusform.kubernetes.quantity import Amount, Malformed, Quantity, parse_quantity

Path = tuple[str | int, ...]
MOST_TERMS, MOST_NAMES, MOST_TOLERATIONS = 10, 100, 100
LARGEST_WEIGHT = 100
WHOLE = 100  # per cent
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
UNUSUAL: Final = "a-real-hub-treats-this-differently"


def invalid(path: Path, detail: str) -> Problem:
    """A refusal, as a clause. `path` names blocks and arguments as in the configuration, repeated blocks by
    their number from 0.
    """
    return Problem(path, INVALID, detail)


def unusual(path: Path, detail: str) -> Problem:
    """What a real hub treats differently; else as `invalid`."""
    return Problem(path, UNUSUAL, detail, Severity.WARNING)


def sentence(clause: str) -> str:
    """What a refusal says, as a sentence."""
    return f"{clause[:1].upper()}{clause[1:]}."


def check_name(name: str) -> list[Problem]:
    """What is wrong with the name of a fleet object: a DNS subdomain of at most 63 characters."""
    problems = [invalid(("name",), f'name "{name}": {problem}') for problem in dns_subdomain_problems(name)]
    if len(name) > LONGEST_NAME:
        problems.append(invalid(("name",), f"the name field cannot have length exceeding {LONGEST_NAME}"))
    return problems


def check_policy(policy: Policy) -> list[Problem]:
    """What is wrong with a policy by itself; paths start below `policy`."""
    problems = _unwanted(policy)
    if policy.placement_type is PlacementType.PICK_FIXED:
        return problems + _check_names(policy.cluster_names)
    if policy.placement_type is PlacementType.PICK_N:
        problems += _check_number(policy.number_of_clusters)
        for i, constraint in enumerate(policy.spread):
            problems += _check_spread(constraint, ("topology_spread_constraint", i))
        problems += _check_preferred(policy)
    return problems + _check_required(policy) + check_tolerations(policy.tolerations)


def _unwanted(policy: Policy) -> list[Problem]:
    """Fields that do not go with the placement type."""
    kind = policy.placement_type
    fixed, every = kind is PlacementType.PICK_FIXED, kind is PlacementType.PICK_ALL
    only = f"for policy type {kind}, only valid for"
    rows: list[tuple[bool, Path, str]] = [
        (
            not fixed and bool(policy.cluster_names),
            ("cluster_names",),
            f"cluster names needs to be empty {only} PickFixed",
        ),
        (
            kind is not PlacementType.PICK_N and policy.number_of_clusters is not None,
            ("number_of_clusters",),
            f"number of clusters must be nil {only} PickN",
        ),
        (
            fixed and (policy.required is not None or bool(policy.preferred)),
            ("affinity",),
            f"affinity must be nil {only} PickAll and PickN",
        ),
        (
            kind is not PlacementType.PICK_N and bool(policy.spread),
            ("topology_spread_constraint", 0),
            f"topology spread constraints needs to be empty {only} PickN",
        ),
        (
            fixed and bool(policy.tolerations),
            ("toleration", 0),
            f"tolerations needs to be empty {only} PickAll and PickN",
        ),
        (
            every and bool(policy.preferred),
            (*_PREFERRED, 0),
            f"PreferredDuringSchedulingIgnoredDuringExecution will be ignored for policy type {kind}",
        ),
    ]
    return [invalid(path, message) for wrong, path, message in rows if wrong]


def _check_names(names: tuple[str, ...]) -> list[Problem]:
    """What is wrong with the names of a PickFixed policy."""
    path: Path = ("cluster_names",)
    problems: list[Problem] = []
    for i, name in enumerate(names):
        text = f"PickFixed cluster name {name} is not a valid member name"
        problems += [invalid((*path, i), f"{text}: {problem}") for problem in dns_subdomain_problems(name)]
    problems += [
        invalid((*path, i), f"PickFixed cluster name {name} cannot have length exceeding {LONGEST_NAME}")
        for i, name in enumerate(names)
        if len(name) > LONGEST_NAME
    ]
    problems += [
        invalid((*path, i), f"cluster names must be unique for policy type PickFixed: {name} is there twice")
        for i, name in enumerate(names)
        if name in names[:i]
    ]
    if len(names) > MOST_NAMES:
        problems.append(invalid(path, f"at most {MOST_NAMES} cluster names, got {len(names)}"))
    return problems


def _check_number(number: int | None) -> list[Problem]:
    """What is wrong with N of a PickN policy (None: it has none)."""
    path: Path = ("number_of_clusters",)
    if number is None:
        text = "a PickN policy without a number: every eligible cluster is wanted here, a real hub refuses it"
        return [unusual(path, text)]
    if number < 0:
        return [invalid(path, f"number of clusters cannot be {number} for policy type PickN")]
    return []


def _check_spread(constraint: SpreadConstraint, path: Path) -> list[Problem]:
    """What is wrong with one topology spread constraint."""
    problems: list[Problem] = []
    if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
        text = f"unknown unsatisfiable type {constraint.when_unsatisfiable}"
        problems.append(invalid((*path, "when_unsatisfiable"), text))
    if constraint.max_skew < 1:
        problems.append(
            invalid((*path, "max_skew"), f"max_skew must be 1 or more, got {constraint.max_skew}")
        )
    return problems


def _check_required(policy: Policy) -> list[Problem]:
    """What is wrong with the terms of which a cluster must match one."""
    terms = policy.required or ()
    problems: list[Problem] = []
    if len(terms) > MOST_TERMS:
        problems.append(invalid(_REQUIRED, f"at most {MOST_TERMS} cluster selector terms, got {len(terms)}"))
    for i, term in enumerate(terms):
        path: Path = (*_REQUIRED, i)
        problems += check_selector(term.label_selector, (*path, "label_selector"))
        if term.property_sorter is not None:
            text = "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity"
            problems.append(invalid((*path, "property_sorter"), text))
        problems += _check_properties(term.property_selector or (), (*path, "property_selector"))
    return problems


def _check_preferred(policy: Policy) -> list[Problem]:
    """What is wrong with the terms that score clusters."""
    problems: list[Problem] = []
    for i, term in enumerate(policy.preferred):
        path: Path = (*_PREFERRED, i)
        if abs(term.weight) > LARGEST_WEIGHT:
            problems.append(invalid((*path, "weight"), f"weight must be from -100 to 100, got {term.weight}"))
        problems += _check_preference(term.preference, (*path, "preference"))
    return problems


def _check_preference(preference: ClusterTerm, path: Path) -> list[Problem]:
    """What is wrong with what one preferred term selects and sorts by."""
    problems = check_selector(preference.label_selector, (*path, "label_selector"))
    if preference.property_selector is not None:
        text = "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity"
        problems.append(invalid((*path, "property_selector"), text))
    sorter = preference.property_sorter
    if sorter is None:
        return problems
    problems += _check_property_name(sorter.name, (*path, "property_sorter", "name"))
    if sorter.sort_order not in (ASCENDING, DESCENDING):
        text = f"invalid property sort order {sorter.sort_order}"
        problems.append(invalid((*path, "property_sorter", "sort_order"), text))
    return problems


def check_selector(selector: LabelSelector | None, path: Path) -> list[Problem]:
    """What is wrong with a label selector."""
    return [invalid(path, problem) for problem in selector_problems(selector)] if selector else []


def _check_properties(requirements: Iterable[PropertyRequirement], path: Path) -> list[Problem]:
    """What is wrong with requirements on properties, each alone and those on one property together."""
    problems: list[Problem] = []
    by_name: dict[str, list[tuple[int, PropertyRequirement]]] = {}
    for i, requirement in enumerate(requirements):
        item_path: Path = (*path, "match_expression", i)
        problems += _check_property_name(requirement.name, (*item_path, "name"))
        problems += _check_values(requirement, item_path)
        by_name.setdefault(requirement.name, []).append((i, requirement))
    for name, group in by_name.items():
        problem = contradiction([requirement for _, requirement in group])
        if problem is not None:
            text = f"inconsistent requirements on property {name}: {problem}"
            problems.append(invalid((*path, "match_expression", group[-1][0]), text))
    return problems


def _check_values(requirement: PropertyRequirement, path: Path) -> list[Problem]:
    """What is wrong with the operator and the value of one requirement."""
    operator, values = requirement.operator, requirement.values
    if operator not in COMPARISONS:
        return [invalid((*path, "operator"), f"unsupported operator {operator}")]
    if len(values) != 1:
        text = f"operator {operator} requires exactly one value, got {len(values)}"
        return [invalid((*path, "values"), text)]
    quantity = parse_quantity(values[0])
    if isinstance(quantity, Malformed):
        text = f'value "{values[0]}" is not a valid resource.Quantity: {quantity.message}'
        return [invalid((*path, "values"), text)]
    return []


def _check_property_name(name: str, path: Path) -> list[Problem]:
    """What is wrong with the name of a property: a resource, or segments joined by slashes."""
    if name.startswith(RESOURCE_PREFIX):
        return _check_resource_name(name, path)
    prefix, *segments = name.split("/")
    if not segments:
        return [
            invalid(path, f"property name {name} is not valid: {p}") for p in qualified_name_problems(name)
        ]
    problems: list[Problem] = []
    if dns_subdomain_problems(prefix) and qualified_name_problems(prefix):
        text = (
            f"property name first segment {prefix} is neither a valid DNS subdomain nor"
            " a valid qualified name"
        )
        problems.append(invalid(path, text))
    for segment in segments:
        text = f"property name segment {segment} is not valid"
        problems += [invalid(path, f"{text}: {problem}") for problem in qualified_name_problems(segment)]
    if name in _TEXT_PROPERTIES:
        text = f"{name} is a text, not a quantity: the scheduler stops at it"
        problems.append(unusual(path, text))
    return problems


def _check_resource_name(name: str, path: Path) -> list[Problem]:
    """What is wrong with the name of a resource property."""
    kind, dash, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
    if not dash:
        text = f"invalid resource property name {name}, expected [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
        return [invalid(path, text)]
    if kind not in CAPACITY_TYPES:
        supported = " ".join(CAPACITY_TYPES)
        text = f"invalid capacity type in resource property name {name}, supported values are [{supported}]"
        return [invalid(path, text)]
    problems = [
        invalid(path, f"property name {name} is not valid: {p}") for p in qualified_name_problems(name)
    ]
    if not problems and (not resource or "-" in resource):
        text = (
            f"{name} passes the webhook, but the scheduler stops at it: no resource name, or one with a dash"
        )
        problems.append(unusual(path, text))
    return problems


def check_tolerations(tolerations: tuple[Toleration, ...]) -> list[Problem]:
    """What is wrong with a policy's tolerations."""
    problems: list[Problem] = []
    if len(tolerations) > MOST_TOLERATIONS:
        problems.append(
            invalid(("toleration",), f"at most {MOST_TOLERATIONS} tolerations, got {len(tolerations)}")
        )
    for i, toleration in enumerate(tolerations):
        path: Path = ("toleration", i)
        problems += _check_toleration(toleration, path)
        if toleration in tolerations[:i]:
            problems.append(invalid(path, "toleration already exists, tolerations must be unique"))
    return problems


def _check_toleration(toleration: Toleration, path: Path) -> list[Problem]:
    problems: list[Problem] = []
    if toleration.key:
        problems += [
            invalid((*path, "key"), f"invalid toleration key: {problem}")
            for problem in qualified_name_problems(toleration.key)
        ]
    if toleration.operator not in (EQUAL, EXISTS):
        problems.append(
            invalid((*path, "operator"), f"unsupported toleration operator {toleration.operator}")
        )
    if toleration.operator == EXISTS and toleration.value:
        problems.append(
            invalid((*path, "value"), "toleration value needs to be empty, when operator is Exists")
        )
    if toleration.operator == EQUAL and not toleration.key:
        problems.append(invalid((*path, "key"), "toleration key cannot be empty, when operator is Equal"))
    if toleration.operator == EQUAL:
        problems += [
            invalid((*path, "value"), f"invalid toleration value: {problem}")
            for problem in label_value_problems(toleration.value)
        ]
    if toleration.effect not in ("", NO_SCHEDULE):
        problems.append(
            invalid((*path, "effect"), f"unsupported effect {toleration.effect}: only NoSchedule exists")
        )
    return problems


def check_taints(taints: tuple[Taint, ...]) -> list[Problem]:
    """What is wrong with a member cluster's taints."""
    problems: list[Problem] = []
    for i, taint in enumerate(taints):
        path: Path = ("taint", i)
        problems += [
            invalid((*path, "key"), f"invalid taint key: {problem}")
            for problem in qualified_name_problems(taint.key)
        ]
        problems += [
            invalid((*path, "value"), f"invalid taint value: {problem}")
            for problem in label_value_problems(taint.value)
        ]
        if taint.effect != NO_SCHEDULE:
            problems.append(
                invalid((*path, "effect"), f"unsupported effect {taint.effect}: only NoSchedule exists")
            )
        if taint in taints[:i]:
            problems.append(invalid(path, "taint already exists, taints must be unique"))
    return problems


def check_member(member: Member) -> list[Problem]:
    """What is wrong with a member's name, labels or taints. Properties may be any text."""
    problems = check_name(member.name)
    for key, value in sorted(member.labels.items()):
        path: Path = ("labels", key)
        problems += [invalid(path, problem) for problem in qualified_name_problems(key)]
        problems += [invalid(path, problem) for problem in label_value_problems(value)]
    return problems + check_taints(member.taints)


def read_usage(
    total: Mapping[str, str], allocatable: Mapping[str, str], available: Mapping[str, str]
) -> tuple[ResourceUsage, list[Problem]]:
    """A member's resource usage from texts, without those that are no quantities; paths start at the three
    maps.
    """
    problems: list[Problem] = []

    def read(name: str, texts: Mapping[str, str]) -> dict[str, Quantity]:
        amounts: dict[str, Quantity] = {}
        for resource, text in sorted(texts.items()):
            amount = parse_quantity(text)
            if isinstance(amount, Malformed):
                problems.append(
                    invalid((name, resource), f'"{text}" is not a valid quantity: {amount.message}')
                )
            else:
                amounts[resource] = amount
        return amounts

    usage = ResourceUsage(
        read("total", total), read("allocatable", allocatable), read("available", available)
    )
    return usage, problems


def check_rolling_update(
    max_unavailable: Amount, max_surge: Amount, unavailable_period_seconds: int, *, external: bool = False
) -> list[Problem]:
    """The rolling_update block of a strategy; paths start below it."""
    problems: list[Problem] = []
    if external:
        problems.append(invalid((), "rolling_update is not valid for the External strategy type"))
    for name, amount in (("max_unavailable", max_unavailable), ("max_surge", max_surge)):
        if amount.value < 0:
            problems.append(invalid((name,), f"{name} must be greater than or equal to 0, got {amount}"))
        if amount.percent and amount.value > WHOLE:
            problems.append(invalid((name,), f"{name} must be a number, or from 0% to 100%, got {amount}"))
    if unavailable_period_seconds < 0:
        text = (
            f"unavailable_period_seconds must be greater than or equal to 0, got {unavailable_period_seconds}"
        )
        problems.append(invalid(("unavailable_period_seconds",), text))
    if max_unavailable.value == max_surge.value == 0:
        text = "max_unavailable and max_surge are both 0: no rollout can make progress"
        problems.append(unusual((), text))
    return problems
