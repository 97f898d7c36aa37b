"""Progress and result lines of an apply."""

from collections.abc import Sequence
from typing import Final

from nexusform.applying.events import StepEvent, StepOutcome
from nexusform.diagnostics.names import escape_control_characters, escape_name
from nexusform.diagnostics.phrases import enclose, group_by
from nexusform.plans.plan import StepKind
from nexusform.rendering.notation.colours import (
    PLAIN,
    Painter,
    count_columns,
    fill_to_width,
    wrap_hanging,
)
from nexusform.rendering.report.plan_sentences import format_object_address

# Step -> (word while it runs, word when it is done).
_STEP_WORDS: Final = {
    StepKind.CREATE: ("Creating", "Creation"),
    StepKind.UPDATE: ("Modifying", "Modifications"),
    StepKind.DELETE: ("Destroying", "Destruction"),
    StepKind.RELEASE: ("Releasing", "Release"),
    StepKind.FORGET: ("Forgetting", "Removal from state"),
}


def format_elapsed(seconds: float) -> str:
    """Format seconds as `0s`, `59s`, `1m0s`, `1h2m3s`."""
    total_minutes, seconds_part = divmod(int(seconds), 60)
    hours, minutes = divmod(total_minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds_part}s"
    return f"{minutes}m{seconds_part}s" if minutes else f"{seconds_part}s"


def _format_name(step: StepEvent) -> str:
    return escape_name(format_object_address(step.address, step.deposed))


def _append_id(text: str, object_id: str, width: int) -> str:
    """Append the id of an object ("" for none) to a line if the width allows it (0: always)."""
    line = f"{text} [id={escape_name(object_id)}]"
    fits = not width or count_columns(line) <= width
    return line if object_id and fits else text


def _append_reason(head: str, reason: str, width: int) -> str:
    """Append the text of a provider to a line.

    Its further lines are indented: none looks like the line of another step.
    """
    text_width = width - 2 if width and "\n" in reason else width
    text = wrap_hanging(f"{head} {escape_control_characters(reason)}", text_width)
    first_line, *further_lines = text.split("\n")
    indented_lines = (
        f"  {line}" if line and not line.startswith(" ") else line for line in further_lines
    )
    return "\n".join([first_line, *indented_lines])


def format_start_line(step: StepEvent, paint: Painter = PLAIN, width: int = 0) -> str:
    """Return `ADDR: Creating...` or `ADDR: Modifying... [id=X]`.

    The id appears if the width allows it (0: always).
    """
    text = paint(
        f"{_format_name(step)}: {_STEP_WORDS[step.kind][0]}...", "bold"
    )  # ("Creating", "Creation")
    # No id before creation.
    return text if step.kind is StepKind.CREATE else _append_id(text, step.id, width)


def format_progress_line(step: StepEvent, paint: Painter = PLAIN, width: int = 0) -> str:
    """Return the message of the provider about a step in progress.

    Without one, return `ADDR: Still reading... [id=X, 10s elapsed]`; the id is omitted if the line
    would be too wide.
    """
    if step.message:
        head = paint(f"{_format_name(step)}:", "bold")
        return _append_reason(head, step.message, width)
    verb, _ = _STEP_WORDS[step.kind]
    text = paint(f"{_format_name(step)}: Still {verb.lower()}...", "bold")
    elapsed = f"{format_elapsed(step.elapsed)} elapsed"
    line_with_id = f"{text} [id={escape_name(step.id)}, {elapsed}]"
    # Not shown before creation, as in OpenTofu.
    has_id = step.id and step.kind is not StepKind.CREATE
    # 0: no limit.
    fits = not width or count_columns(line_with_id) <= width
    return line_with_id if has_id and fits else f"{text} [{elapsed}]"


