"""Whether a provider's answer agrees with what was planned.

A known planned value must come back as planned, except where the schema says that it is predicted:
there the platform has the last word, and what it says is taken over as observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from nexusform.plain_data import Path, part_at, with_part
from nexusform.schema import Attribute, BlockSchema, at_path
from nexusform.values import UNKNOWN

PROVENANCE: Final = "provenance"


class Miss(Struct, frozen=True):
    """A prediction that did not come true: where, what was foretold and what is."""

    address: str
    path: Path
    predicted: Any
    observed: Any


class Agreement(Struct, frozen=True):
    """What the comparison gave.

    `attributes` are to be remembered (provenance set where something was observed);
    `disagreements` the paths of planned values that came back otherwise without being allowed
    to; `hits` counts predicted entries that were observed as foretold, `misses` the others.
    """

    attributes: Mapping[str, Any]
    disagreements: tuple[Path, ...] = ()
    hits: int = 0
    misses: tuple[Miss, ...] = ()


def agree(
    address: str,
    schema: BlockSchema | None,
    planned: Mapping[str, Any],
    answer: Mapping[str, Any],
    observed: Sequence[Path],
) -> Agreement:
    """Compare an answer with the plan; `observed` are the paths that the provider saw itself."""
    if not observed and answer == planned:
        return Agreement(answer)
    foretold: list[Path] = []
    surprising: list[Path] = []
    differing = tuple(_differences(planned, answer, ()))
    for path in differing:
        (foretold if _is_predicted(schema, path) else surprising).append(path)
    seen = [path for path in observed if _is_predicted(schema, path)]
    entries = _entries_of(answer, [*seen, *foretold])
    tally = _Tally()
    for entry in entries:
        within = [path for path in differing if path[: len(entry)] == entry]
        tally.add(address, entry, within, planned, answer)
    attributes = _with_provenance(answer, entries, differing) if entries else answer
    return Agreement(attributes, tuple(surprising), tally.hits, tuple(tally.misses))


class _Tally(Struct):
    hits: int = 0
    misses: list[Miss] = field(default_factory=list)

    def add(
        self,
        address: str,
        entry: Path,
        differing: Sequence[Path],
        planned: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        foretold = part_at(planned, entry)
        if foretold is None or foretold is UNKNOWN or part_at(foretold, (PROVENANCE,)) == "observed":
            return  # nothing was foretold of it, or it was known before
        missed = [path for path in differing if _was_foretold(path, planned, answer)]
        if not missed:
            self.hits += 1
            return
        at = missed[0]
        self.misses.append(Miss(address, at, part_at(planned, at), part_at(answer, at)))


def _was_foretold(path: Path, planned: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether a value that came back otherwise was foretold, and came back at all: the name that a platform
    gives is not foretold, and cells are not told by every platform.
    """
    if path[-1:] == (PROVENANCE,) or part_at(planned, path) is None:
        return False
    return path[-1] not in _CELLS or part_at(answer, path) is not None


_CELLS: Final = ("numa_cells", "cells")  # where they are a list; a plain VM's `numa_cells` is their number


def _differences(planned: Any, answer: Any, path: Path) -> Iterator[Path]:
    """Paths where a known planned value came back otherwise; a part that is absent counts as null."""
    if planned is UNKNOWN:
        return
    if planned == answer and isinstance(planned, bool) == isinstance(answer, bool):
        return
    if isinstance(planned, Mapping) and isinstance(answer, Mapping):
        for name in planned:
            yield from _differences(planned[name], answer.get(name), (*path, name))
        if path:  # a computed map must not have grown, while a whole object may have more attributes
            yield from ((*path, name) for name in answer if name not in planned)
        return
    if isinstance(planned, list) and isinstance(answer, list) and len(planned) == len(answer):
        for position, planned_item in enumerate(planned):
            yield from _differences(planned_item, answer[position], (*path, position))
        return
    yield path


def _is_predicted(schema: BlockSchema | None, path: Path) -> bool:
    governing = at_path(schema, path) if schema else None
    return isinstance(governing, Attribute) and governing.predicted


def _entries_of(answer: Mapping[str, Any], paths: Sequence[Path]) -> list[Path]:
    """The innermost objects around the paths that say where they know themselves from.

    A path that no such object encloses stands for itself. Without repetitions, in first order.
    """
    entries: dict[Path, None] = {}
    for path in paths:
        around = [path[:n] for n in range(len(path), -1, -1) if _has_provenance(part_at(answer, path[:n]))]
        entries[around[0] if around else path] = None
    return list(entries)


def _has_provenance(value: Any) -> bool:
    return isinstance(value, Mapping) and PROVENANCE in value


def _with_provenance(
    answer: Mapping[str, Any], entries: Sequence[Path], differing: Sequence[Path]
) -> dict[str, Any]:
    """The answer with what was observed marked. Cells that were foretold for another machine than the one
    that was observed are not known on that one.
    """
    changed = dict(answer)
    for entry in entries:
        if _has_provenance(part_at(answer, entry)):
            changed = with_part(changed, (*entry, PROVENANCE), "observed")
            if (*entry, "machine") in differing:
                for name in _CELLS:
                    path = (*entry, name)
                    if path not in differing and isinstance(part_at(changed, path), list):
                        changed = with_part(changed, path, None)
    return changed
