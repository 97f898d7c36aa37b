"""Parts of the page and of pictures that domains bring, for plans that name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import cast

from msgspec import Struct

from nexusform.domain_table import domains
from nexusform.plans.plan import Plan
from nexusform.rendering.notation.markup import Part


class PageParts(Struct, frozen=True):
    """What a domain shows of a plan: sections after the map and after the VMs, the clusters that are members
    (name and id of the NKS cluster, "" where it has none), and `picture(plan, verdict)` for plans without
    racks ("" where there is nothing to draw).
    """

    after_map: Callable[[Plan], Part]
    after_vms: Callable[[Plan], Part]
    members: Callable[[Plan], Iterable[tuple[str, str]]]
    picture: Callable[[Plan, str], str]


def parts_of_domains(plan: Plan) -> Sequence[PageParts]:
    """Those of the domains that a plan names, by an object of one of their types."""
    types = {change.address.type for change in plan.changes} | {row.address.type for row in plan.placements}
    parts: list[PageParts] = []
    for domain in domains().values():
        if domain.page_parts and not types.isdisjoint(domain.resource_types):
            module, _, name = domain.target(domain.page_parts).partition(":")
            parts.append(cast("PageParts", getattr(import_module(module), name)))
    return parts
