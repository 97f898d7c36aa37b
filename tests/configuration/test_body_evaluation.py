from __future__ import annotations

from typing import Any

from nexusform.configuration.body_preparation import PreparedBody, build_prepared_body
from nexusform.diagnostics.diagnostic import Diagnostic, SourceFile
from nexusform.language.parser import parse_file
from nexusform.schemas.block_schema import BlockSchema
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    SENSITIVE,
    UNKNOWN,
    build_null,
    build_object,
    build_string,
    build_tuple,
)
from tests.configuration.sample import CLUSTER, RACK, Scope

SITE = 'site_id = "s"\n'


def prepare_body(text: str, schema: BlockSchema) -> PreparedBody:
    body, wrong = parse_file(SourceFile("x.nf.hcl", text))
    assert wrong == []
    found, problems = build_prepared_body(body, schema)
    assert problems == []
    return found


def evaluate_body(
    text: str, schema: BlockSchema = RACK, **names: Any
) -> tuple[dict[str, Any], Any, list[Diagnostic]]:
    return prepare_body(text, schema).evaluate(Scope(**names))


def list_lines_and_summaries(problems: list[Diagnostic]) -> list[tuple[int, str]]:
    return [(p.subject.start.line if p.subject else 0, p.summary) for p in problems]


def test_defaults_conversion_and_absent_arguments() -> None:
    values, sensitive, problems = evaluate_body(
        SITE + "name = var\nmachine_count = '7'\n".replace("'", '"'), var=12
    )
    assert problems == []
    assert sensitive == ()
    assert values == {
        "site_id": "s",
        "name": "12",
        "machine_count": 7,
        "status": "active",
        "tags": None,
        "secret": None,
        "machine_override": {},
        "machine_override_order": [],
    }


def test_null_is_absent_and_an_error_if_required() -> None:
    text = SITE + "name = var\nstatus = var\nzone = var\ntags = var\n"
    values, _, problems = evaluate_body(text, var=build_null())
    assert list_lines_and_summaries(problems) == [(2, "Missing required argument")]
    assert (values["status"], values["tags"], "zone" in values) == ("active", None, False)


def test_unknown_values_are_kept_and_not_checked() -> None:
    values, _, problems = evaluate_body(
        SITE + "name = var\nmachine_count = var\nstatus = var\ntags = { a = var }\n",
        var=DYNAMIC_UNKNOWN,
    )
    assert problems == []
    assert values["name"] is values["machine_count"] is values["status"] is UNKNOWN
    assert values["tags"] == {"a": UNKNOWN}


def test_known_values_are_checked_regardless_of_source() -> None:
    text = SITE + "name = 1\nmachine_count = var.n\nstatus = var.s\nzone = var.z\ntags = var.n\n"
    values, _, problems = evaluate_body(text, var={"n": 257, "s": "planed", "z": "a b"})
    assert list_lines_and_summaries(problems) == [
        (3, "Invalid value for argument"),
        (4, "Invalid value for argument"),
        (5, "Invalid value for argument"),
        (6, "Incorrect attribute value type"),
    ]
    assert (
        problems[1].detail
        == '"status" must be "active" or "planned", not "planed". Did you mean "planned"?'
    )
    assert values["status"] is UNKNOWN


def test_sensitive_paths_are_listed_and_values_not_in_messages() -> None:
    secret = build_string("hush").add_marks(SENSITIVE)
    values, sensitive, problems = evaluate_body(
        SITE + 'name = var\ntags = { a = var, b = "c" }\nsecret = "x"\nstatus = var\n', var=secret
    )
    assert sensitive == (("name",), ("status",), ("tags", "a"), ("secret",))
    assert values["tags"] == {"a": "hush", "b": "c"}
    assert "hush" not in problems[0].detail


def test_blocks_are_read_by_their_nesting_mode() -> None:
    values, _, problems = evaluate_body(
        """
        name = "c"
        control_plane {
          count = 3
        }
        agent_pool "z" {
          count = 1
          zones = ["2", "1", "2"]
          taint {
            key = "k"
          }
        }
        agent_pool "a" {
          count = 2
        }
        group {
          ids = ["x"]
        }
        group {
        }
        """,
        CLUSTER,
    )
    assert problems == []
    assert values["control_plane"] == {"count": 3}
    assert values["agent_pool_order"] == ["z", "a"]
    assert values["agent_pool"]["z"] == {
        "count": 1,
        "zones": ["1", "2"],
        "mode": "User",
        "keys": ["a"],
        "taint": [{"key": "k", "value": ""}],
    }
    assert values["group"] == [{"ids": ["x"]}, {"ids": None}]


DYNAMIC = """
name = "c"
control_plane {
  count = 1
}
agent_pool "first" {
  count = 1
}
dynamic "agent_pool" {
  for_each = var
  iterator = pool
  labels   = ["p-${pool.key}"]
  content {
    count = pool.value
    dynamic "taint" {
      for_each = [pool.key, "x"]
      content {
        key = "${taint.key}-${taint.value}"
      }
    }
  }
}
agent_pool "last" {
  count = 9
}
"""


