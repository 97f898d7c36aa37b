"""Tests of hub identity: a state records its hub, and commands accept no other one.

No command changes anything with another hub.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller, build_member
from tests.domains.hub.hub_front import Front
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_provider import WEB, list_writes, write_configuration

pytestmark = pytest.mark.our_hub_alone


@pytest.fixture
def other_hub(hub: Front, tmp_path: Path) -> Iterator[HubServer]:
    """Return another hub, used by the kubeconfig from its first request."""
    other = HubServer()
    for name in ("ams1", "fra1", "lon1", "par1"):
        other.put(build_member(name, env="prod"), "join")
    other.controller = Controller()
    (tmp_path / "other").mkdir()
    yield other
    other.close()
    assert hub


def use_hub(hub: Front, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / hub.url.rpartition(":")[2]
    directory.mkdir(exist_ok=True)
    monkeypatch.setenv("NF_FLEET_KUBECONFIG", str(hub.kubeconfig(directory)))


def read_hub_uid(hub: Front) -> str:
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
    run_command: CommandRunner,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2")
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    before = run_command("state", "pull")[1]
    use_hub(other_hub, tmp_path, monkeypatch)
    hub.log.clear()
    code, said = run_command(*words)
    assert code == 1, said
    assert (
        f"namespace kube-system has the uid {read_hub_uid(hub)} on {hub.url} in the state" in said
    )
    assert f"and {read_hub_uid(other_hub)} on {other_hub.url}" in said
    assert f"-allow-other-hub={read_hub_uid(other_hub)}" in said
    assert (list_writes(hub), list_writes(other_hub)) == ([], [])
    assert run_command("state", "pull")[1] == before
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
def test_plan_without_refresh_and_changes_reports_no_comparison(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    Path("main.nf.hcl").write_text(_WITHOUT_HUB.format(timeout="30m", content="1"))
    run_command("state", "rm", "fleet_cluster_resource_placement.web")
    use_hub(other_hub, tmp_path, monkeypatch)
    hub.log.clear()
    words = ("-auto-approve",) if command == "apply" else ()
    code, said = run_command(command, "-refresh=false", *words)
    assert (code, "No changes" in said) == (0, True), said
    assert (
        'Provider "fleet": -refresh=false makes no connection, so it is unknown whether this '
        "is the recorded"
    ) in said
    assert (hub.log, other_hub.log) == ([], [])


def test_saved_plan_without_changes_is_compared(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    use_hub(other_hub, tmp_path, monkeypatch)
    hub.log.clear()
    code, said = run_command("apply", "x.nfplan")
    assert (code, "reaches another system" in said) == (1, True), said
    assert (list_writes(hub), list_writes(other_hub)) == ([], [])


def test_import_block_without_refresh_is_compared(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    run_command("state", "rm", "fleet_cluster_resource_placement.web")
    Path("import.nf.hcl").write_text(_IMPORT)
    assert hub
    use_hub(other_hub, tmp_path, monkeypatch)
    code, said = run_command("plan", "-refresh=false")
    assert (code, "reaches another system" in said) == (1, True), said


def test_saved_plan_of_first_apply_records_its_hub(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    use_hub(other_hub, tmp_path, monkeypatch)
    code, said = run_command("apply", "x.nfplan")
    assert (code, "reaches another system" in said) == (1, True), said
    assert (list_writes(hub), list_writes(other_hub)) == ([], [])


def test_migrated_hub_is_accepted_by_its_uid(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    use_hub(other_hub, tmp_path, monkeypatch)
    assert run_command("plan", f"-allow-other-hub={read_hub_uid(hub)}")[0] == 1
    code, said = run_command(
        "apply", "-auto-approve", f"-allow-other-hub={read_hub_uid(other_hub)}"
    )
    assert code == 0, said
    assert len(other_hub.all("ClusterResourceBinding")) == 2
    code, said = run_command("plan", "-detailed-exitcode")
    assert code == 0, said


def test_state_keeps_objects_without_comparable_uid(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    use_hub(other_hub, tmp_path, monkeypatch)
    other_hub.faults = lambda _method, path: 403 if "/namespaces/kube-system" in path else None
    assert hub
    code, said = run_command("plan")
    assert code == 0, said
    assert "no uid of a namespace may be read on this hub, so it is unknown" in said
    code, said = run_command("destroy", "-auto-approve")
    assert code == 1, said
    assert "which may be another hub than the recorded one. It stays in the state." in said
    assert "fleet_cluster_resource_placement.web" in run_command("state", "list")[1]


def test_other_namespace_identifies_hub_without_kube_system(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub.faults = other_hub.faults = lambda _method, path: (
        403 if "/namespaces/kube-system" in path else None
    )
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    other_hub.put(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}, "somebody"
    )
    use_hub(other_hub, tmp_path, monkeypatch)
    code, said = run_command("destroy", "-auto-approve")
    assert (code, "namespace web has the uid" in said) == (1, True), said


def test_plan_names_its_hub(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    code, said = run_command("plan")
    assert code == 0
    assert f"hub hub (uid {read_hub_uid(hub)[:4]}, read " in said
    run_command("plan", "-out=x.nfplan")
    assert f'"uids":{{"kube-system":"{read_hub_uid(hub)}"}}' in run_command(
        "show", "-json", "x.nfplan"
    )[1].replace(" ", "")


# Blocks of two hubs, eu and us; all contexts are in one kubeconfig.
TWO_HUBS = """
provider "fleet" {{ context = "{provider}" }}
{blocks}
resource "fleet_cluster_resource_placement" "web" {{
  provider = {used}
  resource_selector {{
    version = "v1"
    kind    = "Namespace"
    name    = "web"
  }}
  policy {{ placement_type = "PickAll" }}
}}
"""


BUDGET = (
    'resource "fleet_placement_disruption_budget" "b" {\n  provider = fleet\n  name     = "web"\n}'
)


@pytest.mark.parametrize(
    ("provider", "used", "blocks", "readers"),
    [
        (
            "eu",
            "fleet",
            'data "fleet_hub" "us" { context = "us" }',
            ('data "fleet_hub" "us"', 'provider "fleet"'),
        ),
        (
            "eu",
            "fleet",
            'data "fleet_hub" "eu" { context = "eu" }\ndata "fleet_hub" "us" { context = "us" }',
            ('data "fleet_hub" "eu"', 'data "fleet_hub" "us"', 'provider "fleet"'),
        ),
        ("eu", "fleet", 'data "fleet_hub" "eu" { context = "eu" }', ()),
        (
            "us",
            "fleet.eu",
            (
                'provider "fleet" {\n  alias   = "eu"\n  context = "eu"\n}\ndata "fleet_hub" "eu" '
                '{ context = "eu" }'
            ),
            (),
        ),
        (
            "us",
            "fleet.eu",
            'provider "fleet" {\n  alias   = "eu"\n  context = "eu"\n}\n' + BUDGET,
            ('provider "fleet"', 'provider "fleet.eu"'),
        ),
    ],
)
def test_several_hubs_are_an_error(
    provider: str,
    used: str,
    blocks: str,
    readers: tuple[str, ...],
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan would predict members of one hub for placements of another."""
    names = {"eu": hub.url, "us": other_hub.url}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "eu",
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in names.items()],
        "users": [{"name": "admin", "user": {"token": "admin-token"}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": "admin"}} for name in names
        ],
    }
    (tmp_path / "both").write_text(json.dumps(document))
    monkeypatch.delenv("NF_FLEET_KUBECONFIG")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "both"))
    Path("main.nf.hcl").write_text(TWO_HUBS.format(provider=provider, used=used, blocks=blocks))
    code, said = run_command("plan")
    assert (code, "A plan predicts the placements of one hub." in said) == (
        int(bool(readers)),
        bool(readers),
    ), said
    assert all(f"{reader} reaches http://" in said for reader in readers), said


@pytest.mark.parametrize("changes_hub", [False, True])
def test_first_plan_without_a_connection_is_not_applied(
    hub: Front,
    other_hub: HubServer,
    run_command: CommandRunner,
    changes_hub: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("main.nf.hcl").write_text(_WITHOUT_HUB.format(timeout="30m", content="1"))
    assert run_command("plan", "-refresh=false", "-out=x.nfplan")[0] == 0
    if changes_hub:
        use_hub(other_hub, tmp_path, monkeypatch)
    code, said = run_command("apply", "x.nfplan")
    assert (code, 'provider "fleet", but does not record for which system' in said) == (1, True)
    assert (list_writes(hub), list_writes(other_hub)) == ([], [])
    # A plan with a connection, and one of a state with objects on the hub, are applied.
    assert run_command("plan", "-out=x.nfplan")[0] == 0
    assert run_command("apply", "x.nfplan")[0] == 0
    Path("main.nf.hcl").write_text(_WITHOUT_HUB.format(timeout="30m", content="2"))
    assert run_command("plan", "-refresh=false", "-out=x.nfplan")[0] == 0
    code, said = run_command("apply", "x.nfplan")
    assert code == 0, said
