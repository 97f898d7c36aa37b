"""The answer to `reconcile`, for people and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, Final

from msgspec import Struct

from nexusform.domains.azure.questions.reconciliation import ClusterCheck, SettledClaims, VmCheck
from nexusform.domains.azure.questions.replay import Replay
from nexusform.forecasts import COUNT_CLAIM, MACHINE_CLAIM, RACK_CLAIM, Record, score_of
from nexusform.json_forms import Form
from nexusform.placement_kinds.kinds import place_document
from nexusform.plans.plan import SeparationVerdict
from nexusform.rendering.answers.outline import Outline, Row, Section, Table
from nexusform.rendering.report.wording import claims_text
from nexusform.scheduling.racks.vms import Placement
from nexusform.words import counted, first_of, form

_MOST_SHOWN: Final = 20
_UNEXPLAINED: Final = "nothing in the export says why"


def reconciliation_outline(
    origin: str,
    checks: Sequence[ClusterCheck],
    absent: Sequence[str],
    unseen: Sequence[str],
    not_done: Sequence[str],
    remarks: Sequence[str],
    rules: Sequence[SeparationVerdict],
    replays: Sequence[Replay],
    claims: SettledClaims,
) -> Outline:
    """How much is where state had it, who is not, what was not looked at, and what the rule explains."""
    misses = sum(len(check.misses) for check in checks)
    broken = [rule for rule in rules if rule.holds != "always"]
    sections = [_clusters(checks)] if checks else []
    if misses:
        sections.append(_misses(checks))
    if absent:
        lines = tuple(f"- {name}" for name in absent)
        sections.append(Section("Not in the export, and left as state has it", lines, bad=True))
    if unseen:
        lines = tuple(f"- {name}" for name in unseen)
        sections.append(Section("Not captured, and left as state has it", lines, bad=True))
    if not_done:
        lines = tuple(f"- {each}" for each in not_done)
        sections.append(Section("What applies began, and is not done", lines, bad=True))
    if remarks:
        sections.append(Section("What was read", tuple(f"- {remark}" for remark in remarks)))
    if rules:
        sections.append(_rules(rules))
    sections += [_replay(replay) for replay in replays]
    sections += [_claims(site, record) for site, record in claims.records.items()]
    if claims.now:
        sections.append(_settled_now(claims))
    bad = bool(misses or broken or absent or unseen or not_done or claims.alarms)
    verdict = _verdict(checks, misses, len(broken), len(unseen), len(not_done))
    return Outline(f"Reconciliation with {origin}", verdict, bad, (), tuple(sections))


def _verdict(checks: Sequence[ClusterCheck], misses: int, broken: int, unseen: int, not_done: int) -> str:
    """One sentence on all the VMs and rules."""
    stand = "Every VM stands where state has it"
    if misses:
        vms = counted(sum(len(check.vms) for check in checks), "VM")
        stand = f"{misses:,} of {vms} {form(misses, 'stands', 'stand')} elsewhere than state had"
    rules = f"; {counted(broken, 'separation rule')} {form(broken, 'does', 'do')} not hold" if broken else ""
    not_looked_at = (
        f"; {counted(unseen, 'object')} {form(unseen, 'was', 'were')} not looked at" if unseen else ""
    )
    begun = (
        f"; {counted(not_done, 'change')} of ours {form(not_done, 'is', 'are')} not done" if not_done else ""
    )
    return f"{stand}{rules}{not_looked_at}{begun}."


def _clusters(checks: Sequence[ClusterCheck]) -> Section:
    """How many VMs of each cluster stand where state has them."""
    rows = []
    for check in checks:
        count = len(check.vms)
        on_machine = count - len(check.misses)
        cells = (
            check.name,
            f"{count:,}",
            f"{check.rack_hits:,}",
            f"{on_machine:,}",
            f"{count - on_machine:,}",
        )
        rows.append(Row(cells, bad=on_machine < count))
    table = Table(
        ("Cluster", "VMs", "Rack as told", "Machine as told", "Misses"), tuple(rows), frozenset({1, 2, 3, 4})
    )
    return Section("Clusters", table=table)


def _misses(checks: Sequence[ClusterCheck]) -> Section:
    """The VMs that stand elsewhere, and how often each cause is the one."""
    rows: list[Row] = []
    causes: Counter[str] = Counter()
    for vm in chain.from_iterable(check.misses for check in checks):
        cause = vm.cause or _UNEXPLAINED
        rows.append(Row((vm.name, vm.recorded.machine, _machine(vm.observed), cause), bad=True))
        causes[cause.partition(": ")[2] or cause] += 1
    lines = tuple(f"{number:,}: {cause}" for cause, number in causes.most_common())
    table = Table(("VM", "Recorded", "Is", "Cause"), tuple(rows))
    return Section("Elsewhere", lines, table=table, bad=True)


def _machine(place: Placement | None) -> str:
    return place.machine if place is not None else "nowhere"


def _rules(rules: Sequence[SeparationVerdict]) -> Section:
    """Which separation rules hold where the VMs really stand."""
    rows = [
        Row(
            (str(rule.address), rule.scope, "holds" if rule.holds == "always" else "broken"),
            rule.holds != "always",
        )
        for rule in rules
    ]
    table = Table(("Separation rule", "Scope", "On what is"), tuple(rows))
    return Section("Separation rules", table=table, bad=any(row.bad for row in rows))


def _replay(replay: Replay) -> Section:
    """`871 of 900 judged VMs (96.8 %) stand where the rule could have put them`."""
    lines = [replay_line(replay.hits, replay.judged, sum(replay.unjudged.values()))]
    if replay.judged:
        expected = f"{replay.chance / replay.judged:.1%}".replace("%", " %")
        lines.append(f"by chance alone, machines drawn at random from those with room: {expected}")
    if replay.sure < replay.hits:
        lines.append(
            f"{replay.sure:,} of them however the VMs lie in the NUMA cells, which nobody told; the others "
            "for some legal split of the cells"
        )
    lines += [f"not judged: {counted(count, 'VM')}: {why}" for why, count in sorted(replay.unjudged.items())]
    rows = [
        Row(
            (miss.vm.name, miss.vm.placement.machine, first_of(miss.best, 3) or "no machine had room"),
            bad=True,
        )
        for miss in replay.misses
    ]
    if len(rows) > _MOST_SHOWN:
        lines.append(f"the first {_MOST_SHOWN} of {len(rows):,} that do not (-format=json has all):")
    table = Table(("VM", "Is", "The rule's best"), tuple(rows[:_MOST_SHOWN])) if rows else None
    title = f'Replay of {replay.site}, rack_spread = "{replay.spread.value}"'
    return Section(title, tuple(lines), table=table)


def _claims(site: str, record: Record) -> Section:
    """What became of what applied plans claimed on a site, by what it was about and by share."""
    score = score_of(record)
    rows = [
        Row((_SUBJECTS.get(about, about), _share_text(number), f"{of_class.settled:,}", f"{of_class.held:,}"))
        for (about, number), of_class in sorted(record.items())
    ]
    table = Table(("Claim", "Share", "Settled", "Held"), tuple(rows), frozenset({2, 3}))
    lines = (claims_text(score),) if score is not None else ()
    return Section(f"Claims of applied plans on {site}", lines, table=table)


def _settled_now(claims: SettledClaims) -> Section:
    """What nobody had looked at since it was applied."""
    lines = [f"{counted(claims.now, 'claim')} of applied plans settled by what was read now."]
    if claims.alarms:
        lines.append(
            "What was called sure and is not so: the platform does not follow the rule, or something else "
            "has changed in between."
        )
        lines += [f"- {alarm}" for alarm in claims.alarms[:_MOST_SHOWN]]
    return Section("Settled now", tuple(lines), bad=bool(claims.alarms))


_SUBJECTS: Final[Mapping[str, str]] = {
    RACK_CLAIM: "rack of a VM",
    MACHINE_CLAIM: "machine of a VM",
    COUNT_CLAIM: "VMs on a rack",
}


def _share_text(number: int) -> str:
    """A share class: `sure`, or `70 % to below 80 %`."""
    return "sure" if number >= _ALL else f"{number} % to below {number + 10} %"


_ALL: Final = 100  # per cent


def replay_line(hits: int, judged: int, not_judged: int) -> str:
    """What a replay came to, never without how many were judged."""
    if not judged:
        return f"nothing could be judged ({counted(not_judged, 'VM')} not judged)"
    share = f"{hits / judged:.1%}".replace("%", " %")
    unjudged = f", {not_judged:,} not judged" if not_judged else ""
    return f"{hits:,} of {counted(judged, 'judged VM')} ({share}) stand where the rule puts them{unjudged}"


_MISS: Final = Form(
    VmCheck, "vm=name recorded observed cause?", recorded=place_document, observed=place_document
)
_CLUSTER: Final = Form(
    ClusterCheck,
    "address id=name vms=. rack_hits machine_hits=. misses",
    vms=lambda check: len(check.vms),
    machine_hits=lambda check: len(check.vms) - len(check.misses),
    misses=_MISS,
)
_RULE: Final = Form(SeparationVerdict, "address enforcement holds")
_REPLAY: Final = Form(
    Replay,
    "site rack_spread=spread hits sure_hits=sure hits_by_chance=chance judged not_judged=. misses",
    hits_by_chance=lambda chance: round(chance, 3),
    not_judged=lambda replay: dict(sorted(replay.unjudged.items())),
    misses="vm=vm.name machine=vm.placement.machine best",
)
_CLAIM: Final = Form(Struct, "held broken sum_of_squares=squares sum_of_squares_by_chance=chance_squares")


def _claim_documents(site: str, record: Record) -> Iterator[dict[str, Any]]:
    """The record of a site, a row for each share class (100: sure)."""
    for (about, number), score in sorted(record.items()):
        yield {"site": site, "claim": about, "share_class": number, **_CLAIM(score)}


def reconciliation_document(
    checks: Iterable[ClusterCheck],
    absent: Sequence[str],
    unseen: Sequence[str],
    not_done: Sequence[str],
    remarks: Sequence[str],
    rules: Iterable[SeparationVerdict],
    replays: Iterable[Replay],
    claims: SettledClaims,
) -> dict[str, Any]:
    """What stands beside what state has, as JSON data."""
    return {
        "clusters": [_CLUSTER(check) for check in checks],
        "absent": list(absent),
        "not_captured": list(unseen),
        "not_done": list(not_done),
        "remarks": list(remarks),
        "separation_rules": [_RULE(rule) for rule in rules],
        "replays": [_REPLAY(replay) for replay in replays],
        "claims": list(chain.from_iterable(starmap(_claim_documents, claims.records.items()))),
        "claims_settled_now": claims.now,
        "sure_claims_broken": list(claims.alarms),
    }
