"""Verification of what a hub distributed.

Objects of resource snapshots and, after overrides, of Works; results of runs and evictions. A hub
takes a snapshot when it sees a change, so several writes may come in several snapshots, and a run
may have older objects than the planned ones.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, Final

from msgspec import Struct, convert
from msgspec.structs import replace

from nexusform.diagnostics.phrases import enclose, format_first_items, join_texts
from nexusform.documents.scalars import parse_integer
from nexusform.domains.fleet.importers.fleet_export import (
    build_manifests,
    is_deleting,
    read_snapshot_objects,
)
from nexusform.domains.fleet.importers.fleet_records import FleetOverride
from nexusform.domains.fleet.importers.hub_objects import remove_server_fields
from nexusform.domains.fleet.importers.hub_records import read_runs
from nexusform.domains.fleet.planning.override_rendering import (
    ClusterRenderer,
    RenderedResources,
    expand_envelopes,
)
from nexusform.domains.fleet.planning.placement_records import (
    CONDITIONAL,
    AppliedResources,
    compute_body_hash,
    read_applied_resources,
    read_bindings,
)
from nexusform.domains.fleet.scheduling.eviction import PREDICTED_EVICTION
from nexusform.domains.hub.api.hub_client import HubClient
from nexusform.domains.hub.api.hub_kinds import MEMBER
from nexusform.domains.hub.providers.hub_bodies import HubObject, build_hub_objects, is_different
from nexusform.domains.hub.providers.hub_wait import (
    MEMBER_NAMESPACE,
    ApplyCoordination,
    has_external_rollout,
    list_created_kinds,
    list_created_objects,
    list_works,
)
from nexusform.domains.hub.providers.object_access import get_identity, list_objects_if_permitted
from nexusform.domains.hub.providers.prediction_verification import (
    VerificationResult,
    build_prediction,
)
from nexusform.domains.hub.providers.rollout_progress import PlacementProgress, get_labels, get_name
from nexusform.domains.pods.importers.manifest_parser import Manifest
from nexusform.interfaces.plugins import ChangeRequest, StepProgress
from nexusform.json_data.plain_data import Path, get_list, get_mapping, get_text, list_mappings
from nexusform.placements.prediction_scores import VerifiedPrediction

NO_SNAPSHOTS: Final = (
    "the hub does not let resource snapshots be listed, so their objects are unknown"
)
_NO_LABELS: Final = (
    "the hub does not let members be listed, so the results of overrides are unknown"
)
EVICTION_PREDICTION: Final = "eviction"
RUN_END_PREDICTION: Final = "run_end"
RUN_ORDER_PREDICTION: Final = "run_order"
_RUN_ENDS: Final = {True: "all stages complete", False: "it stops"}
_EVICTION_RESULTS: Final = {True: "executed", False: "blocked"}
_UPDATE_RESULTS: Final = {True: "updated", False: "not updated"}

_MAX_NAMES: Final = 4
Body = Mapping[str, Any]
Bodies = Sequence[Body]
# Objects applied so far in this run of the program, by identity.
AppliedObjects = Mapping[tuple[str, str, str, str], HubObject]


class ContentVerifier:
    """Verifier of the objects of a placement or a run."""

    def __init__(
        self, hub: HubClient, step: ChangeRequest, coordination: ApplyCoordination
    ) -> None:
        self._hub = hub
        self._step = step
        self._coordination = coordination
        self._planned = step.planned_attributes
        # By index of the resource snapshot; "": none, None: unknown.
        self._differences: dict[int, str | None] = {}

    def describe_outdated(self, progress: PlacementProgress) -> str:
        """Return a message if the latest resource snapshot has older objects than applied.

        The result is "" otherwise.
        """
        index = self._find_index_to_verify(progress)
        if index is None or not self._find_snapshot_difference(index):
            # Nothing to verify, no difference, or unknown.
            return ""
        # Not cached, so the next call reads the snapshot again.
        del self._differences[index]
        return "the hub has not taken a snapshot of all changes yet"

    def verify_placement(
        self, verification: VerificationResult, final: PlacementProgress
    ) -> VerificationResult:
        """Return `verification` extended by the clusters with other objects than planned.

        The objects before overrides are in the resource snapshot. Those after overrides are in the
        Works, read only if the rollout is complete: another hand may have added an override. Staged
        runs have checks of their own.
        """
        resources = self._get_planned_resources()
        latest_index = final.latest_snapshot
        # "": nothing is pending.
        is_rolled_out = not final.message and not self._is_run_managed
        resources = select_reached_clusters(
            resources,
            get_mapping(self._planned, "bindings"),
            final,
            {*get_list(self._step.planned_note, CONDITIONAL)},
        )
        if is_rolled_out and latest_index is not None and resources.on_cluster:
            # Namespace and name.
            placement = get_identity(self._step.key.type, self._planned)[1:]
            verification = self._verify_works(verification, resources, latest_index, placement)
        index = self._find_index_to_verify(final)
        if index is None:
            # Nothing to verify.
            return verification
        difference = self._find_snapshot_difference(index)
        if difference is None:  # no permission
            return replace(
                verification,
                not_verified=join_texts((verification.not_verified, NO_SNAPSHOTS), "; "),
            )
        # "": as planned.
        wrong_clusters = _list_clusters_at(final, index) if difference else ()
        return verification.add_wrong_content(wrong_clusters, index, difference)

    def report_renumbered_snapshots(self, final: PlacementProgress) -> tuple[Path, ...]:
        """Report if the hub has taken several resource snapshots, not the one predicted.

        They are snapshots of the changes. Clusters then have the planned objects under a higher
        number. Return the attribute paths of these numbers: no error.
        """
        index = self._find_index_to_verify(final)
        if index is None or self._find_snapshot_difference(index) != "":
            # Other objects than planned, or (None) unknown ones.
            return ()
        predicted_index = self._get_planned_resources().snapshots[-1].index
        added_count = index - predicted_index
        # At most one snapshot for each changed object.
        if not 0 < added_count < self._count_object_changes():
            return ()
        message = (
            f"the hub has taken {added_count + 1} resource snapshots of the changes; the last one "
            f"is {index}"
        )
        self._step.report_progress(StepProgress(message=message))
        paths: list[Path] = []
        for cluster in _list_clusters_at(final, index):
            planned_binding = get_mapping(self._planned, "bindings", cluster)
            if planned_binding.get("resource_snapshot") == predicted_index:
                paths.append(("bindings", cluster, "resource_snapshot"))
        return tuple(paths)

    def list_waiting_paths(self) -> tuple[Path, ...]:
        """Return the paths of bindings that wait as planned, so no result there is right or wrong.

        They wait for an unreachable member, or for clusters that are not available: the rollout
        continues once they are.
        """
        waiting = {*get_list(self._step.planned_note, CONDITIONAL)}
        resources = self._get_planned_resources()
        if resources.pending_clusters:
            latest = resources.snapshots[-1].index
            waiting |= {
                cluster
                for cluster, binding in get_mapping(self._planned, "bindings").items()
                if binding.get("resource_snapshot") != latest
            }
        return tuple(("bindings", cluster) for cluster in sorted(waiting))

    @property
    def _is_run_managed(self) -> bool:
        """Whether staged runs roll out the placement, not the hub itself."""
        return has_external_rollout(build_hub_objects(self._step.key.type, self._planned)[0].body)

    def _find_index_to_verify(self, progress: PlacementProgress) -> int | None:
        """Return the index of the latest resource snapshot, if it is to be verified.

        The result is None for a new placement, with staged runs, and while the snapshot is older
        than planned or missing.
        """
        if self._step.prior is None or self._is_run_managed:
            return None
        index = progress.latest_snapshot
        planned = self._get_planned_resources().snapshots
        if index is None or not planned:
            # The hub or the plan has no snapshot.
            return None
        return index if index >= planned[-1].index else None

    def _get_planned_resources(self) -> AppliedResources:
        return read_applied_resources(self._step.planned_note, read_bindings(self._planned))

    def _count_object_changes(self) -> int:
        """Return the number of objects added, changed and removed since the previous snapshot."""
        recorded = read_applied_resources(self._step.private_note, bindings=()).snapshots
        # The latest two.
        snapshots = [*recorded[-1:], *self._get_planned_resources().snapshots][-2:]
        if len(snapshots) < 2:
            # No previous one.
            return 0
        before, after = (
            {(item.title, compute_body_hash(item)) for item in snapshot.objects}
            for snapshot in snapshots
        )
        # A changed object has a pair of title and hash in each.
        changed_pairs = before ^ after
        return len({title for title, _ in changed_pairs})

    def _find_snapshot_difference(self, index: int) -> str | None:
        """Return how a resource snapshot differs from the plan.

        The result is "" if it does not differ, None without permission.
        """
        if index not in self._differences:
            kind, namespace, name = get_identity(self._step.key.type, self._planned)
            _, _, snapshot_kind = list_created_kinds(kind)
            bodies = self.list_snapshots(snapshot_kind, namespace, name)
            if bodies is None:
                self._differences[index] = None
                return None
            titles = _collect_titles(self._get_planned_resources().snapshots[-1].objects)
            applied = self._coordination.applied_objects
            kept_titles = self._coordination.kept_titles
            self._differences[index] = find_wrong_objects(
                index, titles, bodies, applied, kept_titles
            )
        return self._differences[index]

    def verify_run(
        self, verification: VerificationResult, snapshots: Bodies, namespace: str, placement: str
    ) -> VerificationResult:
        """Return `verification` extended by the clusters of a run with other objects.

        After overrides, they have other objects than planned.
        """
        note = self._step.planned_note
        if not note.get("picked"):
            # No overrides are planned.
            return verification
        members = list_objects_if_permitted(partial(self._hub.list_objects, MEMBER.collection))
        if members is None:
            return replace(verification, not_verified=_NO_LABELS)
        resources = render_run_content(note, snapshots, members)
        return self._verify_works(
            verification, resources, int(note["resource_snapshot"]), (namespace, placement)
        )

    def list_snapshots(
        self, kind: str, namespace: str, placement: str
    ) -> list[dict[str, Any]] | None:
        """Return the resource snapshots of a placement; None without permission."""
        return list_objects_if_permitted(
            partial(list_created_objects, self._hub, kind, namespace, placement)
        )

    def _verify_works(
        self,
        verification: VerificationResult,
        resources: AppliedResources,
        index: int,
        placement: tuple[str, str],
    ) -> VerificationResult:
        """Return `verification` with missing Works, and with Works of other objects.

        These objects are other than planned (`resources`). `index` is that of the latest resource
        snapshot, `placement` the namespace and name of the placement.
        """
        works = list_works(self._hub, *placement)
        verification = replace(verification, not_verified=describe_missing_works(resources, works))
        for cluster, difference in find_wrong_works(resources, works or ()):
            verification = verification.add_wrong_content([cluster], index, difference)
        return verification


def _list_clusters_at(progress: PlacementProgress, index: int) -> list[str]:
    """Return the clusters at a resource snapshot."""
    return [
        cluster
        for cluster, item in progress.bindings.items()
        if item.get("resource_snapshot") == index
    ]


def _collect_titles(objects: Iterable[Any]) -> set[str]:
    return {item.title for item in objects}


class _PickedOverrides(Struct, frozen=True):
    """Part of a planned RunRecord; `picked` is recorded together with the others."""

    resource_snapshot: int
    picked: dict[str, tuple[int, ...]]
    overrides: tuple[FleetOverride, ...] = ()
    done: tuple[str, ...] = ()


def render_run_content(note: Body, snapshots: Bodies, members: Bodies) -> AppliedResources:
    """Return the objects on the clusters completed by a run, if overrides change them.

    They are those of its resource snapshot with the planned overrides. `note`, the planned private
    data of the run in state, has these overrides.
    """
    record = convert(note, _PickedOverrides)
    on_cluster: dict[str, RenderedResources] = {}
    objects = read_snapshot_objects(build_manifests(snapshots), record.resource_snapshot)
    labels = {get_name(member): get_labels(member) for member in members}
    # The hub has deleted the snapshot.
    if not objects:
        return AppliedResources(snapshots=(), on_cluster=on_cluster)
    # With overrides, and completed.
    for cluster in sorted(record.picked.keys() & record.done):
        overrides = tuple(record.overrides[position] for position in record.picked[cluster])
        rendered = ClusterRenderer(objects, overrides, labels).render_cluster(cluster)
        # "": no object is changed.
        if rendered is not None and rendered.digest:
            on_cluster[cluster] = rendered
    return AppliedResources(snapshots=(), on_cluster=on_cluster)


def select_reached_clusters(
    planned: AppliedResources,
    bindings: Mapping[str, Any],
    final: PlacementProgress,
    conditional: AbstractSet[str] = frozenset(),
) -> AppliedResources:
    """Return the planned resources without clusters that wait for others.

    Those are `conditional` clusters, and those that wait for an unreachable member.

    Of the member itself and of later waves, the plan has the objects from before. `bindings` are
    the planned ones. A later wave has an older resource snapshot, or other overrides than in the
    `final` progress: its rollout continued.
    """
    if conditional:
        certain = {
            cluster: rendered
            for cluster, rendered in planned.on_cluster.items()
            if cluster not in conditional
        }
        planned = replace(planned, on_cluster=certain)
    if not planned.pending_clusters:
        return planned
    latest = planned.latest
    latest_index = latest.index if latest is not None else None
    reached = {
        cluster: rendered
        for cluster, rendered in planned.on_cluster.items()
        if not rendered.is_pending
        and get_mapping(bindings, cluster).get("resource_snapshot") == latest_index
        and final.overrides.get(cluster) == frozenset(rendered.overrides)
    }
    return replace(planned, on_cluster=reached)


def find_wrong_works(planned: AppliedResources, works: Bodies) -> Iterator[tuple[str, str]]:
    """Yield the clusters with other objects in their Works than planned, and the difference.

    The Works are sent by the hub to a cluster. Left out are clusters without Works or with a
    predicted failure, and objects with another owner there.
    """
    objects_by_cluster = _read_objects(works)
    for cluster, rendered in sorted(planned.on_cluster.items()):
        objects = objects_by_cluster.get(cluster, {})
        if not objects or rendered.failure:
            # Nothing to compare.
            continue
        expected = {manifest.title: manifest for manifest in expand_envelopes(rendered.manifests)}
        common = expected.keys() & objects.keys()
        changed = {
            title for title in common if is_different(expected[title].body, objects[title].body)
        }
        all_different = (expected.keys() ^ objects.keys()) | changed
        different = sorted(all_different - _collect_titles(rendered.conflicting_objects))
        if different:
            yield (
                cluster,
                f"its Works differ from the plan in {format_first_items(different, _MAX_NAMES)}",
            )


def describe_missing_works(planned: AppliedResources, works: Bodies | None) -> str:
    """Describe the clusters without Works to verify; "" if all have some.

    `works` is None without permission.
    """
    if works is None:
        return "the hub does not let Works be listed, so the objects of its clusters are unknown"
    observed = _read_objects(works)
    missing: list[str] = []
    for cluster, rendered in sorted(planned.on_cluster.items()):
        if rendered.manifests and not rendered.failure and not observed.get(cluster):
            missing.append(cluster)
    return enclose("the hub has no Works of ", format_first_items(missing, _MAX_NAMES))


def _read_objects(works: Bodies) -> dict[str, dict[str, Manifest]]:
    """Return the objects in Works, by cluster and title, without those of Works in deletion."""
    objects_by_cluster: dict[str, dict[str, Manifest]] = {}
    for work in works:
        if is_deleting(work):
            # Its objects are removed.
            continue
        cluster = get_text(work, "metadata", "namespace").removeprefix(MEMBER_NAMESPACE)
        manifests = build_manifests(list_mappings(work, "spec", "workload", "manifests"))
        objects_by_cluster.setdefault(cluster, {}).update(
            {manifest.title: manifest for manifest in manifests}
        )
    return objects_by_cluster


class _StagePosition(Struct, frozen=True):
    """Place of a cluster in the order of its stage, from 1."""

    stage: str
    number: int
    size: int

    @property
    def text(self) -> str:
        """Display text."""
        return f"{self.number} of {self.size} in stage {self.stage}"


def find_wrong_run_resources(
    run: Body, note: Body, snapshots: Bodies, applied: AppliedObjects
) -> str:
    """Return how the resources of a completed run differ from the planned ones.

    "" if they do not, or if either is unknown. `note` is the planned private data of the run,
    `snapshots` are the resource snapshots of its placement.
    """
    planned_index = note.get("resource_snapshot")
    used_index = parse_integer(get_text(run, "status", "resourceSnapshotIndexUsed"))
    if planned_index is None or used_index is None:
        return ""
    if used_index != planned_index:
        difference = f"it used resource snapshot {used_index}; planned: {planned_index}"
        # The hub collects changes.
        if used_index < planned_index:
            return f"{difference} (the hub takes new content about 30 seconds after this run)"
        return difference
    return find_wrong_objects(used_index, set(get_list(note, "objects")), snapshots, applied)


def find_wrong_objects(
    index: int,
    planned_titles: AbstractSet[str],
    snapshots: Bodies,
    applied: AppliedObjects,
    kept_titles: AbstractSet[str] = frozenset(),
) -> str:
    """Return a text about the difference of a resource snapshot (`index`) from the planned objects.

    "" means no difference, or a snapshot deleted by the hub. `snapshots` are all of the placement,
    `applied` objects written by this apply. `kept_titles` are objects to delete, but kept because
    another manager re-created them.
    """
    manifests = build_manifests(snapshots)
    objects = read_snapshot_objects(manifests, index)
    if not objects:
        # The hub has deleted it.
        return ""
    differing_titles = (_collect_titles(objects) ^ planned_titles) - kept_titles
    if planned_titles and differing_titles:
        names = format_first_items(sorted(differing_titles), _MAX_NAMES)
        return f"its resource snapshot {index} differs from the plan in {names}"
    # Titles of objects without the content applied by this run of the program.
    outdated: list[str] = []
    for manifest in objects:
        applied_object = applied.get(
            (manifest.group, manifest.kind, manifest.namespace, manifest.name)
        )
        # A snapshot has no fields of servers, even if they were applied.
        if applied_object is not None and is_different(
            remove_server_fields(applied_object.body), manifest.body
        ):
            outdated.append(manifest.title)
    indexes = [
        parse_integer(manifest.labels.get("kubernetes-fleet.io/resource-index"))
        for manifest in manifests
    ]
    is_latest = all(other is None or other <= index for other in indexes)
    # An earlier snapshot has older content, as it should.
    if outdated and is_latest:
        return (
            f"its resource snapshot {index} has older content of "
            f"{format_first_items(outdated, _MAX_NAMES)}"
        )
    return ""


def verify_run(name: str, note: Body, run: Body) -> tuple[VerifiedPrediction, ...]:
    """Return the verified predictions of a staged run.

    They are about its end, the updated clusters if it stops early, and the place of each cluster
    in its stage. `note` has the predicted values. The `chance` of a prediction is the probability
    of a random guess.
    """
    observed = next(iter(read_runs(build_manifests([run]))), None)
    if observed is None or not note.get("stages") or note.get("is_waiting") is True:
        # Nothing was predicted, or only that the run waits for an unreachable member.
        return ()
    was_end_planned = note.get("ended") is True
    ends = (_RUN_ENDS[was_end_planned], _RUN_ENDS[observed.succeeded])
    predictions = [_build_run_prediction(RUN_END_PREDICTION, name, *ends, chance=0.5)]
    planned_places = _index_stage_positions(note["stages"])
    observed_places = _index_stage_positions(_list_stages(run))
    planned_clusters = get_list(note, "done")
    # Then verify the updates of all clusters.
    is_partial = not was_end_planned or not observed.succeeded
    for cluster, planned_place in planned_places.items():
        title = f"{name}: {cluster}"
        was_planned = cluster in planned_clusters
        is_updated = cluster in observed.done
        if is_partial or was_planned != is_updated:
            results = (_UPDATE_RESULTS[was_planned], _UPDATE_RESULTS[is_updated])
            predictions.append(
                _build_run_prediction(RUN_END_PREDICTION, title, *results, chance=0.5)
            )
        place = observed_places.get(cluster)
        # The only cluster of a stage has one possible place, so this counts only if it is wrong.
        if place is not None and (planned_place.size > 1 or place != planned_place):
            texts = (planned_place.text, place.text)
            predictions.append(
                _build_run_prediction(
                    RUN_ORDER_PREDICTION, title, *texts, chance=1 / planned_place.size
                )
            )
    return tuple(predictions)


def _list_stages(run: Body) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the stages of a run: name, and clusters in the order of the starts of their updates."""
    for stage in list_mappings(run, "status", "stagesStatus"):
        # Time of the start by cluster.
        starts: dict[str, str] = {}
        for cluster in list_mappings(stage, "clusters"):
            conditions = list_mappings(cluster, "conditions")
            times = [
                get_text(item, "lastTransitionTime")
                for item in conditions
                if item.get("type") == "Started"
            ]
            # Before its start a cluster has "~", sorted after every time.
            starts[str(cluster.get("clusterName"))] = times[0] if times else "~"
        yield str(stage.get("stageName")), sorted(starts, key=starts.__getitem__)