def format_end_line(step: StepEvent, paint: Painter = PLAIN, width: int = 0) -> str:
    """Return the result of a step, or why it failed, waits or was skipped.

    An example is `ADDR: Creation complete after 3s [id=X]`.
    """
    if step.outcome is StepOutcome.SKIPPED:
        return _append_reason(f"{_format_name(step)}: Skipped:", step.error, width)
    _, noun = _STEP_WORDS[step.kind]
    if step.outcome is StepOutcome.WAITING:
        verb = "wait" if step.kind is StepKind.UPDATE else "waits"  # `Modifications wait`
        head = paint(f"{_format_name(step)}: {noun} {verb}", "bold", "yellow")
        return _append_reason(f"{head}:", step.error, width)
    if step.outcome is StepOutcome.FAILED:
        text = f"{_format_name(step)}: {noun} errored after {format_elapsed(step.elapsed)}"
        return _append_reason(f"{paint(text, 'bold', 'red')}:", step.error, width)
    text = paint(
        f"{_format_name(step)}: {noun} complete after {format_elapsed(step.elapsed)}", "bold"
    )
    # The object is gone.
    has_no_id = step.kind in (StepKind.DELETE, StepKind.FORGET)
    return text if has_no_id else _append_id(text, step.id, width)


def format_refresh_line(
    address: str, object_id: str, paint: Painter = PLAIN, width: int = 0
) -> str:
    """Return `ADDR: Refreshing state... [id=X]`."""
    return _append_id(
        paint(f"{escape_name(address)}: Refreshing state...", "bold"), object_id, width
    )


def format_more_refreshes(count: int) -> str:
    """Return the line for the objects refreshed after the listed ones."""
    return f"... and {count:,} more: Refreshing state..."


def format_apply_complete(
    added: int,
    changed: int,
    destroyed: int,
    paint: Painter = PLAIN,
    *,
    imported: int = 0,
    forgotten: int = 0,
) -> str:
    """Return `Apply complete! Resources: A added, C changed, D destroyed.`.

    Tools parse this line.
    """
    front = enclose("", imported, " imported, ")
    back = enclose(", ", forgotten, " forgotten")
    counts = f"{front}{added} added, {changed} changed, {destroyed} destroyed{back}"
    return paint(f"Apply complete! Resources: {counts}.", "bold", "green")


def format_destroy_complete(destroyed: int, paint: Painter = PLAIN, *, forgotten: int = 0) -> str:
    """Return `Destroy complete! Resources: D destroyed.`, with the forgotten ones if any.

    Tools parse this line.
    """
    counts = f"{destroyed} destroyed{enclose(', ', forgotten, ' forgotten')}"
    return paint(f"Destroy complete! Resources: {counts}.", "bold", "green")


def format_nothing_sent(provider: str = "simulated") -> str:
    """Return the line after an apply with a provider that contacts no site."""
    return f'No site was changed: provider "{provider}" only recorded this.'


_OUTCOME_COLOURS: Final = {
    StepOutcome.DONE: "green",
    StepOutcome.FAILED: "red",
    StepOutcome.WAITING: "yellow",
    StepOutcome.SKIPPED: "yellow",
}
_MAX_LISTED: Final = 20


def render_step_outcomes(
    events: Sequence[StepEvent], paint: Painter = PLAIN, width: int = 0
) -> str:
    """Render the steps of an incomplete apply by outcome.

    Failed and waiting steps are listed with the reason, waiting ones with its first line only. Of
    done and skipped steps only the first 20 are listed.
    """
    steps = group_by(events, lambda event: event.outcome)
    # In its order.
    done, failed, waiting, skipped = (steps.get(outcome, []) for outcome in StepOutcome)
    counts = [f"{len(done)} done", f"{len(failed)} failed", f"{len(skipped)} skipped"]
    if waiting:
        # Before the skipped steps.
        counts.insert(2, f"{len(waiting)} waiting")
    listed_steps = [*done[:_MAX_LISTED], *failed, *waiting, *skipped[:_MAX_LISTED]]
    name_width = max((count_columns(_format_name(step)) for step in listed_steps), default=0)
    lines = [f"Steps: {', '.join(counts)}."]
    for step in listed_steps:
        assert step.outcome is not None, "only steps that ended are listed"
        outcome = paint(fill_to_width(step.outcome.value, 7), _OUTCOME_COLOURS[step.outcome])
        reason = (
            step.error.partition("\n")[0] if step.outcome is StepOutcome.WAITING else step.error
        )
        name = fill_to_width(_format_name(step), name_width)
        line = f"  {outcome}  {name}  {step.kind.value}"
        lines.append(_append_reason(f"{line}:", reason, width) if reason else line)
    for outcome_name, outcome_steps in (("done", done), ("skipped", skipped)):
        if len(outcome_steps) > _MAX_LISTED:
            lines.append(
                f"  ... and {len(outcome_steps) - _MAX_LISTED} more that were {outcome_name}."
            )
    return "\n".join(lines)
