"""Tests of one worker with many sites.

No data is carried over between sites, and no secrets leave the worker.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from nexusform.cli.shared_flags import create_context
from nexusform.configuration.declarations.configuration import Configuration
from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domains.remote_state.backends.http import HttpBackend
from nexusform.domains.sites.engines import dask_cluster, local_worker, local_workers
from nexusform.domains.sites.types.site_tasks import (
    SiteResult,
    SiteStatus,
    SiteTaskKind,
    Task,
    decode_task,
    decode_task_result,
    encode_task_message,
)
from nexusform.domains.sites.workflow import site_project, site_worker
from nexusform.domains.sites.workflow.fleet_tasks import open_fleet
from nexusform.domains.sites.workflow.site_worker import FleetTaskWorker
from nexusform.files.regular_files import OutsideConfinement
from nexusform.interfaces.state_storage import BackendProblem
from nexusform.workflow.opening.command_context import CommandContext
from tests.contracts.http_state_server import run_state_server
from tests.domains.sites.conftest import DEFINITION

Fleet = Callable[..., None]
Command = Callable[..., tuple[int, str, str]]
SECRET = "hunter2-not-to-be-seen"


@pytest.fixture(autouse=True)
def _restore_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the directories entered by a worker in this process at the end of the test."""
    monkeypatch.chdir(tmp_path)


def run_site_task(
    worker: FleetTaskWorker, kind: SiteTaskKind, site: str, like: SiteResult | None = None
) -> SiteResult:
    os.chdir(run_site_task.root)  # type: ignore[attr-defined]
    opened = open_fleet(create_context(), "2026-01-01T00:00:00Z")
    assert opened.fleet is not None, opened.diagnostics
    from msgspec.structs import replace

    fleet = replace(opened.fleet.context, session="s")
    task = Task(kind, site, fleet, like.digest if like else "", like.plan_digest if like else "")
    return worker.run_task(decode_task(encode_task_message(task)))


@pytest.fixture
def worker(fleet: Fleet, tmp_path: Path) -> FleetTaskWorker:
    fleet()
    run_site_task.root = tmp_path  # type: ignore[attr-defined]
    return FleetTaskWorker()


def test_sites_share_parsed_root_module_until_it_changes(worker: FleetTaskWorker) -> None:
    first = run_site_task(worker, SiteTaskKind.PLAN, "par1")
    assert first.rows == run_site_task(worker, SiteTaskKind.PLAN, "par2").rows
    path = Path(run_site_task.root, "site", "main.nf.hcl")  # type: ignore[attr-defined]
    path.write_text(path.read_text().replace("machine_count = 1", "machine_count = 2"))
    again = run_site_task(worker, SiteTaskKind.PLAN, "par1")
    assert "+ nexus_rack.rack[0,1]: rack1,2, 2 machines each, bom-1.7.3" in again.rows
    path.with_name("more.nf.hcl").write_text('output "more" {\n  value = 1\n}\n')
    assert "+ output more" in run_site_task(worker, SiteTaskKind.PLAN, "par1").rows


