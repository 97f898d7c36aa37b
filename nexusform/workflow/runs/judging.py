"""What those that providers speak to make of a plan, as far as it is sound.

A change is judged by the values that it would send. What is in error, and what hangs on that, has none that
anybody means: it is left out, and whoever asks the other side says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from nexusform.address import AddressProblem, parse_address
from nexusform.configuration.declared.configuration import Configuration, ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, Severity, diagnostic, error
from nexusform.graph import reached
from nexusform.planning.conclusion.result import PlanResult
from nexusform.planning.preparation.order import resource_blocks
from nexusform.plans.plan import Action, Change
from nexusform.ports import (
    UNFINISHED,
    ChangeRequest,
    JudgesPlans,
    ObjectKey,
    Provider,
    ProviderProblem,
    TellsVerdict,
)
from nexusform.source import Span

_SENT: Final = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST})
# What refers to these is unknown while they are in error, and nothing unknown is judged.
_UNKNOWN_WHILE_FLAWED: Final = ("locals", "output", "check")
Flaw = Callable[[Change], str]


def judged(
    result: PlanResult,
    providers: Mapping[str, Provider],
    configuration: Configuration,
    refusals: Iterable[Diagnostic],
) -> list[Diagnostic]:
    """What providers know beforehand of the changes that they are to make: errors for what they cannot do.
    `refusals` are what is in error beside what the plan says.
    """
    flaw_of = flaws(result, configuration, refusals)
    diagnostics: list[Diagnostic] = []
    for name, provider in providers.items():
        if not isinstance(provider, JudgesPlans):
            continue
        if isinstance(provider, TellsVerdict):
            changes = _changes_of(result, name, {*_SENT, Action.DELETE})
        else:
            changes = [one for one in _changes_of(result, name) if not flaw_of(one)]
        try:
            said = provider.judge([_request_of(change, flaw_of(change)) for change in changes])
        except ProviderProblem as problem:
            diagnostics.append(error("reading-what-stands-failed", str(problem)))
            continue
        diagnostics += _of_changes(changes, said)
    return diagnostics


def unasked(result: PlanResult, providers: Mapping[str, Provider], why: str) -> list[Diagnostic]:
    """What those that nobody asks say to that. `why` nobody does, in a sentence without its full stop."""
    diagnostics: list[Diagnostic] = []
    for name, provider in providers.items():
        if isinstance(provider, TellsVerdict):
            changes = _changes_of(result, name)
            requests = [_request_of(change, "") for change in changes]
            diagnostics += _of_changes(changes, provider.unasked(requests, why))
    return diagnostics


def _changes_of(result: PlanResult, provider: str, actions: AbstractSet[Action] = _SENT) -> list[Change]:
    """What a provider is to do."""
    return [one for one in result.plan.changes if one.provider == provider and one.action in actions]


def _of_changes(changes: Sequence[Change], said: Iterable[tuple[int, Problem]]) -> Iterator[Diagnostic]:
    """What a provider says of changes, at the place where each is written."""
    for number, each in said:
        change = changes[number]
        about = {"block": change.block, "brief": each.brief}
        yield diagnostic(each.severity, each.id, each.detail, change.source, **about)


def verdicts(providers: Mapping[str, Provider]) -> tuple[str, ...]:
    """What those that providers speak to made of the plan that was judged."""
    said = (provider.verdict() for provider in providers.values() if isinstance(provider, TellsVerdict))
    return tuple(filter(None, said))


def _request_of(change: Change, flaw: str) -> ChangeRequest:
    """A change of a plan as its provider gets it, in one step."""
    key = ObjectKey(change.address.type, change.id, change.creation)
    prior = change.before if change.action in (Action.UPDATE, Action.DELETE) else None
    noted = (change.private or {}).get(UNFINISHED)
    unfinished = noted if prior else None
    return ChangeRequest(
        key,
        str(change.address),
        prior,
        change.after,
        aim=change.after,
        unfinished=unfinished,
        ignored=change.ignored,
        replaces=change.before if change.action is Action.REPLACE else None,
        flaw=flaw,
    )


# --- what is sound -----------------------------------------------------------------------------------


def flaws(result: PlanResult, configuration: Configuration, refusals: Iterable[Diagnostic]) -> Flaw:
    """What keeps a change from being judged, in words, "" for nothing: it is in error, or hangs on a block
    that is, or something is wrong of which nobody can tell what hangs on it.
    """
    errors = [each for each in (*result.plan.diagnostics, *refusals) if each.severity is Severity.ERROR]
    if not errors:
        return _no_flaw
    blocks = list(resource_blocks(configuration))
    known = {str(each.address) for each in blocks} | {
        str(each.address.config) for each in result.plan.changes
    }
    in_error: set[str] = set()
    for each in errors:
        addresses = _blocks_of(each, blocks, known)
        if not addresses and each.block.split(" ")[0] not in _UNKNOWN_WHILE_FLAWED:
            return partial(_of_everything, f"the plan is in error ({each.summary})")
        in_error |= addresses
    needs: dict[str, list[str]] = {}
    for block, need in result.edges:
        needs.setdefault(block, []).append(need)
    return partial(_flaw_of, in_error, needs)


def _no_flaw(_change: Change) -> str:
    return ""


def _of_everything(words: str, _change: Change) -> str:
    return words


def _flaw_of(in_error: set[str], needs: Mapping[str, Sequence[str]], change: Change) -> str:
    own = str(change.address.config)
    if own in in_error:
        return "it is in error"
    for need in sorted(reached(needs.get(own, ()), lambda block: needs.get(block, ()))):
        if need in in_error:
            return f"it hangs on {need}, which is in error"
    return ""


def _blocks_of(found: Diagnostic, blocks: Sequence[ResourceBlock], known: AbstractSet[str]) -> set[str]:
    """The resource and data blocks of which something is wrong: all that are written at that place."""
    subject = found.subject
    at_the_place = {str(b.address) for b in blocks if subject is not None and _is_within(subject, b.span)}
    try:
        named = str(parse_address(found.address).config) if found.address else ""
    except AddressProblem:  # a module's
        named = ""
    return at_the_place | ({named} & known)


def _is_within(part: Span, whole: Span) -> bool:
    return part.filename == whole.filename and whole.start <= part.start < whole.end
