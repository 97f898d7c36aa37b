"""Scores of predictions: predicted shares, and verified results.

A prediction is verified when its result is observed. The record of an object (a site, a placement)
counts predictions by subject and share class, with two sums of squared errors: those of the
predicted shares, and those of chance, with 1 / number of tied candidates as share. It is stored in
the object's private note and never compared; a note without one is an empty record. It has one
entry per share class and subject, so it stays below 4 KiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

from msgspec import Meta, Struct, ValidationError, convert

from nexusform.json_data.plain_data import get_mapping

# The record's key in a private note.
RECORD_KEY: Final = "forecasts"
# That of the results the last apply could not read.
NOT_VERIFIED_KEY: Final = "not_verified"
# Predictions about a VM: its rack, its machine, and the number of VMs of its pool on its rack.
RACK_PREDICTION: Final = "rack"
MACHINE_PREDICTION: Final = "machine"
COUNT_PREDICTION: Final = "rack_count"
# The machine is allowed by the rule for the pool: a tie with another result is correct.
TIE_PREDICTION: Final = "tied_machines"
VM_PREDICTIONS: Final = (RACK_PREDICTION, MACHINE_PREDICTION, COUNT_PREDICTION)
# Minimum number of verified predictions of a class to adjust its shares.
MIN_VERIFIED: Final = 20
# Maximum number of subjects in one record.
MAX_SUBJECTS: Final = 6
_CERTAIN_CLASS: Final = 100
# After a wrong certain prediction: the correct ones in a row since then, until
# MIN_VERIFIED of them.
_STREAK: Final = ("streak", _CERTAIN_CLASS)
_MAX_UNCONFIRMED_SHARE: Final = 0.99
# Of Brier scores; sampled shares of ties differ from chance by less.
_CLEAR_DIFFERENCE: Final = 0.05
_DIGITS: Final = 6


class VerifiedPrediction(Struct, frozen=True):
    """Verified prediction.

    `subject` is its subject ("machine"), `share` its predicted probability, `chance` that of a
    random choice among the tied candidates. `measured_share` is the share before a reduction by the
    accuracy of earlier predictions, None without a reduction. `is_certain` means that it was
    reported as certain. `text` describes the prediction and the result for people.
    """

    subject: str
    share: float
    chance: float
    was_correct: bool
    measured_share: float | None = None
    is_certain: bool = False
    text: str = ""

    @property
    def share_class(self) -> int:
        """Class of the share before its reduction by the accuracy of earlier predictions.

        It is 100, 90, 80, and so on.
        """
        return compute_share_class(
            self.share if self.measured_share is None else self.measured_share
        )


class ShareClassScore(Struct, frozen=True):
    """Results of one share class: counts, and sums of squared errors of shares and of chance."""

    correct: int = 0
    incorrect: int = 0
    squares: float = 0.0
    chance_squares: float = 0.0

    @property
    def verified(self) -> int:
        """Number of verified predictions."""
        return self.correct + self.incorrect

    @property
    def accuracy(self) -> float:
        """Share of correct predictions; 1 without any."""
        return self.correct / self.verified if self.verified else 1.0

    def add_score(self, score: ShareClassScore) -> ShareClassScore:
        """Return the sum of two scores."""
        return ShareClassScore(
            correct=self.correct + score.correct,
            incorrect=self.incorrect + score.incorrect,
            squares=self.squares + score.squares,
            chance_squares=self.chance_squares + score.chance_squares,
        )

    def add_prediction(self, prediction: VerifiedPrediction) -> ShareClassScore:
        """Return the score with one more prediction."""
        # True counts as 1.
        return ShareClassScore(
            correct=self.correct + prediction.was_correct,
            incorrect=self.incorrect + (not prediction.was_correct),
            squares=round(self.squares + (prediction.share - prediction.was_correct) ** 2, _DIGITS),
            chance_squares=round(
                self.chance_squares + (prediction.chance - prediction.was_correct) ** 2, _DIGITS
            ),
        )


# By subject and share class.
PredictionRecord: TypeAlias = Mapping[tuple[str, int], ShareClassScore]


class PredictionRecordScore(Struct, frozen=True):
    """Score of a record: Brier scores (0 is best) of the predicted shares and of chance.

    `certain_correct` of the `certain` predictions (with a measured share of 1) were correct.
    `has_lowered_shares` means that shares of some class are reported lower than measured.
    """

    verified: int
    correct: int
    certain: int
    certain_correct: int
    brier: float
    chance: float
    has_lowered_shares: bool = False

    @property
    def is_no_better_than_chance(self) -> bool:
        """Whether enough predictions were verified, and random choices would have been as good.

        Predictions of ties are no better than chance, so the difference must be clear, unless a
        certain prediction was wrong.
        """
        minimum = 0.0 if self.certain_correct < self.certain else _CLEAR_DIFFERENCE
        return self.verified >= MIN_VERIFIED and self.brier - self.chance >= minimum

    @property
    def skill(self) -> float | None:
        """Share of the errors of chance avoided by the predictions; None without such errors."""
        return 1 - self.brier / self.chance if self.chance else None


def compute_share_class(share: float) -> int:
    """Return the class of a share (0..1).

    It is 100 for certainty, else the percentage rounded down to tens (0.37: 30).
    """
    # 0.3 * 10 may be below 3.
    return _CERTAIN_CLASS if share >= 1 else int(share * 10 + 1e-9) * 10


def parse_record(private: Mapping[str, Any] | None) -> PredictionRecord:
    """Parse the prediction record in the private data of an object; skip invalid parts.

    It is empty if missing.
    """
    # By subject and share class.
    record: dict[tuple[str, int], ShareClassScore] = {}
    for subject, classes in get_mapping(private, RECORD_KEY).items():
        for name, figures in get_mapping(classes).items():
            try:
                correct, incorrect, squares, chance_squares = convert(figures, _ClassFigures)
            except ValidationError:
                continue
            # Share classes are numbers.
            if str(name).isdecimal():
                score = ShareClassScore(int(correct), int(incorrect), squares, chance_squares)
                record[str(subject), int(name)] = score
    return record


_Figure = Annotated[float, Meta(ge=0)]
# Those of ShareClassScore.
_ClassFigures = tuple[_Figure, _Figure, _Figure, _Figure]


def add_predictions_to_note(
    private: Mapping[str, Any] | None, predictions: Iterable[VerifiedPrediction]
) -> Mapping[str, Any] | None:
    """Return a private note with the results of predictions added to its record.

    Counts by subject and class of shares, {"machine": {"100": [correct, incorrect, ...]}}. Without
    predictions, return the same note.
    """
    prediction_list = list(predictions)
    if not prediction_list:
        return private
    record = dict(parse_record(private))
    for prediction in prediction_list:
        key = (prediction.subject, prediction.share_class)
        record[key] = record.get(key, ShareClassScore()).add_prediction(prediction)
        _update_correct_streak(record, prediction)
    # The streak is no subject.
    if len({subject for subject, _ in record.keys() - {_STREAK}}) > MAX_SUBJECTS:
        raise ValueError(f"a record holds predictions for at most {MAX_SUBJECTS} subjects")
    document: dict[str, dict[str, list[float]]] = {}
    for subject, share_class in sorted(record):
        score = record[subject, share_class]
        figures = [score.correct, score.incorrect, score.squares, score.chance_squares]
        document.setdefault(subject, {})[str(share_class)] = figures
    return {**(private or {}), RECORD_KEY: document}


def _update_correct_streak(
    record: dict[tuple[str, int], ShareClassScore], prediction: VerifiedPrediction
) -> None:
    """Update the streak in the record.

    It is the number of correct predictions with the share of certainty in a row. A wrong certain
    prediction starts it at 0, a further wrong one restarts it. After MIN_VERIFIED correct ones it
    ends. During a streak, no prediction is reported as certain.
    """
    if prediction.share_class != _CERTAIN_CLASS:
        return
    has_streak = _STREAK in record
    if not has_streak and not prediction.is_certain:
        # Not reported as certain; during a streak, none is.
        return
    if not prediction.was_correct:
        record[_STREAK] = ShareClassScore(incorrect=1)
    elif has_streak and prediction.subject != TIE_PREDICTION:
        # Ties are often correct by chance.
        correct = record[_STREAK].correct + 1
        record[_STREAK] = ShareClassScore(correct=correct, incorrect=1)
        if correct == MIN_VERIFIED:
            del record[_STREAK]


def lower_share_to_accuracy(record: PredictionRecord, subject: str, share: float) -> float:
    """Return a share lowered to the accuracy of its class, after enough verified predictions.

    After a wrong certain prediction nothing is certain until enough have been correct in a row.
    """
    score = record.get((subject, compute_share_class(share)), ShareClassScore())
    # The streak starts with a wrong certain prediction.
    if share >= 1 and _STREAK in record:
        return min(score.accuracy, _MAX_UNCONFIRMED_SHARE)
    return share if score.verified < MIN_VERIFIED else min(share, score.accuracy)


def compute_score(record: PredictionRecord) -> PredictionRecordScore | None:
    """Compute the score over all predictions except ties; None without any verified one."""
    # With fewer correct predictions than its share.
    has_worse_class = False
    total = ShareClassScore()
    certain = ShareClassScore()
    for key, score in record.items():
        subject, share_class = key
        # Ties are counted apart: many are correct by chance.
        if key == _STREAK or subject == TIE_PREDICTION:
            continue
        total = total.add_score(score)
        if share_class == _CERTAIN_CLASS:
            certain = certain.add_score(score)
        # The accuracy is compared as a fraction.
        if score.verified >= MIN_VERIFIED and score.accuracy < share_class / _CERTAIN_CLASS:
            has_worse_class = True
    if not total.verified:
        return None
    return PredictionRecordScore(
        verified=total.verified,
        correct=total.correct,
        certain=certain.verified,
        certain_correct=certain.correct,
        brier=total.squares / total.verified,
        chance=total.chance_squares / total.verified,
        # Streak: a certain prediction was wrong lately.
        has_lowered_shares=_STREAK in record or has_worse_class,
    )


def list_wrong_certain(predictions: Iterable[VerifiedPrediction]) -> tuple[str, ...]:
    """List the texts of wrong predictions that were reported as certain, each once."""
    texts = (
        prediction.text
        for prediction in predictions
        if prediction.is_certain and not prediction.was_correct
    )
    return tuple(dict.fromkeys(texts))
