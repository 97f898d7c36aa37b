"""The older name of the property that counts nodes, read as today's where no member has the older."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_documents import NODE_COUNT, OLD_NODE_COUNT
from nexusform.domains.fleet.scheduling.bindings import ClusterTerm, Policy
from nexusform.domains.fleet.scheduling.roster import Roster


def in_fleet(policy: Policy | None, roster: Roster) -> Policy | None:
    """The policy with the older name of node-count read as today's where no member has the older."""
    if policy is None or not uses_old_name(policy):
        return policy
    if any(OLD_NODE_COUNT in member.properties for member in roster.members):
        return policy
    return replace(
        policy,
        required=None if policy.required is None else tuple(_renamed(term) for term in policy.required),
        preferred=tuple(replace(term, preference=_renamed(term.preference)) for term in policy.preferred),
    )


def uses_old_name(policy: Policy) -> bool:
    """Whether a policy asks for node-count under its older name."""
    terms: Iterable[ClusterTerm] = (*(policy.required or ()), *(term.preference for term in policy.preferred))
    return any(OLD_NODE_COUNT in _property_names(term) for term in terms)


def _property_names(term: ClusterTerm) -> list[str]:
    names = [requirement.name for requirement in term.property_selector or ()]
    return names if term.property_sorter is None else [*names, term.property_sorter.name]


def _renamed(term: ClusterTerm) -> ClusterTerm:
    """The term with the property of the number of nodes by its name of today."""
    sorter, selector = term.property_sorter, term.property_selector
    if sorter is not None:
        sorter = replace(sorter, name=_name(sorter.name))
    if selector is not None:
        selector = tuple(replace(requirement, name=_name(requirement.name)) for requirement in selector)
    return replace(term, property_sorter=sorter, property_selector=selector)


def _name(name: str) -> str:
    return NODE_COUNT if name == OLD_NODE_COUNT else name
