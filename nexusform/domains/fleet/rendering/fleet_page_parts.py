"""What the page of a plan shows of a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexusform.domains.fleet.rendering.fleet_parts import fleet_members, fleet_part, pods_part
from nexusform.domains.fleet.rendering.fleet_svg import fleet_svg
from nexusform.plans.plan import Plan
from nexusform.rendering.page.domain_parts import PageParts


def _members(plan: Plan) -> Iterator[tuple[str, str]]:
    for member in fleet_members(plan):
        yield member.name, member.cluster_id


PARTS: Final = PageParts(fleet_part, pods_part, _members, fleet_svg)
