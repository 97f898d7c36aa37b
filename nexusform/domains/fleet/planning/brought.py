"""What a placement brings to its clusters: the objects that are selected, the snapshots that hold them, and
what stands of them already, as state noted it or as a hub shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import json
from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_export import FAILED, READY, UNOVERRIDDEN
from nexusform.domains.fleet.importers.fleet_model import FleetOverride
from nexusform.domains.fleet.planning.asked import Asked
from nexusform.domains.fleet.planning.beside_others import ON_HUB
from nexusform.domains.fleet.planning.contents import (
    Contents,
    ResourceSnapshot,
    compared_hash,
    has_resources,
    is_noted,
    read_contents,
    write_contents,
)
from nexusform.domains.fleet.planning.hub import Hub
from nexusform.domains.fleet.planning.offer import Offer, Standing, Stock
from nexusform.domains.fleet.planning.overrides import Rendered, Renders, picked
from nexusform.domains.fleet.planning.placement import PlacementPlan
from nexusform.domains.fleet.planning.selecting import idle_selectors, selected, selector_problem
from nexusform.domains.fleet.planning.world import Clusters
from nexusform.domains.fleet.scheduling.bindings import BindingState
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest, fingerprint, manifest_of
from nexusform.planning.vms.vm_object import PLACED, note_placed


class Brought(NamedTuple):
    """What a placement has to bring, and what stands of it."""

    offer: Offer
    standing: Standing
    stock: Stock


def prepare_resources(asked: Asked, hub: Hub, clusters: Clusters) -> Brought:
    """Select the objects, take a resource snapshot of them where they changed, and find the clusters whose
    overrides changed. `clusters` are the members.
    """
    objects = selected(asked.written, hub.index)
    offer = Offer(
        selected=objects,
        overrides=hub.overrides_of(asked.written.key),
        idle=idle_selectors(asked.written, objects),
        refused=selector_problem(asked.written, hub.index),
        clusters=clusters,
    )
    contents = _standing(asked, offer, hub)
    stock = Stock(offer, contents.snapshots)
    prepared = _Prepared(asked, offer, contents, stock)
    # Where staged runs roll out they take the snapshots; of what is invalid nobody does.
    if asked.external or offer.refused:
        left_to_runs = _left_to_runs(prepared, hub) if asked.external else None
        looked_at = _newly_selected(asked, offer, hub)
        return Brought(offer, Standing(contents, left_to_runs=left_to_runs, looked_at=looked_at), stock)
    latest, before = stock.take(asked.written.revision_history_limit), contents.latest
    outdated = frozenset(_outdated(prepared, latest.index))
    standing = Standing(
        contents,
        resources_changed=before is not None and before.hash != latest.hash,
        outdated=outdated,
        otherwise=frozenset(_otherwise(prepared, latest.index)),
        override_changed=bool(outdated) and _own_overrides_changed(prepared, hub),
    )
    return Brought(offer, standing, stock)


class _Prepared(NamedTuple):
    """What there is to compare."""

    asked: Asked
    offer: Offer
    contents: Contents
    stock: Stock


def _left_to_runs(prepared: _Prepared, hub: Hub) -> Trigger | None:
    """What this plan changes of what the placement brings, and only a staged run carries to the clusters."""
    before = prepared.asked.before
    if before is None or prepared.asked.created:
        return None
    if prepared.asked.shown:
        return _shown_to_be_left(prepared)
    if fingerprint(selected(before, hub.index_before)) != fingerprint(prepared.offer.selected):
        return Trigger.RESOURCES_CHANGED
    if hub.overrides_before(before.key) != prepared.offer.overrides:
        return Trigger.OVERRIDES_CHANGED
    return None


def _newly_selected(asked: Asked, offer: Offer, hub: Hub) -> bool:
    """Whether this plan changes what a placement selects, which a hub looks at whatever its strategy. Of what
    only a dump shows no plan knows whether the hub has looked.
    """
    if asked.before is None or asked.created:
        return False
    objects = selected(asked.before, hub.index_before)
    return bool(objects) and fingerprint(objects) != fingerprint(offer.selected)


def _shown_to_be_left(prepared: _Prepared) -> Trigger | None:
    """What staged runs have not brought yet of a placement that a hub shows; before the first, nothing."""
    latest = prepared.contents.latest
    if latest is None:
        return None
    if latest.hash != fingerprint(prepared.offer.selected):
        return Trigger.RESOURCES_CHANGED
    return Trigger.OVERRIDES_CHANGED if any(_otherwise(prepared, latest.index)) else None


def _own_overrides_changed(prepared: _Prepared, hub: Hub) -> bool:
    """Whether overrides that name the placement are others than those that its clusters have got. Others are
    not looked at before something else begins a rollout.

    Source: seen on a running hub; KubeFleet pkg/controllers/rollout watches overrides that name a placement.
    """
    key = prepared.asked.written.key
    own = [override for override in prepared.offer.overrides if override.placement == key]
    if not prepared.asked.shown:
        return own != [each for each in hub.overrides_before(key) if each.placement == key]
    known: Mapping[str, FleetOverride] = prepared.asked.shown.get("override_snapshots") or {}
    # What any of its clusters has got, a rollout has seen: that others want it now is because of labels.
    seen = [override for override in known.values() if override.placement == key]
    for cluster, binding in (prepared.asked.shown.get("bindings") or {}).items():
        snapshot = prepared.stock.snapshot(binding.get("resource_snapshot"))
        if snapshot is None or cluster not in prepared.offer.clusters.labels:
            continue
        names = binding.get("overrides") or ()
        if any(name not in known for name in names):
            continue  # what was not captured is taken as it is written
        shown = [known[name] for name in names if known[name].placement == key]
        now = picked(own, snapshot.objects, prepared.offer.clusters.labels[cluster])
        is_gone = any(each not in own for each in shown)
        is_new = any(each not in seen for each in now)
        if is_gone or is_new:
            return True
    return False


def _outdated(prepared: _Prepared, index: int) -> Iterator[str]:
    """The clusters whose bindings name other override snapshots than those that are for them today."""
    for cluster, before, after in _before_and_after(prepared, index):
        if not before.names_like(after):
            yield cluster


def _otherwise(prepared: _Prepared, index: int) -> Iterator[str]:
    """The clusters for which overrides make something else of the objects than before."""
    for cluster, before, after in _before_and_after(prepared, index):
        if not before.reads_like(after):
            yield cluster


def _before_and_after(prepared: _Prepared, index: int) -> Iterator[tuple[str, Rendered, Rendered]]:
    """The clusters that it is bound to, with what they have and what they would get of a snapshot today."""
    for binding in prepared.asked.prior:
        before = prepared.contents.on_cluster.get(binding.cluster)
        after = prepared.stock.rendered(index, binding.cluster)
        if before is not None and after is not None and binding.state is BindingState.BOUND:
            yield binding.cluster, before, after


def noted_before(asked: Asked) -> Mapping[str, Any]:
    """What state notes of the placement that stays."""
    prior = asked.instance.prior
    return (prior.private if prior is not None and not asked.created else None) or {}


def _standing(asked: Asked, offer: Offer, hub: Hub) -> Contents:
    """What stands: as noted, or of an imported placement as the objects and overrides tell."""
    note = noted_before(asked)
    if asked.shown:
        return _shown(asked, offer, hub, note)
    if is_noted(note) or asked.created or asked.before is None:
        return read_contents(note, asked.prior, hub.by_hash)
    snapshots = (binding.resource_snapshot for binding in asked.prior)
    indices = [index for index in snapshots if index is not None]
    if asked.external and not indices:
        return Contents()
    digest_now = fingerprint(offer.selected)
    digest, index = digest_now, max(indices, default=0)
    last = note.get("resources")
    if last is not None:
        digest, index = str(last["hash"]), int(last.get("index") or 0)
    changed = digest != digest_now
    objects = selected(asked.before, hub.index_before) if changed else offer.selected
    on_cluster = _once_overridden(asked, offer, hub, objects, note.get("overrides"))
    return Contents((ResourceSnapshot(index, digest, objects),), on_cluster)


def _shown(asked: Asked, offer: Offer, hub: Hub, note: Mapping[str, Any]) -> Contents:
    """What a hub shows to stand: its resource snapshots, and on each cluster what its binding brings of them.
    Where no snapshot was captured, the newest that a binding names, with the objects that state noted last,
    else with those that are there now.
    """
    snapshots = tuple(_shown_snapshots(asked, offer))
    if snapshots:
        return Contents(snapshots, dict(_shown_content(asked, offer, snapshots)))
    indices = [b.resource_snapshot for b in asked.prior if b.resource_snapshot is not None]
    if not indices:
        return Contents()
    noted = read_contents(note, asked.prior, hub.by_hash).latest if is_noted(note) else None
    objects = noted.objects if noted is not None else offer.selected
    digest = noted.hash if noted is not None else fingerprint(objects)
    on_cluster = _once_overridden(asked, offer, hub, objects, None)
    return Contents((ResourceSnapshot(max(indices), digest, objects),), on_cluster)


def _shown_snapshots(asked: Asked, offer: Offer) -> Iterator[ResourceSnapshot]:
    """The snapshots that a hub shows. One that holds what is selected now is that, in whatever order."""
    now = {compared_hash(manifest) for manifest in offer.selected}
    digest_now = fingerprint(offer.selected)
    for shown in asked.shown.get("resource_snapshots") or ():
        read_objects = (manifest_of(json.decode(text)) for text in shown["objects"])
        objects = tuple(manifest for manifest in read_objects if manifest is not None)
        if {compared_hash(manifest) for manifest in objects} == now:
            yield ResourceSnapshot(int(shown["index"]), digest_now, offer.selected)
        else:
            yield ResourceSnapshot(int(shown["index"]), fingerprint(objects), objects)


def _shown_content(
    asked: Asked, offer: Offer, snapshots: tuple[ResourceSnapshot, ...]
) -> Iterator[tuple[str, Rendered]]:
    """What is on each cluster: the objects of its binding's snapshot under the overrides that it names."""
    by_index = {snapshot.index: snapshot for snapshot in snapshots}
    known: Mapping[str, FleetOverride] = asked.shown.get("override_snapshots") or {}
    shown_bindings = asked.shown.get("bindings") or {}
    renders: dict[tuple[int, tuple[str, ...]], Renders] = {}
    for binding in asked.prior:
        snapshot = by_index.get(-1 if binding.resource_snapshot is None else binding.resource_snapshot)
        if snapshot is None or not has_resources(binding):
            continue
        names = tuple(shown_bindings[binding.cluster].get("overrides") or ())
        key = snapshot.index, names
        captured = all(name in known for name in names)
        if key not in renders:
            # In the order of the names that the binding lists: cluster overrides come first.
            overrides = tuple(known[name] for name in names) if captured else offer.overrides
            renders[key] = Renders(snapshot.objects, overrides, offer.clusters.labels)
        rendered = renders[key].get(binding.cluster) or Rendered(snapshot.objects)
        failure = _shown_failure(shown_bindings[binding.cluster], rendered)
        if captured:
            rendered = replace(rendered, overrides=names)
        if failure != rendered.in_words:  # of what a hub cut off, the whole is known
            rendered = replace(rendered, failure=failure, said="")
        yield binding.cluster, rendered


