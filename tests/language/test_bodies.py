"""Tests of bodies by schema: both syntaxes mean the same, and errors have positions.

Every error has its position.
"""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.language.body_decoding import (
    BodyContent,
    BodySchema,
    decode_attributes,
    decode_body,
    suggest_argument_name,
)
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_file
from nexusform.language.syntax import syntax_nodes as syntax
from tests.kill_points import scale_count

POOL = BodySchema(
    {"name": True, "count": True, "zones": False, "labels": False},
    {"taint": (), "agent_pool": ("name",), "vdu": ("name", "kind")},
)


def parse_native(text: str) -> syntax.Body:
    body, diagnostics = parse_file(SourceFile("a.nf.hcl", text))
    assert diagnostics == []
    return body


def parse_json(text: str) -> syntax.JsonBody:
    body, diagnostics = parse_json_file(SourceFile("a.nf.json", text))
    assert diagnostics == []
    return body


def format_span(span: Span | None) -> str:
    assert span is not None
    return f"{span.start.line}:{span.start.column}-{span.end.line}:{span.end.column}"


def list_errors(
    body: syntax.Body | syntax.JsonBody, schema: BodySchema = POOL
) -> list[tuple[str, str, str]]:
    _, diagnostics = decode_body(body, schema)
    return [(format_span(each.subject), each.summary, each.detail) for each in diagnostics]


def parse_only_block(text: str) -> syntax.Body:
    inner = parse_native(text).blocks[0].body
    assert isinstance(inner, syntax.Body)
    return inner


def test_valid_body_has_arguments_and_blocks_in_source_order() -> None:
    body = parse_native(
        'name = "a"\nagent_pool "x" {\n}\ncount = 1\ntaint {\n}\nagent_pool "y" {\n}\n'
    )
    found, diagnostics = decode_body(body, POOL)
    assert diagnostics == []
    assert list(found.attributes) == ["name", "count"]
    assert [(each.type, [label.value for label in each.labels]) for each in found.blocks] == [
        ("agent_pool", ["x"]),
        ("taint", []),
        ("agent_pool", ["y"]),
    ]


GOOD = 'name = "a"\ncount = 1\n'

NATIVE_MISTAKES = {
    GOOD + "zone = 1": (
        "3:1-3:5",
        "Unsupported argument",
        'An argument named "zone" is not expected here. Did you mean "zones"?',
    ),
    GOOD + "colour = 1": (
        "3:1-3:7",
        "Unsupported argument",
        'An argument named "colour" is not expected here.',
    ),
    GOOD + "taint = {}": (
        "3:1-3:6",
        "Unsupported argument",
        (
            'An argument named "taint" is not expected here. Did you mean to define a block of '
            "type "
            '"taint"? If so, '
            'write "taint { ... }" without the equals sign.'
        ),
    ),
    GOOD + "agent_pool = {}": (
        "3:1-3:11",
        "Unsupported argument",
        (
            'An argument named "agent_pool" is not expected here. Did you mean to define a block '
            "of type "
            '"agent_pool"? '
            'If so, write "agent_pool "NAME" { ... }" without the equals sign.'
        ),
    ),
    GOOD + "labels {\n}": (
        "3:1-3:7",
        "Unsupported block type",
        (
            'Blocks of type "labels" are not expected here. Did you mean to define argument '
            '"labels"? If '
            "so, use the "
            'equals sign to assign it a value: "labels = ...".'
        ),
    ),
    GOOD + "taints {\n}": (
        "3:1-3:7",
        "Unsupported block type",
        'Blocks of type "taints" are not expected here. Did you mean "taint"?',
    ),
    GOOD + "agent_pool {\n}": (
        "3:12-3:13",
        "Missing name for agent_pool",
        "All agent_pool blocks must have 1 label (name).",
    ),
    GOOD + 'vdu "a" {\n}': (
        "3:9-3:10",
        "Missing kind for vdu",
        "All vdu blocks must have 2 labels (name, kind).",
    ),
    GOOD + 'taint "a" {\n}': (
        "3:7-3:10",
        "Extraneous label for taint",
        "No labels are expected for taint blocks.",
    ),
    GOOD + 'agent_pool "a" b {\n}': (
        "3:16-3:17",
        "Extraneous label for agent_pool",
        "Only 1 label (name) is expected for agent_pool blocks.",
    ),
    "name = 1\n": (
        "2:1-2:1",
        "Missing required argument",
        'The argument "count" is required, but no definition was found.',
    ),
}


@pytest.mark.parametrize("text", NATIVE_MISTAKES, ids=lambda text: text.removeprefix(GOOD)[:20])
def test_error_in_native_syntax(text: str) -> None:
    assert list_errors(parse_native(text)) == [NATIVE_MISTAKES[text]]


