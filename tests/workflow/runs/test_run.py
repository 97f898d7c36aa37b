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
from nexusform.workflow.object_explanation import explain_object
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.project import Project, open_project
from nexusform.workflow.opening.stored_state import read_stored_state
from nexusform.workflow.plan_files.plan_execution import ApplyOutcome, PlanApplyOptions, apply_plan
from nexusform.workflow.runs.run import PlanOptions, Run, begin_run
from nexusform.workflow.runs.state_locking import LockOptions
from tests.applying.plans import RecordingListener

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


def open_test_project(place: CommandContext, backend: Any = None) -> Project:
    found = open_project(place)
    assert found.project is not None, found.diagnostics
    return replace(found.project, backend=backend) if backend else found.project


def begin_test_run(project: Project) -> AbstractContextManager[Run]:
    return begin_run(project, "test", LockOptions())


def plan_and_apply(project: Project, **options: Any) -> ApplyOutcome:
    with begin_test_run(project) as run:
        assert run.is_ready, run.diagnostics
        plan = run.plan(PlanOptions(**options)).plan
        assert not plan.errored, plan.diagnostics
        return apply_plan(run, plan, RecordingListener(), PlanApplyOptions())


def read_outputs(project: Project) -> dict[str, Any]:
    stored, problems = read_stored_state(project.backend)
    assert stored is not None, problems
    return {name: output.value for name, output in stored.state.outputs.items()}


def test_apply_saves_the_state_and_releases_the_lock(place: CommandContext) -> None:
    project = open_test_project(place, MemoryBackend())
    outcome = plan_and_apply(project)
    assert outcome.is_complete
    assert project.backend.read_lock() is None
    assert project.backend.read_journal() == []
    stored, _ = read_stored_state(project.backend)
    assert stored is not None
    assert len(stored.state.instances) == 4
    with begin_test_run(project) as run:
        assert not run.plan(PlanOptions()).plan.has_changes


