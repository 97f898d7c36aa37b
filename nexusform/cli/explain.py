"""`nexusform explain` (alias `why`): explanation of a placement."""

from collections.abc import Callable, Iterator, Sequence

import click
from msgspec import Struct
from msgspec.structs import replace

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_optional_positional,
    declare_positional,
    declare_switch_flag,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, AnswerFormatFlags, is_document, write_answer
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.cli.terminal_screen import Screen
from nexusform.diagnostics.diagnostic import Diagnostic, build_warning, select_errors
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.files.external_files import PLAN_FILE
from nexusform.placement_kinds.registry import format_location_text
from nexusform.rendering.report.report_tree import Report, Section
from nexusform.workflow.object_explanation import Explanations, VmExplanation
from nexusform.workflow.object_explanation import explain_object as find_explanations


class ExplainArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `explain`; `name` is one object at the address, or a pool."""

    address: str = declare_positional()
    name: str = declare_optional_positional("", metavar="[OBJECT]")
    plan: str = declare_text_flag("Use a saved plan", metavar="FILE", file=PLAN_FILE)
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    every: bool = declare_switch_flag("List rejected machines of the whole site")
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    state: str = declare_state_flag()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("explain", ExplainArguments)
def explain(arguments: ExplainArguments) -> int:
    """Explain the placement of OBJECT of the resource ADDRESS, rule by rule.

    Without OBJECT, or with the name of a pool: explain the spread of the pools over the racks.

    Planned objects are explained from the plan. For existing objects the rules are evaluated
    for every location.
    """
    screen = arguments.view.create_screen()
    address = arguments.address
    context = create_context(
        arguments.state, arguments.variables, requires_state=not arguments.plan
    )
    answer = find_explanations(context, address, arguments.name, arguments.plan)
    # No OBJECT was given and no pool is there to describe.
    if answer.objects and not answer.pools:
        names = format_first_items(answer.objects, 20)
        raise click.UsageError(f"{address} has several objects; specify one of: {names}.")
    results = list(_list_answers(answer, arguments))
    # Nothing could be explained, as the errors say.
    if not results:
        return screen.print_failure(answer.diagnostics, answer.sources)
    if arguments.answer.report and len(results) > 1:
        raise click.UsageError(
            f"-report writes one answer, but {len(results)} objects have this name."
        )
    for result in results:
        write_answer(result, arguments.answer, screen)
    _print_problems(answer, arguments, screen)
    return 0


def _list_answers(answer: Explanations, arguments: ExplainArguments) -> Iterator[Answer]:
    """Yield the answers about objects of a domain, pools, and VMs, removed ones last."""
    facts = (f"Inventory: {answer.inventory}.",) if answer.inventory else ()

    def build_answer(report: Report) -> Answer:
        # Before the other facts: the last one may introduce the sections.
        aged_report = replace(report, facts=(*facts, *report.facts))
        return Answer("explain", arguments.address, aged_report)

    yield from map(build_answer, answer.domain_answer.reports)
    # Only VMs need them.
    if not (answer.pools or answer.reasons or answer.removals):
        return
    from nexusform.rendering.answers.explanation_text import (
        build_pools_report,
        build_removal_report,
    )

    if answer.pools:
        yield build_answer(build_pools_report(arguments.address, answer.pools))
    for vm in answer.reasons:
        yield _build_vm_answer(vm, build_answer, is_long=arguments.every)
    yield from map(build_answer, map(build_removal_report, answer.removals))


def _print_problems(answer: Explanations, arguments: ExplainArguments, screen: Screen) -> None:
    """Print the errors of the plan behind an answer, and notes about an object.

    The object is of a domain, such as a fleet.
    """
    errors = select_errors(answer.diagnostics)
    domain_answer = answer.domain_answer
    # The answer is about a configuration with errors: list them all.
    if domain_answer.allows_errors:
        screen.print_diagnostics(errors, answer.sources)
    elif errors and not is_document(arguments.answer):
        # Of the plan: one warning instead of all its errors.
        screen.print_diagnostics([_build_plan_warning(errors)], answer.sources)
    elif errors:
        # A JSON or Markdown document is on stdout.
        click.echo(f"Warning: {_build_plan_warning(errors).detail}", err=True)
    if domain_answer.notes and not is_document(arguments.answer):
        screen.print_diagnostics(domain_answer.notes, answer.sources)


def _build_plan_warning(errors: Sequence[Diagnostic]) -> Diagnostic:
    """Build the warning that the evaluated plan has errors."""
    first_error = (
        f"{errors[0].summary}, {errors[0].address}" if errors[0].address else errors[0].summary
    )
    return build_warning(
        "plan-rejected",
        f"The plan has {format_count(len(errors), 'error')} (first: {first_error}) and cannot be "
        "applied. The explanation is still valid. Run `nexusform plan` to list the errors.",
    )


def _build_vm_answer(
    vm: VmExplanation, build_answer: Callable[[Report], Answer], *, is_long: bool
) -> Answer:
    """Build the answer about a VM; only documents and an `is_long` text list every machine."""
    long_answer = build_answer(_build_vm_report(vm, is_long=True, is_folded=not is_long))
    if is_long:
        return long_answer
    text_answer = build_answer(_build_vm_report(vm, is_long=False, is_folded=True))

    def render_text(colour: bool, width: int) -> str:
        return text_answer.render_text(colour=colour, width=width)

    return replace(long_answer, text=render_text)


def _build_vm_report(vm: VmExplanation, *, is_long: bool, is_folded: bool) -> Report:
    """Build the report about a VM; a long one has ranked and rejected machines."""
    from nexusform.rendering.answers.explanation_text import (
        build_alternatives_section,
        build_explanation_report,
        build_location_section,
        format_vm_certainty,
    )

    explanation = vm.explained_vm.explanation
    facts = _describe_current_placement(vm)
    # The reason to place it now, such as "machine_removed".
    trigger = vm.explained_vm.trigger
    # A planned VM; a running one is described by its location.
    if trigger and vm.current_placement is None:
        facts.append(f"Trigger: {trigger}{_describe_machine(trigger, vm.previous_machine)}.")
    if certainty := format_vm_certainty(vm.certainty, vm.samples):
        facts.append(certainty)
    if vm.uncertainty:
        facts.append(f"This choice is uncertain: {vm.uncertainty}.")
    elsewhere = build_alternatives_section(
        vm.alternatives, explanation.demand, vm.pool_size, is_long=is_long
    )
    remedies = [f"{number}. {remedy['text']}" for number, remedy in enumerate(vm.remedies, 1)]
    fixes = Section("Suggested fixes (tested)", tuple(remedies), name="suggested_fixes")
    sections = [section for section in (elsewhere, fixes) if section.has_content]
    if is_long:
        sections.append(build_location_section(vm.current_placement, explanation.placement))
    report = build_explanation_report(
        vm.object, explanation, facts, sections, is_long=is_long, is_folded=is_folded
    )
    if vm.current_placement is not None:
        verdict = f"If placed again now, with everything else unchanged: {report.verdict}"
        report = replace(report, verdict=verdict)
    return report


def _describe_machine(trigger: str, machine: str, verb: str = "is") -> str:
    """Return a VM's previous machine, and its state after `trigger`: ` (rack1-bm02 is gone)`.

    Return "" without a previous machine.
    """
    if not machine:
        return ""
    state = {"machine_removed": "gone", "heal": "left"}.get(trigger, "emptied")
    return f" ({machine} {verb} {state})"


def _describe_current_placement(vm: VmExplanation) -> list[str]:
    """Return one sentence about the current location of a VM; [] if the plan creates it.

    An example is `core-1 runs on r1 / bm02 (predicted, trigger heal (bm01 was left) at serial 3;
    state serial 7).` The location is predicted or observed. The trigger is the reason of the last
    move, here from bm01 at serial 3.
    """
    if vm.current_placement is None:
        return []
    location = format_location_text(vm.current_placement)
    provenance = f"{vm.provenance}, " if vm.provenance else ""
    last_move = ""
    if vm.last_trigger is not None:
        trigger, serial = vm.last_trigger
        machine_clause = _describe_machine(trigger, vm.previous_machine, "was")
        last_move = f"trigger {trigger}{machine_clause} at serial {serial}; "
    return [f"{vm.object} runs on {location} ({provenance}{last_move}state serial {vm.serial})."]
