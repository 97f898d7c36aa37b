from __future__ import annotations

from nexusform.rendering.report.manifest_changes import compare_manifests, describe_manifest_changes

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - {name: side, image: side:1}
        - {name: web, image: "nginx:1.27"}
"""
SERVICE = "---\napiVersion: v1\nkind: Service\nmetadata: {name: front}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: key}\nstringData: {password: hunter2}\n"


def describe_changes(old: str, new: str) -> tuple[str, ...]:
    return describe_manifest_changes(compare_manifests(old, new))


def test_changed_field_is_reported_with_its_object() -> None:
    assert describe_changes(WEB, WEB.replace("3", "5")) == ("Deployment web: replicas 3 -> 5",)


def test_list_items_are_matched_by_name() -> None:
    turned = WEB.replace("        - {name: side, image: side:1}\n", "").replace("1.27", "1.28")
    assert describe_changes(WEB, turned) == (
        'Deployment web: -containers[side], containers[web].image "nginx:1.27" -> "nginx:1.28"',
    )


def test_number_changed_into_a_boolean_within_mappings_and_lists_is_reported() -> None:
    one = "kind: C\nmetadata: {name: c}\nspec: {a: 1, b: [1], c: {d: 1}}\n"
    assert describe_changes(one, one.replace("1", "true")) == (
        "C c: a 1 -> true, b[0] 1 -> true, c.d 1 -> true",
    )


def test_added_and_removed_objects_are_reported() -> None:
    assert describe_changes(WEB, WEB + SERVICE) == ("+Service front",)
    assert describe_changes(WEB + SERVICE, SERVICE) == ("-Deployment web",)


def test_objects_of_one_name_are_distinguished() -> None:
    both = f"{WEB}---\n{WEB.replace('namespace: shop', 'namespace: test')}"
    assert describe_changes(both, both.replace("replicas: 3", "replicas: 4", 1)) == (
        "Deployment shop/web: replicas 3 -> 4",
    )


def test_first_of_many_fields_are_reported() -> None:
    many = "kind: ConfigMap\nmetadata: {name: c}\ndata:\n" + "".join(
        f"  k{i}: a\n" for i in range(9)
    )
    (text,) = describe_changes(many, many.replace(": a", ": b"))
    assert text.endswith('data.k2 "a" -> "b", 6 more fields')


def test_secret_data_is_not_reported() -> None:
    changes = compare_manifests(SECRET, SECRET.replace("hunter2", "hunter3"))
    assert "hunter" not in str(changes)
    assert describe_manifest_changes(changes) == ("Secret key: stringData.password changed",)


def test_json_is_read_like_yaml() -> None:
    assert describe_changes(
        '{"kind": "X", "spec": {"a": true}}', '{"kind": "X", "spec": {"a": false}}'
    ) == ("X: a true -> false",)


def test_text_without_a_manifest_is_ignored() -> None:
    for old, new in (
        ("a\nb", "a\nc"),
        (WEB, "kind: [x"),
        (WEB, WEB + "\n\n"),
        (WEB, None),
        ("", WEB),
    ):
        assert compare_manifests(old, new) == ()


def test_empty_document_is_not_compared() -> None:
    assert not compare_manifests("{}", '{"replicas": 3}')