def test_output_follows_observed_placement(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text(
        'provider "simulated" {\n  fault {\n    address = "*web"\n    operation = "create"\n'
        '    answer = { "nodes[\\"web-p-1\\"].machine" = "r1-bm03" }\n  }\n}\n'
    )
    project = open_test_project(place)
    outcome = plan_and_apply(project)
    assert outcome.is_complete
    assert outcome.applied.hits + len(outcome.applied.ties) == 1
    assert not outcome.applied.wrong_predictions
    assert read_outputs(project) == {"where": "r1-bm03"}


def test_output_left_unknown_by_partial_apply_is_omitted(place: CommandContext) -> None:
    project = open_test_project(place)
    assert plan_and_apply(project, targets=("nexus_rack.r",)).is_complete
    assert read_outputs(project) == {}
    assert plan_and_apply(project).is_complete
    assert read_outputs(project)["where"].startswith("r")


def test_outputs_are_kept_after_a_failure(place: CommandContext) -> None:
    project = open_test_project(place)
    plan_and_apply(project)
    before = read_outputs(project)
    Path("main.nf.hcl").write_text(
        CONFIGURATION.replace("count       = 3", "count       = 4") + "\n"
    )
    Path("provider.nf.hcl").write_text(
        'provider "simulated" {\n  fault {\n    address = "*web"\n    operation = "update"\n'
        '    error = "no"\n  }\n}\noutput "more" {\n  value = 1\n}\n'
    )
    outcome = plan_and_apply(open_test_project(place))
    assert not outcome.is_complete
    assert read_outputs(project) == before


def test_state_is_written_to_another_file_if_saving_fails(place: CommandContext) -> None:
    class FullBackend(MemoryBackend):
        def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:  # noqa: ARG002 - the port's signature
            raise BackendProblem("The disk is full.")

    outcome = plan_and_apply(open_test_project(place, FullBackend()))
    assert not outcome.is_complete
    (problem,) = outcome.diagnostics
    assert "errored.nfstate" in problem.detail
    assert "nexusform state push" in problem.detail
    assert len(json.loads(Path("errored.nfstate").read_text())["resources"]) == 3


def test_invalid_state_is_reported_and_nothing_is_written(place: CommandContext) -> None:
    Path("state").mkdir()
    Path("state/nexusform.nfstate").write_text(
        '{"format": "nexusform", "kind": "state", "version": 1,'
    )
    with begin_test_run(open_test_project(place)) as run:
        assert not run.is_ready
        assert "state/nexusform.nfstate" in _format_diagnostics(run.diagnostics)
    assert [p.name for p in Path("state").iterdir()] == ["nexusform.nfstate"]


def test_provider_aliases_have_separate_settings(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text(
        'locals {\n  file = "second.json"\n}\nprovider "simulated" {\n  alias = "second"\n'
        '  reality = local.file\n}\nresource "nexus_vm_sku" "s" {\n  provider = simulated.second\n'
        '  name = "s"\n  vcpus = 2\n  memory_gib = 4\n}\n'
    )
    assert plan_and_apply(open_test_project(place)).is_complete
    assert [row["type"] for row in json.loads(Path("second.json").read_text())] == ["nexus_vm_sku"]


def test_explain_uses_the_plan_for_new_vms_and_the_rules_for_existing(
    place: CommandContext,
) -> None:
    found = explain_object(place, "nexus_kubernetes_cluster.web", "web-p-1")
    (reason,) = found.reasons
    assert reason.current_placement is None
    assert reason.explained_vm.trigger == "new"
    project = open_test_project(place)
    plan_and_apply(project)
    (today,) = explain_object(place, "nexus_kubernetes_cluster.web", "web-p-1").reasons
    assert today.current_placement is not None
    assert today.current_placement.machine == read_outputs(project)["where"]
    assert today.serial == 1
    assert today.explained_vm.explanation.placement is not None
    several = explain_object(place, "nexus_kubernetes_cluster.web", "")
    assert several.objects == ("web-control-plane-0", "web-p-0", "web-p-1", "web-p-2")
    assert 'Did you mean "web-p-1"?' in _format_diagnostics(
        explain_object(place, "nexus_kubernetes_cluster.web", "web-p1").diagnostics
    )
    assert "Nothing to explain" in _format_diagnostics(
        explain_object(place, "nexus_site.lab", "").diagnostics
    )


def _format_diagnostics(found: Any) -> str:
    listed: list[Diagnostic] = list(found)
    return "\n".join(f"{d.summary}: {d.detail}" for d in listed)


def test_object_contradicting_its_type_is_reported_with_its_line(place: CommandContext) -> None:
    project = open_test_project(place)
    plan_and_apply(project)
    path = Path("state/nexusform.nfstate")
    text = path.read_text()
    edited = text.replace('"pool": "p"', '"pol": "p"', 1)
    path.write_text(edited)
    with begin_test_run(project) as run:
        assert not run.is_ready
        told = run.diagnostics[0]
    assert told.summary == "Invalid state document"
    assert 'nodes["web-p-0"].pool' in told.detail or '"pool" is missing' in told.detail
    assert f"{path}.backup" in told.detail
    assert told.subject is not None
    assert path.read_text() == edited


def test_provider_answers_are_validated_before_planning(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "reality.json"\n}\n')
    project = open_test_project(place)
    plan_and_apply(project)
    reality = Path("reality.json")
    reality.write_text(reality.read_text().replace('"rack": "r0"', '"rack": 7', 1))
    with begin_test_run(project) as run:
        plan = run.plan(PlanOptions()).plan
    assert plan.errored
    assert '.rack: "rack" must be a string' in plan.diagnostics[0].detail


def test_answer_of_wrong_type_is_rejected(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text(
        'provider "simulated" {\n  fault {\n    address = "*web"\n    operation = "create"\n'
        '    answer = { "nodes[\\"web-p-1\\"].machine" = 5 }\n  }\n}\n'
    )
    project = open_test_project(place)
    outcome = plan_and_apply(project)
    assert not outcome.is_complete
    assert '"machine" must be a string' in str(outcome.applied)
    with begin_test_run(project) as run:
        assert run.is_ready, "what was saved can be read"
        assert run.plan(PlanOptions()).plan.has_changes


def test_node_moved_to_another_rack_is_drift_without_a_change(place: CommandContext) -> None:
    Path("provider.nf.hcl").write_text('provider "simulated" {\n  reality = "reality.json"\n}\n')
    project = open_test_project(place)
    plan_and_apply(project)
    reality = Path("reality.json")
    objects = json.loads(reality.read_text())
    for made in objects:
        for node in made["attributes"].get("nodes", {}).values():
            node["machine"] = {"r0-bm03": "r1-bm03"}.get(node["machine"], node["machine"])
    reality.write_text(json.dumps(objects))
    with begin_test_run(project) as run:
        plan = run.plan(PlanOptions()).plan
    assert plan.observed.drift
    assert not plan.errored
    assert all(change.action is Action.NO_OP for change in plan.changes)
    plan_and_apply(project, mode=Mode.REFRESH_ONLY)
    with begin_test_run(project) as run:
        assert not run.plan(PlanOptions()).plan.has_changes
    assert read_outputs(project) == {"where": "r1-bm03"}
