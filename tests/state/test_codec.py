"""Tests of state documents: they round-trip, and every error has a location."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.doubts.doubt import CONSEQUENCES, Doubt
from nexusform.resource_types.registry import build_registries
from nexusform.resources.address import Address, ModulePathStep, parse_address
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
)
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, OutputState, State
from nexusform.state.state_codec import decode_state, encode_state
from tests.kill_points import scale_count

RACK = Address((), "managed", "nexus_rack", "r")

names = st.from_regex(r"[a-z_][a-z0-9_-]{0,5}", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
keys = st.none() | st.integers(0, 40) | texts
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
attributes = st.dictionaries(names, plain, max_size=4)
paths = st.lists(st.lists(texts | st.integers(0, 9), max_size=3).map(tuple), max_size=2).map(tuple)
objects = st.builds(
    ObjectState,
    attributes=attributes,
    creation=st.integers(0, 50),
    sensitive=paths,
    dependencies=st.lists(names, max_size=2).map(tuple),
    tainted=st.booleans(),
    create_before_destroy=st.booleans(),
    provider=texts,
    schema_version=st.integers(0, 3),
    private=st.none() | attributes,
)
addresses = st.builds(
    Address,
    module=st.lists(st.builds(ModulePathStep, names, keys), max_size=2).map(tuple),
    mode=st.sampled_from(["managed", "data"]),
    type=names,
    name=names,
    key=keys,
)
instances = st.builds(
    InstanceState,
    current=st.none() | objects,
    deposed=st.dictionaries(st.from_regex(r"[0-9a-f]{8}", fullmatch=True), objects, max_size=2),
).filter(lambda instance: instance.current is not None or instance.deposed)
outputs = st.sampled_from(
    [
        OutputState("x", STRING),
        OutputState(None, DYNAMIC),
        OutputState([1, 2], ListType(NUMBER), sensitive=True),
        OutputState(["a"], SetType(STRING)),
        OutputState({"k": True}, MapType(BOOL)),
        OutputState({"a": [1, "x"]}, ObjectType.create({"a": TupleType((NUMBER, STRING))})),
    ]
)
states = st.builds(
    State,
    lineage=texts.filter(bool),
    serial=st.integers(0, 2**70),
    nexusform_version=texts,
    catalogue=texts,
    instances=st.dictionaries(addresses, instances, max_size=4),
    outputs=st.dictionaries(names, outputs, max_size=2),
    applied_plans=st.lists(texts, max_size=2).map(tuple),
    last_creation=st.integers(50, 60),
    check_results=st.lists(attributes, max_size=1).map(tuple),
    unread=st.lists(
        st.builds(
            Doubt,
            kind=texts,
            name=texts,
            field=texts,
            file=texts,
            line=st.integers(0, 9),
            may_change=st.sampled_from(list(CONSEQUENCES)),
            reason=texts,
        ),
        max_size=2,
    ).map(tuple),
)


def decode_valid(data: bytes) -> State:
    state, problems = decode_state(data, "s.nfstate")
    assert problems == []
    assert state is not None
    return state


def decode_invalid(data: bytes) -> list[Diagnostic]:
    state, problems = decode_state(data, "s.nfstate")
    assert state is None
    assert problems
    return problems


def build_one_rack_state(**more: object) -> State:
    rack = ObjectState({"id": "lab/r", "zones": ["1", "2"]}, creation=1, **more)  # type: ignore[arg-type]
    return State("l", 3, "0.1.0", "2024", {RACK: InstanceState(rack)}, last_creation=1)


@given(states)
@settings(max_examples=scale_count(150), deadline=None)
def test_state_round_trips(state: State) -> None:
    assert decode_valid(encode_state(state)) == state


@given(states, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_equal_states_give_equal_bytes(state: State, random: Any) -> None:
    def shuffle_mapping(mapping: Any) -> dict[Any, Any]:
        items = list(mapping.items())
        random.shuffle(items)
        return dict(items)

    other = replace(
        state, instances=shuffle_mapping(state.instances), outputs=shuffle_mapping(state.outputs)
    )
    assert encode_state(other) == encode_state(state)


def test_document_has_terraform_format_and_nexusform_version_on_top() -> None:
    address = parse_address('module.a["k"].nexus_rack.r[2]')
    kept = ObjectState(
        {"id": "x"}, 7, tainted=True, dependencies=("nexus_site.s",), sensitive=(("id",),)
    )
    old = ObjectState({"id": "y"}, 4)
    state = State(
        "l",
        3,
        "0.1.0",
        "2024",
        {address: InstanceState(kept, {"0a0b0c0d": old})},
        {"o": OutputState("v", STRING)},
    )
    text = encode_state(state).decode()
    document = json.loads(text)
    assert list(document)[:3] == ["format", "kind", "version"]
    assert text.startswith('{\n  "format": "nexusform",\n  "kind": "state",\n  "version": 1,\n')
    assert text.endswith("}\n")
    assert document["outputs"] == {"o": {"value": "v", "type": "string"}}
    (resource,) = document["resources"]
    assert list(resource) == ["module", "mode", "type", "name", "instances"]
    assert list(resource["instances"][0])[:2] == ["index_key", "status"]
    assert resource["module"] == 'module.a["k"]'
    assert (resource["mode"], resource["type"], resource["name"]) == ("managed", "nexus_rack", "r")
    current, deposed = resource["instances"]
    assert (current["index_key"], current["status"], current["creation"]) == (2, "tainted", 7)
    assert current["dependencies"] == ["nexus_site.s"]
    assert current["sensitive_attributes"] == [["id"]]
    assert (deposed["index_key"], deposed["deposed"], deposed["attributes"]) == (
        2,
        "0a0b0c0d",
        {"id": "y"},
    )


def test_instances_are_sorted_by_key() -> None:
    made = [Address((), "managed", "t", "n", key) for key in ("b", 10, "a", 2)]
    state = replace(EMPTY, instances={a: InstanceState(ObjectState({}, 0)) for a in made})
    (resource,) = json.loads(encode_state(state))["resources"]
    assert [entry["index_key"] for entry in resource["instances"]] == [2, 10, "a", "b"]


def test_numbers_beyond_64_bits_stay_exact() -> None:
    huge = 2**200 + 1
    empty = State(lineage="l")
    state = replace(
        empty, instances={RACK: InstanceState(ObjectState({"n": huge, "m": [{"x": -huge}]}, 0))}
    )
    data = encode_state(state)
    assert decode_valid(data) == state
    small = replace(
        empty, instances={RACK: InstanceState(ObjectState({"n": 1, "m": [{"x": -1}]}, 0))}
    )
    assert data.replace(str(huge).encode(), b"1") == encode_state(small)


def test_truncated_document_is_reported_with_line_and_remedy() -> None:
    data = encode_state(build_one_rack_state())
    (problem,) = decode_invalid(data[: data.index(b'"creation"')])
    assert problem.summary == "State is not valid JSON"
    assert problem.subject is not None
    assert problem.subject.filename == "s.nfstate"
    line = data[: data.index(b'"creation"')].count(b"\n") + 1
    assert problem.subject.start.line == line
    assert f"line {line}, column" in problem.detail
    assert "cut off" in problem.detail
    assert problem.detail.endswith("Fix the document.")


@pytest.mark.parametrize(
    "data", [b"", b"  \n", b"\xff\xfe{", b"nul", b"[1, 2", b'{"format": NaN}', b"[" * 5000]
)
def test_invalid_json_is_rejected(data: Any) -> None:
    (problem,) = decode_invalid(data)
    assert problem.summary == "State is not valid JSON"


def test_invalid_utf8_byte_is_reported_with_its_location() -> None:
    (problem,) = decode_invalid(b'{\n  "format": "\xc3\xa4\xff"}')
    assert (problem.subject.start.line, problem.subject.start.column) == (2, 15)
    assert (problem.subject.end.line, problem.subject.end.column) == (2, 16)
    assert "not UTF-8" in problem.detail


def test_error_after_non_latin_letters_has_the_right_location() -> None:
    (problem,) = decode_invalid('{"format": "größe", x}'.encode())
    assert (problem.subject.start.column, problem.subject.start.byte) == (21, 22)


def test_byte_order_mark_is_accepted() -> None:
    assert (
        decode_valid(b"\xef\xbb\xbf" + encode_state(build_one_rack_state()))
        == build_one_rack_state()
    )


def test_terraform_state_is_recognized() -> None:
    (problem,) = decode_invalid(
        b'{"version": 4, "terraform_version": "1.9.0", "serial": 1, "resources": []}'
    )
    assert problem.summary == "Not a nexusform state"
    assert "Terraform or OpenTofu" in problem.detail


@pytest.mark.parametrize(
    "data", [b"[]", b"1", b"{}", b'{"format": "other", "version": 1}', b'{"format": 3}']
)
def test_foreign_document_is_recognized(data: Any) -> None:
    (problem,) = decode_invalid(data)
    assert problem.summary == "Not a nexusform state"


def test_state_of_development_version_is_rejected() -> None:
    (problem,) = decode_invalid(
        b'{"format": "nexusform", "version": 1, "nexusform_version": "0.1.0"}'
    )
    assert problem.id == "development-version-file"
    assert (
        "was written by a development version of nexusform; import the resources again."
        in problem.detail
    )


def test_newer_format_is_rejected_with_the_version_of_its_writer() -> None:
    (problem,) = decode_invalid(
        b'{"format": "nexusform", "kind": "state", "version": 9, "nexusform_version": "7.0"}'
    )
    assert problem.summary == "Newer state version"
    assert "nexusform 7.0" in problem.detail


def test_object_of_a_newer_schema_is_rejected_with_its_place() -> None:
    def change(document: dict[str, Any]) -> None:
        instance = document["resources"][0]["instances"][0]
        instance |= {"schema_version": 1, "attributes": {"renamed": 1}}

    data = edit_document(change)
    kind = json.loads(data)["resources"][0]["type"]
    state, problems = decode_state(data, "s", {kind: build_registries().schemas["managed"][kind]})
    assert (state, [problem.id for problem in problems]) == (None, ["newer-state-version"])
    assert "(resources[0].instances[0].schema_version)" in problems[0].detail
    assert problems[0].detail.endswith("Use a newer nexusform.")
    # Without schemas it is only inspected.
    assert decode_state(data, "s")[0] is not None


@pytest.mark.parametrize("version", ["true", '"1"', "0", "1.0", "null"])
def test_invalid_version_is_rejected(version: str) -> None:
    (problem,) = decode_invalid(
        f'{{"format": "nexusform", "kind": "state", "version": {version}}}'.encode()
    )
    assert "version" in problem.detail


def edit_document(change: Any) -> bytes:
    document = json.loads(encode_state(build_one_rack_state()))
    change(document)
    return json.dumps(document, indent=2).encode()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda d: d.pop("serial"), "serial"),
        (lambda d: d.update(serial=-1), "serial"),
        (lambda d: d.update(serial=True), "serial"),
        (lambda d: d.update(lineage=None), "lineage"),
        (lambda d: d.update(lineage=""), "lineage"),
        (lambda d: d.update(exports={"data.nexus_inventory.a": "yesterday"}), "exports"),
        (lambda d: d.update(exports={"data.nexus_inventory.a": ""}), "exports"),
        (lambda d: d.update(resources={}), "resources"),
        (lambda d: d.update(unread=[["server", "a", "host"]]), "unread"),
        (lambda d: d["resources"].append(7), "resources[1]"),
        (lambda d: d["resources"][0].update(mode="list"), "resources[0].mode"),
        (lambda d: d["resources"][0].update(type="a b"), "resources[0].type"),
        (lambda d: d["resources"][0].update(module="nexus_rack.r"), "resources[0].module"),
        (lambda d: d["resources"][0].update(module="module"), "resources[0].module"),
        (lambda d: d["resources"][0].update(module=3), "resources[0].module"),
        (lambda d: d["resources"][0].pop("instances"), "resources[0].instances"),
        (
            lambda d: d["resources"][0]["instances"][0].pop("creation"),
            "resources[0].instances[0].creation",
        ),
        (
            lambda d: d["resources"][0]["instances"][0].update(index_key=-1),
            "resources[0].instances[0].index_key",
        ),
        (
            lambda d: d["resources"][0]["instances"][0].update(status="gone"),
            "resources[0].instances[0].status",
        ),
        (
            lambda d: d["resources"][0]["instances"][0].update(attributes=[]),
            "resources[0].instances[0].attributes",
        ),
        (
            lambda d: d["resources"][0]["instances"][0].update(dependencies=[1]),
            "resources[0].instances[0].dependencies",
        ),
        (lambda d: d["outputs"].update(o={"value": 1, "type": "strin"}), "outputs.o.type"),
        (
            lambda d: d["outputs"].update(o={"value": [1, "x"], "type": ["list", "number"]}),
            "outputs.o.value[1]",
        ),
        (
            lambda d: d["outputs"].update(o={"type": ["object", {}, 5], "value": {}}),
            "outputs.o.type",
        ),
    ],
)
def test_every_error_has_its_path_and_line(change: Any, path: Any) -> None:
    data = edit_document(change)
    (problem,) = decode_invalid(data)
    assert problem.summary == "Invalid state document"
    assert f"({path})" in problem.detail
    assert problem.subject is not None
    text = data.decode()
    pointed = text[problem.subject.start.byte :]
    value = json.loads(text)
    for step in re.findall(r"\w+", path):
        if isinstance(value, dict) and step not in value:
            # A missing member is reported at its object.
            assert pointed.startswith("{")
            return
        value = value[int(step)] if isinstance(value, list) else value[step]
    assert json.JSONDecoder().raw_decode(pointed)[0] == value
    assert problem.subject.start.line == text[: problem.subject.start.byte].count("\n") + 1


def test_misspelt_member_gets_a_suggestion() -> None:
    def misspell(document: Any) -> None:
        document["resources"][0]["instances"][0]["dependancies"] = []

    data = edit_document(misspell)
    (problem,) = decode_invalid(data)
    assert 'Did you mean "dependencies"?' in problem.detail
    line = problem.subject.start.line
    column = problem.subject.start.column
    assert data.decode().splitlines()[line - 1][column - 1 :].startswith("[]")


def test_all_errors_are_reported_together() -> None:
    def spoil(document: Any) -> None:
        document["serial"] = "3"
        document["resources"][0]["instances"][0]["creation"] = None

    assert len(decode_invalid(edit_document(spoil))) == 2


def test_two_objects_at_one_address_are_rejected() -> None:
    def duplicate_object(document: Any) -> None:
        document["resources"].append(document["resources"][0])

    (problem,) = decode_invalid(edit_document(duplicate_object))
    assert "nexus_rack.r" in problem.detail
    assert "(resources[1].instances[0])" in problem.detail


def test_used_creation_number_is_not_reused() -> None:
    def lower(document: Any) -> None:
        document["last_creation"] = 0

    assert decode_valid(edit_document(lower)).last_creation == 1


# copied, since a mutation may itself be mutated
mutations = st.sampled_from([None, True, -1, 0, 1.5, "", "x", [], {}, [[]], {"a": 1}, 10**30]).map(
    copy.deepcopy
)


def list_paths(node: Any, path: Any = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(node, dict):
        for key, inner in node.items():
            yield from list_paths(inner, (*path, key))
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from list_paths(inner, (*path, index))


@given(states, st.data())
@settings(max_examples=scale_count(200), deadline=None)
def test_no_edit_raises_an_exception(state: State, data: Any) -> None:
    document = json.loads(encode_state(state))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(sorted(list_paths(document), key=str)))
        if not path:
            document = data.draw(mutations)
            break
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        if data.draw(st.booleans()):
            holder[path[-1]] = data.draw(mutations)
        else:
            del holder[path[-1]]
        if not isinstance(document, dict):
            break
    found, problems = decode_state(json.dumps(document).encode(), "s")
    assert (found is None) == bool(problems)


@given(states, st.data())
@settings(max_examples=scale_count(200), deadline=None)
def test_no_damage_raises_an_exception(state: State, data: Any) -> None:
    whole = encode_state(state)
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    found, problems = decode_state(
        whole[:start] + data.draw(st.binary(max_size=4)) + whole[end:], "s"
    )
    assert (found is None) == bool(problems)
