"""ImageLocality: prefers nodes with more of a pod's images.

The value of an image is its size times the share of nodes with the image, so that pods do not all
follow the first one. Source: kubernetes pkg/scheduler/framework/plugins/imagelocality.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.domains.pods.scheduling.cluster_records import Node, PodSpec

_MIB: Final = 1 << 20
# Thresholds of the summed image value: the minimum, and the maximum per container.
_MINIMUM: Final = 23 * _MIB
_MAXIMUM: Final = 1000 * _MIB
MAX_POINTS: Final = 100


def score(pod: PodSpec, node: Node) -> int:
    """Return from 0 to 100 points for the value of the pod's images on a node.

    The value is scaled between both thresholds.
    """
    if not node.images:
        # None present, or unknown.
        return 0
    value = sum(node.images.get(image, 0) for image in pod.images)
    maximum = _MAXIMUM * len(pod.images)
    return MAX_POINTS * (min(max(value, _MINIMUM), maximum) - _MINIMUM) // (maximum - _MINIMUM)


def add_default_tag(image: str) -> str:
    """Return an image name as listed on nodes: `latest` is the default tag."""
    # A colon further left is of a port.
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def compute_image_values(
    sizes: Sequence[Mapping[str, int] | None],
) -> list[Mapping[str, int] | None]:
    """Return the images of each node (None if unknown) with their values.

    The size in bytes, times the share of nodes with the image. The size on the first of these nodes
    counts for all.
    """
    value_by_image = {
        image: _compute_value(own_sizes[0], len(own_sizes), len(sizes))
        for image, own_sizes in _collect_sizes_by_image(sizes).items()
    }
    return [
        None if images is None else {image: value_by_image[image] for image in images}
        for images in sizes
    ]


def compute_extreme_image_values(
    sizes: Sequence[Mapping[str, int] | None],
) -> tuple[Mapping[str, int], ...]:
    """Return the lowest and highest values of images with different sizes on nodes.

    A value is the size times the share of nodes with the image. The result is two mappings by
    image, or () without such images.

    `sizes` has the sizes of each node's images, by image (None if unknown).
    """
    node_count = len(sizes)
    lowest: dict[str, int] = {}
    highest: dict[str, int] = {}
    # The kube-scheduler uses one size for all nodes: that of the node read first, and it is unknown
    # which this was.
    for image, own_sizes in _collect_sizes_by_image(sizes).items():
        if len(set(own_sizes)) > 1:
            lowest[image] = _compute_value(min(own_sizes), len(own_sizes), node_count)
            highest[image] = _compute_value(max(own_sizes), len(own_sizes), node_count)
    return (lowest, highest) if lowest else ()


def _compute_value(size: int, node_count: int, total_nodes: int) -> int:
    """Return the value of an image: its size (bytes) times the share of the nodes with it."""
    return int(size * (node_count / total_nodes))


def _collect_sizes_by_image(sizes: Iterable[Mapping[str, int] | None]) -> dict[str, list[int]]:
    """Return the sizes of each image, one per node with the image.

    Nodes with unknown images (None) do not count.
    """
    sizes_by_image: dict[str, list[int]] = {}
    for images in filter(None, sizes):
        for image, size in images.items():
            sizes_by_image.setdefault(image, []).append(size)
    return sizes_by_image