def test_configuration_with_a_file_deleted_while_read_is_read_again(
    worker: FleetTaskWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = Path(run_site_task.root, "site", "more.nf.hcl")  # type: ignore[attr-defined]
    more.write_text('output "more" {\n  value = 1\n}\n')
    load = site_project.load_project_configuration

    def load_and_delete(location: CommandContext) -> tuple[Configuration, list[Diagnostic]]:
        loaded = load(location)
        more.unlink(missing_ok=True)
        return loaded

    monkeypatch.setattr(site_project, "load_project_configuration", load_and_delete)
    assert "+ output more" in run_site_task(worker, SiteTaskKind.PLAN, "par1").rows
    assert "+ output more" not in run_site_task(worker, SiteTaskKind.PLAN, "par2").rows


def test_environment_variables_are_read_for_each_site(
    worker: FleetTaskWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run_site_task(worker, SiteTaskKind.PLAN, "par1")
    monkeypatch.setenv("NF_VAR_racks", "1")
    assert run_site_task(worker, SiteTaskKind.PLAN, "par1").digest != before.digest


def test_secrets_stay_on_the_worker(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = f"""
    variable "token" {{
      type      = string
      sensitive = true
    }}

    resource "nexus_site" "this" {{
      name = "lab"
    }}

    check "token" {{
      assert {{
        condition     = length(var.token) < 3
        error_message = "It is ${{var.token}}."
      }}
    }}

    output "token" {{
      value     = var.token
      sensitive = true
    }}
    # {len(SECRET)}
    """
    definition = f'site "a" {{\n  source = "./site"\n  inputs = {{ token = "{SECRET}" }}\n}}\n'
    fleet(definition=definition, site=site)
    run_site_task.root = tmp_path  # type: ignore[attr-defined]
    answer = run_site_task(FleetTaskWorker(), SiteTaskKind.PLAN, "a")
    assert answer.status is SiteStatus.PLANNED
    assert SECRET not in encode_task_message(answer).decode()
    monkeypatch.chdir(tmp_path)
    opened = open_fleet(create_context())
    assert opened.fleet is not None
    assert (
        SECRET
        not in encode_task_message(Task(SiteTaskKind.PLAN, "a", opened.fleet.context)).decode()
    )


def test_inputs_reach_root_module_unchanged_and_sensitive(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = """
    variable "texts" {
      type = any
    }

    variable "token" {
      type = string
    }

    check "texts" {
      assert {
        condition     = var.texts.list[0].text == "$${x} %%{y}" && var.texts.number == 2
        error_message = "It is ${jsonencode(var.texts)}."
      }
    }

    output "token" {
      value = var.token
    }
    """
    run_site_task.root = tmp_path  # type: ignore[attr-defined]
    ids: list[list[str]] = []
    for token in ('"t"', 'sensitive("t")'):
        inputs = (
            '{ texts = { number = 2, list = [{ text = "$${x} %%{y}" }] }, token = ' + token + " }"
        )
        monkeypatch.chdir(tmp_path)
        fleet(definition=f'site "a" {{\n  source = "./site"\n  inputs = {inputs}\n}}\n', site=site)
        result = run_site_task(FleetTaskWorker(), SiteTaskKind.PLAN, "a")
        ids.append([each.id for each in result.diagnostics])
    assert ids == [[], ["output-refers-to-sensitive-values"]]


def test_prepared_site_stays_locked_until_release(worker: FleetTaskWorker) -> None:
    planned = run_site_task(worker, SiteTaskKind.PLAN, "par1")
    lock = Path(run_site_task.root, "states/par1.nfstate.lock.info")  # type: ignore[attr-defined]
    assert run_site_task(worker, SiteTaskKind.PREPARE, "par1", planned).is_locked
    assert lock.exists()
    other = run_site_task(FleetTaskWorker(), SiteTaskKind.PREPARE, "par1", planned)
    assert (other.status, other.is_locked) == (SiteStatus.REJECTED, False)
    assert "holds it" in other.reason
    run_site_task(worker, SiteTaskKind.RELEASE, "par1")
    assert not lock.exists()


def test_worker_releases_the_locks_that_are_left(worker: FleetTaskWorker) -> None:
    planned = run_site_task(worker, SiteTaskKind.PLAN, "par1")
    run_site_task(worker, SiteTaskKind.PREPARE, "par1", planned)
    lock = Path(run_site_task.root, "states/par1.nfstate.lock.info")  # type: ignore[attr-defined]
    assert lock.exists()
    worker.release_locks()
    assert not lock.exists()


def test_applied_site_is_not_applied_again(worker: FleetTaskWorker, tmp_path: Path) -> None:
    planned = run_site_task(worker, SiteTaskKind.PLAN, "par1")
    approved = SiteResult("par1", SiteStatus.PLANNED, digest=planned.digest, plan_digest="p" * 64)
    assert run_site_task(worker, SiteTaskKind.APPLY, "par1", approved).status is SiteStatus.APPLIED
    written = Path(tmp_path, "states/par1.nfstate").read_bytes()
    assert run_site_task(worker, SiteTaskKind.APPLY, "par1", approved).status is SiteStatus.APPLIED
    assert Path(tmp_path, "states/par1.nfstate").read_bytes() == written


def test_confined_site_reads_no_files_outside(
    fleet: Fleet, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path.parent / "elsewhere.txt").write_text("x")
    fleet(site='resource "nexus_site" "s" {\n  name = trimspace(file("../../elsewhere.txt"))\n}\n',
          definition='site "a" {\n  source = "./site"\n}\n')  # fmt: skip
    assert command("plan")[0] == 0
    monkeypatch.chdir(tmp_path)
    code, out, _ = command("plan", f"-confine={tmp_path}")
    assert code == 1
    assert "-confine does not allow it" in " ".join(out.split())


def test_worker_process_of_a_confined_fleet_has_a_wall(
    fleet: Fleet, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of a worker that checks nothing stops there."""
    fleet()
    secret = tmp_path.parent / f"secret-of-{tmp_path.name}"
    secret.write_text("canary")
    monkeypatch.setenv("NF_CONFINE", str(tmp_path))
    os.chdir(tmp_path)
    opened = open_fleet(create_context(), "2026-01-01T00:00:00Z")
    assert opened.fleet is not None, opened.diagnostics
    texts: list[str] = []
    for confine in (opened.fleet.context.confine, ""):
        context = msgspec.structs.replace(opened.fleet.context, confine=confine)
        with ExitStack() as walls:
            local_worker.open_sandbox(walls, context)
            with suppress(OutsideConfinement):
                texts.append(secret.read_text())
            assert Path("nexusform.sites.hcl").read_text()
    assert texts == ["canary"]
    os.chdir(tmp_path)
    code, out, err = command("plan", "-out=f.nfsites", f"-confine={tmp_path}")
    assert code == 0, out + err
    code, out, err = command("apply", "f.nfsites")
    assert code == 0, out + err


def test_dask_worker_runs_each_command_in_a_process_with_its_wall(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    fleet()
    # A forked process has no pipe of its parent.
    monkeypatch.setattr(local_workers, "subprocess", subprocess)
    worker = SimpleNamespace(address="tcp://worker")
    monkeypatch.setattr(distributed, "get_worker", lambda: worker)
    monkeypatch.setenv("NF_CONFINE", str(tmp_path))
    opened = open_fleet(create_context(), "2026-01-01T00:00:00Z")
    assert opened.fleet is not None, opened.diagnostics
    for session in ("a", "b", "a"):
        context = msgspec.structs.replace(opened.fleet.context, session=session)
        task = Task(SiteTaskKind.STATUS, "par1", context)
        address, message = dask_cluster.run_task(encode_task_message(task))
        assert (address, decode_task_result(message).site) == ("tcp://worker", "par1")
    assert list(dask_cluster._PROCESSES) == ["a", "b"]
    one, other = (each.worker.process for each in dask_cluster._PROCESSES.values())
    # A process that died is replaced when Dask repeats the task.
    one.kill()
    task = Task(SiteTaskKind.STATUS, "par1", context)
    with pytest.raises(RuntimeError, match="its process ended with -9"):
        dask_cluster.run_task(encode_task_message(task))
    dask_cluster.record_heartbeat("b")
    dask_cluster._end_abandoned_processes()
    assert other.poll() is None
    # Without a sign of life of its command it ends.
    monkeypatch.setattr(dask_cluster, "_LOCK_TIMEOUT", -1.0)
    dask_cluster._end_abandoned_processes()
    assert other.poll() == 0
    assert dask_cluster._PROCESSES == {}


def test_fleet_root_runs_after_sites_it_reads(
    fleet: Fleet, command: Command, tmp_path: Path
) -> None:
    definition = """
    site "hub" {
      source = "./hub"
      wave   = "first"
    }
    site "par1" {
      source = "./site"
      inputs = { name = "par1" }
      wave   = "first"
    }
    strategy {
      wave "first" {}
      wave "second" {}
    }
    """
    fleet(definition=definition)
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "main.nf.hcl").write_text("""
    data "nexusform_remote_state" "site" {
      backend = "local"
      config  = { path = "../states/par1.nfstate" }
    }
    output "cluster" {
      value = data.nexusform_remote_state.site.outputs.cluster_id
    }
    """)
    assert command("plan", "-site=par1", "-out=one.nfsites")[0] == 0
    assert command("apply", "one.nfsites")[0] == 0
    code, out, _ = command("plan", "-out=both.nfsites", "-json")
    assert (code, '"after":["par1"]' in out) == (0, True)
    path = tmp_path / "nexusform.sites.hcl"
    path.write_text(
        definition.replace(
            'name = "par1" }\n      wave   = "first"', 'name = "par1" }\n wave = "second"'
        )
    )
    code, _, err = command("plan")
    assert (code, "is applied later" in " ".join(err.replace("│", "").split())) == (1, True)


@pytest.mark.parametrize("has_journal_end", [True, False])
def test_unsent_state_is_written_before_anything_else(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_journal_end: bool
) -> None:
    """Sites share a root module: each has its own file, and no resource is created twice."""
    with run_state_server() as (address, store):
        definition = DEFINITION.replace('"local"', '"http"')
        fleet(
            definition=definition.replace(
                'path = "states/${site.name}.nfstate"', f'address = "{address}/${{site.name}}"'
            )
        )
        run_site_task.root = tmp_path  # type: ignore[attr-defined]
        worker = FleetTaskWorker()
        approved = {}
        for name in ("par1", "par2"):
            planned = run_site_task(worker, SiteTaskKind.PLAN, name)
            approved[name] = SiteResult(
                name, SiteStatus.PLANNED, digest=planned.digest, plan_digest="p" * 64
            )
        monkeypatch.setattr(HttpBackend, "write_merged_state", _reject_write)
        for name, answer in approved.items():
            ended = run_site_task(worker, SiteTaskKind.APPLY, name, answer)
            assert (ended.status, ".nexusform/sites/" + name in ended.reason) == (
                SiteStatus.FAILED,
                True,
            )
        monkeypatch.undo()
        monkeypatch.chdir(tmp_path)
        for place in store.places.values():
            # Even the journal was not written.
            place.document = None
        if not has_journal_end:
            # Nor its last record.
            for journal in tmp_path.rglob("*.journal"):
                journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
        for name, answer in approved.items():
            rejected = run_site_task(worker, SiteTaskKind.PLAN, name)
            assert rejected.status is SiteStatus.REJECTED
            assert rejected.diagnostics[0].id == "unsaved-state"
            assert (
                run_site_task(worker, SiteTaskKind.APPLY, name, answer).status is SiteStatus.APPLIED
            )
            assert run_site_task(worker, SiteTaskKind.PLAN, name).status is SiteStatus.UNCHANGED


def _reject_write(*_: object) -> None:
    raise BackendProblem("the server answered 500.")


SEPARATED = """
provider "simulated" {
  reality = "reality.json"
}

variable "name" {
  type = string
}

variable "workers" {
  type    = number
  default = 1
}

resource "nexus_site" "lab" {
  name = var.name
}

resource "nexus_rack" "rack" {
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "rack${count.index}"
  machine_count = 4
}

resource "nexus_kubernetes_cluster" "web" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.rack]

  control_plane {
    count              = 1
    vm_sku_name        = "NC_G12_56_v1"
    availability_zones = ["rack0"]
  }

  agent_pool "upf" {
    count              = var.workers
    vm_sku_name        = "NC_P46_224_v1"
    availability_zones = ["rack0"]
  }
}

resource "nexus_kubernetes_cluster" "db" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_kubernetes_cluster.web]

  control_plane {
    count              = 1
    vm_sku_name        = "NC_G12_56_v1"
    availability_zones = ["rack1"]
  }
}

resource "nexus_separation_rule" "apart" {
  name  = "apart"
  scope = "machine"

  group {
    cluster_ids = [nexus_kubernetes_cluster.web.id]
  }

  group {
    cluster_ids = [nexus_kubernetes_cluster.db.id]
  }
}
"""


def test_prepared_site_is_checked_again_after_a_long_wait(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sites of its wave were applied first, and another person moved a VM meanwhile."""
    fleet(site=SEPARATED)
    run_site_task.root = tmp_path  # type: ignore[attr-defined]
    reality = tmp_path / "site" / "reality.json"
    reality.write_text("[]")
    worker = FleetTaskWorker()

    def apply(between: Callable[[], None]) -> SiteResult:
        planned = run_site_task(worker, SiteTaskKind.PLAN, "par1")
        assert run_site_task(worker, SiteTaskKind.PREPARE, "par1", planned).is_locked
        between()
        return run_site_task(worker, SiteTaskKind.APPLY, "par1", planned)

    def share_a_machine() -> None:
        document = json.loads(reality.read_text())
        objects = {item["id"]: item["attributes"] for item in document}
        (node,) = objects["par1/db"]["nodes"].values()
        other = next(iter(objects["par1/web"]["nodes"].values()))
        node |= {name: other[name] for name in ("machine", "rack", "availability_zone")}
        node["numa_cells"] = [1]
        reality.write_text(json.dumps(document))

    assert apply(lambda: None).status is SiteStatus.APPLIED
    path = tmp_path / "site" / "main.nf.hcl"
    path.write_text(path.read_text().replace("default = 1", "default = 2"))
    monkeypatch.setattr(site_worker, "MAXIMUM_WAIT_SECONDS", -1.0)
    result = apply(share_a_machine)
    pools = [
        node["pool"]
        for item in json.loads(reality.read_text())
        for node in item["attributes"].get("nodes", {}).values()
    ]
    assert pools.count("upf") == 1
    assert result.status is SiteStatus.REJECTED
    assert "nexus_separation_rule.apart holds never" in result.reason
    assert not (tmp_path / "states" / "par1.nfstate.lock.info").exists()
