"""Tests of guard rails: every output reports a broken one, and apply rejects the plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  site_id       = nexus_site.lab.id
  name          = "rack1"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }
}
"""


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Run a command in an empty directory; return exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = run_command_line(list(arguments))
        printed = capfd.readouterr()
        return code, printed.out, printed.err

    return run_command


def test_broken_guard_rail_blocks_plan_in_every_report(
    nf: Callable[..., tuple[int, str, str]],
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    formats = ("text", "markdown", "html", "svg", "junit", "sarif", "json")
    reports = [f"-report={name}:p.{name}" for name in formats]
    code, text, _ = nf("plan", "-fail-on=capacity:5000000", "-out=p.nfplan", *reports)
    assert code == 1
    assert "Guard rails: BLOCKED by capacity:5000000: " in text
    assert "(cannot be applied)" in text
    assert "nexusform apply" not in text
    reads = {name: Path(f"p.{name}").read_text() for name in formats}
    for name in formats:
        assert "guard rail" in reads[name].lower(), name
        assert "capacity:5000000" in reads[name], name
    assert reads["markdown"].splitlines()[1] == "> [!CAUTION]"
    assert "> - **Guard rails**:\n>   - BLOCKED by capacity:5000000: " in reads["markdown"]
    assert ">   - to go on: nexusform plan -details lists the objects" in reads["markdown"]
    assert "Allowed" not in reads["markdown"]
    assert 'class="decision denied"' in reads["html"]
    assert 'name="capacity:5000000"><failure' in reads["junit"]
    results = json.loads(reads["sarif"])["runs"][0]["results"]
    assert [each["level"] for each in results if each["ruleId"] == "guard-rail"] == ["error"]
    document = json.loads(reads["json"])
    assert document["applyable"] is False
    (rail,) = document["decision"]["guard_rails"]
    assert (rail["name"], rail["limit"], rail["result"]) == ("capacity", 5000000, "blocked")
    assert document["diagnostics"][-1]["guard_rail"] == "capacity:5000000"
    for command in (("apply", "p.nfplan"), ("apply", "-verify=replan", "p.nfplan")):
        code, _, text = nf(*command)
        assert (code, "Saved plan guard rail" in text) == (1, True)
    assert not Path("state").exists()
    assert nf("show", "-report=markdown:-", "p.nfplan")[1] == reads["markdown"]


def test_limits_of_several_flags_are_combined(
    nf: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    monkeypatch.setenv("NF_CLI_ARGS_plan", "-fail-on=moved:0,capacity:5000000")
    code, text, _ = nf("plan", "-fail-on=moved:7")
    assert code == 1
    assert "passed moved:7" in text
    assert "BLOCKED by capacity:5000000: " in text
    # replaces both limits.
    assert nf("plan", "-fail-on=moved:7,capacity:0")[0] == 0
    # Such as an unset variable.
    for flags in (["-fail-on="], ["-fail-on=", "-fail-on=moved:0"]):
        code, _, err = nf("plan", *flags)
        assert code == 1
        assert "-fail-on: name at least one limit" in err


@pytest.mark.parametrize("flag", ["-fail-on", "-warn-on"])
def test_limit_of_two_flags_is_an_error(
    flag: str, nf: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    for values in (("moved:0", "moved:5"), ("moved:5", "removed:0,moved:0")):
        code, _, err = nf("plan", *(f"{flag}={value}" for value in values))
        assert code == 1
        assert f'{flag}: "moved" is given twice.' in err
    assert nf("plan", f"{flag}=moved:0", flag, "removed:0")[0] == 0
    monkeypatch.setenv("NF_CLI_ARGS_plan", f"-{flag} moved:0 {flag}=moved:5")
    code, _, err = nf("plan", f"{flag}=moved:0")
    assert code == 1
    assert f'{flag}: "moved" is given twice.' in err


@pytest.mark.of_domains("azure")
def test_plan_blocked_by_guard_rail_is_not_exported(
    nf: Callable[..., tuple[int, str, str]],
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    assert nf("plan", "-fail-on=capacity:5000000", "-out=p.nfplan")[0] == 1
    code, out, err = nf("export", "-format=az", "p.nfplan")
    assert (code, out) == (1, "")
    assert "The plan exceeds capacity:5000000, so it cannot be applied or exported." in " ".join(
        err.split()
    )


@pytest.mark.of_domains("azure")
def test_expired_plan_is_not_exported(
    nf: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764000000")
    assert nf("plan", "-max-age=1h", "-out=p.nfplan")[0] == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764003540")
    assert nf("export", "-format=az", "p.nfplan")[0] == 0
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1764003660")
    code, out, err = nf("export", "-format=az", "p.nfplan")
    assert (code, out) == (1, "")
    assert "Its maximum age is 1h. No" in " ".join(err.split())


def test_refresh_only_plan_does_not_pass_a_limit_of_capacity(
    nf: Callable[..., tuple[int, str, str]],
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    assert nf("apply", "-auto-approve")[0] == 0
    code, text, _ = nf("plan", "-refresh-only", "-fail-on=capacity:1,moved:0")
    assert code == 1
    assert "a refresh-only plan does not compute the spare capacity passed moved:0" in " ".join(
        text.split()
    )


def test_capacity_without_a_vm_sku_in_use_is_unknown(
    nf: Callable[..., tuple[int, str, str]],
) -> None:
    racks, _, _ = SITE.partition('resource "nexus_kubernetes_cluster"')
    Path("main.nf.hcl").write_text(racks)
    code, text, _ = nf("plan", "-fail-on=capacity:1000000")
    assert code == 1
    reason = "the spare capacity of lab is unknown: no pool there uses a VM SKU"
    assert f"BLOCKED, unknown: capacity:1000000: {reason}" in " ".join(text.split())
    Path("main.nf.hcl").write_text(f'{SITE}\nresource "nexus_site" "further" {{}}\n')
    # A further site without VMs is no doubt.
    assert nf("plan", "-fail-on=capacity:1")[0] == 0
    Path("main.nf.hcl").write_text('output "x" {\n  value = 1\n}\n')
    code, text, _ = nf("plan", "-fail-on=capacity:1")
    assert (code, "no site exists after this plan" in " ".join(text.split())) == (1, True)


@pytest.mark.parametrize("samples", ["0", "1", "9"])
def test_few_samples_prove_no_certainty(
    nf: Callable[..., tuple[int, str, str]], samples: str
) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text, _ = nf("plan", f"-samples={samples}", "-fail-on=certainty:0.5")
    assert code == 1
    reason = f"certainty was not computed: it needs 10 samples, and the plan has {samples}"
    assert reason in " ".join(text.split())
    assert nf("plan", "-samples=10", "-fail-on=certainty:0")[0] == 0


def test_capacity_beside_a_vm_without_known_machine_is_unknown(
    nf: Callable[..., tuple[int, str, str]],
) -> None:
    Path("main.nf.hcl").write_text('provider "simulated" {\n  reality = "reality.json"\n}\n' + SITE)
    assert nf("apply", "-auto-approve")[0] == 0
    objects = json.loads(Path("reality.json").read_text())
    (cluster,) = (item for item in objects if item["type"] == "nexus_kubernetes_cluster")
    node = cluster["attributes"]["nodes"]["web-control-plane-0"]
    node |= dict.fromkeys(("machine", "rack", "availability_zone", "numa_cells"))
    Path("reality.json").write_text(json.dumps(objects))
    code, text, _ = nf("plan", "-fail-on=capacity:1")
    assert code == 1
    assert "vms-without-machine" in text
    assert "The machine of web-control-plane-0 is not known" in " ".join(text.split())
    assert "BLOCKED, unknown: capacity:1: spare capacity is unknown" in " ".join(text.split())


def test_json_events_report_broken_guard_rail(nf: Callable[..., tuple[int, str, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    code, text, _ = nf("plan", "-json", "-fail-on=capacity:5000000")
    events = [json.loads(line) for line in text.splitlines()]
    told = [each["diagnostic"] for each in events if each["type"] == "diagnostic"]
    assert code == 1
    assert [each["guard_rail"] for each in told] == ["capacity:5000000"]


def test_targeted_plan_is_partial_in_every_format(nf: Callable[..., tuple[int, str, str]]) -> None:
    Path("main.nf.hcl").write_text(SITE)
    _, text, _ = nf(
        "plan", "-target=nexus_rack.rack", "-report=markdown:p.md", "-report=html:p.html"
    )
    line = "Partial plan (-target): 2 changed resources; others were not planned\n"
    assert text.count(line) == 1
    comment = Path("p.md").read_text()
    assert f"> [!NOTE]\n> - **Partial plan** {line.removeprefix('Partial plan ')}" in comment
    assert "<dt>Partial plan</dt>" in Path("p.html").read_text()
    assert "Partial plan" not in nf("plan")[1]


def test_capacity_counts_largest_sku_of_site(nf: Callable[..., tuple[int, str, str]]) -> None:
    pool = """  agent_pool "workers" {
    count       = 1
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
    Path("main.nf.hcl").write_text(SITE.rstrip().removesuffix("}") + pool)
    code, _, errors = nf("plan", "-fail-on=capacity:5000000")
    assert code == 1
    assert errors.count(" after this plan") == 1
    assert re.search(
        r"has capacity for \d+ more NC_P46_224_v1 after\s+this plan", errors.replace("│ ", "")
    )
