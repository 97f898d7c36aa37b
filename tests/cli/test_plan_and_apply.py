from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line

CONFIGURATION = """
variable "machines" {
  type    = number
  default = 2
}
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = var.machines
}
output "racks" {
  value = nexus_rack.r[*].id
}
"""

CommandResult = tuple[int, str, str]


@pytest.fixture
def nf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., CommandResult]:
    """Return a function for command lines in a directory with the configuration above.

    It returns code, stdout and stderr.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)

    def run_command(*arguments: str, answer: str = "") -> CommandResult:
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def read_state() -> dict[str, Any]:
    return json.loads(Path("state/nexusform.nfstate").read_text())


def test_plan_after_apply_has_no_changes(nf: Callable[..., CommandResult]) -> None:
    code, out, _ = nf("plan", "-detailed-exitcode")
    assert code == 2
    assert "Plan: 3 to add, 0 to change, 0 to destroy." in out
    assert not Path("state").exists()
    code, out, _ = nf("apply", "-auto-approve")
    assert code == 0
    assert (
        "Apply complete! Resources: 3 added, 0 changed, 0 destroyed.\nNo site was changed:" in out
    )
    assert 'racks = [\n  "lab/r0",' in out
    assert (read_state()["serial"], len(read_state()["lineage"])) == (1, 36)
    code, out, _ = nf("plan", "-detailed-exitcode")
    assert code == 0
    assert "No changes. Your infrastructure matches the configuration." in out
    before = Path("state/nexusform.nfstate").read_bytes()
    assert nf("apply", "-auto-approve")[0] == 0
    assert Path("state/nexusform.nfstate").read_bytes() == before


@pytest.mark.parametrize(("answer", "code"), [("yes\n", 0), ("y\n", 1), ("\n", 1), ("", 1)])
def test_only_yes_approves(nf: Callable[..., CommandResult], answer: str, code: int) -> None:
    given, out, _ = nf("apply", answer=answer)
    assert given == code
    assert "Do you want to perform these actions?" in out
    assert "Only 'yes' will be accepted to approve." in out
    assert ("Apply cancelled." in out) == bool(code)
    assert ("No answer on stdin. Add -auto-approve" in out) == (answer == "")
    assert Path("state/nexusform.nfstate").exists() == (not code)


@pytest.mark.parametrize("how", [["-input=false"], ["-json"]])
def test_approval_is_required_without_input(
    nf: Callable[..., CommandResult], how: list[str]
) -> None:
    code, out, err = nf("apply", *how)
    assert code == 1
    assert "Approval required" in out + err
    assert not Path("state").exists()


def test_nf_input_disables_prompts(
    nf: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NF_INPUT", "0")
    assert "Approval required" in nf("apply")[2]


def test_destroy(nf: Callable[..., CommandResult]) -> None:
    nf("apply", "-auto-approve")
    code, out, _ = nf("destroy", answer="no\n")
    assert code == 1
    assert "Do you really want to destroy all resources?" in out
    assert "Destroy cancelled." in out
    code, out, _ = nf("destroy", "-auto-approve")
    assert code == 0
    assert "Destroy complete! Resources: 3 destroyed." in out
    assert read_state()["resources"] == []


def test_last_variable_on_command_line_wins(nf: Callable[..., CommandResult]) -> None:
    Path("five.nfvars.hcl").write_text("machines = 5\n")
    code, out, _ = nf("plan", "-var", "machines=7", "-var-file=five.nfvars.hcl", "-report=json:-")
    assert code == 0
    assert json.loads(out)["variables"]["machines"]["value"] == 5
    out = nf("plan", "-var-file=five.nfvars.hcl", "-var=machines=7", "-report=json:-")[1]
    assert json.loads(out)["variables"]["machines"]["value"] == 7


def test_all_errors_are_reported_and_no_state_is_written(nf: Callable[..., CommandResult]) -> None:
    Path("more.nf.hcl").write_text(
        'resource "nexus_rak" "a" {}\nresource "nexus_rack" "b" {\n  nmae = 1\n}\n'
    )
    for command in (["plan"], ["apply", "-auto-approve"], ["validate"]):
        code, _, err = nf(*command)
        assert code == 1
        assert "nexus_rak" in err
        assert "nmae" in err
        assert "more.nf.hcl line 1" in err
    assert not Path("state").exists()


def test_json_event_stream(nf: Callable[..., CommandResult]) -> None:
    code, out, _ = nf("apply", "-auto-approve", "-json")
    assert code == 0
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "version"
    assert (
        kinds.count("planned_change")
        == kinds.count("apply_start")
        == kinds.count("apply_complete")
        == 3
    )
    summaries = [
        event["changes"]["operation"] for event in events if event["type"] == "change_summary"
    ]
    assert summaries == ["plan", "apply"]
    assert all(event["@timestamp"].endswith("Z") for event in events)


def test_reports(nf: Callable[..., CommandResult]) -> None:
    code, out, _ = nf(
        "plan", "-report=json:plan.json", "-report=markdown:plan.md", "-report=text:plan.txt"
    )
    assert code == 0
    assert "Plan: 3 to add" in out
    assert json.loads(Path("plan.json").read_text())["format_version"] == "1.2"
    assert "3 to add" in Path("plan.md").read_text().splitlines()[0]
    assert "Plan: 3 to add, 0 to change, 0 to destroy." in Path("plan.txt").read_text()
    assert nf("plan", "-report=markdown:-")[1] == Path("plan.md").read_text()
    assert 'Did you mean "markdown"?' in nf("plan", "-report=markdwn:x")[2]
    assert "only one report can go to stdout" in nf("plan", "-report=json:-", "-report=text:-")[2]


@pytest.mark.parametrize("flag", ["-target-file", "-exclude-file"])
@pytest.mark.parametrize("content", ["", "\n# nexus_site.lab\n"])
@pytest.mark.parametrize("command", ["plan", "apply -auto-approve", "destroy -auto-approve"])
def test_file_without_addresses_is_rejected(
    nf: Callable[..., CommandResult], flag: str, content: str, command: str
) -> None:
    Path("a.txt").write_text(content)
    code, _, err = nf(*command.split(), f"{flag}=a.txt")
    assert (code, 'The file of addresses "a.txt" contains no address.' in err) == (1, True), err
    assert not Path("state").exists()


def test_conflicting_flags_are_rejected(nf: Callable[..., CommandResult]) -> None:
    for given, words in (
        (["-destroy", "-refresh-only"], "-destroy and -refresh-only"),
        (["-refresh-only", "-refresh=false"], "-refresh-only and -refresh=false"),
        (["-target=nexus_site.lab", "-exclude=nexus_site.lab"], "-target and -exclude"),
    ):
        code, _, err = nf("plan", *given)
        assert code == 1
        assert words in err


def test_targets_can_be_read_from_a_file(nf: Callable[..., CommandResult]) -> None:
    Path("t.txt").write_text("# only the site\nnexus_site.lab  # this one\n\n")
    assert "Plan: 1 to add" in nf("plan", "-target-file=t.txt")[1]


SKUS_WITH_OUTPUTS = """
variable "sizes" {
  type    = list(number)
  default = [10, 10]
}
resource "nexus_vm_sku" "s" {
  count      = 2
  name       = "s${count.index}"
  vcpus      = 2
  memory_gib = var.sizes[count.index]
}
resource "nexus_vm_sku" "t" {
  name       = "t"
  vcpus      = 2
  memory_gib = var.sizes[1]
}
output "s" {
  value = nexus_vm_sku.s[*].memory_gib
}
output "second" {
  value = nexus_vm_sku.s[1].memory_gib
}
output "t" {
  value = nexus_vm_sku.t.memory_gib
  precondition {
    condition     = nexus_vm_sku.t.memory_gib < 100
    error_message = "Too large."
  }
}
output "sum" {
  value = nexus_vm_sku.s[0].memory_gib + nexus_vm_sku.t.memory_gib
}
output "sizes" {
  value = var.sizes
}
"""


@pytest.mark.parametrize(
    ("option", "names"),
    [
        ("-exclude=nexus_vm_sku.t", ["s", "second", "sizes"]),
        ("-exclude=nexus_vm_sku.s", ["sizes", "t"]),
        ("-exclude=nexus_vm_sku.s[1]", ["sizes", "sum", "t"]),
        ("-target=nexus_vm_sku.t", ["t"]),
        ("-target=nexus_vm_sku.s[0]", []),
        ("-target=nexus_vm_sku.s[1]", ["second"]),
    ],
)
def test_partial_plan_applies_its_planned_outputs(
    nf: Callable[..., CommandResult], option: str, names: list[str]
) -> None:
    Path("main.nf.hcl").write_text(SKUS_WITH_OUTPUTS)
    nf("plan", "-out=p", option)
    plan = json.loads(nf("show", "-json", "p")[1])
    assert sorted(plan["output_changes"]) == names
    assert nf("apply", "p")[0] == 0
    assert sorted(read_state()["outputs"]) == names
    assert nf("plan", "-detailed-exitcode", option)[0] == 0


def test_partial_plan_checks_its_planned_outputs(nf: Callable[..., CommandResult]) -> None:
    Path("main.nf.hcl").write_text(SKUS_WITH_OUTPUTS)
    large = "-var=sizes=[1,200]"
    assert nf("plan", "-target=nexus_vm_sku.s", large)[0] == 0
    assert "Too large." in nf("plan", "-target=nexus_vm_sku.t", large)[2]


CHECKS = """
check "c" {
  assert {
    condition     = nexus_vm_sku.t.memory_gib == 10
    error_message = "no"
  }
}
resource "nexus_vm_sku" "p" {
  name       = "p"
  vcpus      = 2
  memory_gib = 2
  lifecycle {
    postcondition {
      condition     = self.vcpus == 2
      error_message = "no"
    }
  }
}
"""


def test_destroy_plan_lists_checks_as_unknown(nf: Callable[..., CommandResult]) -> None:
    Path("main.nf.hcl").write_text(SKUS_WITH_OUTPUTS + CHECKS)
    nf("apply", "-auto-approve")
    nf("plan", "-destroy", "-out=p")
    checks = json.loads(nf("show", "-json", "p")[1])["checks"]
    assert [(check["address"]["to_display"], check["status"]) for check in checks] == [
        ("check.c", "unknown"),
        ("nexus_vm_sku.p", "unknown"),
        ("output.t", "unknown"),
    ]


def test_invalid_reality_file_is_an_error_of_the_plan(nf: Callable[..., CommandResult]) -> None:
    Path("main.nf.hcl").write_text(
        'provider "simulated" {\n  reality = "real.json"\n}\n' + SKUS_WITH_OUTPUTS
    )
    for text in ("{}", "[", '[{"type": 1}]', '"x"'):
        Path("real.json").write_text(text)
        code, _, err = nf("plan")
        assert (code, "The reality file real.json" in err) == (1, True)
    Path("real.json").write_text("[]")
    assert nf("plan")[0] == 0


# --- saved plans -------------------------------------------------------------------------------


def save_plan(nf: Callable[..., CommandResult], *more: str) -> None:
    code, out, err = nf("plan", "-out=p.nfplan", *more)
    assert code == 0, err
    assert 'nexusform apply "p.nfplan"' in out


def test_saved_plan_is_applied_without_prompt_and_only_once(
    nf: Callable[..., CommandResult],
) -> None:
    save_plan(nf)
    code, out, err = nf("apply", "p.nfplan")
    assert code == 0, err
    assert "Do you want" not in out
    assert "Resources: 3 added" in out
    code, _, err = nf("apply", "p.nfplan")
    assert code == 1
    assert "Saved plan already applied" in err


def test_saved_plan_is_applied_as_reviewed(nf: Callable[..., CommandResult]) -> None:
    save_plan(nf)
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("count         = 2", "count         = 9"))
    code, out, err = nf("apply", "p.nfplan")
    assert code == 0, err
    assert "Resources: 3 added" in out
    Path("main.nf.hcl").unlink()


def test_stale_plan_is_rejected_unless_replan_is_equal(nf: Callable[..., CommandResult]) -> None:
    nf("apply", "-auto-approve", "-target=nexus_site.lab")
    save_plan(nf)
    nf("apply", "-auto-approve", "-target=nexus_rack.r[0]")
    code, _, err = nf("apply", "p.nfplan")
    assert code == 1
    assert "Stale saved plan" in err

    nf("apply", "-auto-approve")
    save_plan(nf, "-var=machines=3")
    Path("other.nf.hcl").write_text('output "x" {\n  value = 1\n}\n')
    nf("apply", "-auto-approve")
    Path("other.nf.hcl").unlink()
    nf("apply", "-auto-approve")
    code, out, err = nf("apply", "p.nfplan")
    assert code == 0, err
    assert "State changed since plan" in out
    assert "Resources: 0 added, 2 changed" in out


def test_plan_of_another_state_is_rejected(nf: Callable[..., CommandResult]) -> None:
    nf("apply", "-auto-approve")
    save_plan(nf, "-var=machines=3")
    Path("state/nexusform.nfstate").unlink()
    nf("apply", "-auto-approve")
    code, _, err = nf("apply", "p.nfplan")
    assert code == 1
    assert "Saved plan state mismatch" in err


def test_other_values_by_flags_of_apply_are_rejected(nf: Callable[..., CommandResult]) -> None:
    save_plan(nf, "-var=machines=3")
    code, _, err = nf("apply", "p.nfplan", "-var=machines=4")
    assert code == 1
    assert 'The variable "machines" has another value (-var)' in err
    Path("four.nfvars.hcl").write_text("machines = 4\n")
    code, _, err = nf("apply", "p.nfplan", "-var-file=four.nfvars.hcl")
    assert code == 1
    assert 'The variable "machines" has another value (four.nfvars.hcl)' in err
    assert nf("apply", "p.nfplan", "-var=machines=3")[0] == 0


def read_machine_counts() -> set[int]:
    racks = [item for item in read_state()["resources"] if item["type"] == "nexus_rack"]
    (rack,) = racks
    return {item["attributes"]["machine_count"] for item in rack["instances"]}


@pytest.mark.parametrize("weaker_source", ["nexusform.nfvars.hcl", "a.auto.nfvars.hcl", ""])
def test_overridden_values_do_not_reject_plan(
    weaker_source: str, nf: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    if weaker_source:
        Path(weaker_source).write_text("machines = 4\n")
    else:
        monkeypatch.setenv("NF_VAR_machines", "4")
    Path("three.nfvars.hcl").write_text("machines = 3\n")
    save_plan(nf, "-var-file=three.nfvars.hcl")
    code, out, err = nf("apply", "-verify=replan", "p.nfplan")
    assert code == 0, err
    assert "changed since" not in out + err
    assert read_machine_counts() == {3}


def test_environment_of_apply_is_not_compared(
    nf: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_plan(nf, "-var=machines=3")
    monkeypatch.setenv("NF_VAR_machines", "4")
    code, _, err = nf("apply", "p.nfplan")
    assert code == 0, err
    assert read_machine_counts() == {3}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda: Path("v.auto.nfvars.hcl").write_text("machines = 9\n"), "changed"),
        (lambda: Path("w.auto.nfvars.hcl").write_text("machines = 9\n"), "was added"),
    ],
)
def test_changed_variable_file_warns_and_rejects_with_replan(
    change: Callable[[], object], text: str, nf: Callable[..., CommandResult]
) -> None:
    Path("v.auto.nfvars.hcl").write_text("machines = 3\n")
    save_plan(nf)
    change()
    code, out, err = nf("apply", "-verify=replan", "p.nfplan")
    assert code == 1
    assert f'auto.nfvars.hcl" {text}.' in join_lines(err)
    assert "No changes were made." in join_lines(err)
    assert not Path("state").exists()
    code, out, err = nf("apply", "p.nfplan")
    assert code == 0, err
    assert f'auto.nfvars.hcl" {text}. The plan is applied with its own values.' in join_lines(out)
    assert read_machine_counts() == {3}


def test_variable_file_that_cannot_be_read_is_a_warning(nf: Callable[..., CommandResult]) -> None:
    Path("v.auto.nfvars.hcl").write_text("machines = 3\n")
    save_plan(nf)
    Path("v.auto.nfvars.hcl").unlink()
    code, out, err = nf("apply", "-verify=replan", "p.nfplan")
    assert code == 0, err
    assert '"v.auto.nfvars.hcl" was removed, or cannot be read here.' in join_lines(out)
    assert read_machine_counts() == {3}


@pytest.mark.parametrize("flag", ["-verify=replan", ""])
@pytest.mark.parametrize("is_linked", [True, False])
def test_variable_file_outside_of_the_work_tree_is_not_compared(
    flag: str,
    nf: Callable[..., CommandResult],
    tmp_path_factory: pytest.TempPathFactory,
    *,
    is_linked: bool,
) -> None:
    secret = tmp_path_factory.mktemp("secrets") / "site.nfvars"
    secret.write_text("machines = 3\n")
    if is_linked:
        Path("v.auto.nfvars.hcl").symlink_to(secret)
    save_plan(nf, *([] if is_linked else [f"-var-file={secret}"]))
    secret.write_text("machines = 3 # rotated\n")
    code, out, err = nf("apply", *filter(None, [flag]), "p.nfplan")
    assert code == 0, err
    assert "Since the plan" not in join_lines(out + err)


def join_lines(text: str) -> str:
    """Join the lines of a boxed message."""
    return " ".join(text.replace("│", " ").split())


def test_planning_flags_with_saved_plan_are_rejected(nf: Callable[..., CommandResult]) -> None:
    save_plan(nf)
    code, _, err = nf("apply", "p.nfplan", "-destroy")
    assert code == 1
    assert "-destroy is a planning flag, and p.nfplan is a saved plan." in err


def test_damaged_plan_is_rejected(nf: Callable[..., CommandResult]) -> None:
    save_plan(nf)
    data = bytearray(Path("p.nfplan").read_bytes())
    data[len(data) // 2] ^= 1
    Path("p.nfplan").write_bytes(bytes(data))
    code, _, err = nf("apply", "p.nfplan")
    assert code == 1
    assert "Damaged plan file" in err
    assert not Path("state").exists()
    assert "There is no file" in nf("apply", "nothing.nfplan")[2]


def test_same_plan_gives_identical_file(nf: Callable[..., CommandResult]) -> None:
    save_plan(nf)
    first = Path("p.nfplan").read_bytes()
    save_plan(nf)
    assert Path("p.nfplan").read_bytes() == first


# --- failures ----------------------------------------------------------------------------------

FAULT = """
provider "simulated" {
  reality = "site.json"
  fault {
    address   = "nexus_rack.r[0]"
    operation = "create"
    error     = "the rack is not wired"
  }
}
"""


def test_next_apply_completes_a_failed_apply(nf: Callable[..., CommandResult]) -> None:
    Path("provider.nf.hcl").write_text(FAULT)
    code, out, _ = nf("apply", "-auto-approve")
    assert code == 1
    assert "Steps: 2 done, 1 failed, 0 skipped." in out
    assert "the rack is not wired" in out
    assert read_state()["serial"] == 1
    Path("provider.nf.hcl").write_text(FAULT.replace("the rack is not wired", ""))
    code, out, err = nf("apply", "-auto-approve")
    assert code == 0
    assert "Replanned steps" in out + err
    assert "Resources: 1 added, 0 changed" in out
    assert [row["id"] for row in json.loads(Path("site.json").read_text())] == [
        "lab/r0",
        "lab/r1",
        "lab",
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "it has the changes from the current state to its configuration."),
        (("-destroy",), "it destroys objects, and the remaining changes are dropped."),
        (("-refresh-only",), "the remaining changes are dropped: plan again for them."),
    ],
)
def test_remaining_changes_are_only_said_to_be_in_a_plan_that_has_them(
    nf: Callable[..., CommandResult], flags: tuple[str, ...], words: str
) -> None:
    Path("provider.nf.hcl").write_text(FAULT)
    assert nf("apply", "-auto-approve")[0] == 1
    site = json.loads(Path("site.json").read_text())
    # Something to record.
    site[0]["attributes"]["machine_count"] += 1
    Path("site.json").write_text(json.dumps(site))
    Path("provider.nf.hcl").write_text(FAULT.replace("the rack is not wired", ""))
    code, out, err = nf("apply", "-auto-approve", *flags)
    assert code == 0, err
    assert words in " ".join((out + err).replace("│", " ").split())
    assert "Nothing to resume" in nf("apply", "-resume")[2]


def test_interrupted_saved_plan_is_resumed_only_on_request(
    nf: Callable[..., CommandResult],
) -> None:
    Path("provider.nf.hcl").write_text(FAULT)
    save_plan(nf)
    assert "Nothing to resume" in nf("apply", "-resume")[2]
    assert "Nothing to resume" in nf("apply", "p.nfplan", "-resume")[2]
    assert nf("apply", "p.nfplan")[0] == 1
    assert "Saved plan already applied" in nf("apply", "p.nfplan")[2]
    code, out, err = nf("apply", "p.nfplan", "-resume")
    # The provider of the plan still injects the fault, once per run.
    assert code == 1, err
    assert "Steps: 0 done, 1 failed" in out
    Path("other.nf.hcl").write_text('output "more" {\n  value = 1\n}\n')
    nf("plan", "-out=q.nfplan")
    assert '"q.nfplan" is not the plan of the last apply.' in nf("apply", "q.nfplan", "-resume")[2]


def test_drift_is_shown_and_recorded(nf: Callable[..., CommandResult]) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "site.json"\n}\n')
    nf("apply", "-auto-approve")
    rows = json.loads(Path("site.json").read_text())
    Path("site.json").write_text(json.dumps([row for row in rows if row["id"] != "lab/r1"]))
    code, out, _ = nf("plan")
    assert code == 0
    assert re.search(r"- nexus_rack\.r\[1\] +r1: has been deleted", out)
    assert "Plan: 1 to add" in out
    assert "Plan: " not in nf("plan", "-refresh=false")[1]
    code, out, _ = nf("apply", "-refresh-only", "-auto-approve")
    assert code == 0
    held = [
        i["index_key"]
        for r in read_state()["resources"]
        if r["type"] == "nexus_rack"
        for i in r["instances"]
    ]
    assert held == [0]


def test_invalid_reality_file_is_reported(nf: Callable[..., CommandResult]) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "site.json"\n}\n')
    nf("apply", "-auto-approve")
    Path("site.json").write_text("{")
    code, _, err = nf("plan")
    assert code == 1
    assert "Invalid provider configuration" in err


SLOW_READ = """
provider "simulated" {
  fault {
    address   = "*"
    operation = "read"
    delay     = "soon"
  }
}
"""


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ('provider "azur" {}', 'There is no provider "azur"'),
        ('provider "simulated" {\n  relity = "x"\n}', "relity"),
        ('provider "simulated" {\n  reality = nexus_site.lab.id\n}', "must be known"),
        (SLOW_READ, '"delay" must be a duration such as "2s" or "300ms", not "soon"'),
    ],
)
def test_invalid_provider_settings_are_reported_with_line(
    nf: Callable[..., CommandResult], block: str, words: str
) -> None:
    Path("provider.nf.hcl").write_text(block + "\n")
    code, _, err = nf("plan")
    assert code == 1
    assert words in err
    assert "provider.nf.hcl line" in err


# --- show, graph -------------------------------------------------------------------------------


def test_show(nf: Callable[..., CommandResult]) -> None:
    save_plan(nf)
    nf("apply", "p.nfplan")
    assert 'resource "nexus_site" "lab"' in nf("show")[1]
    assert nf("show", "nexus_site.lab")[1].count("resource") == 1
    document = json.loads(nf("show", "-json")[1])
    assert len(document["values"]["root_module"]["resources"]) == 3
    assert json.loads(nf("show", "-json", "p.nfplan")[1])["resource_changes"]
    assert "Plan: 3 to add" in nf("show", "p.nfplan")[1]
    assert 'resource "nexus_site" "lab"' in nf("show", "state/nexusform.nfstate")[1]
    code, _, err = nf("show", "nexus_site.lob")
    assert code == 1
    assert 'Did you mean "nexus_site.lab"?' in err
    assert "cut off after 40 of" in nf("show", "-max-bytes=40")[1]


def test_graph(nf: Callable[..., CommandResult]) -> None:
    out = nf("graph")[1]
    assert '"nexus_rack.r" -> "nexus_site.lab";' in out
    assert '"nexus_site.lab" -> "nexus_rack.r";' in nf("graph", "-type=plan-destroy")[1]
    assert nf("graph", "-format=mermaid")[1].startswith("flowchart")
    save_plan(nf)
    assert '"nexus_rack.r[0]" -> "nexus_site.lab";' in nf("graph", "-plan=p.nfplan")[1]


def test_graph_of_invalid_configuration_is_not_drawn(nf: Callable[..., CommandResult]) -> None:
    Path("more.nf.hcl").write_text('resource "nexus_rack" {}\n')
    code, out, err = nf("graph")
    assert (code, out) == (1, "")
    assert "more.nf.hcl" in err


@pytest.mark.of_domains("azure")
def test_validate_checks_data_blocks_of_checks(nf: Callable[..., CommandResult]) -> None:
    data = 'data "nexus_inventory" "d" {\n    directory = "."\n    stray = 1\n  }'
    condition = 'condition = data.nexus_inventory.d != null\n    error_message = "x"'
    Path("check.nf.hcl").write_text(
        f'check "c" {{\n  {data}\n  assert {{\n    {condition}\n  }}\n}}\n'
    )
    code, _, err = nf("validate")
    assert code == 1
    assert 'An argument named "stray" is not expected here.' in err


def test_validate(nf: Callable[..., CommandResult]) -> None:
    assert nf("validate")[:2] == (0, "Success! The configuration is valid.\n")
    assert json.loads(nf("validate", "-json")[1])["valid"] is True
    Path("main.nf.hcl").write_text("resource {\n")
    code, out, _ = nf("validate", "-json")
    assert code == 1
    assert json.loads(out)["error_count"] > 0
