"""Objects of CSI drivers: limits of nodes, attached volumes and free storage.

Sources: kubernetes pkg/scheduler/framework/plugins/nodevolumelimits/csi.go
and volumebinding/binder.go (hasEnoughCapacity).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.domains.pods.importers.kubernetes_pod_spec import parse_selector
from nexusform.domains.pods.importers.manifest_parser import Fields, Manifest
from nexusform.domains.pods.scheduling.cluster_records import AttachLimits, FreeStorage
from nexusform.json_data.plain_data import get_mapping, get_text, get_value_at_path, list_mappings
from nexusform.kubernetes.matching import IN, NodeSelectorTerm, Requirement
from nexusform.kubernetes.quantity import read_quantity

# In-tree plugins of volumes and provisioners, all replaced by CSI drivers.
_MIGRATED_DRIVERS: Final[Mapping[str, str]] = {
    "awsElasticBlockStore": "ebs.csi.aws.com",
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "gcePersistentDisk": "pd.csi.storage.gke.io",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "azureDisk": "disk.csi.azure.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "cinder": "cinder.csi.openstack.org",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
}


class CsiStorageCapacity(Struct, frozen=True):
    """Free storage of a class on the nodes of a term (None = all): the largest volume in bytes.

    `capacity` are all free bytes, None if the object does not name them.
    """

    term: NodeSelectorTerm | None
    size: int
    capacity: int | None


class CsiLimits(Struct, frozen=True):
    """Limits by node and driver, attached volumes, and free storage.

    Free storage has the drivers to check, and the amounts by class. Volumes of `unattached_drivers`
    need no attachment to a node (attachRequired: false). Those of `required_drivers` need a node
    with the driver (preventPodSchedulingIfMissing): one of the `installations` (node and driver).
    """

    maximums: Mapping[tuple[str, str], int] = field(default_factory=dict)
    # Node, driver and volume of each.
    attachments: tuple[tuple[str, str, str], ...] = ()
    checked_drivers: frozenset[str] = frozenset()
    capacities: Mapping[str, list[CsiStorageCapacity]] = field(default_factory=dict)
    unattached_drivers: frozenset[str] = frozenset()
    required_drivers: frozenset[str] = frozenset()
    installations: frozenset[tuple[str, str]] = frozenset()

    def list_free_storage(self, storage_class: str, size: int) -> tuple[FreeStorage, ...]:
        """Return the amounts of free storage of a class that suffice for `size` bytes."""
        return tuple(
            FreeStorage(capacity.term, capacity.capacity)
            for capacity in self.capacities.get(storage_class, ())
            if capacity.size >= size
        )


def collect_csi_objects(manifests: Iterable[Manifest]) -> CsiLimits:
    """Return the volume limits, attachments and free storage of CSI drivers of a cluster."""
    # Of attached volumes, by node and driver.
    maximums: dict[tuple[str, str], int] = {}
    # Node, driver and volume of each.
    attachments: list[tuple[str, str, str]] = []
    installations: set[tuple[str, str]] = set()
    # Pairs of name and spec.
    drivers: list[tuple[str, Mapping[str, Any]]] = []
    capacities: dict[str, list[CsiStorageCapacity]] = {}  # by StorageClass
    for manifest in manifests:
        body = manifest.body
        match manifest.group, manifest.kind:
            case "storage.k8s.io", "CSINode":
                for driver in list_mappings(body, "spec", "drivers"):
                    installations.add((manifest.name, str(driver.get("name"))))
                    count = get_value_at_path(driver, "allocatable", "count")
                    # Without a count it has no limit.
                    if isinstance(count, int):
                        maximums[manifest.name, str(driver.get("name"))] = count
            case "storage.k8s.io", "VolumeAttachment":
                attacher = get_text(body, "spec", "attacher")
                volume = get_text(body, "spec", "source", "persistentVolumeName")
                if attacher and volume:
                    attachments.append((get_text(body, "spec", "nodeName"), attacher, volume))
            case "storage.k8s.io", "CSIDriver":
                drivers.append((manifest.name, get_mapping(body, "spec")))
            case "storage.k8s.io", "CSIStorageCapacity":
                capacity = _parse_storage_capacity(manifest)
                if capacity is not None:
                    capacities.setdefault(str(body.get("storageClassName")), []).append(capacity)
    # The kube-scheduler checks the free storage of some drivers; volumes of others need no
    # attachment to a node.
    checked_drivers = frozenset(
        name for name, spec in drivers if spec.get("storageCapacity") is True
    )
    unattached_drivers = frozenset(
        name for name, spec in drivers if spec.get("attachRequired") is False
    )
    required_drivers = frozenset(
        name for name, spec in drivers if spec.get("preventPodSchedulingIfMissing") is True
    )
    return CsiLimits(
        maximums,
        tuple(attachments),
        checked_drivers,
        capacities,
        unattached_drivers,
        required_drivers,
        frozenset(installations),
    )


def _parse_storage_capacity(manifest: Manifest) -> CsiStorageCapacity | None:
    """Return the size of the largest volume of a CSIStorageCapacity, and the term of its nodes.

    The term is None for all nodes. Without a maximumVolumeSize, the size is its capacity. Return
    None without a valid selector or amount.
    """
    fields = Fields(manifest, [], manifest.body)
    selector = parse_selector(fields, "nodeTopology")
    size = read_quantity(manifest.body.get("maximumVolumeSize") or manifest.body.get("capacity"))
    capacity = read_quantity(manifest.body.get("capacity"))
    if selector is None or size is None:
        return None
    pairs = tuple(Requirement(key, IN, (value,)) for key, value in selector.match_labels)
    requirements = (*pairs, *selector.match_expressions)
    return CsiStorageCapacity(
        NodeSelectorTerm(requirements) if requirements else None,
        size.round_to_units(),
        capacity.round_to_units() if capacity is not None else None,
    )


def find_csi_provisioner(storage_class: Manifest | None) -> str:
    """Return the CSI driver of a class, also for an in-tree provisioner (replaced by a driver).

    The result is "" without a class.
    """
    name = get_text(storage_class.body, "provisioner") if storage_class is not None else ""
    return _MIGRATED_DRIVERS.get(name, name)


def find_volume_driver(volume: Manifest) -> str:
    """Return the CSI driver of a PersistentVolume; "" without one.

    An in-tree volume has the driver that replaces its plugin.
    """
    spec = get_mapping(volume.body, "spec")
    in_tree_driver = next((driver for key, driver in _MIGRATED_DRIVERS.items() if key in spec), "")
    return str(get_value_at_path(spec, "csi", "driver") or in_tree_driver)


def build_attach_limits(csi: CsiLimits, volumes: Mapping[str, Manifest]) -> AttachLimits:
    """Return the limits of nodes, and the CSI volumes attached to them.

    Volumes are named by their claim, if any.
    """
    # Node, driver, and claim or volume of each.
    attachments: list[tuple[str, str, str]] = []
    for node, driver, volume_name in csi.attachments:
        volume = volumes.get(volume_name)
        if volume is None or not get_value_at_path(volume.body, "spec", "csi"):
            # As in kube-scheduler, only existing CSI volumes count.
            continue
        claim = get_mapping(volume.body, "spec", "claimRef")
        claim_name = (
            f"{claim.get('namespace', '')}/{claim['name']}" if claim.get("name") else volume_name
        )
        attachments.append((node, driver, claim_name))
    return AttachLimits(csi.maximums, tuple(attachments), csi.required_drivers, csi.installations)


def has_unknown_storage(manifests: Iterable[Manifest]) -> bool:
    """Return whether a CSI driver limits volumes by free storage that no object shows.

    Objects of the kind CSIStorageCapacity would show it.
    """
    csi = collect_csi_objects(manifests)
    return bool(csi.checked_drivers) and not csi.capacities
