"""What is said of many sites in a few words."""

from __future__ import annotations

from nexusform.rendering.report.site_rows import SiteRow, other_sites


def test_sites_that_stay_are_named_as_people_count() -> None:
    rows = [SiteRow(f"par{number}", before=9, after=9) for number in range(40, 0, -1)]
    (told,) = other_sites(rows)
    assert told.startswith("40 sites unchanged: par1, par2, par3, ")
