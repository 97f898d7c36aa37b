from __future__ import annotations

from nexusform.rendering.pull_request.rack_picture import WIDTH, rack_picture
from nexusform.rendering.report.machine_counts import MachineCount, RackCounts


def rack(name: str, *machines: tuple[int | None, int | None, bool]) -> RackCounts:
    return RackCounts("lab", name, tuple(MachineCount(*machine) for machine in machines), 0)


def test_before_stands_above_after() -> None:
    changed = rack("rack3", (1, 2, False), (2, 0, True), (0, 0, True), (12, 12, False), (None, 1, False))
    assert rack_picture([changed]) == [
        "rack3   1     5",
        "before  120+  .",
        "after   2xx+  1",
        "a figure: VMs on a machine",
        "x: takes no VM",
        ".: no machine",
        "+: ten or more",
    ]


def test_a_new_rack_is_one_line() -> None:
    assert rack_picture([rack("r1", (None, 1, False), (None, 0, False))])[:1] == ["r1      10"]


def test_no_line_is_wider_than_a_phone() -> None:
    many = [rack(f"a-rack-with-a-very-long-name-indeed-{n}", *[(1, 2, False)] * 50) for n in range(9)]
    picture = rack_picture(many)
    assert max(map(len, picture)) <= WIDTH
    assert "and 5 more racks" in picture
    assert rack_picture([]) == []
