"""Tests of platforms that follow the placement rule, choose at random, or pack.

The alarm of apply, and the certainty of the next plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("azure.mgmt.networkcloud")
from nexusform.cli.main import run_command_line
from tests.domains.azure.providers.arm_server import ArmServer, Site, add_hardware
from tests.domains.azure.providers.azure_sites import PROVIDER_BLOCK, CommandRunner
from tests.kill_points import tries_all
from tests.prepared_situations import prepare_situation

RUNS = 6 if tries_all() else 4
CELLS_PER_MACHINE = 4  # of NC_P22_112_v1
CLUSTER = """resource "nexus_kubernetes_cluster" "NAME" {
  provider           = azure
  site_id            = nexus_site.lab.id
  name               = "NAME"
  kubernetes_version = "v1.29"
  control_plane {
    count       = 1
    vm_sku_name = "NC_P22_112_v1"
  }
  agent_pool "NAMEs" {
    count       = 2
    vm_sku_name = "NC_P22_112_v1"
    mode        = "System"
  }
  agent_pool "NAMEu" {
    count       = 4
    vm_sku_name = "NC_P22_112_v1"
    mode        = "User"
  }
  azure {
    resource_group = "tenants"
    body = {
      properties = { networkConfiguration = { cniNetworkId = "/n/cni", cloudServicesNetworkId = "/n/csn" } }
    }
  }
}
"""  # noqa: E501


class Platform:
    """Azure's choice of machines.

    VMs are triples of cluster, pool and machine; a cluster begins with its control plane.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clusters = 0
        self.vms: list[tuple[str, str, str]] = []

    def place(self, pool: str, _number: int) -> str:
        self.clusters += pool == "control-plane"
        cluster = str(self.clusters)
        free = [name for name in MACHINES if self.count(machine=name) < CELLS_PER_MACHINE]
        machine = self.choose(cluster, f"{cluster}/{pool}", free)
        self.vms.append((cluster, f"{cluster}/{pool}", machine))
        return machine

    def choose(self, cluster: str, pool: str, free: list[str]) -> str:
        raise NotImplementedError

    def count(self, cluster: str = "", pool: str = "", machine: str = "", rack: str = "") -> int:
        return sum(
            (not cluster or vm[0] == cluster)
            and (not pool or vm[1] == pool)
            and (not machine or vm[2] == machine)
            and (not rack or MACHINES[vm[2]] == rack)
            for vm in self.vms
        )


class FollowingPlatform(Platform):
    """Choose the rack with the fewest VMs of the pool, then with the fewest VMs.

    On it, choose the machine with the fewest VMs of the cluster, then of the pool, then of all.
    """

    def choose(self, cluster: str, pool: str, free: list[str]) -> str:
        racks = {MACHINES[name] for name in free}
        rack = self.draw(
            racks, lambda name: (self.count(pool=pool, rack=name), self.count(rack=name))
        )
        machines = [name for name in free if MACHINES[name] == rack]
        return self.draw(machines, lambda name: self.rank(cluster, pool, name))

    def rank(self, cluster: str, pool: str, name: str) -> tuple[int, ...]:
        return (
            self.count(cluster=cluster, machine=name),
            self.count(pool=pool, machine=name),
            self.count(machine=name),
        )

    def draw(self, names: Any, rank: Callable[[str], tuple[int, ...]]) -> str:
        best = min(map(rank, names))
        return self.random.choice(sorted(name for name in names if rank(name) == best))


class RandomPlatform(Platform):
    """Choose any machine with capacity."""

    def choose(self, cluster: str, pool: str, free: list[str]) -> str:
        del cluster, pool
        return self.random.choice(free)


class PackingPlatform(Platform):
    """Choose the first machine with capacity."""

    def choose(self, cluster: str, pool: str, free: list[str]) -> str:
        del cluster, pool
        return free[0]


MACHINES = {f"m{number}": f"r{1 + (number > 3)}" for number in range(1, 7)}


def import_hardware(nexusform: CommandRunner, server: ArmServer) -> None:
    """Import a site without VMs."""
    Path("main.nf.hcl").write_text(PROVIDER_BLOCK)
    server.site = Site()
    add_hardware(server.site)

    def import_site() -> None:
        words = ("import", "-from=azure", "-generate-config-out=site.nf.hcl")
        assert nexusform(*words) == 0, nexusform.said

    prepare_situation("hardware", server, import_site)


