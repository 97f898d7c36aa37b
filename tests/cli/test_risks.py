"""Each risk of a plan: every report, `-fail-on` and `-warn-on` say the same."""

from __future__ import annotations

import csv
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nexusform.cli.main import run_command_line
from nexusform.placements import consequence_record
from nexusform.plans.impact import object_consequences, risk_assessment
from tests.planning.harness import RACKS, cluster, pool
from tests.plans.impact.test_risk_assessment import ALL, NEW, OLD, build_configuration, build_shop

Result = tuple[int, str, str]
SMALL = RACKS + cluster("a", pools=pool("p", 2), count=3)
PINNED = SMALL.replace("count       = 3", 'count       = 3\n    availability_zones = ["r0"]', 1)
SMALL_ON_ONE_RACK = SMALL.replace(
    "count       = 2", 'count       = 2\n    availability_zones = ["r0"]', 1
)
RULE = """
resource "nexus_separation_rule" "spread" {
  scope       = "machine"
  enforcement = "ENFORCEMENT"
  group {
    pool_ids = ["${nexus_kubernetes_cluster.a.id}/control-plane"]
  }
  group {
    pool_ids = ["${nexus_kubernetes_cluster.a.id}/p"]
  }
}
"""
FORGOTTEN = """
removed {
  from = nexus_kubernetes_cluster.a
  lifecycle {
    destroy = false
  }
}
"""


# A name of a pool, and consequences that no guard rail counts.
HARMLESS = {
    "control-plane",
    "left-object",
    "smaller-pool",
    "smaller-workload",
    "too-few-racks-for-quorum",
    "vms-recreated",
}
# Of fleets (tests/domains/fleet), and of machine actions (tests/planning/verdicts).
ELSEWHERE = {
    "capacity-missing-meanwhile",
    "destroyed-content",
    "host-lost",
    "local-data-lost",
    "placement-leaves-cluster",
    "stopped-workload",
    "workload-without-redundancy",
    "vms-stopped",
}


def build_large_pool(count: int) -> str:
    """Return a cluster whose VMs need a NUMA cell each; 21 of them fill the site."""
    return RACKS + cluster("a", pools=pool("p", count, "NC_P46_224_v1"), count=3)


def build_pods_apart(nodes: int) -> str:
    """Return two pods that share no node, because of their host port."""
    port = "{name: shop, image: shop, ports: [{containerPort: 80, hostPort: 80}]}"
    shop = build_shop(2).replace("{name: shop, image: shop}", port)
    return build_configuration(OLD, shop, count=nodes)


class RiskCase(NamedTuple):
    """Configurations applied in this order, and the planned one, whose risks are expected."""

    applied: tuple[str, ...]
    planned: str
    severity: str


CASES = {
    "destroyed-object": RiskCase((SMALL,), RACKS, "lasting"),
    "replaced-object": RiskCase(
        (SMALL,), SMALL.replace("NC_G6_28_v1", "NC_G12_56_v1", 1), "lasting"
    ),
    "pool-deleted": RiskCase((SMALL,), RACKS + cluster("a", count=3), "lasting"),
    "pool-empty": RiskCase((SMALL,), RACKS + cluster("a", pools=pool("p", 0), count=3), "lasting"),
    "pool-without-redundancy": RiskCase(
        (SMALL,), RACKS + cluster("a", pools=pool("p", 1), count=3), "lasting"
    ),
    "spare-capacity-lost": RiskCase((build_large_pool(1),), build_large_pool(21), "lasting"),
    "surge-capacity-lost": RiskCase((build_large_pool(1),), build_large_pool(21), "lasting"),
    "workload-shrinks": RiskCase((build_pods_apart(2),), build_pods_apart(1), "lasting"),
    "control-plane-shrinks": RiskCase(
        (SMALL,), RACKS + cluster("a", pools=pool("p", 2)), "lasting"
    ),
    "control-plane-on-one-rack": RiskCase((RACKS,), PINNED, "lasting"),
    "all-on-one-rack": RiskCase((SMALL,), SMALL_ON_ONE_RACK, "lasting"),
    "control-plane-quorum-lost": RiskCase(
        (SMALL,), SMALL.replace("r${count.index}", "other${count.index}"), "lasting"
    ),
    "rule-weakened": RiskCase(
        (SMALL + RULE.replace("ENFORCEMENT", "deny"),),
        SMALL + RULE.replace("ENFORCEMENT", "warn"),
        "lasting",
    ),
    "unmanaged-vms-lost": RiskCase(
        (SMALL, RACKS + FORGOTTEN), RACKS.replace("= 3", "= 1", 1) + FORGOTTEN, "lasting"
    ),
    "pool-down": RiskCase(
        (SMALL,), RACKS + cluster("a", pools=pool("p", 2, "NC_P22_112_v1"), count=3), "temporary"
    ),
    "workload-lost": RiskCase(
        (build_configuration(OLD, build_shop(2)),),
        build_configuration(OLD, build_shop(2)).replace('pool = "p"', 'pool = "other"'),
        "lasting",
    ),
    "workload-down": RiskCase(
        (build_configuration(OLD, build_shop(4), ALL),),
        build_configuration(NEW, build_shop(4), ALL),
        "temporary",
    ),
}


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Run a command in an empty directory; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> Result:
        code = run_command_line(list(arguments))
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return run_command