def _shown_failure(binding: Mapping[str, Any], rendered: Rendered) -> str:
    """Why overriding failed on the cluster of a binding. A hub looked at the labels that the cluster had
    then: what it says goes before what would come of it today.
    """
    standing = binding.get("standing")
    if standing == UNOVERRIDDEN:
        return binding.get("failure") or rendered.in_words or "overriding failed on the hub"
    went_well = standing in (READY, FAILED) and not rendered.unopened
    return "" if went_well else rendered.in_words


def _once_overridden(
    asked: Asked, offer: Offer, hub: Hub, objects: tuple[Manifest, ...], digests: Mapping[str, str] | None
) -> dict[str, Rendered]:
    """What stood on each cluster, of which state noted no more than the hash of what overrides made."""
    former = hub.overrides_before(asked.written.key)
    # State noted no overrides: those of now may have stood before, or else those of state.
    choices = [Renders(objects, overrides, offer.clusters.labels) for overrides in (offer.overrides, former)]
    on_cluster: dict[str, Rendered] = {}
    for binding in asked.prior:
        if not has_resources(binding):
            continue
        possible = [renders.get(binding.cluster) or Rendered(objects) for renders in choices]
        digest = possible[0].digest if digests is None else str(digests.get(binding.cluster, ""))
        alike = (rendered for rendered in possible if rendered.digest == digest)
        on_cluster[binding.cluster] = next(alike, Rendered(objects, digest))
    return on_cluster


def note_resources(placement: PlacementPlan, serial: int) -> None:
    """Note what the placement brought where and why each binding came, once everything is rolled out.
    `serial` is the one that applying the plan will give.
    """
    noted = noted_before(placement.asked)
    held_before = {binding.cluster for binding in placement.asked.prior} - placement.given_up
    present = [binding.cluster for binding in placement.held]
    new_clusters = [cluster for cluster in present if cluster not in held_before]
    came = [(cluster, str(placement.scheduled.picked.get(cluster, ""))) for cluster in new_clusters]
    # Of the note only these are carried on; the contents are written anew.
    placed_before = {PLACED: noted[PLACED]} if PLACED in noted else None
    of_hub = {ON_HUB: noted[ON_HUB]} if ON_HUB in noted else {}
    placed = note_placed(placed_before, came, present, serial) or {}
    contents = Contents(placement.stock.snapshots, placement.contents_after())
    written = write_contents(contents, placement.held)
    placement.asked.instance.private = {**placed, **of_hub, **written}
