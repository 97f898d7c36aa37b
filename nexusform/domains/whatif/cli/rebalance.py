"""`nexusform simulate rebalance`: the fewest evictions to let all pods run."""

from __future__ import annotations

from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, AnswerFormatFlags, write_answer
from nexusform.cli.shared_flags import ViewFlags, create_context, declare_state_flag, declare_variable_flags
from nexusform.diagnostics.diagnostic import has_errors


class RebalanceArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate rebalance`."""

    source_cluster: str = declare_text_flag("Evict from this cluster only", metavar="CLUSTER", flag="from")
    placement: str = declare_text_flag("Let the pods of this placement run", metavar="PLACEMENT", flag="for")
    generate_config_out: str = declare_text_flag("Write the evictions to a new file", metavar="FILE")
    answer: AnswerFormatFlags = declare_flag_group(AnswerFormatFlags)
    state: str = declare_state_flag()
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("rebalance", RebalanceArguments)
def simulate_rebalance(arguments: RebalanceArguments) -> int:
    """Find the fewest evictions to let the pods of all placements run, with a proof.

    Plans the configuration of the directory with evictions, from the state. Budgets count. Changes
    nothing and contacts no hub. Exit code 2 if no evictions help, or if nodes are not known.
    """
    from nexusform.domains.whatif.questions.eviction_search import RebalanceRequest
    from nexusform.domains.whatif.rendering.rebalance_report import build_rebalance_document, build_rebalance_report
    from nexusform.domains.whatif.workflow.rebalance_planning import (
        check_output_path,
        plan_rebalancing,
        write_rebalancing,
    )

    screen = arguments.view.create_screen()
    path = arguments.generate_config_out
    problems = check_output_path(path) if path else []
    if problems:
        screen.print_diagnostics(problems, {})
        return 1
    context = create_context(arguments.state, arguments.variables)
    request = RebalanceRequest(arguments.source_cluster, arguments.placement)
    rebalancing = plan_rebalancing(request, context)
    if rebalancing.result is None:
        screen.print_diagnostics(rebalancing.diagnostics, rebalancing.sources)
        return 1
    if path and rebalancing.evictions:
        problems = write_rebalancing(path, rebalancing, context)
        screen.print_diagnostics(problems, {})
        if has_errors(problems):
            return 1
    result = rebalancing.result
    report = build_rebalance_report(result, rebalancing.evictions, rebalancing.taints, path)
    origin = "the state and the configuration of this directory"
    answer = Answer("rebalance", origin, report, build_rebalance_document(result))
    return write_answer(answer, arguments.answer, screen)
