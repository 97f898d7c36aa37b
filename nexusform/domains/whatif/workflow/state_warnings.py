"""Warnings about a state: facts without which an answer may be wrong."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.diagnostics.phrases import enclose, format_count, select_word_form
from nexusform.doubts.findings import hides_capacity
from nexusform.doubts.ledger import build_ledger
from nexusform.interfaces.plugins import PlanningKind, PluginRegistries, ResourceType
from nexusform.planning.preparation.planning_order import iterate_resource_blocks
from nexusform.planning.verification.state_consistency import build_state_inventory
from nexusform.plans.plan import Plan
from nexusform.state.objects import State
from nexusform.workflow.opening.stored_state import StoredState

_UNREAD_FACTS: Final = "unread-facts"
# Diagnostics about missing data, beside those that hide capacity.
_MISSING_DATA_IDS: Final = frozenset(
    {
        _UNREAD_FACTS,
        "fields-not-read",
        "incomplete-cluster",
        "kinds-not-read",
        "nodes-not-listed",
        "pods-not-listed",
    }
)


def select_missing_data(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics about data that the input of a simulation lacks."""
    return tuple(
        diagnostic
        for diagnostic in diagnostics
        if diagnostic.id in _MISSING_DATA_IDS or hides_capacity(diagnostic.id)
    )


def list_missing_data_of_plan(plan: Plan) -> Iterator[Diagnostic]:
    """Yield a warning about the unread facts of a plan, and its own about missing data."""
    facts = plan.ledger.describe()
    if facts:
        yield build_warning(_UNREAD_FACTS, f"Not read: {facts}.")
    yield from select_missing_data(plan.diagnostics)


def list_unfinished_step_warnings(stored: StoredState) -> Iterator[Diagnostic]:
    """Yield a warning if steps of the last apply are not done.

    The state shows neither the old nor the planned site.
    """
    step_count = (
        stored.remaining.remaining_steps
        if stored.remaining is not None
        else len(stored.open_intents)
    )
    if step_count:
        detail = (
            f"The last apply did not finish: {format_count(step_count, 'step')} "
            f"{select_word_form(step_count, 'remains', 'remain')}. The simulation uses the state "
            "without their results. Run `nexusform apply -resume` first."
        )
        yield build_warning("steps-not-applied", detail)


def list_unread_warnings(state: State, types: Mapping[str, ResourceType]) -> Iterator[Diagnostic]:
    """Yield a warning for each site with unread facts, and for those of data sources of any site.

    The simulation does not count them.
    """
    facts_by_site = {"": state.unread, **build_state_inventory(state, types).unread}
    for site_id, facts in facts_by_site.items():
        if facts:
            detail = f"Not read{enclose(' on ', site_id)}: {build_ledger(facts, ()).describe()}."
            yield build_warning(_UNREAD_FACTS, detail)


def has_node_data(configuration: Configuration, registries: PluginRegistries) -> bool:
    """Return whether a configuration has data blocks of clusters listed by kubectl."""
    sources = registries.data_sources.items()
    node_types = {name for name, source in sources if source.kind is PlanningKind.NODES}
    return any(
        block.mode == "data" and block.type in node_types
        for block in iterate_resource_blocks(configuration)
    )
