"""Properties of VMs as nodes of their cluster."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from nexusform.kubernetes.matching import Taint
from nexusform.scheduling.kubelet import KubeletConfiguration

# Taint that repels ordinary pods from control plane nodes.
CONTROL_PLANE_TAINT: Final = Taint("node-role.kubernetes.io/control-plane")


class NodeProperties(Struct, frozen=True):
    """Properties of a VM as a node of its cluster.

    They are the labels of its resource type, its taints, and its kubelet.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kubelet: KubeletConfiguration = KubeletConfiguration()