def test_missing_argument_of_block_is_reported_at_opening_brace() -> None:
    body = parse_only_block('agent_pool "x" {\n  name = 1\n}\n')
    assert list_errors(body)[0][:2] == ("1:16-1:17", "Missing required argument")
    found, _ = decode_body(body, POOL)
    assert format_span(found.end_span) == "3:1-3:2"


GOOD_JSON = '{"name": "a", "count": 1'

JSON_MISTAKES = {
    GOOD_JSON + ', "zone": 1}': (
        "1:27-1:33",
        "Extraneous JSON object property",
        'No argument or block type is named "zone". Did you mean "zones"?',
    ),
    GOOD_JSON + ', "name": "b"}': (
        "1:27-1:33",
        "Duplicate argument",
        (
            'The argument "name" was already set at a.nf.json:1,2-8. Each argument may be set '
            "only once."
        ),
    ),
    GOOD_JSON + ', "taint": 3}': (
        "1:36-1:37",
        "Incorrect JSON value type",
        (
            "Either a JSON object or a JSON array of objects is required, representing the "
            "contents of "
            "one or more "
            '"taint" blocks.'
        ),
    ),
    GOOD_JSON + ', "agent_pool": "x"}': (
        "1:41-1:44",
        "Incorrect JSON value type",
        "A JSON object is required, whose keys represent the agent_pool block's name.",
    ),
    '{"name": 1}': (
        "1:11-1:12",
        "Missing required argument",
        'The argument "count" is required, but no definition was found.',
    ),
}


@pytest.mark.parametrize("text", JSON_MISTAKES, ids=lambda text: text.removeprefix(GOOD_JSON)[:20])
def test_error_in_json_syntax(text: str) -> None:
    assert list_errors(parse_json(text)) == [JSON_MISTAKES[text]]


def test_comment_property_is_ignored_only_in_bodies() -> None:
    body = parse_json(
        '{"//": "why", "name": "a", "count": {"//": 1}, "agent_pool": {"//": "x", "p": {"//": ""}}}'
    )
    found, diagnostics = decode_body(body, POOL)
    assert diagnostics == []
    assert list(found.attributes) == ["name", "count"]
    assert [each.labels[0].value for each in found.blocks] == ["p"]
    count = found.attributes["count"].expression
    assert isinstance(count, syntax.ObjectCons)
    assert len(count.items) == 1


def test_json_blocks_keep_order_of_keys() -> None:
    body = parse_json(
        '{"name": 1, "count": 1, "agent_pool": [{"b": {}, "a": [{}, {}]}, {"c": {}}], "taint": '
        "[{}, null], "
        '"agent_pool": {"b": {}}, "vdu": {"y": {"z": {}, "x": {}}}}'
    )
    found, diagnostics = decode_body(body, POOL)
    assert diagnostics == []
    assert [(each.type, [label.value for label in each.labels]) for each in found.blocks] == [
        ("agent_pool", ["b"]),
        ("agent_pool", ["a"]),
        ("agent_pool", ["a"]),
        ("agent_pool", ["c"]),
        ("taint", []),
        ("taint", []),
        ("agent_pool", ["b"]),
        ("vdu", ["y", "z"]),
        ("vdu", ["y", "x"]),
    ]


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"agent_pool": null}', ["1:16-1:20"]),
        ('{"agent_pool": {}}', ["1:16-1:18"]),
        ('{"agent_pool": [{}, []]}', ["1:16-1:24"]),
        ('{"vdu": {"y": null, "z": {"x": null}}}', ["1:15-1:19"]),
        ('{"agent_pool": {"a": null}, "taint": null}', []),
    ],
)
def test_json_labels_need_a_property(text: str, places: list[str]) -> None:
    found, diagnostics = decode_body(parse_json(text), POOL, partial=True)
    labels = [diagnostic for diagnostic in diagnostics if diagnostic.id == "missing-block-label"]
    assert [format_span(diagnostic.subject) for diagnostic in labels] == places
    assert found.blocks == ()


def test_partial_decoding_ignores_names_outside_schema() -> None:
    schema = BodySchema({"name": True})
    for body in (
        parse_native("name = 1\nother = 2\nb {\n}\n"),
        parse_json('{"name": 1, "other": 2, "b": {}}'),
    ):
        found, diagnostics = decode_body(body, schema, partial=True)
        assert diagnostics == []
        assert list(found.attributes) == ["name"]


