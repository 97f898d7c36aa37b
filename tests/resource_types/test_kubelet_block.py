"""Tests of `kubelet` blocks."""

from __future__ import annotations

import pytest

from nexusform.resource_types.kubelet_block import build_kubelet, check_kubelet
from nexusform.scheduling.kubelet import MIB, Platform, Reserve


def test_reservations_of_both_blocks_are_added() -> None:
    block = {
        "kube_reserved": {"cpu": "500m", "memory": "100Mi"},
        "system_reserved": {"cpu": "1", "memory": "50Mi", "ephemeral-storage": "1Mi"},
        "eviction_memory": "200Mi",
        "reserved_cpus": "0-2, 8",
    }
    kubelet = build_kubelet(Platform.KUBEADM, block)
    assert check_kubelet(block, ()) == []
    assert kubelet.reserved == Reserve(1500, 150 * MIB, MIB)
    assert (kubelet.eviction_memory, kubelet.reserved_cpus) == (200 * MIB, {0, 1, 2, 8})


@pytest.mark.parametrize("cpus", ["3-1", "0-99999", "0-", "1;2"])
def test_invalid_list_of_cpus_is_rejected(cpus: str) -> None:
    assert [problem.path for problem in check_kubelet({"reserved_cpus": cpus}, ())] == [
        ("reserved_cpus",)
    ]
