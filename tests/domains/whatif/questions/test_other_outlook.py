"""How long addresses and storage last at the pace of the states before."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nexusform.domains.whatif.questions.capacity_report import OtherOutlook, find_other_outlooks, first_out
from nexusform.plans.room.other_room import OtherKind, OtherRoom

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def row(
    used: int | None, *, total: int | None = 254, kind: OtherKind = OtherKind.NODE_ADDRESSES
) -> OtherRoom:
    return OtherRoom("s", "s", kind, "net", total, used, used)


def outlook(now: OtherRoom, **earlier: OtherRoom) -> OtherOutlook:
    versions = {written.replace("_", "-") + "T00:00:00Z": [then] for written, then in earlier.items()}
    [found] = find_other_outlooks([now], {name[1:]: rows for name, rows in versions.items()}, NOW)
    return found


def test_the_pace_is_that_since_the_oldest_state() -> None:
    """12 more a year are 1 a month, whatever came in between; 54 are left."""
    found = outlook(row(200), d2025_03_01=row(188), d2026_01_01=row(200))
    assert found.monthly == pytest.approx(1.0, rel=0.01)
    assert found.months == pytest.approx(54.0, rel=0.01)


def test_what_shrinks_does_not_run_out() -> None:
    found = outlook(row(100), d2025_03_01=row(200))
    assert (found.months, found.monthly is not None) == (None, True)


@pytest.mark.parametrize(
    ("now", "before"), [(row(None), row(1)), (row(5, total=None), row(1)), (row(5), row(None))]
)
def test_what_was_not_captured_tells_no_pace(now: OtherRoom, before: OtherRoom) -> None:
    assert outlook(now, d2025_03_01=before).monthly is None


def test_a_history_of_hours_tells_no_pace() -> None:
    assert outlook(row(200), d2026_03_01=row(100)).monthly is None


def test_what_lacks_today_is_first_then_what_ends_soonest() -> None:
    slow = OtherOutlook(row(10), 1.0, 30.0)
    fast = OtherOutlook(row(10, kind=OtherKind.STORAGE), 1.0, 3.0)
    lacking = OtherOutlook(row(300))
    assert first_out([slow, fast]) is fast
    assert first_out([slow, lacking, fast]) is lacking
    assert first_out([OtherOutlook(row(1))]) is None
