import json
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

MAIN = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.lab.id
  name    = "a"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "p" {
    count              = 4
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = ["r0"]
  }
}
"""


@pytest.fixture(autouse=True)
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (tmp_path / "main.nf.hcl").write_text(MAIN)
    return tmp_path


def list_findings(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    capsys.readouterr()
    run_command_line(["advise", "-format=json", *words])
    sections = json.loads(capsys.readouterr().out)["sections"]
    return [finding["id"] for section in sections for finding in section["findings"]]


def test_existing_and_new_vms_get_the_same_findings(capsys: pytest.CaptureFixture[str]) -> None:
    new = list_findings(capsys)
    assert new == ["zones-pinned"]
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert list_findings(capsys) == new
    assert run_command_line(["advise"]) == 2
    text = capsys.readouterr().out
    assert "pool1" not in text
    assert "p of a is pinned to the rack r0" in text
    assert "1 finding: zones-pinned (1)." in text


def test_control_planes_that_depend_on_one_rack_are_listed(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The impact of a plan names the avoidable one; advise lists it before and after the apply."""
    text = MAIN.replace("= 2\n  site_id", "= 3\n  site_id").replace(
        "    count       = 1\n", '    count              = 3\n    availability_zones = ["r0"]\n'
    )
    (lab / "main.nf.hcl").write_text(text)
    assert "control-plane-on-one-rack" in list_findings(capsys)
    assert run_command_line(["plan", "-out=p"]) == 0
    assert "control-plane-on-one-rack" in list_findings(capsys, "-plan=p")
    assert run_command_line(["advise"]) == 2
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "a has all 3 control-plane VMs on r0; losing that rack breaks etcd quorum." in told
    assert "After the apply, re-place a node on another rack: -replace=" in told
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert "control-plane-on-one-rack" in list_findings(capsys)


