"""Tests of long chains of locals and modules."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.planning.harness import list_errors, plan, require_success

MODULE = 'variable "v" {}\noutput "o" {\n  value = var.v + 1\n}\n'


@pytest.fixture(autouse=True)
def _default_recursion_limit() -> Iterator[None]:
    """Limit recursion to Python's default."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


def build_locals_chain(first: str, count: int) -> str:
    lines = [f"  l{number} = local.l{number - 1} + 1\n" for number in range(1, count)]
    # The last local comes first, to prevent early evaluation by chance.
    return f"locals {{\n{''.join(reversed(lines))}  l0 = {first}\n}}\n"


def test_chain_of_1_500_locals() -> None:
    result = require_success(
        plan(build_locals_chain("1", 1_500) + 'output "x" {\n  value = local.l1499\n}\n')
    )
    assert result.plan.root_values.planned_outputs["x"].value == 1_500


def test_chain_of_1_000_modules() -> None:
    calls = [
        f'module "m{number}" {{\n  source = "./m"\n  v      = module.m{number - 1}.o\n}}\n'
        for number in range(1, 1_000)
    ]
    first = 'module "m0" {\n  source = "./m"\n  v      = 1\n}\n'
    last = 'output "x" {\n  value = module.m999.o\n}\n'
    result = require_success(
        plan({"main.nf.hcl": "".join([last, *reversed(calls), first]), "m/main.nf.hcl": MODULE})
    )
    assert result.plan.root_values.planned_outputs["x"].value == 1_001


def test_error_at_start_of_chain_is_reported_once() -> None:
    result = plan(
        build_locals_chain("cidrhost(1, 2, 3)", 300) + 'output "x" {\n  value = local.l299\n}\n'
    )
    assert len(list_errors(result)) == 1


def test_cycle_of_any_length_is_reported() -> None:
    result = plan(build_locals_chain("local.l299", 300) + 'output "x" {\n  value = local.l299\n}\n')
    assert list_errors(result)


def test_errors_of_unreferenced_outputs_are_reported() -> None:
    child = 'variable "v" {}\noutput "o" {\n  value = tolist(var.v)[7]\n}\n'
    call = 'module "m" {\n  source = "./m"\n  v      = ["a"]\n}\n'
    [problem] = list_errors(plan({"main.nf.hcl": call, "m/main.nf.hcl": child}))
    assert problem.block == 'output "o"'
