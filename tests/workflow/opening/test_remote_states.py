"""Tests of data nexusform_remote_state: values read from another state, and errors."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.backends.local_file import LocalBackend
from nexusform.cli.main import run_command_line
from nexusform.state.journal import ApplyStart, encode_journal_record
from nexusform.workflow.opening.system_io import SystemClock
from nexusform.workflow.runs.state_locking import build_lock_info

Shell = Callable[..., tuple[int, str]]

SITE = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "rack1" {
  site_id       = nexus_site.lab.id
  machine_count = 4
}
resource "nexus_kubernetes_cluster" "a" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.rack1]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "workers" {
    count       = 2
    vm_sku_name = "NC_P10_56_v1"
  }
}
output "id" {
  value = nexus_kubernetes_cluster.a.id
}
output "zones" {
  value = toset(["1", "2"])
}
output "password" {
  value     = "hunter2"
  sensitive = true
}
"""
READER = """
data "nexusform_remote_state" "site" {
  backend = "local"
  config  = { path = "../site/state/nexusform.nfstate" }
}
"""
ENCRYPTION = """
nexusform {
  encryption {
    key_provider "pbkdf2" "k" {
      passphrase = "correct horse battery"
      iterations = "200000"
    }
    method "aes_gcm" "m" {
      keys = key_provider.pbkdf2.k
    }
    %s
  }
}
"""


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shell:
    (tmp_path / "site").mkdir()
    (tmp_path / "fleet").mkdir()

    def write_and_run(where: str, text: str, *words: str) -> tuple[int, str]:
        monkeypatch.chdir(tmp_path / where)
        Path("main.nf.hcl").write_text(text)
        capsys.readouterr()
        code = run_command_line(list(words))
        both = capsys.readouterr()
        return code, " ".join((both.out + both.err).replace("│", " ").split())

    return write_and_run


@pytest.fixture(scope="module")
def applied_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the site applied."""
    place = tmp_path_factory.mktemp("site")
    (place / "main.nf.hcl").write_text(SITE)
    assert run_command_line([f"-chdir={place}", "apply", "-auto-approve"]) == 0
    return place


@pytest.fixture
def site(nf: Shell, applied_site: Path, tmp_path: Path) -> Shell:
    shutil.copytree(applied_site, tmp_path / "site", dirs_exist_ok=True)
    return nf


def test_outputs_keep_types_and_objects_keep_attributes(site: Shell) -> None:
    text = (
        READER
        + """
output "id" {
  value = data.nexusform_remote_state.site.outputs.id
}
output "repeated" {
  value = { for zone in data.nexusform_remote_state.site.outputs.zones : zone => zone }
}
resource "nexus_vm_sku" "each" {
  for_each        = data.nexusform_remote_state.site.outputs.zones
  name            = "Own_${each.key}"
  vcpus           = 4
  memory_gib      = 8
}
output "machines" {
  value = [
    for node in data.nexusform_remote_state.site.resources["nexus_kubernetes_cluster.a"].nodes : node.machine
  ]
}
output "labels" {
  value = values(data.nexusform_remote_state.site.resources["nexus_kubernetes_cluster.a"].nodes)[1].labels
}
"""  # noqa: E501
    )
    code, told = site("fleet", text, "apply", "-auto-approve")
    assert code == 0, told
    outputs = json.loads(Path("state/nexusform.nfstate").read_text())["outputs"]
    assert outputs["id"]["value"] == "lab/a"
    assert outputs["repeated"]["value"] == {"1": "1", "2": "2"}
    assert len(outputs["machines"]["value"]) == 3
    assert outputs["labels"]["value"]


def test_sensitive_output_stays_sensitive(site: Shell) -> None:
    reading = 'output "p" {\n  value = data.nexusform_remote_state.site.outputs.password\n%s}\n'
    code, told = site("fleet", READER + reading % "", "plan")
    assert code == 1
    assert "Output refers to sensitive values" in told
    assert "hunter2" not in told
    code, told = site("fleet", READER + reading % "  sensitive = true\n", "plan")
    assert code == 0
    assert "hunter2" not in told


def test_missing_output_is_named(site: Shell) -> None:
    text = READER + 'output "x" {\n  value = data.nexusform_remote_state.site.outputs.idd\n}\n'
    code, told = site("fleet", text, "plan")
    assert code == 1
    assert 'does not have an attribute named "idd". Did you mean "id"?' in told


def test_locked_state_can_be_read(site: Shell, tmp_path: Path) -> None:
    backend = LocalBackend(str(tmp_path / "site/state/nexusform.nfstate"))
    backend.lock(build_lock_info("apply", backend, SystemClock(), {}))
    assert site("fleet", READER, "plan")[0] == 0


def test_unfinished_apply_of_the_other_state_is_reported(site: Shell, tmp_path: Path) -> None:
    path = tmp_path / "site/state/nexusform.nfstate"
    document = json.loads(path.read_text())
    backend = LocalBackend(str(path))
    start = ApplyStart(document["lineage"], document["serial"] + 1)
    backend.append(encode_journal_record(start))
    code, told = site("fleet", READER, "plan")
    assert code == 0
    assert "nexusform.nfstate runs or was interrupted" in told
    backend.write_merged_state(path.read_bytes())
    assert "interrupted" not in site("fleet", READER, "plan")[1]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"local"', '"lokal"'), 'There is no backend "lokal". Known are: local'),
        (("path =", "paht ="), 'The backend "local" has no setting "paht". Did you mean "path"?'),
        (("{ path = ", "{ path = [1], x = "), 'config: "path" must be a string.'),
        (("{ path", "3 # { path"), "An object is needed: config = { NAME = VALUE, ... }."),
        pytest.param(
            ('"local"', '"azurerm"'),
            'has no setting "path"',
            marks=pytest.mark.of_domains("remote_state"),
        ),
        (("../site", "../nowhere"), "There is no state at ../nowhere/state/nexusform.nfstate"),
        (("\n}", '\n  workspace = "other"\n}'), '(workspace "other")'),
        (("\n}", '\n  workspace = "../x"\n}'), "Invalid workspace"),
        (("\n}", "\n  workspace = uuid()\n}"), "Data source argument unknown"),
    ],
)
def test_invalid_remote_state_is_reported_at_its_block(
    site: Shell, change: tuple[str, str], words: str
) -> None:
    code, told = site("fleet", READER.replace(*change, 1), "plan")
    assert code == 1
    assert words in told
    assert "main.nf.hcl line" in told
    assert "Traceback" not in told


def test_missing_argument_of_a_data_block_is_not_reported_as_unknown(site: Shell) -> None:
    code, told = site("fleet", READER.replace('backend = "local"', "", 1), "plan")
    assert code == 1
    assert 'The argument "backend" is required' in told
    assert "known only after apply" not in told
    assert "Plan failed: 1 error." in told


@pytest.mark.of_domains("fleet")
def test_member_of_missing_state_gives_no_further_error(site: Shell) -> None:
    member = """