def _index_stage_positions(
    stages: Iterable[tuple[str, Sequence[str]]],
) -> dict[str, _StagePosition]:
    """Return the place of each cluster in its stage (name and clusters in order)."""
    return {
        cluster: _StagePosition(stage, number, len(clusters))
        for stage, clusters in stages
        for number, cluster in enumerate(clusters, 1)
    }


def _build_run_prediction(
    subject: str, name: str, predicted: str, observed: str, *, chance: float
) -> VerifiedPrediction:
    """Build the verified prediction of one fact about a run.

    `chance` is the probability of a random guess.
    """
    text = f"{name}: predicted: {predicted}; observed: {observed}"
    return build_prediction(subject, text, was_correct=predicted == observed, chance=chance)


def verify_eviction(name: str, note: Body, reason: str) -> tuple[VerifiedPrediction, ...]:
    """Return the verified prediction of an eviction, () without one.

    `reason` is why it was not executed, or "".
    """
    predicted = note.get(PREDICTED_EVICTION)
    if not isinstance(predicted, Mapping):
        return ()
    predicts_execution = predicted.get("executed") is True
    is_certain = predicted.get("certain") is True
    result = f"blocked ({reason})" if reason else "executed"
    prediction = _EVICTION_RESULTS[predicts_execution]
    text = f"{name}: predicted to be {prediction} ({predicted.get('message')}), but was {result}"
    is_correct = predicts_execution == (result == "executed")
    return (
        build_prediction(EVICTION_PREDICTION, text, was_correct=is_correct, is_certain=is_certain),
    )
