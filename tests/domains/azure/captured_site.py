"""Export of a site from a state in the form of Azure, with random node names."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

GROUP = "/subscriptions/s/resourceGroups/g/providers/Microsoft.NetworkCloud"
COMPUTE = "platform.afo-nc.microsoft.com/compute-plane=true"


def write_site_export(state: dict[str, Any], directory: Path) -> None:
    """Write the export of a state."""
    directory.mkdir(parents=True)

    def write_bodies(kind: str, bodies: list[dict[str, Any]]) -> None:
        (directory / f"{kind}.json").write_text(json.dumps(bodies))

    objects = [
        (resource["type"], instance["attributes"], instance["creation"])
        for resource in state["resources"]
        for instance in resource["instances"]
    ]
    racks = [values for kind, values, _ in objects if kind == "nexus_rack"]
    clusters = [
        (made, values) for kind, values, made in objects if kind == "nexus_kubernetes_cluster"
    ]
    write_bodies("racks", [build_rack_body(rack) for rack in racks])
    write_bodies(
        "bare_metal_machines", [body for rack in racks for body in build_machine_bodies(rack)]
    )
    write_bodies("virtual_machines", [])
    random = Random(7)
    ordered = sorted(clusters, key=lambda pair: pair[0])
    bodies = [build_cluster_body(values, made, random) for made, values in ordered]
    write_bodies("kubernetes_clusters", bodies)
    write_pool_lists(directory, bodies)


def write_pool_lists(directory: Path, clusters: list[dict[str, Any]]) -> None:
    """Write the agent pools of each cluster as it was created with them."""
    for cluster in clusters:
        values = {**cluster, **cluster.get("properties", {})}
        pools = [
            {"id": f"{cluster['id']}/agentPools/{pool['name']}", **pool}
            for pool in values["initialAgentPoolConfigurations"]
        ]
        (directory / f"agent_pools.{cluster['name']}.json").write_text(json.dumps(pools))


def build_rack_body(rack: dict[str, Any]) -> dict[str, Any]:
    name = rack["name"]
    sku = "VNearEdge1_Compute_DellR750_16C2M"
    zone = rack["availability_zone"]
    return {"id": f"{GROUP}/racks/{name}", "name": name, "availabilityZone": zone, "rackSkuId": sku}


def build_machine_bodies(rack: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "id": f"{GROUP}/bareMetalMachines/{name}",
            "name": name,
            "rackId": f"{GROUP}/racks/{rack['name']}",
            "rackSlot": machine["slot"],
            "machineRoles": [COMPUTE],
            "cordonStatus": "Uncordoned",
            "powerState": "On",
            "readyState": "True",
            "detailedStatus": "Provisioned",
            "clusterId": f"{GROUP}/clusters/lab",
        }
        for name, machine in rack["machines"].items()
    ]


def build_cluster_body(cluster: dict[str, Any], made: int, random: Random) -> dict[str, Any]:
    cluster_id = f"{GROUP}/kubernetesClusters/{cluster['name']}"
    nodes = [
        {
            "name": f"{cluster['name']}-{node['pool']}-{random.randrange(16**8):08x}",
            "role": node["role"],
            "agentPoolId": f"{cluster_id}/agentPools/{node['pool']}"
            if node["role"] == "Worker"
            else None,
            "vmSkuName": node["vm_sku_name"],
            "bareMetalMachineId": f"{GROUP}/bareMetalMachines/{node['machine']}",
        }
        for node in cluster["nodes"].values()
    ]
    random.shuffle(nodes)
    pools = cluster["agent_pool"]
    return {
        "id": cluster_id,
        "name": cluster["name"],
        "clusterId": f"{GROUP}/clusters/lab",
        "systemData": {"createdAt": f"2024-01-{made % 28 + 1:02d}T00:00:00Z"},
        "controlPlaneNodeConfiguration": build_pool_body(cluster["control_plane"]),
        "initialAgentPoolConfigurations": [
            {"name": name, "mode": pools[name]["mode"], **build_pool_body(pools[name])}
            for name in cluster["agent_pool_order"]
        ],
        "nodes": nodes,
    }


def build_pool_body(pool: dict[str, Any]) -> dict[str, Any]:
    zones = pool["availability_zones"] or []
    return {"count": pool["count"], "vmSkuName": pool["vm_sku_name"], "availabilityZones": zones}
