"""Chains of locals and modules are as long as a user writes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.planning.harness import errors, good, plan

MODULE = 'variable "v" {}\noutput "o" {\n  value = var.v + 1\n}\n'


@pytest.fixture(autouse=True)
def _pythons_own_bound() -> Iterator[None]:
    """Calls nest no deeper than Python lets them without asking."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


def locals_chain(first: str, count: int) -> str:
    lines = [f"  l{number} = local.l{number - 1} + 1\n" for number in range(1, count)]
    # The last comes first: nothing is worked out on the way by chance.
    return f"locals {{\n{''.join(reversed(lines))}  l0 = {first}\n}}\n"


def test_1_500_locals_in_a_chain() -> None:
    result = good(plan(locals_chain("1", 1_500) + 'output "x" {\n  value = local.l1499\n}\n'))
    assert result.plan.planned_outputs["x"].value == 1_500


def test_1_000_modules_in_a_chain() -> None:
    calls = [
        f'module "m{number}" {{\n  source = "./m"\n  v      = module.m{number - 1}.o\n}}\n'
        for number in range(1, 1_000)
    ]
    first = 'module "m0" {\n  source = "./m"\n  v      = 1\n}\n'
    last = 'output "x" {\n  value = module.m999.o\n}\n'
    result = good(plan({"main.nf.hcl": "".join([last, *reversed(calls), first]), "m/main.nf.hcl": MODULE}))
    assert result.plan.planned_outputs["x"].value == 1_001


def test_a_mistake_at_the_beginning_of_a_chain_is_told_once() -> None:
    result = plan(locals_chain("cidrhost(1, 2, 3)", 300) + 'output "x" {\n  value = local.l299\n}\n')
    assert len(errors(result)) == 1


def test_a_circle_is_told_however_long_it_is() -> None:
    result = plan(locals_chain("local.l299", 300) + 'output "x" {\n  value = local.l299\n}\n')
    assert errors(result)


def test_mistakes_of_outputs_to_which_nobody_refers_are_told() -> None:
    child = 'variable "v" {}\noutput "o" {\n  value = tolist(var.v)[7]\n}\n'
    call = 'module "m" {\n  source = "./m"\n  v      = ["a"]\n}\n'
    [problem] = errors(plan({"main.nf.hcl": call, "m/main.nf.hcl": child}))
    assert problem.block == 'output "o"'
