"""Tests of random site changes with applies and faults.

After each one the rules of `site_checker.py` hold, and no VM moved without a trigger.

NEXUSFORM_WALK_STEPS sets the number of changes (300), NEXUSFORM_WALK_SEEDS the
number of repetitions.
"""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from tests.taints import taint_in_file
from tests.trust import site_checker as checker

STEPS = int(os.environ.get("NEXUSFORM_WALK_STEPS", "20"))
SEEDS = int(os.environ.get("NEXUSFORM_WALK_SEEDS", "1"))
STATE = Path("state/nexusform.nfstate")
POOL_SKUS = tuple(checker.SKUS)
PLANE_SKUS = POOL_SKUS[:3]
ZONES = ((), (), ("r1", "r2"), ("r2", "r3", "r4"))

Site = dict[str, Any]


def build_first_site() -> Site:
    return {
        "racks": {"r1": 3, "r2": 3, "r3": 3, "r4": 3},
        "evacuated": [],
        "clusters": {},
        "vms": {},
        "healed": "",
        "tainted": "",
        "fault": None,
    }


# --- configuration of a site -------------------------------------------------------------------


def build_document(site: Site) -> dict[str, Any]:
    resources: dict[str, Any] = {"nexus_site": {"s": {}}, "nexus_rack": {}}
    for rack, count in site["racks"].items():
        body = {"site_id": "${nexus_site.s.id}", "machine_count": count, "availability_zone": rack}
        resources["nexus_rack"][rack] = body
    for machine in site["evacuated"]:
        rack, slot = machine.split("-bm")
        body = {"rack_id": f"${{nexus_rack.{rack}.id}}", "name": machine, "slot": int(slot)}
        body |= {"machine_sku": "bom-1.7.3", "evacuate": True}
        resources.setdefault("nexus_bare_metal_machine", {})[machine] = body
    for name, cluster in site["clusters"].items():
        resources.setdefault("nexus_kubernetes_cluster", {})[name] = _build_cluster(cluster)
    for name, vm in site["vms"].items():
        resources.setdefault("nexus_virtual_machine", {})[name] = _build_vm(site, vm)
    faults = [site["fault"]] if site["fault"] else []
    return {"resource": resources, "provider": {"simulated": {"fault": faults}}}


def _build_cluster(cluster: dict[str, Any]) -> dict[str, Any]:
    plane, *pools = cluster["pools"].items()
    body: dict[str, Any] = {
        "site_id": "${nexus_site.s.id}",
        "kubernetes_version": cluster["version"],
    }
    body["control_plane"] = _build_pool(plane[1])
    body["agent_pool"] = {name: {**_build_pool(pool), "mode": "User"} for name, pool in pools}
    return body


def _build_pool(pool: dict[str, Any]) -> dict[str, Any]:
    body = {"count": pool["count"], "vm_sku_name": pool["sku"]}
    if pool["zones"]:
        body["availability_zones"] = list(pool["zones"])
    if pool["labels"]:
        body["labels"] = {"l": pool["labels"]}
    return body


def _build_vm(site: Site, vm: dict[str, Any]) -> dict[str, Any]:
    hints = []
    for kind, target, scope in vm["hints"]:
        of = "nexus_virtual_machine" if target in site["vms"] else "nexus_kubernetes_cluster"
        hint = {"hint_type": kind, "resource_id": f"${{{of}.{target}.id}}"}
        hints.append({**hint, "scheduling_execution": "Hard", "scope": scope})
    size = {"cpu_cores": vm["cpus"], "memory_gib": 16, "disk_gib": 100}
    return {"site_id": "${nexus_site.s.id}", **size, "placement_hint": hints}


# --- changes of the site -----------------------------------------------------------------------


def _draw_pool(chance: random.Random, skus: tuple[str, ...], most: int) -> dict[str, Any]:
    pool = {
        "count": chance.randint(1, most),
        "sku": chance.choice(skus),
        "zones": chance.choice(ZONES),
    }
    return {**pool, "labels": ""}


def add(chance: random.Random, site: Site) -> None:
    if chance.random() < 0.5:
        free = [name for name in "abcd" if name not in site["clusters"]]
        pools = {
            name: _draw_pool(chance, POOL_SKUS, 4)
            for name in chance.sample("pq", chance.randint(0, 2))
        }
        pools = {"control-plane": {**_draw_pool(chance, PLANE_SKUS, 3), "zones": ()}, **pools}
        site["clusters"] |= {name: {"version": "1.30", "pools": pools} for name in free[:1]}
        return
    free = [name for name in ("v1", "v2", "v3", "v4") if name not in site["vms"]]
    targets = [*site["vms"], *site["clusters"]]
    hints = []
    for target in chance.sample(targets, min(len(targets), chance.randint(0, 2))):
        kind = "Affinity" if target in site["vms"] and chance.random() < 0.3 else "AntiAffinity"
        hints.append((kind, target, chance.choice(("Machine", "Machine", "Rack"))))
    site["vms"] |= {name: {"cpus": chance.choice((2, 8, 24)), "hints": hints} for name in free[:1]}


def remove(chance: random.Random, site: Site) -> None:
    named = {target for vm in site["vms"].values() for _, target, _ in vm["hints"]}
    free = [name for name in (*site["clusters"], *site["vms"]) if name not in named]
    for name in chance.sample(free, min(len(free), 1)):
        site["clusters"].pop(name, None)
        site["vms"].pop(name, None)


def scale(chance: random.Random, site: Site) -> None:
    for cluster in _draw_cluster(chance, site["clusters"]):
        chance.choice(list(cluster["pools"].values()))["count"] = chance.randint(1, 6)


