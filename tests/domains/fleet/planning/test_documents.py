"""Tests of the product documents' YAML as printed.

Each slip is a warning with its line, and the picks match.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.domains.fleet.planning.fleet_harness import (
    build_hub,
    build_manifest_placement,
    build_member,
    build_node_count,
    build_pick_n,
    build_placement,
    get_bindings,
    list_picks,
)
from tests.planning.harness import build_state, is_empty, list_warnings, plan, require_success

DOCUMENTS = Path(__file__).parents[4] / "examples" / "fleet" / "documents"
MEMBERS = (
    build_member("cluster1", {"region": "east", "environment": "production"}, build_node_count(3))
    + build_member(
        "cluster2",
        {"region": "east", "critical-allowed": "true", "updateDay": "monday"},
        build_node_count(5),
    )
    + build_member(
        "cluster3",
        {
            "region": "west",
            "critical-allowed": "true",
            "critical-level": "1",
            "updateDay": "friday",
        },
        build_node_count(9),
    )
)
SLIP = "Corrected manifest"
OLD = "Older property name"
SHORT = "Unfulfilled placement"
CASES = {
    "pick-fixed": (["cluster1", "cluster2"], []),
    "pick-all": (["cluster1"], []),
    "pick-n-affinity": (
        ["cluster2", "cluster3"],
        [(SLIP, 7), (SLIP, 13), (SLIP, 15), (SLIP, 18), (SHORT, 0)],
    ),
    "pick-n-spread": (["cluster1", "cluster2", "cluster3"], [(SLIP, 7), (SLIP, 8)]),
    "node-count": (["cluster2", "cluster3"], [(SLIP, 7)]),
    "rollout": (["cluster1", "cluster2", "cluster3"], [(SLIP, 7), (SLIP, 8)]),
    "preview-node-count": (["cluster2", "cluster3"], [(SLIP, 7), (SLIP, 16), (OLD, 16)]),
    "preview-labels-and-node-count": (["cluster2"], [(SLIP, 7), (SLIP, 19), (OLD, 19)]),
    "preview-sorter": (
        ["cluster1", "cluster2", "cluster3"],
        [(SLIP, 7), (SLIP, 16), (SLIP, 17), (SHORT, 0), (OLD, 17)],
    ),
    "preview-labels-and-sorter": (
        ["cluster1", "cluster2", "cluster3"],
        [(SLIP, 7), (SLIP, 19), (SHORT, 0)],
    ),
}


def test_every_document_is_tested() -> None:
    assert sorted(CASES) == sorted(path.stem for path in DOCUMENTS.glob("*.yaml"))


@pytest.mark.parametrize("name", CASES)
def test_document_is_read_as_printed(name: str) -> None:
    text = (
        build_hub()
        + MEMBERS
        + build_manifest_placement((DOCUMENTS / f"{name}.yaml").read_text("utf-8"), lenient=True)
    )
    wanted, said = CASES[name]
    result = require_success(plan(text))
    told = []
    for each in list_warnings(result):
        if each.id == "empty-resource-selection":
            # The documents do not print the objects.
            continue
        lines = re.findall(r"^manifest:([0-9]+): ", each.detail, re.MULTILINE) or ["0"]
        told += [(each.summary, int(line)) for line in lines]
    assert sorted(told) == sorted(said)
    state = build_state(text)
    assert list_picks(state) == wanted
    assert is_empty(plan(text, state))


def build_sorter(name: str, order: str) -> str:
    return f"""affinity {{
      cluster_affinity {{
        preferred_during_scheduling_ignored_during_execution {{
          weight = 100
          preference {{
            property_sorter {{
              name       = "{name}"
              sort_order = "{order}"
            }}
          }}
        }}
      }}
    }}"""


def build_member_with_figures(name: str, cpu: str, cost: str) -> str:
    more = f"""
  resources {{
    available = {{ cpu = "{cpu}" }}
  }}
  cost {{
    per_cpu_core = "{cost}"
  }}
"""
    return build_member(name, more=more)


@pytest.mark.parametrize(
    ("sorter", "scores"),
    [
        (("resources.kubernetes-fleet.io/available-cpu", "Descending"), (100, 11, 0)),
        (("kubernetes.azure.com/per-cpu-core-cost", "Ascending"), (0, 89, 100)),
    ],
)
def test_printed_scores(sorter: tuple[str, str], scores: tuple[int, int, int]) -> None:
    names = ("bravelion", "smartfish", "jumpingcat")
    figures = (("100", "1"), ("20", "0.2"), ("10", "0.1"))
    members = "".join(build_member_with_figures(n, *f) for n, f in zip(names, figures, strict=True))
    state = build_state(
        build_hub() + members + build_placement(build_pick_n(3, build_sorter(*sorter)))
    )
    held = get_bindings(state)
    assert tuple(held[n]["affinity_score"] for n in names) == scores
