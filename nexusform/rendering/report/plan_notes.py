"""Notes of a plan: sentences about upgrades, samples, rules and inputs."""

from __future__ import annotations

from typing import Final

from nexusform.diagnostics.phrases import format_count, select_word_form
from nexusform.plans.plan import Plan, PredictionScore
from nexusform.rendering.report import wording
from nexusform.rendering.report.folding import format_names
from nexusform.rendering.report.plan_verdict import count_conditions, describe_inventory
from nexusform.rendering.report.summary_sentences import describe_scale_in, describe_unknown_cells
from nexusform.rendering.report.upgrade_sentences import build_upgrade_sentences

MAX_SITES: Final = 6
INVENTORY: Final = "Inventory"  # a heading of the verdict


def build_notes(plan: Plan) -> list[tuple[str, str]]:
    """Return pairs of heading and sentence about upgrades, samples, rules and inputs, without empty ones."""
    sentences = [
        *build_upgrade_sentences(plan),
        ("NUMA cells", describe_unknown_cells(plan.numa_sampling)),
        ("Scale-in", describe_scale_in(plan)),
    ]
    sentences += [
        (f"Predictions on {score.site}", _describe_accuracy(score)) for score in plan.prediction_scores[:MAX_SITES]
    ]
    sentences += [("Dry run", judgement) for judgement in plan.dry_run_messages]
    sentences += _describe_separations(plan)
    age = describe_inventory(plan)
    sentences += [("Conditions", _describe_conditions(plan)), (INVENTORY, (f"{age}." if age else ""))]
    return [(heading, sentence) for heading, sentence in sentences if sentence]


_GUESSES: Final = "This site does not follow the placement rule; the locations below are guesses."


def _describe_accuracy(score: PredictionScore) -> str:
    """Return a sentence about verified predictions: hits, share, certain hits and unverified VMs."""
    prediction_text = (
        f"{wording.format_prediction_accuracy(score.predictions)}." if score.predictions is not None else ""
    )
    if score.predictions is not None and score.predictions.is_no_better_than_chance:
        prediction_text = f"{_GUESSES} {prediction_text}"
    not_verified = f"Not verified: {score.not_verified}." if score.not_verified else ""
    prediction_text = " ".join(filter(None, (prediction_text, not_verified)))
    if not (score.verified_count or score.unverified_count):
        return prediction_text
    unverified = f"{score.unverified_count:,} not verified"
    if not score.verified_count:
        return f"no VM could be verified, {unverified}. {prediction_text}".rstrip()
    share = _format_percent(score.hits / score.verified_count)
    certain_text = f"{score.certain_hits:,} of them certain, " if score.certain_hits not in {None, score.hits} else ""
    chance = (
        f"by chance {_format_percent(score.random_hits / score.verified_count)}, "
        if score.random_hits is not None
        else ""
    )
    verified = f"{score.hits:,} of {score.verified_count:,} verified VMs"
    return (f"{verified} ({share}) run where predicted, {certain_text}{chance}{unverified}. {prediction_text}").rstrip()


def _format_percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _describe_separations(plan: Plan) -> list[tuple[str, str]]:
    """Describe each rule violated in some outcome, then the other rules together."""
    sentences = []
    satisfied = [verdict for verdict in plan.separation_verdicts if verdict.satisfied == "always"]
    for verdict in plan.separation_verdicts:
        if verdict in satisfied:
            continue
        violation_count = format_count(len(verdict.violations), verdict.scope)
        runs = f" (in {verdict.satisfied_count:,} of {verdict.sample_count:,} samples)" if verdict.sample_count else ""
        verb = "is violated" if verdict.satisfied == "never" else "may be violated"
        sentences.append(f"{verdict.address} {verb}{runs}: {violation_count} shared, {verdict.enforcement}.")
    if satisfied:
        names = format_names(f"{verdict.address.name}" for verdict in satisfied)
        maximum_runs = max(verdict.sample_count for verdict in satisfied)
        scope = f"in the plan and in {maximum_runs} samples" if maximum_runs else "in the plan"
        sentences.append(f"{names} {select_word_form(len(satisfied), 'holds', 'hold')}, {scope}.")
    return [("Separation", sentence) for sentence in sentences]


def _describe_conditions(plan: Plan) -> str:
    """Describe the predicted results of conditions; "" if all hold."""
    if all(check.status == "pass" for check in plan.checks):
        return ""
    texts = [f"{count:,} {verb}" for count, verb in count_conditions(plan)]
    return f"{', '.join(texts)} (predicted)." if texts else ""
