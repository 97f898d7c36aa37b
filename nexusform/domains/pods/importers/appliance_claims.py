"""Claims of manifests on a site's storage appliance, by name with their size.

A volume of the class nexus-volume, the default of the platform, is created on the appliance. One of
nexus-shared is a part of existing storage of the cloud services network. A claim of any other class
counts if the class has the provisioner of nexus-volume. Source: Azure Operator Nexus,
concepts-storage-kubernetes and concepts-storage-multiple-appliances.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.importers.kubernetes_volumes import Storage, collect_storage
from nexusform.domains.pods.importers.manifest_parser import Fields, Manifest, read_silently
from nexusform.kubernetes.quantity import read_quantity
from nexusform.placements.vm_demands import ClaimDemand

NEXUS_VOLUME: Final = "nexus-volume"
_RETAIN: Final = "Retain"


class ClaimOwner(Struct, frozen=True):
    """StatefulSet of a claim, and whether claims outlive scale-in and deletion.

    `stateful_set` is its namespace and name.
    """

    stateful_set: tuple[str, str]
    outlives_scaling: bool
    outlives_deletion: bool


class ApplianceClaim(Struct, frozen=True):
    """Claim on the appliance: the requested bytes, and the capacity of its volume.

    The bytes are None if unreadable, the capacity is None if unknown.

    `is_bound` is True if it has a volume, None if this was not observed.
    """

    size: int | None
    capacity: int | None = None
    is_bound: bool | None = None
    owner: ClaimOwner | None = None

    @property
    def final_size(self) -> int:
        """Bytes after the plan: the larger of request and current capacity.

        A volume never shrinks.
        """
        return max(self.size or 0, self.capacity or 0)

    @property
    def possible_existing_size(self) -> int:
        """Bytes of the volume, 0 if it does not exist yet.

        An unobserved claim (`is_bound` None) may have a volume.
        """
        if self.is_bound is False:
            return 0
        return self.final_size if self.capacity is None else self.capacity


Claims = Mapping[str, ApplianceClaim]


def collect_appliance_claims(
    manifests: Sequence[Manifest],
    pod_counts: Mapping[str, int],
    observed_names: AbstractSet[tuple[str, str]] = frozenset(),
    *,
    is_complete: bool = False,
) -> dict[str, ApplianceClaim]:
    """Return the claims of one cluster for volumes on its storage appliance, by name.

    Claims of StatefulSets and existing claims are named `namespace/name`, those of ephemeral
    volumes `namespace/kind/name-number-volume`. `pod_counts` has the number of pods by workload.
    `observed_names` are the claims (namespace and name) listed by kubectl. With `is_complete`, the
    cluster has no other claims.
    """
    # A claim not listed has no volume, or possibly one (None).
    unlisted_is_bound = False if is_complete else None
    reader = _ApplianceClaimReader(collect_storage(manifests), observed_names, unlisted_is_bound)
    claims: dict[str, ApplianceClaim] = {}
    for manifest in manifests:
        spec = read_silently(manifest, "spec")
        claims |= reader.list_ephemeral_claims(manifest, spec, pod_counts)
        if (manifest.group, manifest.kind) == ("apps", "StatefulSet"):
            claims |= reader.list_template_claims(manifest, spec)
    # An existing claim takes the place of the one from a StatefulSet's template.
    for (namespace, name), manifest in reader.storage.claims.items():
        spec = read_silently(manifest, "spec")
        full_name = f"{namespace}/{name}"
        template_claim = claims.pop(full_name, None)
        owners = read_silently(manifest, "metadata").list_mappings("ownerReferences")
        # Ephemeral claims are listed above.
        is_pod_claim = any(owner.get_text("kind") == "Pod" for owner in owners)
        if reader.is_on_appliance(spec) and not is_pod_claim:
            owner = template_claim.owner if template_claim else None
            claims[full_name] = reader.build_existing_claim(manifest, spec, owner)
    return claims


class _ApplianceClaimReader(Struct, frozen=True):
    storage: Storage
    observed_names: AbstractSet[tuple[str, str]]
    # Whether claims that kubectl does not list have a volume; None: possibly.
    unlisted_is_bound: bool | None

    def list_ephemeral_claims(
        self, manifest: Manifest, spec: Fields, pod_counts: Mapping[str, int]
    ) -> Iterator[tuple[str, ApplianceClaim]]:
        """Yield the ephemeral claims of the pods of a workload, each with its name.

        The name is `namespace/kind/name-number-volume`.
        """
        pod = spec if manifest.kind == "Pod" else spec.get_mapping("template").get_mapping("spec")
        for volume in pod.list_mappings("volumes"):
            claim = (
                volume.get_mapping("ephemeral")
                .get_mapping("volumeClaimTemplate")
                .get_mapping("spec")
            )
            if "ephemeral" in volume and self.is_on_appliance(claim):
                size = _parse_bytes(claim.get_mapping("resources").get_mapping("requests"))
                appliance_claim = ApplianceClaim(size, is_bound=self.unlisted_is_bound)
                for number in range(pod_counts.get(manifest.workload_key, 0)):
                    yield (
                        f"{manifest.workload_key}-{number}-{volume.get_text('name')}",
                        appliance_claim,
                    )

    def list_template_claims(
        self, manifest: Manifest, spec: Fields
    ) -> Iterator[tuple[str, ApplianceClaim]]:
        """Yield the claims of a StatefulSet, one per template and ordinal of a pod.

        They are named `namespace/name`.
        """
        policy = spec.get_mapping("persistentVolumeClaimRetentionPolicy")
        owner = ClaimOwner(
            (manifest.namespace, manifest.name),
            outlives_scaling=policy.get_text("whenScaled", _RETAIN) == _RETAIN,
            outlives_deletion=policy.get_text("whenDeleted", _RETAIN) == _RETAIN,
        )
        for template in spec.list_mappings("volumeClaimTemplates"):
            claim = template.get_mapping("spec")
            prefix = f"{template.get_mapping('metadata').get_text('name')}-{manifest.name}"
            if self.is_on_appliance(claim):
                size = _parse_bytes(claim.get_mapping("resources").get_mapping("requests"))
                appliance_claim = ApplianceClaim(size, is_bound=self.unlisted_is_bound, owner=owner)
                for ordinal in self.storage.templates[manifest.namespace, prefix].ordinals:
                    yield f"{manifest.namespace}/{prefix}-{ordinal}", appliance_claim

    def build_existing_claim(
        self, manifest: Manifest, spec: Fields, owner: ClaimOwner | None
    ) -> ApplianceClaim:
        """Return the appliance claim of an existing object, with its volume's capacity if bound."""
        claim_name = (manifest.namespace, manifest.name)
        status = read_silently(manifest, "status")
        size = _parse_bytes(spec.get_mapping("resources").get_mapping("requests"))
        if spec.get_text("volumeName") or claim_name in self.storage.reserved_volumes:
            capacity = _parse_bytes(status.get_mapping("capacity"))
            return ApplianceClaim(size, capacity, is_bound=True, owner=owner)
        # A claim listed by kubectl without a volume is not bound. For others this may
        # be unknown (None).
        is_bound = False if claim_name in self.observed_names else self.unlisted_is_bound
        return ApplianceClaim(size, is_bound=is_bound, owner=owner)

    def is_on_appliance(self, claim: Fields) -> bool:
        """Return whether the volume of a claim is created on the appliance, by its class."""
        class_name = claim.data.get("storageClassName")
        classes = self.storage.classes
        # The default class; without known classes the one of the platform.
        if class_name is None:
            class_name = self.storage.default_class or (NEXUS_VOLUME if not classes else "")
        if class_name == NEXUS_VOLUME:
            return True
        provisioners = {
            name: storage_class.body.get("provisioner") for name, storage_class in classes.items()
        }
        provisioner = provisioners.get(NEXUS_VOLUME)
        # Another class of the appliance.
        return provisioner is not None and provisioners.get(class_name) == provisioner


