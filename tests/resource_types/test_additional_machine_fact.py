"""An additional machine fact decides and is shown everywhere, added as CONTRIBUTING says."""

import json
import subprocess
import sys
from pathlib import Path

# The table is read by modules that are imported later.
PROGRAM = """
from nexusform.resource_types import machine_facts
from nexusform.resource_types.shared_arguments import build_optional_argument
from nexusform.schemas.value_types import STRING

machine_facts.MACHINE_FACTS += (
    machine_facts.MachineFact(
        "warranty",
        build_optional_argument(STRING, "State of its warranty.", default="valid"),
        lambda state: "" if state == "valid" else "out of warranty",
        rank=4,
        is_override=True,
    ),
)
from nexusform.cli.main import main

main()
"""
CONFIGURATION = """
resource "nexus_site" "lab" {
  name = "lab"
}
resource "nexus_rack" "r" {
  site_id           = nexus_site.lab.id
  name              = "rack1"
  availability_zone = "1"
  machine_sku       = "bom-2.0"
  machine_count     = 4
  machine_override "rack1-bm02" {
    warranty = "ended"
  }
}
resource "nexus_kubernetes_cluster" "a" {
  site_id            = nexus_site.lab.id
  name               = "a"
  kubernetes_version = "1.30.3"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "p" {
    count       = 4
    vm_sku_name = "NC_P46_224_v1"
    mode        = "System"
  }
}
"""


def run_command(directory: Path, *arguments: str) -> str:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    return subprocess.run(
        command, cwd=directory, check=True, capture_output=True, text=True, timeout=120
    ).stdout


def test_additional_machine_fact_is_the_reason_everywhere(tmp_path: Path) -> None:
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)
    output = run_command(tmp_path, "plan", "-out=p.nfplan", "-report=html:p.html")
    assert "Out of service: 1 of 4 machines (1 out of warranty)." in output
    document = json.loads(run_command(tmp_path, "show", "-json", "p.nfplan"))
    [machine] = document["out_of_service"]
    assert machine["machine"] == "rack1-bm02"
    assert machine["reasons"] == [{"fact": "warranty", "value": "ended", "text": "out of warranty"}]
    places = [row["to"]["machine"] for row in document["placement_changes"]]
    assert len(places) == 5
    assert "rack1-bm02" not in places
    assert '"out of warranty"' in (tmp_path / "p.html").read_text()
    run_command(tmp_path, "apply", "-auto-approve")
    capacity = run_command(tmp_path, "simulate", "capacity")
    assert "1 machine accepts no new VMs and is not counted: 1 out of warranty." in capacity
