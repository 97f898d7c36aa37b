"""Writes export/: a site of 8 racks, 15 clusters and 900 nodes with a history, as `az` prints one.

    python generate.py [DIRECTORY]

Clusters come over two years and are placed by the rule of the Nexus document; then things happen: a server
dies and its nodes are re-created elsewhere (skew that stays), machines are cordoned, pools grow, and two nodes
find no machine. Same seed, same bytes.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from nexusform.scheduling.racks.rack_scheduler import RackScheduler
from nexusform.scheduling.racks.vms import Demand, Machine, Placement, PlacementConstraints, VmName

SUBSCRIPTION = "/subscriptions/3f6c0f0e-0000-4000-8000-000000000001"
NETWORKCLOUD = "providers/Microsoft.NetworkCloud"
SITE = "par1"
MANAGED = f"{SUBSCRIPTION}/resourceGroups/par1-managed/{NETWORKCLOUD}"
TENANT = f"{SUBSCRIPTION}/resourceGroups/par1-workloads/{NETWORKCLOUD}"
LOCATION = {
    "name": f"{SUBSCRIPTION}/resourceGroups/par1-managed/providers/Microsoft.ExtendedLocation/"
    "customLocations/par1-cl",
    "type": "CustomLocation",
}
COMPUTE = "platform.afo-nc.microsoft.com/compute-plane=true"
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
ADMIN = {"availabilityLifecycle": "GenerallyAvailable"}

# name, month of creation, control-plane SKU, pools: (name, SKU, count, zones, mode)
CLUSTERS: tuple[tuple[str, int, str, tuple[tuple[str, str, int, tuple[str, ...], str], ...]], ...] = (
    ("core-amf", 0, "NC_G6_28_v1", (("system", "NC_G12_56_v1", 6, (), "System"), ("amf", "NC_P22_112_v1", 24, (), "User"))),
    ("core-smf", 1, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 6, (), "System"), ("smf", "NC_P22_112_v1", 24, (), "User"))),
    ("core-upf", 2, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 6, (), "System"), ("upf", "NC_P46_224_v1", 16, (), "User"))),
    ("core-udm", 3, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 6, (), "System"), ("udm", "NC_P10_56_v1", 40, (), "User"))),
    ("core-nrf", 4, "NC_G2_8_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("nrf", "NC_P4_28_v1", 48, (), "User"))),
    ("ims-cscf", 6, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 6, (), "System"), ("cscf", "NC_P10_56_v1", 56, (), "User"))),
    ("ims-mgw", 7, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("mgw", "NC_P10_56_v1", 48, ("1", "2", "3", "4"), "User"))),
    ("ran-cu-a", 9, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("cu", "NC_P4_28_v1", 88, (), "User"))),
    ("ran-cu-b", 10, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("cu", "NC_P4_28_v1", 88, (), "User"))),
    ("edge-cache", 12, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("cache", "NC_G12_56_v1", 24, ("5", "6", "7", "8"), "User"))),
    ("observe", 13, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("store", "NC_G6_28_v1", 48, (), "User"))),
    ("billing", 15, "NC_G6_28_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("billing", "NC_G6_28_v1", 72, (), "User"))),
    ("slice-a", 18, "NC_G2_8_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("work", "NC_P4_28_v1", 88, (), "User"))),
    ("slice-b", 20, "NC_G2_8_v1", (("system", "NC_G6_28_v1", 4, (), "System"), ("work", "NC_P4_28_v1", 80, (), "User"))),
    ("lab", 22, "NC_G2_8_v1", (("system", "NC_G2_8_v1", 2, (), "System"), ("lab", "NC_G2_8_v1", 45, (), "User"))),
)  # fmt: skip
CONTROL_PLANES = {"lab": 1}
BROKEN = "par1c3co07"  # died in month 16 and came back empty
CORDONED = ("par1c2co11", "par1c6co02", "par1c8co16")


class Site:
    """The site while its history goes on."""

    def __init__(self) -> None:
        self.random = Random(20260301)
        self.skus = CATALOGUES[NEWEST].vm_skus
        self.machines = [machine(rack, slot) for rack in range(1, 9) for slot in range(1, 17)]
        self.scheduler = RackScheduler(self.machines)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.handles: dict[str, int] = {}

    def name(self, cluster: str, pool: str) -> str:
        """A node's name as the platform makes them."""
        ending = "".join(self.random.choice(LETTERS) for _ in range(5))
        kind = "control-plane" if pool == "control-plane" else f"{pool}-md"
        return f"{cluster}-{abs(hash_of(cluster)):08x}-{kind}-{ending}"

    def add(self, cluster: str, pool: str, number: int, sku: str, zones: tuple[str, ...], at: datetime) -> str:
        """A new node, where the rule puts it."""
        name = self.name(cluster, pool)
        while name in self.nodes:
            name = self.name(cluster, pool)
        demand = Demand(
            VmName(cluster, cluster, pool, number), self.skus[sku], PlacementConstraints(frozenset(zones) if zones else None),
        )
        answer = self.scheduler.place(demand)
        if not isinstance(answer, tuple):
            sys.exit(f"{name} does not fit: {answer.reason}")
        self.handles[name], place = answer
        self.nodes[name] = {
            "cluster": cluster, "pool": pool, "number": number, "sku": sku, "zones": zones,
            "machine": place.machine, "created": at,
        }  # fmt: skip
        return name

    def lose(self, lost: str, at: datetime) -> None:
        """A server dies; the platform re-creates its nodes elsewhere, oldest first."""
        dead = [name for name, node in self.nodes.items() if node["machine"] == lost]
        blocker = VmName("outage", "outage", "outage", 0)
        size = self.skus["NC_E94_448_v1"]
        for name in dead:
            self.scheduler.release(self.handles[name])
        full = Placement(lost, f"{SITE}-rack3", "3", (0, 1))
        outage = self.scheduler.add_existing(blocker, size, full)
        for name in dead:
            node = self.nodes.pop(name)
            self.add(node["cluster"], node["pool"], node["number"], node["sku"], node["zones"], at)
        self.scheduler.release(outage)


