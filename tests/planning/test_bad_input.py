"""Tests of invalid configurations.

Every error has a file and a line, all are reported together, and none is an exception.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nexusform.plans.plan import Mode
from nexusform.state.objects import EMPTY, State
from tests.kill_points import scale_count
from tests.planning.harness import (
    RACKS,
    SITE,
    UnreadableConfigurationError,
    agent_pool,
    build_state,
    build_state_after,
    cluster,
    get_line,
    list_errors,
    plan,
    pool,
)
from tests.planning.step_runner import run

EXAMPLES = int(os.environ.get("NF_TEST_SITES") or scale_count(240))
VM = """
resource "nexus_virtual_machine" "v" {
  site_id = nexus_site.s.id
  cpu_cores = 4
  memory_gib = 8
  disk_gib = 9
}
"""


def list_problems(files: Any, **options: Any) -> list[Any]:
    """Return the errors of planning, or those reported before it."""
    try:
        return list_errors(plan(files, **options))
    except UnreadableConfigurationError as refused:
        return list(refused.problems)


def build_cluster_with_arguments(text: str) -> str:
    return RACKS + cluster("a", arguments=text)


def build_cluster_with_pool(text: str) -> str:
    return RACKS + cluster("a", pools=pool("p", 1, more=text))


@pytest.mark.parametrize(
    "expression", ["1 / (length(nexus_rack.r) - 3)", 'tonumber("x${length(nexus_rack.r)}")']
)
def test_count_error_found_only_during_planning_is_reported(expression: str) -> None:
    """The racks are unknown before planning, so the cluster must not be omitted silently."""
    arguments = f'count = {expression}\n name = "a${{count.index}}"'
    [problem] = list_errors(plan(build_cluster_with_arguments(arguments)))
    assert problem.id in ("division-by-zero", "invalid-function-argument")


ZONED = pool("p", 1, more='availability_zones = ["r9"]')
EMPTY_RACK = (
    'resource "nexus_rack" "x" {\n  site_id = nexus_site.s.id\n  machine_count = 2\n  %s\n}\n'
)


@pytest.mark.parametrize(
    ("text", "at", "words"),
    [
        ('resource "nexus_rak" "r" {}\n', 'resource "nexus_rak"', ["nexus_rak", "nexus_rack"]),
        (
            SITE + EMPTY_RACK.replace("%s", "machin_sku = 1"),
            "machin_sku",
            ["machin_sku", "machine_sku"],
        ),
        (
            SITE + 'resource "nexus_rack" "x" {\n  machine_count = 2\n}\n',
            'resource "nexus_rack"',
            ["site_id"],
        ),
        (SITE + EMPTY_RACK.replace("= 2", '= "two"'), "machine_count", ["number"]),
        (SITE + EMPTY_RACK.replace("= 2", "= 257"), "machine_count", ["256"]),
        (SITE + EMPTY_RACK.replace("= 2", "= -1"), "machine_count", ["0"]),
        (SITE + EMPTY_RACK.replace("= 2", "= 1.5"), "machine_count", ["whole"]),
        (
            SITE + EMPTY_RACK.replace("%s", 'availability_zone = "a-b"'),
            "availability_zone",
            ["letters"],
        ),
        (
            SITE + EMPTY_RACK.replace("%s", 'name = "abcdefghijk"'),
            "name",
            ["availability_zone", "11"],
        ),
        (
            SITE + EMPTY_RACK.replace("%s", 'machine_sku = "bom-9"'),
            "machine_sku",
            ["bom-9", "bom-2.0"],
        ),
        (SITE + EMPTY_RACK.replace("%s", 'status = "on"'), "status", ["planned"]),
        (SITE + EMPTY_RACK.replace("%s", 'name = "a|b"'), "name", ["|"]),
        (
            SITE + EMPTY_RACK.replace("%s", 'machine_override "x-bm03" {\n}'),
            "machine_override",
            ["x-bm03"],
        ),
        (RACKS + cluster("a", pools=ZONED), "availability_zones", ['"r9"', '"r0", "r1", "r2"']),
        (
            RACKS + cluster("a", plane="NC_P46_24_v1"),
            "vm_sku_name",
            ["NC_P46_24_v1", "NC_P46_224_v1"],
        ),
        (RACKS + cluster("a", pools=pool("p", "-1")), "count       = -1", ["-1"]),
        (
            RACKS + cluster("a", pools=pool("control-plane", 1)),
            'agent_pool "control-plane"',
            ["control-plane"],
        ),
        (RACKS + cluster("a", pools=pool("x|y", 1)), 'agent_pool "x|y"', ["|"]),
        (RACKS + cluster("a", pools=pool("p", 1) + pool("p", 2)), 'agent_pool "p"', ["p"]),
        (build_cluster_with_pool('mode = "Sytem"'), "mode", ["System"]),
        (
            RACKS + cluster("a").replace("count       = 1", "count       = 0"),
            "count       = 0",
            ["1"],
        ),
        (
            RACKS + 'resource "nexus_kubernetes_cluster" "a" {\n site_id = nexus_site.s.id\n}\n',
            '"a"',
            ["control_plane"],
        ),
        (
            RACKS + cluster("a") + cluster("b", arguments='name = "a"'),
            'name = "a"',
            ["nexus_kubernetes_cluster.a"],
        ),
        (RACKS + EMPTY_RACK.replace("%s", 'name = "r1"'), 'name = "r1"', ["nexus_rack.r[1]"]),
        (RACKS + 'resource "nexus_site" "t" {\n name = "s"\n}\n', 'name = "s"', ["nexus_site.s"]),
        (
            build_cluster_with_arguments("count = 2"),
            'resource "nexus_kubernetes_cluster"',
            ["name"],
        ),
        (
            build_cluster_with_pool('availability_zones = ["r0", null]'),
            "availability_zones",
            ["null"],
        ),
        (build_cluster_with_pool("labels = { x = null }"), "labels", ["null"]),
        (RACKS + cluster("a", pools=pool("p", "pow(10, 40)")), "pow(10, 40)", ["count"]),
        (
            build_cluster_with_arguments('count = "inf"\n name = count.index'),
            'count = "inf"',
            ["number"],
        ),
        (
            build_cluster_with_arguments("count = pow(10, 12)\n name = count.index"),
            "pow(10, 12)",
            ["200000 instances"],
        ),
        (
            SITE + EMPTY_RACK.replace("= 2", "= length(uuid())"),
            "length(uuid())",
            ["known only after apply"],
        ),
        (
            build_cluster_with_pool("upgrade_settings {\n max_surge = substr(uuid(), 0, 1)\n}"),
            "max_surge",
            ["known only after apply"],
        ),
        (
            build_cluster_with_arguments("count = -2\n name = count.index"),
            "count = -2",
            ["count", "zero"],
        ),
        (build_cluster_with_arguments('for_each = ["x"]\n name = each.key'), "for_each", ["set"]),
        (build_cluster_with_arguments("name = each.key"), "each.key", ["for_each"]),
        (build_cluster_with_arguments("name = uuid()"), "name = uuid", ["known"]),
        (
            RACKS + cluster("a", pools=pool("p", "length(timestamp())")),
            "length(timestamp())",
            ["agent_pool"],
        ),
        (
            build_cluster_with_arguments("count = length(uuid())\n name = count.index"),
            "length(uuid())",
            ["count"],
        ),
        (
            RACKS + cluster("a").replace("nexus_site.s.id", '"t"'),
            'site_id = "t"',
            ["t", "Known sites: s"],
        ),
        (
            RACKS + cluster("a").replace("nexus_site.s.id", "nexus_site.t.id"),
            "nexus_site.t.id",
            ['"t"', "nexus_site.s"],
        ),
        (
            RACKS + cluster("a").replace("nexus_site.s.id", "nexus_site.s.idd"),
            "nexus_site.s.idd",
            ["id"],
        ),
        (build_cluster_with_arguments("name = var.nme"), "var.nme", ["nme"]),
        (RACKS + agent_pool("q", '"s/zz"', 1), "kubernetes_cluster_id", ["s/zz"]),
        (RACKS + VM.replace("cpu_cores = 4", "cpu_cores = 1"), "cpu_cores", ["2"]),
        (
            RACKS + VM.replace("nexus_site.s.id\n", 'nexus_site.s.id\n machine = "zz"\n'),
            'machine = "zz"',
            ["zz"],
        ),
        (
            build_cluster_with_pool('taint {\n key = "k"\n effect = "No"\n}'),
            "effect",
            ["NoSchedule"],
        ),
        (
            build_cluster_with_pool('upgrade_settings {\n max_surge = "0"\n}'),
            "upgrade_settings",
            ["max_unavailable"],
        ),
        (
            build_cluster_with_pool('upgrade_settings {\n max_surge = "some"\n}'),
            "max_surge",
            ["percent"],
        ),
        (
            RACKS + 'resource "nexus_rack" "x" {\n site_id = nexus_site.s.id\n machine_count = 1\n'
            ' machine_sku = "bom-2.0"\n machine {\n numa_cells = 1\n cpus_per_cell = 8\n'
            " memory_gib_per_cell = 8\n ephemeral_disk_gib = 9\n}\n}\n",
            "machine",
            ["machine_sku", "machine"],
        ),
        (
            RACKS + 'output "x" {\n value = nexus_kubernetes_cluster.none.id\n}\n',
            "_cluster.none",
            ["none"],
        ),
        (
            RACKS
            + cluster("a")
            + 'output "x" {\n value = nexus_kubernetes_cluster.a.nodes["a-np-0"].machine\n}\n',
            'nodes["a-np-0"]',
            ["a-np-0"],
        ),
        ('resource "nexus_site" "s" {\n', "nexus_site", []),
        ("resource {}\n", "resource", []),
    ],
)
def test_error_names_its_line(text: str, at: str, words: list[str]) -> None:
    text = text.replace("%s", "")
    found = list_problems(text)
    assert found, "nothing was wrong"
    said = " ".join(f"{d.summary} {d.detail}" for d in found)
    for word in words:
        assert word in said, said
    lines = {text[:i].count("\n") + 1 for i in range(len(text)) if text.startswith(at, i)}
    if words:
        assert lines & {get_line(d)[1] for d in found if d.subject}, (lines, found)


def test_all_errors_are_reported_together() -> None:
    text = (
        RACKS
        + cluster("a", plane="NC_X", pools=pool("p", 1, more='availability_zones = ["nowhere"]'))
        + cluster("b", arguments="name = var.missing")
        + VM.replace("cpu_cores = 4", 'cpu_cores = "four"')
        + 'resource "nexus_rack" "x" {\n  site_id = nexus_site.s.id\n  machine_count = 999\n}\n'
        + agent_pool("q", "nexus_kubernetes_cluster.b.id", 1, more="colour = 1")
    )
    found = list_problems(text)
    said = " ".join(f"{d.summary} {d.detail}" for d in found)
    for word in ("NC_X", "missing", "256", "colour"):
        assert word in said, word
    assert all(d.subject for d in found)
    four = text[: text.index('"four"')].count("\n") + 1
    assert four in {get_line(d)[1] for d in found}


def test_error_inside_module_names_its_file() -> None:
    files = {
        "main.nf.hcl": RACKS + 'module "m" {\n source = "./m"\n site = nexus_site.s.id\n}\n',
        "m/inner.nf.hcl": 'variable "site" {}\n'
        + cluster("a", plane="NC_X").replace("nexus_site.s.id", "var.site"),
    }
    (found,) = list_problems(files)
    assert get_line(found)[0] == "inner.nf.hcl"


def test_invalid_module_variable_is_reported_at_the_call() -> None:
    files = {
        "main.nf.hcl": RACKS + 'module "m" {\n source = "./m"\n n = "many"\n}\n',
        "m/main.nf.hcl": 'variable "n" {\n type = number\n}\n',
    }
    found = list_problems(files)
    assert any(get_line(d) == ("main.nf.hcl", RACKS.count("\n") + 3) for d in found if d.subject)


def test_failed_variable_validation_is_reported() -> None:
    rule = 'validation {\n condition = var.n < 3\n error_message = "too many"\n}'
    text = RACKS + f'variable "n" {{\n default = 5\n {rule}\n}}\n'
    (found,) = list_problems(text)
    assert "too many" in found.detail


def test_unknown_type_in_state_is_named() -> None:
    state = build_state_after(plan(RACKS))
    strange = {**state.instances}
    address = next(iter(strange))
    strange[type(address)((), "managed", "nexus_future", "x", None)] = strange[address]
    found = list_problems(RACKS, state=State(instances=strange))
    assert any("nexus_future" in d.detail for d in found)


# --- random configurations
# -------------------------------------------------------------------------

BASE: dict[str, Any] = {
    "variable": {"n": {"default": 2}},
    "locals": {"size": "NC_G6_28_v1", "zones": ["r0", "r1"]},
    "resource": [
        {"nexus_site": {"s": {"scheduler": {"rack_spread": "pool", "tie_break_seed": 4}}}},
        {"nexus_vm_sku": {"own": {"vcpus": 4, "memory_gib": 8}}},
        {
            "nexus_rack": {
                "r": {
                    "count": 2,
                    "site_id": "${nexus_site.s.id}",
                    "name": "r${count.index}",
                    "machine_count": 3,
                },
                "odd": {
                    "site_id": "s",
                    "machine_count": 2,
                    "machine": {
                        "numa_cells": 2,
                        "cpus_per_cell": 8,
                        "memory_gib_per_cell": 32,
                        "ephemeral_disk_gib": 900,
                    },
                    "machine_override": {"odd-bm01": {"cordoned": True}},
                },
            }
        },
        {
            "nexus_bare_metal_machine": {
                "m": {
                    "rack_id": "${nexus_rack.r[0].id}",
                    "slot": 9,
                    "machine_sku": "bom-2.0",
                    "occupied": [{"name": "x", "cpu_cores": 2, "memory_gib": 4, "cells": [1]}],
                }
            }
        },
        {
            "nexus_kubernetes_cluster": {
                "a": {
                    "site_id": "${nexus_site.s.id}",
                    "kubernetes_version": "1.30",
                    "control_plane": {"count": 1, "vm_sku_name": "${local.size}"},
                    "agent_pool": {
                        "p": {
                            "count": "${var.n}",
                            "vm_sku_name": "${nexus_vm_sku.own.name}",
                            "availability_zones": "${local.zones}",
                            "labels": {"a": "b"},
                            "taint": [{"key": "k", "effect": "NoSchedule"}],
                            "upgrade_settings": {"max_surge": "50%"},
                        }
                    },
                }
            }
        },
        {
            "nexus_agent_pool": {
                "q": {
                    "for_each": {"x": 1, "y": 0},
                    "name": "${each.key}",
                    "kubernetes_cluster_id": "${nexus_kubernetes_cluster.a.id}",
                    "node_count": "${each.value}",
                    "vm_sku_name": "NC_G6_28_v1",
                }
            }
        },
        {
            "nexus_virtual_machine": {
                "v": {
                    "site_id": "s",
                    "cpu_cores": 2,
                    "memory_gib": 2,
                    "disk_gib": 1,
                    "placement_hint": [
                        {
                            "hint_type": "AntiAffinity",
                            "resource_id": "s/a",
                            "scheduling_execution": "Soft",
                            "scope": "Rack",
                        }
                    ],
                }
            }
        },
    ],
    "output": {"o": {"value": '${nexus_kubernetes_cluster.a.nodes["a-p-0"].machine}'}},
}

ODD_VALUES = [
    None,
    True,
    0,
    1,
    -1,
    2.5,
    1e30,
    10**30,
    "",
    "x",
    "é" * 40,
    "a|b",
    "a/b",
    [],
    {},
    [None],
    [[]],
    {"": {}},
    {"x": None},
    "${var.n}",
    "${var.none}",
    "${local.zones}",
    "${local.none}",
    "${uuid()}",
    "${timestamp()}",
    "${1/0}",
    "${[",
    "${nexus_site.s}",
    "${nexus_rack.r}",
    "${nexus_rack.r[*].name}",
    "${nexus_rack.r[7].id}",
    "${nexus_kubernetes_cluster.a}",
    "${nexus_kubernetes_cluster.a.nodes}",
    "${nexus_kubernetes_cluster.a.node_count}",
    "${each.key}",
    "${count.index}",
    "${self.id}",
    "${sensitive(2)}",
    "${null}",
    "${nexus_virtual_machine.v.machine}",
    "${module.m.x}",
    "${data.nexus_inventory.i.racks}",
    "${toset([])}",
    "${tolist([1, 2])}",
    "${{}}",
    "${length(uuid())}",
    "${nexus_agent_pool.q}",
    '${nexus_agent_pool.q["x"].nodes}',
]
NEW_KEYS = [
    "count",
    "for_each",
    "depends_on",
    "lifecycle",
    "provider",
    "dynamic",
    "id",
    "name",
    "nodes",
    "zzz",
    "//",
]


def list_paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    inner = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, value in inner:
        found += list_paths(value, (*path, key))
    return found


@st.composite
def mutated_configurations(draw: st.DrawFn, base: dict[str, Any] = BASE) -> dict[str, Any]:
    document = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list_paths(document)))
        holder = document
        for step in path[:-1]:
            holder = holder[step]
        what = draw(st.sampled_from(("exchange", "exchange", "exchange", "remove", "add", "copy")))
        if what == "remove":
            del holder[path[-1]]
        elif what == "add" and isinstance(holder, dict):
            holder[draw(st.sampled_from(NEW_KEYS))] = copy.deepcopy(
                draw(st.sampled_from(ODD_VALUES))
            )
        elif what == "copy":
            other = document
            for step in draw(st.sampled_from(list_paths(document))):
                other = other[step]
            holder[path[-1]] = copy.deepcopy(other)
        else:
            holder[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
        if not list_paths(document):
            break
    return document


def convert_to_json(document: dict[str, Any]) -> str:
    return json.dumps(document)


fuzzing = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="NF_TEST_SITES" not in os.environ,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def try_plan(document: dict[str, Any], state: State, **options: Any) -> State:
    """Plan any input; return the state after it if there are no errors."""
    try:
        result = plan({"main.nf.json": convert_to_json(document)}, state, **options)
    except UnreadableConfigurationError as refused:
        if not all(p.summary for p in refused.problems):
            raise AssertionError(refused.problems) from refused
        return state
    for found in list_errors(result):
        assert found.summary
        assert found.detail
    assert not result.plan.errored or list_errors(result)
    if result.plan.errored:
        return state
    run(result.plan, state, 1, watch=False)
    return build_state_after(result, state)


OPTIONS: list[dict[str, Any]] = [
    {},
    {},
    {"mode": Mode.DESTROY},
    {"targets": ("nexus_kubernetes_cluster.a",)},
    {"suggested_fixes": True},
]


@fuzzing
@given(mutated_configurations())
def test_no_configuration_raises_an_exception(document: dict[str, Any]) -> None:
    state = try_plan(document, EMPTY)
    if state is not EMPTY:
        again = plan({"main.nf.json": convert_to_json(document)}, state)
        assert not list_errors(again)
        assert not {a for a in again.plan.placements if a.action != "keep"}


@pytest.fixture(scope="module", name="standing")
def _build_state() -> State:
    return build_state_after(plan({"main.nf.json": convert_to_json(BASE)}))


@fuzzing
@given(
    mutated_configurations(),
    st.sampled_from(
        [
            {},
            {},
            {"mode": Mode.DESTROY},
            {"targets": ("nexus_kubernetes_cluster.a",)},
            {"suggested_fixes": True},
        ]
    ),
)
def test_no_configuration_change_raises_an_exception(
    standing: State, document: dict[str, Any], options: dict[str, Any]
) -> None:
    after = try_plan(document, standing, **options)
    try_plan(BASE, after)


def test_unknown_site_of_existing_racks_raises_no_exception(standing: State) -> None:
    """The machines of such racks are unknown although VMs run on them."""
    document = copy.deepcopy(BASE)
    document["resource"] = [block for block in document["resource"] if "nexus_site" not in block]
    assert list_errors(plan({"main.nf.json": convert_to_json(document)}, standing))


@pytest.mark.parametrize("name", ["tonumber(nexus_site.s.id)", "local.failing", "module.m.failing"])
def test_failed_value_of_a_placement_argument_is_one_error(name: str) -> None:
    files = {
        "main.nf.hcl": SITE
        + (
            f'resource "nexus_site" "t" {{\n name = {name}\n}}\nlocals {{\n failing = '
            "tonumber(nexus_site.s.id)\n}\n"
        )
        + 'module "m" {\n source = "./m"\n text = nexus_site.s.id\n}\n',
        "m/main.nf.hcl": (
            'variable "text" {}\noutput "failing" {\n value = "${tonumber(var.text)}"\n}\n'
        ),
    }
    assert {d.id for d in list_errors(plan(files))} == {"invalid-function-argument"}


def test_invalid_blocks_of_an_existing_rack_are_an_error() -> None:
    rack = SITE + 'resource "nexus_rack" "r" {\n  site_id = nexus_site.s.id\n  machine_count = 2\n'
    blocks = (
        '  dynamic "machine_override" {\n    for_each = "r-bm01"\n    labels = ["x"]\n    content '
        "{}\n  }\n"
    )
    (problem,) = list_errors(plan(f"{rack}{blocks}}}\n", build_state(f"{rack}}}\n")))
    assert problem.summary == "Invalid dynamic for_each value"
