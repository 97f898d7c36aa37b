"""What became of what a plan foretold of a placement, and where it came otherwise, why.

A forecast rests on the figures that members had when the plan was made. Where these are others by the time
at which the hub decides, nothing that rests on them was sure. Where they are as they were, the hub decides by
another rule, or is of another version than the one whose rules are followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from nexusform.documents.shapes import mapping_at
from nexusform.documents.times import parse_time
from nexusform.domains.fleet.importers.fleet_members import health_of
from nexusform.domains.hub.providers.hub_standing import condition, name_of, picked_of
from nexusform.forecasts import Claim
from nexusform.words import first_of

KUBEFLEET: Final = "KubeFleet e160c1cd"  # whose rules forecasts follow
CLUSTER_CLAIM: Final = "cluster"
REFUSAL_CLAIM: Final = "refusal"
SCORE_CLAIM: Final = "score"
MISSES: Final = "misses"  # under which key the note of a placement holds what came otherwise
OF_FIGURES: Final = "figures"
OF_EVICTION: Final = "eviction"
OF_RULE: Final = "rule"
OF_VERSION: Final = "version"
NOT_KNOWN: Final = "unknown"
_SCORES: Final = ("affinity_score", "topology_spread_score")
_MOST_KEPT: Final = 12
_MOST_NAMED: Final = 3
Bindings = Mapping[str, Mapping[str, Any]]
# What of members decides where placements go, by member.
Figures = Mapping[str, Mapping[str, Any]]


class Miss(Struct, frozen=True):
    """What came otherwise, and the kind of it; `changed` are figures that were others, before and after, or
    the version of the hub.
    """

    about: str
    cluster: str
    foretold: str
    observed: str
    kind: str
    changed: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.cluster} was foretold as {self.foretold}, and is {self.observed}: {self._why}"

    @property
    def _why(self) -> str:
        match self.kind:
            case "figures":
                changed = first_of(self.changed, _MOST_NAMED, separator="; ")
                return f"figures changed since the plan: {changed}"
            case "eviction":
                return "an eviction of the same apply came before the hub decided, or after"
            case "version":
                return f"the hub is of another version ({self.changed[0]}; forecasts follow {KUBEFLEET})"
            case "rule":
                return (
                    "no figure changed, so the hub decides by another rule, or is of another version than "
                    f"{KUBEFLEET}"
                )
        return "no data block read this hub for the plan, so that nothing tells why"


class Settled(Struct, frozen=True):
    """The claims on one placement, and what of them came otherwise."""

    claims: tuple[Claim, ...] = ()
    misses: tuple[Miss, ...] = ()

    def note(self) -> dict[str, Any]:
        """The misses as the note of a placement keeps them."""
        kept = [
            {
                "about": miss.about,
                "cluster": miss.cluster,
                "foretold": miss.foretold,
                "observed": miss.observed,
                "kind": miss.kind,
                "changed": list(miss.changed[:_MOST_NAMED]),
            }
            for miss in self.misses[:_MOST_KEPT]
        ]
        return {MISSES: kept} if kept else {}


# --- figures ---------------------------------------------------------------------------------------


def figures_of(members: Iterable[Mapping[str, Any]], at: datetime | None) -> dict[str, dict[str, Any]]:
    """What of members decides where placements go. `at` is when they were shown."""
    return {name_of(member): _figures(member, at) for member in members}


def _figures(member: Mapping[str, Any], at: datetime | None) -> dict[str, Any]:
    status = member.get("status") or {}
    figures: dict[str, Any] = {
        f"label {name}": value for name, value in ((member.get("metadata") or {}).get("labels") or {}).items()
    }
    for taint in (member.get("spec") or {}).get("taints") or ():
        figures[f"taint {taint.get('key')}"] = f"{taint.get('value') or ''}:{taint.get('effect')}"
    for name, each in (status.get("properties") or {}).items():
        figures[f"property {name}"] = (each or {}).get("value")
    for kind, amounts in (status.get("resourceUsage") or {}).items():
        for name, amount in mapping_at(amounts).items():
            figures[f"{kind} {name}"] = amount
    joined = condition(member, "Joined")
    figures["joined"] = (joined or {}).get("status", "Unknown")
    figures["health"] = str(health_of(member, at))
    return figures


def figures_at_planning(answers: Mapping[str, str]) -> dict[str, Figures]:
    """The members' figures as hubs told them to the data blocks of a plan, by the URL of the hub."""
    known: dict[str, Figures] = {}
    for text in answers.values():
        try:
            dump = json.loads(text)
        except ValueError:
            continue
        if isinstance(dump, dict) and isinstance(dump.get("items"), list):
            members = [each for each in dump["items"] if each.get("kind") == "MemberCluster"]
            known[str(dump.get("server"))] = figures_of(members, parse_time(str(dump.get("read_at"))))
    return known


