"""Forecasts that keep score: what was claimed with which share, and whether it held.

A claim is settled once somebody saw what became of it. The record of an object (a site, a placement) counts
claims by what they are about and by share class, with two sums of squared errors: those of the stated shares,
and those of chance, which states 1 / number of candidates between which lots decide. It lies in the object's
private note, is never compared, and a note without one reads as empty. There are as many entries as share
classes for each thing that claims are about, so it stays below 4 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

FORECASTS: Final = "forecasts"  # the record's key in a private note
# What is claimed of a VM: its rack, its machine, and how many VMs of its pool come to its rack.
RACK_CLAIM: Final = "rack"
MACHINE_CLAIM: Final = "machine"
COUNT_CLAIM: Final = "rack_count"
VM_CLAIMS: Final = (RACK_CLAIM, MACHINE_CLAIM, COUNT_CLAIM)
ENOUGH: Final = 20  # settled claims of a class, from which on it is known what its shares are worth
MOST_SUBJECTS: Final = 6  # things that claims are about, in one record
_SURE: Final = 100
_DIGITS: Final = 6


class Claim(Struct, frozen=True):
    """One claim that was settled. `about` says what it is about ("machine"), `share` how likely it was said
    to be, `chance` how likely it is where one of the tied candidates is drawn. `measured` is the share before
    it was lowered to what held of earlier claims, None where it was not. `is_sure`: it was told as certain.
    `words` tell what was claimed and what is, for people.
    """

    about: str
    share: float
    chance: float
    held: bool
    measured: float | None = None
    is_sure: bool = False
    words: str = ""

    @property
    def share_class(self) -> int:
        """The class that learns from this claim: that of the share as it was measured."""
        return share_class(self.share if self.measured is None else self.measured)


class ShareScore(Struct, frozen=True):
    """What became of the claims of one share class: sums of the squared errors of shares and of chance."""

    held: int = 0
    broken: int = 0
    squares: float = 0.0
    chance_squares: float = 0.0

    @property
    def settled(self) -> int:
        """How many claims were settled."""
        return self.held + self.broken

    def with_claim(self, claim: Claim) -> ShareScore:
        """The same with one more claim."""
        return ShareScore(
            self.held + claim.held,
            self.broken + (not claim.held),
            round(self.squares + (claim.share - claim.held) ** 2, _DIGITS),
            round(self.chance_squares + (claim.chance - claim.held) ** 2, _DIGITS),
        )


# By what claims are about and by share class.
Record: TypeAlias = Mapping[tuple[str, int], ShareScore]


class Score(Struct, frozen=True):
    """What a record comes to: Brier scores (0 is best) of the stated shares and of chance. `sure_held` of the
    `sure` claims, which were measured to hold in every case, did. `lowered` says whether shares of some class
    are stated lower than measured.
    """

    settled: int
    held: int
    sure: int
    sure_held: int
    brier: float
    chance: float
    lowered: bool = False


def share_class(share: float) -> int:
    """100 for what is certain, else the tens of the percentage."""
    return _SURE if share >= 1 else int(share * 10 + 1e-9) * 10


def record_of(private: Mapping[str, Any] | None) -> Record:
    """The record in a private note; empty where there is none, or none that can be read."""
    noted = (private or {}).get(FORECASTS)
    record: dict[tuple[str, int], ShareScore] = {}
    for about, classes in noted.items() if isinstance(noted, Mapping) else ():
        for name, figures in classes.items() if isinstance(classes, Mapping) else ():
            score = _score_of_class(figures)
            if score is not None and str(name).isdecimal():
                record[str(about), int(name)] = score
    return record


def _score_of_class(figures: Any) -> ShareScore | None:
    """The figures of a class, None where they are not such."""
    if not isinstance(figures, Sequence) or len(figures) != len(ShareScore.__struct_fields__):
        return None
    if not all(isinstance(figure, (int, float)) and figure >= 0 for figure in figures):
        return None
    held, broken, squares, chance_squares = figures
    return ShareScore(int(held), int(broken), float(squares), float(chance_squares))


def with_claims(private: Mapping[str, Any] | None, claims: Iterable[Claim]) -> Mapping[str, Any] | None:
    """A private note whose record has these claims, too."""
    settled = list(claims)
    if not settled:
        return private
    record = dict(record_of(private))
    for claim in settled:
        key = (claim.about, claim.share_class)
        record[key] = record.get(key, ShareScore()).with_claim(claim)
    if len({about for about, _ in record}) > MOST_SUBJECTS:
        raise ValueError(f"a record holds claims about {MOST_SUBJECTS} things at most")
    document: dict[str, dict[str, list[float]]] = {}
    for about, number in sorted(record):
        score = record[about, number]
        figures = [score.held, score.broken, score.squares, score.chance_squares]
        document.setdefault(about, {})[str(number)] = figures
    return {**(private or {}), FORECASTS: document}


def as_it_held(record: Record, about: str, share: float) -> float:
    """A share, lowered to the one that held where enough claims of its class were settled."""
    score = record.get((about, share_class(share)))
    if score is None or score.settled < ENOUGH:
        return share
    return min(share, score.held / score.settled)


def score_of(record: Record) -> Score | None:
    """The score over all claims, None where none was settled."""
    settled = sum(each.settled for each in record.values())
    if not settled:
        return None
    sure = [score for (_, number), score in record.items() if number == _SURE]
    return Score(
        settled,
        sum(each.held for each in record.values()),
        sum(each.settled for each in sure),
        sum(each.held for each in sure),
        sum(each.squares for each in record.values()) / settled,
        sum(each.chance_squares for each in record.values()) / settled,
        any(_is_lowered(number, score) for (_, number), score in record.items()),
    )


def _is_lowered(number: int, score: ShareScore) -> bool:
    """Whether every share of a class is stated lower than measured."""
    return score.settled >= ENOUGH and score.held / score.settled < number / _SURE


def broken_sure(claims: Iterable[Claim]) -> tuple[str, ...]:
    """What was told as certain and is not so, in words, each once."""
    broken = (claim.words for claim in claims if claim.is_sure and not claim.held)
    return tuple(dict.fromkeys(broken))
