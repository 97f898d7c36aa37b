"""Tests of configurations with tokens removed, duplicated, swapped or inserted.

Errors are diagnostics, never tracebacks.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic, Severity
from nexusform.plans.plan import Plan
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.directory_validation import validate_directory
from nexusform.workflow.opening.project import open_project
from nexusform.workflow.runs.run import PlanOptions, begin_run
from nexusform.workflow.runs.state_locking import LockOptions
from tests.diagnostics.test_summaries import list_known_ids
from tests.kill_points import select_cases

SAMPLE = """\
nexusform {
  required_version = ">= 0.1"
  lint {
    ignore = ["zones-pinned"]
  }
}
variable "racks" {
  type    = map(object({ zone = string, machines = optional(number, 4) }))
  default = { a = { zone = "1" }, b = { zone = "2", machines = 3 } }
  validation {
    condition     = alltrue([for r in values(var.racks) : r.machines > 0])
    error_message = "No machines in ${join(", ", keys(var.racks))}."
  }
}
locals {
  names = { for k, r in var.racks : k => upper("rack-${k}") if r.machines != null }
  text  = <<-EOT
    %{for k, v in local.names~}
    ${k} = ${v}
    %{endfor~}
  EOT
  most  = max([for r in values(var.racks) : r.machines]...)
  odd   = local.most % 2 == 1 ? "odd" : "even"
}
provider "simulated" {
  alias = "other"
}
resource "nexus_site" "main" {
  name     = "lab"
  provider = simulated.other
}
resource "nexus_rack" "r" {
  for_each          = var.racks
  site_id           = nexus_site.main.id
  name              = local.names[each.key]
  availability_zone = each.value.zone
  machine_count     = each.value.machines
  lifecycle {
    create_before_destroy = false
    ignore_changes        = [machine_count]
    postcondition {
      condition     = length(self.machines) == each.value.machines
      error_message = "Not as many machines."
    }
  }
}
resource "nexus_kubernetes_cluster" "c" {
  site_id    = nexus_site.main.id
  name       = "web"
  depends_on = [nexus_rack.r]
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  dynamic "agent_pool" {
    for_each = { np1 = 2, np2 = 1 }
    labels   = [agent_pool.key]
    content {
      count              = agent_pool.value
      vm_sku_name        = "NC_G6_28_v1"
      availability_zones = ["1", "2"]
      labels             = { tier = agent_pool.key }
    }
  }
}
module "extra" {
  source = "./extra"
  count  = 2
  name   = "extra-${count.index}"
}
moved {
  from = nexus_rack.old
  to   = nexus_rack.r["a"]
}
check "spread" {
  assert {
    condition     = length(distinct(values(nexus_kubernetes_cluster.c.nodes)[*].rack)) > 1
    error_message = "All on one rack."
  }
}
output "where" {
  value       = { for n, node in nexus_kubernetes_cluster.c.nodes : n => node.machine... }
  description = "Machines by node."
}
output "extra" {
  value     = module.extra[*].id
  sensitive = true
}
"""
EXTRA = """\
variable "name" {
  type = string
}
resource "nexus_site" "s" {
  name = var.name
}
output "id" {
  value = nexus_site.s.id
}
"""
_TOKENS = re.compile(r'\s+|[A-Za-z_][\w-]*|\d+|"|\$\{|%\{|=>|==|!=|>=|\.\.\.|<<-?|.', re.DOTALL)
_MORE = [
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    '"',
    "${",
    "=",
    ",",
    ".",
    "\n",
    "?",
    ":",
    "for",
    "in",
    "null",
    "0",
    "-",
    "*",
]


def mutate_tokens(text: str, choice: random.Random) -> str:
    tokens = _TOKENS.findall(text)
    for _ in range(choice.choice([1, 1, 1, 2, 3])):
        at = choice.randrange(len(tokens))
        other = choice.randrange(len(tokens))
        kind = choice.randrange(4)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 2:
            tokens.insert(at, choice.choice(_MORE))
        else:
            tokens.insert(at, tokens[other])
    return "".join(tokens)


@pytest.fixture
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("extra").mkdir()
    Path("extra/main.nf.hcl").write_text(EXTRA)
    return tmp_path


def is_inside_file(found: Diagnostic, text: str) -> bool:
    span = found.subject
    if span is None or span.filename != "main.nf.hcl":
        return True
    return (
        1 <= span.start.line <= text.count("\n") + 1
        and 0 <= span.start.byte <= span.end.byte <= len(text.encode())
        and bool(found.summary)
    )


@pytest.mark.usefixtures("working_directory")
def test_sample_is_valid() -> None:
    Path("main.nf.hcl").write_text(SAMPLE)
    assert validate_directory(CommandContext()).diagnostics == ()
    assert not plan_directory().errored


def plan_directory() -> Plan:
    opened = open_project(CommandContext())
    assert opened.project is not None, opened.diagnostics
    with begin_run(opened.project, "test", LockOptions(enabled=False)) as run:
        return run.plan(PlanOptions(samples=0)).plan


@pytest.mark.parametrize("seed", select_cases(range(10)))
@pytest.mark.usefixtures("working_directory")
def test_a_hundred_mutations_give_only_diagnostics(seed: int) -> None:
    choice = random.Random(seed)
    broken = 0
    for _ in range(100):
        text = mutate_tokens(SAMPLE, choice)
        Path("main.nf.hcl").write_text(text)
        found = validate_directory(CommandContext()).diagnostics
        assert all(is_inside_file(d, text) for d in found), text
        assert all(d.id in list_known_ids() for d in found), text
        broken += any(d.severity is Severity.ERROR for d in found)
    assert broken > 60


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.usefixtures("working_directory")
def test_valid_mutations_can_be_planned(seed: int) -> None:
    choice = random.Random(1000 + seed)
    for _ in range(40):
        Path("main.nf.hcl").write_text(mutate_tokens(SAMPLE, choice))
        opened = open_project(CommandContext())
        if opened.project is None:
            assert opened.diagnostics
            continue
        with begin_run(opened.project, "test", LockOptions(enabled=False)) as run:
            if run.is_ready:
                made = run.plan(PlanOptions(samples=0)).plan
                assert made.changes or made.diagnostics
