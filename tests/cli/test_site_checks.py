"""Tests that apply checks a saved plan against the site at the moment of the write."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nexusform.cli.main import run_command_line
from nexusform.workflow.plan_files import plan_execution
from tests import commands
from tests.cli.killed_commands import DIED

SITE = """\
provider "simulated" {{
  reality = "reality.json"
{faults}
}}

variable "workers" {{
  default = 4
}}

resource "nexus_site" "lab" {{}}

resource "nexus_rack" "rack" {{
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "rack${{count.index}}"
  machine_count = 8
}}

resource "nexus_kubernetes_cluster" "web" {{
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.rack]

  control_plane {{
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }}

  agent_pool "upf" {{
    count       = var.workers
    vm_sku_name = "NC_P46_224_v1"
  }}
}}
"""
SECOND_CLUSTER = """
resource "nexus_kubernetes_cluster" "db" {
  site_id    = nexus_site.lab.id
  depends_on = [nexus_kubernetes_cluster.web]

  control_plane {
    count       = 1
    vm_sku_name = "NC_G12_56_v1"
  }
}
"""
RULE = """
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
STATE = Path("state/nexusform.nfstate")
REALITY = Path("reality.json")

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function for commands; it returns the exit code and the text in one line."""
    monkeypatch.chdir(tmp_path)
    REALITY.write_text("[]")
    write_configuration()

    def run_command(*arguments: str) -> tuple[int, str]:
        code = run_command_line(arguments)
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).replace("│", " ").split())

    return run_command


def write_configuration(further: str = "", faults: str = "") -> None:
    Path("main.nf.hcl").write_text(SITE.format(faults=faults) + further)


@contextmanager
def change_reality() -> Iterator[dict[str, Any]]:
    """Yield the attributes of the objects on the site by id, and write them."""
    document = json.loads(REALITY.read_text())
    yield {item["id"]: item["attributes"] for item in document}
    REALITY.write_text(json.dumps(document))


def scale_pool_by_another_person(run: Run) -> None:
    """Scale the pool to 10 on the site only: the state does not know it."""
    shutil.copy(STATE, "state.before")
    assert run("apply", "-auto-approve", "-var=workers=10")[0] == 0
    shutil.copy("state.before", STATE)


def count_workers() -> int:
    with change_reality() as objects:
        return sum(node["pool"] == "upf" for node in objects["lab/web"]["nodes"].values())


def test_guard_rail_is_checked_against_the_observed_site(run: Run) -> None:
    assert run("apply", "-auto-approve")[0] == 0
    assert run("plan", "-var=workers=5", "-fail-on=moved:0,removed:0", "-out=p")[0] == 0
    scale_pool_by_another_person(run)
    before = REALITY.read_bytes()
    code, text = run("apply", "p")
    assert code == 1
    assert "Saved plan guard rail" in text
    assert "The site changed since the plan. 5 VMs are removed; -fail-on=removed:0" in text
    assert REALITY.read_bytes() == before
    assert count_workers() == 10


def test_unbroken_guard_rail_does_not_stop_the_apply(run: Run) -> None:
    assert run("apply", "-auto-approve")[0] == 0
    assert run("plan", "-var=workers=5", "-fail-on=moved:0,removed:0", "-out=p")[0] == 0
    code, text = run("apply", "p")
    assert code == 0, text
    assert count_workers() == 5


def test_object_to_delete_that_changed_since_the_plan_is_kept(run: Run) -> None:
    """The plan was reviewed with what it deletes, for example the number of VMs.

    A warning before the first step names the object.
    """
    assert run("apply", "-auto-approve")[0] == 0
    assert run("plan", "-destroy", "-out=p")[0] == 0
    with change_reality() as objects:
        objects["lab/web"]["agent_pool"]["upf"]["labels"] = {"a": "b"}
    code, text = run("apply", "p")
    assert code == 1
    assert "Site changed since plan" in text
    assert "agent_pool.upf.labels.a changed from none to b" in text
    assert "agent_pool.upf.labels of nexus_kubernetes_cluster lab/web changed since" in text
    with change_reality() as objects:
        assert "lab/web" in objects
    assert run("apply", "-destroy", "-auto-approve")[0] == 0


def kill_apply(*words: str, call: int) -> None:
    """Run apply in a process killed at a durable call."""
    command = [*commands.build_module_command("tests.cli.killed_commands"), str(call), *words]
    assert subprocess.run(command, capture_output=True, check=False).returncode == DIED


class WillingUser(io.StringIO):
    """User who approves everything."""

    def readline(self, *_arguments: Any) -> str:
        return "yes\n"


# The last one asks whether to finish the earlier apply.
@pytest.mark.parametrize(
    "words", [("-resume",), ("-auto-approve", "-var=workers=5"), ("-var=workers=5",)]
)
def test_guard_rail_is_checked_before_the_remaining_steps(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", WillingUser())
    assert run("apply", "-auto-approve")[0] == 0
    write_configuration(SECOND_CLUSTER)
    code, text = run("plan", "-var=workers=5", "-fail-on=moved:0,removed:0", "-out=p")
    assert code == 0, text
    kill_apply("apply", "p", call=2)
    with change_reality() as objects:
        nodes = objects["lab/web"]["nodes"]
        nodes["web-upf-5"] = {**nodes["web-upf-4"], "number": 5, "numa_cells": [1]}
    before = REALITY.read_bytes()
    code, text = run("apply", *words)
    assert code == 1, text
    assert "1 VM is removed; -fail-on=removed:0 allows at most 0." in text
    assert REALITY.read_bytes() == before
    with change_reality() as objects:
        del objects["lab/web"]["nodes"]["web-upf-5"]
    code, text = run("apply", *words)
    assert code == 0, text
    with change_reality() as objects:
        assert "lab/db" in objects


@pytest.mark.parametrize("changed", ["", 'output "more" {\n  value = 1\n}\n'])
def test_age_is_checked_before_remaining_steps_approved_at_the_prompt(
    run: Run, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    """The prompt finishes no earlier apply of an old plan, nor one of another configuration."""
    monkeypatch.setattr("sys.stdin", WillingUser())
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    assert run("apply", "-auto-approve")[0] == 0
    write_configuration(SECOND_CLUSTER)
    assert run("plan", "-var=workers=5", "-max-age=2h", "-out=p")[0] == 0
    kill_apply("apply", "p", call=2)
    write_configuration(SECOND_CLUSTER + changed)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1800000000 + 3 * 3600))
    before = REALITY.read_bytes()
    code, text = run("apply", "-var=workers=5")
    reason = "The configuration changed since." if changed else "Its maximum age is 2h."
    assert (code, reason in text) == (1, True), text
    assert REALITY.read_bytes() == before


UNREADABLE = """
  fault {
    address   = "nexus_rack.rack[0]"
    operation = "read"
    error     = "no answer"
    times     = 0
  }
