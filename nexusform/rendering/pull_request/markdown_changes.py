"""Changes in a comment: a line each, like ones together, with what changed inside updated objects.

deepdiff finds what changed inside a value. It is slow, so it is imported and asked only here, only for
values that differ and are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.plain_data import Path
from nexusform.plans.plan import Action, Change, Mode, Plan
from nexusform.rendering.notation.hcl_text import (
    KNOWN_AFTER_APPLY,
    SENSITIVE,
    attribute_name,
    quoted,
    scalar,
    trie,
)
from nexusform.rendering.pull_request.markdown_parts import code
from nexusform.rendering.report.body import ranks_of
from nexusform.rendering.report.folding import keys_text
from nexusform.rendering.report.manifest_changes import field_changes
from nexusform.rendering.report.object_rows import drift_folds
from nexusform.rendering.report.report import Report, SchemaOf, shown_drift
from nexusform.rendering.report.wording import SYMBOLS, headline, headline_address
from nexusform.rendering.text.stanza_text import alike_changes, alike_stanzas, compared, drawn_changes
from nexusform.schema import BlockSchema
from nexusform.values import UNKNOWN
from nexusform.words import first_of, form

_ABSENT: Final = object()
_SHORT: Final = 60
# deepdiff takes a fraction of a millisecond per object: this many get lines of what changed.
_UPDATES: Final = 100
_PLACES: Final = 8
_NAMED: Final = 5
# Of what is destroyed or replaced, more are named: nobody should have to look for them.
_LOST: Final = 40
_LOSING: Final = frozenset({Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST, Action.FORGET})


def change_lines(plan: Plan, schema_of: SchemaOf) -> list[str]:
    """Changes in a line each, like ones together, with what a person changed inside updated objects."""
    lines: list[str] = []
    updates = 0
    for group in alike_changes(plan):
        change = group.change
        line = f"- `{SYMBOLS[change.action]}` {code(str(change.address))} {headline(change)}"
        lines.append(f"{line}{_likewise(group.others, _LOST if change.action in _LOSING else _NAMED)}")
        if change.before is not None and change.after is not None and updates < _UPDATES:
            updates += 1
            lines += _inside_lines(change, schema_of(change.address))
    return [*lines, *_untouched_lines(plan)]


def _untouched_lines(plan: Plan) -> list[str]:
    """What is only taken over, or only called otherwise."""
    lines = []
    for change in plan.changes:
        if change.action is Action.NO_OP and (change.importing or change.previous_address is not None):
            identity = f" ({code(change.importing)})" if change.importing else ""
            lines.append(f"- {code(headline_address(change))} {_taken_over(change)}{identity}")
    return lines


def _taken_over(change: Change) -> str:
    """That an object is imported, or renamed to what."""
    return headline(change) if change.importing else f"is renamed to {code(str(change.address))}"


def drift_lines(plan: Plan, schema_of: SchemaOf) -> list[str]:
    """What changed outside, where a plan does nothing but take that over; else it is folded away."""
    if plan.mode is not Mode.REFRESH_ONLY:
        return []
    lines = []
    for fold in drift_folds(shown_drift(plan), schema_of):
        words = f" {code(', '.join(fold.words))}" if fold.words else ""
        lines.append(f"- `{fold.symbol}` {code(fold.label)}{words}")
    return lines


def _inside_lines(change: Change, schema: BlockSchema | None) -> list[str]:
    """What changed inside an object; computed figures, which follow, stand with every change."""
    sensitive = (*change.sensitive_before, *change.sensitive_after)
    before = compared(_written(change.before or {}, schema))
    after = compared(_written(change.after or {}, schema))
    changed, left_out = changed_parts(before, after, sensitive, change.written, limit=_PLACES)
    lines = [f"  - {code(part.place)}: {_turned(part)}" for part in changed]
    return [*lines, f"  - and {left_out:,} more"] if left_out else lines


def _written(attributes: Mapping[str, Any], schema: BlockSchema | None) -> dict[str, Any]:
    """The attributes without those that nobody can write."""
    declared = schema.attributes if schema is not None else {}
    computed = {name for name, attribute in declared.items() if attribute.computed and not attribute.optional}
    return {name: value for name, value in attributes.items() if name not in computed}


def _likewise(addresses: Sequence[str], most: int) -> str:
    """The addresses of which the same is said."""
    if not addresses:
        return ""
    return f"; likewise {first_of([code(address) for address in addresses], most)}"


def _turned(part: ChangedPart) -> str:
    """What became of a part: added, removed, or old → new."""
    if not part.old:
        return f"added, {code(part.new)}"
    if not part.new:
        return f"removed, was {code(part.old)}"
    return f"{code(part.old)} → {code(part.new)}"


def every_stanza(plan: Plan, report: Report) -> str:
    """The stanzas of all changes, those that differ in their own names only told once."""
    texts = []
    for group in alike_stanzas(drawn_changes(plan, report)):
        likewise = f"\n  # likewise: {first_of(group.others, _NAMED)}" if group.others else ""
        texts.append(f"{group.text}{likewise}")
    return "\n\n".join(texts)


# --- what changed inside an object -------------------------------------------------------------


class ChangedPart(Struct, frozen=True):
    """A place (`agent_pool["np1"].count`) and its value before and after as short text; "" = absent."""

    place: str
    old: str
    new: str


_Difference: TypeAlias = tuple[Path, Any, Any]  # the place, its value before and after


def changed_parts(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    sensitive: Iterable[Path] = (),
    written: Sequence[Path] = (),
    limit: int = 50,
) -> tuple[list[ChangedPart], int]:
    """The parts that differ, as they are `written` and then by attribute name and place, and how many more
    there are than `limit`.
    """
    differences: list[_Difference] = []
    for name in sorted({**before, **after}):
        old, new = before.get(name), after.get(name)
        if old is not new and old != new:
            differences += _differences(name, old, new)
    if written:
        differences = _in_written_order(differences, written)
    marks = trie(sensitive)
    parts = _alike_parts(differences, marks)
    return parts[:limit], max(0, len(parts) - limit)


def _in_written_order(differences: Iterable[_Difference], written: Sequence[Path]) -> list[_Difference]:
    """Differences as the configuration writes their places, part by part; the others keep their order."""
    ranks = ranks_of(written)

    def order(difference: _Difference) -> list[int]:
        names = tuple(step for step in difference[0] if isinstance(step, str))
        return [ranks.get(names[: depth + 1], len(ranks)) for depth in range(len(names))]

    return sorted(differences, key=order)


def _alike_parts(differences: Iterable[_Difference], marks: Any) -> list[ChangedPart]:
    """The parts that differ; entries of a map that change in the same way are one."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    firsts: dict[tuple[Any, ...], list[ChangedPart]] = {}
    for path, old, new in differences:
        parts = _parts(path, old, new, marks)
        key = path[1] if len(path) > 1 and isinstance(path[1], str) else ""
        likeness = (path[:1], path[2:] if key else path, tuple((part.old, part.new) for part in parts))
        groups.setdefault(likeness, []).append(key)
        firsts.setdefault(likeness, parts)
    alike: list[ChangedPart] = []
    for likeness, keys in groups.items():
        if len(keys) == 1:
            alike += firsts[likeness]
            continue
        (name,), rest, _ = likeness
        place = f"{name}{keys_text(keys)}{place_name(('', *rest))}"
        alike += [ChangedPart(place, part.old, part.new) for part in firsts[likeness]]
    return alike


