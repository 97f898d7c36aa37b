from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

from msgspec.structs import replace

from nexusform.rendering.notation.colours import strip_colours
from nexusform.rendering.text.state_text import render_object, render_outputs, render_state
from nexusform.schemas.value_types import NUMBER, STRING, ListType, MapType, SetType
from nexusform.state.objects import EMPTY, ObjectState, OutputState


def test_state_matches_reviewed_file(
    plans: SimpleNamespace, golden: Callable[[str, str], None]
) -> None:
    text = render_state(plans.some_state(), plans.registries)
    golden("state.txt", text)
    assert strip_colours(render_state(plans.some_state(), plans.registries, colour=True)) == text
    assert "hunter2" not in text


def test_secrets_are_shown_on_request(plans: SimpleNamespace) -> None:
    text = render_state(plans.some_state(), show_sensitive=True)
    assert text.count('"hunter2"') == 2


def test_empty_state_has_a_message() -> None:
    assert render_state(EMPTY) == "No state.\n"
    empty_file = replace(EMPTY, lineage="a")
    assert render_state(empty_file) == "The state file is empty. No resources are represented.\n"


def test_single_object_shows_every_attribute(plans: SimpleNamespace) -> None:
    where = plans.address("thing", "x", "a b")
    found = ObjectState({"id": "x", "list": ["a"], "none": None, "m": {"k": 1}}, 1, tainted=True)
    assert render_object(where, found) == (
        '# thing.x["a b"]: (tainted)\n'
        'resource "thing" "x" {\n'
        '    id   = "x"\n'
        "    list = [\n"
        '        "a",\n'
        "    ]\n"
        "    m    = {\n"
        "        k = 1\n"
        "    }\n"
        "}\n"
    )


def test_outputs_are_rendered() -> None:
    outputs = {
        "zebra": OutputState("line\nother\n", STRING),
        "list": OutputState(["a", 1.0], ListType(STRING)),
        "set": OutputState(["a"], SetType(STRING)),
        "map": OutputState({"b": 1, "a": None}, MapType(NUMBER)),
        "empty": OutputState({}, MapType(NUMBER)),
        "token": OutputState("hunter2", STRING, sensitive=True),
    }
    assert render_outputs(outputs) == (
        "empty = tomap({})\n"
        "list = tolist([\n"
        '  "a",\n'
        "  1,\n"
        "])\n"
        "map = tomap({\n"
        '  "a" = null\n'
        '  "b" = 1\n'
        "})\n"
        "set = toset([\n"
        '  "a",\n'
        "])\n"
        "token = <sensitive>\n"
        "zebra = <<-EOT\n"
        "line\n"
        "other\n"
        "EOT\n"
    )
    assert 'token = "hunter2"\n' in render_outputs(outputs, show_sensitive=True)
