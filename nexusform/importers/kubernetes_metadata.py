"""What the API server refuses of any object's metadata: labels and annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from nexusform.importers.yaml_text import Node
from nexusform.plain_data import Path
from nexusform.scheduling.matching import label_value_problems, qualified_name_problems

# The part of the metadata, the path to it, and what is wrong, as a sentence.
Refused: TypeAlias = tuple[Node, Path, str]


def metadata_problems(metadata: Node) -> Iterator[Refused]:
    """Labels and annotations that no object may have. Values that are no texts are judged elsewhere."""
    if not isinstance(metadata.data, dict):
        return
    yield from label_problems(metadata.at("labels"), "metadata.labels", ("labels",))
    for key, below in _entries(metadata.at("annotations")):
        # Of annotations the case of a key does not count.
        for problem in qualified_name_problems(key.lower()):
            yield below, ("annotations", key), f'metadata.annotations: key "{key}": {problem}.'


def label_problems(labels: Node, name: str, path: Path = ()) -> Iterator[Refused]:
    """Labels that no object may have; `name` says where they stand."""
    for key, below in _entries(labels):
        for problem in qualified_name_problems(key):
            yield below, (*path, key), f'{name}: key "{key}": {problem}.'
        if isinstance(below.data, str):
            for problem in label_value_problems(below.data):
                yield below, (*path, key), f'{name}.{key} is "{below.data}": {problem}.'


def _entries(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node.data, dict):
        yield from node.fields()
