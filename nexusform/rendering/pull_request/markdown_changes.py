"""Changes in a comment: one line each, similar ones together, with the changed values of updated objects.
deepdiff finds changes inside a value. It is slow, so it is imported here only and used for visible
differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from nexusform.diagnostics.phrases import format_first, select_form
from nexusform.json_data.plain_data import Path
from nexusform.plans.plan import Action, Change, Mode, Plan
from nexusform.rendering.notation.hcl_text import (
    KNOWN_AFTER_APPLY,
    SENSITIVE,
    build_trie,
    format_attribute_name,
    format_scalar,
    quote_string,
)
from nexusform.rendering.pull_request.markdown_parts import format_code
from nexusform.rendering.report.body_difference import compute_ranks
from nexusform.rendering.report.folding import format_keys
from nexusform.rendering.report.manifest_changes import compare_manifests
from nexusform.rendering.report.object_rows import build_drift_folds
from nexusform.rendering.report.plan_report import Report, SchemaLookup, select_drift
from nexusform.rendering.report.wording import SYMBOLS, format_headline, format_headline_address
from nexusform.rendering.text.stanza_text import group_changes, group_stanzas, pair_stanzas, select_compared_attributes
from nexusform.schemas.block_schema import BlockSchema
from nexusform.values.value import UNKNOWN

_ABSENT: Final = object()
_MAX_VALUE_LENGTH: Final = 60
# deepdiff takes a fraction of a millisecond per object, so only this many objects get details.
_MAX_UPDATES: Final = 100
_MAX_PARTS: Final = 8
_MAX_NAMES: Final = 5
# Destroyed and replaced objects are important, so more of them are named.
_MAX_LOST_NAMES: Final = 40
_DESTROYING_ACTIONS: Final = frozenset({Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST, Action.FORGET})


def render_changes(plan: Plan, find_schema: SchemaLookup) -> list[str]:
    """Render changes in one line each, similar ones together, with the changed arguments of updated
    objects.
    """
    lines: list[str] = []
    updates = 0
    for group in group_changes(plan):
        change = group.change
        line = f"- `{SYMBOLS[change.action]}` {format_code(str(change.address))} {format_headline(change)}"
        max_names = _MAX_LOST_NAMES if change.action in _DESTROYING_ACTIONS else _MAX_NAMES
        lines.append(f"{line}{_format_similar(group.other_addresses, max_names)}")
        if change.before is not None and change.after is not None and updates < _MAX_UPDATES:
            updates += 1
            lines += _render_inner_changes(change, find_schema(change.address))
    return [*lines, *_render_moves(plan)]


def _render_moves(plan: Plan) -> list[str]:
    """Render objects that are only imported or renamed."""
    lines = []
    for change in plan.changes:
        if change.action is Action.NO_OP and (change.importing or change.previous_address is not None):
            identity = f" ({format_code(change.importing)})" if change.importing else ""
            lines.append(f"- {format_code(format_headline_address(change))} {_describe_move(change)}{identity}")
    return lines


def _describe_move(change: Change) -> str:
    """Return that an object is imported, or its new address."""
    return format_headline(change) if change.importing else f"is renamed to {format_code(str(change.address))}"


def render_drift(plan: Plan, find_schema: SchemaLookup) -> list[str]:
    """Render the drift recorded by a refresh-only plan; nothing for other plans."""
    if plan.mode is not Mode.REFRESH_ONLY:
        return []
    lines = []
    for fold in build_drift_folds(select_drift(plan), find_schema):
        clauses = f" {format_code(', '.join(fold.clauses))}" if fold.clauses else ""
        lines.append(f"- `{fold.symbol}` {format_code(fold.label)}{clauses}")
    return lines


def _render_inner_changes(change: Change, schema: BlockSchema | None) -> list[str]:
    """Render the changes inside an object, without computed values."""
    sensitive = (*change.sensitive_before, *change.sensitive_after)
    before = select_compared_attributes(_select_configurable(change.before or {}, schema))
    after = select_compared_attributes(_select_configurable(change.after or {}, schema))
    changed_part_list, hidden_count = compare_attributes(
        before, after, sensitive, change.configured_paths, limit=_MAX_PARTS
    )
    lines = [f"  - {format_code(part.path)}: {_describe_part(part)}" for part in changed_part_list]
    return [*lines, f"  - and {hidden_count:,} more"] if hidden_count else lines


def _select_configurable(attributes: Mapping[str, Any], schema: BlockSchema | None) -> dict[str, Any]:
    """Return the attributes that users can set."""
    attribute_schemas = schema.attributes if schema is not None else {}
    computed = {name for name, attribute in attribute_schemas.items() if attribute.computed and not attribute.optional}
    return {name: value for name, value in attributes.items() if name not in computed}


def _format_similar(addresses: Sequence[str], maximum: int) -> str:
    """Format the addresses with the same change."""
    if not addresses:
        return ""
    return f"; likewise {format_first([format_code(address) for address in addresses], maximum)}"


def _describe_part(part: ChangedPart) -> str:
    """Return the change of a part: added, removed, or old and new value."""
    if not part.old:
        return f"added, {format_code(part.new)}"
    if not part.new:
        return f"removed, was {format_code(part.old)}"
    return f"{format_code(part.old)} → {format_code(part.new)}"


def render_stanzas(plan: Plan, report: Report) -> str:
    """Render the stanzas of all changes; those that differ in their own names only appear once."""
    texts = []
    for group in group_stanzas(pair_stanzas(plan, report)):
        similar_note = (
            f"\n  # likewise: {format_first(group.other_addresses, _MAX_NAMES)}" if group.other_addresses else ""
        )
        texts.append(f"{group.text}{similar_note}")
    return "\n\n".join(texts)


# --- what changed inside an object -------------------------------------------------------------


class ChangedPart(Struct, frozen=True):
    """A path (`agent_pool["np1"].count`) with its value before and after as short text; "" = absent."""

    path: str
    old: str
    new: str


_Difference: TypeAlias = tuple[Path, Any, Any]  # path, value before, value after


def compare_attributes(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    sensitive: Iterable[Path] = (),
    source_order: Sequence[Path] = (),
    limit: int = 50,
) -> tuple[list[ChangedPart], int]:
    """Return the changed parts in source order, then by attribute name and path, and the number of parts
    beyond `limit`.
    """
    differences: list[_Difference] = []
    for name in sorted({**before, **after}):
        old, new = before.get(name), after.get(name)
        if old is not new and old != new:
            differences += _find_differences(name, old, new)
    if source_order:
        differences = _sort_by_source_order(differences, source_order)
    marks = build_trie(sensitive)
    parts = _merge_equal_parts(differences, marks)
    return parts[:limit], max(0, len(parts) - limit)


def _sort_by_source_order(differences: Iterable[_Difference], source_order: Sequence[Path]) -> list[_Difference]:
    """Sort differences by the source order of their paths; others keep their order."""
    ranks = compute_ranks(source_order)

    def get_order(difference: _Difference) -> list[int]:
        names = tuple(step for step in difference[0] if isinstance(step, str))
        return [ranks.get(names[: depth + 1], len(ranks)) for depth in range(len(names))]

    return sorted(differences, key=get_order)


def _merge_equal_parts(differences: Iterable[_Difference], marks: Any) -> list[ChangedPart]:
    """Return the changed parts, with equal changes of map entries merged."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    parts_by_group: dict[tuple[Any, ...], list[ChangedPart]] = {}
    for path, old, new in differences:
        parts = _build_parts(path, old, new, marks)
        key = path[1] if len(path) > 1 and isinstance(path[1], str) else ""
        group = (path[:1], path[2:] if key else path, tuple((part.old, part.new) for part in parts))
        groups.setdefault(group, []).append(key)
        parts_by_group.setdefault(group, parts)
    merged_parts: list[ChangedPart] = []
    for group, keys in groups.items():
        if len(keys) == 1:
            merged_parts += parts_by_group[group]
            continue
        (name,), inner_path, _ = group
        path_text = f"{name}{format_keys(keys)}{format_path(('', *inner_path))}"
        merged_parts += [ChangedPart(path_text, part.old, part.new) for part in parts_by_group[group]]
    return merged_parts