def hash_of(text: str) -> int:
    """Eight hex digits that hang on the text alone."""
    return sum(ord(char) * 131 ** (position % 4) for position, char in enumerate(text)) % (1 << 32)


def machine(rack: int, slot: int) -> Machine:
    """A server of BOM 1.7.3."""
    return Machine(f"par1c{rack}co{slot:02d}", f"{SITE}-rack{rack}", str(rack), slot, "bom-1.7.3", 2, 48, 224, 3500)


def month(number: int) -> datetime:
    """The first day of a month since the site was built."""
    return datetime(2024, 1, 9, 8, 30, tzinfo=UTC) + timedelta(days=30 * number)


def history() -> Site:
    """Everything that happened."""
    site = Site()
    broken = False
    for cluster, when, plane_sku, pools in CLUSTERS:
        if when >= 16 and not broken:
            site.lose(BROKEN, month(16))
            broken = True
        at = month(when)
        for number in range(CONTROL_PLANES.get(cluster, 3)):
            site.add(cluster, "control-plane", number, plane_sku, (), at + timedelta(minutes=number))
        for place, (pool, sku, count, zones, _) in enumerate(pools, 1):
            for number in range(count):
                minutes = 10 * place + 60 * place + number
                site.add(cluster, pool, number, sku, zones, at + timedelta(minutes=minutes))
    return site


# --- as az prints it ---------------------------------------------------------------------------


def moment(at: datetime) -> str:
    """RFC 3339."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def rack_body(number: int) -> dict[str, Any]:
    """A rack."""
    return {
        "availabilityZone": str(number),
        "clusterId": f"{MANAGED}/clusters/{SITE}",
        "extendedLocation": LOCATION,
        "id": f"{MANAGED}/racks/{SITE}-rack{number}",
        "name": f"{SITE}-rack{number}",
        "rackSkuId": f"{SUBSCRIPTION}/{NETWORKCLOUD}/rackSkus/VNearEdge1_Compute_DellR750_16C2M",
        "type": "microsoft.networkcloud/racks",
    }


def machine_body(one: Machine) -> dict[str, Any]:
    """A bare-metal machine."""
    return {
        "clusterId": f"{MANAGED}/clusters/{SITE}",
        "cordonStatus": "Cordoned" if one.name in CORDONED else "Uncordoned",
        "detailedStatus": "Provisioned",
        "extendedLocation": LOCATION,
        "id": f"{MANAGED}/bareMetalMachines/{one.name}",
        "machineName": one.name,
        "machineRoles": [COMPUTE],
        "machineSkuId": "Compute_DellR750_56C_512GB_4d6n",
        "name": one.name,
        "powerState": "On",
        "rackId": f"{MANAGED}/racks/{one.rack}",
        "rackSlot": one.slot,
        "readyState": "True",
        "type": "microsoft.networkcloud/baremetalmachines",
    }


def node_body(name: str, node: dict[str, Any], skus: Any) -> dict[str, Any]:
    """A node of a cluster's body; zones are null, as the platform leaves them."""
    sku, plane = skus[node["sku"]], node["pool"] == "control-plane"
    pool_id = f"{TENANT}/kubernetesClusters/{node['cluster']}/agentPools/{node['pool']}"
    return {
        "agentPoolId": None if plane else pool_id,
        "availabilityZone": None,
        "bareMetalMachineId": f"{MANAGED}/bareMetalMachines/{node['machine']}" if node["machine"] else None,
        "cpuCores": sku.vcpus,
        "detailedStatus": "Running" if node["machine"] else "Scheduling",
        "diskSizeGB": sku.disk_gib,
        "memorySizeGB": sku.memory_gib,
        "name": name,
        "role": "ControlPlane" if plane else "Worker",
        "vmSkuName": node["sku"],
    }


