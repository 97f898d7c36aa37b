"""`nexusform simulate placement`: feasibility of a placement before anyone writes it."""

from __future__ import annotations

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_number, declare_text_flag
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer, AnswerFormatFlags, write_answer
from nexusform.cli.shared_flags import ViewFlags, create_context, declare_state_flag, declare_variable_flags
from nexusform.diagnostics.diagnostic import has_errors


class PlacementArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate placement`."""

    file: str = declare_text_flag("Place the objects of this manifest file", metavar="MANIFEST", flag="f")
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
    placements count together. Changes nothing and contacts no hub. Exit code 2 if it does not run on
    every selected cluster, or if fewer clusters match than requested.
    """
    path = arguments.file.removeprefix("=")  # the parser takes the rest of `-f=FILE` as the value
    if not path:
        raise click.UsageError("No manifests given. Use -f=MANIFEST.")
    if arguments.pick is not None and arguments.clusters:
        raise click.UsageError("-pick and -clusters cannot be combined.")
    from nexusform.domains.whatif.rendering.placement_feasibility_report import (
        build_placement_document,
        build_placement_report,
        select_placement,
    )
    from nexusform.domains.whatif.workflow.placement_planning import plan_trial_placement, read_trial_manifests

    screen = arguments.view.create_screen()
    context = create_context(arguments.state, arguments.variables)
    clusters = tuple(filter(None, (name.strip() for name in arguments.clusters.split(","))))
    trial, problems = read_trial_manifests(path, arguments.pick, clusters, context)
    if trial is None:
        screen.print_diagnostics(problems, {})
        return 1
    planned = plan_trial_placement(trial, context)
    if planned.plan is None or has_errors(planned.diagnostics):
        screen.print_diagnostics(planned.diagnostics, planned.sources)
        return 1
    answer = select_placement(planned.plan, trial)
    report = build_placement_report(answer, path)
    origin = "the configuration of this directory"
    return write_answer(Answer("placement", origin, report, build_placement_document(answer)), arguments.answer, screen)