def _find_differences(name: str, old: Any, new: Any) -> list[_Difference]:
    """Return the differences inside an attribute, or the attribute if its kind changes."""
    if _is_container(old) and old.__class__ is new.__class__:
        return [((name, *path), old_part, new_part) for path, old_part, new_part in _compare_containers(old, new)]
    return [((name,), _replace_none(old), _replace_none(new))]


def _is_container(plain: Any) -> bool:
    return plain.__class__ is dict or plain.__class__ is list


def _replace_none(plain: Any) -> Any:
    return _ABSENT if plain is None else plain


def _compare_containers(old: Any, new: Any) -> list[_Difference]:
    """Return the differences inside two containers of one kind."""
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
    return sorted(differences, key=_get_path_order)


def _get_path_order(difference: _Difference) -> list[tuple[bool, str]]:
    """Return the sort key of a path: indexes by number before keys by text."""
    return [(step.__class__ is str, str(step).zfill(9)) for step in difference[0]]


def _build_parts(path: Path, old: Any, new: Any, marks: Any) -> list[ChangedPart]:
    """Return the changed part of a path; for manifest texts a part per changed field."""
    if _is_marked(path, marks):
        return [ChangedPart(format_path(path), _hide_value(old), _hide_value(new))]
    fields = compare_manifests(old, new) if _is_structured_text(old) and _is_structured_text(new) else ()
    if fields:
        prefix = "" if any(field.title for field in fields) else f"{format_path(path)}: "
        return [ChangedPart(f"{prefix}{field.location}", field.old, field.new) for field in fields]
    return [ChangedPart(format_path(path), _format_value(old), _format_value(new))]


