"""Run random fleets on a running hub for a given time: plans, killed applies and departing members.

Run: NEXUSFORM_HUB_PROGRAMS=DIR NEXUSFORM_HUB_CASES=DIR python -m tests.nightly.hub_fleets
MINUTES [FLEETS] [SEED]
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nexusform.placements.prediction_scores import ShareClassScore, compute_score, parse_record
from tests.domains.hub.fleet_blocks import HEAD, build_app, build_preference, build_requirement
from tests.domains.hub.running_hub import RunningHub, start_running_hub

_MEMBERS = tuple(f"m{number}" for number in range(6))
_CONTENT = """
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings, namespace: {name}}}
data: {{a: "{content}"}}
"""
_STRATEGY = """
strategy {
  rolling_update {
    unavailable_period_seconds = 1
  }
}
"""
_SPREAD = """
topology_spread_constraint {
  topology_key       = "zone"
  when_unsatisfiable = "ScheduleAnyway"
}
"""
_REQUIRED = build_requirement("env", "prod")
_PREFERRED = build_preference(20, "env", "prod")


class Fleet:
    """One random fleet, from its creation to its end."""

    def __init__(self, seed: int, hub: RunningHub, directory: Path) -> None:
        self._random = random.Random(seed)
        self._hub = hub
        self._programs = hub.hub
        self._directory = directory
        self.wrong: list[str] = []
        self.kills = self.departures = 0
        self._kinds = self._random.choices(
            ("PickAll", "PickN", "PickFixed"), (1, 3, 1), k=self._random.randint(1, 3)
        )
        self._names = [f"fleet{seed % 1000}-{n}" for n in range(len(self._kinds))]

    def run(self) -> None:
        """Create the fleet, change it twice, and destroy it; each apply may be killed."""
        self._label_members()
        (self._directory / "main.nf.hcl").write_text(self._configure("1"))
        self._apply("apply")
        self._check_plan("after the first apply")
        left = ""
        if self._random.random() < 0.4:
            left = self._random.choice(_MEMBERS)
            with _measure("leave"):
                self._programs.leave(left)
            self.departures += 1
            self._apply("apply")
            self._check_plan(f"after {left} left")
        (self._directory / "main.nf.hcl").write_text(self._configure("2"))
        self._apply("apply")
        self._check_plan("after the change")
        self._read_scores()
        self._apply("destroy")
        for kind in ("ClusterResourcePlacement", "ClusterResourceBinding"):
            if self._hub.all(kind):
                self.wrong.append(f"a {kind} is left after destroy")
        if left:
            self._programs.join({left: {}})

    def _label_members(self) -> None:
        with _measure("members"):
            draw = self._random.choice
            self._programs.join(
                {name: {"env": draw(("prod", "canary")), "zone": draw("abc")} for name in _MEMBERS}
            )

    def _configure(self, content: str) -> str:
        return HEAD + "".join(
            build_app(
                name,
                _CONTENT.format(name=name, content=content),
                self._choose_policy(kind),
                _STRATEGY,
            )
            for name, kind in zip(self._names, self._kinds, strict=True)
        )

    def _choose_policy(self, kind: str) -> str:
        """Return a random policy for a placement; its type cannot change."""
        if kind == "PickFixed":
            names = ", ".join(f'"{name}"' for name in self._random.sample(_MEMBERS, 2))
            return f'placement_type = "PickFixed"\ncluster_names  = [{names}]'
        text = f'placement_type     = "{kind}"\n'
        if kind == "PickN":
            text += f"number_of_clusters = {self._random.randint(1, 5)}\n"
        if self._random.random() < 0.5:
            return text
        return text + (
            _REQUIRED
            if kind == "PickAll"
            else self._random.choice((_SPREAD, _PREFERRED, _REQUIRED))
        )

    # --- commands --------------------------------------------------------------------------------

    def _apply(self, command: str) -> None:
        """Run a command, possibly killed at a random write, and then run it again."""
        if self._random.random() < 0.5:
            self.kills += self._run_killed(command, self._random.randint(1, 4))
        code, text = self._run(command, "-auto-approve")
        if code != 0:
            self.wrong.append(f"{command} ends with {code}: {text[-1500:]}")
        elif "but is" in text or "certain predictions" in text:
            self.wrong.append(f"{command} predicts wrongly: {text[-1500:]}")

    def _check_plan(self, moment: str) -> None:
        code, text = self._run("plan", "-detailed-exitcode")
        if code != 0:
            self.wrong.append(f"a plan {moment} ends with {code}: {text[-1500:]}")

    def _run_killed(self, command: str, writes: int) -> bool:
        """Run a command, and kill it after a number of writes; return whether it was killed."""
        remaining = writes
        words = [sys.executable, "-m", "nexusform", command, "-auto-approve"]
        with (
            _measure("killed"),
            subprocess.Popen(
                words, cwd=self._directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            ) as run,
        ):

            def count_writes(method: str, target: str) -> None:
                nonlocal remaining
                if method != "GET" and "dryRun" not in target:
                    remaining -= 1
                    if remaining == 0:
                        run.kill()

            self._hub.carried_out = count_writes
            code = run.wait()
        self._hub.carried_out = lambda _method, _target: None
        return code < 0

    def _run(self, *words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "nexusform", *words]
        with _measure(words[0]):
            result = subprocess.run(
                command, cwd=self._directory, capture_output=True, text=True, check=False
            )
        return result.returncode, " ".join((result.stdout + result.stderr).split())

    def _read_scores(self) -> None:
        command = [sys.executable, "-m", "nexusform", "state", "pull"]
        pulled = subprocess.run(command, cwd=self._directory, capture_output=True, check=True)
        SCORES.extend(_find_records(json.loads(pulled.stdout or "{}")))


SECONDS: Counter[str] = Counter()


@contextmanager
def _measure(part: str) -> Iterator[None]:
    """Add the seconds of a block to a part."""
    start = time.monotonic()
    yield
    SECONDS[part] += time.monotonic() - start


SCORES: list[dict[tuple[str, int], ShareClassScore]] = []


def _find_records(value: object) -> list[dict[tuple[str, int], ShareClassScore]]:
    """Return all prediction records inside a state."""
    if isinstance(value, list):
        return [record for item in value for record in _find_records(item)]
    if not isinstance(value, dict):
        return []
    own = [dict(parse_record(value))] if "forecasts" in value else []
    return own + [record for item in value.values() for record in _find_records(item)]


def _merge(
    records: list[dict[tuple[str, int], ShareClassScore]],
) -> dict[tuple[str, int], ShareClassScore]:
    merged: dict[tuple[str, int], ShareClassScore] = {}
    for record in records:
        for key, score in record.items():
            old = merged.get(key, ShareClassScore())
            merged[key] = ShareClassScore(
                old.correct + score.correct,
                old.incorrect + score.incorrect,
                old.squares + score.squares,
                old.chance_squares + score.chance_squares,
            )
    return merged


def run_fleets(minutes: float, fleets: int, first: int) -> int:
    """Run fleets until the time is over; print wrong results, totals and the score.

    Return 1 on wrong results.
    """
    end = time.monotonic() + 60 * minutes
    count = 0
    wrong = 0
    kills = 0
    departures = 0
    members: dict[str, dict[str, str]] = {name: {} for name in _MEMBERS}
    with (
        tempfile.TemporaryDirectory() as directory,
        start_running_hub(Path(directory), members) as hub,
    ):
        os.environ["NF_FLEET_KUBECONFIG"] = str(hub.kubeconfig(Path(directory)))
        while count < fleets and time.monotonic() < end:
            with tempfile.TemporaryDirectory() as work:
                fleet = Fleet(first + count, hub, Path(work))
                fleet.run()
            count = count + 1
            wrong = wrong + bool(fleet.wrong)
            kills = kills + fleet.kills
            departures = departures + fleet.departures
            for text in fleet.wrong:
                print(f"fleet {first + count - 1}: {text}", flush=True)
    print(
        f"{count} fleets, {kills} killed applies, {departures} members left, {wrong} fleets "
        "with wrong results"
    )
    print(
        "seconds per fleet:",
        ", ".join(f"{part} {total / max(count, 1):.1f}" for part, total in SECONDS.most_common()),
    )
    score = compute_score(_merge(SCORES))
    if score is not None:
        skill = f"{score.skill:.3f}" if score.skill is not None else "none"
        figures = f"Brier score {score.brier:.4f}, by chance {score.chance:.4f}, skill {skill}"
        print(f"{score.verified} open decisions, {score.correct} predicted correctly; {figures}")
    return int(bool(wrong))


if __name__ == "__main__":
    # The servers end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    arguments = sys.argv[1:]
    seed = int(arguments[2]) if len(arguments) > 2 else int(time.time()) % 1_000_000_000
    sys.exit(
        run_fleets(float(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 100, seed)
    )
