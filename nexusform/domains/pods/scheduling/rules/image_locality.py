"""ImageLocality: the more of a pod's images a node has already, the better.

An image is worth its size times the share of the nodes that have it, so that pods do not all go where the
first one went. Source: kubernetes pkg/scheduler/framework/plugins/imagelocality.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nexusform.domains.pods.scheduling.workloads import Node, PodSpec

_MIB: Final = 1 << 20
# What images are worth together counts from here on, and up to this much for each container.
_LEAST: Final = 23 * _MIB
_MOST: Final = 1000 * _MIB
MOST_POINTS: Final = 100


def raw(pod: PodSpec, node: Node) -> int:
    """What the images of the pod's containers are worth on a node, 0..100."""
    if not node.images:
        return 0
    worth = sum(node.images.get(image, 0) for image in pod.images)
    most = _MOST * len(pod.images)
    return MOST_POINTS * (min(max(worth, _LEAST), most) - _LEAST) // (most - _LEAST)


def scores(raws: Sequence[int]) -> list[int]:
    """As they are."""
    return list(raws)


def with_tag(image: str) -> str:
    """The name of an image as nodes write it: without a tag it is the latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def worth_of(sizes: Sequence[Mapping[str, int] | None]) -> list[Mapping[str, int] | None]:
    """What images are worth on each node, from the sizes (in bytes) of those that it has. Of an image that
    has several sizes the first node's counts.
    """
    first: dict[str, int] = {}
    having: dict[str, int] = {}
    for image, size in _entries(sizes):
        first.setdefault(image, size)
        having[image] = having.get(image, 0) + 1
    worth = {image: int(size * (having[image] / len(sizes))) for image, size in first.items()}
    return [None if images is None else {image: worth[image] for image in images} for images in sizes]


def _entries(sizes: Iterable[Mapping[str, int] | None]) -> Iterable[tuple[str, int]]:
    for images in sizes:
        yield from (images or {}).items()