def _is_structured_text(plain: Any) -> bool:
    """Return whether a value is more than a name or a sentence."""
    return plain.__class__ is str and ("\n" in plain or plain[:1] in "{[")


def _hide_value(plain: Any) -> str:
    """Return the placeholder of a sensitive value; "" if absent."""
    return "" if plain is _ABSENT else SENSITIVE


def _is_marked(path: Path, marks: Any) -> bool:
    """Return whether a mark at the path, above it or below it hides the value."""
    node = marks
    for step in path:
        if node.__class__ is not dict:
            return node is True
        node = node.get(step)
    return node is not None


def _format_value(plain: Any) -> str:
    """Format a value on one line, truncated if long; containers as their size."""
    if plain is _ABSENT:
        return ""
    if plain is UNKNOWN:
        return KNOWN_AFTER_APPLY
    if plain.__class__ is dict:
        return _format_mapping(plain)
    if plain.__class__ is list:
        return f"[{len(plain):,} {select_form(len(plain), 'element')}]" if plain else "[]"
    text = format_scalar(plain)
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 4]}..."


def _format_mapping(plain: Mapping[str, Any]) -> str:
    """Format a mapping with short values, else its size."""
    entries = {name: value for name, value in plain.items() if value is not None}
    if not any(_is_container(value) for value in entries.values()):
        text = f"{{{', '.join(f'{name} = {format_scalar(value)}' for name, value in entries.items())}}}"
        if len(text) <= _MAX_VALUE_LENGTH:
            return text
    return f"{{{len(plain):,} {select_form(len(plain), 'attribute')}}}"


def format_path(path: Path) -> str:
    """Format a path as in a configuration: `agent_pool["np1"].count`, `zones[0]`."""
    text = str(path[0]) if path else ""
    for step in path[1:]:
        if isinstance(step, int):
            text += f"[{step}]"
        elif format_attribute_name(step) == step and "-" not in step:
            text += f".{step}"
        else:
            text += f"[{quote_string(step)}]"
    return text
