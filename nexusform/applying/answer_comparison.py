"""Comparison of a provider's answer with the plan.

A known planned value must be returned as planned, unless the schema marks it as predicted: then the
platform decides, and its value is recorded as observed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field

from nexusform.json_data.plain_data import Path, get_part, replace_part_at_path
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, find_schema
from nexusform.schemas.value_types import DYNAMIC
from nexusform.values.typed_value import UNKNOWN

PROVENANCE: Final = "provenance"


class WrongPrediction(Struct, frozen=True):
    """Wrong prediction: its path, the predicted and the observed value.

    Alternatively it has one `text` about all of them.
    """

    address: str
    path: Path
    predicted: Any = None
    observed: Any = None
    text: str = ""


class ProviderAnswerComparison(Struct, frozen=True):
    """Result: `attributes` are to be recorded (with provenance for observed values).

    `disagreements` the paths of planned values that differ without permission; `hits` counts
    correct predictions, `wrong_predictions` the others.
    """

    attributes: Mapping[str, Any]
    disagreements: tuple[Path, ...] = ()
    hits: int = 0
    wrong_predictions: tuple[WrongPrediction, ...] = ()


def compare_answer(
    address: str,
    schema: BlockSchema | None,
    planned: Mapping[str, Any],
    answer: Mapping[str, Any],
    # Read by the provider, so predictions there can be verified.
    observed: Sequence[Path],
    # A difference there is no wrong prediction; an object there is not counted.
    accepted: Collection[Path] = (),
) -> ProviderAnswerComparison:
    """Compare a provider's answer with the plan, and count the correct and wrong predictions."""
    # No prediction to count.
    if not observed and answer == planned:
        return ProviderAnswerComparison(answer)
    predicted_paths: list[Path] = []
    unexpected_paths: list[Path] = []
    different_paths = tuple(_find_different_paths(planned, answer, path=()))
    for path in different_paths:
        attribute = _find_attribute(schema, path)
        # It has to be as planned.
        if not (attribute.observed or attribute.predicted):
            unexpected_paths.append(path)
        elif not attribute.observed:
            # Observed attributes are not predicted.
            predicted_paths.append(path)
    observed_predictions = [path for path in observed if _find_attribute(schema, path).predicted]
    # Paths of the VMs, or else values, with a prediction.
    entries = _find_objects_with_provenance(answer, [*observed_predictions, *predicted_paths])
    counts = _PredictionCounter()
    for entry in entries:
        if entry in accepted:
            continue
        entry_paths = [
            path for path in different_paths if path[: len(entry)] == entry and path not in accepted
        ]
        counts.count_prediction(address, entry, entry_paths, planned, answer)
    attributes = _mark_observed_objects(answer, entries, different_paths)
    return ProviderAnswerComparison(
        attributes, tuple(unexpected_paths), counts.hits, tuple(counts.wrong_predictions)
    )


class _PredictionCounter(Struct):
    hits: int = 0
    wrong_predictions: list[WrongPrediction] = field(default_factory=list)

    def count_prediction(
        self,
        address: str,
        entry: Path,
        different_paths: Sequence[Path],
        planned: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        """Count the prediction at `entry`, the path of a VM or of a value.

        It is a hit, unless one of `different_paths` (at or below it) has a predicted value and
        another observed one. The first such path is recorded as wrong.
        """
        prediction = get_part(planned, entry)
        observed = get_part(answer, entry)
        if (
            prediction is None
            or prediction is UNKNOWN
            or get_part(prediction, (PROVENANCE,)) == "observed"
        ):
            # Not predicted, or already known from the provider.
            return
        if (
            _has_provenance(observed)
            and get_part(prediction, ("machine",))
            and not observed.get("machine")
        ):
            # The provider knows no machine of the VM.
            return
        for path in different_paths:
            planned_value = get_part(planned, path)
            observed_value = get_part(answer, path)
            if path[-1] == PROVENANCE or planned_value is None:
                # No predicted value.
                continue
            if path[-1] in _CELLS and observed_value is None:
                # The provider has not read the cells.
                continue
            self.wrong_predictions.append(
                WrongPrediction(address, path, planned_value, observed_value)
            )
            return
        self.hits += 1


# As a list; a plain VM's `numa_cells` is a count.
_CELLS: Final = ("numa_cells", "cells")


def _find_different_paths(planned: Any, answer: Any, path: Path) -> Iterator[Path]:
    """Yield the paths at which the answer of a provider differs from the plan.

    `path` is that of the two values. Values unknown at planning may become anything. A part absent
    on one side counts as null. Mappings, and lists of equal length, are compared part by part:
    ("nodes", "web-1", "machine") if only this machine differs. Of other values, such as lists of
    different lengths, the path of the whole value is yielded.
    """
    if planned is UNKNOWN:
        return
    # True equals 1 in Python.
    is_same_class = isinstance(planned, bool) == isinstance(answer, bool)
    if planned == answer and is_same_class:
        return
    if isinstance(planned, Mapping) and isinstance(answer, Mapping):
        # The object itself may have more attributes than planned; the map of an attribute must not
        # have new keys.
        names = {**planned, **answer} if path else planned
        for name in names:
            yield from _find_different_paths(planned.get(name), answer.get(name), (*path, name))
    elif isinstance(planned, list) and isinstance(answer, list) and len(planned) == len(answer):
        for position, value in enumerate(planned):
            yield from _find_different_paths(value, answer[position], (*path, position))
    else:
        yield path


# Neither observed nor predicted.
_UNKNOWN_ATTRIBUTE: Final = AttributeSchema(DYNAMIC, description="")


def _find_attribute(schema: BlockSchema | None, path: Path) -> AttributeSchema:
    """Return the schema of the attribute at a path.

    Return _UNKNOWN_ATTRIBUTE for blocks, for unknown paths, and without a schema.
    """
    attribute = find_schema(schema, path) if schema else None
    return attribute if isinstance(attribute, AttributeSchema) else _UNKNOWN_ATTRIBUTE


def _find_objects_with_provenance(answer: Mapping[str, Any], paths: Sequence[Path]) -> list[Path]:
    """Return the innermost placed object around each path, else the path itself; each once.

    Placed objects have a `provenance`.
    """
    # A set in order.
    entries: dict[Path, None] = {}
    for path in paths:
        entry = path
        # The last one found is the innermost.
        for length in range(len(path) + 1):
            if _has_provenance(get_part(answer, path[:length])):
                entry = path[:length]
        entries[entry] = None
    return list(entries)


def _has_provenance(value: Any) -> bool:
    # A VM or other placed object: predicted or observed.
    return isinstance(value, Mapping) and PROVENANCE in value


def _mark_observed_objects(
    answer: Mapping[str, Any], entries: Sequence[Path], different_paths: Sequence[Path]
) -> dict[str, Any]:
    """Return the answer with the placed objects among `entries` (paths) marked as observed.

    If a VM is on another machine than planned, cells equal to the plan were not read there: they
    become None (unknown).
    """
    changed = dict(answer)
    for entry in entries:
        if not _has_provenance(get_part(answer, entry)):
            # No placed object.
            continue
        changed = replace_part_at_path(changed, (*entry, PROVENANCE), "observed")
        if (*entry, "machine") in different_paths:
            cell_paths = {(*entry, name) for name in _CELLS}
            for path in cell_paths.difference(different_paths):
                if isinstance(get_part(changed, path), list):
                    changed = replace_part_at_path(changed, path, part=None)
    return changed
