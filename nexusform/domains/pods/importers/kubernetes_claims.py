"""What manifests claim of a site's storage appliance: each claim by name, with how much it asks.

Of the classes that the platform brings, a volume of nexus-volume, which is the default, is made on the
appliance. One of nexus-shared is a part of what the cloud services network of the cluster has there already.
A claim of any other class is counted where the class has the provisioner of nexus-volume.

Source: Azure Operator Nexus, concepts-storage-kubernetes and concepts-storage-multiple-appliances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from msgspec import Struct

from nexusform.domains.pods.importers.kubernetes_manifests import Fields, Manifest
from nexusform.domains.pods.importers.kubernetes_volumes import Storage, read_storage
from nexusform.kubernetes.quantity import Malformed, parse_quantity

NEXUS_VOLUME: Final = "nexus-volume"
_RETAIN: Final = "Retain"


class Owner(Struct, frozen=True):
    """The StatefulSet that made a claim (namespace and name), and whether its claims stay when it is scaled
    down, and when it is deleted.
    """

    stateful: tuple[str, str]
    outlives_scaling: bool
    outlives_deletion: bool


class AskedClaim(Struct, frozen=True):
    """One claim on the appliance: the bytes that it asks (None: nobody can read that), and those that its
    volume has (None where nobody says). `bound`: whether it has a volume; None where nobody has looked.
    """

    size: int | None
    granted: int | None = None
    bound: bool | None = None
    owner: Owner | None = None

    @property
    def need(self) -> int:
        """The bytes that it takes in the end: a volume never shrinks."""
        return max(self.size or 0, self.granted or 0)

    @property
    def held(self) -> int:
        """The bytes of it that may be part of a volume that stands."""
        if self.bound is False:
            return 0
        return self.need if self.granted is None else self.granted


def asked_claims(
    manifests: Sequence[Manifest],
    pods: Mapping[str, int],
    seen: AbstractSet[tuple[str, str]] = frozenset(),
    *,
    is_whole: bool = False,
) -> dict[str, AskedClaim]:
    """The claims on the appliance among the objects of one cluster, by `namespace/name`.

    `pods`: how many pods each workload has. `seen` are the claims (namespace and name) that kubectl printed,
    and `is_whole`: there were no others.
    """
    reader = _Reader(read_storage(manifests), seen, is_whole=is_whole)
    claims: dict[str, AskedClaim] = {}
    for manifest in manifests:
        spec = Fields(manifest, [], manifest.body).at("spec")
        claims |= reader.of_pods(manifest, spec, pods)
        if (manifest.group, manifest.kind) == ("apps", "StatefulSet"):
            claims |= reader.of_stateful(manifest, spec)
    # What stands under the name that a StatefulSet would make is its claim.
    for (namespace, name), manifest in reader.storage.claims.items():
        spec = Fields(manifest, [], manifest.body).at("spec")
        name_of_all = f"{namespace}/{name}"
        made = claims.pop(name_of_all, None)
        if reader.is_on_appliance(spec) and not _is_of_a_pod(manifest):
            claims[name_of_all] = reader.standing(manifest, spec, made.owner if made else None)
    return claims


class _Reader(Struct, frozen=True):
    storage: Storage
    seen: AbstractSet[tuple[str, str]]
    is_whole: bool

    def of_pods(
        self, manifest: Manifest, spec: Fields, pods: Mapping[str, int]
    ) -> Iterator[tuple[str, AskedClaim]]:
        """The claims that come and go with each pod of a workload."""
        pod = spec if manifest.kind == "Pod" else spec.at("template").at("spec")
        for volume in pod.each("volumes"):
            if "ephemeral" not in volume:
                continue
            claim = volume.at("ephemeral").at("volumeClaimTemplate").at("spec")
            key = f"{manifest.namespace}/{manifest.kind}/{manifest.name}"
            if self.is_on_appliance(claim):
                asked = AskedClaim(_asked_of(claim), bound=self._bound_unless_seen())
                for number in range(pods.get(key, 0)):
                    yield f"{key}-{number}-{volume.text('name')}", asked

    def of_stateful(self, manifest: Manifest, spec: Fields) -> Iterator[tuple[str, AskedClaim]]:
        """The claims that a StatefulSet makes, one of each template for each pod."""
        policy = spec.at("persistentVolumeClaimRetentionPolicy")
        owner = Owner(
            (manifest.namespace, manifest.name),
            outlives_scaling=policy.text("whenScaled", _RETAIN) == _RETAIN,
            outlives_deletion=policy.text("whenDeleted", _RETAIN) == _RETAIN,
        )
        for template in spec.each("volumeClaimTemplates"):
            claim = template.at("spec")
            prefix = f"{template.at('metadata').text('name')}-{manifest.name}"
            made = self.storage.templates.get((manifest.namespace, prefix))
            if made is None or not self.is_on_appliance(claim):
                continue
            asked = AskedClaim(_asked_of(claim), bound=self._bound_unless_seen(), owner=owner)
            for ordinal in made.ordinals:
                yield f"{manifest.namespace}/{prefix}-{ordinal}", asked

    def standing(self, manifest: Manifest, spec: Fields, owner: Owner | None) -> AskedClaim:
        """A claim that is an object."""
        where = (manifest.namespace, manifest.name)
        status = Fields(manifest, [], manifest.body).at("status")
        has_volume = bool(spec.text("volumeName")) or where in self.storage.waiting
        bound = True if has_volume else False if where in self.seen else self._bound_unless_seen()
        granted = _bytes(status.at("capacity")) if has_volume else None
        return AskedClaim(_asked_of(spec), granted, bound, owner)

    def is_on_appliance(self, claim: Fields) -> bool:
        """Whether the volume of a claim is made on the appliance, by its class."""
        written = claim.data.get("storageClassName")
        if written is None:
            classes = self.storage.classes
            written = self.storage.default or (NEXUS_VOLUME if not classes else "")
        if written == NEXUS_VOLUME:
            return True
        made_by = {name: each.body.get("provisioner") for name, each in self.storage.classes.items()}
        provisioner = made_by.get(NEXUS_VOLUME)
        return provisioner is not None and made_by.get(written) == provisioner

    def _bound_unless_seen(self) -> bool | None:
        return False if self.is_whole else None


def _is_of_a_pod(manifest: Manifest) -> bool:
    """Whether a claim goes with its pod: it is counted there."""
    owners = Fields(manifest, [], manifest.body).at("metadata").each("ownerReferences")
    return any(owner.text("kind") == "Pod" for owner in owners)


def _asked_of(claim: Fields) -> int | None:
    return _bytes(claim.at("resources").at("requests"))


def _bytes(amounts: Fields) -> int | None:
    written = amounts.data.get("storage")
    quantity = None if written is None else parse_quantity(str(written))
    return None if quantity is None or isinstance(quantity, Malformed) else quantity.whole()


def unsized(claims: Iterable[tuple[str, AskedClaim]]) -> str:
    """The name of a claim that nobody can read how much it asks of, "" where there is none."""
    return next((name for name, claim in claims if claim.size is None), "")
