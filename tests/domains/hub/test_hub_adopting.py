"""What people wrote on a hub is taken over, and the plan after it has nothing to do."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_front import Front
from tests.domains.hub.test_fleet_provider import write

STAGED = """
resource "fleet_cluster_resource_placement" "staged" {
  provider = fleet
  resource_selector {
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }
  policy {
    placement_type     = "PickN"
    number_of_clusters = 2
  }
  strategy {
    type = "External"
  }
  depends_on = [fleet_hub_manifest.web]
}
"""


def test_a_placement_that_awaits_its_first_run_is_taken_over(hub: Front, told: Told) -> None:
    write()
    with Path("main.nf.hcl").open("a") as configuration:
        configuration.write(STAGED)
    assert told("apply", "-auto-approve")[0] == 0
    shutil.rmtree("state")
    Path("main.nf.hcl").write_text('provider "fleet" {}\ndata "fleet_hub" "hub" {}\n')
    hub.log.clear()
    code, said = told("import", "-from=hub", "-generate-config-out=hub.nf.hcl")
    assert code == 0, said
    assert "fleet_cluster_resource_placement.staged" in told("state", "list")[1]
    code, said = told("plan", "-detailed-exitcode")
    assert (code, "No changes." in said) == (0, True), said
    assert {method for method, *_ in hub.log if method != "PATCH"} == {"GET"}
    assert all(dry for method, _, dry, _ in hub.log if method == "PATCH")
