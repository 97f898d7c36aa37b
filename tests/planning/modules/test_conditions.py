from __future__ import annotations

from typing import Any

import pytest

from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.plans.plan import CheckResult, Mode
from tests.planning.harness import UnreadableConfigurationError, list_errors, list_warnings, plan

INNER = """
variable "zone" {
  type = string
  validation {
    condition     = length(var.zone) == 1
    error_message = "The zone ${var.zone} has more than one letter."
  }
}
locals {
  machines = nexus_rack.r.machine_count
}
resource "nexus_site" "s" {
  name = "site-${var.zone}"
}
resource "nexus_rack" "r" {
  site_id       = nexus_site.s.id
  name          = "r"
  machine_count = 2
}
output "machines" {
  value = local.machines
  precondition {
    condition     = local.machines > 1
    error_message = "Only ${local.machines} machines in ${var.zone}."
  }
}
output "hidden" {
  value     = "x${var.zone}"
  sensitive = true
}
check "even" {
  assert {
    condition     = local.machines % 2 == 0
    error_message = "An odd number of machines in ${var.zone}."
  }
}
"""
ROOT = """
variable "zones" {
  type    = set(string)
  default = ["a", "b"]
}
module "m" {
  source   = "./inner"
  for_each = var.zones
  zone     = each.key
}
"""


def build_module_tree(root: str = "", inner: str = INNER, **options: Any) -> PlanResult:
    return plan({"main.nf.hcl": ROOT + root, "inner/main.nf.hcl": inner}, **options)


def list_check_results(result: PlanResult) -> dict[str, CheckResult]:
    return {check.address: check for check in result.plan.verdicts.checks}


def test_conditions_of_every_module_instance_are_evaluated() -> None:
    result = build_module_tree()
    assert not list_errors(result)
    found = list_check_results(result)
    assert sorted(found) == [
        f'module.m["{key}"].{name}'
        for key in "ab"
        for name in ("check.even", "output.machines", "var.zone")
    ]
    assert {c.status for c in found.values()} == {"pass"}
    assert {c.kind for c in found.values()} == {"check", "output_value", "input_variable"}


def test_validation_error_in_module_names_the_call_argument() -> None:
    result = build_module_tree(variables=['zones=["a","bb"]'])
    (wrong,) = list_errors(result)
    assert wrong.summary == "Invalid value for variable"
    assert wrong.detail.startswith("The zone bb has more than one letter.\n\n")
    assert "validation rule at " in wrong.detail
    assert wrong.subject is not None
    assert wrong.subject.filename.endswith("main.nf.hcl")
    assert "inner" not in wrong.subject.filename
    assert wrong.address == 'module.m["bb"]'
    assert list_check_results(result)['module.m["bb"].var.zone'].status == "fail"
    assert list_check_results(result)['module.m["a"].var.zone'].status == "pass"


def test_failed_output_precondition_in_module_is_an_error() -> None:
    result = build_module_tree(inner=INNER.replace("machine_count = 2", "machine_count = 1"))
    assert {e.summary for e in list_errors(result)} == {"Module output value precondition failed"}
    assert {e.detail for e in list_errors(result)} == {
        "Only 1 machines in a.",
        "Only 1 machines in b.",
    }


def test_failed_check_block_warns_and_does_not_stop_plan() -> None:
    result = build_module_tree(inner=INNER.replace("machine_count = 2", "machine_count = 3"))
    assert not result.plan.errored
    assert {(w.summary, w.detail) for w in list_warnings(result)} == {
        ("Check block assertion failed", "An odd number of machines in a."),
        ("Check block assertion failed", "An odd number of machines in b."),
    }
    check = list_check_results(result)['module.m["a"].check.even']
    assert (check.status, check.messages) == ("fail", ("An odd number of machines in a.",))


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ('path.module != ""', "pass"),
        ('path.module == ""', "fail"),
        ('tonumber("x${path.module}") == 1', "error"),
        ("timestamp() == path.module", "unknown"),
        ("[path.module]", "error"),
    ],
)
def test_check_status_is_reported_without_errors(condition: str, status: str) -> None:
    text = (
        f'check "c" {{\n  assert {{\n    condition = {condition}\n    error_message = "no"\n  }}\n'
        f"}}\n"
    )
    result = plan(text)
    assert not list_errors(result)
    assert list_check_results(result)["check.c"].status == status
    assert bool(list_warnings(result)) == (status in ("fail", "error"))


def test_sensitive_error_message_is_hidden() -> None:
    result = plan(
        'variable "s" {\n  default = "hush"\n  sensitive = true\n}\n'
        'check "c" {\n  assert {\n    condition = var.s == ""\n    error_message = "it is '
        '${var.s}"\n  }\n}\n'
    )
    (told,) = list_warnings(result)
    assert "hush" not in told.detail


