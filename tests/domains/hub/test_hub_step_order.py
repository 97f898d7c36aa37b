"""Tests of the order of removed content, new labels, general overrides and a switch to staged runs.

It matches the prediction.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_front import Front
from tests.domains.hub.slow_writes import SlowWrite
from tests.domains.hub.test_fleet_provider import WEB, write_configuration
from tests.domains.hub.test_hub_general_overrides import _CLUSTER, _MORE
from tests.domains.hub.test_hub_order import OVERRIDE
from tests.domains.hub.test_hub_runs import EVICTION, EXTERNAL

_MEMBER = """
resource "fleet_member_cluster" "fra1" {{
  provider = fleet
  name     = "fra1"
  labels   = {{ tier = "{tier}" }}
}}
"""
_NAMED = OVERRIDE.replace("labels/changed", "labels").replace('"yes"', '{changed = "yes"}')
_SETTINGS = "/configmaps/settings"
_PLACEMENT = "/clusterresourceplacements/web"
_OVERRIDES = "/clusterresourceoverrides/web"
_DEPENDENCY = "\n  depends_on = [fleet_hub_manifest.web]"
_ON_BOTH = "\n  depends_on = [fleet_hub_manifest.web, fleet_hub_manifest.more]"


def _write(
    text: str = "", *, number: int = 2, content: str = "1", more: str = "", dependency: str = ""
) -> None:
    """Write a configuration; `dependency` is the depends_on of its placement."""
    configuration = WEB.format(number=number, content=content, timeout="30m", more=more)
    Path("main.nf.hcl").write_text(configuration.replace(_DEPENDENCY, dependency) + text)


def _apply_slowly(hub: Front, run_command: CommandRunner, path: str, *followers: str) -> str:
    """Apply with a slow write; check that its followers wait.

    All predictions are correct.
    """
    slow = SlowWrite(hub, path, *followers)
    code, said = run_command("apply", "-auto-approve")
    slow.end()
    assert (code, "wrong" in said) == (0, False), said
    done = slow.arrivals.index("done")
    for follower in followers:
        (first, *_) = (
            number for number, each in enumerate(slow.arrivals) if each.endswith(follower)
        )
        assert first > done, (follower, slow.arrivals)
    assert run_command("plan", "-detailed-exitcode")[0] == 0
    return said


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("dependency", ["", _ON_BOTH])
def test_changed_placement_follows_deletion_of_its_content(
    hub: Front, run_command: CommandRunner, dependency: str
) -> None:
    _write(_MORE, dependency=dependency)
    assert run_command("apply", "-auto-approve")[0] == 0
    _write(number=3, dependency=dependency and _DEPENDENCY)
    _apply_slowly(hub, run_command, "/configmaps/more", _PLACEMENT)


def test_apply_waits_for_rollout_of_deletion(hub: Front, run_command: CommandRunner) -> None:
    write_configuration()
    Path("main.nf.hcl").write_text(Path("main.nf.hcl").read_text() + _MORE)
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration()
    code, said = run_command("apply", "-auto-approve")
    assert (code, "2 of 2 predictions correct" in said) == (0, True), said
    assert said.index("fleet_hub_manifest.more: Destruction") < said.index(
        "fleet_cluster_resource_placement.web: Mod"
    )
    assert {each["spec"]["resourceSnapshotName"] for each in hub.all("ClusterResourceBinding")} == {
        "web-1-snapshot"
    }


@pytest.mark.our_hub_alone
def test_placement_of_other_objects_precedes_deletion_of_old_ones(
    hub: Front, run_command: CommandRunner
) -> None:
    other = _MORE.replace('"more"', '"other"').replace("ConfigMap", "Namespace")
    other = other.replace("{name: more, namespace: web}", "{name: other}")
    _write(other, dependency=_DEPENDENCY)
    assert run_command("apply", "-auto-approve")[0] == 0
    text = WEB.format(number=2, content="1", timeout="30m", more="").replace(
        'name    = "web"', 'name    = "other"'
    )
    start = text.index('resource "fleet_hub_manifest"')
    end = text.index('resource "fleet_cluster_resource_placement"')
    kept = other.replace("\n  depends_on = [fleet_hub_manifest.web]", "")
    Path("main.nf.hcl").write_text(text[:start] + text[end:].replace(_DEPENDENCY, "") + kept)
    slow = SlowWrite(hub, _PLACEMENT, "/namespaces/web", _SETTINGS)
    code, said = run_command("apply", "-auto-approve")
    slow.end()
    assert code == 0, said
    assert slow.arrivals.index("done") < slow.arrivals.index("/api/v1/namespaces/web")


@pytest.mark.our_hub_alone
def test_rollouts_follow_new_member_labels(hub: Front, run_command: CommandRunner) -> None:
    _write(_MEMBER.format(tier="1") + _NAMED)
    assert run_command("apply", "-auto-approve")[0] == 0
    _write(_MEMBER.format(tier="2") + _NAMED.replace('"yes"', '"no"'), number=3, content="2")
    _apply_slowly(hub, run_command, "/memberclusters/fra1", _SETTINGS, _PLACEMENT, _OVERRIDES)


@pytest.mark.our_hub_alone
def test_eviction_follows_override_of_every_placement(
    hub: Front, controller: Controller, run_command: CommandRunner
) -> None:
    controller.evicts = True
    _write()
    assert run_command("apply", "-auto-approve")[0] == 0
    _write(_CLUSTER + EVICTION)
    _apply_slowly(hub, run_command, _OVERRIDES, "/clusterresourceplacementevictions/lon1")


@pytest.mark.our_hub_alone
@pytest.mark.parametrize(
    ("content", "followers"), [("2", (_SETTINGS, "/configmaps/more")), ("1", ("/configmaps/more",))]
)
def test_content_changes_after_a_switch_to_staged_runs(
    hub: Front, run_command: CommandRunner, content: str, followers: tuple[str, ...]
) -> None:
    _write(_MORE)
    assert run_command("apply", "-auto-approve")[0] == 0
    _write(content=content, more=EXTERNAL)
    _apply_slowly(hub, run_command, _PLACEMENT, *followers)
    assert {each["spec"]["resourceSnapshotName"] for each in hub.all("ClusterResourceBinding")} == {
        "web-0-snapshot"
    }


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
def test_external_switch_depending_on_changed_content_is_an_error(
    run_command: CommandRunner,
) -> None:
    write_configuration()
    assert run_command("apply", "-auto-approve")[0] == 0
    write_configuration(content="2", more=EXTERNAL)
    code, said = run_command("plan")
    assert code == 1, said
    assert "the hub rolls out changes until the placement is left to staged runs" in " ".join(
        said.split()
    )
