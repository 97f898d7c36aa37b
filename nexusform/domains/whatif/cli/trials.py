"""`nexusform simulate placement` and `nexusform simulate rebalance`.

The former shows whether a placement is feasible before anyone writes it, the latter the fewest
evictions to let all pods run.
"""

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_number, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, AnswerFormatFlags, is_document, write_answer
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.diagnostics.diagnostic import has_errors
from nexusform.domains.whatif.cli.simulate import qualify_answer
from nexusform.domains.whatif.workflow.simulation_input import UnreadableInput
from nexusform.domains.whatif.workflow.state_warnings import list_missing_data_of_plan
from nexusform.files.external_files import AllowedWriter, ArgumentFile


class RebalanceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate rebalance`."""

    source_cluster: str = declare_text_flag(
        "Evict from this cluster only", metavar="CLUSTER", flag="from"
    )
    placement: str = declare_text_flag(
        "Let the pods of this placement run", metavar="PLACEMENT", flag="for"
    )
    generate_config_out: str = declare_text_flag(
        "Write the evictions to a new file",
        metavar="FILE",
        file=ArgumentFile("configuration", AllowedWriter.COMMAND),
    )
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    state: str = declare_state_flag()
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("rebalance", RebalanceArguments)
def simulate_rebalance(arguments: RebalanceArguments) -> int:
    """Find the fewest evictions to let the pods of all placements run, with a proof.

    Plans the configuration of the directory with evictions, from the state. Budgets count. Only
    data blocks read servers, and nothing is written. Exit code 2 if no evictions help, or if nodes
    or all pods are not known.
    """
    from nexusform.domains.whatif.questions.placement_trials import RebalanceRequest
    from nexusform.domains.whatif.rendering.trial_reports import build_rebalance_report
    from nexusform.domains.whatif.workflow.trial_planning import (
        check_output_path,
        plan_rebalancing,
        write_rebalancing,
    )

    screen = arguments.view.create_screen()
    path = arguments.generate_config_out
    problems = check_output_path(path) if path else []
    if problems:
        screen.print_diagnostics(problems, sources={})
        return 1
    context = create_context(arguments.state, arguments.variables, requires_state=True)
    request = RebalanceRequest(arguments.source_cluster, arguments.placement)
    try:
        rebalancing = plan_rebalancing(request, context)
    except UnreadableInput as problem:
        screen.print_diagnostics(
            problem.diagnostics, problem.sources, is_aside=is_document(arguments.answer)
        )
        return 1
    if path and rebalancing.evictions:
        problems = write_rebalancing(path, rebalancing, context)
        screen.print_diagnostics(problems, sources={}, is_aside=is_document(arguments.answer))
        if has_errors(problems):
            return 1
    screen.print_diagnostics(
        rebalancing.warnings, rebalancing.sources, is_aside=is_document(arguments.answer)
    )
    result = rebalancing.result
    report = build_rebalance_report(result, rebalancing.evictions, rebalancing.taints, path)
    origin = "the state and the configuration of this directory"
    answer = Answer("rebalance", origin, report)
    return write_answer(qualify_answer(answer, rebalancing.warnings), arguments.answer, screen)


class PlacementArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate placement`."""

    file: str = declare_text_flag(
        "Place the objects of this manifest file",
        metavar="MANIFEST",
        flag="f",
        file=ArgumentFile("manifest"),
    )
    pick: int | None = declare_number("Pick N clusters (default: all)", default=None, minimum=1)
    clusters: str = declare_text_flag("Place on these clusters", metavar="A,B")
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    state: str = declare_state_flag()
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("placement", PlacementArguments)
def simulate_placement(arguments: PlacementArguments) -> int:
    """Predict if a new placement runs: per cluster now, after more nodes, or never.

    Plans the configuration of the directory with one more placement of the manifests. Pods of all
    placements count together. Only data blocks read servers, and nothing is written. Exit code 2
    if it does not run on every selected cluster, or if fewer clusters match than requested.
    """
    # The parser takes the rest of `-f=FILE` as the value.
    path = arguments.file.removeprefix("=")
    if not path:
        raise click.UsageError("No manifests given. Use -f=MANIFEST.")
    if arguments.pick is not None and arguments.clusters:
        raise click.UsageError("-pick and -clusters cannot be combined.")
    from nexusform.domains.whatif.rendering.trial_reports import (
        build_placement_report,
        select_placement,
    )
    from nexusform.domains.whatif.workflow.trial_planning import (
        plan_trial_placement,
        read_trial_manifests,
    )

    screen = arguments.view.create_screen()
    context = create_context(arguments.state, arguments.variables, requires_state=True)
    clusters = tuple(filter(None, (name.strip() for name in arguments.clusters.split(","))))
    try:
        trial = read_trial_manifests(path, arguments.pick, clusters, context)
        plan, sources = plan_trial_placement(trial, context)
    except UnreadableInput as problem:
        screen.print_diagnostics(
            problem.diagnostics, problem.sources, is_aside=is_document(arguments.answer)
        )
        return 1
    warnings = tuple(list_missing_data_of_plan(plan))
    screen.print_diagnostics(warnings, sources, is_aside=is_document(arguments.answer))
    feasibility = select_placement(plan, trial)
    report = build_placement_report(feasibility, path)
    origin = "the configuration of this directory"
    answer = Answer("placement", origin, report)
    return write_answer(qualify_answer(answer, warnings), arguments.answer, screen)
