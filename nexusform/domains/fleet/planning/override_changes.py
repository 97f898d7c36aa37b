"""Values of objects on clusters that changed overrides set to another value."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_records import FleetOverride, OverrideRule
from nexusform.domains.fleet.planning.override_rendering import (
    ObjectIdentity,
    expand_envelopes,
    find_pointer_value,
    get_object_identity,
    list_matching_rules,
)
from nexusform.domains.fleet.planning.placement_plan import PlacementPlan
from nexusform.domains.fleet.planning.planned_hub import (
    PlannedHub,
    get_hub_manifests,
    read_prior_object,
)
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.json_data.plain_data import get_mapping
from nexusform.plans.plan import ContentChange, ContentEffect

# In place of a value that no report shows.
_HIDDEN: Final = "(sensitive value)"
_SECRET_DATA: Final = ("/data", "/stringData")


class _ChangedOverride(NamedTuple):
    """Override with its versions before and after the plan; one if it is new or removed."""

    key: str
    versions: tuple[FleetOverride, ...]


def find_override_changes(
    placements: Iterable[PlacementPlan], hub: PlannedHub
) -> Iterator[ContentChange]:
    """Yield each value of an object on a cluster that a new, changed or removed override changes.

    Values that the rollout does not reach stay. Sensitive values are hidden.
    """
    sensitive_objects = _collect_sensitive_objects(hub)
    for placement in placements:
        overrides = _list_changed_overrides(placement, hub)
        clusters = _list_kept_clusters(placement) if overrides else ()
        for cluster, override in product(clusters, overrides):
            for change in _compare_cluster(placement, cluster, override):
                is_secret = change.object.startswith("Secret ") and _is_secret_data(change.path)
                is_hidden = is_secret or change.object in sensitive_objects
                yield _hide_values(change) if is_hidden else change


def _collect_sensitive_objects(hub: PlannedHub) -> set[str]:
    """Return the titles of objects whose manifests are sensitive, before or after the plan.

    An override has no sensitive argument: it decides what a cluster gets. A Secret hides its own
    data, not the objects beside it.
    """
    manifests = [
        manifest
        for instance, configured in hub.configured_objects
        if instance.arguments.sensitive
        for manifest in configured
    ]
    for instance in hub.prior_instances:
        prior = instance.prior
        is_sensitive = prior is not None and bool(prior.sensitive)
        if is_sensitive and not instance.type.list_secrets(get_mapping(instance.before)):
            manifests += get_hub_manifests(read_prior_object(instance))
    return {manifest.title for manifest in expand_envelopes(manifests)}


def _is_secret_data(path: str) -> bool:
    return f"{path}/".startswith(tuple(f"{field}/" for field in _SECRET_DATA))


def _hide_values(change: ContentChange) -> ContentChange:
    """Return a change with a placeholder for each of its values."""
    return replace(
        change,
        before=None if change.before is None else _HIDDEN,
        after=None if change.after is None else _HIDDEN,
    )


def _list_changed_overrides(placement: PlacementPlan, hub: PlannedHub) -> list[_ChangedOverride]:
    """Return the overrides of a placement that differ from those in state, by key.

    Unmanaged ones of a hub do not change.
    """
    key = placement.spec.configuration.key
    # Numbers of snapshots change without the override.
    before = {
        item.key: replace(item, snapshot=0) for item in hub.prior_override_index.list_overrides(key)
    }
    unmanaged = {item.key for item in hub.unmanaged_overrides}
    after = {
        item.key: replace(item, snapshot=0)
        for item in placement.selection.overrides
        if item.key not in unmanaged
    }
    changed: list[_ChangedOverride] = []
    for name in sorted({*before, *after}):
        versions = (before.get(name), after.get(name))
        if versions[0] != versions[1]:
            changed.append(_ChangedOverride(name, tuple(v for v in versions if v is not None)))
    return changed


class _KeptCluster(NamedTuple):
    """Objects of a placement on a cluster that it keeps, before and after the plan."""

    name: str
    before: tuple[Manifest, ...]
    after: tuple[Manifest, ...]


def _list_kept_clusters(placement: PlacementPlan) -> Iterator[_KeptCluster]:
    """Yield the clusters that have the objects of a placement before and after the plan."""
    applied = placement.current.applied.on_cluster
    for cluster, resources in placement.compute_final_resources().items():
        before = applied.get(cluster)
        if before is not None and cluster not in placement.released_clusters:
            yield _KeptCluster(cluster, before.manifests, resources.manifests)


def _compare_cluster(
    placement: PlacementPlan, cluster: _KeptCluster, override: _ChangedOverride
) -> Iterator[ContentChange]:
    """Yield the changed values of each object of a cluster that an override selects."""
    labels = placement.selection.clusters.labels.get(cluster.name, {})
    before = _index_objects(cluster.before)
    after = _index_objects(cluster.after)
    for identity in {**before, **after}:
        old = before.get(identity)
        new = after.get(identity)
        rules = [
            rule
            for manifest in (old, new)
            if manifest is not None
            for _, rule in list_matching_rules(manifest, override.versions, labels)
        ]
        for path, old_value, new_value in _list_values(old, new, rules):
            if old_value != new_value:
                yield ContentChange(
                    address=placement.spec.instance.address,
                    cluster=cluster.name,
                    object=identity.title,
                    effect=ContentEffect.OVERRIDDEN,
                    override=override.key,
                    path=path,
                    before=old_value,
                    after=new_value,
                )


def _list_values(
    old: Manifest | None, new: Manifest | None, rules: Iterable[OverrideRule]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the JSON pointer and the values before and after of each value that rules set.

    The pointer of a rule that deletes the object is "", and its title is the value.
    """
    if old is None or new is None:
        # Else the selection of the placement adds or removes it.
        if any(rule.delete for rule in rules):
            yield "", old and old.title, new and new.title
        return
    # An item added to a list changes the list.
    paths = {patch.path.removesuffix("/-"): None for rule in rules for patch in rule.patches}
    for path in paths:
        yield path, find_pointer_value(old.body, path), find_pointer_value(new.body, path)


def _index_objects(manifests: Sequence[Manifest]) -> Mapping[ObjectIdentity, Manifest]:
    return {get_object_identity(manifest): manifest for manifest in expand_envelopes(manifests)}
