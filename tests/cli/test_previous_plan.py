"""Tests of the comparison with the previous plan.

A plan lists the changes since an earlier plan of the branch.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "rack" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "rack${count.index + 1}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "c" {
  for_each = toset(["web", "db"])
  site_id  = nexus_site.lab.id
  name     = each.key
  control_plane {
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
    labels      = LABELS
  }
}
"""


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.chdir(tmp_path)

    def run_command(*words: str) -> tuple[int, str, str]:
        code = run_command_line([*words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def write_site(labels: str, text: str = SITE) -> None:
    Path("main.nf.hcl").write_text(text.replace("    labels      = LABELS\n", labels))


def get_since(path: str) -> dict[str, object] | None:
    return json.loads(Path(path).read_text())["decision"]["since"]


@pytest.fixture
def first_push(nf: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """First push: the evacuation of a machine moves its VMs."""
    write_site("")
    assert nf("apply", "-auto-approve")[0] == 0
    evacuated = SITE.replace(
        "  machine_count = 4\n",
        '  machine_count = 4\n  dynamic "machine_override" {\n    for_each = count.index == 0 ? '
        '["bm01", "bm02"] : []\n'
        '    labels   = ["rack1-${machine_override.value}"]\n    content {\n      evacuate = '
        "true\n    }\n  }\n",
    )
    write_site("", evacuated)
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef" * 2 + "01234567")
    assert nf("plan", "-out=first.plan", "-report=json:first.json")[0] == 0
    assert get_since("first.json") is None
    moved = json.loads(Path("first.json").read_text())["decision"]["impact"]["moved"]
    assert moved > 0


@pytest.mark.usefixtures("first_push")
def test_later_push_lists_its_improvements(nf: Callable[..., tuple[int, str, str]]) -> None:
    moved = json.loads(Path("first.json").read_text())["decision"]["impact"]["moved"]
    write_site("")
    code, _, _ = nf(
        "plan",
        "-previous=first.plan",
        "-out=first.plan",
        "-report=json:p.json",
        "-report=markdown:p.md",
    )
    assert code == 0
    since = get_since("p.json")
    assert since is not None
    assert (since["ref"], since["moved"], since["removed"]) == ("0123456789ab", -moved, 0)
    assert since["clusters_no_longer_affected"]
    line = f"> - **Since 0123456789ab**: {moved} fewer move"
    assert line in Path("p.md").read_text()
    assert nf("show", "first.plan")[1].count("Since 0123456789ab: ") == 1


@pytest.mark.usefixtures("first_push")
def test_unchanged_push_has_no_difference(nf: Callable[..., tuple[int, str, str]]) -> None:
    _, text, _ = nf("plan", "-previous=first.plan", "-report=json:p.json")
    assert "Since 0123456789ab: no difference\n" in text
    assert get_since("p.json") == {
        "ref": "0123456789ab",
        "moved": 0,
        "removed": 0,
        "capacity": 0,
        "clusters_no_longer_affected": [],
        "objects": [],
        "resources": [],
        "has_other_differences": False,
    }


def test_differences_in_capacity_are_those_of_each_site(
    nf: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A site with more capacity does not hide one with less."""
    site = SITE.replace("    labels      = LABELS\n", "").replace("count       = 3", "count = %d")
    other = site.replace("lab", "par").replace('"nexus_rack" "rack"', '"nexus_rack" "other"')
    other = other.replace('"nexus_kubernetes_cluster" "c"', '"nexus_kubernetes_cluster" "d"')
    monkeypatch.setenv("GITHUB_SHA", "0123456789abcdef" * 2 + "01234567")
    Path("main.nf.hcl").write_text(site % 1 + other % 3)
    assert nf("plan", "-out=first.plan")[0] == 0
    Path("main.nf.hcl").write_text(site % 3 + other % 1)
    _, text, _ = nf("plan", "-previous=first.plan", "-report=json:p.json")
    since = get_since("p.json")
    assert since is not None
    assert (since["capacity"], since["capacity_by_site"]) == (0, {"lab": -4, "par": 4})
    assert "capacity for 4 fewer on lab, 4 more on par" in " ".join(text.split())


@pytest.mark.usefixtures("first_push")
def test_equal_totals_with_other_moves_differ(nf: Callable[..., tuple[int, str, str]]) -> None:
    """Another VM moves: the totals are equal, the moves are not."""
    write_site("")
    vm = 'nexus_kubernetes_cluster.c["web"]:web-control-plane-'
    assert nf("plan", f"-replace={vm}0", "-out=first.plan")[0] == 0
    _, text, _ = nf(
        "plan",
        f"-replace={vm}1",
        "-previous=first.plan",
        "-report=json:p.json",
        "-report=markdown:p.md",
    )
    since = get_since("p.json")
    assert since is not None
    assert (since["moved"], since["removed"], since["resources"]) == (0, 0, [])
    assert since["objects"] == ["web-control-plane-0", "web-control-plane-1"]
    for report in (text, Path("p.md").read_text()):
        assert "other placement of web-control-plane-0, web-control-plane-1" in " ".join(
            report.split()
        )


@pytest.mark.usefixtures("first_push")
def test_other_change_of_a_resource_is_a_difference(
    nf: Callable[..., tuple[int, str, str]],
) -> None:
    text_before = Path("main.nf.hcl").read_text()
    Path("main.nf.hcl").write_text(text_before + '\noutput "a" {\n  value = 1\n}\n')
    _, text, _ = nf("plan", "-previous=first.plan")
    assert "Since 0123456789ab: other outputs, findings or figures\n" in text
    Path("main.nf.hcl").write_text(
        text_before.replace("machine_count = 4", "machine_count = 4\n  availability_zone = 2")
    )
    _, text, _ = nf("plan", "-previous=first.plan")
    assert "other change of nexus_rack.rack[0]" in " ".join(text.split())


@pytest.mark.usefixtures("first_push")
@pytest.mark.parametrize("damage", ["missing", "junk", "lineage"])
def test_unusable_previous_plan_is_a_warning(
    nf: Callable[..., tuple[int, str, str]], damage: str
) -> None:
    if damage == "missing":
        Path("first.plan").unlink()
    elif damage == "junk":
        Path("first.plan").write_text("junk")
    else:
        state = Path("state/nexusform.nfstate")
        lineage = json.loads(state.read_text())["lineage"]
        state.write_text(state.read_text().replace(lineage, "11111111-2222-3333-4444-555555555555"))
    code, text, _ = nf("plan", "-previous=first.plan", "-report=json:p.json")
    assert code == 0
    assert "previous-plan-not-comparable" in text
    assert "Since" not in text
    assert get_since("p.json") is None
