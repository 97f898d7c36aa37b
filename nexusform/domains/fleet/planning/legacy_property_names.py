"""Old name of the node-count property, read as the current one unless a member has the old property."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_documents import NODE_COUNT, OLD_NODE_COUNT
from nexusform.domains.fleet.scheduling.bindings import ClusterSelectorTerm, Policy
from nexusform.domains.fleet.scheduling.member_list import MemberList


def rename_policy_properties(policy: Policy | None, member_list: MemberList) -> Policy | None:
    """Return the policy with the old name of node-count replaced, unless a member has the old property."""
    if policy is None or not has_old_property_name(policy):
        return policy
    if any(OLD_NODE_COUNT in member.properties for member in member_list.members):
        return policy
    return replace(
        policy,
        required_terms=None
        if policy.required_terms is None
        else tuple(_rename_properties_in_term(term) for term in policy.required_terms),
        preferred_terms=tuple(
            replace(term, preference=_rename_properties_in_term(term.preference)) for term in policy.preferred_terms
        ),
    )


def has_old_property_name(policy: Policy) -> bool:
    """Return True if a policy uses the old name of node-count."""
    terms: Iterable[ClusterSelectorTerm] = (
        *(policy.required_terms or ()),
        *(term.preference for term in policy.preferred_terms),
    )
    return any(OLD_NODE_COUNT in _list_property_names(term) for term in terms)


def _list_property_names(term: ClusterSelectorTerm) -> list[str]:
    names = [requirement.name for requirement in term.property_selector or ()]
    return names if term.property_sorter is None else [*names, term.property_sorter.name]


def _rename_properties_in_term(term: ClusterSelectorTerm) -> ClusterSelectorTerm:
    """Return the term with the current name of node-count."""
    sorter, selector = term.property_sorter, term.property_selector
    if sorter is not None:
        sorter = replace(sorter, name=_rename_property(sorter.name))
    if selector is not None:
        selector = tuple(replace(requirement, name=_rename_property(requirement.name)) for requirement in selector)
    return replace(term, property_sorter=sorter, property_selector=selector)


def _rename_property(name: str) -> str:
    return NODE_COUNT if name == OLD_NODE_COUNT else name
