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


def words(old: str, new: str) -> tuple[str, ...]:
    return describe_manifest_changes(compare_manifests(old, new))


def test_a_field_is_told_with_its_object() -> None:
    assert words(WEB, WEB.replace("3", "5")) == ("Deployment web: replicas 3 -> 5",)


def test_items_of_a_list_go_by_their_names() -> None:
    turned = WEB.replace("        - {name: side, image: side:1}\n", "").replace("1.27", "1.28")
    assert words(WEB, turned) == (
        'Deployment web: -containers[side], containers[web].image "nginx:1.27" -> "nginx:1.28"',
    )


def test_objects_come_and_go() -> None:
    assert words(WEB, WEB + SERVICE) == ("+Service front",)
    assert words(WEB + SERVICE, SERVICE) == ("-Deployment web",)


def test_objects_of_one_name_are_told_apart() -> None:
    both = f"{WEB}---\n{WEB.replace('namespace: shop', 'namespace: test')}"
    assert words(both, both.replace("replicas: 3", "replicas: 4", 1)) == ("Deployment shop/web: replicas 3 -> 4",)


def test_of_many_fields_the_first_are_told() -> None:
    many = "kind: ConfigMap\nmetadata: {name: c}\ndata:\n" + "".join(f"  k{i}: a\n" for i in range(9))
    (text,) = words(many, many.replace(": a", ": b"))
    assert text.endswith('data.k2 "a" -> "b", 6 more fields')


def test_what_a_secret_holds_is_not_told() -> None:
    changes = compare_manifests(SECRET, SECRET.replace("hunter2", "hunter3"))
    assert "hunter" not in str(changes)
    assert describe_manifest_changes(changes) == ("Secret key: stringData.password changed",)


def test_json_is_read_as_yaml_is() -> None:
    assert words('{"kind": "X", "spec": {"a": true}}', '{"kind": "X", "spec": {"a": false}}') == ("X: a true -> false",)


def test_what_is_no_manifest_is_left_to_others() -> None:
    for old, new in (("a\nb", "a\nc"), (WEB, "kind: [x"), (WEB, WEB + "\n\n"), (WEB, None), ("", WEB)):
        assert compare_manifests(old, new) == ()
