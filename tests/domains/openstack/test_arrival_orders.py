"""Tests of certainty on an openstack_site.

VMs that start at once arrive in any order, and earlier ones still build or have finished.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

pytestmark = pytest.mark.of_domains("openstack", "vnf")

# GiB of memory of each host.
HOSTS: Mapping[str, int] = {"c1": 64, "c2": 60, "c3": 56}
SITE = """
locals {
  inventory = INVENTORY
}
resource "openstack_site" "o" {
  inventory = local.inventory
  SETTINGS
}
"""
VNF = """
resource "tacker_vnf" "NAME" {
  site_id  = openstack_site.o.id
  base_hot = file("NAME.yaml")
  MORE
}
"""


@pytest.fixture(autouse=True)
def work_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def build_resource(total: int) -> dict[str, Any]:
    values = {"total": total, "reserved": 0, "allocation_ratio": 1}
    return {**values, "min_unit": 1, "max_unit": total, "step_size": 1}


def build_flavor(vcpus: int, memory_mib: int, disk_gib: int = 20) -> dict[str, Any]:
    return {
        "vcpus": vcpus,
        "memory_mib": memory_mib,
        "root_disk_gib": disk_gib,
        "disk_gib": disk_gib,
        "properties": {},
    }


def build_inventory(hosts: Mapping[str, int] = HOSTS) -> dict[str, Any]:
    return {
        "hosts": {
            name: {
                "availability_zone": "nova",
                "failed_builds": 0,
                "resources": {
                    "VCPU": build_resource(32),
                    "MEMORY_MB": build_resource(memory_gib * 1024),
                    "DISK_GB": build_resource(1000),
                },
            }
            for name, memory_gib in hosts.items()
        },
        "flavors": {"big": build_flavor(8, 16384), "small": build_flavor(1, 2048)},
        "images": {"plain": {}},
    }


def write_site(
    vnfs: Mapping[str, str] | Iterable[str] = ("v",),
    hosts: Mapping[str, int] = HOSTS,
    settings: str = "",
    inventory: Mapping[str, Any] | None = None,
) -> None:
    """Write a site with VNFs; a mapping has more arguments by name."""
    more = vnfs if isinstance(vnfs, Mapping) else dict.fromkeys(vnfs, "")
    text = SITE.replace("INVENTORY", json.dumps(inventory or build_inventory(hosts)))
    blocks = [VNF.replace("NAME", name).replace("MORE", more[name]) for name in more]
    Path("main.nf.hcl").write_text(text.replace("SETTINGS", settings) + "".join(blocks))


def write_template(name: str = "v", **servers: Mapping[str, Any]) -> None:
    """Write a HOT file; a server has the fields of its properties, and `depends_on`.

    None removes the image.
    """
    resources = {}
    for server, values in servers.items():
        if "type" in values:
            resources[server] = dict(values)
            continue
        properties = {
            name: value for name, value in {"image": "plain", **values}.items() if value is not None
        }
        depends_on = properties.pop("depends_on", None)
        resources[server] = {"type": "OS::Nova::Server", "properties": properties}
        if depends_on:
            resources[server]["depends_on"] = depends_on
    document = {"heat_template_version": "2018-08-31", "resources": resources}
    Path(f"{name}.yaml").write_text(json.dumps(document))


def read_plan(*more: str) -> Any:
    assert run_command_line(["plan", "-report=json:p.json", "-samples=20", *more]) == 0
    return json.loads(Path("p.json").read_text())


def read_hosts(plan: Any) -> dict[str, tuple[str, str]]:
    """Return the host of each new VM, and its other location, "" if the host is exact."""
    hosts = {}
    for row in plan["placement_changes"]:
        is_exact = (row.get("certainty") or {}).get("machine") == 1
        assert is_exact != ("otherwise" in row["scores"]), row
        hosts[row["object"]] = (row["to"]["machine"], row["scores"].get("otherwise", ""))
    return hosts


def plan_hosts(*more: str) -> dict[str, tuple[str, str]]:
    return read_hosts(read_plan(*more))


BIG = {"flavor": "big"}
SMALL = {"flavor": "small"}


def test_independent_servers_are_not_exact_in_either_order_of_text() -> None:
    write_site()
    write_template(big=BIG, small=SMALL)
    first = plan_hosts()
    write_template(small=SMALL, big=BIG)
    assert plan_hosts() == first
    assert first == {
        "v-big-0": ("c1", "c2 if v-small-0 arrives first"),
        "v-small-0": ("c2", "c1 if it arrives before v-big-0"),
    }


@pytest.mark.parametrize(
    "small",
    [
        {**SMALL, "depends_on": "big"},
        {**SMALL, "depends_on": ["big"]},
        {**SMALL, "metadata": {"peer": {"get_attr": ["big", "first_address"]}}},
        {
            **SMALL,
            "user_data": {
                "str_replace": {"template": "x", "params": {"x": {"get_resource": "big"}}}
            },
        },
    ],
    ids=["text", "list", "attribute", "resource"],
)
def test_server_after_another_one_is_exact(small: Mapping[str, Any]) -> None:
    write_site()
    write_template(small=small, big=BIG)
    assert plan_hosts() == {"v-big-0": ("c1", ""), "v-small-0": ("c2", "")}


def test_dependency_leads_through_other_resources() -> None:
    write_site()
    value = {"type": "OS::Heat::Value", "properties": {"value": {"get_resource": "big"}}}
    write_template(big=BIG, value=value, small={**SMALL, "depends_on": "value"})
    assert plan_hosts()["v-small-0"] == ("c2", "")
    # Heat creates no resource with a false condition, so nothing waits for it.
    write_template(
        big=BIG, value={**value, "condition": False}, small={**SMALL, "depends_on": "value"}
    )
    assert plan_hosts()["v-small-0"] != ("c2", "")


def test_awaited_server_has_finished_building() -> None:
    """A server counts as building for those that may arrive meanwhile, not for later ones."""
    # The second host has less memory than the first one has left.
    write_site(hosts={"c1": 64, "c2": 40})
    settings = "weight_multipliers = { cpu = 0, disk = 0 }"
    write_site(hosts={"c1": 64, "c2": 40}, settings=settings)
    write_template(big=BIG, small={**SMALL, "depends_on": "big"})
    assert plan_hosts() == {"v-big-0": ("c1", ""), "v-small-0": ("c1", "")}
    # Without an order, Nova avoids the host where the other server builds.
    write_template(big=BIG, small=SMALL)
    hosts = plan_hosts()
    assert {other.partition(" ")[0] for _, other in hosts.values()} == {"c1", "c2"}


def build_group(kind: str, count: int) -> dict[str, Any]:
    server = {"type": "OS::Nova::Server", "properties": {"flavor": "big", "image": "plain"}}
    sizes = (
        {"count": count, "resource_def": server}
        if kind == "OS::Heat::ResourceGroup"
        else {"min_size": count, "max_size": count, "desired_capacity": count, "resource": server}
    )
    return {"type": kind, "properties": sizes}


@pytest.mark.parametrize("kind", ["OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup"])
def test_members_of_a_group_are_not_exact(kind: str) -> None:
    write_site()
    write_template(worker=build_group(kind, 2))
    assert plan_hosts() == {
        "v-worker-0": ("c1", "c2 if v-worker-1 arrives first"),
        "v-worker-1": ("c2", "c1 if v-worker-1 arrives first"),
    }


def test_vnfs_without_an_order_are_not_exact() -> None:
    write_template("a", big=BIG)
    write_template("b", small=SMALL)
    write_site({"a": "", "b": ""})
    assert plan_hosts() == {
        "a-big-0": ("c1", "c2 if b-small-0 arrives first"),
        "b-small-0": ("c2", "c1 if it arrives before a-big-0"),
    }
    write_site({"a": "", "b": "depends_on = [tacker_vnf.a]"})
    assert plan_hosts() == {"a-big-0": ("c1", ""), "b-small-0": ("c2", "")}


def test_first_vnf_applied_alone_contradicts_no_exact_host() -> None:
    settings = "weight_multipliers = { cpu = 0, disk = 0 }"
    hosts = {"c1": 64, "c2": 40}
    write_template("a", big=BIG)
    write_template("b", small=SMALL)
    write_site({"a": "", "b": ""}, hosts, settings)
    (planned, other) = plan_hosts()["b-small-0"]
    assert (planned, other.partition(" ")[0]) == ("c2", "c1")
    assert run_command_line(["apply", "-auto-approve", "-samples=2", "-target=tacker_vnf.a"]) == 0
    # The first VNF has finished.
    assert plan_hosts() == {"b-small-0": ("c1", "")}


def test_group_members_are_those_of_the_tried_order() -> None:
    """In another order, anti-affinity avoids the hosts of the members placed there."""
    write_site()
    group = {
        "type": "OS::Nova::ServerGroup",
        "properties": {"name": "g", "policies": ["anti-affinity"]},
    }
    hints = {"scheduler_hints": {"group": {"get_resource": "group"}}}
    write_template(group=group, big={**BIG, **hints}, small={**SMALL, **hints})
    plan = read_plan()
    assert read_hosts(plan) == {
        "v-big-0": ("c1", "c2 if v-small-0 arrives first"),
        "v-small-0": ("c2", "c1 if it arrives before v-big-0"),
    }


def test_order_without_effect_is_exact() -> None:
    """All members of an affinity group, and servers with one possible host, have one place."""
    write_site()
    hosts = {"availability_zone": "nova:c2"}
    write_template(big={**BIG, **hosts}, small={**SMALL, **hosts})
    assert {host for host, _ in plan_hosts().values()} == {"c2"}
    group = {"type": "OS::Nova::ServerGroup", "properties": {"policies": ["affinity"]}}
    hints = {"scheduler_hints": {"group": {"get_resource": "group"}}}
    write_template(group=group, a={**SMALL, **hints}, b={**SMALL, **hints})
    assert plan_hosts() == {"v-a-0": ("c1", ""), "v-b-0": ("c1", "")}


def test_more_orders_than_tried_are_not_certain(capsys: pytest.CaptureFixture[str]) -> None:
    write_site(hosts={f"c{number}": 64 - number for number in range(4)})
    place = {"availability_zone": "nova:c2"}
    write_template(**{f"s{number}": {**SMALL, **place} for number in range(14)})
    capsys.readouterr()
    plan = read_plan("-details")
    assert all(row.get("certainty") is None for row in plan["placement_changes"])
    text = " ".join(capsys.readouterr().out.split())
    assert (
        "Nova picks rack and machine; more orders of arrival are possible than were tried" in text
    )
    assert "Not certain: more orders of arrival are possible than were tried." in text


def test_assumption_is_named_in_details(capsys: pytest.CaptureFixture[str]) -> None:
    write_site()
    write_template(big=BIG)
    capsys.readouterr()
    assert run_command_line(["plan", "-details"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "whether earlier VMs still build or have finished. Assumed: Nova handles" in text
    assert "no other tenants, live migrations, evacuations" in text


def test_removed_servers_may_still_run() -> None:
    write_template("a", big=BIG)
    write_template("b", small=SMALL)
    write_site({"a": ""})
    assert run_command_line(["apply", "-auto-approve", "-samples=2"]) == 0
    write_site({"b": ""})
    plan = read_plan()
    (row,) = [row for row in plan["placement_changes"] if row["action"] == "place"]
    assert row.get("certainty") is None


def test_smaller_vnf_loses_the_newest_servers_without_azure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tacker removes the newest servers, and no report names another platform."""
    write_site()
    write_template(worker=build_group("OS::Heat::ResourceGroup", 3))
    assert run_command_line(["apply", "-auto-approve", "-samples=2"]) == 0
    write_template(worker=build_group("OS::Heat::ResourceGroup", 1))
    capsys.readouterr()
    reports = ["-report=html:p.html", "-report=markdown:p.md", "-report=json:p.json"]
    assert run_command_line(["plan", "-details", *reports]) == 0
    texts = [capsys.readouterr().out, *(Path(name).read_text() for name in ("p.html", "p.md"))]
    assert not any("Azure" in text for text in [*texts, Path("p.json").read_text()])
    removed = {row["object"] for row in json.loads(Path("p.json").read_text())["placement_changes"]}
    assert removed == {"v-worker-1", "v-worker-2"}


def test_host_that_depends_on_time_alone_is_not_exact() -> None:
    """In both orders Nova avoids c1, unless the server there has finished building."""
    settings = "weight_multipliers = { cpu = 0, disk = 0, ram = -1 }"
    write_site(hosts={"c1": 50, "c2": 40}, settings=settings)
    forced = {**BIG, "availability_zone": "nova:c1"}
    write_template(a=forced, b=SMALL)
    assert plan_hosts() == {
        "v-a-0": ("c1", ""),
        "v-b-0": ("c2", "c1 if earlier VMs have finished building"),
    }
    # An awaited server has finished, so nothing else is possible.
    write_template(a=forced, b={**SMALL, "depends_on": "a"})
    assert plan_hosts() == {"v-a-0": ("c1", ""), "v-b-0": ("c1", "")}
