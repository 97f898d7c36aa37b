"""Claims of a pod -> the nodes from which their volumes can be reached, as far as manifests tell; and what a
cluster has for claims that take a volume while pods are placed (domains/pods/scheduling/claims.py).

Sources: kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions}. What is
not known (a claim or a class that no manifest defines, a volume that is made before its pod) is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Severity
from nexusform.documents.yaml_text import problem_at
from nexusform.domains.pods.importers.kubernetes_manifests import Fields, Manifest
from nexusform.domains.pods.importers.kubernetes_pod_spec import read_node_term, read_selector
from nexusform.domains.pods.scheduling.claims import fits
from nexusform.domains.pods.scheduling.rules.volumes import UNBOUND, ZONE_LABELS
from nexusform.domains.pods.scheduling.workloads import Claim, Disk, NodeTerm, Volume, VolumeNeed
from nexusform.kubernetes.matching import IN, Requirement
from nexusform.kubernetes.quantity import Malformed, parse_quantity

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_ONE_POD: Final = "ReadWriteOncePod"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_SELECTED: Final = "volume.kubernetes.io/selected-node"
_LOST: Final = "Lost"
_BLOCK: Final = "Block"
_ANYWHERE: Final = None

NOT_KNOWN: Final = "volumes-are-not-known"
_NOT_LOOKED_AT: Final = "from which nodes its volume can be reached is not looked at"

Terms = tuple[NodeTerm, ...]
# Where a claim is named: part of a pod's manifest, and the key in it.
_Where = tuple[Fields, str]


class OrdinalClaims(Struct, frozen=True):
    """A claim template of a StatefulSet, and the ordinals for which there are claims of it."""

    claim: Fields
    ordinals: range


class Storage(Struct, frozen=True):
    """Volumes and classes by name, claims by namespace and name; `default` is the default class or "".

    `waiting` are the volumes that wait for a claim, by its namespace and name; `named` those that claims
    name; `free`, by class, those that are for anybody. `templates` are what StatefulSets make claims from, by
    namespace and name without the ordinal.
    """

    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    waiting: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    free: Mapping[str, Sequence[Volume]] = field(default_factory=dict)
    classes: Mapping[str, Manifest] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)
    templates: Mapping[tuple[str, str], OrdinalClaims] = field(default_factory=dict)
    default: str = ""
    is_whole: bool = True


def read_storage(manifests: Iterable[Manifest], *, is_whole: bool = True) -> Storage:
    """The storage of a cluster with these objects. `is_whole`: it has no others."""
    volumes: dict[str, Manifest] = {}
    classes: dict[str, Manifest] = {}
    claims: dict[tuple[str, str], Manifest] = {}
    templates: dict[tuple[str, str], OrdinalClaims] = {}
    default = ""
    for manifest in manifests:
        match manifest.group, manifest.kind:
            case "", "PersistentVolume":
                volumes[manifest.name] = manifest
            case "", "PersistentVolumeClaim":
                claims[manifest.namespace, manifest.name] = manifest
            case "apps", "StatefulSet":
                templates |= _claims_of(manifest)
            case "storage.k8s.io", "StorageClass":
                classes[manifest.name] = manifest
                if _quiet(manifest, "metadata").at("annotations").text(_DEFAULT_CLASS) == "true":
                    default = manifest.name
    named = frozenset(_quiet(claim, "spec").text("volumeName") for claim in claims.values())
    return Storage(
        volumes=volumes,
        waiting=_waiting(volumes, claims, is_whole=is_whole),
        named=named,
        free=_free(volumes, named),
        classes=classes,
        claims=claims,
        templates=templates,
        default=default,
        is_whole=is_whole,
    )


def _waiting(
    volumes: Mapping[str, Manifest], claims: Mapping[tuple[str, str], Manifest], *, is_whole: bool
) -> dict[tuple[str, str], Manifest]:
    """The volumes that wait for a claim, or have one, by its namespace and name."""
    waiting: dict[tuple[str, str], Manifest] = {}
    for manifest in volumes.values():
        claim = _quiet(manifest, "spec").at("claimRef")
        whose = (claim.text("namespace"), claim.text("name"))
        if claim.data and _is_of(claim, claims.get(whose), is_whole=is_whole):
            waiting[whose] = manifest
    return waiting


def _free(volumes: Mapping[str, Manifest], named: AbstractSet[str]) -> dict[str, list[Volume]]:
    """The volumes that are for anybody, by class."""
    free: dict[str, list[Volume]] = {}
    for name, manifest in volumes.items():
        if name not in named and not _quiet(manifest, "spec").at("claimRef").data:
            volume = _volume(manifest)
            free.setdefault(volume.storage_class, []).append(volume)
    return free


def _is_of(reference: Fields, claim: Manifest | None, *, is_whole: bool) -> bool:
    """Whether a volume waits for, or has, the claim of this name: it may be that of one that is gone."""
    uid = reference.text("uid")
    if not uid:
        return True
    if claim is None:
        return not is_whole
    return _quiet(claim, "metadata").text("uid", uid) == uid


def _claims_of(stateful: Manifest) -> dict[tuple[str, str], OrdinalClaims]:
    """The claims that a StatefulSet makes for its pods, which other pods may name."""
    spec = _quiet(stateful, "spec")
    first, replicas = spec.at("ordinals").data.get("start"), spec.data.get("replicas")
    first = first if isinstance(first, int) else 0
    ordinals = range(first, first + (replicas if isinstance(replicas, int) else 1))
    claims: dict[tuple[str, str], OrdinalClaims] = {}
    for template in spec.each("volumeClaimTemplates"):
        name = f"{template.at('metadata').text('name')}-{stateful.name}"
        claims[stateful.namespace, name] = OrdinalClaims(template.at("spec"), ordinals)
    return claims


class PodVolumes(Struct, frozen=True):
    """What a pod's volumes ask of its node: those that have their place (`needs`), and `claims` that get one.
    `exclusive` are claims that it has to itself (`namespace/name`), `disks` those that it names without one.
    `claimed` counts the claims that it names, whatever they ask. `unmet` are what is not there.
    """

    needs: tuple[VolumeNeed, ...] = ()
    claims: tuple[Claim, ...] = ()
    exclusive: tuple[str, ...] = ()
    disks: tuple[Disk, ...] = ()
    claimed: int = 0
    unmet: tuple[str, ...] = ()


def read_volumes(
    manifest: Manifest, spec: Fields, templates: Iterable[Fields], storage: Storage
) -> PodVolumes:
    """The volumes of a pod; `templates` are the volumeClaimTemplates of its StatefulSet (`manifest`)."""
    namespace = manifest.namespace
    pod = manifest.name if manifest.kind == "Pod" else f"{manifest.name}-{{}}"
    needs: list[VolumeNeed | None] = []
    claims: list[Claim | None] = []
    exclusive: list[str] = []
    disks: list[Disk] = []
    unmet: list[str] = []
    own: set[str] = set()
    claimed = 0
    for template in templates:
        claimed += 1
        name = template.at("metadata").text("name")
        own.add(name)
        claims.append(_own_claim(f"{namespace}/{name}-{pod}", template.at("spec"), storage))
    for volume in spec.each("volumes"):
        if volume.text("name") in own:
            continue  # the claim that each pod has for itself takes its place
        if "ephemeral" in volume:
            claimed += 1
            claim = volume.at("ephemeral").at("volumeClaimTemplate").at("spec")
            claims.append(_own_claim(f"{namespace}/{pod}-{volume.text('name')}", claim, storage))
        elif "persistentVolumeClaim" in volume:
            claimed += 1
            of_claim = _of_claim(namespace, volume.at("persistentVolumeClaim"), storage)
            needs += of_claim.needs
            claims += of_claim.claims
            exclusive += of_claim.exclusive
            unmet += of_claim.unmet
        else:
            disks += _disks(volume)
    return PodVolumes(_once(needs), _once(claims), tuple(exclusive), tuple(disks), claimed, tuple(unmet))


def _of_claim(namespace: str, source: Fields, storage: Storage) -> PodVolumes:
    """What a claim asks that a pod names (`source`)."""
    name = source.text("claimName")
    where = (source, "claimName")
    known = storage.claims.get((namespace, name))
    claim = _quiet(known, "spec") if known is not None else _made_for_a_pod(namespace, name, storage)
    if claim is None:
        what = f'names the claim "{name}", which no manifest here defines'
        outcome = "its pods stay Pending" if storage.is_whole else _NOT_LOOKED_AT
        _unknown(where, what, f"claim {name} is not on the cluster", outcome)
        return PodVolumes(unmet=(f'persistentvolumeclaim "{name}" not found',) if storage.is_whole else ())
    exclusive = (f"{namespace}/{name}",) if _ONE_POD in claim.texts("accessModes") else ()
    wrong = _wrong_with(known, storage) if known is not None else ""
    if wrong:
        _unknown(where, f'names the claim "{name}": {wrong}', wrong, "its pods stay Pending")
        return PodVolumes(exclusive=exclusive, unmet=(wrong,))
    if known is not None and _has_volume(known, storage):
        return PodVolumes(_once([_need_of_bound(known, where, storage)]), exclusive=exclusive)
    selected = _quiet(known, "metadata").at("annotations").text(_SELECTED) if known is not None else ""
    if selected:
        # Its volume is being made for a pod that has its node already.
        there = NodeTerm(fields=(Requirement("metadata.name", IN, (selected,)),))
        return PodVolumes((VolumeNeed((there,), bound=False),), exclusive=exclusive)
    return PodVolumes((), _once([_unbound(f"{namespace}/{name}", claim, where, storage)]), exclusive)


def _disks(volume: Fields) -> Iterator[Disk]:
    """The disks that a pod names without a claim and that the scheduler lets no second pod of a node have.

    Source: kubernetes pkg/scheduler/framework/plugins/volumerestrictions, isVolumeConflict.
    """
    gce, aws = volume.at("gcePersistentDisk"), volume.at("awsElasticBlockStore")
    iscsi, rbd = volume.at("iscsi"), volume.at("rbd")
    if gce.data:
        yield Disk(f"gce:{gce.text('pdName')}", gce.flag("readOnly"))
    if aws.data:
        yield Disk(f"aws:{aws.text('volumeID')}")
    if iscsi.data:
        yield Disk(f"iscsi:{iscsi.text('iqn')}", iscsi.flag("readOnly"))
    image = f"{rbd.text('pool', 'rbd')}/{rbd.text('image')}"
    # One image is the same wherever one of its monitors is.
    for monitor in rbd.texts("monitors"):
        yield Disk(f"rbd:{monitor}/{image}", rbd.flag("readOnly"))


def _made_for_a_pod(namespace: str, name: str, storage: Storage) -> Fields | None:
    """What the claim of a StatefulSet's pod asks, by the claim's name."""
    prefix, _, ordinal = name.rpartition("-")
    template = storage.templates.get((namespace, prefix))
    if template is None or not ordinal.isdecimal() or int(ordinal) not in template.ordinals:
        return None
    return template.claim


_Part = TypeVar("_Part")


def _once(parts: Iterable[_Part | None]) -> tuple[_Part, ...]:
    return tuple(dict.fromkeys(part for part in parts if part is not None))


class Offer(Struct, frozen=True):
    """What a cluster has for claims: volumes, and the claims that take one without any pod. `wrong` are those
    (`namespace/name`) with which no pod gets a node, and why.
    """

    volumes: tuple[Volume, ...] = ()
    claims: tuple[Claim, ...] = ()
    wrong: tuple[tuple[str, str], ...] = ()


def read_offer(manifests: Sequence[Manifest], *, is_whole: bool = True) -> Offer:
    """What a cluster with these objects has for claims; what is wrong with them is told where pods claim."""
    storage = read_storage(manifests, is_whole=is_whole)
    named = {_quiet(claim, "spec").text("volumeName"): claim for claim in storage.claims.values()}
    # What was the volume of a claim that is gone is for nobody.
    usable = {each.name for each in storage.waiting.values()}.union(*map(_names, storage.free.values()))
    volumes = [
        _volume(manifest, named.get(name))
        for name, manifest in storage.volumes.items()
        if name in usable or name in named
    ]
    claims: list[Claim | None] = []
    wrong: list[tuple[str, str]] = []
    for (namespace, name), manifest in storage.claims.items():
        trouble = _wrong_with(manifest, storage)
        if trouble:
            wrong.append((f"{namespace}/{name}", trouble))
        elif not _has_volume(manifest, storage):
            claim = _quiet(manifest, "spec")
            claims.append(_unbound(f"{namespace}/{name}", claim, (claim, ""), storage))
    at_once = tuple(claim for claim in _once(claims) if not claim.waits)
    return Offer(tuple(volumes), at_once, tuple(wrong))


def _names(volumes: Iterable[Volume]) -> Iterator[str]:
    return (volume.name for volume in volumes)


def _volume(manifest: Manifest, named_by: Manifest | None = None) -> Volume:
    """A PersistentVolume; the claim that names it (`named_by`) has it, unless it says another one."""
    spec = _quiet(manifest, "spec")
    claim = spec.at("claimRef")
    whose = f"{claim.text('namespace')}/{claim.text('name')}" if claim.data else ""
    if named_by is not None and not whose:
        whose = f"{named_by.namespace}/{named_by.name}"
    return Volume(
        name=manifest.name,
        size=_bytes(spec.at("capacity").data),
        storage_class=spec.text("storageClassName"),
        modes=spec.texts("accessModes"),
        block=spec.text("volumeMode") == _BLOCK,
        labels=tuple(sorted(manifest.labels.items())),
        terms=_reaching(manifest),
        zones=_zones(manifest),
        claim=whose,
    )


def _quiet(manifest: Manifest, key: str) -> Fields:
    """A part of an object that is read beside the pods that use it."""
    return Fields(manifest, [], manifest.body).at(key)


def _unknown(where: _Where, what: str, brief: str, outcome: str = _NOT_LOOKED_AT) -> None:
    """Warn that it is not known from which nodes a volume can be reached, and what comes of it."""
    fields, key = where
    path = (*fields.path, key)
    detail = f"{fields.manifest.title}: {'.'.join(map(str, path))} {what}; {outcome}."
    place = fields.manifest.find(*path)
    short = f"{fields.manifest.title}: {brief}"
    problem = problem_at(fields.manifest.file, place, NOT_KNOWN, detail, Severity.WARNING, short)
    fields.findings.append(problem)


def _has_volume(claim: Manifest, storage: Storage) -> bool:
    """Whether a claim says or is told which volume is its own."""
    named = _quiet(claim, "spec").text("volumeName")
    return bool(named) or (claim.namespace, claim.name) in storage.waiting


def _wrong_with(claim: Manifest, storage: Storage) -> str:
    """Why no node is looked for by pods with this claim, in the scheduler's words; "" where one is.

    Who names a volume that is not there, or that is another claim's, waits for it; who had one that is gone
    has lost it, which the controller of volumes says once it has looked. Of a claim that nobody has seen on
    its cluster it is not known which volumes are there.
    """
    metadata, name = _quiet(claim, "metadata"), claim.name
    bound, phase = _quiet(claim, "spec").text("volumeName"), _quiet(claim, "status").text("phase")
    is_told = storage.is_whole and bool(phase)
    if phase == _LOST:
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{bound}"'
    if "deletionTimestamp" in metadata:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if not bound:
        return ""
    volume = storage.volumes.get(bound)
    if metadata.at("annotations").text(_BOUND):
        return f'persistentvolume "{bound}" not found' if volume is None and is_told else ""
    if volume is None:
        return UNBOUND if is_told else ""
    reference = _quiet(volume, "spec").at("claimRef")
    whose = (reference.text("namespace"), reference.text("name"))
    another = whose != (claim.namespace, name) or not _is_of(reference, claim, is_whole=storage.is_whole)
    if reference.data:
        return UNBOUND if another else ""
    asked = _bytes(_quiet(claim, "spec").at("resources").at("requests").data)
    return UNBOUND if _bytes(_quiet(volume, "spec").at("capacity").data) < asked else ""


def _need_of_bound(claim: Manifest, where: _Where, storage: Storage) -> VolumeNeed | None:
    """Where the volume of a bound claim can be reached; None for everywhere, or where that is not known."""
    bound = _quiet(claim, "spec").text("volumeName")
    volume = storage.volumes.get(bound) if bound else storage.waiting[claim.namespace, claim.name]
    if volume is None:
        what = f'leads to the volume "{bound}", which no manifest here defines'
        _unknown(where, what, f"volume {bound} is not on the cluster")
        return None
    terms, zones = _reaching(volume), _zones(volume)
    return None if terms is _ANYWHERE and not zones else VolumeNeed(terms, bound=True, zones=zones)


def _own_claim(name: str, claim: Fields, storage: Storage) -> Claim | None:
    """A claim that every pod has for itself."""
    return _unbound(name, claim, (claim, "storageClassName"), storage)


def _unbound(name: str, claim: Fields, where: _Where, storage: Storage) -> Claim | None:
    """A claim without a volume; None where nothing is known of what it gets, or it gets one anywhere."""
    written = claim.data.get("storageClassName")
    class_name = storage.default if written is None else claim.text("storageClassName")
    asked = Claim(
        name=name,
        size=_bytes(claim.at("resources").at("requests").data),
        storage_class=class_name,
        modes=claim.texts("accessModes"),
        block=claim.text("volumeMode") == _BLOCK,
        selector=read_selector(claim, "selector"),
    )
    known = storage.classes.get(class_name)
    if known is None:
        # Claims and volumes of a class that is no object find each other all the same.
        if class_name and _may_find_one(asked, storage):
            return replace(asked, waits=True)
        if written == "":
            return asked
        whose = f'of the StorageClass "{class_name}"' if class_name else "of the default StorageClass"
        what = f"asks for a volume {whose}, which no manifest here defines"
        missing = f"StorageClass {class_name} is not on the cluster"
        _unknown(where, what, missing if class_name else "there is no default StorageClass")
        return None
    waits = known.body.get("volumeBindingMode") == "WaitForFirstConsumer"
    made = () if known.body.get("provisioner") == _NO_PROVISIONER else _allowed(known)
    if made is _ANYWHERE and not waits:
        what = f'asks for a volume of "{class_name}", which is made before its pod is scheduled'
        _unknown(where, what, f"volumes of {class_name} are made before their pods are scheduled")
    if made is _ANYWHERE and not _may_find_one(asked, storage):
        return None
    return replace(asked, waits=waits, made=made)


def _may_find_one(claim: Claim, storage: Storage) -> bool:
    """Whether a volume is there that the claim could take, or one that waits for a claim of its name."""
    if any(fits(volume, claim) for volume in storage.free.get(claim.storage_class, ())):
        return True
    prefix = claim.name.partition("{}")[0]
    return any(f"{namespace}/{name}".startswith(prefix) for namespace, name in storage.waiting)


def _bytes(amounts: Mapping[str, Any]) -> int:
    quantity = parse_quantity(str(amounts.get("storage", "0")))
    return 0 if isinstance(quantity, Malformed) else quantity.whole()


def _reaching(volume: Manifest) -> Terms | None:
    """The nodes that reach a volume, by its node affinity; None for all."""
    required = _quiet(volume, "spec").at("nodeAffinity").at("required")
    return tuple(read_node_term(term) for term in required.each("nodeSelectorTerms")) or _ANYWHERE


def _zones(volume: Manifest) -> tuple[Requirement, ...]:
    """What the labels of a volume ask of nodes that have a zone or a region."""
    labels = volume.labels
    return tuple(Requirement(key, IN, tuple(labels[key].split("__"))) for key in ZONE_LABELS if key in labels)


def _allowed(storage_class: Manifest) -> Terms | None:
    """The nodes that a class's allowedTopologies name; None for all."""
    root = Fields(storage_class, [], storage_class.body)
    terms = []
    for term in root.each("allowedTopologies"):
        labels = term.each("matchLabelExpressions")
        terms.append(NodeTerm(tuple(Requirement(one.text("key"), IN, one.texts("values")) for one in labels)))
    return tuple(terms) or _ANYWHERE