@pytest.mark.of_domains("fleet")
def test_warnings_of_a_plan_are_findings(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A first screen shows some warnings only; advise lists those of unchanged objects, too."""
    member = """
resource "fleet_member_cluster" "a" {
  name                  = "a"
  kubernetes_cluster_id = nexus_kubernetes_cluster.a.id
}

resource "fleet_hub_manifest" "m" {
  cluster_id = nexus_kubernetes_cluster.a.id
  yaml_body  = yamlencode({
    apiVersion = "v1"
    kind       = "ConfigMap"
    metadata   = { name = "c", namespace = "web" }
  })
}
"""
    (lab / "main.nf.hcl").write_text(MAIN.replace('["r0"]', '["r0", "r1"]') + member)
    assert list_findings(capsys) == ["missing-cluster-namespace"]
    assert run_command_line(["plan", "-out=p"]) == 0
    assert list_findings(capsys, "-plan=p") == ["missing-cluster-namespace"]
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert list_findings(capsys) == ["missing-cluster-namespace"]


def test_control_plane_on_two_racks_needs_another_rack(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = MAIN.replace("    count       = 1\n", "    count       = 3\n")
    text = text.replace('    availability_zones = ["r0"]\n', "")
    (lab / "main.nf.hcl").write_text(text)
    assert list_findings(capsys) == ["too-few-racks-for-quorum"]
    assert run_command_line(["advise"]) == 2
    # Only rules of advice can be silenced.
    assert "Silence" not in capsys.readouterr().out
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert list_findings(capsys) == ["too-few-racks-for-quorum"]


def test_advice_about_existing_vms_assumes_no_new_placement(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Five VMs on four machines: one machine runs two of them.
    text = MAIN.replace("= 4\n    vm_sku", "= 5\n    vm_sku")
    cluster = text[text.index('resource "nexus_kub') :]
    (lab / "main.nf.hcl").write_text(text)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    larger = cluster.replace('"a"', '"larger"').replace("= 5\n", "= 6\n")
    (lab / "main.nf.hcl").write_text(text + larger.replace('"r0"', '"r1"'))
    assert run_command_line(["apply", "-auto-approve"]) == 0
    capsys.readouterr()
    assert run_command_line(["advise"]) == 2
    told = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert "p of a is pinned to the rack r0" in told
    assert "1 machine runs two or more VMs of a" in told
    assert "placed again" not in told
    assert "costs nothing" not in told
    assert "created before" not in told


def test_silenced_rule_reports_nothing(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commented = MAIN.replace(
        'resource "nexus_kub', '# nexusform:ignore zones-pinned\nresource "nexus_kub'
    )
    (lab / "main.nf.hcl").write_text(commented)
    assert run_command_line(["advise"]) == 0
    assert "No findings" in capsys.readouterr().out


@pytest.mark.parametrize("line", ["  agent_pool ", "    availability_zones "])
def test_comment_inside_of_a_resource_silences_a_rule_there(
    line: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert MAIN.count(line) == 1
    (lab / "main.nf.hcl").write_text(
        MAIN.replace(line, f"    # nexusform:ignore zones-pinned\n{line}")
    )
    assert run_command_line(["advise"]) == 0
    assert "No findings" in capsys.readouterr().out
    other = MAIN.replace("  control_plane", "  # nexusform:ignore zones-pinned\n  control_plane")
    (lab / "main.nf.hcl").write_text(other)
    assert run_command_line(["advise"]) == 2


def test_unknown_rules_are_reported_where_they_are_ignored(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = 'nexusform {\n  lint {\n    ignore = ["zones-pinned", "shared-machines"]\n  }\n}\n'
    comments = (
        "# nexusform:ignore zone-pinned, sku-mismatch a reason\n// nexusform:ignore\n# see "
        "nexusform:ignore x\n"
    )
    (lab / "main.nf.hcl").write_text(
        settings + MAIN.replace('resource "nexus_kub', f'{comments}resource "nexus_kub')
    )
    assert run_command_line(["validate", "-json"]) == 0
    found = json.loads(capsys.readouterr().out)["diagnostics"]
    unknown = [problem for problem in found if problem["id"] == "unknown-lint-rule"]
    line = (settings + MAIN[: MAIN.index('resource "nexus_kub')]).count("\n") + 1
    places = [
        (problem["range"]["start"]["line"], problem["range"]["start"]["column"])
        for problem in unknown
    ]
    assert places == [(3, 14), (line, 3), (line + 1, 4)]
    details = [problem["detail"].split(" Rules: ")[0] for problem in unknown]
    assert details == [
        'There is no lint rule "shared-machines". Did you mean "shared-machine"?',
        'There is no lint rule "zone-pinned". Did you mean "zones-pinned"?',
        "This comment names no lint rule.",
    ]


def test_comment_silences_nothing_in_an_override_file(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pool of the override file begins on the line after the comment of the other file."""
    name = '  name    = "a"'
    text = MAIN.replace(name, f"  # nexusform:ignore zones-pinned\n{name}")
    (lab / "main.nf.hcl").write_text(text)
    line = text.split("\n").index(name)
    resource = MAIN[MAIN.index('resource "nexus_kub') :]
    pool = resource[resource.index("  agent_pool") :]
    override = "\n" * (line - 1) + f'resource "nexus_kubernetes_cluster" "a" {{\n{pool}'
    assert override.split("\n")[line].startswith("  agent_pool")
    (lab / "override.nf.hcl").write_text(override)
    assert run_command_line(["advise"]) == 2
    assert f"override.nf.hcl line {line + 4}" in capsys.readouterr().out


def test_saved_plan_is_checked_for_its_placements(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(["plan", "-out=costless"]) == 0
    assert "zones-pinned" not in capsys.readouterr().out
    assert list_findings(capsys, "-plan=costless") == []
    assert list_findings(capsys) == ["zones-pinned"]
    (lab / "main.nf.hcl").write_text(MAIN.replace("= 4\n    vm_sku", "= 6\n    vm_sku"))
    assert run_command_line(["plan", "-out=first"]) == 0
    assert (
        "i zones-pinned        a/p: limited to 1 zone, so 2 machines run two VMs of a"
        in capsys.readouterr().out
    )
    assert list_findings(capsys, "-plan=first") == ["zones-pinned", "zones-too-small"]
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert run_command_line(["plan", "-out=second"]) == 0
    assert list_findings(capsys, "-plan=second") == []


def test_reports(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_command_line(
            ["advise", "-report=markdown:a.md", "-report=html:a.html", "-report=json:a.json"]
        )
        == 2
    )
    assert "Advice: zones-pinned" in capsys.readouterr().out
    markdown = (lab / "a.md").read_text()
    assert "**zones-pinned: pool pinned to availability zones**" in markdown
    assert "main.nf.hcl:23" in markdown
    assert "`# nexusform:ignore ID`" in markdown
    assert json.loads((lab / "a.json").read_text())["finding"] is True
    assert "zones-pinned" in (lab / "a.html").read_text()


def test_errors_come_first(lab: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (lab / "main.nf.hcl").write_text(MAIN.replace("= 4\n    vm_sku", "= 40\n    vm_sku"))
    assert run_command_line(["advise"]) == 1
    assert "do not fit" in capsys.readouterr().err


def test_ending_version_is_listed_90_days_before(
    lab: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = MAIN.replace('name    = "a"', 'name    = "a"\n  kubernetes_version = "1.28.3"')
    (lab / "main.nf.hcl").write_text(text)
    # 2025-07-31, 92 days before.
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1753920000")
    assert run_command_line(["apply", "-auto-approve"]) == 0
    assert "ending-kubernetes-version" not in list_findings(capsys)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1754179200")  # 2025-08-03
    assert "ending-kubernetes-version" in list_findings(capsys)
    run_command_line(["advise"])
    assert "Its extended availability ends on 2025-10." in " ".join(capsys.readouterr().out.split())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764547200")  # 2025-12-01
    assert "abandoned-kubernetes-version" in list_findings(capsys)