def test_root_validation_may_refer_to_planned_values() -> None:
    text = (
        'variable "least" {\n  default = 3\n  validation {\n'
        "    condition = nexus_rack.r.machine_count >= var.least\n"
        '    error_message = "too few"\n  }\n}\n'
        'resource "nexus_site" "s" {}\n'
        'resource "nexus_rack" "r" {\n  site_id = nexus_site.s.id\n  machine_count = 2\n}\n'
    )
    result = plan(text)
    assert [e.detail.split("\n")[0] for e in list_errors(result)] == ["too few"]
    assert not list_errors(plan(text, variables=["least=2"]))


def test_nested_count_and_for_each_work_in_one_plan() -> None:
    files = {
        "main.nf.hcl": ROOT.replace("zone     = each.key", 'zones = ["1", "2"]\n  name = each.key'),
        "inner/main.nf.hcl": (
            'variable "zones" {\n  type = list(string)\n}\nvariable "name" {}\n'
            'module "deep" {\n  source = "./deep"\n  count = length(var.zones)\n'
            '  name = "${var.name}${var.zones[count.index]}"\n}\n'
            'output "all" {\n  value = module.deep[*].id\n}\n'
        ),
        "inner/deep/main.nf.hcl": (
            'variable "name" {}\nresource "nexus_site" "s" {\n  name = var.name\n}\n'
            'output "id" {\n  value = nexus_site.s.id\n}\noutput "path" {\n  value = path.module\n'
            "}\n"
        ),
    }
    result = plan({**files, "out.nf.hcl": 'output "o" {\n  value = module.m["a"].all\n}\n'})
    assert not list_errors(result)
    assert [str(c.address) for c in result.plan.changes] == [
        f'module.m["{key}"].module.deep[{n}].nexus_site.s' for key in "ab" for n in (0, 1)
    ]
    assert result.plan.root_values.planned_outputs["o"].value == ["a1", "a2"]


def test_sensitive_module_output_stays_sensitive() -> None:
    result = build_module_tree('output "h" {\n  value = module.m["a"].hidden\n}\n')
    assert [e.summary for e in list_errors(result)] == ["Output refers to sensitive values"]
    assert not list_errors(
        build_module_tree('output "h" {\n  value = module.m["a"].hidden\n  sensitive = true\n}\n')
    )


@pytest.mark.of_domains("azure")
def test_duplicate_data_names_in_checks_are_an_error() -> None:
    text = "".join(
        f'check "{name}" {{\n  data "nexus_inventory" "i" {{\n    directory = "x"\n  }}\n'
        '  assert {\n    condition = path.module != ""\n    error_message = "no"\n  }\n}\n'
        for name in "ab"
    )
    with pytest.raises(UnreadableConfigurationError) as refused:
        plan(text)
    assert [p.summary for p in refused.value.problems] == [
        'Duplicate data "nexus_inventory" configuration'
    ]


def test_target_excludes_outputs_and_checks_of_other_blocks() -> None:
    text = (
        'resource "nexus_site" "s" {}\n'
        'resource "nexus_rack" "r" {\n  count = 2\n  name = "r${count.index}"\n'
        "  site_id = nexus_site.s.id\n  machine_count = 1\n}\n"
        'output "machines" {\n  value = sum([for r in nexus_rack.r : r.machine_count])\n}\n'
        'output "racks" {\n  value = length(nexus_rack.r)\n}\n'
        'check "c" {\n  assert {\n    condition = length(nexus_rack.r) == 0\n'
        '    error_message = "no"\n  }\n}\n'
    )
    result = plan(text, targets=("nexus_site.s",))
    assert not list_errors(result)
    assert result.plan.root_values.planned_outputs == {}
    assert result.plan.verdicts.checks == ()


REJECTED = """
variable "n" {
  type    = number
  default = 300
  validation {
    condition     = var.n <= 256
    error_message = "At most 256."
  }
}
locals {
  names = toset([for i in range(var.n) : "r${i}"])
}
resource "nexus_site" "s" {}
module "m" {
  source   = "./inner"
  for_each = local.names
  zone     = each.key
}
resource "nexus_rack" "%s" {
  site_id       = nexus_site.s.id
  name          = "r"
  machine_count = var.n
}
resource "nexus_rack" "many" {
  count         = var.n / (var.n - 300)
  site_id       = nexus_site.s.id
  name          = "m${count.index}"
  machine_count = 1
  lifecycle {
    precondition {
      condition     = var.n == 1
      error_message = "Not one."
    }
  }
}
output "o" {
  value = 1 / (var.n - 300)
}
check "c" {
  assert {
    condition     = var.n == 2
    error_message = "Not two."
  }
}
"""


