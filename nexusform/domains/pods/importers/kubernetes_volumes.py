"""Claims of a pod and the nodes from which their volumes are reachable.

Both are known as far as manifests show them. The module also has the volumes and claims of a
cluster for the volume binder (domains/pods/scheduling/volume_binder.py).

Sources: kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions}.
Unknown facts (an undefined claim or class, a volume created before its pod) are warnings.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Severity
from nexusform.documents.scalars import parse_integer
from nexusform.documents.yaml_documents import build_problem
from nexusform.domains.pods.importers import csi_objects
from nexusform.domains.pods.importers.csi_objects import CsiLimits
from nexusform.domains.pods.importers.kubernetes_pod_spec import parse_node_term, parse_selector
from nexusform.domains.pods.importers.manifest_parser import (
    Fields,
    Manifest,
    get_integer,
    read_silently,
)
from nexusform.domains.pods.importers.object_needs import find_provided_object
from nexusform.domains.pods.scheduling.cluster_records import (
    AttachLimits,
    Claim,
    FreeStorage,
    InlineVolume,
    Pairs,
    Volume,
    VolumeNeed,
)
from nexusform.domains.pods.scheduling.rules.volume_binding import UNBOUND, ZONE_LABELS
from nexusform.domains.pods.scheduling.volume_binder import can_bind_volume
from nexusform.kubernetes.matching import IN, NodeSelectorTerm, Requirement
from nexusform.kubernetes.quantity import read_quantity_or_zero

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SINGLE_POD_MODE: Final = "ReadWriteOncePod"
_SINGLE_NODE_MODE: Final = "ReadWriteOnce"
_SHARED_MODES: Final = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_LOST: Final = "Lost"
_BLOCK: Final = "Block"
_ALL_NODES: Final = None

NOT_KNOWN: Final = "unknown-volumes"
_REACHABILITY_UNKNOWN: Final = "the nodes that can reach its volume are not checked"

Terms = tuple[NodeSelectorTerm, ...]
# Reference to a claim: part of a pod's manifest, and the key in it.
_FieldReference = tuple[Fields, str]


class ClaimTemplateOrdinals(Struct, frozen=True):
    """Claim template of a StatefulSet, and the ordinals with claims."""

    claim: Fields
    ordinals: range


class Storage(Struct, frozen=True):
    """Volumes and classes by name, claims by namespace and name.

    `default_class` is the default class or "". `reserved_volumes` have a claimRef, by the claim's
    namespace and name; `free_volumes` are neither reserved nor named in claims, by class.
    `templates` are the claim templates of StatefulSets, by namespace and name without the ordinal.
    `has_all_classes` means that a StorageClass missing here does not exist. `csi` are limits and
    free storage of CSI drivers. `has_all_claims` means that a claim missing here does not exist,
    unless it is one of `coming_claims`: these are those that a controller creates for DataVolumes.
    """

    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    reserved_volumes: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)
    free_volumes: Mapping[str, Sequence[Volume]] = field(default_factory=dict)
    classes: Mapping[str, Manifest] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)
    templates: Mapping[tuple[str, str], ClaimTemplateOrdinals] = field(default_factory=dict)
    default_class: str = ""
    is_complete: bool = True
    has_all_classes: bool = False
    csi: CsiLimits = CsiLimits()
    has_all_claims: bool = True
    coming_claims: frozenset[tuple[str, str]] = frozenset()


def collect_storage(
    manifests: Iterable[Manifest],
    *,
    is_complete: bool = True,
    has_all_classes: bool = False,
    has_all_claims: bool = True,
) -> Storage:
    """Return the storage among a cluster's objects.

    `is_complete` means that it has no objects besides `manifests`, `has_all_classes` that a
    StorageClass missing here does not exist, `has_all_claims` that no unread object has claims.
    """
    volumes: dict[str, Manifest] = {}
    classes: dict[str, Manifest] = {}
    claims: dict[tuple[str, str], Manifest] = {}
    templates: dict[tuple[str, str], ClaimTemplateOrdinals] = {}
    # Their creation times by name.
    default_classes: dict[str, str] = {}
    manifests = tuple(manifests)
    provided_objects = filter(None, map(find_provided_object, manifests))
    for manifest in manifests:
        match manifest.group, manifest.kind:
            case "", "PersistentVolume":
                volumes[manifest.name] = manifest
            case "", "PersistentVolumeClaim":
                claims[manifest.namespace, manifest.name] = manifest
            case "apps", "StatefulSet":
                templates |= _collect_template_claims(manifest)
            case "storage.k8s.io", "StorageClass":
                classes[manifest.name] = manifest
                metadata = read_silently(manifest, "metadata")
                if metadata.get_mapping("annotations").get_text(_DEFAULT_CLASS) == "true":
                    default_classes[manifest.name] = metadata.get_text("creationTimestamp")
    referenced_names = {
        read_silently(claim, "spec").get_text("volumeName") for claim in claims.values()
    }
    # Free volumes are neither named in a claim nor have a claimRef.
    volumes_by_class: dict[str, list[Volume]] = {}
    for name, manifest in volumes.items():
        if (
            name not in referenced_names
            and not read_silently(manifest, "spec").get_mapping("claimRef").data
            and _is_available(manifest)
        ):
            volume = _build_volume(manifest)
            volumes_by_class.setdefault(volume.storage_class, []).append(volume)
    return Storage(
        volumes=volumes,
        reserved_volumes=_collect_reserved_volumes(volumes, claims, is_complete=is_complete),
        free_volumes=volumes_by_class,
        classes=classes,
        claims=claims,
        templates=templates,
        # The newest one; of equally old ones the first by name.
        default_class=max(sorted(default_classes), key=default_classes.__getitem__, default=""),
        is_complete=is_complete,
        has_all_classes=has_all_classes,
        csi=csi_objects.collect_csi_objects(manifests),
        has_all_claims=is_complete and has_all_claims,
        coming_claims=frozenset((namespace, name) for _, namespace, name in provided_objects),
    )


def _is_available(volume: Manifest) -> bool:
    """Return whether a volume without a claim can be bound.

    A volume without a phase becomes available once it is created.
    """
    phase = read_silently(volume, "status").get_text("phase")
    is_deleted = "deletionTimestamp" in read_silently(volume, "metadata")
    return phase in ("", "Pending", "Available") and not is_deleted


def _collect_reserved_volumes(
    volumes: Mapping[str, Manifest],
    claims: Mapping[tuple[str, str], Manifest],
    *,
    is_complete: bool,
) -> dict[tuple[str, str], Manifest]:
    """Return the volumes with a claimRef by namespace and name of the claim.

    Volumes of deleted claims are left out.
    """
    reserved: dict[tuple[str, str], Manifest] = {}
    for manifest in volumes.values():
        claim = read_silently(manifest, "spec").get_mapping("claimRef")
        claim_name = (claim.get_text("namespace"), claim.get_text("name"))
        if claim.data and _is_same_claim(claim, claims.get(claim_name), is_complete=is_complete):
            reserved[claim_name] = manifest
    return reserved


def _is_same_claim(claim_reference: Fields, claim: Manifest | None, *, is_complete: bool) -> bool:
    """Return whether the claimRef of a volume refers to this claim.

    It may refer to a deleted claim of the same name. `claim` is None if no claim with this name was
    read. `is_complete` means that all claims of the cluster were read.
    """
    uid = claim_reference.get_text("uid")
    if not uid:
        # The volume is reserved by name alone, for any claim of this name.
        return True
    if claim is None:
        # It was not read, so it may exist.
        return not is_complete
    # A claim without a uid (from a manifest, not from the cluster) counts as the same.
    return read_silently(claim, "metadata").get_text("uid", uid) == uid


def _collect_template_claims(stateful: Manifest) -> dict[tuple[str, str], ClaimTemplateOrdinals]:
    """Return the claim templates of a StatefulSet, by namespace and name.

    The name is that of the claim without the ordinal.
    """
    spec = read_silently(stateful, "spec")
    first_ordinal = get_integer(spec.get_mapping("ordinals").data, "start", 0)
    ordinals = range(first_ordinal, first_ordinal + get_integer(spec.data, "replicas", 1))
    claims: dict[tuple[str, str], ClaimTemplateOrdinals] = {}
    for template in spec.list_mappings("volumeClaimTemplates"):
        name = f"{template.get_mapping('metadata').get_text('name')}-{stateful.name}"
        claims[stateful.namespace, name] = ClaimTemplateOrdinals(
            template.get_mapping("spec"), ordinals
        )
    return claims


class PodVolumes(Struct, frozen=True):
    """Node requirements of a pod's volumes.

    `needs` are those with fixed nodes, `claims` are still to be bound. `bound_claims` have a
    volume, each with its CSI driver. `exclusive_claims` are ReadWriteOncePod claims
    (`namespace/name`), `disks` those named without a claim. `claim_count` counts all claims.
    `missing_objects` are reasons for missing objects. `single_node_claims` have volumes that can be
    attached to one node at a time (`namespace/name`).
    """

    needs: tuple[VolumeNeed, ...] = ()
    claims: tuple[Claim, ...] = ()
    exclusive_claims: tuple[str, ...] = ()
    disks: tuple[InlineVolume, ...] = ()
    claim_count: int = 0
    missing_objects: tuple[str, ...] = ()
    bound_claims: Pairs = ()
    single_node_claims: tuple[str, ...] = ()


def parse_volumes(
    manifest: Manifest, spec: Fields, templates: Iterable[Fields], storage: Storage
) -> PodVolumes:
    """Return the volumes of a pod; `templates` are the volumeClaimTemplates of its StatefulSet."""
    namespace = manifest.namespace
    # {}: the number of the pod.
    pod_name = manifest.name if manifest.kind == "Pod" else f"{manifest.name}-{{}}"
    # Nodes in reach of existing volumes.
    needs: list[VolumeNeed] = []
    # Claims to bind; None if it limits no node.
    claims: list[Claim | None] = []
    exclusive_claims: list[str] = []  # ReadWriteOncePod
    # Disks that are named without a claim.
    disks: list[InlineVolume] = []
    # Reasons for pods to stay Pending.
    missing_objects: list[str] = []
    # (claim, CSI driver).
    bound_claims: list[tuple[str, str]] = []
    # With a volume attached to one node at a time.
    single_node_claims: list[str] = []
    template_names: set[str] = set()
    claim_count = 0
    for template in templates:
        claim_count += 1
        name = template.get_mapping("metadata").get_text("name")
        template_names.add(name)
        claim = template.get_mapping("spec")
        claim_name = f"{namespace}/{name}-{pod_name}"
        claims.append(_build_unbound_claim(claim_name, claim, (claim, "storageClassName"), storage))
    for volume in spec.list_mappings("volumes"):
        if volume.get_text("name") in template_names:
            # The claim of the template takes its place.
            continue
        if "ephemeral" in volume:
            claim_count += 1
            claim = (
                volume.get_mapping("ephemeral")
                .get_mapping("volumeClaimTemplate")
                .get_mapping("spec")
            )
            claim_name = f"{namespace}/{pod_name}-{volume.get_text('name')}"
            ephemeral_claim = _build_unbound_claim(
                claim_name, claim, (claim, "storageClassName"), storage
            )
            if ephemeral_claim is not None:
                claims.append(replace(ephemeral_claim, is_ephemeral=True))
        elif "persistentVolumeClaim" in volume:
            claim_count += 1
            source = volume.get_mapping("persistentVolumeClaim")
            claim_name = source.get_text("claimName")
            if _is_for_one_node(namespace, claim_name, storage):
                single_node_claims.append(f"{namespace}/{claim_name}")
            claim_volumes = _parse_claim_volume(namespace, claim_name, source, storage)
            needs += claim_volumes.needs
            claims += claim_volumes.claims
            exclusive_claims += claim_volumes.exclusive_claims
            missing_objects += claim_volumes.missing_objects
            bound_claims += claim_volumes.bound_claims
        else:
            disks += _list_exclusive_disks(volume)
    return PodVolumes(
        needs=_filter_unique(needs),
        claims=_filter_unique(claims),
        exclusive_claims=tuple(exclusive_claims),
        disks=tuple(disks),
        claim_count=claim_count,
        missing_objects=tuple(missing_objects),
        bound_claims=tuple(bound_claims),
        single_node_claims=tuple(single_node_claims),
    )


def _parse_claim_volume(namespace: str, name: str, source: Fields, storage: Storage) -> PodVolumes:
    """Return the volumes of one claim of a pod.

    `source` is the persistentVolumeClaim of the pod's volume. The cases are, in order: the claim is
    missing, exists only as a template of a StatefulSet, is unusable, has a volume, gets a volume on
    a chosen node, or is unbound.
    """
    # The place of findings.
    reference = (source, "claimName")
    claim_object = storage.claims.get((namespace, name))
    # A StatefulSet may create it from a template.
    if claim_object is None:
        template_claim = _find_template_claim(namespace, name, storage)
        if template_claim is None:
            return _report_missing_claim(namespace, name, reference, storage)
        exclusive_claims = _list_exclusive_claims(namespace, name, template_claim)
        unbound_claim = _build_unbound_claim(
            f"{namespace}/{name}", template_claim, reference, storage
        )
        return PodVolumes(claims=_filter_unique([unbound_claim]), exclusive_claims=exclusive_claims)
    claim = read_silently(claim_object, "spec")
    exclusive_claims = _list_exclusive_claims(namespace, name, claim)
    error = _explain_unschedulable_claim(claim_object, storage)
    if error:
        _warn_unknown_nodes(
            reference, f'names the claim "{name}": {error}', error, "its pods stay Pending"
        )
        return PodVolumes(exclusive_claims=exclusive_claims, missing_objects=(error,))
    selected_node = (
        read_silently(claim_object, "metadata").get_mapping("annotations").get_text(_SELECTED_NODE)
    )
    if _has_existing_volume(claim_object, storage):
        needs = _filter_unique([_compute_bound_volume_nodes(claim_object, reference, storage)])
    elif selected_node:
        # Its volume is being created for a pod on this node. It counts for the limit of
        # its driver already.
        node_term = NodeSelectorTerm(fields=(Requirement("metadata.name", IN, (selected_node,)),))
        needs = (VolumeNeed((node_term,), is_bound=False),)
    else:
        unbound_claim = _build_unbound_claim(f"{namespace}/{name}", claim, reference, storage)
        return PodVolumes(claims=_filter_unique([unbound_claim]), exclusive_claims=exclusive_claims)
    driver = _find_claim_driver(claim_object, storage)
    bound_claims = ((f"{namespace}/{name}", driver),) if driver else ()
    return PodVolumes(needs, exclusive_claims=exclusive_claims, bound_claims=bound_claims)


def _report_missing_claim(
    namespace: str, name: str, reference: _FieldReference, storage: Storage
) -> PodVolumes:
    """Warn about a claim without a manifest: its pods stay Pending.

    Unless all objects are known, it is ignored, and so is one that a controller creates.
    """
    text = f'names the claim "{name}", but no manifest defines it'
    summary = f"claim {name} is not on the cluster"
    if not storage.has_all_claims or (namespace, name) in storage.coming_claims:
        _warn_unknown_nodes(reference, text, summary)
        return PodVolumes()
    _warn_unknown_nodes(reference, text, summary, "its pods stay Pending")
    return PodVolumes(missing_objects=(f'persistentvolumeclaim "{name}" not found',))


def _list_exclusive_claims(namespace: str, name: str, claim: Fields) -> tuple[str, ...]:
    """Return the name of a claim (`namespace/name`) for one pod only; empty for others."""
    return (f"{namespace}/{name}",) if _SINGLE_POD_MODE in claim.get_texts("accessModes") else ()


def _is_for_one_node(namespace: str, name: str, storage: Storage) -> bool:
    """Return whether the volume of a claim can be attached to one node at a time.

    Its access modes decide, as in the attach controller of Kubernetes. Volumes without a CSI
    driver, such as NFS and local ones, are not attached.
    """
    claim = storage.claims.get((namespace, name))
    if claim is None:
        return False
    volume = _find_claim_volume(claim, storage)
    if volume is None and _has_existing_volume(claim, storage):
        # The volume was not read; a warning says so.
        return False
    driver = _find_claim_driver(claim, storage)
    if driver in storage.csi.unattached_drivers or (volume is not None and not driver):
        return False
    modes = read_silently(volume or claim, "spec").get_texts("accessModes")
    return _SINGLE_NODE_MODE in modes and not _SHARED_MODES.intersection(modes)


def _find_claim_driver(claim: Manifest, storage: Storage) -> str:
    """Return the CSI driver of a claim's volume, or of its class if the volume is not known.

    The result is "" without a driver.
    """
    volume = _find_claim_volume(claim, storage)
    if volume is not None:
        return csi_objects.find_volume_driver(volume)
    class_name = read_silently(claim, "spec").get_text("storageClassName")
    return csi_objects.find_csi_provisioner(storage.classes.get(class_name))


def _list_exclusive_disks(volume: Fields) -> Iterator[InlineVolume]:
    """Yield the disks named by a volume itself.

    On a node, pods share such a disk only if all mount it read-only (isVolumeConflict of
    kube-scheduler). An AWS disk is never shared.
    """
    gce = volume.get_mapping("gcePersistentDisk")
    aws = volume.get_mapping("awsElasticBlockStore")
    iscsi = volume.get_mapping("iscsi")
    rbd = volume.get_mapping("rbd")
    if gce.data:
        yield InlineVolume(f"gce:{gce.get_text('pdName')}", gce.get_flag("readOnly"))
    if aws.data:
        yield InlineVolume(f"aws:{aws.get_text('volumeID')}")
    if iscsi.data:
        yield InlineVolume(f"iscsi:{iscsi.get_text('iqn')}", iscsi.get_flag("readOnly"))
    image = f"{rbd.get_text('pool', 'rbd')}/{rbd.get_text('image')}"
    # Two RBD volumes are the same disk if they have the image and one of their monitors in common.
    for monitor in rbd.get_texts("monitors"):
        yield InlineVolume(f"rbd:{monitor}/{image}", rbd.get_flag("readOnly"))


def _find_template_claim(namespace: str, name: str, storage: Storage) -> Fields | None:
    """Return the template of a claim such as data-web-0.

    The result is None unless its StatefulSet (web) has a pod of this ordinal.
    """
    prefix, _, ordinal = name.rpartition("-")
    template = storage.templates.get((namespace, prefix))
    if template is None:
        return None
    number = parse_integer(ordinal)
    # A number without leading zeros.
    is_ordinal = str(number) == ordinal
    return template.claim if is_ordinal and number in template.ordinals else None


_Part = TypeVar("_Part")


def _filter_unique(parts: Iterable[_Part | None]) -> tuple[_Part, ...]:
    return tuple(dict.fromkeys(part for part in parts if part is not None))


class ClusterStorage(Struct, frozen=True):
    """Storage of a cluster for claims: volumes, and the claims bound without a pod.

    `invalid_claims` (`namespace/name`) prevent their pods from getting a node, each with the
    reason. `attach_limits` are those of CSI drivers.
    """

    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()
    invalid_claims: tuple[tuple[str, str], ...] = ()
    attach_limits: AttachLimits = AttachLimits()


def collect_cluster_storage(
    manifests: Sequence[Manifest], *, is_complete: bool = True, has_all_classes: bool = False
) -> ClusterStorage:
    """Return a cluster's usable volumes, claims to bind at once, invalid claims and attach limits.

    Each has its reason. A volume is usable if it is free or has a claim. A claim to bind at once
    has no volume yet, and does not wait for a pod. `is_complete` means that the cluster has no
    other objects. `has_all_classes` means that it has no other StorageClasses.
    """
    storage = collect_storage(manifests, is_complete=is_complete, has_all_classes=has_all_classes)
    # "": of claims without a volumeName.
    claim_by_volume = {
        read_silently(claim, "spec").get_text("volumeName"): claim
        for claim in storage.claims.values()
    }
    # The volume of a deleted claim is unusable.
    usable_names = {manifest.name for manifest in storage.reserved_volumes.values()}
    usable_names |= {volume.name for volume in chain.from_iterable(storage.free_volumes.values())}
    volumes = [
        _build_volume(manifest, claim_by_volume.get(name))
        for name, manifest in storage.volumes.items()
        if name in usable_names or name in claim_by_volume
    ]
    claims: list[Claim | None] = []
    invalid_claims: list[tuple[str, str]] = []
    for (namespace, name), manifest in storage.claims.items():
        error = _explain_unschedulable_claim(manifest, storage)
        if error:
            invalid_claims.append((f"{namespace}/{name}", error))
        elif not _has_existing_volume(manifest, storage):
            claim = read_silently(manifest, "spec")
            # Findings at the claim are dropped: those of pods with the claim are reported.
            reference = (claim, "")
            claims.append(_build_unbound_claim(f"{namespace}/{name}", claim, reference, storage))
    immediate_claims = tuple(claim for claim in _filter_unique(claims) if not claim.waits_for_pod)
    attach_limits = csi_objects.build_attach_limits(storage.csi, storage.volumes)
    return ClusterStorage(tuple(volumes), immediate_claims, tuple(invalid_claims), attach_limits)


def _build_volume(manifest: Manifest, named_by: Manifest | None = None) -> Volume:
    """Return a PersistentVolume, reserved for the claim of its claimRef, else for `named_by`.

    `named_by` is a claim that names the volume.
    """
    spec = read_silently(manifest, "spec")
    claim = spec.get_mapping("claimRef")
    claim_name = f"{claim.get_text('namespace')}/{claim.get_text('name')}" if claim.data else ""
    if named_by is not None and not claim_name:
        claim_name = f"{named_by.namespace}/{named_by.name}"
    return Volume(
        name=manifest.name,
        size=parse_amount(spec.get_mapping("capacity").data.get("storage")),
        storage_class=spec.get_text("storageClassName"),
        modes=spec.get_texts("accessModes"),
        is_block=spec.get_text("volumeMode") == _BLOCK,
        labels=tuple(sorted(manifest.labels.items())),
        terms=_parse_node_terms(manifest),
        zones=_list_zone_requirements(manifest),
        claim=claim_name,
        driver=csi_objects.find_volume_driver(manifest),
        attributes_class=spec.get_text("volumeAttributesClassName"),
    )


def _warn_unknown_nodes(
    reference: _FieldReference, text: str, summary: str, outcome: str = _REACHABILITY_UNKNOWN
) -> None:
    """Warn at a field (`reference`: its object and key) about a volume with unknown nodes.

    `outcome` is the consequence.
    """
    fields, key = reference
    path = (*fields.path, key)
    detail = f"{fields.manifest.title}: {'.'.join(map(str, path))} {text}; {outcome}."
    position = fields.manifest.find_position(*path)
    short_text = f"{fields.manifest.title}: {summary}"
    problem = build_problem(
        fields.manifest.file, position, NOT_KNOWN, detail, Severity.WARNING, short_text
    )
    fields.findings.append(problem)


def _find_claim_volume(claim: Manifest, storage: Storage) -> Manifest | None:
    """Return the volume named in a claim, else the one reserved for it (claimRef).

    The result is None for none, or an unread one.
    """
    volume_name = read_silently(claim, "spec").get_text("volumeName")
    if volume_name:
        return storage.volumes.get(volume_name)
    return storage.reserved_volumes.get((claim.namespace, claim.name))


def _has_existing_volume(claim: Manifest, storage: Storage) -> bool:
    """Return whether a claim names its volume, or a volume is reserved for the claim (claimRef)."""
    volume_name = read_silently(claim, "spec").get_text("volumeName")
    return bool(volume_name) or (claim.namespace, claim.name) in storage.reserved_volumes


def _explain_unschedulable_claim(claim: Manifest, storage: Storage) -> str:
    """Return why pods with this claim get no node, in the scheduler's words.

    The result is "" if they may get one. It is UNBOUND if the volume named in the claim is missing,
    too small, or reserved for another claim. A missing volume counts only if kubectl has listed the
    claim and all other objects: otherwise the volume may exist.
    """
    metadata = read_silently(claim, "metadata")
    name = claim.name
    spec = read_silently(claim, "spec")
    phase = read_silently(claim, "status").get_text("phase")
    volume_name = spec.get_text("volumeName")
    # All volumes are known, and kubectl has listed the claim.
    is_observed = storage.is_complete and bool(phase)
    # The volume controller found its volume deleted.
    if phase == _LOST:
        return (
            f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume_name}"'
        )
    if "deletionTimestamp" in metadata:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if not volume_name:
        # Still to be bound.
        return ""
    volume = storage.volumes.get(volume_name)
    # The volume controller has bound it.
    if metadata.get_mapping("annotations").get_text(_BIND_COMPLETED):
        return (
            f'persistentvolume "{volume_name}" not found' if volume is None and is_observed else ""
        )
    if volume is None:
        return UNBOUND if is_observed else ""
    volume_spec = read_silently(volume, "spec")
    reference = volume_spec.get_mapping("claimRef")
    # The volume is reserved for this claim, or another one.
    if reference.data:
        names_claim = (reference.get_text("namespace"), reference.get_text("name")) == (
            claim.namespace,
            name,
        )
        is_owner = names_claim and _is_same_claim(reference, claim, is_complete=storage.is_complete)
        return "" if is_owner else UNBOUND
    requested_bytes = parse_amount(
        spec.get_mapping("resources").get_mapping("requests").data.get("storage")
    )
    capacity = parse_amount(volume_spec.get_mapping("capacity").data.get("storage"))
    # An unreserved volume is bound if it is large enough.
    return UNBOUND if capacity < requested_bytes else ""


def _compute_bound_volume_nodes(
    claim: Manifest, reference: _FieldReference, storage: Storage
) -> VolumeNeed | None:
    """Return the nodes in reach of the volume of a bound claim; None for all.

    If they are unknown, also warn.
    """
    volume = _find_claim_volume(claim, storage)
    if volume is None:
        volume_name = read_silently(claim, "spec").get_text("volumeName")
        text = f'is bound to the volume "{volume_name}", but no manifest defines it'
        _warn_unknown_nodes(reference, text, f"volume {volume_name} is not on the cluster")
        return None
    terms = _parse_node_terms(volume)
    zones = _list_zone_requirements(volume)
    return (
        None if terms is _ALL_NODES and not zones else VolumeNeed(terms, is_bound=True, zones=zones)
    )


def _build_unbound_claim(
    name: str, claim: Fields, reference: _FieldReference, storage: Storage
) -> Claim | None:
    """Return a claim without a volume, with the nodes for its pods.

    The result is None if it excludes no node: every node can use the new volume, or nothing is
    known about the volume (reported at `reference`).
    """
    configured_class = claim.data.get("storageClassName")
    class_name = (
        storage.default_class if configured_class is None else claim.get_text("storageClassName")
    )
    unbound_claim = Claim(
        name=name,
        size=parse_amount(
            claim.get_mapping("resources").get_mapping("requests").data.get("storage")
        ),
        storage_class=class_name,
        modes=claim.get_texts("accessModes"),
        is_block=claim.get_text("volumeMode") == _BLOCK,
        selector=parse_selector(claim, "selector"),
        attributes_class=claim.get_text("volumeAttributesClassName"),
    )
    if configured_class == "":
        # "" provisions nothing: an existing volume is required.
        return unbound_claim
    class_object = storage.classes.get(class_name)
    if class_object is None:
        return _complete_claim_of_unknown_class(unbound_claim, reference, storage)
    waits_for_pod = class_object.body.get("volumeBindingMode") == "WaitForFirstConsumer"
    # Nodes in reach of a new volume; () if none is created.
    provisioning_terms = (
        ()
        if class_object.body.get("provisioner") == _NO_PROVISIONER
        else _parse_allowed_topologies(class_object)
    )
    # The place of the new volume is not known.
    if provisioning_terms is _ALL_NODES and not waits_for_pod:
        text = f'requests a volume of "{class_name}", created before its pod is scheduled'
        _warn_unknown_nodes(
            reference, text, f"volumes of {class_name} are created before their pods are scheduled"
        )
    csi = storage.csi
    driver = csi_objects.find_csi_provisioner(class_object)
    # Nodes may reject volumes of the driver: by its free storage (if known and checked), or by a
    # limit of a node.
    is_storage_checked = driver in csi.checked_drivers and bool(csi.capacities)
    has_volume_limit = any(name == driver for _, name in csi.maximums)
    is_driver_required = driver in csi.required_drivers
    can_reject_volume = is_storage_checked or has_volume_limit or is_driver_required
    if (
        provisioning_terms is _ALL_NODES
        and not can_reject_volume
        and not _can_bind_free_volume(unbound_claim, storage)
    ):
        return None
    free_storage: tuple[FreeStorage, ...] = ()
    storage_terms: Terms | None = _ALL_NODES
    if waits_for_pod and is_storage_checked:
        free_storage = csi.list_free_storage(class_name, unbound_claim.size)
        terms = [storage.term for storage in free_storage]
        if None not in terms:
            storage_terms = tuple(term for term in terms if term is not None)
    return replace(
        unbound_claim,
        waits_for_pod=waits_for_pod,
        provisioning_terms=provisioning_terms,
        storage_terms=storage_terms,
        driver=driver,
        free_storage=free_storage,
    )


def _can_bind_free_volume(claim: Claim, storage: Storage) -> bool:
    """Return whether a free volume fits the claim, or one is reserved for a claim of its name."""
    if any(
        can_bind_volume(volume, claim)
        for volume in storage.free_volumes.get(claim.storage_class, ())
    ):
        return True
    # The name without the number of the pod.
    prefix = claim.name.partition("{}")[0]
    return any(
        f"{namespace}/{name}".startswith(prefix) for namespace, name in storage.reserved_volumes
    )


def parse_amount(value: Any) -> int:
    """Return an amount in whole units, 0 if it is absent or invalid."""
    return read_quantity_or_zero(value).round_to_units()


def _parse_node_terms(volume: Manifest) -> Terms | None:
    """Return the nodes that reach a volume by its node affinity; None for all."""
    required = read_silently(volume, "spec").get_mapping("nodeAffinity").get_mapping("required")
    return tuple(map(parse_node_term, required.list_mappings("nodeSelectorTerms"))) or _ALL_NODES


def is_local_volume(volume: Manifest) -> bool:
    """Return whether the data of a PersistentVolume is on the disk of a node."""
    spec = read_silently(volume, "spec").data
    return bool(spec.get("local") or spec.get("hostPath"))


def _list_zone_requirements(volume: Manifest) -> tuple[Requirement, ...]:
    """Return the requirements of the zone labels of a volume.

    `zone-1__zone-2` allows both zones.
    """
    labels = volume.labels
    return tuple(
        Requirement(key, IN, tuple(labels[key].split("__"))) for key in ZONE_LABELS if key in labels
    )


def _complete_claim_of_unknown_class(
    claim: Claim, reference: _FieldReference, storage: Storage
) -> Claim | None:
    """Return an unbound claim of a StorageClass without an object.

    The result is None if its volume is unknown (reported). Kubernetes binds a free volume to such a
    claim at once (IsDelayBindingMode). Without a free volume, its pods stay Pending. Unless all
    classes are known, the named class may exist: the claim is assumed to wait for its pod.
    """
    can_bind = _can_bind_free_volume(claim, storage)
    if can_bind and storage.has_all_classes:
        return claim
    # The class may exist.
    if can_bind and claim.storage_class:
        return replace(claim, waits_for_pod=True)
    class_text = "the default StorageClass"
    summary = "there is no default StorageClass"
    if claim.storage_class:
        class_text = f'the StorageClass "{claim.storage_class}"'
        summary = f"StorageClass {claim.storage_class} is not on the cluster"
    text = f"requests a volume of {class_text}, but no manifest defines it"
    if storage.has_all_classes:
        _warn_unknown_nodes(reference, text, summary, "its pods stay Pending")
        return claim
    _warn_unknown_nodes(reference, text, summary)
    return None


def _parse_allowed_topologies(storage_class: Manifest) -> Terms | None:
    """Return the nodes of a class's allowedTopologies; None for all."""
    root = Fields(storage_class, [], storage_class.body)
    terms = []
    for term in root.list_mappings("allowedTopologies"):
        expressions = term.list_mappings("matchLabelExpressions")
        requirements = [
            Requirement(item.get_text("key"), IN, item.get_texts("values")) for item in expressions
        ]
        terms.append(NodeSelectorTerm(tuple(requirements)))
    return tuple(terms) or _ALL_NODES
