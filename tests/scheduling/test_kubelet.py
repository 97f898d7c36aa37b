"""Tests of node capacity registered by kubelet."""

from __future__ import annotations

import pytest

from nexusform.scheduling.kubelet import (
    GIB,
    MIB,
    KubeletConfiguration,
    Platform,
    Reserve,
    compute_allocatable,
    compute_kernel_memory,
    list_registered_labels,
    list_reserved_cpus,
)
from nexusform.scheduling.racks.vms import VmSku
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST

SKUS = CATALOGUES[NEWEST].vm_skus
WORKER = VmSku("16 vCPU / 64 GiB", 16, 0, 64, 100)


@pytest.mark.parametrize(
    ("sku", "platform", "kept"),
    [
        ("NC_P10_56_v1", Platform.NKS, {0, 1}),
        ("NC_G2_8_v1", Platform.NKS, set()),
        ("NC_P4_28_v1", Platform.NKS, set()),
        ("NC_P10_56_v1", Platform.KUBEADM, set()),
    ],
)
def test_nks_reserves_the_first_two_cpus_of_most_skus_and_kubeadm_none(
    sku: str, platform: Platform, kept: set[int]
) -> None:
    assert list_reserved_cpus(SKUS[sku], KubeletConfiguration(platform)) == kept
    assert compute_allocatable(SKUS[sku], KubeletConfiguration(platform)).cpu == 1000 * (
        SKUS[sku].vcpus - len(kept)
    )


@pytest.mark.parametrize(("mib", "printed"), [(3584, 3500452), (7168, 7113660)])
def test_kernel_reserve_is_near_published_node_values(mib: int, printed: int) -> None:
    there = mib * MIB - compute_kernel_memory(mib * MIB)
    assert 0 <= printed * 1024 - there < 20 * MIB


def test_memory_excludes_kernel_eviction_and_hugepages() -> None:
    size = compute_allocatable(
        WORKER,
        KubeletConfiguration(Platform.KUBEADM, extended={"hugepages-1Gi": (4 * GIB, 4 * GIB)}),
    )
    assert size.memory == 64 * GIB - (1024 + 128 + 100) * MIB - 8 * GIB
    assert size.extended["hugepages-1Gi"] == 8 * GIB


def test_reserves_are_subtracted_and_cpu_lists_precede_cpu_counts() -> None:
    kubelet = KubeletConfiguration(Platform.KUBEADM, 0, Reserve(500, GIB, GIB))
    size = compute_allocatable(WORKER, kubelet)
    assert size.cpu == 15_500
    assert size.memory == 64 * GIB - (1024 + 128) * MIB - GIB
    assert size.extended["ephemeral-storage"] == 90 * GIB - GIB
    numbered = KubeletConfiguration(Platform.KUBEADM, 0, Reserve(500), frozenset({0, 8, 9}))
    assert compute_allocatable(WORKER, numbered).cpu == 13_000


def test_vm_without_a_disk_has_no_storage() -> None:
    assert (
        "ephemeral-storage"
        not in compute_allocatable(VmSku("s", 2, 0, 4, 0), KubeletConfiguration()).extended
    )


def test_pool_settings_override_the_sku() -> None:
    sku = VmSku("s", 2, 0, 4, 0, extended=(("a.io/x", (2,)), ("a.io/y", (1,))))
    assert compute_allocatable(sku, KubeletConfiguration(extended={"a.io/x": (3, 4)})).extended == {
        "a.io/x": 7,
        "a.io/y": 1,
    }


def test_only_control_plane_nodes_have_its_labels() -> None:
    worker, plane = (list_registered_labels("n", control_plane=plane) for plane in (False, True))
    assert worker["kubernetes.io/os"] == worker["beta.kubernetes.io/os"] == "linux"
    assert set(plane) - set(worker) == {
        "node-role.kubernetes.io/control-plane",
        "node.kubernetes.io/exclude-from-external-load-balancers",
    }