@pytest.mark.of_domains("fleet")
@pytest.mark.parametrize("risk", CASES)
def test_every_report_and_guard_rail_agrees_on_a_risk(risk: str, nf: Callable[..., Result]) -> None:
    applied, planned, severity = CASES[risk]
    file = Path("main.nf.hcl")
    for configuration in applied:
        file.write_text(configuration)
        code, text, err = nf("apply", "-auto-approve")
        assert code == 0, text + err
    file.write_text(planned)
    formats = ("text", "markdown", "html", "svg", "junit", "sarif", "json", "csv")
    code, _, err = nf("plan", *(f"-report={name}:p.{name}" for name in formats))
    assert code == 0, err
    documents = {name: Path(f"p.{name}").read_text() for name in formats}
    decision = json.loads(documents["json"])["decision"]
    [finding, *_] = [found for found in decision["risks"] if found["risk"] == risk]
    assert (finding["severity"], finding["since"]) == (severity, "plan")
    text = finding["text"]
    # The lines of ended and replaced objects have their names, with what runs on them.
    is_object = finding["kind"] in ("ends", "replaced") and risk != "workload-lost"
    for name in ("text", "markdown", "html"):
        shown = finding["subject"].rpartition("/")[2] if is_object else text
        assert shown in " ".join(strip_markup(documents[name]).split()), name
    results = json.loads(documents["sarif"])["runs"][0]["results"]
    [result, *_] = [found for found in results if found["ruleId"] == risk]
    assert result["level"] == {"lasting": "warning", "temporary": "note"}[severity]
    assert text in result["message"]["text"]
    case = ET.fromstring(documents["junit"]).find(f".//testcase[@classname='{risk}']")
    assert case is not None
    assert text in str(case.findtext("system-out"))
    [row, *_] = [
        row for row in csv.DictReader(documents["csv"].splitlines()) if row["trigger"] == risk
    ]
    assert (row["kind"], row["action"], row["reason"]) == ("consequence", severity, text)
    assert (row["object"], row["address"]) == (finding["subject"], finding["address"])
    limit = {"lasting": "risk", "temporary": "temporary_risk"}[severity]
    count = sum(found["severity"] == severity for found in decision["risks"])
    check_limits(nf, limit, count, text)


def check_limits(nf: Callable[..., Result], limit: str, count: int, text: str) -> None:
    """Check a limit that a plan with `count` risks breaks, and one that it keeps."""
    code, shown, err = nf("plan", f"-fail-on={limit}:{count - 1}", "-report=json:f.json")
    assert code == 1
    assert f"BLOCKED by {limit}:{count - 1}: {count} " in shown
    assert text in " ".join(strip_markup(err).split())
    assert get_results("f.json") == [("blocked", count)]
    code, shown, err = nf("plan", f"-warn-on={limit}:{count - 1}", "-report=json:w.json")
    assert code == 0, err
    assert f"REVIEW needed by {limit}:{count - 1}: {count} " in shown
    assert get_results("w.json") == [("review", count)]
    code, shown, _ = nf("plan", f"-fail-on={limit}:{count}", f"-warn-on={limit}:{count}")
    assert code == 0
    assert f"passed {limit}:{count}, {limit}:{count}" in shown


def get_results(path: str) -> list[tuple[str, float]]:
    """Return the results of the guard rails of a report."""
    document: dict[str, Any] = json.loads(Path(path).read_text())
    return [(rail["result"], rail["value"]) for rail in document["decision"]["guard_rails"]]


def strip_markup(text: str) -> str:
    """Return a text without the marks of Markdown, pages and boxes."""
    return re.sub(r"<[^>]*>|[\\│*]", "", text)


def test_every_risk_has_a_case() -> None:
    source = "".join(
        Path(str(module.__file__)).read_text()
        for module in (consequence_record, risk_assessment, object_consequences)
    )
    known = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', source)) - HARMLESS
    assert set(CASES) | ELSEWHERE == known


def test_limits_for_a_review_are_checked_again_before_apply(nf: Callable[..., Result]) -> None:
    file = Path("main.nf.hcl")
    file.write_text(SMALL)
    assert nf("apply", "-auto-approve")[0] == 0
    file.write_text(CASES["pool-empty"].planned)
    code, text, _ = nf("plan", "-warn-on=risk:0,moved:0", "-out=p", "-report=markdown:c.md")
    assert code == 0
    assert (
        "REVIEW needed by risk:0: 1 lasting risk: a/p is scaled to 0: it keeps none of its 2 VMs"
        in " ".join(text.split())
    )
    code, _, err = nf("apply", "p")
    assert code == 0, err
    # A plan without harm that needs a review is no note.
    file.write_text(SMALL)
    code, _, _ = nf("plan", "-warn-on=capacity:5000000", "-report=markdown:c.md")
    assert code == 0
    assert Path("c.md").read_text().splitlines()[1] == "> [!WARNING]"
    code, _, err = nf("plan", "-warn-on=risks:0", "-fail-on=moved:x")
    assert code == 1
    assert '-warn-on: there is no limit "risks".' in err
    assert '-fail-on: "moved:x" needs a whole number from 0 on' in " ".join(err.split())
