from __future__ import annotations

from nexusform.rendering.pull_request.markdown_changes import compare_attributes
from nexusform.values.value import UNKNOWN


def test_places_are_named_as_users_write_them() -> None:
    before = {
        "count": 1,
        "agent_pool": {"np1": {"count": 3, "labels": {"a b": "x"}}, "np-2": {"count": 1}},
        "zones": ["1", "2"],
        "gone": "x",
        "same": {"deep": [1, 2]},
    }
    after = {
        "count": UNKNOWN,
        "agent_pool": {"np1": {"count": 5, "labels": {}}, "np-2": {"count": 1}, "np3": {"count": 1}},
        "zones": ["1", "3"],
        "gone": None,
        "same": {"deep": [1, 2]},
        "new": {"a": 1},
    }
    parts, more = compare_attributes(before, after)
    assert more == 0
    assert [(p.path, p.old, p.new) for p in parts] == [
        ("agent_pool.np1.count", "3", "5"),
        ('agent_pool.np1.labels["a b"]', '"x"', ""),
        ("agent_pool.np3", "", "{count = 1}"),
        ("count", "1", "(known after apply)"),
        ("gone", '"x"', ""),
        ("new", "", "{a = 1}"),
        ("zones[1]", '"2"', '"3"'),
    ]


def test_secrets_are_not_told() -> None:
    before = {"a": {"token": "s1", "other": 1}, "b": "s2"}
    after = {"a": {"token": "s3", "other": 2}, "b": "s4"}
    parts, _ = compare_attributes(before, after, [("a", "token"), ("b",)])
    assert [(p.path, p.old, p.new) for p in parts] == [
        ("a.other", "1", "2"),
        ("a.token", "(sensitive value)", "(sensitive value)"),
        ("b", "(sensitive value)", "(sensitive value)"),
    ]


def test_a_secret_inside_hides_the_whole_that_comes_or_goes() -> None:
    parts, _ = compare_attributes({"a": {}}, {"a": {"x": {"token": "s"}}}, [("a", "x", "token")])
    assert [p.new for p in parts] == ["(sensitive value)"]


def test_the_limit_says_how_many_more() -> None:
    parts, more = compare_attributes({str(k): k for k in range(9)}, {str(k): k + 1 for k in range(9)}, limit=4)
    assert (len(parts), more) == (4, 5)


def test_entries_that_change_alike_are_one() -> None:
    after = {"override": {f"bm{i:02}": {"evacuate": True, "note": None} for i in range(1, 5)}}
    parts, more = compare_attributes({"override": {}}, after)
    assert [(part.path, part.new) for part in parts] == [('override["bm01".."bm04"]', "{evacuate = true}")]
    assert more == 0


def test_a_change_inside_a_manifest_is_told_by_object_and_field() -> None:
    manifest = "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
    parts, _ = compare_attributes({"yaml_body": manifest}, {"yaml_body": manifest.replace("3", "5")})
    assert [(part.path, part.old, part.new) for part in parts] == [("Deployment web: replicas", "3", "5")]
    hidden, _ = compare_attributes({"yaml_body": manifest}, {"yaml_body": manifest.replace("3", "5")}, [("yaml_body",)])
    assert [part.old for part in hidden] == ["(sensitive value)"]
