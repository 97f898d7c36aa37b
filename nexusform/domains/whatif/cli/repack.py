"""`nexusform simulate repack`: capacity by re-creating the minimum number of VMs."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from nexusform.cli.arguments import (
    declare_flag_group,
    declare_number,
    declare_repeatable_text,
    declare_text_flag,
)
from nexusform.cli.commands import define_command
from nexusform.cli.report_output import Answer
from nexusform.diagnostics.missing_packages import format_installation
from nexusform.domains.whatif.cli.simulate import SimulationFlags, run_question
from nexusform.domains.whatif.questions.repack_context import NO_TIME_LIMIT, TimeBudget
from nexusform.domains.whatif.workflow.simulation_input import SimulationInput
from nexusform.snapshots.snapshot import Snapshot

# Only pages have maps.
if TYPE_CHECKING:
    from nexusform.rendering.report.playback import Playback


class RepackArguments(Struct, frozen=True, kw_only=True):
    """Arguments of `simulate repack`."""

    sku: str = declare_text_flag("Free capacity for this VM SKU", metavar="SKU")
    want: int = declare_number("Set the number of VMs to fit", default=1, minimum=1)
    zones: str = declare_text_flag("Use these availability zones", metavar="Z,...")
    site: str = declare_text_flag("Use this site (default: the only one)", metavar="ID")
    moves: int | None = declare_number(
        "Limit the number of re-created VMs", default=None, minimum=1
    )
    window: int | None = declare_number(
        "Limit the VMs re-created at a time", default=None, minimum=1
    )
    without: tuple[str, ...] = declare_repeatable_text(
        "Keep all VMs of this resource, or one (ADDR:OBJECT)", metavar="ADDR", flag="not"
    )
    time: int | None = declare_number(
        "Stop after N seconds with the best result", default=None, minimum=1
    )
    question: SimulationFlags = declare_flag_group(SimulationFlags)


@define_command("repack", RepackArguments)
def repack(arguments: RepackArguments) -> int:
    """Find the fewest VMs to re-create so that the requested VMs fit, with a proof.

    Prints the re-creations per window, with commands and target machines. Changes nothing. Exit
    code 2 if it is impossible. Needs the extra `optimize` (HiGHS).
    """
    from nexusform.domains.whatif.questions.repack_planning import is_solver_installed

    if not arguments.sku:
        raise click.UsageError("No VM SKU given. Use -sku=SKU, and -want=N for the number.")
    if not is_solver_installed():
        message = (
            f"Error: simulate repack needs the extra optimize: {format_installation('optimize')}."
        )
        arguments.question.view.create_screen().print_error(message)
        return 1

    time_budget = NO_TIME_LIMIT
    # The time of reading the state counts, too.
    if arguments.time is not None:
        end = monotonic() + arguments.time
        time_budget = TimeBudget(lambda: end - monotonic())

    def build_answer(snapshot: Snapshot, inputs: SimulationInput) -> Answer:
        """Plan the repacking requested by the flags, with a report and a map."""
        from nexusform.domains.whatif.questions.name_lookup import (
            check_excluded_addresses,
            find_only_site,
            find_skus,
            find_zones,
        )
        from nexusform.domains.whatif.questions.repack_context import RepackRequest
        from nexusform.domains.whatif.questions.repack_planning import plan_repack
        from nexusform.domains.whatif.questions.repack_separation import build_separation_rules
        from nexusform.domains.whatif.rendering.repack_report import build_repack_report

        site = find_only_site(snapshot, arguments.site)
        [sku, *further_skus] = find_skus(site.skus, (arguments.sku,))
        if further_skus:
            raise click.UsageError("Only one SKU is allowed: -sku=SKU.")
        request = RepackRequest(
            sku=sku,
            want=arguments.want,
            zones=find_zones((site,), arguments.zones),
            moves=arguments.moves,
            window=arguments.window,
            excluded=check_excluded_addresses(site, arguments.without),
            separation_rules=build_separation_rules(site, inputs.objects, inputs.pods),
        )
        result = plan_repack(site, request, inputs.pods, time_budget)
        report = build_repack_report(result, inputs.origin)

        def build_playbacks() -> list[Playback]:
            from nexusform.domains.whatif.rendering import map_playbacks

            return [map_playbacks.build_repack_playback(site, result)]

        return Answer("repack", inputs.origin, report, plays=build_playbacks)

    return run_question(arguments.question, build_answer)