"""


def test_guard_rail_is_not_passed_if_the_site_cannot_be_read(run: Run) -> None:
    assert run("apply", "-auto-approve")[0] == 0
    write_configuration(faults=UNREADABLE)
    flags = ("-refresh=false", "-var=workers=5", "-fail-on=removed:0")
    code, text = run("plan", *flags, "-out=p")
    assert code == 0, text
    before = REALITY.read_bytes()
    code, text = run("apply", "p")
    assert code == 1
    assert "The steps of the plan cannot be checked against the site" in text
    assert REALITY.read_bytes() == before


def test_unchecked_site_is_a_persons_word(run: Run) -> None:
    """The plan in the journal and the report have it."""
    assert run("apply", "-auto-approve")[0] == 0
    write_configuration(faults=UNREADABLE)
    assert run("plan", "-refresh=false", "-var=workers=5", "-out=p")[0] == 0
    code, text = run("apply", "p")
    assert (code, "Site not checked" in text) == (1, True), text
    assert count_workers() == 4
    flags = ("-allow-unchecked-site", "-report=markdown:r.md")
    code, text = run("apply", *flags, "p")
    assert code == 0, text
    assert "They are applied unchecked (-allow-unchecked-site)." in text
    assert "-allow-unchecked-site" in Path("r.md").read_text()
    assert count_workers() == 5


def write_separated_clusters() -> None:
    """Write two clusters in different zones, and the rule that separates them."""
    write_configuration(SECOND_CLUSTER + RULE)
    file = Path("main.nf.hcl")
    argument = 'vm_sku_name = "NC_{}_v1"'
    text = file.read_text()
    for sku in ("P46_224", "G12_56"):
        name = argument.format(sku)
        text = text.replace(name, f'{name}\n    availability_zones = ["rack0"]')
    web, block, db = text.partition('resource "nexus_kubernetes_cluster" "db"')
    file.write_text(web + block + db.replace('"rack0"', '"rack1"'))


def share_a_machine() -> None:
    """Move the VM of the second cluster to a machine of the first one, on the site only."""
    with change_reality() as objects:
        (node,) = objects["lab/db"]["nodes"].values()
        other = next(iter(objects["lab/web"]["nodes"].values()))
        node |= {name: other[name] for name in ("machine", "rack", "availability_zone")}
        node["numa_cells"] = [1]


def test_separation_rule_is_checked_against_the_observed_site(run: Run) -> None:
    write_separated_clusters()
    code, text = run("apply", "-auto-approve", "-var=workers=3")
    assert code == 0, text
    code, text = run("plan", "-var=workers=5", "-out=p")
    assert code == 0, text
    share_a_machine()
    before = REALITY.read_bytes()
    code, text = run("apply", "p")
    assert code == 1, text
    assert "Saved plan separation" in text
    assert "nexus_separation_rule.apart holds never" in text
    assert REALITY.read_bytes() == before


SLOW_POOL = """
  fault {
    address   = "nexus_kubernetes_cluster.web"
    operation = "update"
    delay     = "600ms"
  }
