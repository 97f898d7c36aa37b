"""Tests of folded attributes: a document is short, and the state is the same after a round-trip."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexusform.resources.address import Address
from nexusform.state.objects import InstanceState, ObjectState, State
from nexusform.state.state_codec import decode_state, encode_state

PLACEMENT = Address((), "managed", "fleet_cluster_resource_placement", "p")
PLACES = [f"member-{number}" for number in range(100)]
BINDINGS = {name: {"certain": True, "score": 0, "state": "Bound"} for name in sorted(PLACES)}
# Not in alphabetical order, as on a hub.
STATUSES = [
    {
        "cluster_name": name,
        "conditions": [
            {
                "message": f'Successfully scheduled resources for placement in "{name}"',
                "status": "True" if number % 50 else "False",
            }
        ],
        "observed_resource_index": number % 2,
    }
    for number, name in reversed([*enumerate(PLACES)])
]


def build_state(**attributes: Any) -> State:
    placement = ObjectState(dict(sorted(attributes.items())), 1)
    return State("l", 1, "0.1.0", "c", {PLACEMENT: InstanceState(placement)}, last_creation=1)


def read_attributes(document: bytes) -> Any:
    state, problems = decode_state(document, "state")
    assert state is not None, problems
    current = state.instances[PLACEMENT].current
    assert current is not None
    return current.attributes


def get_entry(document: bytes) -> Any:
    return json.loads(document)["resources"][0]["instances"][0]


def test_equal_elements_are_written_once_and_read_in_their_order() -> None:
    state = build_state(name="p", bindings=BINDINGS, placement_statuses=STATUSES, workloads={})
    document = encode_state(state)
    assert json.loads(document)["version"] == 2
    assert document.count(b'"state": "Bound"') == 1
    assert document.count(b"Successfully scheduled") == 3
    assert len(document) * 4 < len(json.dumps(STATUSES, indent=10))
    attributes = read_attributes(document)
    # Also the order of members, which outputs keep.
    assert json.dumps(attributes) == json.dumps(
        {"bindings": BINDINGS, "name": "p", "placement_statuses": STATUSES, "workloads": {}}
    )


@pytest.mark.parametrize(
    "value",
    [
        BINDINGS,
        STATUSES,
        dict(list(BINDINGS.items())[:7]),
        {name: {"machine": f"bm-{number}"} for number, name in enumerate(sorted(PLACES))},
        {name: {"text": "${label}"} for name in sorted(PLACES)},
        {f"m {name}": {"state": "Bound"} for name in sorted(PLACES)},
        [{"cluster_name": "", "status": "False"}] * 9,
        [{"cluster_name": "a", "status": 'x"'}] * 9,
        [{"number": 1}] * 9,
        [{}] * 9,
        [{"cluster_name": "a"}] * 8 + [{}],
        ["a"] * 9,
        {name: name for name in sorted(PLACES)},
        [{"1": 1, "key": "1", "values": [1, "1", '"1"', 1.5, 2**70]}] * 9,
    ],
)
def test_earlier_documents_give_the_same_state(value: Any) -> None:
    state = build_state(elements=value)
    document = encode_state(state)
    data = json.loads(document)
    entry = data["resources"][0]["instances"][0]
    # As written by earlier versions.
    entry["attributes"] = {"elements": value}
    was_folded = entry.pop("folded_attributes", None) is not None
    assert data["version"] == 1 + was_folded
    data["version"] = 1
    earlier = json.dumps(data).encode()
    assert json.dumps(read_attributes(document)) == json.dumps(read_attributes(earlier))
    assert encode_state(decode_state(earlier, "state")[0] or state) == document


_TEXTS = st.sampled_from(["", "a", "b", '"a"', '\\"a\\"', "a b", "${label}", "${", '"', "\\"])
_ELEMENTS = st.fixed_dictionaries(
    {"name": _TEXTS, "text": _TEXTS}, optional={"a": _TEXTS, "b": st.integers(0, 1)}
)


@given(st.lists(_ELEMENTS, min_size=1, max_size=2), st.integers(8, 10), _TEXTS)
def test_every_list_and_map_is_read_as_written(
    elements: list[Any], count: int, last_text: str
) -> None:
    rows = elements * count
    rows[-1] = rows[-1] | {"text": last_text}
    members = {f"{row['name']}{number}": row for number, row in enumerate(rows)}
    state = build_state(rows=rows, members=members)
    assert read_attributes(encode_state(state)) == {"rows": rows, "members": members}


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form.pop("labels"),
        lambda form: form.pop("values"),
        lambda form: form.pop("numbers"),
        lambda form: form.update(labels=form["labels"][1:]),
        lambda form: form.update(labels=[1] * 100),
        lambda form: form.update(labels=['a"'] * 100),
        lambda form: form.update(labels="a" * 100),
        lambda form: form.update(values=form["values"][1:]),
        lambda form: form.update(values=["a"] * 4),
        lambda form: form.update(values={}),
        lambda form: form.update(numbers=[-1] * 100),
        lambda form: form.update(numbers=[True] * 100),
        lambda form: form.update(numbers=3),
        lambda form: form.update(label_key=3),
        lambda form: form.update(other=1),
        lambda form: form.update(
            labels=["a"] * 30_000, values=[{"a": "a" * 40_000}], numbers=[0] * 30_000
        ),
    ],
)
def test_damaged_form_is_an_error_with_its_place(change: Any) -> None:
    data = json.loads(encode_state(build_state(placement_statuses=STATUSES)))
    change(data["resources"][0]["instances"][0]["folded_attributes"]["placement_statuses"])
    state, problems = decode_state(json.dumps(data, indent=2).encode(), "state")
    assert state is None
    assert "resources[0].instances[0].folded_attributes" in problems[0].detail


def test_an_attribute_has_one_form() -> None:
    data = json.loads(encode_state(build_state(placement_statuses=STATUSES)))
    data["resources"][0]["instances"][0]["attributes"]["placement_statuses"] = []
    state, problems = decode_state(json.dumps(data, indent=2).encode(), "state")
    assert state is None
    assert "placement_statuses" in problems[0].detail
