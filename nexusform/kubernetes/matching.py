"""Labels, selectors, taints and tolerations, as Kubernetes matches and validates them.

Selectors are frozen and hashable, so that what they select can be remembered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

IN, NOT_IN, EXISTS, DOES_NOT_EXIST = "In", "NotIn", "Exists", "DoesNotExist"
GREATER, LESS = "Gt", "Lt"
EQUAL = "Equal"
NO_SCHEDULE = "NoSchedule"

_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_NAME_RULE = (
    "consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character"
)
LONGEST_NAME = 63
LONGEST_SUBDOMAIN = 253


class Requirement(Struct, frozen=True):
    """One expression over labels. Label selectors know In, NotIn, Exists and DoesNotExist; node
    selectors Gt and Lt too (one whole number).
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    """All pairs and all expressions must hold; an empty selector selects everything.

    `match_labels` is sorted by key: make one with `label_selector`.
    """

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()


class Taint(Struct, frozen=True):
    """A mark on a node or cluster that keeps away what does not tolerate it."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE


class Toleration(Struct, frozen=True):
    """What a pod or placement puts up with. An empty effect stands for all, an empty key with Exists for
    every taint. `seconds`: how long a pod stays where a NoExecute taint comes; None for ever.
    """

    key: str = ""
    operator: str = EQUAL
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    @property
    def title(self) -> str:
        """`gpu=a100:NoSchedule`, as kubectl writes taints."""
        value = f"={self.value}" if self.value else ""
        effect = f":{self.effect}" if self.effect else ""
        return f"{self.key or 'every key'}{value}{effect}"


def label_selector(
    match_labels: Mapping[str, str] | None = None, match_expressions: Iterable[Requirement] = ()
) -> LabelSelector:
    """A selector from a map and expressions."""
    return LabelSelector(tuple(sorted((match_labels or {}).items())), tuple(match_expressions))


def matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Whether a (valid) selector selects something with these labels."""
    return all(labels.get(key) == value for key, value in selector.match_labels) and all(
        holds(requirement, labels) for requirement in selector.match_expressions
    )


def holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Whether one (valid) expression holds; NotIn also holds where the key is absent."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value is not None and value in requirement.values
        case "NotIn":
            return value is None or value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return value is not None and _compares(requirement, value)


def _compares(requirement: Requirement, value: str) -> bool:
    """Gt and Lt: whole numbers on both sides, one value asked for."""
    if len(requirement.values) != 1:
        return False
    number, bound = _whole_number(value), _whole_number(requirement.values[0])
    if number is None or bound is None:
        return False
    if requirement.operator == GREATER:
        return number > bound
    return requirement.operator == LESS and number < bound


def _whole_number(text: str) -> int | None:
    """The number that a label writes; None when it writes none."""
    return int(text) if re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII) else None


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a pod's toleration covers a taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == EXISTS:
        return True
    return toleration.operator in ("", EQUAL) and toleration.value == taint.value


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that no toleration covers; None when all are."""
    every = tuple(tolerations)
    return next((taint for taint in taints if not is_tolerated(taint, every)), None)


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Whether one of a pod's tolerations covers a taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


def selector_problems(selector: LabelSelector) -> tuple[str, ...]:
    """Why Kubernetes refuses a label selector; empty when it does not."""
    problems: list[str] = []
    for key, value in selector.match_labels:
        problems += [f"key: {problem}" for problem in qualified_name_problems(key)]
        problems += [f"value of {key!r}: {problem}" for problem in label_value_problems(value)]
    for requirement in selector.match_expressions:
        problems += requirement_problems(requirement)
    return tuple(problems)


def requirement_problems(requirement: Requirement) -> tuple[str, ...]:
    """Why Kubernetes refuses an expression of a label selector; empty when it does not."""
    problems = [f"key: {problem}" for problem in qualified_name_problems(requirement.key)]
    operator = requirement.operator
    if operator in (IN, NOT_IN):
        if not requirement.values:
            problems.append(f"values: for {operator!r} operator, values set can't be empty")
    elif operator in (EXISTS, DOES_NOT_EXIST):
        if requirement.values:
            problems.append(f"values: values set must be empty for {operator!r}")
    else:
        problems.append(f'"{operator}" is not a valid label selector operator')
    for value in requirement.values:
        problems += [f"value {value!r}: {problem}" for problem in label_value_problems(value)]
    return tuple(problems)


def qualified_name_problems(name: str) -> tuple[str, ...]:
    """Why a text is no label key: an optional DNS prefix and "/", then a name of 1 to 63 characters."""
    parts = name.split("/")
    problems: list[str] = []
    if len(parts) > 2:
        return (f"a qualified name must {_NAME_RULE}, with an optional DNS subdomain prefix and '/'",)
    if len(parts) == 2:
        if not parts[0]:
            problems.append("prefix part must be non-empty")
        else:
            problems += [f"prefix part {problem}" for problem in dns_subdomain_problems(parts[0])]
    last = parts[-1]
    if not last:
        problems.append("name part must be non-empty")
    elif len(last) > LONGEST_NAME:
        problems.append(f"name part must be no more than {LONGEST_NAME} characters")
    if not _NAME_PART.fullmatch(last):
        problems.append(f"name part must {_NAME_RULE}")
    return tuple(problems)


def label_value_problems(value: str) -> tuple[str, ...]:
    """Why a text is no label value: empty, or up to 63 characters like a name."""
    fits = not value or bool(_NAME_PART.fullmatch(value))
    return _problems(value, LONGEST_NAME, fits, f"a valid label must be an empty string or {_NAME_RULE}")


def dns_subdomain_problems(name: str) -> tuple[str, ...]:
    """Why a text is no lower-case DNS subdomain (RFC 1123), as names of most objects are."""
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.',"
        " and must start and end with an alphanumeric character"
    )
    return _problems(name, LONGEST_SUBDOMAIN, bool(_DNS_SUBDOMAIN.fullmatch(name)), rule)


def dns_label_problems(name: str) -> tuple[str, ...]:
    """Why a text is no lower-case DNS label (RFC 1123), as namespaces are."""
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
        " and must start and end with an alphanumeric character"
    )
    return _problems(name, LONGEST_NAME, bool(_DNS_LABEL.fullmatch(name)), rule)


def _problems(text: str, longest: int, fits: bool, rule: str) -> tuple[str, ...]:
    """What Kubernetes says of a text that is too long, and of one that does not fit its `rule`."""
    too_long = [f"must be no more than {longest} characters"] if len(text) > longest else []
    return (*too_long, *([] if fits else [rule]))
