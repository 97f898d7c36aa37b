"""Details of a rejected cluster: the rejecting term, with observed and requested values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from nexusform.diagnostics.phrases import format_list
from nexusform.domains.fleet.scheduling.bindings import Member, PlacementRequest, PropertyRequirement
from nexusform.domains.fleet.scheduling.member_list import BindingMasks, MemberList
from nexusform.domains.fleet.scheduling.properties import COMPARISONS, read_property
from nexusform.domains.fleet.scheduling.rules import topology_spread
from nexusform.kubernetes.matching import DOES_NOT_EXIST, EXISTS, IN, LabelSelector, Requirement, is_requirement_met
from nexusform.kubernetes.quantity import InvalidQuantity, Quantity, parse_quantity

_MAX_NAMES = 6
_SIGNS: Mapping[str, str] = {"Gt": ">", "Ge": ">=", "Lt": "<", "Le": "<=", "Eq": "=", "Ne": "!="}


def describe_rejection(
    rule: str, request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks, position: int
) -> tuple[str, ...]:
    """Return details of a rule's rejection, one sentence each; none if its reason is complete."""
    describe_rule = _DESCRIBERS.get(rule)
    return tuple(describe_rule(request, member_list, binding_masks, position)) if describe_rule is not None else ()


def _describe_term_mismatches(
    request: PlacementRequest, member_list: MemberList, _binding_masks: BindingMasks, position: int
) -> Iterator[str]:
    """Yield the mismatches of each required term; one matching term is enough."""
    terms, member = request.policy.required_terms or (), member_list.members[position]
    for number, term in enumerate(terms, 1):
        # The mismatches of a term: labels first, properties only if all labels match.
        label_mismatches = list(_find_label_mismatches(term.label_selector or LabelSelector(), member.labels))
        if label_mismatches:
            mismatches = label_mismatches
        else:
            property_mismatches = (
                _format_property_mismatch(requirement, member) for requirement in term.property_selector or ()
            )
            mismatches = [mismatch for mismatch in property_mismatches if mismatch]
        if mismatches:
            prefix = f"term {number}: " if len(terms) > 1 else ""
            yield f"{prefix}{'; '.join(mismatches)}"


def _find_label_mismatches(selector: LabelSelector, labels: Mapping[str, str]) -> Iterator[str]:
    for key, value in selector.match_labels:
        if labels.get(key) != value:
            yield _format_label_mismatch(key, labels.get(key), value)
    for requirement in selector.match_expressions:
        if not is_requirement_met(requirement, labels):
            yield _format_expression_mismatch(requirement, labels.get(requirement.key))


def _format_label_mismatch(key: str, value: str | None, requested: str) -> str:
    return (
        f"no label {key} (required: {requested})"
        if value is None
        else f"label {key} is {value} (required: {requested})"
    )


def _format_expression_mismatch(requirement: Requirement, value: str | None) -> str:
    """Return the text of a label with a failed expression."""
    key, values = requirement.key, format_list(requirement.values, _MAX_NAMES)
    if requirement.operator == IN:
        return _format_label_mismatch(key, value, f"in {values}")
    if requirement.operator == EXISTS:
        return f"no label {key}"
    if requirement.operator == DOES_NOT_EXIST:
        return f"label {key} exists ({value})"
    return f"label {key} is {value} (required: not in {values})"


def _format_property_mismatch(requirement: PropertyRequirement, member: Member) -> str:
    """Return the text of a property with a failed comparison; "" if it succeeds."""
    name, sign = requirement.name, _SIGNS.get(requirement.operator, requirement.operator)
    requested = f"{sign} {format_list(requirement.values, _MAX_NAMES)}"
    value = read_property(member, name)
    if not isinstance(value, Quantity):
        return f"no property {name} (required: {requested})" if value is None else ""
    compare = COMPARISONS.get(requirement.operator)
    bound = parse_quantity(requirement.values[0]) if len(requirement.values) == 1 else None
    if compare is None or bound is None or isinstance(bound, InvalidQuantity) or compare(value.nano, bound.nano):
        return ""
    return f"{name} is {value} (required: {requested})"


def _describe_spread_rejection(
    request: PlacementRequest, member_list: MemberList, binding_masks: BindingMasks, position: int
) -> Iterator[str]:
    """Yield the picks per domain for a constraint that rejects the member."""
    for constraint, members in topology_spread.evaluate_constraints(
        request, member_list, binding_masks
    ).rejected_by_constraint:
        if members >> position & 1:
            by_value = member_list.members_by_label.get(constraint.topology_key, {})
            own_value = member_list.members[position].labels.get(constraint.topology_key, "")
            values = sorted(by_value, key=lambda value: (value != own_value, value))
            counts = [f"{value}: {(by_value[value] & binding_masks.current).bit_count()}" for value in values]
            yield f"picks by {constraint.topology_key}: {format_list(counts, _MAX_NAMES)}"
            return


_DESCRIBERS: Mapping[str, Callable[[PlacementRequest, MemberList, BindingMasks, int], Iterator[str]]] = {
    "cluster_affinity": _describe_term_mismatches,
    "topology_spread": _describe_spread_rejection,
}