def test_partial_decoding_rejects_block_written_as_argument() -> None:
    _, diagnostics = decode_body(
        parse_native("taint = 1\nlabels {\n}\n"),
        BodySchema({"labels": False}, {"taint": ()}),
        partial=True,
    )
    assert [each.summary for each in diagnostics] == [
        "Unsupported argument",
        "Unsupported block type",
    ]


def test_just_attributes_rejects_blocks() -> None:
    found, diagnostics = decode_attributes(parse_native("a = 1\nb {\n}\nc = 2\n"))
    assert list(found) == ["a", "c"]
    assert [(each.summary, format_span(each.subject)) for each in diagnostics] == [
        ('Unexpected "b" block', "2:1-2:2")
    ]
    found, diagnostics = decode_attributes(parse_json('{"a": 1, "//": 2, "c": {"d": 1}}'))
    assert (list(found), diagnostics) == (["a", "c"], [])


# --- the same configuration in both syntaxes
# ---------------------------------------------------------

NAMES = st.sampled_from(["a", "b1", "c-d", "größe"])
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8
) | st.sampled_from(["${x.y}", "a ${b[0]} c", "$${x}", "%{ if q }r%{ endif }", '"', "\\"])
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 10**30)
    | st.sampled_from([Decimal("1.5"), Decimal("0.001")])
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
BODIES = st.recursive(
    st.fixed_dictionaries(
        {"arguments": st.dictionaries(NAMES, VALUES, max_size=3), "blocks": st.just([])}
    ),
    lambda inner: st.fixed_dictionaries(
        {
            "arguments": st.dictionaries(NAMES, VALUES, max_size=3),
            "blocks": st.lists(
                st.tuples(st.just("plain"), st.just(()), inner)
                | st.tuples(st.just("named"), st.tuples(NAMES), inner)
                | st.tuples(st.just("twice"), st.tuples(NAMES, NAMES), inner),
                max_size=3,
            ),
        }
    ),
    max_leaves=5,
)


def render_native_string(text: str) -> str:
    special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(special.get(char, char) for char in text) + '"'


def render_native_value(value: Any) -> str:
    if isinstance(value, str):
        return render_native_string(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(render_native_value, value)) + "]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{render_native_string(k)} = {render_native_value(v)}" for k, v in value.items()
            )
            + "}"
        )
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def render_native_body(body: Any) -> str:
    lines = [f"{name} = {render_native_value(value)}" for name, value in body["arguments"].items()]
    for kind, labels, inner in body["blocks"]:
        header = " ".join([kind, *map(render_native_string, labels)])
        lines.append(f"{header} {{\n{render_native_body(inner)}\n}}")
    return "\n".join(lines)


def render_json_value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(render_json_value, value)) + "]"
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(k)}: {render_json_value(v)}" for k, v in value.items())
            + "}"
        )
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)


def render_json_body(body: Any) -> str:
    members = [
        f"{json.dumps(name)}: {render_json_value(value)}"
        for name, value in body["arguments"].items()
    ]
    for kind, labels, inner in body["blocks"]:
        nested = render_json_body(inner)
        for label in reversed(labels):
            nested = f"{{{json.dumps(label)}: {nested}}}"
        members.append(f"{json.dumps(kind)}: {nested}")
    return "{" + ", ".join(members) + "}"


def remove_spans(node: Any) -> Any:
    """Return a tree without its positions."""
    if isinstance(node, tuple):
        return tuple(remove_spans(item) for item in node)
    if isinstance(node, Struct):
        kept = [name for name in node.__struct_fields__ if not name.endswith("span")]
        return (type(node).__name__, *(remove_spans(getattr(node, name)) for name in kept))
    return node


def decode_without_spans(body: syntax.Body | syntax.JsonBody) -> Any:
    names = dict.fromkeys(["a", "b1", "c-d", "größe"], False)
    schema = BodySchema(names, {"plain": (), "named": ("name",), "twice": ("name", "kind")})
    found, diagnostics = decode_body(body, schema)
    assert isinstance(found, BodyContent)
    assert diagnostics == []
    return (
        {name: remove_spans(each.expression) for name, each in found.attributes.items()},
        [
            (each.type, [label.value for label in each.labels], decode_without_spans(each.body))
            for each in found.blocks
        ],
    )


@settings(max_examples=scale_count(300), deadline=None)
@given(BODIES)
def test_native_and_json_syntax_have_same_meaning(body: Any) -> None:
    assert decode_without_spans(parse_native(render_native_body(body))) == decode_without_spans(
        parse_json(render_json_body(body))
    )


@pytest.mark.parametrize("name", ["manifest", "content", "yaml", "manifests"])
def test_argument_names_of_other_providers_are_suggested(name: str) -> None:
    assert suggest_argument_name(name, ["yaml_body", "cluster_id"]) == ' Did you mean "yaml_body"?'
