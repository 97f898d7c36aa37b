"""What apply says while it works, and at its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nexusform.applying.events import Outcome, StepEvent
from nexusform.plans.plan import StepKind
from nexusform.rendering.notation.colours import PLAIN, Painter, columns, hang, harmless, pad

# Step -> (while it runs, in "Still ...", when it is done).
_WORDS: Final = {
    StepKind.CREATE: ("Creating", "Creation"),
    StepKind.UPDATE: ("Modifying", "Modifications"),
    StepKind.DELETE: ("Destroying", "Destruction"),
    StepKind.RELEASE: ("Releasing", "Release"),
    StepKind.FORGET: ("Forgetting", "Removal from state"),
}


def elapsed_text(seconds: float) -> str:
    """`0s`, `59s`, `1m0s`, `1h2m3s`."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    front = f"{hours}h" if hours else ""
    front += f"{minutes}m" if hours or minutes else ""
    return f"{front}{whole % 60}s"


def _name(step: StepEvent) -> str:
    deposed = f" (deposed object {step.deposed})" if step.deposed else ""
    return harmless(f"{step.address}{deposed}")


def _with_id(text: str, object_id: str, width: int) -> str:
    """A line with the object's id, where there is room for it: nobody reads a line that is broken."""
    line = f"{text} [id={harmless(object_id)}]"
    return line if object_id and (not width or columns(line) <= width) else text


def started_line(step: StepEvent, paint: Painter = PLAIN, width: int = 0) -> str:
    """`ADDR: Creating...`, `ADDR: Modifying... [id=X]`; the id where the line has room (0: always)."""
    text = paint(f"{_name(step)}: {_WORDS[step.kind][0]}...", "bold")
    return text if step.kind is StepKind.CREATE else _with_id(text, step.id, width)


def progress_line(step: StepEvent, paint: Painter = PLAIN, width: int = 0) -> str:
    """`ADDR: Still creating... [id=X, 10s elapsed]`, or what the provider told."""
    if step.news:
        return hang(f"{paint(f'{_name(step)}:', 'bold')} {harmless(step.news)}", width)
    word = _WORDS[step.kind][0].lower()
    text = paint(f"{_name(step)}: Still {word}...", "bold")
    elapsed = f"{elapsed_text(step.elapsed)} elapsed"
    line = f"{text} [id={harmless(step.id)}, {elapsed}]"
    known = step.id and step.kind is not StepKind.CREATE
    return line if known and (not width or columns(line) <= width) else f"{text} [{elapsed}]"


def ended_line(step: StepEvent, paint: Painter = PLAIN, width: int = 0) -> str:
    """`ADDR: Creation complete after 3s [id=X]`, or what went wrong."""
    if step.outcome is Outcome.SKIPPED:
        return hang(f"{_name(step)}: Skipped: {harmless(step.error)}", width)
    word = _WORDS[step.kind][1]
    if step.outcome is Outcome.WAITING:
        verb = "wait" if step.kind is StepKind.UPDATE else "waits"
        head = paint(f"{_name(step)}: {word} {verb}", "bold", "yellow")
        return hang(f"{head}: {harmless(step.error)}", width)
    if step.outcome is Outcome.FAILED:
        text = f"{_name(step)}: {word} errored after {elapsed_text(step.elapsed)}"
        return hang(f"{paint(text, 'bold', 'red')}: {harmless(step.error)}", width)
    text = paint(f"{_name(step)}: {word} complete after {elapsed_text(step.elapsed)}", "bold")
    return text if step.kind in (StepKind.DELETE, StepKind.FORGET) else _with_id(text, step.id, width)


def refreshing_line(address: str, object_id: str, paint: Painter = PLAIN, width: int = 0) -> str:
    """`ADDR: Refreshing state... [id=X]`."""
    return _with_id(paint(f"{harmless(address)}: Refreshing state...", "bold"), object_id, width)


def more_refreshed_line(count: int) -> str:
    """What stands for the objects that were read after the first ones."""
    return f"... and {count:,} more: Refreshing state..."


# --- the end -----------------------------------------------------------------------------------


def apply_complete_line(
    added: int, changed: int, destroyed: int, paint: Painter = PLAIN, *, imported: int = 0, forgotten: int = 0
) -> str:
    """`Apply complete! Resources: A added, C changed, D destroyed.`; tools read it."""
    front = f"{imported} imported, " if imported else ""
    back = f", {forgotten} forgotten" if forgotten else ""
    counts = f"{front}{added} added, {changed} changed, {destroyed} destroyed{back}"
    return paint(f"Apply complete! Resources: {counts}.", "bold", "green")


def destroy_complete_line(destroyed: int, paint: Painter = PLAIN) -> str:
    """`Destroy complete! Resources: D destroyed.`: tools read it."""
    return paint(f"Destroy complete! Resources: {destroyed} destroyed.", "bold", "green")


def nothing_sent_line(provider: str = "simulated") -> str:
    """What follows when the provider reaches no site."""
    return f'Nothing was sent to a site: provider "{provider}" only recorded this.'


_TONES: Final = {
    Outcome.DONE: "green",
    Outcome.FAILED: "red",
    Outcome.WAITING: "yellow",
    Outcome.SKIPPED: "yellow",
}
_SHOWN: Final = 20


def outcome_table(events: Sequence[StepEvent], paint: Painter = PLAIN, width: int = 0) -> str:
    """What was done, failed and was skipped, after an apply that did not go through.

    Failed and waiting steps are listed with the reason, of those that wait its first line: the rest was told
    when they ended. Of done and of skipped ones only the first 20 are.
    """
    steps: dict[Outcome, list[StepEvent]] = {outcome: [] for outcome in Outcome}
    for event in events:
        if event.outcome is not None:
            steps[event.outcome].append(event)
    by_outcome = {
        outcome: ended for outcome, ended in steps.items() if ended or outcome is not Outcome.WAITING
    }
    counts = ", ".join(f"{len(ended)} {outcome.value}" for outcome, ended in by_outcome.items())
    done, skipped = steps[Outcome.DONE], steps[Outcome.SKIPPED]
    listed = [*done[:_SHOWN], *steps[Outcome.FAILED], *steps[Outcome.WAITING], *skipped[:_SHOWN]]
    longest = max((columns(_name(step)) for step in listed), default=0)
    lines = [f"Steps: {counts}.", *(hang(_outcome_line(step, longest, paint), width) for step in listed)]
    for word, ended in (("done", done), ("skipped", skipped)):
        if len(ended) > _SHOWN:
            lines.append(f"  ... and {len(ended) - _SHOWN} more that were {word}.")
    return "\n".join(lines)


def _outcome_line(step: StepEvent, longest: int, paint: Painter) -> str:
    assert step.outcome is not None, "only steps that ended are listed"
    word = paint(pad(step.outcome.value, 7), _TONES[step.outcome])
    reason = step.error.partition("\n")[0] if step.outcome is Outcome.WAITING else step.error
    error = f": {harmless(reason)}" if reason else ""
    return f"  {word}  {pad(_name(step), longest)}  {step.kind.value}{error}"
