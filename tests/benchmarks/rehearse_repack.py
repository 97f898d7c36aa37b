"""Rehearsal of repackings, executed like an operator would.

Run `rehearse_repack.py [FIRST LAST]` (seeds; the default is 0 to 19).

For each seed, real applies fill a site to 60 to 90 %. `simulate repack` runs, its printed commands
are executed window by window (overrides with cordons, `plan -replace -out`, `apply`), the cordons
end, and the demand is planned and applied as a cluster. Odd seeds first delete the NUMA cells of
all VMs from the state, as on a real site; a twin with known cells runs the same commands. Each VM
must run on its predicted machine, and no other VM may move. On sites of up to 8 machines the number
of re-creations is compared with an independent search over the state document alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from itertools import combinations
from math import ceil, comb
from pathlib import Path
from typing import Any, Final

from nexusform.cli.main import run_command_line
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from tests.domains.whatif.repack_answers import read_repack_answer

SKUS: Final = CATALOGUES[NEWEST].vm_skus
LARGE: Final = "NC_G48_224_v1"
POOLS: Final = ("NC_P10_56_v1", "NC_G12_56_v1", "NC_G18_74_v1", "NC_G24_112_v1", "NC_P22_112_v1")
CELL: Final = (48, 224)
MOST_CHOICES: Final = 60_000

MAIN: Final = """
variable "cordoned" {
  type    = list(string)
  default = []
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count             = RACKS
  site_id           = nexus_site.lab.id
  name              = "r${count.index + 1}"
  availability_zone = tostring(count.index + 1)
  machine_count     = MACHINES
  dynamic "machine_override" {
    for_each = [for name in var.cordoned : name if startswith(name, "r${count.index + 1}-")]
    labels   = [machine_override.value]
    content {
      cordoned = true
    }
  }
}
resource "nexus_kubernetes_cluster" "c" {
  for_each           = jsondecode(file("clusters.json"))
  site_id            = nexus_site.lab.id
  name               = each.key
  kubernetes_version = "1.29.4"
  control_plane {
    count              = each.value.control
    vm_sku_name        = each.value.sku
    availability_zones = each.value.zones
  }
  dynamic "agent_pool" {
    for_each = each.value.pools
    labels   = [agent_pool.key]
    content {
      count              = agent_pool.value.count
      vm_sku_name        = agent_pool.value.sku
      availability_zones = agent_pool.value.zones
      upgrade_settings {
        max_surge       = agent_pool.value.away == "0" ? "1" : "0"
        max_unavailable = agent_pool.value.away
      }
    }
  }
  depends_on = [nexus_rack.r]
}
"""

Clusters = dict[str, dict[str, Any]]


class WrongAnswer(Exception):
    """Error for a false statement in an answer."""


def run_command(*words: str) -> tuple[int, str]:
    """Run a command; return its exit code and output."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = run_command_line(list(words))
    return code, out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def run_successfully(*words: str) -> str:
    """Run a command and return its output; raise an error if it fails."""
    code, text = run_command(*words)
    if code:
        raise WrongAnswer(f"{' '.join(words)}: exit {code}\n{text}")
    return text


def simulate_repack(*words: str) -> tuple[int, dict[str, Any]]:
    """Return exit code and answer of `simulate repack`."""
    code, text = run_command("simulate", "repack", f"-sku={LARGE}", *words, "-format=json")
    try:
        return code, read_repack_answer(json.loads(text))
    except ValueError as mistake:
        raise WrongAnswer(f"repack {words}: exit {code}\n{text}") from mistake


def read_nodes() -> dict[str, dict[str, Any]]:
    """Return all VMs in the state by name, with their location."""
    state = json.loads(Path("state/nexusform.nfstate").read_text())
    return {
        name: node
        for resource in state["resources"]
        if resource["type"] == "nexus_kubernetes_cluster"
        for instance in resource["instances"]
        for name, node in instance["attributes"]["nodes"].items()
    }


def get_location(node: dict[str, Any]) -> tuple[str, tuple[int, ...] | None]:
    cells = node["numa_cells"]
    return node["machine"], None if cells is None else tuple(cells)


# --- a history ---------------------------------------------------------------------------------