def _differences(name: str, old: Any, new: Any) -> list[_Difference]:
    """The places inside an attribute that differ, or the attribute where its kind does."""
    if _is_container(old) and old.__class__ is new.__class__:
        return [((name, *path), old_part, new_part) for path, old_part, new_part in _deep(old, new)]
    return [((name,), _absent(old), _absent(new))]


def _is_container(plain: Any) -> bool:
    return plain.__class__ is dict or plain.__class__ is list


def _absent(plain: Any) -> Any:
    return _ABSENT if plain is None else plain


def _deep(old: Any, new: Any) -> list[_Difference]:
    """The places inside two containers of one kind that differ."""
    from deepdiff import DeepDiff
    from deepdiff.helper import notpresent

    tree = DeepDiff(old, new, view="tree", ignore_numeric_type_changes=True, threshold_to_diff_deeper=0)
    differences: list[_Difference] = []
    for levels in tree.values():
        for level in levels:
            path = tuple(level.path(output_format="list"))
            old_part = _ABSENT if level.t1 is notpresent else level.t1
            new_part = _ABSENT if level.t2 is notpresent else level.t2
            differences.append((path, old_part, new_part))
    return sorted(differences, key=_place_order)


def _place_order(difference: _Difference) -> list[tuple[bool, str]]:
    """Indexes before keys, by number; keys by text."""
    return [(step.__class__ is str, str(step).zfill(9)) for step in difference[0]]


def _parts(path: Path, old: Any, new: Any, marks: Any) -> list[ChangedPart]:
    """A place that differs; of a text of manifests every field that does."""
    if _is_marked(path, marks):
        return [ChangedPart(place_name(path), _hidden(old), _hidden(new))]
    fields = field_changes(old, new) if _is_text(old) and _is_text(new) else ()
    if fields:
        front = "" if any(field.title for field in fields) else f"{place_name(path)}: "
        return [ChangedPart(f"{front}{field.place}", field.old, field.new) for field in fields]
    return [ChangedPart(place_name(path), _short(old), _short(new))]


def _is_text(plain: Any) -> bool:
    """Whether this is more than a name or a sentence."""
    return plain.__class__ is str and ("\n" in plain or plain[:1] in "{[")


def _hidden(plain: Any) -> str:
    """What stands for a sensitive value; "" where there is none."""
    return "" if plain is _ABSENT else SENSITIVE


def _is_marked(path: Path, marks: Any) -> bool:
    """A mark on the way, at the place, or anywhere below it hides the value."""
    node = marks
    for step in path:
        if node.__class__ is not dict:
            return node is True
        node = node.get(step)
    return node is not None


def _short(plain: Any) -> str:
    """A value on one line, cut where it is long; containers as their size."""
    if plain is _ABSENT:
        return ""
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is dict:
        return _mapping(plain)
    if plain.__class__ is list:
        return f"[{len(plain):,} {form(len(plain), 'element')}]" if plain else "[]"
    text = scalar(plain)
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 4]}..."


def _mapping(plain: Mapping[str, Any]) -> str:
    """A mapping with its values where they are short, else as its size."""
    entries = {name: value for name, value in plain.items() if value is not None}
    if not any(_is_container(value) for value in entries.values()):
        text = f"{{{', '.join(f'{name} = {scalar(value)}' for name, value in entries.items())}}}"
        if len(text) <= _SHORT:
            return text
    return f"{{{len(plain):,} {form(len(plain), 'attribute')}}}"


def place_name(path: Path) -> str:
    """A path as users write it: `agent_pool["np1"].count`, `zones[0]`."""
    text = str(path[0]) if path else ""
    for step in path[1:]:
        if isinstance(step, int):
            text += f"[{step}]"
        elif attribute_name(step) == step and "-" not in step:
            text += f".{step}"
        else:
            text += f"[{quoted(step)}]"
    return text
