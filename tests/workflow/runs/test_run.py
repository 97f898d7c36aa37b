from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.backends.memory import MemoryBackend
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.plans.plan import Action, Mode
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import Project, open_project
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.placement_explanation import explain_object
from nexusform.workflow.plan_files.plan_execution import ApplyOutcome, PlanApplyOptions, apply_plan
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run
from nexusform.workflow.runs.state_locking import LockOptions
from tests.applying.plans import Notes

CONFIGURATION = """
resource "nexus_site" "lab" {}
resource "nexus_rack" "r" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "r${count.index}"
  machine_count = 3
}
resource "nexus_kubernetes_cluster" "web" {
  site_id = nexus_site.lab.id
  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
  agent_pool "p" {
    count       = 3
    vm_sku_name = "NC_P22_112_v1"
  }
  depends_on = [nexus_rack.r]
}
output "where" {
  value = nexus_kubernetes_cluster.web.nodes["web-p-1"].machine
}
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandContext:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.nf.hcl").write_text(CONFIGURATION)
    return CommandContext(environment={"SOURCE_DATE_EPOCH": "1700000000"})


def opened(place: CommandContext, backend: Any = None) -> Project:
    found = open_project(place)
    assert found.project is not None, found.diagnostics
    return replace(found.project, backend=backend) if backend else found.project


def beginning(project: Project) -> AbstractContextManager[Run]:
    return begin_run(project, "test", LockOptions())


def applied(project: Project, **options: Any) -> ApplyOutcome:
    with beginning(project) as run:
        assert run.is_ready, run.diagnostics
        plan = run.plan(PlanOptions(**options)).plan
        assert not plan.errored, plan.diagnostics
        return apply_plan(run, plan, Notes(), PlanApplyOptions())


def outputs(project: Project) -> dict[str, Any]:
    stored, problems = read_stored_state(project.backend)
    assert stored is not None, problems
    return {name: output.value for name, output in stored.state.outputs.items()}


def test_an_apply_saves_the_state_and_gives_the_lock_back(place: CommandContext) -> None:
    project = opened(place, MemoryBackend())
    outcome = applied(project)
    assert outcome.is_complete
    assert project.backend.read_lock() is None
    assert project.backend.read_journal() == []
    stored, _ = read_stored_state(project.backend)
    assert stored is not None
    assert len(stored.state.instances) == 4
    with beginning(project) as run:
        assert not run.plan(PlanOptions()).plan.has_changes


def test_an_output_follows_what_was_observed(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text(
        'provider "simulated" {\n  fault {\n    address = "*web"\n    operation = "create"\n'
        '    answer = { "nodes[\\"web-p-1\\"].machine" = "r1-bm03" }\n  }\n}\n'
    )
    project = opened(place)
    outcome = applied(project)
    assert outcome.is_complete
    assert outcome.applied.hits + len(outcome.applied.ties) == 1
    assert not outcome.applied.wrong_predictions
    assert outputs(project) == {"where": "r1-bm03"}


def test_an_output_that_a_partial_apply_leaves_unknown_is_not_made_up(place: CommandContext) -> None:
    project = opened(place)
    assert applied(project, targets=("nexus_rack.r",)).is_complete
    assert outputs(project) == {}
    assert applied(project).is_complete
    assert outputs(project)["where"].startswith("r")


def test_outputs_stay_after_a_failure(place: CommandContext) -> None:
    project = opened(place)
    applied(project)
    before = outputs(project)
    Path("main.nf.hcl").write_text(CONFIGURATION.replace("count       = 3", "count       = 4") + "\n")
    Path("provider.nf.hcl").write_text(
        'provider "simulated" {\n  fault {\n    address = "*web"\n    operation = "update"\n'
        '    error = "no"\n  }\n}\noutput "more" {\n  value = 1\n}\n'
    )
    outcome = applied(opened(place))
    assert not outcome.is_complete
    assert outputs(project) == before


def test_a_state_that_cannot_be_saved_goes_to_a_file_beside(place: CommandContext) -> None:
    class Full(MemoryBackend):
        def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:  # noqa: ARG002 - the port's signature
            raise BackendProblem("The disk is full.")

    outcome = applied(opened(place, Full()))
    assert not outcome.is_complete
    (problem,) = outcome.diagnostics
    assert "errored.nfstate" in problem.detail
    assert "nexusform state push" in problem.detail
    assert len(json.loads(Path("errored.nfstate").read_text())["resources"]) == 3


def test_a_broken_state_is_told_of_and_nothing_is_written(place: CommandContext) -> None:
    Path("state").mkdir()
    Path("state/nexusform.nfstate").write_text('{"format": "nexusform", "kind": "state", "version": 1,')
    with beginning(opened(place)) as run:
        assert not run.is_ready
        assert "state/nexusform.nfstate" in _text(run.diagnostics)
    assert [p.name for p in Path("state").iterdir()] == ["nexusform.nfstate"]


def test_provider_aliases_have_settings_of_their_own(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text(
        'locals {\n  file = "second.json"\n}\nprovider "simulated" {\n  alias = "second"\n'
        '  reality = local.file\n}\nresource "nexus_vm_sku" "s" {\n  provider = simulated.second\n'
        '  name = "s"\n  vcpus = 2\n  memory_gib = 4\n}\n'
    )
    assert applied(opened(place)).is_complete
    assert [row["type"] for row in json.loads(Path("second.json").read_text())] == ["nexus_vm_sku"]


def test_explain_asks_the_plan_for_what_is_new_and_the_rules_for_what_stands(place: CommandContext) -> None:
    found = explain_object(place, "nexus_kubernetes_cluster.web", "web-p-1")
    (reason,) = found.reasons
    assert reason.current_placement is None
    assert reason.explained_vm.trigger == "new"
    project = opened(place)
    applied(project)
    (today,) = explain_object(place, "nexus_kubernetes_cluster.web", "web-p-1").reasons
    assert today.current_placement is not None
    assert today.current_placement.machine == outputs(project)["where"]
    assert today.serial == 1
    assert today.explained_vm.explanation.placement is not None
    several = explain_object(place, "nexus_kubernetes_cluster.web", "")
    assert several.objects == ("web-control-plane-0", "web-p-0", "web-p-1", "web-p-2")
    assert 'Did you mean "web-p-1"?' in _text(
        explain_object(place, "nexus_kubernetes_cluster.web", "web-p1").diagnostics
    )
    assert "Nothing to explain" in _text(explain_object(place, "nexus_site.lab", "").diagnostics)


def _text(found: Any) -> str:
    listed: list[Diagnostic] = list(found)
    return "\n".join(f"{d.summary}: {d.detail}" for d in listed)


def test_an_object_that_is_not_as_its_type_says_is_named_at_its_line(place: CommandContext) -> None:
    project = opened(place)
    applied(project)
    path = Path("state/nexusform.nfstate")
    text = path.read_text()
    edited = text.replace('"pool": "p"', '"pol": "p"', 1)
    path.write_text(edited)
    with beginning(project) as run:
        assert not run.is_ready
        told = run.diagnostics[0]
    assert told.summary == "Invalid state document"
    assert 'nodes["web-p-0"].pool' in told.detail or '"pool" is missing' in told.detail
    assert f"{path}.backup" in told.detail
    assert told.subject is not None
    assert path.read_text() == edited


def test_what_a_provider_answers_is_looked_at_before_planning(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "reality.json"\n}\n')
    project = opened(place)
    applied(project)
    reality = Path("reality.json")
    reality.write_text(reality.read_text().replace('"rack": "r0"', '"rack": 7', 1))
    with beginning(project) as run:
        plan = run.plan(PlanOptions()).plan
    assert plan.errored
    assert '.rack: "rack" must be a string' in plan.diagnostics[0].detail


def test_an_answer_that_is_not_of_the_type_is_refused(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text(
        'provider "simulated" {\n  fault {\n    address = "*web"\n    operation = "create"\n'
        '    answer = { "nodes[\\"web-p-1\\"].machine" = 5 }\n  }\n}\n'
    )
    project = opened(place)
    outcome = applied(project)
    assert not outcome.is_complete
    assert '"machine" must be a string' in str(outcome.applied)
    with beginning(project) as run:
        assert run.is_ready, "what was saved can be read"
        assert run.plan(PlanOptions()).plan.has_changes


def test_a_node_that_was_moved_to_a_machine_of_another_rack_is_drift_and_no_change(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "reality.json"\n}\n')
    project = opened(place)
    applied(project)
    reality = Path("reality.json")
    objects = json.loads(reality.read_text())
    for made in objects:
        for node in made["attributes"].get("nodes", {}).values():
            node["machine"] = {"r0-bm03": "r1-bm03"}.get(node["machine"], node["machine"])
    reality.write_text(json.dumps(objects))
    with beginning(project) as run:
        plan = run.plan(PlanOptions()).plan
    assert plan.drift
    assert not plan.errored
    assert all(change.action is Action.NO_OP for change in plan.changes)
    applied(project, mode=Mode.REFRESH_ONLY)
    with beginning(project) as run:
        assert not run.plan(PlanOptions()).plan.has_changes
    assert outputs(project) == {"where": "r1-bm03"}
