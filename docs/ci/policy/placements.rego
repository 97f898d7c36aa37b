# Policies over `nexusform show -json PLANFILE`; see ../conftest.md.
package main

import rego.v1

# Triggers that allow a VM to move.
repairs := {"machine_removed", "machine_evacuated", "node_deleted", "heal"}

deny contains message if {
	some row in input.placement_changes
	row.kind == "vm"
	row.action == "move"
	not row.trigger in repairs
	message := sprintf("%s moves from %s to %s (%s)", [row.object, row.from.machine, row.to.machine, row.trigger])
}

# Deny a failed plan, or one that exceeds a guard rail.
deny contains message if {
	some finding in input.diagnostics
	finding.level == "error"
	message := sprintf("plan failed: %s", [finding.summary])
}

deny contains "the plan is in error" if input.errored

# Deny VMs on removed machines.
deny contains message if {
	some row in input.placement_changes
	row.action == "host_lost"
	message := sprintf("%s: its machine is removed", [row.object])
}

# Every pool of three or more VMs uses at least two racks.
deny contains message if {
	some table in input.placement_tables
	table.total_count >= 3
	count(table.actual_vms_per_rack) == 1
	message := sprintf("all VMs of %s/%s are on one rack", [table.cluster, table.pool])
}

# Deny destroyed clusters.
deny contains message if {
	some change in input.resource_changes
	change.type == "nexus_kubernetes_cluster"
	"delete" in change.change.actions
	message := sprintf("%s is destroyed", [change.address])
}

warn contains message if {
	some finding in input.diagnostics
	finding.level == "warning"
	not finding.preexisting
	message := finding.summary
}
