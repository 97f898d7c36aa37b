"""Claims of a pod -> the nodes from which their volumes can be reached, as far as manifests tell.

Sources: kubernetes pkg/scheduler/framework/plugins/{volumebinding,volumezone,volumerestrictions}. What is
not known (a claim or a class that no manifest defines, a volume that is made before its pod) is a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from nexusform.diagnostics import Severity
from nexusform.importers.kubernetes_manifests import Fields, Manifest
from nexusform.importers.kubernetes_pod_spec import read_node_term
from nexusform.importers.yaml_text import problem_at
from nexusform.scheduling.matching import IN, Requirement
from nexusform.scheduling.pods.workloads import NodeTerm, VolumeNeed
from nexusform.scheduling.quantity import Malformed, parse_quantity

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_ONE_POD: Final = "ReadWriteOncePod"
_ZONE_LABELS: Final = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_ANYWHERE: Final = None

NOT_KNOWN: Final = "volumes-are-not-known"

Terms = tuple[NodeTerm, ...]
# Where a claim is named: part of a pod's manifest, and the key in it.
_Where = tuple[Fields, str]


class Storage(Struct, frozen=True):
    """Volumes and classes by name, claims by namespace and name; `default` is the default class or "".

    `waiting` are the volumes that wait for a claim, by its namespace and name; `free` by class those that
    wait for none.
    """

    volumes: Mapping[str, Manifest] = field(default_factory=dict)
    waiting: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)
    free: Mapping[str, Sequence[Manifest]] = field(default_factory=dict)
    classes: Mapping[str, Manifest] = field(default_factory=dict)
    claims: Mapping[tuple[str, str], Manifest] = field(default_factory=dict)
    default: str = ""


def read_storage(manifests: Iterable[Manifest]) -> Storage:
    """The storage of a cluster with these objects."""
    volumes: dict[str, Manifest] = {}
    waiting: dict[tuple[str, str], Manifest] = {}
    free: dict[str, list[Manifest]] = {}
    classes: dict[str, Manifest] = {}
    claims: dict[tuple[str, str], Manifest] = {}
    default = ""
    for manifest in manifests:
        match manifest.group, manifest.kind:
            case "", "PersistentVolume":
                volumes[manifest.name] = manifest
                spec = _quiet(manifest, "spec")
                claim = spec.at("claimRef")
                if "claimRef" in spec:
                    waiting[claim.text("namespace"), claim.text("name")] = manifest
                else:
                    free.setdefault(spec.text("storageClassName"), []).append(manifest)
            case "", "PersistentVolumeClaim":
                claims[manifest.namespace, manifest.name] = manifest
            case "storage.k8s.io", "StorageClass":
                classes[manifest.name] = manifest
                if _quiet(manifest, "metadata").at("annotations").text(_DEFAULT_CLASS) == "true":
                    default = manifest.name
    return Storage(volumes, waiting, free, classes, claims, default)


class PodVolumes(Struct, frozen=True):
    """What a pod's claims ask of its node, and the claims that it has to itself (`namespace/name`)."""

    needs: tuple[VolumeNeed, ...] = ()
    exclusive: tuple[str, ...] = ()


def read_volumes(
    manifest: Manifest, spec: Fields, templates: Iterable[Fields], storage: Storage
) -> PodVolumes:
    """The volumes of a pod; `templates` are the volumeClaimTemplates of its StatefulSet (`manifest`)."""
    namespace = manifest.namespace
    needs = [_of_template(manifest, template, storage) for template in templates]
    exclusive: list[str] = []
    for volume in spec.each("volumes"):
        if "ephemeral" in volume:
            claim = volume.at("ephemeral").at("volumeClaimTemplate").at("spec")
            needs.append(_dynamic(claim, storage, (claim, "storageClassName")))
        elif "persistentVolumeClaim" in volume:
            source = volume.at("persistentVolumeClaim")
            name = source.text("claimName")
            known = storage.claims.get((namespace, name))
            if known is None:
                what = f'names the claim "{name}", which no manifest here defines'
                _unknown((source, "claimName"), what, f"claim {name} is not on the cluster")
                continue
            claim = _quiet(known, "spec")
            needs.append(_claimed(namespace, name, claim, (source, "claimName"), storage))
            if _ONE_POD in claim.texts("accessModes"):
                exclusive.append(f"{namespace}/{name}")
    return PodVolumes(tuple(dict.fromkeys(need for need in needs if need is not None)), tuple(exclusive))


def _of_template(manifest: Manifest, template: Fields, storage: Storage) -> VolumeNeed | None:
    """Each pod has a claim of its own: it takes a volume that waits for one of them, or finds another."""
    claim = template.at("spec")
    prefix = f"{template.at('metadata').text('name')}-{manifest.name}-"
    reserved = [
        _reaching(volume)
        for (namespace, name), volume in storage.waiting.items()
        if namespace == manifest.namespace and name.startswith(prefix)
    ]
    if reserved:
        return None if _ANYWHERE in reserved else _need(reserved)
    return _dynamic(claim, storage, (claim, "storageClassName"))


