from __future__ import annotations

from collections.abc import Callable

from nexusform.rendering.answers.explanation_text import (
    build_explanation_report,
    format_vm_certainty,
)
from nexusform.rendering.pull_request.report_markdown import render_report_markdown
from nexusform.rendering.text.report_text import render_report_text
from nexusform.scheduling.placement_decision import PlacementCertainty
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import (
    Demand,
    Machine,
    PlacementConstraints,
    UnschedulableReason,
    VmName,
    VmSku,
)

LARGE = VmSku(
    "NC_P46_224_v1", 46, 2, 224, 300, extra_large=True, machine_skus=("bom-1.7.3",), kind="P"
)
SMALL = VmSku("NC_G6_28_v1", 6, 0, 28, 300)
WIDE = VmSku("NC_E94_448_v1", 94, 2, 448, 300, numa_cells=2)


def scheduler() -> RackScheduler:
    machines = [
        Machine(
            f"rack{rack}-bm{slot:02d}",
            f"rack{rack}",
            str(rack),
            slot,
            "bom-1.7.3",
            2,
            48,
            224,
            3500,
            (UnschedulableReason("cordoned"),) if (rack, slot) == (1, 2) else (),
        )
        for rack in (1, 2, 3)
        for slot in (1, 2, 3, 4)
    ]
    found = RackScheduler(machines)
    for cluster in ("a", "b"):
        for number in range(6):
            found.place(Demand(VmName(cluster, cluster, "p1", number), LARGE))
    for number in range(3):
        found.place(Demand(VmName("c", "c", "cp", number), SMALL))
    return found


def build_explanation(sku: VmSku, zones: frozenset[str] | None, *, is_long: bool = False) -> str:
    explanation = scheduler().explain(
        Demand(VmName("d", "d", "p1", 7), sku, PlacementConstraints(zones))
    )
    report = build_explanation_report("d-p1-7", explanation, (), (), is_long=is_long)
    return (
        f"{render_report_text(report)}\n{render_report_markdown(report)}"
        if is_long
        else render_report_text(report)
    )


def test_explanations_match_reviewed_files(golden: Callable[[str, str], None]) -> None:
    parts = [
        build_explanation(LARGE, frozenset({"1", "2"})),
        build_explanation(LARGE, None, is_long=True),
        build_explanation(WIDE, None),
        build_explanation(LARGE, frozenset({"9"})),
    ]
    golden("explanation.txt", "\n".join(parts))


def test_certainty_needs_samples() -> None:
    assert format_vm_certainty(PlacementCertainty(1, 1), 0) == ""
    assert format_vm_certainty(PlacementCertainty(0.52, 0.17), 100).startswith(
        "Same rack in 52 of 100 samples, same machine in 17"
    )


def test_rejected_machines_of_the_rack_are_listed_for_any_name() -> None:
    reasons = (UnschedulableReason("cordoned"),)
    machines = [
        Machine("blue", "east", "1", 1, "bom-1.7.3", 2, 48, 224, 3500),
        Machine("green", "east", "1", 2, "bom-1.7.3", 2, 48, 224, 3500, reasons),
        Machine("east-1", "west", "2", 1, "bom-1.7.3", 2, 48, 224, 3500, reasons),
    ]
    explanation = RackScheduler(machines).explain(Demand(VmName("d", "d", "p1", 7), LARGE))
    text = render_report_text(build_explanation_report("x", explanation, (), ()))
    # The width of the labels follows the longest name of a rule.
    words = " ".join(text.split())
    assert "rejected: green: schedulable: cordoned" in words
    assert "elsewhere: 1 machine rejected" in words
