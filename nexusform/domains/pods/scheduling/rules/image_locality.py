"""ImageLocality: prefers nodes with more of a pod's images. The value of an image is its size times the share
of nodes with the image, so that pods do not all follow the first one. Source: kubernetes
pkg/scheduler/framework/plugins/imagelocality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.domains.pods.scheduling.workloads import Node, PodSpec

_MIB: Final = 1 << 20
# Thresholds of the summed image value: the minimum, and the maximum per container.
_MINIMUM: Final = 23 * _MIB
_MAXIMUM: Final = 1000 * _MIB
MAX_POINTS: Final = 100


def score(pod: PodSpec, node: Node) -> int:
    """Return the value of the pod's images on a node, 0..100."""
    if not node.images:
        return 0
    value = sum(node.images.get(image, 0) for image in pod.images)
    maximum = _MAXIMUM * len(pod.images)
    return MAX_POINTS * (min(max(value, _MINIMUM), maximum) - _MINIMUM) // (maximum - _MINIMUM)


def normalize_scores(raws: Sequence[int]) -> list[int]:
    """Return the scores unchanged."""
    return list(raws)


def add_default_tag(image: str) -> str:
    """Return an image name as listed on nodes: `latest` is the default tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def compute_image_values(sizes: Sequence[Mapping[str, int] | None]) -> list[Mapping[str, int] | None]:
    """Return the image values per node by image sizes in bytes; the first node's size counts."""
    size_by_image: dict[str, int] = {}
    node_counts: dict[str, int] = {}
    for image, size in _list_entries(sizes):
        size_by_image.setdefault(image, size)
        node_counts[image] = node_counts.get(image, 0) + 1
    value_by_image = {image: int(size * (node_counts[image] / len(sizes))) for image, size in size_by_image.items()}
    return [None if images is None else {image: value_by_image[image] for image in images} for images in sizes]


def _list_entries(sizes: Iterable[Mapping[str, int] | None]) -> Iterable[tuple[str, int]]:
    for images in sizes:
        yield from (images or {}).items()
