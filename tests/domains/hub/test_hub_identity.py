"""A state knows its hub: with another one no command changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domains.hub.conftest import Told
from tests.domains.hub.hub_controller import Controller, member
from tests.domains.hub.hub_front import Front
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_provider import WEB, write, written

pytestmark = pytest.mark.our_hub_alone


@pytest.fixture
def other_hub(hub: Front, tmp_path: Path) -> Iterator[HubServer]:
    """Another hub, which the kubeconfig names from the first request to it."""
    other = HubServer()
    for name in ("ams1", "fra1", "lon1", "par1"):
        other.put(member(name, env="prod"), "join")
    other.controller = Controller()
    (tmp_path / "other").mkdir()
    yield other
    other.close()
    assert hub


def use(hub: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / hub.url.rpartition(":")[2]
    directory.mkdir(exist_ok=True)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(hub.kubeconfig(directory)))


def uid_of(hub: Front) -> str:
    namespace = hub.get("Namespace", "kube-system")
    assert namespace is not None
    return str(namespace["metadata"]["uid"])


COMMANDS = [
    ("plan",),
    ("plan", "-destroy"),
    ("plan", "-refresh-only"),
    ("plan", "-out=y.nfplan"),
    ("plan", "-replace=fleet_cluster_resource_placement.web"),
    ("plan", "-target=fleet_hub_manifest.web"),
    ("apply", "-auto-approve"),
    ("apply", "-auto-approve", "-take-ownership"),
    ("apply", "x.nfplan"),
    ("destroy", "-auto-approve"),
    ("apply", "-auto-approve", "-refresh-only"),
    ("reconcile", "-from=hub"),
    ("import", "fleet_cluster_resource_placement.web", "web"),
    ("import", "-from=hub", "-generate-config-out=new.nf.hcl"),
    ("apply", "-auto-approve", "-refresh=false"),
    ("destroy", "-auto-approve", "-refresh=false"),
    ("plan", "-target=fleet_member_cluster.absent"),
    ("state", "verify"),
    ("plan", "-refresh=false"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_changes_anything_with_another_hub(
    hub: Front,
    other_hub: HubServer,
    told: Told,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    write(content="2")
    assert told("plan", "-out=x.nfplan")[0] == 0
    before = told("state", "pull")[1]
    use(other_hub, tmp_path, monkeypatch)
    hub.log.clear()
    code, said = told(*words)
    assert code == 1, said
    assert f"namespace kube-system has the uid {uid_of(hub)} on {hub.url} in the state" in said
    assert f"and {uid_of(other_hub)} on {other_hub.url}" in said
    assert f"-allow-other-hub={uid_of(other_hub)}" in said
    assert (written(hub), written(other_hub)) == ([], [])
    assert told("state", "pull")[1] == before
    assert not Path("new.nf.hcl").exists()


_WITHOUT_HUB = WEB[: WEB.index('resource "fleet_cluster_resource_placement"')].replace(
    'data "fleet_hub" "hub" {{}}', ""
)
_IMPORT = """
import {
  to = fleet_cluster_resource_placement.web
  id = "web"
}
"""


@pytest.mark.parametrize("command", ["plan", "apply"])
def test_a_plan_without_refresh_and_changes_says_that_nothing_was_compared(
    hub: Front, other_hub: HubServer, told: Told, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    Path("main.nf.hcl").write_text(_WITHOUT_HUB.format(timeout="30m", content="1"))
    told("state", "rm", "fleet_cluster_resource_placement.web")
    use(other_hub, tmp_path, monkeypatch)
    hub.log.clear()
    words = ("-auto-approve",) if command == "apply" else ()
    code, said = told(command, "-refresh=false", *words)
    assert (code, "No changes" in said) == (0, True), said
    assert 'Provider "fleet": -refresh=false makes no connection, so it is unknown whether this is the recorded' in said
    assert (hub.log, other_hub.log) == ([], [])


def test_a_saved_plan_without_changes_is_compared(
    hub: Front, other_hub: HubServer, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    assert told("plan", "-out=x.nfplan")[0] == 0
    use(other_hub, tmp_path, monkeypatch)
    hub.log.clear()
    code, said = told("apply", "x.nfplan")
    assert (code, "reaches another system" in said) == (1, True), said
    assert (written(hub), written(other_hub)) == ([], [])


def test_an_import_block_without_refresh_is_compared(
    hub: Front, other_hub: HubServer, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    told("state", "rm", "fleet_cluster_resource_placement.web")
    Path("import.nf.hcl").write_text(_IMPORT)
    assert hub
    use(other_hub, tmp_path, monkeypatch)
    code, said = told("plan", "-refresh=false")
    assert (code, "reaches another system" in said) == (1, True), said


def test_a_saved_plan_of_a_first_apply_knows_its_hub(
    hub: Front, other_hub: HubServer, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert told("plan", "-out=x.nfplan")[0] == 0
    use(other_hub, tmp_path, monkeypatch)
    code, said = told("apply", "x.nfplan")
    assert (code, "reaches another system" in said) == (1, True), said
    assert (written(hub), written(other_hub)) == ([], [])


def test_a_migrated_hub_is_accepted_by_its_uid(
    hub: Front, other_hub: HubServer, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    use(other_hub, tmp_path, monkeypatch)
    assert told("plan", f"-allow-other-hub={uid_of(hub)}")[0] == 1
    code, said = told("apply", "-auto-approve", f"-allow-other-hub={uid_of(other_hub)}")
    assert code == 0, said
    assert len(other_hub.all("ClusterResourceBinding")) == 2
    code, said = told("plan", "-detailed-exitcode")
    assert code == 0, said


def test_without_a_comparable_uid_nothing_leaves_the_state(
    hub: Front, other_hub: HubServer, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    assert told("apply", "-auto-approve")[0] == 0
    use(other_hub, tmp_path, monkeypatch)
    other_hub.faults = lambda _method, path: 403 if "/namespaces/kube-system" in path else None
    assert hub
    code, said = told("plan")
    assert code == 0, said
    assert "no uid of a namespace may be read on this hub, so it is unknown" in said
    code, said = told("destroy", "-auto-approve")
    assert code == 1, said
    assert "which may be another hub than the recorded one. It stays in the state." in said
    assert "fleet_cluster_resource_placement.web" in told("state", "list")[1]


def test_a_namespace_decides_where_kube_system_may_not_be_read(
    hub: Front, other_hub: HubServer, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.faults = other_hub.faults = lambda _method, path: 403 if "/namespaces/kube-system" in path else None
    write()
    assert told("apply", "-auto-approve")[0] == 0
    other_hub.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}, "somebody")
    use(other_hub, tmp_path, monkeypatch)
    code, said = told("destroy", "-auto-approve")
    assert (code, "namespace web has the uid" in said) == (1, True), said


def test_a_plan_names_its_hub(hub: Front, told: Told) -> None:
    write()
    code, said = told("plan")
    assert code == 0
    assert f"hub hub (uid {uid_of(hub)[:4]}, read " in said
    told("plan", "-out=x.nfplan")
    assert f'"uids":{{"kube-system":"{uid_of(hub)}"}}' in told("show", "-json", "x.nfplan")[1].replace(" ", "")
