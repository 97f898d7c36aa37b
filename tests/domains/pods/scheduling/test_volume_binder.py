"""Tests of claims with an immediate class.

They are bound like by the PersistentVolume controller.
"""

from __future__ import annotations

from nexusform.domains.pods.scheduling.cluster_records import Claim, Cluster, PodSpec, Volume
from nexusform.domains.pods.scheduling.volume_binder import VolumeBinder

CLAIM = Claim("shop/data", size=1, storage_class="fast", modes=("ReadWriteOnce",))


def bind_claim(*volumes: Volume) -> str:
    """Bind the claim of one pod, and return the name of its volume."""
    binder = VolumeBinder(Cluster("c", (), volumes=volumes))
    spec = PodSpec(claims=(CLAIM,))
    binder.bind_immediate_claims(spec.list_claims(0))
    ((_, volume),) = binder.list_bound_volumes(spec, 0)
    return volume


def test_volume_with_fewest_access_modes_is_bound_first() -> None:
    shared = Volume("a", size=1, storage_class="fast", modes=("ReadWriteOnce", "ReadWriteMany"))
    single = Volume("b", size=5, storage_class="fast", modes=("ReadWriteOnce",))
    assert bind_claim(shared, single) == "b"


def test_smallest_volume_is_bound_among_equal_access_modes() -> None:
    volumes = [
        Volume(name, size=size, storage_class="fast", modes=("ReadWriteOnce",))
        for name, size in (("a", 5), ("b", 2))
    ]
    assert bind_claim(*volumes) == "b"
