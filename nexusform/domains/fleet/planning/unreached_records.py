"""Warnings about overrides, budgets and properties of a policy that reach nothing."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from nexusform.diagnostics.diagnostic import Diagnostic, Problem, Severity, suggest_name
from nexusform.diagnostics.phrases import format_list
from nexusform.domains.fleet.importers.fleet_documents import OLD_NODE_COUNT
from nexusform.domains.fleet.importers.fleet_records import FleetOverride, format_object_key
from nexusform.domains.fleet.planning.override_rendering import (
    SelectionKey,
    collect_selection_keys,
    expand_envelopes,
    is_any_affected,
    is_rule_for_cluster,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import PlannedHub
from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    Member,
    Policy,
    select_scheduled_bindings,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.properties import RESOURCE_PREFIX, list_property_values
from nexusform.domains.pods.importers.manifest_parser import ENVELOPE_KINDS, Manifest
from nexusform.json_data.plain_data import get_value_at_path
from nexusform.planning.instances.instance import Instance

NO_EFFECT: Final = "record-without-effect"
UNKNOWN_PROPERTY: Final = "property-without-member"
_MAX_NAMES: Final = 4


class _FleetPlan(NamedTuple):
    """Placements by key, planned or observed ones without a block, and the members.

    `selection_keys` are those of the objects of planned placements.
    """

    placements: Mapping[str, PlacementPlan]
    selection_keys: Mapping[str, frozenset[SelectionKey]]
    other_placements: frozenset[str]
    member_list: MemberList
    labels: Mapping[str, Mapping[str, str]]

    @property
    def placement_keys(self) -> list[str]:
        """Keys of all placements, sorted."""
        return sorted({*self.placements, *self.other_placements})


def warn_unreached_records(
    hub: PlannedHub,
    placements: Mapping[str, PlacementPlan],
    member_list: MemberList,
    labels: Mapping[str, Mapping[str, str]],
) -> Iterator[Diagnostic]:
    """Yield a warning per override, budget and policy property without effect.

    `placements` are by key, `labels` those of members by name. A hub with records outside of the
    configuration may have their target, so nothing is reported for a provider.
    """
    observed = frozenset(key for _type, key in hub.observed.placements)
    keys = {
        key: collect_selection_keys(placement.selection.manifests)
        for key, placement in placements.items()
    }
    fleet = _FleetPlan(placements, keys, observed, member_list, labels)
    # The managed ones match the instances by position; others follow.
    managed_overrides = zip(hub.override_instances, hub.overrides, strict=False)
    for instance, override in managed_overrides:
        reason = "" if _is_on_live_hub(instance) else _explain_unreached_override(override, fleet)
        if reason:
            yield _build_warning(instance, f"override {override.key}", reason)
    for name, (instance, _budget) in hub.budgets.items():
        if name not in fleet.placement_keys and not _is_on_live_hub(instance):
            reason = (
                f"it protects the ClusterResourcePlacement of its name, and there is no {name}."
                f"{suggest_name(name, fleet.placement_keys)}"
            )
            yield _build_warning(instance, f"budget {name}", reason)
    for placement in placements.values():
        yield from _warn_unknown_properties(placement, member_list)


def _is_on_live_hub(instance: Instance) -> bool:
    return instance.block is None or bool(instance.block.provider)


def _build_warning(instance: Instance, subject: str, reason: str) -> Diagnostic:
    """Build the warning about a record without effect at its block."""
    text = f"The {subject} has no effect: {reason}"
    return instance.build_diagnostic(
        Problem((), NO_EFFECT, text, Severity.WARNING, brief=f"{subject}: {reason}")
    )


def _explain_unreached_override(override: FleetOverride, fleet: _FleetPlan) -> str:
    """Return why an override changes nothing, "" if it may.

    The reason is the first of these: its placement, its objects, its clusters.
    """
    if override.placement and override.placement not in fleet.placement_keys:
        return _explain_missing_placement(override, fleet)
    placements = {
        key: placement
        for key, placement in fleet.placements.items()
        if override.placement in ("", key)
    }
    # Others are only observed, with unknown objects; without any the plan is about the override.
    if not placements or override.placement in fleet.other_placements - fleet.placements.keys():
        return ""
    affected = [
        placement
        for key, placement in placements.items()
        if is_any_affected(override, fleet.selection_keys[key])
    ]
    if not affected:
        manifests = [
            manifest
            for placement in placements.values()
            for manifest in placement.selection.manifests
        ]
        return _explain_missing_object(override, manifests)
    return _explain_missing_cluster(override, affected, fleet)


def _explain_missing_placement(override: FleetOverride, fleet: _FleetPlan) -> str:
    """Return that an override's placement is missing, with the nearest name or the right scope."""
    namespaced_key = format_object_key(override.namespace, override.placement)
    if override.namespace and namespaced_key in fleet.placement_keys:
        return (
            f"{namespaced_key} is a ResourcePlacement, so placement needs scope = Namespaced "
            "(default: Cluster)."
        )
    hint = suggest_name(override.placement, fleet.placement_keys)
    return f"there is no placement {override.placement}.{hint}"


