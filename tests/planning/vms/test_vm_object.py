from __future__ import annotations

from nexusform.planning.vms.vm_object import note_placed, placed_by


def test_each_vm_keeps_the_trigger_and_serial_that_brought_it() -> None:
    first = note_placed(None, [("a-0", "new"), ("a-1", "new")], ["a-0", "a-1"], 1)
    second = note_placed(first, [("a-1", "machine_removed"), ("a-2", "scale_out")], ["a-0", "a-1", "a-2"], 4)
    assert placed_by(second, "a-0") == ("new", 1)
    assert placed_by(second, "a-1") == ("machine_removed", 4)
    assert placed_by(second, "a-2") == ("scale_out", 4)


def test_vms_that_left_are_forgotten_and_other_notes_stay() -> None:
    note = note_placed({"placed": [[1, "new", ["a-0", "a-1"]]], "other": 7}, [], ["a-0"], 2)
    assert note == {"placed": [[1, "new", ["a-0"]]], "other": 7}
    assert placed_by(note, "a-1") is None
    assert note_placed(None, [], [], 1) is None