resource "fleet_member_cluster" "a" {
  name                  = "a"
  kubernetes_cluster_id = data.nexusform_remote_state.site.outputs.id
}
"""
    code, told = site("fleet", READER.replace("../site", "../nowhere") + member, "plan")
    assert code == 1
    assert "Missing remote state" in told
    assert "Placement depends" not in told


def test_encrypted_state_is_read_with_the_settings_of_the_reader(nf: Shell) -> None:
    assert (
        nf(
            "site",
            SITE + ENCRYPTION % "state { method = method.aes_gcm.m }",
            "apply",
            "-auto-approve",
        )[0]
        == 0
    )
    code, told = nf("fleet", READER, "plan")
    assert code == 1
    assert "`remote_state_data_sources`" in told
    for block in ("default", 'remote_state_data_source "site"'):
        settings = "remote_state_data_sources {\n BLOCK {\n method = method.aes_gcm.m\n }\n }"
        settings = settings.replace("BLOCK", block)
        assert nf("fleet", READER + ENCRYPTION % settings, "plan")[0] == 0
    settings = "remote_state_data_sources {\n default {\n method = method.aes_gcm.m\n }\n }"
    code, told = nf("fleet", READER + (ENCRYPTION % settings).replace("horse", "house"), "plan")
    assert code == 1
    assert "cannot be decrypted" in told


@pytest.mark.of_domains("fleet")
def test_conflicting_cluster_in_two_states_is_rejected(site: Shell, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    larger = SITE.replace("count       = 2", "count       = 3")
    assert site("second", larger, "apply", "-auto-approve")[0] == 0
    member = (
        'resource "fleet_member_cluster" "a" {\n  name = "a"\n  kubernetes_cluster_id = "lab/a"\n'
        "}\n"
    )
    assert site("fleet", READER + member, "plan")[0] == 0
    second = READER.replace('"site"', '"second"').replace("../site", "../second")
    code, told = site("fleet", READER + second + member, "plan")
    assert code == 1
    assert "Conflicting cluster states" in told


@pytest.mark.of_domains("fleet")
def test_pods_of_the_other_state_use_capacity(nf: Shell) -> None:
    """A worker full of pods from the state of its site has no capacity for pods of the fleet."""
    manifest = """
resource "fleet_hub_manifest" "full" {
  %s
  yaml_body  = <<EOT
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: %s}}
  template:
    metadata: {labels: {app: %s}}
    spec:
      containers: [{name: c, image: i, resources: {requests: {cpu: "6"}}}]
EOT
}
"""
    own = manifest % ("cluster_id = nexus_kubernetes_cluster.a.id", "own", "own", "own")
    assert nf("site", SITE + own, "apply", "-auto-approve")[0] == 0
    fleet = manifest % (
        "cluster_id = data.nexusform_remote_state.site.outputs.id",
        "more",
        "more",
        "more",
    )
    code, told = nf("fleet", READER + fleet, "plan")
    assert code == 0, told
    assert "Pending" in told
    assert nf("site", SITE, "apply", "-auto-approve")[0] == 0
    code, told = nf("fleet", READER + fleet, "plan")
    assert code == 0, told
    assert "Pending" not in told