"""


def plan_with_slow_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Save a plan with a step that takes longer than the site may stay unread."""
    monkeypatch.setattr(plan_execution, "MAXIMUM_WAIT_SECONDS", 0.3)
    assert run("apply", "-auto-approve")[0] == 0
    write_configuration(SECOND_CLUSTER, SLOW_POOL)
    code, text = run("plan", "-var=workers=5", "-fail-on=removed:0", "-out=p")
    assert code == 0, text


def test_guard_rail_is_checked_again_after_a_wait(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_with_slow_step(run, monkeypatch)
    check_consequences_again = plan_execution.check_consequences_again

    def change_site_and_check(*arguments: Any) -> Any:
        with change_reality() as objects:
            nodes = objects["lab/web"]["nodes"]
            nodes["web-upf-5"] = {**nodes["web-upf-4"], "number": 5, "numa_cells": [1]}
        return check_consequences_again(*arguments)

    monkeypatch.setattr(plan_execution, "check_consequences_again", change_site_and_check)
    code, text = run("apply", "p")
    assert code == 1, text
    assert "1 VM is removed; -fail-on=removed:0 allows at most 0." in text
    with change_reality() as objects:
        assert "lab/db" not in objects


def test_unbroken_guard_rail_lets_an_apply_continue_after_a_wait(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_with_slow_step(run, monkeypatch)
    code, text = run("apply", "p")
    assert code == 0, text
    assert text.count("nexus_site.lab: Refreshing state...") == 2


def test_separation_rule_is_checked_again_after_a_long_prompt(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nexusform.cli.apply.MAXIMUM_WAIT_SECONDS", -1.0)
    write_separated_clusters()
    code, text = run("apply", "-auto-approve", "-var=workers=3")
    assert code == 0, text

    class SlowUser(io.StringIO):
        """User who answers after another person moved a VM."""

        def readline(self, *_arguments: Any) -> str:
            share_a_machine()
            return "yes\n"

    monkeypatch.setattr("sys.stdin", SlowUser())
    code, text = run("apply", "-var=workers=4")
    assert code == 1, text
    assert "nexus_separation_rule.apart holds never" in text
    assert count_workers() == 3
