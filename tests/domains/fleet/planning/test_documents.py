"""The product documents' YAML, read as printed: every slip a warning with its line, and what is picked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.domains.fleet.planning.fleet_harness import (
    bindings,
    hub,
    manifest_placement,
    member,
    nodes,
    pick_n,
    picks,
    placement,
)
from tests.planning.harness import good, is_empty, plan, state_of, warnings

DOCUMENTS = Path(__file__).parents[4] / "examples" / "fleet" / "documents"
MEMBERS = (
    member("cluster1", {"region": "east", "environment": "production"}, nodes(3))
    + member("cluster2", {"region": "east", "critical-allowed": "true", "updateDay": "monday"}, nodes(5))
    + member(
        "cluster3",
        {"region": "west", "critical-allowed": "true", "critical-level": "1", "updateDay": "friday"},
        nodes(9),
    )
)
SLIP = "Corrected manifest"
OLD = "Older property name"
SHORT = "Unfulfilled placement"
CASES = {
    "pick-fixed": (["cluster1", "cluster2"], []),
    "pick-all": (["cluster1"], []),
    "pick-n-affinity": (["cluster2", "cluster3"], [(SLIP, 7), (SLIP, 13), (SLIP, 15), (SLIP, 18), (SHORT, 0)]),
    "pick-n-spread": (["cluster1", "cluster2", "cluster3"], [(SLIP, 7), (SLIP, 8)]),
    "node-count": (["cluster2", "cluster3"], [(SLIP, 7)]),
    "rollout": (["cluster1", "cluster2", "cluster3"], [(SLIP, 7), (SLIP, 8)]),
    "preview-node-count": (["cluster2", "cluster3"], [(SLIP, 7), (SLIP, 16), (OLD, 16)]),
    "preview-labels-and-node-count": (["cluster2"], [(SLIP, 7), (SLIP, 19), (OLD, 19)]),
    "preview-sorter": (
        ["cluster1", "cluster2", "cluster3"],
        [(SLIP, 7), (SLIP, 16), (SLIP, 17), (SHORT, 0), (OLD, 17)],
    ),
    "preview-labels-and-sorter": (["cluster1", "cluster2", "cluster3"], [(SLIP, 7), (SLIP, 19), (SHORT, 0)]),
}


def test_every_document_is_tried() -> None:
    assert sorted(CASES) == sorted(path.stem for path in DOCUMENTS.glob("*.yaml"))


@pytest.mark.parametrize("name", CASES)
def test_a_document_is_read_as_printed(name: str) -> None:
    text = hub() + MEMBERS + manifest_placement((DOCUMENTS / f"{name}.yaml").read_text("utf-8"), lenient=True)
    wanted, said = CASES[name]
    result = good(plan(text))
    told = []
    for each in warnings(result):
        if each.id == "empty-resource-selection":
            continue  # the documents do not print the objects
        lines = re.findall(r"^manifest:([0-9]+): ", each.detail, re.MULTILINE) or ["0"]
        told += [(each.summary, int(line)) for line in lines]
    assert sorted(told) == sorted(said)
    state = state_of(text)
    assert picks(state) == wanted
    assert is_empty(plan(text, state))


def sorted_by(name: str, order: str) -> str:
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


def lion(name: str, cpu: str, cost: str) -> str:
    more = f"""
  resources {{
    available = {{ cpu = "{cpu}" }}
  }}
  cost {{
    per_cpu_core = "{cost}"
  }}
"""
    return member(name, more=more)


@pytest.mark.parametrize(
    ("sorter", "scores"),
    [
        (("resources.kubernetes-fleet.io/available-cpu", "Descending"), (100, 11, 0)),
        (("kubernetes.azure.com/per-cpu-core-cost", "Ascending"), (0, 89, 100)),
    ],
)
def test_the_printed_numbers(sorter: tuple[str, str], scores: tuple[int, int, int]) -> None:
    names = ("bravelion", "smartfish", "jumpingcat")
    figures = (("100", "1"), ("20", "0.2"), ("10", "0.1"))
    members = "".join(lion(n, *f) for n, f in zip(names, figures, strict=True))
    state = state_of(hub() + members + placement(pick_n(3, sorted_by(*sorter))))
    held = bindings(state)
    assert tuple(held[n]["affinity_score"] for n in names) == scores
