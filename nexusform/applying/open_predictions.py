"""Unverified predictions of plans, in the private note of the object with the VMs.

A pool is one line of JSON with a row per rack, and in it a column per attribute: one value if it is
the same for all VMs there. That needs about 20 bytes per VM, compared to 80 with a row per VM.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

# The function `commonprefix` works on any texts.
from posixpath import commonprefix
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from nexusform.json_data.plain_data import get_mapping
from nexusform.scheduling.placement_decision import PlacementCertainty
from nexusform.scheduling.racks.vms import Placement
from nexusform.state.objects import replace_note_entry

# Their key in an object's private note.
OPEN_PREDICTIONS_KEY: Final = "open_claims"
OpenPredictions: TypeAlias = "Mapping[str, tuple[PredictedVm, ...]]"  # by pool


class PredictedVm(Struct, frozen=True):
    """VM placed by a plan: the predicted place with its certainty, and the observed placement.

    The predicted place is the rack and the machine. The observed placement is None if unobserved.
    `is_machine_certain` and `is_count_certain` mean that the plan reported certainty over all
    samples. `tied_machines` are the machines allowed by the rule for the pool.
    """

    number: int | str
    rack: str
    machine: str
    certainty: PlacementCertainty
    is_machine_certain: bool = False
    is_count_certain: bool = False
    object: str = ""
    tied_machines: tuple[str, ...] = ()
    is_tie_certain: bool = False
    observed_placement: Placement | None = None


_Shares: TypeAlias = "float | list[float]"
_Ties: TypeAlias = "int | list[int]"


class _RackVms(Struct, frozen=True, array_like=True):
    """VMs of a pool on one rack.

    `machines` are the suffixes after `prefix`, separated by commas, or a list if a name has a
    comma; `certain` flags and count figures apply to the whole rack. `ties` of the first row apply
    to the pool: whether they are certain, and the machines, consecutive ones as `rack1-bm01..16`.
    """

    rack: str
    certain: tuple[bool, bool]
    count_share: float
    count_tied: int
    numbers: list[int | str]
    prefix: str
    machines: str | list[str]
    rack_share: _Shares
    machine_share: _Shares
    rack_tied: _Ties
    machine_tied: _Ties
    measured: tuple[_Shares, _Shares, _Shares] | None = None
    ties: tuple[bool, list[str]] | None = None


_T = TypeVar("_T")


def read_open_predictions(private: Mapping[str, Any] | None) -> OpenPredictions:
    """Return the open (not verified) predictions in a private note, by pool.

    A pool with an invalid entry is omitted.
    """
    predictions: dict[str, tuple[PredictedVm, ...]] = {}
    for pool, text in get_mapping(private, OPEN_PREDICTIONS_KEY).items():
        with suppress(msgspec.DecodeError, ValueError):
            predictions[str(pool)] = tuple(_read_pool_predictions(str(text)))
    return predictions


def _read_pool_predictions(text: str) -> Iterator[PredictedVm]:
    """Yield the predictions of a pool from its line of JSON.

    Raises DecodeError or ValueError if it is invalid.
    """
    rows = msgspec.json.decode(text, type=list[_RackVms])
    # Ties of the whole pool.
    ties = rows[0].ties if rows else None
    is_tie_certain, folded_names = ties or (False, [])
    tied_names: list[str] = []
    for folded in folded_names:
        tied_names.extend(_expand_folded_name(folded))
    for row in rows:
        yield from _build_predictions(row, tuple(tied_names), is_tie_certain)


def set_open_predictions(
    private: Mapping[str, Any] | None, predictions: OpenPredictions
) -> Mapping[str, Any] | None:
    """Return a private note with these open predictions instead of its previous ones.

    The note has one line per pool.
    """
    lines = {
        pool: msgspec.json.encode(list(_build_rows(predictions[pool]))).decode()
        for pool in sorted(predictions)
    }
    return replace_note_entry(private, OPEN_PREDICTIONS_KEY, lines)


def _build_rows(predictions: Iterable[PredictedVm]) -> Iterator[_RackVms]:
    """Yield the compact rows of a pool.

    The VMs of a row have the same rack, flags and figures of the rack count.
    """
    members_by_row: dict[tuple[Any, ...], list[PredictedVm]] = defaultdict(list)
    # Equal for all VMs of the pool.
    ties: tuple[bool, list[str]] | None = None
    for prediction in predictions:
        certainty = prediction.certainty
        flags = (prediction.is_machine_certain, prediction.is_count_certain)
        # Numbers of equally good racks, machines and counts.
        _, _, count_tied = certainty.tied
        # Without a reduction by the accuracy of earlier predictions.
        is_unreduced = certainty.measured is None
        members_by_row[
            prediction.rack, flags, certainty.rack_count, count_tied, is_unreduced
        ].append(prediction)
        if prediction.tied_machines and ties is None:
            ties = (prediction.is_tie_certain, list(_fold_names(prediction.tied_machines)))
    for members in members_by_row.values():
        yield _build_row(members, ties)
        # Ties are only in the first row.
        ties = None


def _build_row(members: Sequence[PredictedVm], ties: tuple[bool, list[str]] | None) -> _RackVms:
    """Build the compact row of VMs on one rack.

    They agree in everything except number, machine and its certainty. Differing figures form a
    column with one entry per VM. A column of equal entries becomes a single value. The machines
    "rack1-bm01" and "rack1-bm02" become the prefix "rack1-bm0" and the suffixes "1,2". `ties` holds
    whether the tied machines of the pool are certain, and their names, for its first row; None for
    the other rows.
    """
    first_vm = members[0]
    certainties = [prediction.certainty for prediction in members]
    # Numbers of equally good results: racks, machines and rack counts.
    _, _, count_tied = first_vm.certainty.tied
    machines = [prediction.machine for prediction in members]
    prefix = commonprefix(machines)
    suffixes = [machine.removeprefix(prefix) for machine in machines]
    # Either all are measured, or none.
    measured = [certainty.measured for certainty in certainties if certainty.measured is not None]
    # Three columns: the shares of rack, machine and rack count before a reduction; no column
    # without a reduction.
    shares = [_collapse_equal_values(list(column)) for column in zip(*measured, strict=True)]
    return _RackVms(
        rack=first_vm.rack,
        certain=(first_vm.is_machine_certain, first_vm.is_count_certain),
        count_share=first_vm.certainty.rack_count,
        count_tied=count_tied,
        numbers=[prediction.number for prediction in members],
        prefix=prefix,
        machines=suffixes if any("," in suffix for suffix in suffixes) else ",".join(suffixes),
        rack_share=_collapse_equal_values([certainty.rack for certainty in certainties]),
        machine_share=_collapse_equal_values([certainty.machine for certainty in certainties]),
        rack_tied=_collapse_equal_values([certainty.tied[0] for certainty in certainties]),
        machine_tied=_collapse_equal_values([certainty.tied[1] for certainty in certainties]),
        measured=(shares[0], shares[1], shares[2]) if shares else None,
        ties=ties,
    )


# Names of one run.
_MAX_RUN: Final = 100_000
_FOLDED_NAMES: Final = re.compile(r"(.*?)([0-9]+)\.\.([0-9]+)")


def _fold_names(names: Iterable[str]) -> Iterator[str]:
    """Yield names, with consecutive numbers of the same width folded into one text.

    An example is `rack1-bm01..16`.
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and _is_next_number(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    for first, *others in runs:
        yield f"{first}..{_get_final_number(others[-1])}" if others else first


def _expand_folded_name(folded: str) -> list[str]:
    """Return the names of a text of `_fold_names`.

    Raises ValueError for too many names.
    """
    match = _FOLDED_NAMES.fullmatch(folded)
    if match is None:
        return [folded]
    prefix, first, last = match.groups()
    if int(last) - int(first) > _MAX_RUN:
        raise ValueError(f"{folded} has too many names")
    return [f"{prefix}{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]


def _get_final_number(name: str) -> str:
    return name[len(name.rstrip("0123456789")) :]


def _is_next_number(name: str, following: str) -> bool:
    """Return whether the names differ by one in their final numbers of the same width."""
    number = _get_final_number(name)
    next_number = _get_final_number(following)
    is_similar = len(name) == len(following) and name.removesuffix(
        number
    ) == following.removesuffix(next_number)
    return is_similar and bool(number) and int(next_number) == int(number) + 1


def _collapse_equal_values(values: list[_T]) -> _T | list[_T]:
    """Return a column as one value if all values are equal: 0.5 for [0.5, 0.5].

    `_expand_column` reverses this.
    """
    return values[0] if values.count(values[0]) == len(values) else values


def _expand_column(column: list[_T] | _T, length: int) -> list[_T]:
    """Return a column with a value per VM; ValueError for a wrong number of values."""
    values = column if isinstance(column, list) else [column] * length
    if len(values) != length:
        raise ValueError("a column of open predictions has another length than its VMs")
    return values


def _build_predictions(
    row: _RackVms, tied_machines: tuple[str, ...], is_tie_certain: bool
) -> Iterator[PredictedVm]:
    """Yield the predictions of a row.

    Each of its columns has a value per VM, or one for all of them. The columns are expanded to a
    value per VM and read in parallel. `_build_row` builds such rows.
    """
    length = len(row.numbers)
    machines = row.machines.split(",") if isinstance(row.machines, str) else row.machines
    suffixes: list[str] = _expand_column(machines, length)
    shares = zip(
        _expand_column(row.rack_share, length),
        _expand_column(row.machine_share, length),
        strict=True,
    )
    tie_counts = zip(
        _expand_column(row.rack_tied, length), _expand_column(row.machine_tied, length), strict=True
    )
    measured_columns = [_expand_column(column, length) for column in row.measured or ()]
    columns = zip(row.numbers, suffixes, shares, tie_counts, strict=True)
    for index, (
        number,
        suffix,
        (rack_share, machine_share),
        (rack_ties, machine_ties),
    ) in enumerate(columns):
        # Without a reduction by the accuracy of earlier predictions.
        measured = None
        if measured_columns:
            measured_rack, measured_machine, measured_count = (
                column[index] for column in measured_columns
            )
            measured = (measured_rack, measured_machine, measured_count)
        certainty = PlacementCertainty(
            rack_share,
            machine_share,
            row.count_share,
            (rack_ties, machine_ties, row.count_tied),
            measured,
        )
        yield PredictedVm(
            number,
            row.rack,
            row.prefix + suffix,
            certainty,
            # Of the machine and of the count on the rack.
            *row.certain,
            tied_machines=tied_machines,
            is_tie_certain=is_tie_certain,
        )