@pytest.fixture
def runs(
    tmp_path: Path, nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Return a function that runs an apply on a platform in a new directory.

    It returns whether the alarm was raised.
    """

    def run(kind: type[Platform], seed: int) -> bool:
        where = tmp_path / f"{kind.__name__}-{seed}"
        where.mkdir()
        monkeypatch.chdir(where)
        import_hardware(nexusform, server)
        server.site.place = kind(seed).place
        Path("d.nf.hcl").write_text(CLUSTER.replace("NAME", "d"))
        Path("e.nf.hcl").write_text(CLUSTER.replace("NAME", "e"))
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said
        return nexusform.alarmed

    return run


@pytest.fixture(autouse=True)
def few_samples() -> None:
    """Use as many samples as the product here: fewer ones miss some ties."""


SMALL = CLUSTER.replace("count       = 2", "count       = 1")
SMALL = SMALL[: SMALL.index('  agent_pool "NAMEu"')] + SMALL[SMALL.index("  azure {") :]
POOL = """resource "nexus_agent_pool" "p" {
  provider              = azure
  kubernetes_cluster_id = nexus_kubernetes_cluster.d.id
  name                  = "p"
  node_count            = 1
  vm_sku_name           = "NC_P22_112_v1"
}
"""


def test_machine_outside_predicted_ties_is_wrong_prediction(
    tmp_path: Path, nexusform: CommandRunner, server: ArmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool ties on the four machines without a VM of the cluster."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    import_hardware(nexusform, server)
    places = {"control-plane": "m4", "ds": "m1"}
    server.site.place = lambda pool, _number: places[pool]
    Path("d.nf.hcl").write_text(SMALL.replace("NAME", "d"))
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    wrong = 0
    for number, machine in enumerate(("m2", "m3", "m5", "m6", "m1")):
        name = f"p{number}"
        places[name] = machine
        Path("p.nf.hcl").write_text(POOL.replace('"p"', f'"{name}"'))
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said
        is_outside = machine == "m1"
        assert nexusform.alarmed == is_outside, nexusform.said
        assert ("1 prediction wrong" in nexusform.said) == is_outside
        wrong += "1 VM runs on another machine allowed by the rule" in nexusform.said
        if is_outside:
            assert (
                f"d-{name}-0 was predicted on one of m2, m3, m5, m6, but runs on m1"
                in nexusform.said
            )
        else:
            Path("p.nf.hcl").unlink()
            assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    assert wrong >= 2, "the plan names one of the four"
    resources = json.loads(Path("state/nexusform.nfstate").read_text())["resources"]
    site = next(resource for resource in resources if resource["type"] == "nexus_site")
    assert site["instances"][0]["private"]["forecasts"]["tied_machines"]["100"][:2] == [6, 1]


def test_rejected_request_causes_no_wrong_predictions(
    runs: Any, nexusform: CommandRunner, server: ArmServer
) -> None:
    """The plan of the second cluster assumes the VMs of the first."""
    assert not runs(FollowingPlatform, 1)
    Path("d.nf.hcl").unlink()
    Path("e.nf.hcl").unlink()
    assert nexusform("apply", "-auto-approve") == 0, nexusform.said
    for seed in range(3):
        server.site.place = FollowingPlatform(seed).place
        Path("f.nf.hcl").write_text(CLUSTER.replace("NAME", "f") + CLUSTER.replace("NAME", "g"))
        server.site.faults.refusals = 1
        assert nexusform("apply", "-auto-approve") == 1
        assert "kubernetesClusters/g" in str(nexusform.changes()[-1]), nexusform.changes()
        assert "Wrong certain predictions" not in nexusform.said
        Path("f.nf.hcl").unlink()
        assert nexusform("apply", "-auto-approve") == 0, nexusform.said


@pytest.mark.parametrize(
    ("kind", "alarms"), [(FollowingPlatform, 0), (RandomPlatform, RUNS), (PackingPlatform, RUNS)]
)
def test_alarms_and_certainty(
    kind: type[Platform],
    alarms: int,
    runs: Any,
    nexusform: CommandRunner,
    capsys: pytest.CaptureFixture[str],
) -> None:
    raised = []
    for seed in range(RUNS):
        raised.append(runs(kind, seed))
        Path("d.nf.hcl").rename("f.nf.hcl")
        Path("f.nf.hcl").write_text(CLUSTER.replace("NAME", "f"))
        Path("e.nf.hcl").unlink()
        assert nexusform("plan", "-out=next.plan") == 0, nexusform.said
        assert ("the locations below are guesses" in nexusform.said) <= raised[-1], nexusform.said
        assert run_command_line(["show", "-json", "next.plan"]) == 0
        confidence = json.loads(capsys.readouterr().out)["decision"]["confidence"]
        assert bool(confidence["exact_rack_counts"]) == (not raised[-1]), confidence
        assert not (raised[-1] and confidence["exact_machines"])
    assert sum(raised) == alarms
