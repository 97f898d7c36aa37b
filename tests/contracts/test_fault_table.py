"""Tests of faults beside each backend; the table in docs/locked-state.md has what happened.

Each fault hits an apply in its middle, or a plan. Afterwards the reviewed plan is complete, or the
state is as before. NEXUSFORM_REWRITE_GOLDEN=1 writes the outcomes of this run into the table.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark.structures import ParameterSet

from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from tests.contracts.crash_runner import DIED, READ_ONLY
from tests.contracts.test_backend_contract import KINDS, build_lock_info
from tests.contracts.test_crashes import CrashScenario
from tests.kill_points import long_case, select_cases

PAGE: Final = Path(__file__).parents[2] / "docs" / "locked-state.md"
BACKENDS: Final = [name for name, kind in KINDS.items() if not kind.forgets and name != "gitlab"]
APPLY: Final = ("apply", "-parallelism=1", "p")
HEADING: Final = "| fault | backends | outcome |\n| --- | --- | --- |\n"


def run(scenario: CrashScenario, where: Path, *words: str, kind: str = "", call: int = 0) -> str:
    """Run a command and return what it did: "completes", "killed" or the summary of its error."""
    places = scenario.select_places(words) if kind else ()
    code, told = scenario.runner.run(where, *words, "-json", kind=kind, call=call, places=places)
    assert "Internal error" not in told
    if code == DIED:
        return "killed"
    if code == 0:
        return "completes"
    lines = (where.parent / "said").read_text().splitlines()
    events = [json.loads(line) for line in lines if line.startswith("{")]
    diagnostics = [event["diagnostic"] for event in events if "diagnostic" in event]
    errors = [each["summary"] for each in diagnostics if each["severity"] == "error"]
    assert errors, told
    return f"error: {errors[0]}"


def wait_for_lease(scenario: CrashScenario) -> None:
    """Wait until the lock of a dead holder is free, if it expires."""
    if scenario.kind.frees_within:
        time.sleep(scenario.kind.frees_within + 1)


def interrupt_apply(*kinds: str) -> Callable[[CrashScenario, Path], str]:
    """Return faults at a durable call in the middle of an apply each; -resume completes it."""

    def interrupt(scenario: CrashScenario, where: Path) -> str:
        call = find_middle(scenario)
        places = [where, *(scenario.fresh(f"{where.parent.name}-{kind}") for kind in kinds[1:])]
        results = set()
        for place, kind in zip(places, kinds, strict=True):
            results.add(run(scenario, place, *APPLY, kind=kind, call=call))
            if results == {"killed"}:
                scenario.check_journal(place)
        for place in places:
            # It waits for the lock of a dead holder, and fails if an object is lost or misplaced.
            scenario.finish(place)
        [result] = results
        return result if result == "completes" else f"{result}; `-resume` completes it"

    return interrupt


def find_middle(scenario: CrashScenario) -> int:
    """Return the number of a durable call of the apply amid its steps."""
    counted = scenario.fresh(f"counted-{uuid.uuid4().hex}")
    calls = scenario.runner.calls(counted, scenario.select_places(APPLY), *APPLY)
    return calls[len(calls) // 2]


def reject_apply(scenario: CrashScenario, where: Path, kind: str = "") -> str:
    """Return the result of an apply that is rejected: it creates nothing."""
    result = run(scenario, where, *APPLY, kind=kind)
    assert result.startswith("error: ")
    reality = where.parent / "site.json"
    assert not reality.exists() or json.loads(reality.read_text()) == []
    return result


def find_stale_lock(scenario: CrashScenario, where: Path) -> str:
    """Apply at once after an apply was killed, then after its lease."""
    killed = run(scenario, where, *APPLY, kind="after", call=find_middle(scenario))
    assert killed == "killed"
    at_once = run(scenario, where, "plan")
    wait_for_lease(scenario)
    later = run(scenario, where, "plan")
    scenario.finish(where)
    return at_once if at_once == later else f"{at_once}; after the lease: {later}"


def hold_lock_of_another_run(scenario: CrashScenario, where: Path) -> str:
    backend = scenario.backend(where)
    holder = build_lock_info(str(uuid.uuid4()))
    backend.lock(holder)
    result = reject_apply(scenario, where)
    backend.unlock(holder.id)
    scenario.finish(where)
    return result


def write_twice(scenario: CrashScenario, where: Path) -> str:
    """Write a state that another run wrote meanwhile; that of the other run stays."""
    scenario.good(where, *APPLY)
    slow = scenario.backend(where)
    document = slow.read() or b""
    newer = write_newer_state(scenario.backend(where))
    slow.lock(build_lock_info("slow"))
    return check_late_writes(scenario, where, slow, document, newer)


def lose_lock(scenario: CrashScenario, where: Path) -> str:
    """Lose the lock to a run that writes, as after the end of a lease, and go on writing."""
    scenario.good(where, *APPLY)
    slow, other = scenario.backend(where), scenario.backend(where)
    document = slow.read() or b""
    slow.lock(build_lock_info("slow"))
    other.force_unlock("slow")
    other.lock(build_lock_info("other"))
    newer = write_newer_state(other)
    outcome = check_late_writes(scenario, where, slow, document, newer)
    other.unlock("other")
    return outcome


def write_newer_state(backend: StateBackend) -> bytes:
    """Write a document with the next serial, and return it."""
    newer = json.loads(backend.read() or b"")
    newer["serial"] += 1
    document = json.dumps(newer).encode()
    backend.write(document)
    return document


def check_late_writes(
    scenario: CrashScenario, where: Path, slow: StateBackend, document: bytes, newer: bytes
) -> str:
    """Check that a run that read the document before cannot replace the newer one."""
    for write in (slow.write, slow.write_merged_state):
        with pytest.raises(BackendProblem):
            write(document)
    with suppress(BackendProblem):
        slow.unlock("slow")
    assert json.loads(scenario.backend(where).read() or b"") == json.loads(newer)
    return "the late write is rejected"


def restore_older_state(scenario: CrashScenario, where: Path) -> str:
    """Restore an older document behind the back of nexusform, then plan."""
    scenario.good(where, *APPLY)
    backend = scenario.backend(where)
    first = backend.read() or b""
    scenario.good(where, "state", "rm", "nexus_kubernetes_cluster.c[1]")
    elsewhere = scenario.fresh("restored", planned=False)
    (elsewhere.parent / "settings").write_text((where.parent / "settings").read_text())
    backend = scenario.backend(elsewhere)
    backend.read()
    backend.write(first)
    return run(scenario, where, "plan", "-out=again")


def rotate_key(scenario: CrashScenario, where: Path) -> str:
    """Apply with one key, then with a new one and the old one as fallback."""
    write_encryption(where, "old")
    scenario.good(where, "apply", "-auto-approve")
    write_encryption(where, "new", fallback="old")
    result = run(scenario, where, "apply", "-auto-approve")
    write_encryption(where, "new")
    assert run(scenario, where, "plan", "-detailed-exitcode") == "completes"
    return result


def lose_key(scenario: CrashScenario, where: Path) -> str:
    """Plan with a key that does not decrypt the state; the old one still does."""
    write_encryption(where, "old")
    scenario.good(where, "apply", "-auto-approve")
    document = scenario.backend(where).read()
    write_encryption(where, "new")
    result = run(scenario, where, "plan")
    assert scenario.backend(where).read() == document
    write_encryption(where, "old")
    assert run(scenario, where, "plan", "-detailed-exitcode") == "completes"
    return result


def write_encryption(where: Path, key: str, fallback: str = "") -> None:
    """Add encryption by a key, and a fallback key, to the configuration."""
    methods = "".join(
        f'    key_provider "environment" "{name}" {{\n      variable = "{KEYS[name]}"\n    }}\n'
        f'    method "aes_gcm" "{name}" {{\n      keys = key_provider.environment.{name}\n    }}\n'
        for name in filter(None, (key, fallback))
    )
    older = f"      fallback {{\n        method = method.aes_gcm.{fallback}\n      }}\n"
    state = (
        f"    state {{\n      method = method.aes_gcm.{key}\n{older if fallback else ''}    }}\n"
    )
    text = f"nexusform {{\n  encryption {{\n{methods}{state}  }}\n}}\n"
    (where / "encryption.nf.hcl").write_text(text)


KEYS: Final = {"old": "NF_TEST_OLD_KEY", "new": "NF_TEST_NEW_KEY"}
FAULTS: Final[Mapping[str, Callable[[CrashScenario, Path], str]]] = {
    "killed before, or after, a write": interrupt_apply("before", "after"),
    "a write is lost": interrupt_apply("EIO"),
    "the answer to a write is lost": interrupt_apply("cut"),
    "every write is slow": interrupt_apply("slow"),
    "disk full": interrupt_apply("ENOSPC"),
    "read-only storage": partial(reject_apply, kind=READ_ONLY),
    "plan after a killed apply": find_stale_lock,
    "another run holds the lock": hold_lock_of_another_run,
    "lock lost to another run": lose_lock,
    "two writers": write_twice,
    "older state restored, then plan": restore_older_state,
    "new key, old one as fallback": rotate_key,
    "key lost": lose_key,
}
# The disk of this machine holds only local states, and journals of http.
INAPPLICABLE: Final = {("disk full", name) for name in ("azurerm", "s3", "postgres")}
CASES: Final = [
    (fault, name) for name in BACKENDS for fault in FAULTS if (fault, name) not in INAPPLICABLE
]


def mark_long_case(case: tuple[str, str]) -> ParameterSet:
    """Return a case as parameters; one that waits for the end of a lease is a long case."""
    fault, name = case
    waits = "killed" in fault and bool(KINDS[name].frees_within)
    return pytest.param(fault, name, marks=long_case if waits else ())


@pytest.fixture(scope="module")
def scenarios(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], CrashScenario]]:
    """Return the scenario of each backend, made at its first use."""
    scenarios: dict[str, CrashScenario] = {}

    def get_scenario(name: str) -> CrashScenario:
        if name not in scenarios:
            kind = KINDS[name]
            server = request.getfixturevalue(kind.server) if kind.server else ""
            variables = {KEYS["old"]: "ab" * 32, KEYS["new"]: "cd" * 32}
            folder = tmp_path_factory.mktemp(name)
            scenarios[name] = CrashScenario(name, server, folder, variables)
        return scenarios[name]

    yield get_scenario
    for scenario in scenarios.values():
        scenario.runner.end()


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(("fault", "name"), list(map(mark_long_case, select_cases(CASES))))
def test_outcome_of_a_fault_is_that_of_the_table(
    fault: str, name: str, scenarios: Callable[[str], CrashScenario]
) -> None:
    scenario = scenarios(name)
    outcome = FAULTS[fault](scenario, scenario.fresh(re.sub(r"\W+", "-", fault)))
    if os.environ.get("NEXUSFORM_REWRITE_GOLDEN"):
        write_table({**read_table(), (fault, name): outcome})
    assert read_table()[fault, name] == outcome


def read_table() -> dict[tuple[str, str], str]:
    """Return the outcomes in the documentation by fault and backend."""
    rows = PAGE.read_text(encoding="utf-8").partition(HEADING)[2].splitlines()
    cells = [row.strip("| ").split(" | ") for row in rows if row.startswith("| ")]
    return {
        (fault, name): outcome
        for fault, names, outcome in cells
        for name in names.replace("`", "").split(", ")
    }


def write_table(outcomes: Mapping[tuple[str, str], str]) -> None:
    """Write the table, with a row per fault and outcome."""
    lines: list[str] = []
    for fault in FAULTS:
        names_by_outcome: dict[str, list[str]] = {}
        for name in BACKENDS:
            if (fault, name) in outcomes:
                names_by_outcome.setdefault(outcomes[fault, name], []).append(f"`{name}`")
        lines += [
            f"| {fault} | {', '.join(names)} | {outcome} |"
            for outcome, names in names_by_outcome.items()
        ]
    front, heading, rest = PAGE.read_text(encoding="utf-8").partition(HEADING)
    back = rest[rest.index("\n## ") :]
    table = "\n".join(lines)
    PAGE.write_text(f"{front}{heading}{table}\n{back}", encoding="utf-8")
