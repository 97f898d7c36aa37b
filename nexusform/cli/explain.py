"""`nexusform explain` (alias `why`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click
from msgspec import Struct

from nexusform.cli.arguments import choice, group, optional, positional, switch, text
from nexusform.cli.commands import command
from nexusform.cli.flags import ViewFlags, place_of, state_flag, variable_flags
from nexusform.cli.screen import Screen
from nexusform.diagnostics import Diagnostic, Severity, warning
from nexusform.placement_kinds.kinds import place_text
from nexusform.plans.impact.pool_reason import PoolReason
from nexusform.plans.plan import PlacementChange
from nexusform.rendering.answers.domain_answer import DomainAnswer
from nexusform.rendering.answers.outline import Outline
from nexusform.words import counted
from nexusform.workflow.explain import Reason
from nexusform.workflow.explain import explain as find_explanations


class ExplainArguments(Struct, frozen=True, kw_only=True):
    """What `explain` takes; `name` is one object of what stands at the address, or a pool."""

    address: str = positional()
    name: str = optional("", metavar="[OBJECT]")
    plan: str = text("Use a saved plan", metavar="FILE")
    format: str = choice("Set the output format", ("text", "markdown", "json"))
    every: bool = switch("List rejected machines of the whole site")
    variables: tuple[tuple[str, str], ...] = variable_flags()
    state: str = state_flag()
    view: ViewFlags = group(ViewFlags)


@command("explain", ExplainArguments)
def explain(arguments: ExplainArguments) -> int:
    """Explain the placement of OBJECT of the resource ADDRESS, rule by rule.

    Without OBJECT, or with the name of a pool: explain the spread of the pools over the racks.

    Planned objects are explained from the plan. For existing objects the rules are evaluated for
    every location.
    """
    screen = arguments.view.screen()
    address = arguments.address
    place = place_of(arguments.state, arguments.variables)
    answer = find_explanations(place, address, arguments.name, arguments.plan)
    if answer.objects and not answer.pools:
        names = _listed(answer.objects)
        raise click.UsageError(f"{address} has several objects; name one of them: {names}.")
    of_domain = answer.of_domain or DomainAnswer()
    texts = [_told(*each, arguments, screen) for each in of_domain.answers]
    if answer.pools:
        texts.append(_pools(address, answer.pools, arguments, screen))
    texts += [_object(reason, arguments, screen) for reason in answer.reasons]
    texts += [_leaving(row, arguments, screen) for row in answer.leaving]
    if not texts:
        screen.diagnostics(answer.diagnostics, answer.sources)
        return 1
    for each in texts:
        screen.out(each, end="")
    errors = [each for each in answer.diagnostics if each.severity is Severity.ERROR]
    if of_domain.goes_far:
        screen.diagnostics(errors, answer.sources)
    elif errors and arguments.format == "text":
        screen.diagnostics([_refusal(errors)], answer.sources)
    elif errors:
        click.echo(f"Warning: {_refusal(errors).detail}", err=True)
    if of_domain.notes and arguments.format == "text":
        screen.diagnostics(of_domain.notes, answer.sources)
    return 0


def _refusal(errors: Sequence[Diagnostic]) -> Diagnostic:
    """The warning that the plan which was looked at has errors."""
    first = f"{errors[0].summary}, {errors[0].address}" if errors[0].address else errors[0].summary
    return warning(
        "the-plan-is-refused",
        f"The plan that was looked at has {counted(len(errors), 'error')} (the first: {first}), so it cannot "
        "be applied. The answer says what its rules do all the same; `nexusform plan` shows what is wrong.",
    )


def _told(outline: Outline, document: dict[str, Any], arguments: ExplainArguments, screen: Screen) -> str:
    """What a domain answers, in the format that is asked for."""
    return _json_text(document) if arguments.format == "json" else _outlined(outline, arguments, screen)


def _pools(address: str, pools: tuple[PoolReason, ...], arguments: ExplainArguments, screen: Screen) -> str:
    from nexusform.rendering.answers.pool_outline import pools_document, pools_outline

    if arguments.format == "json":
        return _json_text(pools_document(address, pools))
    return _outlined(pools_outline(address, pools), arguments, screen)


def _leaving(row: PlacementChange, arguments: ExplainArguments, screen: Screen) -> str:
    """Why a VM goes: no rule is asked for that."""
    from nexusform.rendering.answers.explanation_text import LEAVING, leaving_outline

    if arguments.format == "json":
        return _json_text(LEAVING(row))
    return _outlined(leaving_outline(row), arguments, screen)


def _json_text(document: dict[str, Any]) -> str:
    from nexusform.rendering.notation.json_values import json_bytes

    return json_bytes(document, pretty=True).decode()


def _outlined(outline: Outline, arguments: ExplainArguments, screen: Screen) -> str:
    """An answer as Markdown, or for a terminal."""
    from nexusform.rendering.answers.outline import outline_markdown, outline_text

    if arguments.format == "markdown":
        return outline_markdown(outline)
    return outline_text(outline, colour=screen.colour, width=screen.width)


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:20])
    return f"{shown} and {len(names) - 20} more" if len(names) > 20 else shown


def _object(reason: Reason, arguments: ExplainArguments, screen: Screen) -> str:
    """Why a VM is where it is, in the format that is asked for."""
    if arguments.format == "json":
        return _json(reason)
    from nexusform.rendering.answers.explanation_text import elsewhere_lines

    explanation = reason.explained.explanation
    elsewhere = elsewhere_lines(reason.ways, explanation.demand, reason.pool_size)
    if arguments.format == "markdown":
        from nexusform.rendering.answers.explanation_text import certainty_text, explanation_outline
        from nexusform.rendering.answers.outline import outline_markdown

        certainty = certainty_text(reason.certainty, reason.tie_breaks)
        facts = [*_standing_lines(reason), *([certainty] if certainty else []), *_trigger(reason)]
        tried = [f"Tried just now: {way['text']}" for way in reason.ways_out]
        lines = [*elsewhere, *tried]
        return outline_markdown(explanation_outline(reason.object, explanation, facts, lines))
    return _text(reason, elsewhere, arguments, screen)


def _text(reason: Reason, elsewhere: Sequence[str], arguments: ExplainArguments, screen: Screen) -> str:
    """Why a VM stands where it stands, for a terminal."""
    from nexusform.rendering.answers.explanation_text import render_explanation
    from nexusform.rendering.notation.colours import hang, harmless, wrap

    explanation = render_explanation(
        reason.object,
        reason.explained.explanation,
        reason.certainty,
        reason.tie_breaks,
        every=arguments.every,
        colour=screen.colour,
    )
    before = [harmless(line) for line in _standing_lines(reason)]
    after = _trigger(reason)
    if elsewhere:
        after.append("To stand elsewhere:")
    for line in elsewhere:
        first, *rest = wrap(harmless(line), screen.width - 4)
        after.append(f"  - {first}")
        after += [f"    {more}" for more in rest]
    if reason.ways_out:
        after.append("Ways out, tried just now:")
    for number, way in enumerate(reason.ways_out, 1):
        first, *rest = wrap(harmless(way["text"]), screen.width - 4)
        after.append(f" {number}. {first}")
        after += [f"    {more}" for more in rest]
    text = "".join(f"{line}\n" for line in before) + explanation + "".join(f"{line}\n" for line in after)
    return hang(text, screen.width)


def _trigger(reason: Reason) -> list[str]:
    trigger = reason.explained.trigger
    if not trigger or reason.stands is not None:
        return []
    return [f"Trigger: {trigger}{_of_machine(trigger, reason.left)}."]


# What becomes of the machine that a VM leaves, by why it does.
_BECOMES: Final = {"machine_removed": "gone", "heal": "left"}


def _of_machine(trigger: str, machine: str, verb: str = "is") -> str:
    """Which machine failed, or is emptied."""
    if not machine:
        return ""
    return f" ({machine} {verb} {_BECOMES.get(trigger, 'emptied')})"


def _standing_lines(reason: Reason) -> list[str]:
    """Where a VM stands and since when, before the rules are asked again."""
    if reason.stands is None:
        return []

    place = place_text(reason.stands)
    known = f"{reason.provenance}, " if reason.provenance else ""
    if reason.came is not None:
        trigger, serial = reason.came
        known += f"trigger {trigger}{_of_machine(trigger, reason.left, 'was')} at serial {serial}; "
    return [
        f"{reason.object} stands on {place} ({known}state serial {reason.serial}).",
        "Placed again today, with everything else where it is:",
    ]


def _json(reason: Reason) -> str:
    from nexusform.placement_kinds.kinds import place_document
    from nexusform.rendering.answers.explanation_text import elsewhere_document, explanation_document

    came = reason.came or (reason.explained.trigger if reason.stands is None else "", None)
    document = {
        "address": str(reason.address),
        "trigger": came[0],
        "left_machine": reason.left or None,
        "serial": came[1],
        "stands": place_document(reason.stands),
        "provenance": reason.provenance or None,
        **explanation_document(
            reason.object, reason.explained.explanation, reason.certainty, reason.tie_breaks
        ),
        "elsewhere": elsewhere_document(reason.ways),
        "ways_out": list(reason.ways_out),
    }
    return _json_text(document)
