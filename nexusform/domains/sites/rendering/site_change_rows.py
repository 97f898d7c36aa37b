"""Rows of a plan's changes on one site, equal for sites with equal changes."""

from collections.abc import Sequence
from typing import Final

from nexusform.diagnostics.names import escape_name
from nexusform.diagnostics.phrases import (
    compute_natural_sort_key,
    format_count,
    format_first_items,
    join_texts,
)
from nexusform.interfaces.plugins import PluginRegistries
from nexusform.placement_kinds.registry import get_kind_noun
from nexusform.plans.impact.object_effects import Effect, count_effects, format_effect_verb
from nexusform.plans.maintenance import describe_stopped_vms
from nexusform.plans.plan import Action, Plan
from nexusform.rendering.report.folding import replace_site
from nexusform.rendering.report.object_rows import build_object_folds, create_schema_lookup

_SYMBOLS: Final = {Action.CREATE: "+", Action.DELETE: "-"}
_MAX_NAMES: Final = 8


def build_site_rows(plan: Plan, site: str, registries: PluginRegistries) -> tuple[str, ...]:
    """Build the rows of a plan.

    There is one for each group of equal objects (fold), each output and each effect on placements,
    and for stopped VMs.
    """
    rows: list[str] = []
    for fold in build_object_folds(plan, create_schema_lookup(registries)):
        details = join_texts((fold.name, *fold.clauses))
        # The object itself does not change.
        symbol = fold.symbol or ">"
        rows.append(join_texts((f"{symbol} {fold.label}", details), ": "))
    rows += [
        f"{_SYMBOLS.get(output.action, '~')} output {output.name}"
        for output in plan.root_values.outputs
        if output.action is not Action.NO_OP
    ]
    for effect_count in count_effects(plan.placements):
        if effect_count.effect is not Effect.UNCHANGED:
            noun = format_count(effect_count.count, get_kind_noun(effect_count.kind))
            verb = format_effect_verb(effect_count.effect, effect_count.state, effect_count.count)
            rows.append(f"{noun} {verb}")
    rows += describe_stopped_vms(plan.impact.machine_actions)
    return tuple(replace_site(escape_name(row), site) for row in rows)


def format_names(names: Sequence[str], max_names: int = _MAX_NAMES) -> str:
    """Format names in natural order: `lon1, lon2 and 3 more`."""
    return format_first_items(sorted(names, key=compute_natural_sort_key), max_names)
