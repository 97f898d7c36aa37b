"""`nexusform simulate fleet`: the hypothetical plan with other fleet members."""

import click
from msgspec import Struct

from nexusform.cli.arguments import declare_flag_group, declare_repeatable_text
from nexusform.cli.commands import define_command
from nexusform.cli.plan import create_plan_display
from nexusform.cli.planning_flags import PlanDisplayFlags
from nexusform.cli.shared_flags import (
    ViewFlags,
    create_context,
    declare_state_flag,
    declare_variable_flags,
)
from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.whatif.questions.fleet_edits import MemberEditKind, parse_member_edits
from nexusform.domains.whatif.workflow.simulation_input import UnreadableInput
from nexusform.domains.whatif.workflow.trial_planning import begin_trial_run, plan_member_edits


class FleetArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate fleet`: any number of simultaneous edits of members."""

    leave: tuple[str, ...] = declare_repeatable_text(
        "Remove this member from the fleet", metavar="MEMBER"
    )
    drain: tuple[str, ...] = declare_repeatable_text(
        "Cordon this member and evict its placements", metavar="MEMBER"
    )
    join: tuple[str, ...] = declare_repeatable_text(
        "Add a member, like a member or on a cluster", metavar="MEMBER[=LIKE]"
    )
    taint: tuple[str, ...] = declare_repeatable_text(
        "Add a taint; KEY- removes one", metavar="MEMBER:KEY[=VALUE][:NoSchedule]"
    )
    label: tuple[str, ...] = declare_repeatable_text(
        "Set a label; KEY- removes one", metavar="MEMBER:KEY=VALUE"
    )
    property: tuple[str, ...] = declare_repeatable_text(
        "Set a property; NAME- removes one", metavar="MEMBER:NAME=VALUE"
    )
    health: tuple[str, ...] = declare_repeatable_text(
        "Set the health, such as Unhealthy", metavar="MEMBER:HEALTH"
    )
    placement_flags: PlanDisplayFlags = declare_flag_group(PlanDisplayFlags)
    state: str = declare_state_flag()
    variables: tuple[tuple[str, str], ...] = declare_variable_flags()
    view: ViewFlags = declare_flag_group(ViewFlags)


@define_command("fleet", FleetArguments)
def fleet(arguments: FleetArguments) -> int:
    """Plan changes of fleet members: placements, pods, and what else they change.

    All changes apply at once, to the configuration of the directory. Starts from the state:
    only data blocks read servers, and nothing is written. Exit code 2 if the changes cause a
    warning: a placement has too few clusters or pending pods, scheduling stops, or a drained
    member keeps a placement.
    """
    flags = {verb: getattr(arguments, verb.value) for verb in MemberEditKind}
    if not any(flags.values()):
        flag_list = ", ".join(f"-{verb}" for verb in MemberEditKind)
        raise click.UsageError(f"No change given. Specify one or more of {flag_list}.")
    display = create_plan_display(
        arguments.placement_flags, arguments.view, as_json=False, show_sensitive=False
    )
    context = create_context(arguments.state, arguments.variables, requires_state=True)
    try:
        edits = parse_member_edits(flags)
        with begin_trial_run(context) as (run, _):
            answer = plan_member_edits(edits, run)
            display.report_plan(answer.plan, run, next_step=False)
    except DiagnosticsError as rejection:
        sources = rejection.sources if isinstance(rejection, UnreadableInput) else {}
        display.reporter.report_diagnostics(rejection.diagnostics, sources)
        return 1
    if answer.plan.is_rejected:
        return 1
    return 2 if answer.has_findings else 0