def change(chance: random.Random, site: Site) -> None:
    for cluster in _draw_cluster(chance, site["clusters"]):
        name = chance.choice(list(cluster["pools"]))
        pool = cluster["pools"][name]
        what = chance.choice(("version", "sku", "zones", "labels"))
        if what == "version":
            cluster["version"] = chance.choice(("1.30", "1.31", "1.32"))
        elif name != "control-plane":
            values = {"sku": POOL_SKUS, "zones": ZONES, "labels": ("", "one", "two")}[what]
            pool[what] = chance.choice(values)


def evacuate(chance: random.Random, site: Site) -> None:
    if len(site["evacuated"]) > 1:
        site["evacuated"].pop(0)
    machine = chance.choice(list(checker.list_machines(site)))
    site["evacuated"] = [*dict.fromkeys([*site["evacuated"], machine])]


def lose_rack(chance: random.Random, site: Site) -> None:
    lost = [rack for rack in ("r1", "r2", "r3", "r4") if rack not in site["racks"]]
    if lost:
        site["racks"] = dict(sorted({**site["racks"], lost[0]: chance.randint(1, 4)}.items()))
        return
    rack = chance.choice(list(site["racks"]))
    site["evacuated"] = [machine for machine in site["evacuated"] if not machine.startswith(rack)]
    del site["racks"][rack]


def heal(chance: random.Random, site: Site) -> None:
    site["healed"] = chance.choice([*checker.list_vms(read_state()), ""])


def taint(chance: random.Random, site: Site) -> None:
    objects = [f"nexus_kubernetes_cluster.{name}" for name in site["clusters"]]
    objects += [f"nexus_virtual_machine.{name}" for name in site["vms"]]
    site["tainted"] = chance.choice([*objects, ""])


def fail(chance: random.Random, site: Site) -> None:
    """Apply another change, with some failing provider operations."""
    chance.choice((add, scale, evacuate, lose_rack))(chance, site)
    operation = chance.choice(("create", "update", "delete"))
    site["fault"] = {
        "address": "nexus_*",
        "operation": operation,
        "error": "out of order",
        "times": 2,
    }


def _draw_cluster(chance: random.Random, clusters: dict[str, Any]) -> list[dict[str, Any]]:
    return chance.sample(list(clusters.values()), min(len(clusters), 1))


EVENTS = (add, add, remove, scale, scale, change, change, evacuate, lose_rack, heal, taint, fail)


# --- random walk -------------------------------------------------------------------------------


def read_state() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(STATE.read_bytes())
    return document


def write_configuration(site: Site) -> None:
    Path("main.nf.json").write_text(json.dumps(build_document(site)))


def plan_site(site: Site, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    """Return the exit code of a plan, and the plan as JSON."""
    write_configuration(site)
    options = []
    if site["healed"]:
        owner = checker.list_vms(read_state())[site["healed"]].owner
        options = [f"-replace={owner}:{site['healed']}"]
    code = run_command_line(["plan", "-out=plan", "-samples=0", *options])
    capsys.readouterr()
    if code != 0:
        return code, {}
    assert run_command_line(["show", "-json", "plan"]) == 0
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return code, shown


def apply_change(before: Site, site: Site, capsys: pytest.CaptureFixture[str]) -> bool:
    """Plan and apply one change of the site; return whether it was possible."""
    prior = read_state()
    stood = checker.list_vms(prior)
    if (
        site["healed"]
        and get_trigger(site["healed"], stood, before, {**site, "healed": ""}) == "cluster_removed"
    ):
        site["healed"] = ""
    if site["tainted"]:
        taint_in_file(STATE, site["tainted"])
    code, plan = plan_site(site, capsys)
    if code != 0:
        STATE.write_text(json.dumps(prior))
        return False
    reasons = {name: get_trigger(name, stood, before, site) for name in stood}
    rows = {
        row["object"]: row["trigger"]
        for row in plan["placement_changes"]
        if row["action"] != "keep"
    }
    expected = {name: reason for name, reason in reasons.items() if reason}
    assert {name: rows.get(name) for name in expected} == expected
    assert {name for name in rows if name in stood} == set(expected)
    code = run_command_line(["apply", "plan"])
    if site["fault"]:
        site["fault"] = None
        assert list(checker.find_overcommitted_cells(checker.list_vms(read_state()))) == []
        write_configuration(site)
        code = run_command_line(["apply", "-auto-approve", "-samples=0"])
    assert code == 0, capsys.readouterr().err
    stands = checker.list_vms(read_state())
    assert list(checker.find_overcommitted_cells(stands)) == []
    assert list(checker.find_misplaced_vms(site, stands)) == []
    assert list(checker.find_violated_hints(site, stands)) == []
    stayed = {name: vm for name, vm in stood.items() if not reasons[name]}
    assert {name: stands[name] for name in stayed} == stayed
    return True


def get_trigger(name: str, stood: dict[str, checker.Vm], before: Site, site: Site) -> str:
    return checker.get_trigger(name, stood[name], before, site)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_rules_hold_on_a_long_random_walk(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(seed)
    site = build_first_site()
    write_configuration(site)
    assert run_command_line(["apply", "-auto-approve"]) == 0
    possible = 0
    for _ in range(STEPS):
        changed = copy.deepcopy(site)
        changed |= {"healed": "", "tainted": ""}
        chance.choice(EVENTS)(chance, changed)
        if apply_change(site, changed, capsys):
            site = changed
            possible += 1
    assert possible > STEPS // 2
