"""Parts of a plan's page about the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from nexusform.domains.fleet.rendering.fleet_parts import list_fleet_members, render_fleet_part, render_pods_part
from nexusform.domains.fleet.rendering.fleet_svg import render_fleet_svg
from nexusform.plans.plan import Plan
from nexusform.rendering.page.page_data import DomainPageParts


def _list_members(plan: Plan) -> Iterator[tuple[str, str]]:
    for member in list_fleet_members(plan):
        yield member.name, member.cluster_id


PARTS: Final = DomainPageParts(render_fleet_part, render_pods_part, _list_members, render_fleet_svg)
