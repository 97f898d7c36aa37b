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
# Files per resource provider: `inventory-UUID.json`, `traits-UUID.json`.
# Files per image, server and hypervisor: `image-ID.json`, `topology-ID.json`, `hypervisor-ID.json`.
INVENTORY = "inventory"
TRAITS = "traits"
IMAGE = "image"
TOPOLOGY = "topology"
HYPERVISOR = "hypervisor"
_NAMES_OF_OBJECTS: Final = (INVENTORY, TRAITS, IMAGE, TOPOLOGY, HYPERVISOR)
# Nova has no API for the NUMA cells and PCI devices of hosts: they are columns of its database.
COMPUTE_NODES: Final = "compute_nodes"
_QUERY: Final = """SELECT JSON_OBJECT(
    'hypervisor_hostname', hypervisor_hostname, 'numa_topology', numa_topology,
    'pci_stats', pci_stats, 'supported_instances', supported_instances, 'stats', stats
) FROM compute_nodes WHERE deleted = 0;"""


def build_openstack_script(directory: str) -> str:
    """Return the script.

    It changes nothing in OpenStack. It removes the files of an earlier capture first, tries all
    commands, and exits with 1 if one failed.
    """
    lines = [f"run {name} {command}" for name, command in COMMANDS.items()]
    names = (*COMMANDS, COMPUTE_NODES, *(f"{name}-*" for name in _NAMES_OF_OBJECTS))
    return f"""#!/bin/sh
# Lists compute hosts with the openstack command line. Changes nothing.
# Run it as an administrator; it needs osc-placement. Its exit code is 1 if a command failed.
set -u
directory={shlex.quote(directory)}
ids=$directory/ids.part
failed=0
mkdir -p "$directory"
# Files of an earlier capture are older than exported_at.
for name in {" ".join(shlex.quote(name) for name in names)}; do
    rm -f "$directory/"$name.json "$directory/"$name.json.part "$directory/"$name.error
done
rm -f "$ids" "$directory/nodes.part"
date -u +%Y-%m-%dT%H:%M:%SZ >"$directory/exported_at"
report() {{ # WHAT
    echo "not listed: $1" >&2
    failed=1
}}
run() {{ # FILE ARGUMENT...
    file=$directory/$1
    shift
    if openstack "$@" -f json >"$file.json.part" 2>"$file.error"; then
        mv "$file.json.part" "$file.json"
        rm -f "$file.error"
    else
        rm -f "$file.json.part"
        report "openstack $*: $(head -1 "$file.error")"
    fi
}}
list_ids() {{ # COLUMN ARGUMENT...
    column=$1
    shift
    if ! openstack "$@" -f value -c "$column" >"$ids"; then
        : >"$ids"
        report "openstack $*"
    fi
}}
{chr(10).join(lines)}
list_ids uuid resource provider list
for uuid in $(cat "$ids"); do
    run "{INVENTORY}-$uuid" resource provider inventory list "$uuid"
    run "{TRAITS}-$uuid" --os-placement-api-version 1.6 resource provider trait list "$uuid"
done
list_ids ID hypervisor list
for id in $(cat "$ids"); do
    run "{HYPERVISOR}-$id" hypervisor show "$id"
done
list_ids ID image list
for id in $(cat "$ids"); do
    run "{IMAGE}-$id" image show "$id"
done
# NUMA cells of servers with dedicated CPUs, NUMA cells or memory pages.
list_ids ID server list --all-projects
for id in $(cat "$ids"); do
    run "{TOPOLOGY}-$id" --os-compute-api-version 2.78 server show --topology "$id"
done
rm -f "$ids"
# Failed builds, NUMA cells, PCI devices and supported instances of hosts are only in the database
# of Nova. NOVA_DATABASE names it, for example nova_cell1. Those of several cells have blanks
# between them.
# mysql reads user and password from ~/.my.cnf.
cell=$directory/cell.part
for database in ${{NOVA_DATABASE:-}}; do
    if mysql --batch --raw --skip-column-names "$database" >"$cell" <<'END'
{_QUERY}
END
    then
        cat "$cell" >>"$directory/nodes.part"
    else
        report "table compute_nodes of the database $database"
    fi
done
if [ -z "${{NOVA_DATABASE:-}}" ]; then
    echo "not read: failed builds, NUMA cells and devices of hosts (set NOVA_DATABASE)" >&2
elif [ -s "$directory/nodes.part" ]; then
    awk 'BEGIN {{ print "[" }} NR > 1 {{ print "," }} {{ print }} END {{ print "]" }}' \\
        "$directory/nodes.part" >"$directory/{COMPUTE_NODES}.json"
fi
rm -f "$cell" "$directory/nodes.part"
exit $failed
"""
