"""`nexusform report capacity` as a user meets it."""

import csv
import io
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nexusform.cli.main import run

MAIN = """
resource "nexus_site" "SITE" {}

resource "nexus_rack" "r" {
  for_each      = toset(["r1", "r2"])
  site_id       = nexus_site.SITE.id
  name          = each.key
  machine_count = 2
}

resource "nexus_kubernetes_cluster" "a" {
  site_id = nexus_site.SITE.id
  name    = "a"

  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }

  agent_pool "p" {
    count       = COUNT
    vm_sku_name = "NC_P46_224_v1"
  }
}
"""
NOW = int(datetime(2026, 7, 1, tzinfo=UTC).timestamp())
MONTH = 2_629_800  # seconds


def apply(site: str, count: int) -> Path:
    """The state file of the site after an apply with so many workers."""
    directory = Path(site)
    directory.mkdir(exist_ok=True)
    (directory / "main.nf.hcl").write_text(MAIN.replace("SITE", site).replace("COUNT", str(count)))
    assert run([f"-chdir={directory}", "apply", "-auto-approve"]) == 0
    os.chdir("..")
    return directory / "state" / "nexusform.nfstate"


@pytest.fixture(scope="module")
def applied_sites(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lab grew from 1 to 3 workers in two months; par never changed."""
    top = tmp_path_factory.mktemp("sites")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(top)
        state = apply("lab", 1)
        shutil.copy(state, "lab-of-may.nfstate")
        os.utime("lab-of-may.nfstate", (NOW - 2 * MONTH,) * 2)
        apply("lab", 3)
        os.utime(state.with_suffix(".nfstate.backup"), (NOW - 60,) * 2)
        apply("par", 2)
    return top


@pytest.fixture(autouse=True)
def sites(applied_sites: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(applied_sites, tmp_path / "sites")
    monkeypatch.chdir(tmp_path / "sites")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(NOW))


def rows(capsys: pytest.CaptureFixture[str], pattern: str) -> list[dict[str, str]]:
    capsys.readouterr()
    assert run(["report", "capacity", f"-states={pattern}", "-format=csv"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_line_per_site_counts_cells_and_room(capsys: pytest.CaptureFixture[str]) -> None:
    lab, par = rows(capsys, "*/state/*.nfstate")
    assert [lab["site"], par["site"]] == ["lab", "par"]
    assert lab["state"] == "lab/state/nexusform.nfstate"
    assert [lab["cells"], lab["used_cells_min"], lab["used_cells_max"]] == ["8", "4", "4"]
    assert [lab["free_cells_min"], lab["more_vms_min"], lab["more_vms_rack_lost_min"]] == ["4", "4", "2"]
    assert lab["months_to_full_min"] == par["months_to_full_min"] == ""


def test_copies_of_one_lineage_are_its_history(capsys: pytest.CaptureFixture[str]) -> None:
    lab, par = rows(capsys, "**/*.nfstate")
    assert [lab["history_since"], lab["vms_per_month"]] == ["2026-05-01T03:00:00Z", "1.00"]
    assert [lab["months_to_full_min"], lab["months_to_full_max"]] == ["4.0", "4.0"]
    assert par["history_since"] == ""


def test_a_site_that_does_not_grow_is_never_full(capsys: pytest.CaptureFixture[str]) -> None:
    apply("par", 1)
    os.utime("par/state/nexusform.nfstate.backup", (NOW - MONTH,) * 2)
    [par] = rows(capsys, "par/state/*.nfstate")
    assert [par["months_to_full_min"], par["vms_per_month"]] == ["", "-1.00"]
    assert run(["report", "capacity", "-states=par/state/*.nfstate"]) == 0
    assert "not growing" in capsys.readouterr().out


def test_people_read_the_same_as_text_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "capacity", "-states=**/*.nfstate"]) == 0
    text = capsys.readouterr().out
    assert "2 sites: lab is full first, in 4.0 months." in text
    assert max(map(len, text.splitlines())) <= 80
    assert run(["report", "capacity", "-states=**/*.nfstate", "-format=markdown"]) == 0
    assert "| lab | NC\\_P46\\_224\\_v1 | 8 | 4 | 4 | 0 | 4 | 2 | 4.0 |" in capsys.readouterr().out


def test_what_is_no_state_and_what_does_not_match_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", "capacity", "-states=nowhere/*"]) == 1
    assert 'No file matches "nowhere/*"' in capsys.readouterr().err
    assert run(["report", "capacity", "-states=*/main.nf.hcl"]) == 1
    assert "lab/main.nf.hcl is not valid JSON" in capsys.readouterr().err
    assert run(["report", "capacity"]) == 1
    assert "-states=" in capsys.readouterr().err


def test_what_is_wrong_with_many_files_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(1, 5):
        Path(f"bad{number}.nfstate").write_text("{}")
    assert run(["report", "capacity", "-states=bad*.nfstate"]) == 1
    text = capsys.readouterr().err
    assert text.count("Error: ") == 1
    assert text.count(".nfstate") == 4
    assert "The same of:\n│   - bad2.nfstate\n" in text


def test_states_without_a_site_are_told_in_one_list(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two", "three"):
        Path(name).mkdir()
        Path(name, "main.nf.hcl").write_text('output "a" {\n  value = 1\n}\n')
        assert run([f"-chdir={name}", "apply", "-auto-approve"]) == 0
        os.chdir("..")
    capsys.readouterr()
    assert run(["report", "capacity", "-states=*/state/*.nfstate"]) == 0
    assert capsys.readouterr().out.count("Warning: ") == 1
    assert run(["report", "capacity", "-states=t*/state/*.nfstate"]) == 0
    assert "None of the states holds a site." in capsys.readouterr().out
