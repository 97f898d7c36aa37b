"""Matching and validation of labels, selectors, taints and tolerations, as in Kubernetes.

Selectors are frozen and hashable for caches of their results.
"""

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from nexusform.diagnostics.phrases import enclose
from nexusform.documents.scalars import parse_integer

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GREATER = "Gt"
LESS = "Lt"
EQUAL = "Equal"
NO_SCHEDULE = "NoSchedule"
_NO_EXECUTE = "NoExecute"
# Effects that keep pods away, with those that are as strict.
_STRICT_EFFECTS: Final[Mapping[str, tuple[str, ...]]] = {
    NO_SCHEDULE: (NO_SCHEDULE, _NO_EXECUTE),
    _NO_EXECUTE: (_NO_EXECUTE,),
}

_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL_VALUE = re.compile(f"({_NAME_PART.pattern})?", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_DNS_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_NAME_RULE = (
    "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
MAX_NAME_LENGTH = 63
MAX_SUBDOMAIN_LENGTH = 253


class Requirement(Struct, frozen=True):
    """Expression over labels: In, NotIn, Exists or DoesNotExist.

    Expressions for nodes may also be Gt and Lt (one whole number).
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True):
    """Expressions over a node's labels and its name; all must match.

    A term without any matches no node.
    """

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class LabelSelector(Struct, frozen=True):
    """Selector: all pairs and all expressions must match; an empty selector selects everything.

    `match_labels` is sorted by key: create one with `build_label_selector`.
    """

    match_labels: tuple[tuple[str, str], ...] = ()
    match_expressions: tuple[Requirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it has no requirements, and so selects everything."""
        return not self.match_labels and not self.match_expressions


class Taint(Struct, frozen=True):
    """Taint of a node or cluster: it repels pods without a matching toleration."""

    key: str
    value: str = ""
    effect: str = NO_SCHEDULE

    @property
    def title(self) -> str:
        """`gpu=a100:NoSchedule`, in kubectl's notation."""
        return f"{self.key}{enclose('=', self.value)}:{self.effect}"


class Toleration(Struct, frozen=True):
    """Toleration of a pod or placement.

    An empty effect matches all effects, and an empty key with Exists every taint. `seconds` is how
    long a pod stays after a NoExecute taint is added; None means forever.
    """

    key: str = ""
    operator: str = EQUAL
    value: str = ""
    effect: str = ""
    seconds: int | None = None

    @property
    def title(self) -> str:
        """`gpu=a100:NoSchedule`, in kubectl's notation of taints."""
        return f"{self.key or 'every key'}{enclose('=', self.value)}{enclose(':', self.effect)}"


def build_label_selector(
    match_labels: Mapping[str, str] = {}, match_expressions: Iterable[Requirement] = ()
) -> LabelSelector:
    """Build a selector from a map and expressions."""
    return LabelSelector(tuple(sorted(match_labels.items())), tuple(match_expressions))


def is_selected(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Check whether a valid selector selects an object with these labels; None selects none."""
    if selector is None or any(labels.get(key) != value for key, value in selector.match_labels):
        return False
    return all(
        is_requirement_met(requirement, labels) for requirement in selector.match_expressions
    )


def is_requirement_met(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    """Check whether one expression matches.

    NotIn matches an absent key, too. An unknown operator never matches.
    """
    check = _CHECKS.get(requirement.operator)
    return check is not None and check(labels.get(requirement.key), requirement.values)


def _is_comparison_met(
    compare: Callable[[int, int], bool], value: str | None, values: tuple[str, ...]
) -> bool:
    """Evaluate Gt or Lt on a label's value.

    Return False unless the label and the only required value are whole numbers.
    """
    if len(values) != 1:
        return False
    number = parse_integer(value, signed=True)
    bound = parse_integer(values[0], signed=True)
    return number is not None and bound is not None and compare(number, bound)


_CHECKS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    IN: lambda value, values: value in values,
    NOT_IN: lambda value, values: value not in values,
    EXISTS: lambda value, _values: value is not None,
    DOES_NOT_EXIST: lambda value, _values: value is None,
    GREATER: partial(_is_comparison_met, operator.gt),
    LESS: partial(_is_comparison_met, operator.lt),
}


def is_matching_toleration(toleration: Toleration, taint: Taint) -> bool:
    """Check whether a pod's toleration matches a taint.

    An empty effect or key matches every one.
    """
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == EXISTS:
        return True
    if toleration.operator in (GREATER, LESS):
        return _CHECKS[toleration.operator](taint.value, (toleration.value,))
    return toleration.operator in ("", EQUAL) and toleration.value == taint.value


def select_untolerated_taint(
    taints: Iterable[Taint], tolerations: Iterable[Toleration]
) -> Taint | None:
    """Return the first taint without a matching toleration, or None."""
    all_tolerations = tuple(tolerations)
    return next((taint for taint in taints if not is_tolerated(taint, all_tolerations)), None)


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Check whether one of a pod's tolerations matches a taint."""
    return any(is_matching_toleration(toleration, taint) for toleration in tolerations)


def select_weaker_taints(before: Iterable[Taint], after: Iterable[Taint]) -> list[Taint]:
    """Return the taints that end, or whose effect becomes weaker; a preference is no rule."""
    kept = {(taint.key, taint.value, taint.effect) for taint in after}
    return [
        taint
        for taint in before
        if taint.effect in _STRICT_EFFECTS
        and not any(
            (taint.key, taint.value, effect) in kept for effect in _STRICT_EFFECTS[taint.effect]
        )
    ]


def validate_selector(selector: LabelSelector) -> tuple[str, ...]:
    """Return why Kubernetes rejects a label selector; empty if it is valid."""
    problems: list[str] = []
    for key, value in selector.match_labels:
        problems += [f"key: {problem}" for problem in validate_qualified_name(key)]
        problems += [f"value of {key!r}: {problem}" for problem in validate_label_value(value)]
    for requirement in selector.match_expressions:
        problems += validate_selector_requirement(requirement)
    return tuple(problems)


def validate_selector_requirement(requirement: Requirement) -> tuple[str, ...]:
    """Return why Kubernetes rejects an expression of a label selector; empty if it is valid."""
    problems = [f"key: {problem}" for problem in validate_qualified_name(requirement.key)]
    name = requirement.operator
    if name in (IN, NOT_IN):
        if not requirement.values:
            problems.append(f"values: for {name!r} operator, values set can't be empty")
    elif name in (EXISTS, DOES_NOT_EXIST):
        if requirement.values:
            problems.append(f"values: values set must be empty for {name!r}")
    else:
        problems.append(f'"{name}" is not a valid label selector operator')
    for value in requirement.values:
        problems += [f"value {value!r}: {problem}" for problem in validate_label_value(value)]
    return tuple(problems)


def validate_qualified_name(name: str) -> tuple[str, ...]:
    """Return why a text is no label key, in the words of Kubernetes; () if it is one.

    A key is a name of 1 to 63 characters, with an optional prefix: a DNS subdomain and "/".
    """
    prefix, slash, name_part = name.rpartition("/")
    if "/" in prefix:
        return (
            f"a qualified name must {_NAME_RULE}, with an optional DNS subdomain prefix and '/'",
        )
    problems: list[str] = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif prefix:
        problems += [f"prefix part {problem}" for problem in validate_dns_subdomain(prefix)]
    if not name_part:
        problems.append("name part must be non-empty")
    elif len(name_part) > MAX_NAME_LENGTH:
        problems.append(f"name part must be no more than {MAX_NAME_LENGTH} characters")
    if not _NAME_PART.fullmatch(name_part):
        problems.append(f"name part must {_NAME_RULE}")
    return tuple(problems)


def validate_label_value(value: str) -> tuple[str, ...]:
    """Return why a text is not a label value: empty, or up to 63 characters like a name."""
    rule = f"a valid label must be an empty string or {_NAME_RULE}"
    return _list_problems(value, MAX_NAME_LENGTH, _LABEL_VALUE, rule)


def validate_dns_subdomain(name: str) -> tuple[str, ...]:
    """Return why a text is not a lower-case DNS subdomain, the form of most object names.

    RFC 1123 defines the form.
    """
    rule = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character"
    )
    return _list_problems(name, MAX_SUBDOMAIN_LENGTH, _DNS_SUBDOMAIN, rule)


def validate_dns_label(name: str) -> tuple[str, ...]:
    """Return why a text is not a lower-case DNS label (RFC 1123), the form of namespaces."""
    rule = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-',"
        " and must start and end with an alphanumeric character"
    )
    return _list_problems(name, MAX_NAME_LENGTH, _DNS_LABEL, rule)


def _list_problems(text: str, max_length: int, form: re.Pattern[str], rule: str) -> tuple[str, ...]:
    """List Kubernetes' messages for a text.

    If it is too long, and if it does not have the `form` of its `rule`.
    """
    problems: list[str] = []
    if len(text) > max_length:
        problems.append(f"must be no more than {max_length} characters")
    if not form.fullmatch(text):
        problems.append(rule)
    return tuple(problems)
