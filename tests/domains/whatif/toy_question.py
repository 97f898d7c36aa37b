"""A question of one file: the machines of a site with the most VMs, after edits of the site."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer
from nexusform.domains.whatif.cli.simulate import SimulationFlags, run_question
from nexusform.domains.whatif.questions.name_lookup import find_machine
from nexusform.domains.whatif.workflow.simulation_input import SimulationInput
from nexusform.planning.edits import LostMachines
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.snapshots.snapshot import Snapshot


class BusyMachineArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate busy-machines`."""

    without: str = declare_text_flag("Lose this machine first", metavar="ID")
    question: SimulationFlags = declare_flag_group(SimulationFlags)


@define_command("busy-machines", BusyMachineArguments)
def busy_machines(arguments: BusyMachineArguments) -> int:
    """List the VMs per machine after the loss of a machine."""

    def build_answer(snapshot: Snapshot, inputs: SimulationInput) -> Answer:
        """Plan the edit, and build the sections."""
        site, machine = find_machine(snapshot, arguments.without)
        after = inputs.start.plan_site(site.id, [LostMachines(site.id, (machine,))])
        vms = [vm for vm_object in after.objects.values() for vm in vm_object.list_placed_vms()]
        counts = Counter(vm.placement.machine for vm in vms)
        rows = tuple(Row((name, str(count))) for name, count in sorted(counts.items()))
        table = Table(("machine", "VMs"), rows, number_columns=frozenset({1}))
        section = Section("Busy machines", table=table)
        verdict = f"{len(counts)} machines run VMs."
        report = Report(f"Busy machines of {site.id}", verdict, False, sections=(section,))
        return Answer("busy-machines", inputs.origin, report)

    return run_question(arguments.question, build_answer)