def _quiet(manifest: Manifest, key: str) -> Fields:
    """A part of an object that is read beside the pods that use it."""
    return Fields(manifest, [], manifest.body).at(key)


def _unknown(where: _Where, what: str, brief: str) -> None:
    fields, key = where
    path = (*fields.path, key)
    detail = (
        f"{fields.manifest.title}: {'.'.join(map(str, path))} {what}; from which nodes its volume can be "
        "reached is not looked at."
    )
    place = fields.manifest.find(*path)
    short = f"{fields.manifest.title}: {brief}"
    problem = problem_at(fields.manifest.file, place, NOT_KNOWN, detail, Severity.WARNING, short)
    fields.findings.append(problem)


def _claimed(namespace: str, name: str, claim: Fields, where: _Where, storage: Storage) -> VolumeNeed | None:
    """What a claim with a manifest asks: its volume's nodes, or those where one may be found or made."""
    bound = claim.text("volumeName")
    volume = storage.volumes.get(bound) if bound else storage.waiting.get((namespace, name))
    if volume is not None:
        terms = _reaching(volume)
        return None if terms is _ANYWHERE else VolumeNeed(terms, bound=True)
    if bound:
        what = f'leads to the volume "{bound}", which no manifest here defines'
        _unknown(where, what, f"volume {bound} is not on the cluster")
        return None
    return _dynamic(claim, storage, where)


def _dynamic(claim: Fields, storage: Storage, where: _Where) -> VolumeNeed | None:
    """The nodes where a claim without a volume may find one, or where its class makes one."""
    written = claim.data.get("storageClassName")
    name = storage.default if written is None else claim.text("storageClassName")
    known = storage.classes.get(name)
    if known is None and (name or written is None):
        whose = f'of the StorageClass "{name}"' if name else "of the default StorageClass"
        what = f"asks for a volume {whose}, which no manifest here defines"
        brief = f"StorageClass {name} is not on the cluster" if name else "there is no default StorageClass"
        _unknown(where, what, brief)
        return None
    terms = list(_free_volumes(claim, name, storage))
    if _ANYWHERE in terms:
        return None
    if known is None or known.body.get("provisioner") == _NO_PROVISIONER:
        return _need(terms)
    made = _allowed(known)
    if made is not _ANYWHERE:
        return _need([*terms, made])
    if known.body.get("volumeBindingMode") != "WaitForFirstConsumer":
        what = f'asks for a volume of "{name}", which is made before its pod is scheduled'
        _unknown(where, what, f"volumes of {name} are made before their pods are scheduled")
    return None


def _need(alternatives: Iterable[Terms | None]) -> VolumeNeed:
    terms = [term for each in alternatives if each is not None for term in each]
    return VolumeNeed(tuple(dict.fromkeys(terms)), bound=False)


def _free_volumes(claim: Fields, name: str, storage: Storage) -> Iterator[Terms | None]:
    """From where each volume can be reached that the claim could take."""
    modes = set(claim.texts("accessModes"))
    asked = _bytes(claim.at("resources").at("requests").data)
    for volume in storage.free.get(name, ()):
        spec = _quiet(volume, "spec")
        if modes <= set(spec.texts("accessModes")) and _bytes(spec.at("capacity").data) >= asked:
            yield _reaching(volume)


def _bytes(amounts: Mapping[str, Any]) -> int:
    quantity = parse_quantity(str(amounts.get("storage", "0")))
    return 0 if isinstance(quantity, Malformed) else quantity.whole()


def _reaching(volume: Manifest) -> Terms | None:
    """The nodes that reach a volume, by its node affinity and its zone; None for all."""
    zones = [
        Requirement(key, IN, tuple(volume.labels[key].split("__")))
        for key in _ZONE_LABELS
        if key in volume.labels
    ]
    required = _quiet(volume, "spec").at("nodeAffinity").at("required")
    terms = [read_node_term(term) for term in required.each("nodeSelectorTerms")]
    if not terms:
        return (NodeTerm(tuple(zones)),) if zones else _ANYWHERE
    return tuple(NodeTerm((*term.labels, *zones), term.fields) for term in terms)


def _allowed(storage_class: Manifest) -> Terms | None:
    """The nodes that a class's allowedTopologies name; None for all."""
    root = Fields(storage_class, [], storage_class.body)
    terms = []
    for term in root.each("allowedTopologies"):
        labels = term.each("matchLabelExpressions")
        terms.append(NodeTerm(tuple(Requirement(one.text("key"), IN, one.texts("values")) for one in labels)))
    return tuple(terms) or _ANYWHERE
