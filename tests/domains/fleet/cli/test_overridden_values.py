"""Tests of the values that changed overrides give to objects: a row each, in every report."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from tests.domains.fleet.cli.test_content_changes import (
    CONTENT,
    DELETING_OVERRIDE,
    apply_content,
    build_content,
    join_lines,
)
from tests.domains.fleet.cli.test_hub_content import Runner, run

__all__ = ["run"]

SECRET = """---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: web}
data: {a: b}
"""


def build_override(value: str, path: str = "/data/a", kind: str = "ConfigMap") -> str:
    """Return an override of all clusters that adds an HCL value at a JSON pointer."""
    name = {"ConfigMap": "settings", "Secret": "key"}[kind]
    return f"""
resource "fleet_resource_override" "o" {{
  name      = "o"
  namespace = "web"
  placement {{ name = "p" }}
  resource_selector {{
    version = "v1"
    kind    = "{kind}"
    name    = "{name}"
  }}
  policy {{
    override_rule {{
      cluster_selector {{}}
      json_patch_override {{
        op    = "add"
        path  = "{path}"
        value = {value}
      }}
    }}
  }}
}}
"""


NONE = ""
DELETED = "web/o: Deployment web/d on b is"
SETTINGS = "web/o: ConfigMap web/settings on a, b:"
NAME = '"x-$${MEMBER-CLUSTER-NAME}"'


@pytest.mark.parametrize(
    ("before", "after", "row"),
    [
        (NONE, build_override('"x"'), f'{SETTINGS} /data/a "b" -> "x"'),
        (build_override('"x"'), build_override('"y"'), f'{SETTINGS} /data/a "x" -> "y"'),
        (build_override('"x"'), NONE, f'{SETTINGS} /data/a "x" -> "b"'),
        (NONE, build_override('"x"', "/data/n"), f'{SETTINGS} +/data/n "x"'),
        (build_override('"x"', "/data/n"), NONE, f"{SETTINGS} -/data/n"),
        (NONE, build_override(NAME), f'{SETTINGS} /data/a "b" -> "x-$${{MEMBER-CLUSTER-NAME}}"'),
        (NONE, DELETING_OVERRIDE, f"{DELETED} deleted"),
        (DELETING_OVERRIDE, NONE, f"{DELETED} created"),
        (NONE, build_override('"b"'), ""),
        (NONE, build_override('"c2hvd24="', kind="Secret"), "on a, b: /data/a changed"),
    ],
)
def test_every_report_has_a_row_for_an_overridden_value(
    run: Runner, before: str, after: str, row: str
) -> None:
    content = build_content(CONTENT + SECRET)
    apply_content(run, content + before)
    Path("content.nf.hcl").write_text(content + after)
    reports = ("json:p.json", "markdown:p.md", "html:p.html")
    code, printed = run("plan", "-no-color", *(f"-report={report}" for report in reports))
    assert code == 0, printed
    files = {name: Path(name).read_text("utf-8") for name in ("p.json", "p.md", "p.html")}
    page = html.unescape(re.sub(r"<script.*?</script>|<[^>]*>", "", files["p.html"]))
    texts = [printed, files["p.md"].replace("\\", ""), page]
    rows = json.loads(files["p.json"])["decision"].get("overrides", [])
    if not row:
        assert not any("Overrides" in text for text in texts)
        assert rows == []
        return
    for text in texts:
        assert row in join_lines(text)
    clusters = ["b"] if DELETED in row else ["a", "b"]
    assert [(item["override"], item["clusters"]) for item in rows] == [("web/o", clusters)]
    assert "c2hvd24" not in json.dumps(rows)


def test_values_of_a_sensitive_manifest_are_hidden(run: Runner) -> None:
    content = build_content(CONTENT).replace("<<Y", "sensitive(<<Y").replace("Y\n}", "Y\n  )\n}")
    apply_content(run, content)
    Path("content.nf.hcl").write_text(content + build_override('"x"'))
    code, printed = run("plan", "-no-color", "-report=json:p.json")
    assert code == 0, printed
    assert f"{SETTINGS} /data/a changed" in join_lines(printed)
    [row] = json.loads(Path("p.json").read_text("utf-8"))["decision"]["overrides"]
    assert (row["before"], row["after"]) == ("(sensitive value)", "(sensitive value)")


def test_override_on_many_clusters_is_one_row(run: Runner) -> None:
    members = "".join(
        f'resource "fleet_member_cluster" "edge{i}" {{ name = "edge{i}" }}\n' for i in range(12)
    )
    content = build_content(CONTENT) + members
    apply_content(run, content)
    Path("content.nf.hcl").write_text(content + build_override(NAME))
    joined = join_lines(run("plan", "-no-color")[1])
    assert joined.count("web/o: ConfigMap web/settings") == 1
    assert 'ConfigMap web/settings on a, b, edge0..11: /data/a "b" -> "x-$' in joined
