"""Page sections and pictures of domains, loaded for plans with their resource types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import cast

from msgspec import Struct

from nexusform.domain_table import find_domains
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.markup import Part


class DomainPageParts(Struct, frozen=True):
    """Page contents of a domain: sections after the map and after the VMs, the member clusters (name and id
    of the NKS cluster, "" = none), and `picture(plan, verdict)` for plans without racks ("" = no picture).
    """

    after_map: Callable[[Plan], Part]
    after_vms: Callable[[Plan], Part]
    members: Callable[[Plan], Iterable[tuple[str, str]]]
    picture: Callable[[Plan, str], str]


def load_domain_parts(plan: Plan) -> Sequence[DomainPageParts]:
    """Load the page parts of the domains with resource types in the plan."""
    types = {change.address.type for change in plan.changes} | {row.address.type for row in plan.placements}
    parts: list[DomainPageParts] = []
    for domain in find_domains().values():
        if domain.page_parts and not types.isdisjoint(domain.resource_types):
            module, _, name = domain.build_target(domain.page_parts).partition(":")
            parts.append(cast("DomainPageParts", getattr(import_module(module), name)))
    return parts