@pytest.mark.parametrize("mode", list(Mode))
def test_expressions_using_rejected_variable_are_not_evaluated(mode: Mode) -> None:
    result = plan({"main.nf.hcl": REJECTED % "r", "inner/main.nf.hcl": INNER}, mode=mode)
    assert [d.address for d in result.plan.diagnostics if d.id != "no-racks"] == ["var.n"]


def test_other_errors_beside_rejected_variable_are_reported() -> None:
    text = (
        REJECTED % "r"
        + 'resource "nexus_rack" "x" {\n  site_id = "lab"\n  name = 1 / 0\n  machine_count = 1\n}\n'
    )
    result = plan({"main.nf.hcl": text, "inner/main.nf.hcl": INNER})
    assert [d.id for d in list_errors(result)] == ["division-by-zero", "invalid-value-for-variable"]


def build_condition_block(kind: str, condition: str, message: str = '"no"') -> str:
    return (
        f"    {kind} {{\n      condition     = {condition}\n      error_message = {message}\n    "
        "}\n"
    )


def test_failed_precondition_hides_errors_that_follow_from_it() -> None:
    """As in Terraform 1.11, which evaluates neither the arguments nor what refers to them."""
    condition = build_condition_block("precondition", "var.n > 1", '"n is too small"')
    text = f"""
variable "n" {{
  default = 0
}}
resource "nexus_site" "a" {{
  name = tonumber("x${{var.n}}")
  lifecycle {{
{condition}  }}
}}
resource "nexus_site" "b" {{
  count = length(nexus_site.a.name)
  name  = "b"
}}
output "o" {{
  value = tonumber("y${{var.n}}")
{condition}}}
resource "nexus_site" "c" {{
  name = "c"
}}
output "c" {{
  value = tonumber("z${{var.n}}")
}}
"""
    problems = [(problem.id, problem.address) for problem in list_errors(plan(text))]
    assert sorted(problems) == [
        # The output without a precondition.
        ("invalid-function-argument", ""),
        ("module-output-value-precondition-failed", "output.o"),
        ("resource-precondition-failed", "nexus_site.a"),
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("[var.n]", "invalid-error-message"),
        ("var.n == 0 ? null : null", "invalid-error-message"),
        ('tonumber("x${var.n}")', "invalid-function-argument"),
        # As in Terraform, a number is text.
        ("5", ""),
    ],
)
@pytest.mark.parametrize("condition", ["var.n > 1", "var.n < 1"])
def test_invalid_error_message_is_an_error_even_if_the_condition_holds(
    message: str, expected: str, condition: str
) -> None:
    block = build_condition_block("precondition", condition, message)
    text = (
        f'variable "n" {{\n  default = 0\n}}\nresource "nexus_site" "a" {{\n  lifecycle {{\n'
        f"{block}  }}\n}}\n"
    )
    problems = list_errors(plan(text))
    failed = ["resource-precondition-failed"] if condition == "var.n > 1" else []
    assert sorted(problem.id for problem in problems) == sorted(
        [*([expected] if expected else []), *failed]
    )
    assert all(problem.subject is not None for problem in problems)
    if failed:
        text = next(problem.detail for problem in problems if problem.id in failed)
        assert text == (
            "This check failed. Its error message cannot be shown." if expected else "5"
        )


def test_failed_precondition_of_a_module_output_is_an_error_of_a_targeted_plan() -> None:
    condition = build_condition_block("precondition", "local.n > 1")
    files = {
        "main.nf.hcl": (
            'module "m" {\n  source = "./m"\n}\nresource "nexus_site" "a" {\n  name = module.m.o\n'
            "}\n"
        ),
        "m/main.nf.hcl": f'locals {{\n  n = 0\n}}\noutput "o" {{\n  value = "a"\n{condition}}}\n',
    }
    (problem,) = list_errors(plan(files, targets=("nexus_site.a",)))
    assert (problem.id, problem.address) == (
        "module-output-value-precondition-failed",
        "module.m.output.o",
    )


def test_failed_precondition_of_a_vm_sku_is_the_only_error() -> None:
    condition = build_condition_block("precondition", "local.n > 2", '"no"')
    text = f"""
locals {{
  n = 1
}}
resource "nexus_site" "a" {{}}
resource "nexus_rack" "r" {{
  site_id       = nexus_site.a.id
  name          = "r"
  machine_count = 4
}}
resource "nexus_vm_sku" "big" {{
  name       = "BIG"
  vcpus      = 4
  memory_gib = 16
  numa_cells = 1
  lifecycle {{
{condition}  }}
}}
resource "nexus_kubernetes_cluster" "c" {{
  site_id = nexus_site.a.id
  control_plane {{
    count       = 1
    vm_sku_name = "BIG"
  }}
  depends_on = [nexus_vm_sku.big]
}}
"""
    assert [problem.id for problem in list_errors(plan(text))] == ["resource-precondition-failed"]
