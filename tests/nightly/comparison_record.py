"""Record of compared decisions: the data file assets/compared_decisions.txt.

Random worlds and stories add what they compared. Each source counts its worlds from seed 0 on per
minor version, so a run without a seed continues at the next one.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from nexusform.domains.fleet.planning.fleet_phases import PlannedFleet
from nexusform.domains.pods.planning.object_pods import ObjectPods
from nexusform.domains.pods.scheduling import decision_kinds
from nexusform.domains.pods.scheduling.decision_kinds import (
    KINDS,
    ComparisonCount,
    ComparisonCounts,
    Decision,
    list_decision_kinds,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PodOutcome
from nexusform.domains.pods.scheduling.scheduler_versions import parse_version

# Names of kinds that decide on a pod, and whether the pod is certain.
DecisionRecord = tuple[tuple[str, ...], bool]
VERSIONS = ((1, 34), (1, 35), (1, 36), (1, 37))
# Why few decisions of a kind are certain: the kinds with less than a tenth on a version.
RARELY_CERTAIN = {
    "host ports": "Two workloads of a world may have the same port: the order of arrival decides.",
    "missing or unusable claims": "The claim or its volume may come at any time.",
    "devices": "Before 1.36 the order of ResourceSlices is random; later versions: one world.",
    "Pod Security levels": "Exemptions of an API server are not in its objects.",
    "ServiceAccounts": "A missing one may come at any time, and then its pods are created.",
    "autoscaled workloads": "The autoscaler changes the number of pods.",
}
_RARE_SHARE = 0.1
_HEADER = """\
# Predicted decisions on pods that were compared with kube-scheduler and the controllers, and how
# many were certain, by kind and minor version. A world with a wrong certain pod has none.
# Written by the random worlds of tests/nightly.
"""


def find_file() -> Path:
    """Return the path of the data file in this checkout."""
    folder = resources.files("nexusform.domains.pods.scheduling").joinpath("assets")
    return Path(str(folder.joinpath(decision_kinds.FILE)))


def ignore_missing_comparisons() -> None:
    """Let kinds without comparisons be certain: a recorder compares them first."""
    counts = {kind.name: dict.fromkeys(VERSIONS, ComparisonCount(1, 1)) for kind in KINDS}
    decision_kinds.load_comparisons = lambda: counts  # type: ignore[assignment]


def list_names(
    object_pods: ObjectPods, outcome: PodOutcome, *, has_controllers: bool = True
) -> tuple[str, ...]:
    """Return the kinds that decide on a pod; without controllers those of kube-scheduler alone."""
    assert object_pods.inputs is not None
    workloads = {workload.key: workload for workload in object_pods.workloads}
    workload = workloads.get(outcome.workload)
    decision = Decision(outcome, object_pods.inputs.cluster, workload)
    kinds = list_decision_kinds(decision)
    return tuple(kind.name for kind in kinds if has_controllers or not kind.has_controller)


def list_records(fleet: PlannedFleet) -> Iterator[DecisionRecord]:
    """Yield the decisions of a plan that real controllers have repeated."""
    for object_pods in fleet.pods._object_pods.values():
        for outcome in (*object_pods.list_all_outcomes(), *object_pods.removed_outcomes):
            if outcome.trigger and object_pods.inputs is not None:
                yield list_names(object_pods, outcome), outcome.is_certain


def find_next_seed(source: str, version: str, path: Path | None = None) -> int:
    """Return the first seed of a source without a recorded world."""
    counts = _read(path or find_file())
    return counts.get(_get_row(source), {}).get(parse_version(version), ComparisonCount()).compared


def add_world(
    source: str, version: str, records: list[DecisionRecord], path: Path | None = None
) -> None:
    """Add a compared world; other processes may add theirs."""
    path = path or find_file()
    minor = parse_version(version)
    with path.open("r+", encoding="utf-8") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        counts = {
            name: dict(row) for name, row in decision_kinds.read_counts(stream.read()).items()
        }
        _get_count(counts, _get_row(source), minor).compared += 1
        for names, is_certain in records:
            for name in names:
                count = _get_count(counts, name, minor)
                count.compared += 1
                count.certain += is_certain
        stream.seek(0)
        stream.truncate()
        stream.write(format_counts(counts))


def _get_row(source: str) -> str:
    return f"worlds of {source}"


def _read(path: Path) -> ComparisonCounts:
    return decision_kinds.read_counts(path.read_text(encoding="utf-8"))


def _get_count(
    counts: dict[str, dict[tuple[int, ...], ComparisonCount]], name: str, minor: tuple[int, ...]
) -> ComparisonCount:
    return counts.setdefault(name, {}).setdefault(minor, ComparisonCount())


def format_counts(counts: ComparisonCounts) -> str:
    """Return the text of the data file: worlds first, then kinds in the order of the table."""
    order = {kind.name: position for position, kind in enumerate(KINDS)}
    names = sorted(counts, key=lambda name: (order.get(name, -1), name))
    versions = [".".join(map(str, version)) for version in VERSIONS]
    lines = [" ".join(("versions", *versions))]
    for name in names:
        row = [counts[name].get(version, ComparisonCount()) for version in VERSIONS]
        lines.append(" ".join((f"{name}:", *(f"{item.compared}/{item.certain}" for item in row))))
    return _HEADER + "\n".join(lines) + "\n"


def build_table(counts: ComparisonCounts) -> str:
    """Return the Markdown table of the documentation: a row per kind, "not compared" for none."""
    versions = [".".join(map(str, version)) for version in VERSIONS]
    lines = [" | ".join(("| decided by", *versions)) + " |", "|---" * (len(VERSIONS) + 1) + "|"]
    for kind in KINDS:
        row = [
            _format_count(counts.get(kind.name, {}).get(version), is_there=version >= kind.since)
            for version in VERSIONS
        ]
        lines.append(" | ".join((f"| {kind.name}", *row)) + " |")
    return "\n".join(lines)


def list_rare_kinds(counts: ComparisonCounts) -> dict[str, str]:
    """Return the kinds with few certain decisions on a version, with the shares by version."""
    rare = {}
    for kind in KINDS:
        shares = [
            item.certain / item.compared
            for item in counts.get(kind.name, {}).values()
            if item.compared
        ]
        if shares and min(shares) < _RARE_SHARE:
            rare[kind.name] = f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %"
    return rare


def build_reasons(counts: ComparisonCounts) -> str:
    """Return the Markdown table of the kinds with few certain decisions."""
    lines = ["| rarely certain | certain, by version | why |", "|---|---|---|"]
    for name, share in list_rare_kinds(counts).items():
        lines.append(f"| {name} | {share} | {RARELY_CERTAIN.get(name, '')} |")
    return "\n".join(lines)


def _format_count(count: ComparisonCount | None, *, is_there: bool) -> str:
    if not is_there:
        return "not there"
    if count is None or not count.compared:
        return "not compared"
    return f"{count.compared:,}, {count.certain:,}"
