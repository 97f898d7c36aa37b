"""Destroyed and replaced objects: JSON, SARIF, JUnit and CSV list the same ones."""

from __future__ import annotations

import csv
import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line
from tests.planning.harness import RACKS, cluster, pool

SMALL = RACKS + cluster("a", pools=pool("p", 2), count=1) + cluster("b", count=1)
DESTROYED = RACKS + cluster("a", pools=pool("p", 2), count=1)


@pytest.mark.parametrize(
    ("planned", "words", "kind", "level"),
    [
        (DESTROYED, (), "destroyed", "warning"),
        (SMALL, ("-replace=nexus_kubernetes_cluster.b",), "replaced", "warning"),
    ],
)
def test_reports_for_machines_list_the_same_objects(
    planned: str,
    words: tuple[str, ...],
    kind: str,
    level: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SMALL)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    Path("main.nf.hcl").write_text(planned)
    formats = ("json", "sarif", "junit", "csv")
    assert (
        run_command_line(["plan", *words, *(f"-report={name}:p.{name}" for name in formats)]) == 0
    )
    documents = {name: Path(f"p.{name}").read_text(encoding="utf-8") for name in formats}
    decision = json.loads(documents["json"])["decision"]
    [ended] = decision[{"destroyed": "destroys", "replaced": "replaces"}[kind]]
    assert (ended["name"], ended["address"]) == ("b", "nexus_kubernetes_cluster.b")
    [result] = [
        result
        for result in json.loads(documents["sarif"])["runs"][0]["results"]
        if result["ruleId"] == f"{kind}-object"
    ]
    assert result["level"] == level
    sentence = {"destroyed": "b is deleted", "replaced": "b is deleted and created again"}[kind]
    assert result["message"]["text"].endswith(f"{sentence} with 1 VM.")
    [case] = ET.fromstring(documents["junit"]).findall(f".//testcase[@classname='{kind}-object']")
    assert f"{sentence} with 1 VM." in str(case.findtext("system-out"))
    [row] = [
        row
        for row in csv.DictReader(documents["csv"].splitlines())
        if row["trigger"] == f"{kind}-object"
    ]
    assert (row["kind"], row["object"], row["address"]) == ("consequence", "b", ended["address"])
    assert (row["action"], row["reason"]) == ("lasting", f"{sentence} with 1 VM")
