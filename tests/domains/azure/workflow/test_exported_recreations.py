"""Tests of `export` with re-created VMs, actions on machines, and similar names.

Similar names differ only in punctuation.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from nexusform.cli.main import run_command_line

SITE = """\
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  count         = 2
  name          = "r${count.index + 1}"
  site_id       = nexus_site.lab.id
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "z" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "p" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
  }
  depends_on = [nexus_rack.r]
}

resource "nexus_virtual_machine" "jump" {
  site_id    = nexus_site.lab.id
  cpu_cores  = 4
  memory_gib = 16
  disk_gib   = 64
  depends_on = [nexus_rack.r]
}
"""
ACTIONS = """
resource "nexus_bare_metal_machine_action" "off" {
  machine_id      = "lab/r1/r1-bm01"
  action          = "PowerOff"
  allow_workloads = true
}

resource "nexus_bare_metal_machine_action" "swap" {
  machine_id      = "lab/r2/r2-bm01"
  action          = "Replace"
  allow_workloads = true
  azure {
    body = { bmcMacAddress = "00:00:4f:00:57:ad" }
  }
}
"""
TWINS = """
resource "nexus_site" "lab" {}

resource "nexus_rack" "r" {
  site_id       = nexus_site.lab.id
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "c" {
  for_each = toset(["a-b", "a_b"])
  name     = each.key
  site_id  = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  azure {
    body = { properties = {
      first  = { password = sensitive("1") }
      second = { password = sensitive("2") }
    } }
  }
  depends_on = [nexus_rack.r]
}
"""


@pytest.fixture
def applied_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(SITE)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    return tmp_path


def export(form: str, capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[str, str]:
    """Plan and export; return the document and the messages in one line."""
    assert run_command_line(["plan", "-out=p", "-samples=0", *flags]) == 0
    capsys.readouterr()
    assert run_command_line(["export", f"-format={form}", "p"]) == 0
    output = capsys.readouterr()
    return output.out, " ".join(output.err.replace("│", " ").split())


@pytest.mark.usefixtures("applied_site")
def test_single_node_is_deleted_in_its_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    flag = "-replace=nexus_kubernetes_cluster.z:z-p-1"
    script, _ = export("az", capsys, flag)
    assert ': "${NODE_NAME_Z_P_1:?Name of the node in its cluster (z-p-1)}"' in script
    assert 'kubectl --context=z delete node "$NODE_NAME_Z_P_1"' in script
    document, message = export("azapi", capsys, flag)
    assert document == ""
    assert "re-creating z-p-1" in message


@pytest.mark.usefixtures("applied_site")
def test_moved_vm_is_created_again(capsys: pytest.CaptureFixture[str]) -> None:
    flag = "-replace=nexus_virtual_machine.jump:jump"
    script, _ = export("az", capsys, flag)
    assert script.index("virtualmachine delete") < script.index("virtualmachine create")
    assert "virtualmachine update" not in script
    document, message = export("azapi", capsys, flag)
    assert '"azapi_resource"' in document
    assert "re-creating jump" in message


@pytest.mark.usefixtures("applied_site")
def test_nodes_of_recreated_pools_and_upgrades_are_left_to_azure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("main.nf.hcl").write_text(SITE.replace("NC_P22_112_v1", "NC_P10_56_v1"))
    script, _ = export("az", capsys)
    assert "agentpool delete" in script
    assert "kubectl" not in script
    Path("main.nf.hcl").write_text(
        SITE.replace("  control_plane", '  kubernetes_version = "v1.31"\n  control_plane')
    )
    script, _ = export("az", capsys)
    assert "--kubernetes-version v1.31" in script
    assert "kubectl" not in script


@pytest.mark.usefixtures("applied_site")
def test_machine_actions_are_exported_in_order_of_their_windows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("main.nf.hcl").write_text(SITE + ACTIONS)
    script, _ = export("az", capsys)
    assert "baremetalmachine power-off \\\n  --name r1-bm01" in script
    assert "baremetalmachine replace \\\n  --name r2-bm01" in script
    assert "--safeguard-mode All \\\n  --bmc-mac-address 00:00:4f:00:57:ad" in script
    # window 1, window 2.
    assert script.index("replace") < script.index("power-off")
    document, message = export("azapi", capsys)
    assert document == ""
    assert "Replace of r2-bm01, PowerOff of r1-bm01" in message


def test_every_input_has_a_shell_variable_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(TWINS)
    document, _ = export("azapi", capsys)
    for name in ("secret_password", "secret_password_2"):
        assert f'${{var.{name}[\\"lab/a-b\\"]}}' in document
    # No argument for these properties.
    assert run_command_line(["export", "-format=az", "p"]) == 1
    Path("main.nf.hcl").write_text(
        TWINS.replace("first ", "managedResourceGroupConfiguration").replace("  second", "#")
    )
    script, _ = export("az", capsys)
    assert ': "${CNI_NETWORK_IDS_A_B:?Ids of the CNI networks, by cluster (a-b)}"' in script
    assert ': "${CNI_NETWORK_IDS_A_B_2:?Ids of the CNI networks, by cluster (a_b)}"' in script
    assert script.count(': "${SECRET_PASSWORD_LAB_A_B') == 2
    assert script == export("az", capsys)[0]