def _parse_bytes(amounts: Fields) -> int | None:
    """Return an amount of storage in bytes; None if it is absent or unreadable."""
    quantity = read_quantity(amounts.data.get("storage"))
    return None if quantity is None else quantity.round_to_units()


def compute_storage_demand(claims: Claims) -> ClaimDemand:
    """Return the storage demand of these claims.

    Each of them may have a volume.
    """
    size = sum(claim.final_size for claim in claims.values())
    existing_size = sum(claim.possible_existing_size for claim in claims.values())
    return _build_demand(size, existing_size, claims, existing_claims=claims)


def _build_demand(
    size: int, existing_size: int, all_claims: Claims, existing_claims: Claims
) -> ClaimDemand:
    """Return the demand of `all_claims`.

    `size` bytes after the plan, of these possibly `existing_size` bytes on the appliance already.
    Among `existing_claims`, it is unknown for some if they have a volume (`is_bound` None).
    """
    unsized_claim = next((name for name, claim in all_claims.items() if claim.size is None), "")
    unverified = tuple(
        item.possible_existing_size for item in existing_claims.values() if item.is_bound is None
    )
    # Size of new volumes.
    unbound_size = size - existing_size
    return ClaimDemand(size, unbound_size, unsized_claim=unsized_claim, unverified_sizes=unverified)


def compute_planned_storage_demand(
    prior_claims: Claims,
    planned_claims: Claims,
    stateful_sets: AbstractSet[tuple[str, str]],
    removed_namespaces: AbstractSet[str],
) -> ClaimDemand:
    """Return the storage used after a plan is applied, by new claims and by remaining prior ones.

    `stateful_sets` (namespace and name) exist after the plan. Others are removed, but may retain
    their claims. All claims in `removed_namespaces` are deleted.
    """
    new_claims = [claim for name, claim in planned_claims.items() if name not in prior_claims]
    # Size in bytes after the plan.
    size = sum(claim.final_size for claim in new_claims)
    retained_claims: dict[str, ApplianceClaim] = {}
    for name, claim in prior_claims.items():
        namespace, _, _ = name.partition("/")
        planned_claim = planned_claims.get(name)
        owner = claim.owner
        if planned_claim is None:
            if owner is None or namespace in removed_namespaces:
                # It is deleted.
                continue
            # A claim of a StatefulSet may outlive the scale-in or deletion of the set.
            is_scaled_in = owner.stateful_set in stateful_sets
            outlives_owner = owner.outlives_scaling if is_scaled_in else owner.outlives_deletion
            if not outlives_owner:
                continue
        retained_claims[name] = claim
        size += claim.final_size
        # A claim may be enlarged. One of a StatefulSet stays as it is: a changed template does
        # not affect it.
        if planned_claim is not None and planned_claim.owner is None:
            size += max(0, planned_claim.final_size - claim.final_size)
    # Before the plan.
    existing_size = sum(claim.possible_existing_size for claim in prior_claims.values())
    # A new claim of the plan may be bound to an existing volume.
    existing_size += sum(claim.final_size for claim in new_claims if claim.is_bound)
    all_claims = {**retained_claims, **planned_claims}
    return _build_demand(size, existing_size, all_claims, existing_claims=retained_claims)
