"""Tests of kinds of objects that were never compared with a real program: no pod is certain."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.domains.pods.scheduling import decision_kinds
from nexusform.domains.pods.scheduling.cluster_records import Claim, Cluster, PodSpec
from nexusform.domains.pods.scheduling.decision_kinds import (
    FIELDS_OF_EVERY_POD,
    KINDS,
    ComparisonCount,
    ComparisonCounts,
    Decision,
    find_uncompared_kind,
    list_uncompared_kinds,
    load_comparisons,
)
from nexusform.domains.pods.scheduling.pod_outcomes import PLACE, PodOutcome
from tests.domains.pods.planning.test_cluster_observation import (
    OF_A,
    add_standard_objects,
    plan_observed,
)
from tests.domains.pods.planning.test_dump_doubts import BIG, list_certainties
from tests.domains.pods.planning.test_pods import build_deployment, build_manifest, build_workers
from tests.nightly import comparison_record
from tests.planning.harness import RACKS, require_success

pytestmark = pytest.mark.of_domains("fleet")
PAGE = Path(__file__).parents[4] / "docs" / "fidelity-pods.md"
SELECTORS = "node selectors"
SELECTING = PodSpec(node_selector=(("disk", "ssd"),))
IMAGE_VOLUME = PodSpec(image_volumes=("data:1",))
EPHEMERAL = PodSpec(claims=(Claim("default/a", is_ephemeral=True, waits_for_pod=True),))


def build_counts(*missing: tuple[str, tuple[int, int]]) -> ComparisonCounts:
    """Return counts with comparisons of all kinds and versions, except for some."""
    return {
        kind.name: {
            version: ComparisonCount((kind.name, version) not in missing)
            for version in comparison_record.VERSIONS
        }
        for kind in KINDS
    }


def find_reason(spec: PodSpec, version: tuple[int, ...], counts: ComparisonCounts) -> str:
    outcome = PodOutcome("default/Pod/a", 0, "a", PLACE, "n0", spec, trigger="new")
    decision = Decision(outcome, Cluster("c", (), version=version), None)
    return find_uncompared_kind(decision, list_uncompared_kinds(version, counts))


def test_pod_of_a_kind_without_comparisons_is_not_certain(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"nodeSelector": {"kubernetes.io/hostname": "a-np-1"}}
    workload = build_deployment("web", 1, cpu="15", spec=spec)
    text = RACKS + build_workers(2) + OF_A + build_manifest("m", workload)

    def plan_certainties() -> dict[str, Any]:
        return list_certainties(require_success(plan_observed(text, *add_standard_objects(*BIG))))

    complete = build_counts()
    monkeypatch.setattr(decision_kinds, "load_comparisons", lambda: complete)
    assert plan_certainties() == {"web-0": (True, None)}
    counts = build_counts((SELECTORS, (1, 35)))
    monkeypatch.setattr(decision_kinds, "load_comparisons", lambda: counts)
    reason = "node selectors, never compared on Kubernetes 1.35"
    assert plan_certainties() == {"web-0": (False, reason)}


@pytest.mark.parametrize(
    ("spec", "version", "missing", "reason"),
    [
        # Only the version of the cluster counts; an unknown one may be any.
        (SELECTING, (1, 36), (SELECTORS, (1, 35)), ""),
        (SELECTING, (1, 35), (SELECTORS, (1, 35)), "node selectors, never compared on"),
        (SELECTING, (), (SELECTORS, (1, 37)), "node selectors, never compared on Kubernetes 1.37"),
        # An older version counts as the first one of the file.
        (SELECTING, (1, 31), (SELECTORS, (1, 34)), "node selectors, never compared on"),
        (SELECTING, (1, 31), (SELECTORS, (1, 35)), ""),
        # Pods without the kind, and versions without it.
        (PodSpec(), (1, 35), (SELECTORS, (1, 35)), ""),
        (IMAGE_VOLUME, (1, 35), ("image volumes", (1, 35)), ""),
        (IMAGE_VOLUME, (), ("image volumes", (1, 35)), ""),
        (IMAGE_VOLUME, (1, 36), ("image volumes", (1, 36)), "image volumes, never compared on"),
        (EPHEMERAL, (1, 36), ("ephemeral claims", (1, 36)), "ephemeral claims, never compared on"),
    ],
)
def test_comparisons_of_the_version_count(
    spec: PodSpec, version: tuple[int, ...], missing: tuple[str, tuple[int, int]], reason: str
) -> None:
    answer = find_reason(spec, version, build_counts(missing))
    assert answer.startswith(reason)
    assert bool(answer) == bool(reason)


def test_nothing_is_certain_without_comparisons() -> None:
    reason = "bare pods, never compared on Kubernetes 1.36"
    assert find_reason(PodSpec(), (1, 36), {}) == reason
    assert find_reason(PodSpec(), (), {}).startswith("bare pods, never compared")


def test_every_field_of_a_pod_has_a_kind() -> None:
    """Give a new field a kind of its own, then compare it with tests.nightly.volume_worlds."""
    fields = {field for kind in KINDS for field in kind.fields}
    assert sorted({*PodSpec.__struct_fields__} - fields - FIELDS_OF_EVERY_POD) == []
    assert sorted((fields | FIELDS_OF_EVERY_POD) - {*PodSpec.__struct_fields__}) == []


def test_recorded_kinds_are_those_of_the_table() -> None:
    names = {name for name in load_comparisons() if not name.startswith("worlds of ")}
    assert sorted(names - {kind.name for kind in KINDS}) == []


def test_worlds_add_their_decisions(tmp_path: Path) -> None:
    path = tmp_path / "counts.txt"
    path.write_text("versions 1.34 1.35 1.36 1.37\n")
    assert comparison_record.find_next_seed("a", "1.36.0", path) == 0
    comparison_record.add_world("a", "1.36.0", [((SELECTORS,), True), ((SELECTORS,), False)], path)
    comparison_record.add_world("a", "v1.36.2", [((SELECTORS, "host ports"), True)], path)
    assert comparison_record.find_next_seed("a", "1.36.0", path) == 2
    assert comparison_record.find_next_seed("a", "1.37.0", path) == 0
    assert path.read_text().splitlines()[-4:] == [
        "versions 1.34 1.35 1.36 1.37",
        "worlds of a: 0/0 0/0 2/0 0/0",
        "node selectors: 0/0 0/0 3/2 0/0",
        "host ports: 0/0 0/0 1/1 0/0",
    ]


@pytest.mark.parametrize(
    ("start", "build"),
    [
        ("| decided by |", comparison_record.build_table),
        ("| rarely certain |", comparison_record.build_reasons),
    ],
)
def test_page_has_the_recorded_comparisons(
    start: str, build: Callable[[ComparisonCounts], str]
) -> None:
    text = PAGE.read_text()
    head, _, rest = text.partition(start)
    _, _, tail = rest.partition("\n\n")
    expected = f"{head}{build(load_comparisons())}\n\n{tail}"
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected


def test_kinds_that_are_rarely_certain_have_a_reason() -> None:
    rare = comparison_record.list_rare_kinds(load_comparisons())
    assert rare.keys() == comparison_record.RARELY_CERTAIN.keys()
