from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

MAIN = """\
variable "racks" {
  type = number
  validation {
    condition     = var.racks < 10
    error_message = "Too many racks: ${var.racks}."
  }
}
variable "hidden" {
  default   = "hush"
  sensitive = true
}
resource "nexus_site" "s" {
  name = "lab"
}
resource "nexus_rack" "r" {
  count             = var.racks
  site_id           = nexus_site.s.id
  name              = "r${count.index}"
  availability_zone = "1"
  machine_count     = 2
  lifecycle {
    precondition {
      condition     = var.racks != 7
      error_message = "Seven brings bad luck."
    }
  }
}
resource "nexus_kubernetes_cluster" "c" {
  site_id    = nexus_site.s.id
  depends_on = [nexus_rack.r]
  name       = "web"
  control_plane {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
  agent_pool "np1" {
    count       = 1
    vm_sku_name = "NC_G6_28_v1"
  }
}
output "machines" {
  value = sum([for r in nexus_rack.r : r.machine_count])
  precondition {
    condition     = var.racks != 8
    error_message = "Eight is odd."
  }
}
output "where" {
  value = nexus_kubernetes_cluster.c.nodes["web-np1-0"].machine
}
check "enough" {
  assert {
    condition     = length(nexus_rack.r) > 1
    error_message = "One rack only."
  }
}
"""


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(MAIN)
    return tmp_path


