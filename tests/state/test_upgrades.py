from nexusform.state.codec import CURRENT, upgrade


def test_steps_are_taken_in_turn() -> None:
    steps = {
        1: lambda d: d | {"seen": [1]},
        2: lambda d: d | {"seen": [*d["seen"], 2]},
    }
    assert upgrade({"version": 1, "a": 0}, 1, steps, 3) == {"version": 3, "a": 0, "seen": [1, 2]}


def test_a_current_document_stays_as_it_is() -> None:
    document = {"version": CURRENT}
    assert upgrade(document, CURRENT) is document


def test_without_a_step_there_is_no_way() -> None:
    assert upgrade({"version": 1}, 1, {}, 2) is None
