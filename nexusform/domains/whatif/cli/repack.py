"""`nexusform simulate repack`: room by re-creating the fewest VMs elsewhere."""

from __future__ import annotations

from time import monotonic

import click
from msgspec import Struct

from nexusform.cli.answers import Answer, AnswerFlags
from nexusform.cli.arguments import group, number, text, texts
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.domains.whatif.cli.simulate import ask, named
from nexusform.domains.whatif.questions.repack_time import ENDLESS, Patience
from nexusform.domains.whatif.workflow.simulate import AskedWorld
from nexusform.worlds.world_view import WorldView


class RepackArguments(Struct, frozen=True, kw_only=True):
    """What `simulate repack` takes."""

    sku: str = text("Free capacity for this VM SKU", metavar="SKU")
    want: int = number("Set the number of VMs to fit", default=1, at_least=1)
    zones: str = text("Use these availability zones", metavar="Z,...")
    site: str = text("Use this site (default: the only one)", metavar="ID")
    moves: int | None = number("Limit the number of re-created VMs", default=None, at_least=1)
    window: int | None = number("Limit the VMs re-created at a time", default=None, at_least=1)
    without: tuple[str, ...] = texts(
        "Keep all VMs of this resource, or one (ADDR:OBJECT)", metavar="ADDR", flag="not"
    )
    time: int | None = number(
        "Stop after N seconds with the best result",
        default=None,
        at_least=1,
    )
    answer: AnswerFlags = group(AnswerFlags)
    state: str = state_flag()
    variables: tuple[tuple[str, str], ...] = variable_flags()
    view: ViewFlags = group(ViewFlags)


@command("repack", RepackArguments)
def repack(arguments: RepackArguments) -> int:
    """Find the fewest VMs to re-create so that the requested VMs fit, with a proof.

    Prints the re-creations per window, with commands and target machines. Changes nothing. Exit
    code 2 if it is impossible. Needs the extra `optimize` (HiGHS).
    """
    from nexusform.domains.whatif.questions.repack import solver_is_there

    if not arguments.sku:
        raise click.UsageError("Name the VM SKU that wants room: -sku=SKU, and how many with -want=N.")
    if not solver_is_there():
        message = "Error: simulate repack needs the extra optimize: pip install 'nexusform[optimize]'."
        arguments.view.screen().err(message)
        return 1

    patience = _patience(arguments.time)

    def question(view: WorldView, world: AskedWorld) -> Answer:
        from nexusform.domains.whatif.questions.lookup import find_skus, find_spared, find_zones, one_site
        from nexusform.domains.whatif.questions.repack import make_room
        from nexusform.domains.whatif.questions.repack_ground import RepackRequest
        from nexusform.domains.whatif.questions.repack_separation import find_separations
        from nexusform.domains.whatif.rendering.repack_outline import repack_document, repack_outline

        site = named(one_site(view, arguments.site))
        [sku, *more] = named(find_skus(site.skus, (arguments.sku,)))
        if more:
            raise click.UsageError("One SKU at a time: -sku=SKU.")
        request = RepackRequest(
            sku=sku,
            want=arguments.want,
            zones=named(find_zones((site,), arguments.zones)),
            moves=arguments.moves,
            window=arguments.window,
            spared=named(find_spared(site, arguments.without)),
            apart=find_separations(site, world.things, world.pods),
        )
        made = make_room(site, request, world.pods, patience)
        outline = repack_outline(made, world.origin)

        def page() -> str:
            from nexusform.domains.whatif.rendering.simulation_page import repack_play, simulation_page

            return simulation_page(outline, [repack_play(site, made)])

        return Answer("repack", world.origin, outline, repack_document(made), page=page)

    return ask(place_of(arguments.state, arguments.variables), arguments.answer, arguments.view, question)


def _patience(seconds: int | None) -> Patience:
    """The seconds of the whole run, from now on."""
    if seconds is None:
        return ENDLESS
    end = monotonic() + seconds
    return Patience(lambda: end - monotonic())