def _changes(before: Figures, now: Figures) -> Iterator[tuple[str, str]]:
    """Which members' figures are others, and how, in words."""
    for name in sorted({*before, *now}):
        if name not in now:
            yield name, f"{name} left"
        elif name not in before:
            yield name, f"{name} joined"
        else:
            was, shows = before[name], now[name]
            for figure in sorted({*was, *shows}):
                if was.get(figure) != shows.get(figure):
                    was_shown = was.get(figure, "none")
                    yield name, f"{name}: {figure} {was_shown} -> {shows.get(figure, 'none')}"


# --- settling --------------------------------------------------------------------------------------


class Settling(Struct, frozen=True):
    """`before` and `now` are the members' figures at the plan and as the hub decided, `before` None where no
    plan knew any. `version` is what the hub calls itself, "" where it does not say. Between two runs of one
    story spread scores can differ after a change of policy, so they may be left out. `evicted`: an eviction
    of the same apply acts on the placement, and whether before or after the hub decides nobody knows.
    """

    before: Figures | None
    now: Figures
    version: str = ""
    spread_counts: bool = True
    evicted: bool = False

    def settle(self, name: str, planned: Bindings, shown: Bindings) -> Settled:
        """Compare the bindings that were foretold with those that the hub decided for."""
        claims: list[Claim] = []
        misses: list[Miss] = []
        foretold, observed = picked_of(planned), picked_of(shown)
        members = {*self.now, *foretold, *observed}
        changed = [] if self.before is None else list(_changes(self.before, self.now))
        is_sure = self.before is not None and not changed and not self.evicted
        chance = len(foretold) / max(len(members), 1)
        for cluster in sorted(members):
            was_picked, is_picked = cluster in foretold, cluster in observed
            about = CLUSTER_CLAIM if was_picked else REFUSAL_CLAIM
            words = (_said(was_picked), _said(is_picked))
            held = was_picked == is_picked
            alarm = f"{name}: {cluster} was sure to be {words[0]}, and is {words[1]}"
            share = chance if was_picked else 1 - chance
            claims.append(Claim(about, 1.0, share, held, is_sure=is_sure, words=alarm))
            if not held:
                misses.append(self._miss(about, cluster, words, changed))
        for cluster in sorted(foretold & observed):
            kinds = _SCORES if self.spread_counts else _SCORES[:1]
            scores = [tuple(each[cluster].get(kind) for kind in kinds) for each in (planned, shown)]
            if None in scores[0]:
                continue
            held = scores[0] == scores[1]
            claims.append(Claim(SCORE_CLAIM, 1.0, 1 / max(len(members), 1), held))
            if not held:
                words = (_scores_said(scores[0]), _scores_said(scores[1]))
                misses.append(self._miss(SCORE_CLAIM, cluster, words, changed))
        return Settled(tuple(claims), tuple(misses))

    def _miss(self, about: str, cluster: str, words: tuple[str, str], changed: list[tuple[str, str]]) -> Miss:
        own = [text for name, text in changed if name == cluster]
        others = [text for name, text in changed if name != cluster]
        if self.before is None:
            return Miss(about, cluster, *words, NOT_KNOWN)
        if changed:
            return Miss(about, cluster, *words, OF_FIGURES, (*own, *others))
        if self.evicted:
            return Miss(about, cluster, *words, OF_EVICTION)
        if self.version:
            return Miss(about, cluster, *words, OF_VERSION, (self.version,))
        return Miss(about, cluster, *words, OF_RULE)


def is_decided_anew(prior: Bindings, planned: Bindings) -> bool:
    """Whether a plan foretells a decision of the hub, and no more than a rollout."""
    if picked_of(prior) != picked_of(planned):
        return True
    names = picked_of(planned) & prior.keys()
    return any(prior[name].get("policy_snapshot") != planned[name].get("policy_snapshot") for name in names)


def _said(is_picked: bool) -> str:
    return "picked" if is_picked else "not picked"


def _scores_said(scores: tuple[Any, ...]) -> str:
    names = ("affinity score", "spread score")
    return ", ".join(f"{name} {score}" for name, score in zip(names, scores, strict=False))