def _explain_missing_object(override: FleetOverride, manifests: Sequence[Manifest]) -> str:
    """Return that no selected object matches the selectors of an override."""
    titles = format_list([selector.title for selector in override.selectors], _MAX_NAMES)
    if any(selector.kind in ENVELOPE_KINDS for selector in override.selectors):
        return f"{titles} is an envelope. Select the objects in it."
    for selector in override.selectors:
        for manifest in expand_envelopes(manifests):
            is_same_object = (selector.group, selector.kind, selector.name) == (
                manifest.group,
                manifest.kind,
                manifest.name,
            )
            if is_same_object and manifest.namespace == override.namespace:
                return f'{titles}: the hub has version "{manifest.version}". Select that version.'
    same_kind = [
        manifest.name
        for manifest in expand_envelopes(manifests)
        if manifest.kind in [selector.kind for selector in override.selectors]
        and manifest.namespace == override.namespace
    ]
    hint = suggest_name(override.selectors[0].name, same_kind) if override.selectors else ""
    place = f" in namespace {override.namespace}" if override.namespace else ""
    return f"no placement selects {titles}{place}.{hint}"


def _explain_missing_cluster(
    override: FleetOverride, placements: Iterable[PlacementPlan], fleet: _FleetPlan
) -> str:
    """Return that no rule of an override matches a cluster of its placements, "" if one does."""
    matching = {
        name
        for name, labels in fleet.labels.items()
        if any(is_rule_for_cluster(rule, labels) for rule in override.rules)
    }
    if not fleet.labels:
        return ""
    if not matching:
        return "its rules match the labels of no member."
    picked = {
        binding.cluster
        for placement in placements
        for binding in select_scheduled_bindings(placement.bindings)
    }
    if picked and not matching & picked:
        names = format_list(sorted(matching), _MAX_NAMES)
        return f"its rules match only {names}, which no placement of its objects picks."
    return ""


def _warn_unknown_properties(
    placement: PlacementPlan, member_list: MemberList
) -> Iterator[Diagnostic]:
    """Yield a warning per property of a policy that no member has.

    Figures of members may be unknown: some member must have another property or resource.
    """
    known_names = sorted({name for member in member_list.members for name in _list_names(member)})
    for name in _list_policy_properties(placement.spec.configuration.effective_policy):
        values = list_property_values(member_list, name)
        # None: the member lacks it. The old name has a warning of its own.
        if name == OLD_NODE_COUNT or any(value is not None for value in values):
            continue
        is_resource = name.startswith(RESOURCE_PREFIX)
        if not any(known.startswith(RESOURCE_PREFIX) is is_resource for known in known_names):
            continue
        hint = suggest_name(name, known_names)
        text = f"{placement.key}: no member has the property {name}.{hint}"
        instance = placement.spec.instance
        in_blocks = get_value_at_path(instance.config, "policy") is not None
        path = ("policy",) if in_blocks else ("manifest",)
        yield instance.build_diagnostic(
            Problem(path, UNKNOWN_PROPERTY, text, Severity.WARNING, brief=text)
        )


def _list_policy_properties(policy: Policy) -> list[str]:
    """Return the names of the properties in a policy, each once."""
    terms: list[ClusterSelectorTerm] = list(policy.required_terms or ())
    terms += [preferred.preference for preferred in policy.preferred_terms]
    names: dict[str, None] = {}
    for term in terms:
        names |= {requirement.name: None for requirement in term.property_selector or ()}
        if term.property_sorter is not None:
            names[term.property_sorter.name] = None
    return list(names)


def _list_names(member: Member) -> Iterator[str]:
    """Yield the names of a member's properties."""
    yield from member.properties
    usage = member.resources
    for capacity, amounts in (
        ("total", usage.total),
        ("allocatable", usage.allocatable),
        ("available", usage.available),
    ):
        yield from (f"{RESOURCE_PREFIX}{capacity}-{resource}" for resource in amounts)
