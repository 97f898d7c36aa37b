# Policies over `nexusform show -json PLANFILE`; see ../conftest.md.
package main

import rego.v1

# Reasons for which a VM may move without anybody being asked.
repairs := {"machine_removed", "machine_evacuated", "node_deleted", "heal"}

deny contains message if {
	some row in input.placement_changes
	row.kind == "vm"
	row.action == "move"
	not row.trigger in repairs
	message := sprintf("%s moves from %s to %s (%s)", [row.object, row.from.machine, row.to.machine, row.trigger])
}

# A plan that was refused or breaks a guard rail is no plan to be merged.
deny contains message if {
	some finding in input.diagnostics
	finding.level == "error"
	message := sprintf("refused: %s", [finding.summary])
}

deny contains "the plan is in error" if input.errored

# What runs loses its machine.
deny contains message if {
	some row in input.placement_changes
	row.action == "lose_machine"
	message := sprintf("%s loses its machine", [row.object])
}

# Every pool of three VMs or more stands on two racks at least.
deny contains message if {
	some table in input.placement_tables
	table.total_count >= 3
	count(table.actual_vms_per_rack) == 1
	message := sprintf("all of %s/%s stands on one rack", [table.cluster, table.pool])
}

# Nothing that holds VMs is destroyed in passing.
deny contains message if {
	some change in input.resource_changes
	change.type == "nexus_kubernetes_cluster"
	"delete" in change.change.actions
	message := sprintf("%s is destroyed", [change.address])
}

warn contains message if {
	some finding in input.diagnostics
	finding.level == "warning"
	not finding.held_before
	message := finding.summary
}
