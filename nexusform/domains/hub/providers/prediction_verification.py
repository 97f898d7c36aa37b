"""Verification of a placement's predictions, and the causes of wrong ones.

Predictions depend on the members' figures at planning. If these changed before the hub decided,
no prediction was certain. Otherwise the hub follows another rule, or has another version than
the one implemented.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_first_items
from nexusform.documents.times import parse_time
from nexusform.domains.fleet.importers.hub_records import read_member_health
from nexusform.domains.hub.providers.rollout_progress import (
    find_condition,
    get_labels,
    get_name,
    list_picked_clusters,
)
from nexusform.domains.hub.types.fleet_hub import is_heartbeat_age_unknown
from nexusform.json_data.plain_data import get_mapping, get_text, list_mappings
from nexusform.placements.prediction_scores import VerifiedPrediction

# Version of the implemented rules.
KUBEFLEET: Final = "KubeFleet e160c1cd"
CLUSTER_PREDICTION: Final = "cluster"
REJECTION_PREDICTION: Final = "refusal"
SCORE_PREDICTION: Final = "score"
CONTENT_PREDICTION: Final = "content"
# Key of the wrong predictions in a placement's note.
WRONG_PREDICTIONS: Final = "wrong_predictions"
CHANGED_FIGURES: Final = "figures"
DIFFERENT_RULE: Final = "rule"
DIFFERENT_VERSION: Final = "version"
DIFFERENT_CONTENT: Final = "content"
UNKNOWN_CAUSE: Final = "unknown"
# Text of each kind of cause, filled with the changes.
_CAUSE_FORMS: Final = {
    CHANGED_FIGURES: "figures changed since the plan: {}",
    DIFFERENT_CONTENT: "{}",
    DIFFERENT_VERSION: f"the hub is of another version ({{}}; forecasts follow {KUBEFLEET})",
    DIFFERENT_RULE: (
        "no figure changed, so the hub decides by another rule, or is of another version than "
        f"{KUBEFLEET}"
    ),
    UNKNOWN_CAUSE: "the plan knew no members of this hub, so the cause is unknown",
}
UNKNOWN_HEALTH: Final = "unknown, without the age of its heartbeat"
_SCORES: Final = ("affinity_score", "topology_spread_score")
_PICK_SUBJECTS: Final = {True: CLUSTER_PREDICTION, False: REJECTION_PREDICTION}
_PICK_TEXTS: Final = {True: "picked", False: "not picked"}
_MAX_RECORDED: Final = 12
_MAX_NAMES: Final = 3
Bindings = Mapping[str, Mapping[str, Any]]
# Figures of members that affect placement, by member.
Figures = Mapping[str, Mapping[str, Any]]


class WrongClusterPrediction(Struct, frozen=True):
    """Wrong prediction with the kind of its cause.

    `changes` are changed figures, old and new, or the hub's version.
    """

    about: str
    cluster: str
    predicted: str
    observed: str
    kind: str
    changes: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """Display text."""
        cause = _CAUSE_FORMS[self.kind].format(
            format_first_items(self.changes, _MAX_NAMES, separator="; ")
        )
        return f"{self.cluster} was predicted as {self.predicted}, but is {self.observed}: {cause}"


class VerificationResult(Struct, frozen=True):
    """Verified predictions of one placement, and the wrong ones.

    `not_verified` describes unread results, or is "".
    """

    predictions: tuple[VerifiedPrediction, ...] = ()
    wrong_predictions: tuple[WrongClusterPrediction, ...] = ()
    not_verified: str = ""

    def add_wrong_content(
        self, clusters: Iterable[str], index: int, difference: str
    ) -> VerificationResult:
        """Return the result with wrong predictions of these clusters.

        They are at the resource snapshot `index`, but with other objects (`difference`). Clusters
        with the predicted content do not count: there was no decision to predict.
        """
        subject = CONTENT_PREDICTION
        # The states are the predicted and the observed one.
        states = (f"at resource snapshot {index}", "there with other content")
        predictions = list(self.predictions)
        wrong_predictions = list(self.wrong_predictions)
        for cluster in sorted(clusters):
            wrong = WrongClusterPrediction(
                subject, cluster, *states, DIFFERENT_CONTENT, (difference,)
            )
            wrong_predictions.append(wrong)
            predictions.append(
                build_prediction(subject, wrong.message, was_correct=False, is_certain=True)
            )
        return replace(
            self, predictions=tuple(predictions), wrong_predictions=tuple(wrong_predictions)
        )

    def build_note(self) -> dict[str, Any]:
        """Return the wrong predictions as recorded in the private data of a placement in state.

        The result is {} without any. An example is {"wrong_predictions": [{"about": "cluster",
        "cluster": "ams1", "predicted": "picked", "observed": "not picked", "kind": "figures",
        "changed": ["ams1: health Healthy -> Unhealthy"]}]}.
        """
        names = ("about", "cluster", "predicted", "observed", "kind")
        records = [
            {
                **{name: getattr(item, name) for name in names},
                "changed": list(item.changes[:_MAX_NAMES]),
            }
            for item in self.wrong_predictions[:_MAX_RECORDED]
        ]
        return {WRONG_PREDICTIONS: records} if records else {}


def build_prediction(
    subject: str, text: str, *, was_correct: bool, chance: float = 0.5, is_certain: bool = False
) -> VerifiedPrediction:
    """Build the verified prediction of one result (share 1.0).

    `chance` is the probability of a random guess.
    """
    return VerifiedPrediction(
        subject, 1.0, chance, was_correct=was_correct, is_certain=is_certain, text=text
    )


def read_figures(
    members: Iterable[Mapping[str, Any]], observed_at: datetime | None
) -> dict[str, dict[str, Any]]:
    """Return the figures used for placement by member.

    They are labels, taints, properties, resources and state. Health is derived for the time
    `observed_at` (None: unknown).
    """
    figures_by_member: dict[str, dict[str, Any]] = {}
    for member in members:
        status = get_mapping(member, "status")
        figures: dict[str, Any] = {
            f"label {name}": value for name, value in get_labels(member).items()
        }
        for taint in list_mappings(member, "spec", "taints"):
            figures[f"taint {taint.get('key')}"] = (
                f"{get_text(taint, 'value')}:{taint.get('effect')}"
            )
        for name, entry in get_mapping(status, "properties").items():
            figures[f"property {name}"] = get_mapping(entry).get("value")
        for kind, amounts in get_mapping(status, "resourceUsage").items():
            figures |= {f"{kind} {name}": amount for name, amount in get_mapping(amounts).items()}
        figures["joined"] = find_condition(member, "Joined").get("status", "Unknown")
        figures["health"] = str(read_member_health(member, observed_at))
        figures_by_member[get_name(member)] = figures
    return figures_by_member


def read_plan_figures(responses: Mapping[str, str]) -> dict[str, Figures]:
    """Return the members' figures read by a plan's data blocks, by URL of the hub.

    The figures are None for a hub without members. `responses` are the texts read by all data
    blocks: those of a hub are a list of its objects in JSON. An unknown age of heartbeats makes the
    health of members unknown.
    """
    figures_by_server: dict[str, Figures] = {}
    for text in responses.values():
        try:
            dump = json.loads(text)
        except ValueError:
            # The figures are of another data source.
            continue
        members = [
            item for item in list_mappings(dump, "items") if item.get("kind") == "MemberCluster"
        ]
        if members:
            figures = read_figures(members, parse_time(str(dump.get("read_at"))))
            if is_heartbeat_age_unknown(dump):
                figures = {
                    name: {**member, "health": UNKNOWN_HEALTH} for name, member in figures.items()
                }
            figures_by_server[str(dump.get("server"))] = figures
    return figures_by_server


def _find_changes(old_figures: Figures, new_figures: Figures) -> Iterator[tuple[str, str]]:
    """Yield each member joined or left, and each changed figure.

    Each item is a pair (member, change as text).
    """
    for name in sorted({*old_figures, *new_figures}):
        if name not in new_figures:
            yield name, f"{name} left"
        elif name not in old_figures:
            yield name, f"{name} joined"
        else:
            old_member = old_figures[name]
            new_member = new_figures[name]
            for figure in sorted({*old_member, *new_member}):
                if old_member.get(figure) != new_member.get(figure):
                    yield (
                        name,
                        (
                            f"{name}: {figure} {old_member.get(figure, 'none')} -> "
                            f"{new_member.get(figure, 'none')}"
                        ),
                    )


class PredictionVerifier(Struct, frozen=True):
    """Verifier of a placement's predictions.

    `plan_figures` and `current_figures` are the members' figures at planning ({}: unknown, only
    picks are predicted) and at its decision. `version` is the hub's, "" if unknown. With
    `compares_spread`, spread scores are compared: they can differ between runs after a policy
    change, so they may be excluded. `open_clusters` are those with an open decision, with the share
    of a random choice; correct predictions for others do not count.
    """

    plan_figures: Figures
    current_figures: Figures
    version: str = ""
    compares_spread: bool = True
    open_clusters: Mapping[str, float] = field(default_factory=dict)

    def verify_bindings(
        self, name: str, predicted_bindings: Bindings, observed_bindings: Bindings
    ) -> VerificationResult:
        """Compare the predicted bindings with the observed ones.

        Picks, then the scores of clusters picked in both.
        """
        predicted = list_picked_clusters(predicted_bindings)
        observed = list_picked_clusters(observed_bindings)
        compared_clusters = set(predicted)
        # Without the figures of members, a plan predicts nothing about other clusters.
        if self.plan_figures:
            compared_clusters |= {*self.current_figures, *observed}
        picks = self._verify_picks(name, compared_clusters, predicted, observed)
        # Predicted and observed binding of each cluster picked in both.
        pairs = {
            key: (predicted_bindings[key], observed_bindings[key])
            for key in sorted(predicted & observed)
        }
        scores = self._verify_scores(pairs, chance=1 / max(len(compared_clusters), 1))
        return VerificationResult(
            predictions=picks.predictions + scores.predictions,
            wrong_predictions=picks.wrong_predictions + scores.wrong_predictions,
        )

    def _verify_picks(
        self,
        name: str,
        clusters: AbstractSet[str],
        predicted: AbstractSet[str],
        observed: AbstractSet[str],
    ) -> VerificationResult:
        """Verify the prediction for each of the `clusters`.

        It is right if the cluster is in both `predicted` and `observed`, or in neither. A correct
        prediction counts only for `open_clusters` (with their chance of a random pick): others
        had no alternative.
        """
        predictions: list[VerifiedPrediction] = []
        wrong_predictions: list[WrongClusterPrediction] = []
        is_certain = False
        if self.plan_figures:
            healths = {figures.get("health") for figures in self.plan_figures.values()}
            changes = list(_find_changes(self.plan_figures, self.current_figures))
            # The plan knew all current figures.
            is_certain = not changes and UNKNOWN_HEALTH not in healths
        for cluster in sorted(clusters):
            was_picked = cluster in predicted
            is_picked = cluster in observed
            subject = _PICK_SUBJECTS[was_picked]
            states = (_PICK_TEXTS[was_picked], _PICK_TEXTS[is_picked])
            is_correct = was_picked == is_picked
            message = (
                f"{name}: {cluster} was predicted (certain) as {_PICK_TEXTS[was_picked]}, is "
                f"{_PICK_TEXTS[is_picked]}"
            )
            if cluster in self.open_clusters or not is_correct:
                # By random choice.
                pick_chance = self.open_clusters.get(cluster, float(was_picked))
                chance = pick_chance if was_picked else 1 - pick_chance
                verified = build_prediction(
                    subject, message, was_correct=is_correct, chance=chance, is_certain=is_certain
                )
                predictions.append(verified)
            if not is_correct:
                wrong_predictions.append(self._build_wrong_prediction(subject, cluster, states))
        return VerificationResult(tuple(predictions), tuple(wrong_predictions))

    def _verify_scores(
        self, bindings: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]], chance: float
    ) -> VerificationResult:
        """Compare the scores in the predicted and the observed binding of each cluster.

        This needs predicted scores. `chance` is the probability to predict one score by
        a random choice.
        """
        predictions: list[VerifiedPrediction] = []
        wrong_predictions: list[WrongClusterPrediction] = []
        kinds = _SCORES if self.compares_spread else _SCORES[:1]  # affinity alone
        for cluster, (predicted_binding, observed_binding) in bindings.items():
            predicted = tuple(map(predicted_binding.get, kinds))
            observed = tuple(map(observed_binding.get, kinds))
            if None in predicted:
                continue  # not predicted
            is_correct = predicted == observed
            # A correct score counts only with an open pick (there were alternatives) and a score
            # other than 0.
            if (cluster in self.open_clusters and any(predicted)) or not is_correct:
                predictions.append(
                    build_prediction(
                        SCORE_PREDICTION, text="", was_correct=is_correct, chance=chance
                    )
                )
            if not is_correct:
                states = (_format_scores(predicted), _format_scores(observed))
                wrong_predictions.append(
                    self._build_wrong_prediction(SCORE_PREDICTION, cluster, states)
                )
        return VerificationResult(tuple(predictions), tuple(wrong_predictions))

    def _build_wrong_prediction(
        self, about: str, cluster: str, states: tuple[str, str]
    ) -> WrongClusterPrediction:
        """Build a wrong prediction with its cause.

        `states` are the predicted and the observed one.
        """
        if not self.plan_figures:
            return WrongClusterPrediction(about, cluster, *states, UNKNOWN_CAUSE)
        changes = list(_find_changes(self.plan_figures, self.current_figures))
        if changes:
            # The changes of the cluster come first; those of each member keep their order.
            texts = tuple(
                text for _, text in sorted(changes, key=lambda change: change[0] != cluster)
            )
            return WrongClusterPrediction(about, cluster, *states, CHANGED_FIGURES, texts)
        # The version is that of KubeFleet on the hub.
        if self.version:
            return WrongClusterPrediction(
                about, cluster, *states, DIFFERENT_VERSION, (self.version,)
            )
        return WrongClusterPrediction(about, cluster, *states, DIFFERENT_RULE)


def has_scheduling_decision(prior: Bindings, planned: Bindings) -> bool:
    """Return True if a plan predicts a decision of the scheduler, not only a rollout.

    `prior` and `planned` are the bindings of a placement before and after it, by cluster.
    """
    planned_clusters = list_picked_clusters(planned)
    if planned_clusters != list_picked_clusters(prior):
        return True
    # With the same clusters, a decision shows in the name of the policy snapshot.
    kept_clusters = planned_clusters & prior.keys()
    return any(
        prior[name].get("policy_snapshot") != planned[name].get("policy_snapshot")
        for name in kept_clusters
    )


def _format_scores(scores: tuple[Any, ...]) -> str:
    names = ("affinity score", "spread score")
    # The scores are of the affinity alone, or both.
    return ", ".join(f"{name} {score}" for name, score in zip(names, scores, strict=False))
