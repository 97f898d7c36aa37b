"""Content and placements wait for overrides without a placement name.

A rollout applies only existing overrides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.domains.hub.conftest import CommandRunner
from tests.domains.hub.hub_front import Front
from tests.domains.hub.slow_writes import SlowWrite
from tests.domains.hub.test_fleet_provider import write_configuration
from tests.domains.hub.test_hub_order import NAMESPACED_OVERRIDE
from tests.domains.hub.test_hub_order import OVERRIDE as CLUSTER_OVERRIDE

_DEPENDENCY = "\n  depends_on = [fleet_hub_manifest.web]"
_NAMED = 'placement {\n    name = "web"\n  }\n  '
_CLUSTER = (
    CLUSTER_OVERRIDE.replace(_NAMED, "")
    .replace("labels/changed", "labels")
    .replace('"yes"', '{changed = "yes"}')
)
_NAMESPACED = NAMESPACED_OVERRIDE.replace("NAME", "web")
_MORE = """
resource "fleet_hub_manifest" "more" {
  provider   = fleet
  depends_on = [fleet_hub_manifest.web]
  yaml_body  = <<-Y
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: more, namespace: web}
  Y
}
"""
_SETTINGS = "/namespaces/web/configmaps/settings"
_PLACEMENT = "/clusterresourceplacements/web"
_PATHS = {
    _CLUSTER: "/clusterresourceoverrides/web",
    _NAMESPACED: "/namespaces/web/resourceoverrides/web",
}


def _write(content: str, more: str = "", *, number: int = 2) -> None:
    """Write a configuration in which only the table orders a placement and its content."""
    write_configuration(content=content, number=number)
    path = Path("main.nf.hcl")
    path.write_text(path.read_text().replace(_DEPENDENCY, "") + more)


def _apply_slowly(hub: Front, run_command: CommandRunner, path: str, *followers: str) -> None:
    """Apply with a slow write, and check that its followers wait."""
    slow = SlowWrite(hub, path, *followers)
    code, said = run_command("apply", "-auto-approve")
    slow.end()
    assert code == 0, said
    done = slow.arrivals.index("done")
    for follower in followers:
        (first, *_) = (
            number for number, each in enumerate(slow.arrivals) if each.endswith(follower)
        )
        assert first > done, (follower, slow.arrivals)


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("override", _PATHS)
@pytest.mark.parametrize("change", ["created", "changed", "removed"])
def test_content_waits_for_override_of_every_placement(
    hub: Front, run_command: CommandRunner, override: str, change: str
) -> None:
    _write("1", "" if change == "created" else override)
    assert run_command("apply", "-auto-approve")[0] == 0
    changed = override.replace('"yes"', '"no"') if change == "changed" else override
    _write("2", "" if change == "removed" else changed)
    _apply_slowly(hub, run_command, _PATHS[override], _SETTINGS)
    assert run_command("plan", "-detailed-exitcode")[0] == 0


@pytest.mark.our_hub_alone
def test_content_of_another_block_waits_for_override(
    hub: Front, run_command: CommandRunner
) -> None:
    _write("1")
    assert run_command("apply", "-auto-approve")[0] == 0
    _write("1", _MORE + _NAMESPACED)
    _apply_slowly(hub, run_command, _PATHS[_NAMESPACED], "/configmaps/more")


@pytest.mark.our_hub_alone
@pytest.mark.parametrize("override", _PATHS)
def test_placement_waits_for_override_in_its_planned_namespace(
    hub: Front, run_command: CommandRunner, override: str
) -> None:
    _write("1", override)
    _apply_slowly(hub, run_command, _PATHS[override], _PLACEMENT)


@pytest.mark.our_hub_alone
def test_changed_placement_and_named_override_wait_for_override(
    hub: Front, run_command: CommandRunner
) -> None:
    named = CLUSTER_OVERRIDE.replace('"web"', '"named"', 2).replace("labels/changed", "labels")
    named = named.replace('"yes"', '{changed = "yes"}')
    path = "/clusterresourceoverrides/named"
    _write("1")
    assert run_command("apply", "-auto-approve")[0] == 0
    _write("1", _NAMESPACED + named, number=3)
    _apply_slowly(hub, run_command, _PATHS[_NAMESPACED], _PLACEMENT, path)
    # Both are removed.
    _write("1", number=3)
    _apply_slowly(hub, run_command, _PATHS[_NAMESPACED], path)


@pytest.mark.our_hub_alone
def test_override_is_sent_after_its_namespace(hub: Front, run_command: CommandRunner) -> None:
    _write("1", _NAMESPACED)
    _apply_slowly(hub, run_command, "/namespaces/web", _PATHS[_NAMESPACED])


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
def test_override_depending_on_changed_content_is_an_error(run_command: CommandRunner) -> None:
    _write("1")
    assert run_command("apply", "-auto-approve")[0] == 0
    _write(
        "2", _CLUSTER.replace("  policy {", "  depends_on = [fleet_hub_manifest.web]\n  policy {")
    )
    code, said = run_command("plan")
    assert code == 1, said
    said = " ".join(said.split())
    assert (
        "fleet_hub_manifest.web must be applied after fleet_cluster_resource_override.web, because"
        in said
    )
    assert "a rollout applies only existing overrides" in said
    assert "Set placement in fleet_cluster_resource_override.web" in said


@pytest.mark.our_hub_alone
def test_content_depending_on_removed_override_is_applied(
    hub: Front, run_command: CommandRunner
) -> None:
    _write("1", _CLUSTER)
    path = Path("main.nf.hcl")
    order = "depends_on = [fleet_cluster_resource_override.web]\n  yaml_body"
    path.write_text(path.read_text().replace("yaml_body", order, 1))
    assert run_command("apply", "-auto-approve")[0] == 0
    _write("2")
    code, said = run_command("apply", "-auto-approve")
    assert code == 0, said
    assert hub.get("ClusterResourceOverride", "web") is None


@pytest.mark.our_hub_alone
@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("is_split", [False, True])
def test_override_after_rollout_of_its_new_namespace_is_named(
    run_command: CommandRunner, *, is_split: bool
) -> None:
    path = Path("main.nf.hcl")
    _write("1")
    text = path.read_text()
    start = text.index('resource "fleet_hub_manifest"')
    end = text.index('resource "fleet_cluster_resource_placement"')
    path.write_text(text[:start] + text[end:])
    assert run_command("apply", "-auto-approve")[0] == 0
    if is_split:
        manifest = text[start:end].replace('"web"', '"settings"', 1)
        content = manifest[manifest.index("    apiVersion: v1\n    kind: ConfigMap") :]
        head = manifest[: manifest.index("    apiVersion")].replace(
            "yaml_body", f"{_DEPENDENCY}\n  yaml_body", 1
        )
        text = text.replace("    ---\n" + content, "  Y\n}\n" + head + content)
    path.write_text(text + _NAMESPACED)
    code, said = run_command("plan", "-details")
    assert code == 0, said
    named = (
        "fleet_hub_manifest.web creates the namespace of fleet_resource_override.web and an "
        "object changed by it"
    )
    assert (named in " ".join(said.split())) is not is_split, said
