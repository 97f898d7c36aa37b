"""Hypothetical plans are the plans of configurations written with their edits.

    python -m tests.nightly.hypotheses [CASES]

CASES (300) is the number of random fleets, and of random sites for each kind of edit. The exit
code is 1 if a plan differs.
"""

from __future__ import annotations

import sys

from tests.domains.whatif.questions.random_fleets import find_fleet_difference
from tests.planning.hypothesis.edit_kinds import EDIT_KINDS, find_difference


def run(cases: int) -> int:
    """Compare random fleets and sites; return the number of differences."""
    differences = 0
    for seed in range(cases):
        found = {"fleet": find_fleet_difference(seed)}
        found |= {name: find_difference(name, seed) or "" for name in EDIT_KINDS}
        for name, difference in found.items():
            if difference:
                differences += 1
                print(f"{name}, seed {seed}: {difference}", flush=True)
    print(f"{cases} fleets, {cases} sites for each edit compared, {differences} differences")
    return differences


if __name__ == "__main__":
    sys.exit(1 if run(int(sys.argv[1]) if len(sys.argv) > 1 else 300) else 0)
