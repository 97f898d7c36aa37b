from __future__ import annotations

from nexusform.planning.vm_planning.vm_object import find_placement_origin, record_vm_placements


def test_each_vm_keeps_its_creation_trigger_and_serial() -> None:
    first = record_vm_placements(None, [("a-0", "new"), ("a-1", "new")], ["a-0", "a-1"], 1)
    second = record_vm_placements(
        first, [("a-1", "machine_removed"), ("a-2", "scale_out")], ["a-0", "a-1", "a-2"], 4
    )
    assert find_placement_origin(second, "a-0") == ("new", 1)
    assert find_placement_origin(second, "a-1") == ("machine_removed", 4)
    assert find_placement_origin(second, "a-2") == ("scale_out", 4)


def test_removed_vms_are_dropped_and_other_private_data_stays() -> None:
    note = record_vm_placements(
        {"placed": [[1, "new", ["a-0", "a-1"]]], "other": 7}, [], ["a-0"], 2
    )
    assert note == {"placed": [[1, "new", ["a-0"]]], "other": 7}
    assert find_placement_origin(note, "a-1") is None
    assert record_vm_placements(None, [], [], 1) is None