def run_tests(
    capsys: pytest.CaptureFixture[str], text: str | None = None, *arguments: str
) -> tuple[int, str, str]:
    if text is not None:
        Path("a.nftest.hcl").write_text(text)
    code = run_command_line(["test", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, " ".join(captured.err.replace("│", " ").split())


def build_assertion(condition: str, message: str = "no") -> str:
    return f'  assert {{\n    condition     = {condition}\n    error_message = "{message}"\n  }}\n'


def build_run(inner: str, name: str = "one") -> str:
    return f'run "{name}" {{\n{inner}}}\n'


THREE = "variables {\n  racks = 3\n}\n"


def test_runs_are_executed_in_order_and_resources_are_removed(
    capsys: pytest.CaptureFixture[str], working_directory: Path
) -> None:
    before = sorted(working_directory.iterdir())
    text = (
        THREE
        + build_run("  command = plan\n" + build_assertion("output.machines == 6"), "planned")
        + build_run(build_assertion("length(nexus_rack.r) == 3"), "applied")
        + build_run(build_assertion("output.machines == run.applied.machines"), "again")
    )
    code, out, err = run_tests(capsys, text)
    assert (code, err) == (0, "")
    assert out == (
        'a.nftest.hcl... pass\n  run "planned"... pass\n  run "applied"... pass\n  run "again"... '
        "pass\n\n"
        "Success! 3 passed, 0 failed.\n"
    )
    assert sorted(p for p in working_directory.iterdir() if p.name != "a.nftest.hcl") == before


def test_failed_assertion_shows_values_and_next_run_continues(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (
        THREE
        + build_run(build_assertion("output.machines == 5", "${output.machines} machines"), "bad")
        + build_run("", "next")
    )
    code, out, err = run_tests(capsys, text)
    assert code == 1
    assert 'run "bad"... fail\n  run "next"... pass' in out
    assert out.endswith("\nFailure! 1 passed, 1 failed.\n")
    assert 'on a.nftest.hcl line 6, in run "bad":' in err
    assert "output.machines is 6" in err
    assert "6 machines" in err


def test_error_ends_only_its_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tests").mkdir()
    Path("tests/b.nftest.hcl").write_text(THREE + build_run(""))
    text = 'variables {\n  racks = "x"\n}\n' + build_run("", "bad") + build_run("", "next")
    code, out, _ = run_tests(capsys, text)
    assert code == 1
    assert out == (
        'a.nftest.hcl... fail\n  run "bad"... fail\n  run "next"... skip\n'
        'tests/b.nftest.hcl... pass\n  run "one"... pass\n\nFailure! 1 passed, 1 failed, 1 '
        "skipped.\n"
    )


@pytest.mark.parametrize(
    ("racks", "command", "expected", "passes"),
    [
        (12, "plan", "var.racks", True),
        (7, "plan", "nexus_rack.r", True),
        (7, "plan", ", ".join(f"nexus_rack.r[{n}]" for n in range(7)), True),
        (7, "plan", "nexus_rack.r[3]", False),
        (8, "plan", "output.machines", True),
        (1, "plan", "check.enough", True),
        (1, "apply", "check.enough", True),
        (3, "plan", "check.enough", False),
        (1, "plan", "", False),
        (12, "plan", "", False),
        (12, "plan", "check.enough", False),
        (12, "apply", "var.racks", False),
    ],
)
def test_expected_failures(
    capsys: pytest.CaptureFixture[str], racks: int, command: str, expected: str, passes: bool
) -> None:
    variables = f"  variables {{\n    racks = {racks}\n  }}\n"
    inner = f"  command = {command}\n{variables}  expect_failures = [{expected}]\n"
    code, out, err = run_tests(capsys, build_run(inner))
    assert (code == 0) == passes, err
    assert (f'run "one"... {"pass" if passes else "fail"}') in out
    if not passes and racks == 3:
        assert "was expected to report an error but did not" in err


def test_expected_failure_of_variable_is_the_only_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Dependents of the variable would fail too."""
    inner = (
        "  command = plan\n  variables {\n    racks = 300000\n  }\n  expect_failures = "
        "[var.racks]\n"
    )
    code, _, err = run_tests(capsys, build_run(inner))
    assert (code, err) == (0, "")


def test_expected_failure_in_plan_of_apply_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """As in Terraform: the run fails, and the report has the failed condition."""
    variables = "  variables {\n    racks = 12\n  }\n"
    _, _, err = run_tests(capsys, build_run(f"{variables}  expect_failures = [var.racks]\n"))
    assert "Too many racks: 12." in err
    assert "Use command" in err


def test_local_value_is_no_expected_failure(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run_tests(capsys, THREE + build_run("  expect_failures = [local.a]\n"))
    assert code == 1
    assert '"local.a" has no conditions.' in err


def test_number_is_converted_to_the_message_of_an_assertion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (
        build_assertion("output.machines == 1").split("error_message")[0]
        + "error_message = output.machines\n  }\n"
    )
    code, _, err = run_tests(capsys, THREE + build_run(text))
    assert code == 1
    assert "output.machines is 6 6" in err
    assert "invalid error message" not in err


@pytest.mark.parametrize(
    ("condition", "passes"),
    [
        ("var.racks == 300000", True),
        ("output.machines == null", True),
        ("var.racks == 2", False),
        ("output.machines == 4", False),
        ("output.missing == 1", False),
    ],
)
def test_assertions_are_checked_after_expected_failure(
    capsys: pytest.CaptureFixture[str], condition: str, passes: bool
) -> None:
    """As in Terraform 1.11: the variable has its value, an output without a value is null."""
    inner = (
        "  command = plan\n  variables {\n    racks = 300000\n  }\n  expect_failures = "
        "[var.racks]\n"
    )
    code, out, err = run_tests(capsys, build_run(inner + build_assertion(condition)))
    assert (code == 0) == passes, out + err


def test_unknown_value_in_planned_assertion_requires_apply(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("more.nf.hcl").write_text('output "when" {\n  value = timestamp()\n}\n')
    code, _, err = run_tests(
        capsys, THREE + build_run("  command = plan\n" + build_assertion('output.when != ""'))
    )
    assert code == 1
    assert "Unknown condition value" in err


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("output.machine == 6", 'Did you mean "machines"?'),
        ("var.rack == 6", 'Did you mean "racks"?'),
        ("run.two.x == 1", 'No run block named "two" has run before this one.'),
        ("run.first.x == 1", "This object does not have an attribute named"),
        ('tonumber("x${var.racks}") == 1', "cannot convert"),
        ("[var.racks]", "A condition must be true or false"),
    ],
)
def test_invalid_assertion_is_an_error_at_its_place(
    capsys: pytest.CaptureFixture[str], condition: str, words: str
) -> None:
    code, out, err = run_tests(
        capsys,
        THREE
        + build_run("", "first")
        + build_run(build_assertion(condition), "two")
        + build_run("", "end"),
    )
    assert code == 1
    assert words in err
    assert "on a.nftest.hcl line" in err
    assert 'run "end"... skip' in out


def test_variables_of_run_override_all_other_sources(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_racks(text: str, *arguments: str) -> str:
        _, _, err = run_tests(
            capsys,
            text + build_run(build_assertion("var.racks == 0", "it is ${var.racks}")),
            *arguments,
        )
        return err.rpartition("it is ")[2].partition(" ")[0]

    monkeypatch.setenv("NF_VAR_racks", "2")
    assert read_racks("") == "2"
    Path("nexusform.nfvars.hcl").write_text("racks = 3\n")
    assert read_racks("") == "3"
    Path("tests").mkdir()
    Path("tests/x.auto.nfvars.hcl").write_text("racks = 4\n")
    assert read_racks("") == "4"
    assert read_racks("", "-var", "racks=5") == "5"
    assert read_racks("variables {\n  racks = 6\n}\n", "-var", "racks=5") == "6"
    text = "variables {\n  racks = 6\n}\n" + build_run(
        "  variables {\n    racks = var.racks + 3\n  }\n" + build_assertion("var.racks == 9")
    )
    assert run_tests(capsys, text)[0] == 0


@pytest.mark.parametrize("during", ["", "override_during = plan"])
def test_override_of_an_id_that_the_plan_knows(
    during: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text(
        'resource "nexus_site" "s" {}\noutput "id" {\n  value = nexus_site.s.id\n}\n'
    )
    values = f'  {during}\n  values = {{ id = "x" }}\n}}\n'
    override = f"override_resource {{\n  target = nexus_site.s\n{values}"
    run = build_run(build_assertion('output.id == "x"'))
    code, out, err = run_tests(capsys, override + run)
    assert (code, err) == (0, ""), out
    defaults = f'mock_resource "nexus_site" {{\n  {during}\n  defaults = {{ id = "x" }}\n}}\n'
    mock = f'mock_provider "simulated" {{\n{defaults}}}\n'
    code, out, err = run_tests(capsys, mock + run)
    assert (code, err) == (0, ""), out


def test_sensitive_variable_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = run_tests(
        capsys, THREE + build_run(build_assertion('var.hidden == "x"', "it is ${var.hidden}"))
    )
    assert "hush" not in err


def test_other_module_has_its_own_state(capsys: pytest.CaptureFixture[str]) -> None:
    Path("setup").mkdir()
    Path("setup/main.nf.hcl").write_text(
        'variable "n" {}\noutput "racks" {\n  value = var.n + 1\n}\n'
    )
    text = build_run(
        '  module {\n    source = "./setup"\n  }\n  variables {\n    n = 2\n  }\n', "setup"
    ) + build_run(
        "  variables {\n    racks = run.setup.racks\n  }\n"
        + build_assertion("output.machines == 6")
    )
    assert run_tests(capsys, text)[0] == 0
    code, _, err = run_tests(capsys, build_run('  module {\n    source = "./none"\n  }\n'))
    assert code == 1
    assert 'The directory "none" cannot be read' in err


def test_providers_of_file_replace_those_of_configuration(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fault = '  fault {\n    address = "*"\n    operation = "create"\n    error = "boom"\n  }\n'
    provider = f'provider "simulated" {{\n{fault}}}\n'
    code, _, err = run_tests(capsys, THREE + provider + build_run(""))
    assert code == 1
    assert "boom" in err
    Path("provider.nf.hcl").write_text(provider)
    assert run_tests(capsys, THREE + build_run(""))[0] == 1
    assert run_tests(capsys, THREE + 'mock_provider "simulated" {}\n' + build_run(""))[0] == 0
    renamed = provider.replace('"simulated" {', '"simulated" {\n  alias = "bad"', 1)
    text = (
        THREE
        + 'mock_provider "simulated" {}\n'
        + renamed
        + build_run("  providers = { simulated = simulated.bad }\n")
    )
    assert "boom" in run_tests(capsys, text)[2]


@pytest.mark.of_domains("azure", "hub", "vnf")
@pytest.mark.parametrize(
    "settings", ["", '  subscription_id = "00000000-0000-0000-0000-000000000001"\n']
)
def test_mocked_provider_needs_no_settings_and_no_server(
    settings: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AZURE_SUBSCRIPTION_ID", "ARM_SUBSCRIPTION_ID", "KUBECONFIG", "OS_CLOUD"):
        monkeypatch.delenv(name, raising=False)
    path = Path("main.nf.hcl")
    blocks = f'provider "azure" {{\n{settings}}}\n'
    cluster = 'resource "nexus_kubernetes_cluster" "c" {\n'
    path.write_text(blocks + path.read_text().replace(cluster, f"{cluster}  provider = azure\n"))
    assert "provider = azure" in path.read_text()
    mocks = "".join(f'mock_provider "{name}" {{}}\n' for name in ("azure", "fleet", "tacker"))
    code, out, err = run_tests(capsys, THREE + mocks + build_run(""))
    assert (code, err) == (0, ""), out + err
    code, _, err = run_tests(capsys, THREE + mocks.replace("fleet", "flet") + build_run(""))
    assert (code, "flet" in err) == (1, True)


@pytest.mark.of_domains("azure")
def test_resources_data_and_modules_can_be_overridden(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m").mkdir()
    Path("m/main.nf.hcl").write_text(
        'output "size" {\n  value = tonumber("x")\n}\noutput "other" {\n  value = 1\n}\n'
    )
    Path("more.nf.hcl").write_text(
        'module "m" {\n  source = "./m"\n}\noutput "size" {\n  value = module.m.size\n}\n'
        'data "nexus_inventory" "i" {\n  directory = "./nowhere"\n}\n'
        'output "zones" {\n  value = [for r in data.nexus_inventory.i.racks : '
        "r.availability_zone]\n}\n"
    )
    text = (
        THREE
        + "override_module {\n  target  = module.m\n  outputs = { size = 5 }\n}\n"
        + "override_data {\n  target = data.nexus_inventory.i\n"
        + '  values = { racks = { a = { availability_zone = "9" } }, machines = {} }\n}\n'
        + "override_resource {\n  target = nexus_kubernetes_cluster.c\n"
        + '  values = { nodes = { "web-np1-0" = { machine = "r2-bm02" } } }\n}\n'
        + build_run(
            "  command = plan\n" + build_assertion('output.size == 5 && output.zones == ["9"]'),
            "planned",
        )
        + build_run(
            build_assertion('output.where == "r2-bm02"', "it is ${output.where}"), "applied"
        )
    )
    code, out, err = run_tests(capsys, text)
    assert (code, err) == (0, ""), out


def test_override_during_plan_and_functions_in_values(capsys: pytest.CaptureFixture[str]) -> None:
    """As in Terraform 1.11 (override_during) and 1.13 (functions).

    Modules and data are known in each plan.
    """
    Path("more.nf.hcl").write_text(
        'resource "nexus_bare_metal_machine_action" "restart" {\n'
        '  machine_id = "${nexus_rack.r[0].id}/r0-bm01"\n  action = "Restart"\n'
        '  run_id = "1"\n  allow_workloads = true\n}\n'
    )
    kind = "nexus_bare_metal_machine_action"
    values = '{ result = upper("ok") }\n'
    check = build_assertion(f'{kind}.restart.result == "OK"')
    planned = build_run("  command = plan\n" + check, "planned")
    override = f"{THREE}override_resource {{\n  target = {kind}.restart\n"
    at_apply = f"{override}  values = {values}}}\n"
    code, _, err = run_tests(capsys, at_apply + planned)
    assert (code, "Unknown condition value" in err) == (1, True), err
    in_plan = f"{override}  override_during = plan\n  values = {values}}}\n"
    code, out, err = run_tests(capsys, in_plan + planned + build_run(check, "applied"))
    assert (code, err) == (0, ""), out + err
    mock = f'  mock_resource "{kind}" {{\n    defaults = {values}  }}\n'
    mocked = f'{THREE}mock_provider "simulated" {{\n  override_during = plan\n{mock}}}\n'
    assert run_tests(capsys, mocked + planned)[0] == 0
    assert (
        run_tests(
            capsys,
            mocked.replace("defaults =", "override_during = apply\n    defaults =") + planned,
        )[0]
        == 1
    )
    code, _, err = run_tests(capsys, in_plan.replace("= plan", "= later") + planned)
    assert (code, "must be apply or plan" in err) == (1, True)


def test_warning_of_apply_fails_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    """As in Terraform; here an object that exists without its machine."""
    values = "{ nodes = { web-np1-0 = { machine = null } } }"
    override = (
        f"override_resource {{\n  target = nexus_kubernetes_cluster.c\n  values = {values}\n}}\n"
    )
    code, out, err = run_tests(
        capsys, THREE + override + build_run(build_assertion("output.machines == 6"))
    )
    assert (code, 'run "one"... pass' in out) == (0, True), out + err
    assert "The provider reported no machine for" in out + err


def test_plan_options(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        THREE
        + build_run("  plan_options {\n    target = [nexus_site.s]\n  }\n")
        + build_run("  command = plan\n  plan_options {\n    mode = refresh-only\n  }\n", "two")
    )
    code, out, err = run_tests(capsys, text, "-verbose")
    assert (code, err) == (0, "")
    assert "# nexus_site.s" in out
    assert "# nexus_rack.r" not in out
    assert "still matches the configuration" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("run {}\n", "run"),
        ('run "a b" {}\n', "A name must start with a letter"),
        (build_run("") * 2, "Duplicate run block"),
        (build_run("  command = destroy\n"), "must be apply or plan"),
        (
            build_run("  plan_options {\n    mode = refresh-only\n    refresh = false\n  }\n"),
            "must read the objects",
        ),
        (build_run("  commnd = plan\n"), 'Did you mean "command"?'),
        ("override_data {\n  target = nexus_site.s\n}\n", "must be a data block"),
        ("locals {}\n", "Unsupported block type"),
        ('run "x" {\n', "a.nftest.hcl"),
    ],
)
def test_errors_in_test_files_are_reported_before_any_run(
    capsys: pytest.CaptureFixture[str], text: str, words: str
) -> None:
    code, out, err = run_tests(capsys, text)
    assert (code, out) == (1, "")
    assert words in err
    assert "on a.nftest.hcl line" in err


def test_validate_checks_test_files(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.nftest.hcl").write_text(build_run("  commnd = plan\n"))
    assert run_command_line(["validate"]) == 1
    assert "on a.nftest.hcl line 2" in capsys.readouterr().err
    assert run_command_line(["validate", "-no-tests"]) == 0


@pytest.mark.parametrize("command", ["test", "validate"])
def test_missing_test_directory_is_an_error(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("main.nf.hcl").write_text("")
    assert run_command_line([command]) == 0
    assert run_command_line([command, "-test-directory=none"]) == 1
    assert 'There is no directory "none".' in capsys.readouterr().err


def test_filter_and_directory(capsys: pytest.CaptureFixture[str]) -> None:
    Path("checks").mkdir()
    Path("checks/b.nftest.hcl").write_text(THREE + build_run("", "b"))
    assert "b.nftest" not in run_tests(capsys, THREE + build_run(""))[1]
    assert "checks/b.nftest.hcl... pass" in run_tests(capsys, None, "-test-directory=checks")[1]
    out = run_tests(capsys, None, "-test-directory=checks", "-filter=checks/b.nftest.hcl")[1]
    assert out.startswith("checks/b.nftest.hcl... pass")
    code, _, err = run_tests(capsys, None, "-filter=c.nftest.hcl")
    assert code == 1
    assert 'There is no test file "c.nftest.hcl".' in err


def test_no_test_files_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests(capsys) == (0, "\nExecuted 0 tests.\n", "")


def read_progress(event: dict[str, Any]) -> tuple[str, str, str | None, str | None]:
    """Return type, run or file, progress and status."""
    about = event.get("@testrun") or event.get("@testfile", "")
    document = event.get(event["type"], {})
    return event["type"], about, document.get("progress"), document.get("status") if about else None


def test_json_events_of_skipped_runs(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.nftest.hcl").write_text(
        THREE + build_run(build_assertion("nope")) + build_run("", "two")
    )
    assert run_command_line(["test", "-json"]) == 1
    events: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    ]
    told_of_runs = [read_progress(e)[1:] for e in events if e["type"] == "test_run"]
    assert told_of_runs[:3] == [
        ("one", "starting", None),
        ("one", "complete", "error"),
        ("two", "complete", "skip"),
    ]
    assert events[-1]["test_summary"]["status"] == "error"


def test_json_events(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.nftest.hcl").write_text(
        THREE + build_run(build_assertion("var.racks == 0", "why")) + build_run("", "two")
    )
    assert run_command_line(["test", "-json"]) == 1
    events: list[dict[str, Any]] = [
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    ]
    assert [read_progress(e) for e in events] == [
        ("version", "", None, None),
        ("test_abstract", "", None, None),
        ("test_file", "a.nftest.hcl", "starting", None),
        ("test_run", "one", "starting", None),
        ("test_run", "one", "complete", "fail"),
        ("diagnostic", "one", None, None),
        ("test_run", "two", "starting", None),
        ("test_run", "two", "complete", "pass"),
        ("test_file", "a.nftest.hcl", "teardown", None),
        ("test_run", "two", "teardown", None),
        ("test_file", "a.nftest.hcl", "complete", "fail"),
        ("test_summary", "", None, None),
    ]
    assert events[1]["test_abstract"] == {"a.nftest.hcl": ["one", "two"]}
    assert events[5]["diagnostic"]["detail"] == "why"
    assert events[-1]["test_summary"] == {
        "status": "fail",
        "passed": 1,
        "failed": 1,
        "errored": 0,
        "skipped": 0,
    }


def test_junit(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        THREE
        + build_run(build_assertion("var.racks == 0", "why <so>"))
        + build_run(build_assertion("nope"), "two")
        + build_run("", "three")
    )
    assert run_tests(capsys, text, "-junit-xml=out.xml")[0] == 1
    root = ET.parse("out.xml").getroot()
    (suite,) = root.findall("testsuite")
    assert suite.attrib == {
        "name": "a.nftest.hcl",
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    kinds = [[child.tag for child in case] for case in suite.findall("testcase")]
    assert kinds == [["failure"], ["error"], ["skipped"]]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "why <so>" in (failure.text or "")


def _run_small_test(
    directory: Path, capsys: pytest.CaptureFixture[str], test: str
) -> tuple[int, str]:
    """Run a test file of a configuration with one variable; return code and text on one line."""
    (directory / "main.nf.hcl").write_text(
        'variable "n" {\n  type = number\n}\noutput "n" {\n  value = var.n\n}\n'
    )
    (directory / "a.nftest.hcl").write_text(test)
    code = run_command_line([f"-chdir={directory}", "test"])
    captured = capsys.readouterr()
    return code, " ".join((captured.out + captured.err).replace("│", " ").split())


_ASSERTION = '  assert {{\n    condition = {}\n    error_message = "got ${{var.wanted}}"\n  }}\n'


@pytest.mark.parametrize(
    ("file_variables", "run_variables"),
    [
        ("  n = 1\n  wanted = 1\n", ""),
        ("  wanted = 1\n", "    n = var.wanted\n"),
        ("  wanted = 2\n", "    n = 1\n    wanted = 1\n"),
        ("  n = 1\n", "    wanted = 1\n"),
    ],
)
def test_variables_of_test_file_alone_are_usable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file_variables: str, run_variables: str
) -> None:
    def write_test(condition: str) -> str:
        variables = f"  variables {{\n{run_variables}  }}\n" if run_variables else ""
        run = f'run "a" {{\n{variables}{_ASSERTION.format(condition)}}}\n'
        return f"variables {{\n{file_variables}}}\n{run}"

    code, printed = _run_small_test(tmp_path, capsys, write_test("output.n == var.wanted"))
    assert code == 0, printed
    assert "Warning" not in printed
    code, printed = _run_small_test(tmp_path, capsys, write_test("output.n == var.wanted + 1"))
    assert code == 1
    assert "got 1" in printed
    code, printed = _run_small_test(tmp_path, capsys, write_test("output.n == var.wnted"))
    assert code == 1
    assert 'An input variable with the name "wnted" has not been declared.' in printed


def test_variable_of_test_file_is_unknown_to_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more.nf.hcl").write_text('output "w" {\n  value = var.wanted\n}\n')
    test = (
        'variables {\n  n = 1\n  wanted = 1\n}\nrun "a" {\n'
        + _ASSERTION.format("var.n == 1")
        + "}\n"
    )
    code, printed = _run_small_test(tmp_path, capsys, test)
    assert code == 1
    assert 'variable with the name "wanted" has not been declared' in printed


def test_invalid_variable_of_test_file_is_reported_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed = _run_small_test(tmp_path, capsys, 'variables {\n  n = "x"\n}\nrun "a" {\n}\n')
    assert code == 1
    assert printed.count("Error: ") == 1


@pytest.mark.parametrize("source", ["option", "text option", "file", "environment"])
def test_value_from_outside_for_test_file_alone_is_usable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "main.nf.hcl").write_text(
        'variable "n" {\n  type = any\n}\noutput "n" {\n  value = var.n\n}\n'
    )
    wanted = '"x"' if source == "text option" else "[1]"
    test = 'run "a" {\n  variables {\n    n = var.wanted\n  }\n'
    assertion = _ASSERTION.format(f"output.n == {wanted} && var.n == var.wanted")
    (tmp_path / "a.nftest.hcl").write_text(
        f"{test}{assertion.replace('got ${var.wanted}', 'got ${jsonencode(var.wanted)}')}}}\n"
    )
    options = []
    if source == "option":
        options = ["-var=wanted=[1]"]
    elif source == "text option":
        options = ["-var=wanted=x"]
    elif source == "file":
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "a.auto.nfvars.hcl").write_text("wanted = [1]\n")
    else:
        monkeypatch.setenv("NF_VAR_wanted", "[1]")
    code = run_command_line([f"-chdir={tmp_path}", "test", *options])
    printed = capsys.readouterr()
    assert code == 0, printed


def test_variable_of_file_that_a_run_does_not_use_is_no_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = (
        'variables {\n  n = run.first.n\n}\nrun "first" {\n  variables {\n    n = 1\n  }\n}\n'
        'run "second" {\n  assert {\n    condition = output.n == 1\n    error_message = "no"\n'
        "  }\n}\n"
    )
    code, printed = _run_small_test(tmp_path, capsys, test)
    assert code == 0, printed
    code, printed = _run_small_test(tmp_path, capsys, test.replace("run.first.n", "var.missing"))
    assert code == 1
    assert 'run "first"... pass' in printed
    assert printed.count('The variable "missing" has no value here') == 1
