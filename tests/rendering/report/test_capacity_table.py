"""Tests of the capacity table: figures of a site that are worse after the plan are highlighted."""

from __future__ import annotations

import pytest

from nexusform.plans.site_capacity.occupancy import SiteSkuCapacity, SpareCapacity
from nexusform.plans.site_capacity.site_resource_capacity import (
    SiteResourceCapacity,
    SiteResourceKind,
)
from nexusform.rendering.report.capacity_table import build_capacity_table
from nexusform.rendering.report.report_tree import Style, StyledText


@pytest.mark.parametrize(
    ("used_before", "used", "is_highlighted"),
    [
        (4, 5, True),
        (4, 4, False),
        (5, 4, False),
        # From unknown to nothing left is no loss, to a deficit is one.
        (None, 8, False),
        (None, 9, True),
        (4, None, False),
    ],
)
def test_less_of_a_resource_than_before_is_highlighted(
    used_before: int | None, used: int | None, is_highlighted: bool
) -> None:
    # The last row of the table.
    kind = SiteResourceKind.CLAIMS
    resource = SiteResourceCapacity(
        "lab", "lab", kind, "pool", total=8, used_before=used_before, used=used
    )
    sku = SiteSkuCapacity("lab", "lab", "NC_G12_56_v1", 1, SpareCapacity(4, 2), SpareCapacity(4, 2))
    table, _ = build_capacity_table([sku], [resource])
    after = table.rows[-1].cells[-1]
    assert (isinstance(after, StyledText) and after.style is Style.STRONG) == is_highlighted