def test_dynamic_blocks_keep_position_and_iteration_order() -> None:
    values, _, problems = evaluate_body(DYNAMIC, CLUSTER, var={"b": 2, "a": 1})
    assert problems == []
    assert values["agent_pool_order"] == ["first", "p-a", "p-b", "last"]
    assert values["agent_pool"]["p-b"]["count"] == 2
    assert [t["key"] for t in values["agent_pool"]["p-b"]["taint"]] == ["0-b", "1-x"]


def test_dynamic_blocks_over_lists_have_indices() -> None:
    values, _, _ = evaluate_body(DYNAMIC, CLUSTER, var=[5, 6])
    assert values["agent_pool_order"] == ["first", "p-0", "p-1", "last"]


def test_unknown_collection_gives_unknown_blocks_and_keeps_errors() -> None:
    values, _, problems = evaluate_body(DYNAMIC, CLUSTER, var=DYNAMIC_UNKNOWN)
    assert problems == []
    assert values["agent_pool"] is values["agent_pool_order"] is UNKNOWN
    text = DYNAMIC.replace("count = pool.value", "count = 1 + true")
    assert (
        list_lines_and_summaries(evaluate_body(text, CLUSTER, var=DYNAMIC_UNKNOWN)[2])[0][0] == 14
    )


def test_generated_blocks_of_one_label_are_an_error() -> None:
    text = DYNAMIC.replace('"p-${pool.key}"', "pool.value.name").replace("pool.value\n", "1\n")
    # Two elements of one dynamic block, an element and a literal block, and all of these.
    for names, labels in [
        (["a", "a"], ["a"]),
        (["first"], ["first"]),
        (["a", "b", "a", "last"], ["a", "last"]),
        (["a", DYNAMIC_UNKNOWN, "a"], ["a"]),
    ]:
        items = [
            build_object({"name": build_string(name) if isinstance(name, str) else name})
            for name in names
        ]
        _, _, problems = evaluate_body(text, CLUSTER, var=build_tuple(items))
        assert [problem.id for problem in problems] == ["duplicate-block"] * len(labels), names
        for problem, label in zip(problems, labels, strict=True):
            assert problem.summary == "Duplicate agent_pool block"
            assert f'Duplicate block agent_pool "{label}"' in problem.detail
    items = [build_object({"name": build_string(name)}) for name in ("a", "b")]
    assert evaluate_body(text, CLUSTER, var=build_tuple(items))[2] == []


def test_invalid_for_each_of_dynamic_block() -> None:
    for given in (
        build_null(),
        build_string("x"),
        build_tuple([build_string("a")]).add_marks(SENSITIVE),
    ):
        _, _, problems = evaluate_body(DYNAMIC, CLUSTER, var=given)
        assert list_lines_and_summaries(problems) == [(10, "Invalid dynamic for_each value")]


def test_generated_blocks_count_like_literal_blocks() -> None:
    text = DYNAMIC.replace("p-${pool.key}", "first")
    assert list_lines_and_summaries(evaluate_body(text, CLUSTER, var=[1])[2]) == [
        (9, "Duplicate agent_pool block")
    ]
    text = (
        'name = "c"\ndynamic "control_plane" {\n  for_each = var\n  content {\n    count = 1\n  '
        "}\n}\n"
    )
    assert list_lines_and_summaries(evaluate_body(text, CLUSTER, var=[])[2]) == [
        (1, "Missing control_plane block")
    ]
    assert list_lines_and_summaries(evaluate_body(text, CLUSTER, var=[1, 2])[2]) == [
        (2, "Duplicate control_plane block")
    ]


def test_positions_are_found_by_path() -> None:
    body = prepare_body(DYNAMIC + 'group {\n  ids = [\n    "a",\n    "b",\n  ]\n}\n', CLUSTER)
    line = {path: body.locate(path).start.line for path in PATHS}
    assert line == PATHS


PATHS: dict[tuple[str | int, ...], int] = {
    ("name",): 2,
    ("control_plane",): 3,
    ("control_plane", "count"): 4,
    ("agent_pool", "last"): 23,
    ("agent_pool", "last", "count"): 24,
    ("agent_pool", "p-a", "count"): 14,
    ("agent_pool", "last", "mode"): 23,
    ("group", 0, "ids", 1): 29,
    ("nodes",): 1,
}


def test_references_omit_iterators() -> None:
    assert [t.root.name for t in prepare_body(DYNAMIC, CLUSTER).list_references()] == ["var"]


def test_instances_share_no_values() -> None:
    body = prepare_body(SITE + 'name = "r"\ntags = { a = "b" }\n', RACK)
    first = body.evaluate(Scope())[0]
    first["tags"]["a"] = "changed"
    assert body.evaluate(Scope())[0]["tags"] == {"a": "b"}