def pool_body(cluster: str, pool: tuple[str, str, int, tuple[str, ...], str], created: str) -> dict[str, Any]:
    """An agent pool."""
    name, sku, count, zones, mode = pool
    return {
        "availabilityZones": list(zones),
        "count": count,
        "extendedLocation": LOCATION,
        "id": f"{TENANT}/kubernetesClusters/{cluster}/agentPools/{name}",
        "labels": [{"key": "par1.example/pool", "value": name}],
        "mode": mode,
        "name": name,
        "systemData": {"createdAt": created},
        "taints": [{"key": "CriticalAddonsOnly", "value": "true:NoSchedule"}] if mode == "System" else [],
        "type": "microsoft.networkcloud/kubernetesclusters/agentpools",
        "upgradeSettings": {"drainTimeout": 1800, "maxSurge": "1", "maxUnavailable": "0"},
        "vmSkuName": sku,
    }


def cluster_body(
    name: str, when: int, plane_sku: str, nodes: dict[str, dict[str, Any]], skus: Any
) -> dict[str, Any]:
    """An NKS cluster."""
    return {
        "clusterId": f"{MANAGED}/clusters/{SITE}",
        "controlPlaneNodeConfiguration": {
            "availabilityZones": [],
            "count": CONTROL_PLANES.get(name, 3),
            "vmSkuName": plane_sku,
        },
        "extendedLocation": LOCATION,
        "id": f"{TENANT}/kubernetesClusters/{name}",
        "initialAgentPoolConfigurations": [],
        "kubernetesVersion": "v1.29.4",
        "name": name,
        "nodes": [node_body(node, nodes[node], skus) for node in sorted(nodes)],
        "systemData": {"createdAt": moment(month(when))},
        "type": "microsoft.networkcloud/kubernetesclusters",
    }


def kubectl_body(nodes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What `kubectl get nodes -o json` says of the times."""
    items = [
        {"kind": "Node", "metadata": {"creationTimestamp": moment(node["created"]), "name": name}}
        for name, node in sorted(nodes.items())
    ]
    return {"apiVersion": "v1", "items": items, "kind": "List"}


def write(directory: Path, name: str, document: Any) -> None:
    """A JSON file, a resource a line."""
    rows = document if isinstance(document, list) else [document]
    lines = ",\n".join(json.dumps(row, sort_keys=True) for row in rows)
    text = f"[\n{lines}\n]\n" if isinstance(document, list) else f"{lines}\n"
    (directory / name).write_text(text)


def export(directory: Path) -> None:
    """Write all files."""
    site = history()
    # The last two nodes of the lab were asked for when nothing was free for them.
    lab = [node for node in site.nodes.values() if node["pool"] == "lab"]
    for node in sorted(lab, key=lambda node: node["created"])[-2:]:
        node["machine"] = None
    directory.mkdir(parents=True, exist_ok=True)
    write(directory, "racks.json", [rack_body(number) for number in range(1, 9)])
    write(directory, "bare_metal_machines.json", [machine_body(one) for one in site.machines])
    clusters = []
    for name, when, plane_sku, pools in CLUSTERS:
        nodes = {n: node for n, node in site.nodes.items() if node["cluster"] == name}
        clusters.append(cluster_body(name, when, plane_sku, nodes, site.skus))
        bodies = []
        for place, pool in enumerate(pools, 1):
            bodies.append(pool_body(name, pool, moment(month(when) + timedelta(minutes=10 * place))))
        write(directory, f"agent_pools.{name}.json", bodies)
        write(directory, f"nodes.{name}.json", kubectl_body(nodes))
    write(directory, "kubernetes_clusters.json", clusters)
    write(directory, "virtual_machines.json", [])
    (directory / "exported_at").write_text("2026-03-02T06:00:00Z\n")


if __name__ == "__main__":
    export(Path(sys.argv[1] if len(sys.argv) > 1 else "export"))
