"""Shell script for the files of data openstack_inventory."""

import shlex
from typing import Final

# File to the arguments of `openstack` that print it.
COMMANDS: Final = {
    "hypervisors": "hypervisor list --long",
    "compute_services": "compute service list --service nova-compute",
    "availability_zones": "availability zone list --compute --long",
    "aggregates": "aggregate list --long",
    "flavors": "flavor list --all --long",
    "servers": "server list --all-projects --long",
    "server_groups": "--os-compute-api-version 2.64 server group list --all-projects --long",
    "resource_providers": "resource provider list",
}
# Files per resource provider: `inventory-UUID.json`. Files per image and server: `image-ID.json`,
# `topology-ID.json`.
INVENTORY = "inventory"
TRAITS = "traits"
IMAGE = "image"
TOPOLOGY = "topology"
# Nova has no API for the NUMA cells and PCI devices of hosts: they are columns of its database.
COMPUTE_NODES: Final = "compute_nodes"
_QUERY: Final = """SELECT JSON_OBJECT(
    'hypervisor_hostname', hypervisor_hostname, 'numa_topology', numa_topology,
    'pci_stats', pci_stats, 'supported_instances', supported_instances
) FROM compute_nodes WHERE deleted = 0;"""


def build_openstack_script(directory: str) -> str:
    """Return the script.

    It changes nothing in OpenStack.
    """
    lines = [f"run {name} {command}" for name, command in COMMANDS.items()]
    return f"""#!/bin/sh
# Lists compute hosts with the openstack command line. Changes nothing.
# Run it as an administrator; it needs osc-placement.
set -u
directory={shlex.quote(directory)}
mkdir -p "$directory"
run() {{ # FILE ARGUMENT...
    file=$directory/$1
    shift
    if openstack "$@" -f json >"$file.json.part" 2>"$file.error"; then
        mv "$file.json.part" "$file.json"
        rm -f "$file.error"
    else
        rm -f "$file.json.part" "$file.json"
        echo "not listed: openstack $*: $(head -1 "$file.error")" >&2
    fi
}}
{chr(10).join(lines)}
for uuid in $(openstack resource provider list -f value -c uuid); do
    run "{INVENTORY}-$uuid" resource provider inventory list "$uuid"
    run "{TRAITS}-$uuid" --os-placement-api-version 1.6 resource provider trait list "$uuid"
done
for id in $(openstack hypervisor list -f value -c ID); do
    run "hypervisor-$id" hypervisor show "$id"
done
for id in $(openstack image list -f value -c ID); do
    run "{IMAGE}-$id" image show "$id"
done
# NUMA cells of servers with dedicated CPUs, NUMA cells or memory pages.
for id in $(openstack server list --all-projects -f value -c ID); do
    run "{TOPOLOGY}-$id" --os-compute-api-version 2.78 server show --topology "$id"
done
# NUMA cells, PCI devices and supported instances of hosts are only in the database of Nova,
# for example nova_cell1.
# mysql reads user and password from ~/.my.cnf.
if [ -n "${{NOVA_DATABASE:-}}" ]; then
    if mysql --batch --raw --skip-column-names "$NOVA_DATABASE" >"$directory/nodes.part" <<'END'
{_QUERY}
END
    then
        awk 'BEGIN {{ print "[" }} NR > 1 {{ print "," }} {{ print }} END {{ print "]" }}' \\
            "$directory/nodes.part" >"$directory/{COMPUTE_NODES}.json"
    else
        rm -f "$directory/{COMPUTE_NODES}.json"
        echo "not listed: table compute_nodes of the database $NOVA_DATABASE" >&2
    fi
    rm -f "$directory/nodes.part"
fi
date -u +%Y-%m-%dT%H:%M:%SZ >"$directory/exported_at"
"""