class SiteHistory:
    """Clusters created, resized and deleted by applies; some of the applies are rejected."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.racks = self.draw.choice((2, 3, 3))
        self.in_rack = self.draw.choice((2, 2, 3)) if seed % 4 < 2 else self.draw.choice((3, 4, 5))
        self.filled = 0.6 + 0.3 * (seed % 20) / 19
        self.clusters: Clusters = {}
        self.applies = 0

    def taken(self) -> float:
        memory = 0.0
        for cluster in self.clusters.values():
            memory += cluster["control"] * SKUS[cluster["sku"]].memory_gib
            memory += sum(
                pool["count"] * SKUS[pool["sku"]].memory_gib for pool in cluster["pools"].values()
            )
        return memory / (self.racks * self.in_rack * 2 * CELL[1])

    def make(self) -> None:
        text = MAIN.replace("RACKS", str(self.racks)).replace("MACHINES", str(self.in_rack))
        Path("main.nf.hcl").write_text(text)
        refused = number = 0
        while self.taken() < self.filled and refused < 6:
            before = json.dumps(self.clusters)
            number += 1
            self._change(number)
            if not self._apply():
                self.clusters = json.loads(before)
                refused += 1
        self._apply()

    def _apply(self) -> bool:
        Path("clusters.json").write_text(json.dumps(self.clusters, indent=1))
        self.applies += 1
        return run_command("apply", "-auto-approve")[0] == 0

    def _change(self, number: int) -> None:
        draw = self.draw
        if number % 4 == 3 and len(self.clusters) > 1:
            del self.clusters[draw.choice(sorted(self.clusters))]
        elif number % 4 == 0 and self.clusters:
            pools = self.clusters[draw.choice(sorted(self.clusters))]["pools"]
            pool = pools[draw.choice(sorted(pools))]
            pool["count"] = max(1, pool["count"] + draw.choice((-2, -1, 1, 2)))
        else:
            pools = {f"p{pool}": self._pool() for pool in range(draw.choice((1, 1, 2)))}
            control = draw.choice((1, 3, 3))
            self.clusters[f"k{number}"] = {
                "control": control, "sku": "NC_G6_28_v1", "zones": None, "pools": pools,
            }  # fmt: skip

    def _pool(self) -> dict[str, Any]:
        draw = self.draw
        zones = None
        if draw.random() < 0.25:
            zones = sorted(str(zone + 1) for zone in draw.sample(range(self.racks), self.racks - 1))
        return {
            "count": draw.choice((1, 2, 2, 3, 4)),
            "sku": draw.choice(POOLS),
            "zones": zones,
            "away": draw.choice(("0", "1", "2", "50%")),
        }


def forget_cells() -> None:
    """Delete the NUMA cells of VMs from the state, as on a site read from Azure."""
    path = Path("state/nexusform.nfstate")
    state = json.loads(path.read_text())
    for resource in state["resources"]:
        for instance in resource["instances"]:
            for node in (instance["attributes"].get("nodes") or {}).values():
                node["numa_cells"] = None
    state["serial"] += 1
    pushed = Path("forgotten.nfstate")
    pushed.write_text(json.dumps(state, indent=2))
    run_successfully("state", "push", str(pushed))


# --- execution ---------------------------------------------------------------------------------

_OVERRIDE: Final = re.compile(r'# +machine_override "([^"]+)" \{ cordoned = true \}')


def execute_answer(answer: dict[str, Any]) -> int:
    """Execute the printed commands window by window; return the number of windows."""
    begin = {name: get_location(node) for name, node in read_nodes().items()}
    moved: set[str] = set()
    for number, commands in enumerate(answer["commands"], 1):
        before = {name: get_location(node) for name, node in read_nodes().items()}
        cordoned = [found[1] for line in commands if (found := _OVERRIDE.match(line))]
        Path("cordons.auto.nfvars.hcl").write_text(f"cordoned = {json.dumps(cordoned)}\n")
        for line in commands:
            if line.startswith("nexusform "):
                run_successfully(*shlex.split(line)[1:])
        after = {name: get_location(node) for name, node in read_nodes().items()}
        steps = {step["vm"]: step for step in answer["steps"] if step["window"] == number}
        moved |= steps.keys()
        for name, step in steps.items():
            if step["hits"] == step["samples"] and after[name][0] != step["to"]:
                raise WrongAnswer(f"window {number}: {name} on {after[name][0]}, not {step['to']}")
        others = {name for name in before if name not in steps and before[name] != after[name]}
        if others or before.keys() != after.keys():
            raise WrongAnswer(f"window {number}: {sorted(others)} moved, too")
    Path("cordons.auto.nfvars.hcl").write_text("cordoned = []\n")
    run_successfully("apply", "-auto-approve")
    end = {name: get_location(node) for name, node in read_nodes().items()}
    if {name for name in begin if begin[name][0] != end[name][0]} - moved:
        raise WrongAnswer("somebody moved who was not in the answer")
    return len(answer["commands"])


def apply_demand(clusters: Clusters, want: int, zones: list[str] | None) -> None:
    """Plan and apply a cluster with the demand."""
    before = {name: get_location(node) for name, node in read_nodes().items()}
    pools = {}
    if want > 1:
        pools["w"] = {"count": want - 1, "sku": LARGE, "zones": zones, "away": "0"}
    new = {"control": 1, "sku": LARGE, "zones": zones, "pools": pools}
    Path("clusters.json").write_text(json.dumps({**clusters, "new": new}))
    run_successfully("plan", "-out=room.nfplan")
    run_successfully("apply", "room.nfplan")
    after = {name: get_location(node) for name, node in read_nodes().items()}
    if len(after) != len(before) + want or any(after[name] != before[name] for name in before):
        raise WrongAnswer("the demand did not come as promised")


# --- independent search ------------------------------------------------------------------------


class ExhaustiveSearch:
    """Small site with known cells, read from its state and from clusters.json alone."""

    def __init__(self, history: SiteHistory, zones: list[str] | None) -> None:
        self.racks = history.racks
        self.in_rack = history.in_rack
        self.zones = zones
        self.tried = 0
        self.pools: dict[tuple[str, str], dict[str, Any]] = {}
        for name, cluster in history.clusters.items():
            control = {
                "count": cluster["control"],
                "sku": cluster["sku"],
                "zones": cluster["zones"],
            }
            self.pools[name, "control-plane"] = control
            for pool, terms in cluster["pools"].items():
                self.pools[name, pool] = terms
        self.vms = []
        for name, node in sorted(read_nodes().items()):
            cluster = name.split("-", 1)[0]
            pool = name.split("-", 1)[1].rsplit("-", 1)[0]
            self.vms.append((name, (cluster, pool), node["machine"], tuple(node["numa_cells"])))
        self.free = {
            (f"r{rack}-bm{slot:02d}", cell): CELL
            for rack in range(1, self.racks + 1)
            for slot in range(1, self.in_rack + 1)
            for cell in (0, 1)
        }
        self.standing: Counter[tuple[tuple[str, str], str]] = Counter()
        for _, pool, machine, cells in self.vms:
            self.free[machine, cells[0]] = self._subtract(self.free[machine, cells[0]], pool, 1)
            self.standing[pool, self._get_rack(machine)] += 1
        self.limits = {pool: self._limit(pool, terms) for pool, terms in self.pools.items()}

    def _subtract(
        self, free: tuple[int, int], pool: tuple[str, str], count: int
    ) -> tuple[int, int]:
        sku = SKUS[self.pools[pool]["sku"]]
        return free[0] - count * sku.cpus_in_cell, free[1] - count * sku.mib_in_cell // 1024

    @staticmethod
    def _get_rack(machine: str) -> str:
        return machine.partition("-")[0]

    def _limit(self, pool: tuple[str, str], terms: dict[str, Any]) -> int:
        racks = len(terms["zones"]) if terms["zones"] else self.racks
        most = max(
            (count for (owner, _), count in self.standing.items() if owner == pool), default=0
        )
        return max(most, ceil(terms["count"] / racks))

    def room(self) -> int:
        """Return the capacity for VMs of the demand: one per empty cell."""
        return sum(
            free == CELL and (self.zones is None or self._get_rack(machine)[1:] in self.zones)
            for (machine, _), free in self.free.items()
        )

    def fewest(self, want: int) -> int | None:
        """Return the minimum number of re-created VMs by trial of all choices up to `tried`.

        Return None if no such number suffices.
        """
        may = [vm for vm in self.vms if self.pools[vm[1]]["count"] > 1]
        for count in range(len(may) + 1):
            if comb(len(may), count) > MOST_CHOICES:
                return None
            self.tried = count
            seen: set[frozenset[tuple[object, int]]] = set()
            for chosen in combinations(may, count):
                alike = frozenset(Counter((vm[1], vm[2], vm[3]) for vm in chosen).items())
                if alike not in seen:
                    seen.add(alike)
                    if self._is_sufficient(chosen, want):
                        return count
        return None

    def _is_sufficient(self, chosen: tuple[Any, ...], want: int) -> bool:
        free = dict(self.free)
        standing = self.standing.copy()
        for _, pool, machine, cells in chosen:
            self.free[machine, cells[0]] = self._subtract(self.free[machine, cells[0]], pool, -1)
            self.standing[pool, self._get_rack(machine)] -= 1
        order = sorted(chosen, key=lambda vm: -SKUS[self.pools[vm[1]]["sku"]].memory_gib)
        done = self.room() >= want and self._can_place(order, want)
        self.free = free
        self.standing = standing
        return done

    def _can_place(self, left: list[Any], want: int) -> bool:
        if self.room() < want:
            return False
        if not left:
            return True
        (_, pool, was, cells), *others = left
        zones = self.pools[pool]["zones"]
        tried: set[tuple[str, tuple[int, int], bool]] = set()
        for (machine, cell), free in list(self.free.items()):
            rack = self._get_rack(machine)
            before = self.standing[pool, rack]
            then = self._subtract(free, pool, 1)
            alike = rack, free, (self.zones is None or rack[1:] in self.zones)
            if (
                (machine, (cell,)) == (was, cells)
                or min(then) < 0
                or before >= self.limits[pool]
                or (zones and rack[1:] not in zones)
                or alike in tried
            ):
                continue
            tried.add(alike)
            self.free[machine, cell] = then
            self.standing[pool, rack] = before + 1
            if self._can_place(others, want):
                return True
            self.free[machine, cell] = free
            self.standing[pool, rack] = before
        return False


# --- one site ----------------------------------------------------------------------------------


def rehearse(seed: int) -> str:
    """Return a line of the report; raise WrongAnswer for a broken promise."""
    history = SiteHistory(seed)
    history.make()
    filled = history.taken()
    vms = len(read_nodes())
    known = seed % 2 == 0
    zones = [str(zone + 1) for zone in range(history.racks - 1)] if seed % 5 == 4 else None
    flags = [f"-zones={','.join(zones)}"] if zones else []
    twin = Path.cwd().with_name(f"{Path.cwd().name}-twin")
    if not known:
        shutil.copytree(Path.cwd(), twin)
        forget_cells()
    _, now = simulate_repack("-want=99", "-moves=1", "-time=1", *flags)
    said = ""
    for more in (2, 1):
        want = now["fit_now"] + more
        start = time.process_time()
        code, answer = simulate_repack(f"-want={want}", *flags)
        took = time.process_time() - start
        said += f"+{more}: {answer['status']} {answer['re_creations']} of {answer['at_least']}"
        if known and history.racks * history.in_rack <= 8:
            trial = ExhaustiveSearch(history, zones)
            fewest = trial.fewest(want)
            said += f", search {fewest if fewest is not None else f'more than {trial.tried}'}"
            _compare_with_search(answer, fewest, trial.tried)
        if (code == 2) != (answer["status"] == "impossible" or answer["re_creations"] is None):
            raise WrongAnswer(f"exit {code} of {answer['status']}")
        if answer["re_creations"] is not None:
            break
        said += "; "
    head = (
        f"{seed:2} {'known  ' if known else 'unknown'} {history.racks}x{history.in_rack} machines "
        f"{filled:3.0%} {vms:3} VMs, {history.applies:2} applies | {said}"
    )
    if answer["re_creations"] is None:
        return f"{head} | blocking {answer['blocking']}"
    sure = all(step["hits"] == step["samples"] for step in answer["steps"])
    windows = execute_answer(answer)
    code, then = simulate_repack(f"-want={want}", *flags)
    if sure and (code, then["status"]) != (0, "nothing_to_do"):
        raise WrongAnswer(f"afterwards {then['fit_now']} fit, {want} promised")
    apply_demand(history.clusters, want, zones)
    text = (
        f"{head} | {windows} windows carried out, {want} applied, {took:.1f} "
        f"s{'' if sure else ', NOT SURE'}"
    )
    if not known and sure:
        os.chdir(twin)
        execute_answer(answer)
        apply_demand(history.clusters, want, zones)
        text += ", twin with its cells, too"
    return text


def _compare_with_search(answer: dict[str, Any], fewest: int | None, tried: int) -> None:
    made = answer["re_creations"]
    bound = answer["at_least"]
    if answer["status"] == "impossible" and fewest is not None:
        raise WrongAnswer(f"called impossible, and {fewest} re-creations do")
    if fewest is not None and bound is not None and bound > fewest:
        raise WrongAnswer(f"bound {bound}, and {fewest} re-creations do")
    if answer["status"] == "optimal" and made <= tried and fewest != made:
        raise WrongAnswer(f"optimal {made}, search {fewest}")


def main() -> None:
    """Run all seeds and print one line each; exit 1 if one fails."""
    first, last = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (0, 19)
    home = Path.cwd()
    failed = 0
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory() as name:
            project = Path(name, "site")
            project.mkdir()
            os.chdir(project)
            try:
                print(rehearse(seed), flush=True)
            except WrongAnswer as mistake:
                failed += 1
                print(f"{seed:2} FAILED: {mistake}", flush=True)
            os.chdir(home)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
