"""Tests of the CI recipes with two pull requests and jobs on fresh clones.

The second keeps the placements of the first.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests import commands
from tests.contracts import servers
from tests.contracts.http_state_server import run_state_server
from tests.docs.recipe_python import write_python

CI = Path(__file__).parents[2] / "docs" / "ci"
ACTION = {
    step.get("id", step["run"].split()[-1]): step["run"]
    for step in yaml.safe_load((CI / "github" / "action.yml").read_text(encoding="utf-8"))["runs"][
        "steps"
    ]
    if "run" in step
}
GITHUB_APPLY = next(script for script in ACTION.values() if "reviewed.plan.progress" in script)
GITLAB = list(yaml.safe_load_all((CI / "gitlab.yml").read_text(encoding="utf-8")))[1]

CONFIGURATION = """nexusform {{
  backend "{backend}" {{}}
}}
resource "nexus_site" "lab" {{
  name = "lab"
}}
resource "nexus_rack" "r" {{
  count         = 2
  site_id       = nexus_site.lab.id
  name          = "rack${{count.index + 1}}"
  machine_count = 4
}}
resource "nexus_kubernetes_cluster" "core" {{
  site_id    = nexus_site.lab.id
  depends_on = [nexus_rack.r]

  control_plane {{
    count       = 3
    vm_sku_name = "NC_G12_56_v1"
  }}
  agent_pool "workers" {{
    count       = {workers}
    vm_sku_name = "NC_P46_224_v1"
  }}
}}
"""


class Repository:
    """Repository with its code host's artifact of the last plan, and jobs on fresh clones."""

    def __init__(self, place: Path, backend: str, variables: dict[str, str]) -> None:
        self.place = place
        self.backend = backend
        self.variables = variables
        self.artifact = place / "artifact"
        self.jobs = 0
        write_python(place / "bin")
        for name, command in (("nexusform", commands.build_shell_line()), ("pip", "exit 0")):
            program = place / "bin" / name
            program.write_text(f"#!/bin/sh\n{command}\n")
            program.chmod(0o755)

    def commit(self, workers: int | str) -> None:
        """Write the content of a pull request's branch, and of main after its merge."""
        text = CONFIGURATION.format(backend=self.backend, workers=workers)
        (self.place / "lab").mkdir(exist_ok=True)
        (self.place / "lab" / "main.nf.hcl").write_text(text)

    def job(self, script: str) -> str:
        """Run a script as a runner does: on a clone, with only the artifact of earlier jobs."""
        self.jobs += 1
        clone = self.place / f"clone{self.jobs}"
        clone.mkdir()
        shutil.copytree(self.place / "lab", clone / "lab")
        environment = {
            **os.environ,
            "PATH": f"{self.place / 'bin'}:{os.environ['PATH']}",
            "DIRECTORY": "lab",
            "ARGUMENTS": "",
            "FOLDER": str(self.artifact),
            "GITHUB_OUTPUT": str(clone / "outputs"),
            "GITHUB_STEP_SUMMARY": str(clone / "summary"),
            "CI_PROJECT_DIR": str(clone),
            "NF_IN_AUTOMATION": "true",
            "NF_CONFINE": str(clone),
            "NF_DATA_DIR": f"{clone}.data",
            **self.variables,
        }
        words = ["bash", "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(
            words, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        shutil.rmtree(clone)
        shutil.rmtree(f"{clone}.data", ignore_errors=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def build_github_jobs(repository: Repository) -> tuple[Callable[[], str], Callable[[], str]]:
    repository.artifact.mkdir()
    plan = f"({ACTION['init']})\n{ACTION['plan']}"
    apply = f"({ACTION['init']})\n{GITHUB_APPLY}"
    return lambda: repository.job(plan), lambda: repository.job(apply)


def build_gitlab_jobs(repository: Repository) -> tuple[Callable[[], str], Callable[[], str]]:
    def build_script(name: str) -> str:
        # Its packages are installed already.
        prepare = GITLAB[".nexusform"]["before_script"][-1:]
        # These lines access the host.
        lines = [line for line in GITLAB[name]["script"] if "<<'PYTHON'" not in line]
        return "\n".join([*prepare, *lines])

    return lambda: repository.job(build_script("nexusform-plan")), lambda: repository.job(
        build_script("nexusform-apply")
    )


def build_atlantis_jobs(repository: Repository) -> tuple[Callable[[], str], Callable[[], str]]:
    """Return the steps of the page, which run in the directory of the project.

    The server has the settings of the state in a file, and flags of plan in its environment.
    """
    page = (CI / "README.md").read_text(encoding="utf-8")
    server = yaml.safe_load(page.partition("`repos.yaml`:")[2].split("```")[1].removeprefix("yaml"))
    workflow = server["workflows"]["nexusform"]
    settings = [line.split("=", 1) for line in repository.variables["BACKEND_CONFIG"].splitlines()]
    (repository.place / "lab.hcl").write_text(
        "".join(f'{name} = "{value}"\n' for name, value in settings)
    )
    repository.variables |= {
        "PLANFILE": str(repository.artifact / "lab-default.tfplan"),
        "SHOWFILE": str(repository.artifact / "lab-default.json"),
        "PROJECT_NAME": "lab",
        "NF_CLI_ARGS_plan": repository.variables.get("ARGUMENTS", ""),
    }
    repository.artifact.mkdir()

    def build_script(name: str) -> str:
        lines = ["cd lab"]
        for step in workflow[name]["steps"]:
            if "env" in step:
                lines.append(f"export {step['env']['name']}='{step['env']['value']}'")
            else:
                lines.append(step["run"])
        return "\n".join(lines).replace("/etc/atlantis/nexusform", str(repository.place))

    return lambda: repository.job(build_script("plan")), lambda: repository.job(
        build_script("apply")
    )


@pytest.fixture
def http_variables() -> Iterator[dict[str, str]]:
    with run_state_server() as (address, _):
        settings = f"address={address}/lab\nlock_address={address}/lab/lock\n"
        dialect = {
            "CI_API_V4_URL": f"{address}/gitlab",
            "CI_PROJECT_ID": "1",
            "STATE": "lab",
            "CI_JOB_TOKEN": "t",
        }
        yield {"BACKEND_CONFIG": settings, **dialect}


@pytest.fixture
def azurerm_variables() -> Iterator[dict[str, str]]:
    with servers.run_azurite() as address:
        from azure.storage.blob import ContainerClient

        ContainerClient(address, "nexusform", credential=servers.KEY).create_container()
        settings = {
            "storage_account_name": servers.ACCOUNT,
            "container_name": "nexusform",
            "key": "lab.nfstate",
            "endpoint": address,
        }
        lines = "".join(f"{name}={value}\n" for name, value in settings.items())
        yield {"BACKEND_CONFIG": lines, "ARM_ACCESS_KEY": servers.KEY}


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize(
    ("recipe", "backend"),
    [
        (build_github_jobs, "http"),
        (build_gitlab_jobs, "http"),
        (build_atlantis_jobs, "http"),
        (build_github_jobs, "azurerm"),
    ],
    ids=lambda v: str(v)[:18],
)
def test_second_pull_request_keeps_placements_of_the_first(
    recipe: Callable[[Repository], tuple[Callable[[], str], Callable[[], str]]],
    backend: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    repository = Repository(tmp_path, backend, request.getfixturevalue(f"{backend}_variables"))
    plan, apply = recipe(repository)
    repository.commit(workers=4)
    assert "Placements: 7 to place, 0 to move, 0 to remove, 0 kept." in plan()
    assert "Apply complete! Resources: 4 added, 0 changed, 0 destroyed." in apply()
    repository.commit(workers=5)
    assert "Placements: 1 to place, 0 to move, 0 to remove, 7 kept." in plan()
    assert "Apply complete! Resources: 0 added, 1 changed, 0 destroyed." in apply()
    assert "No changes." in plan()


@pytest.mark.of_domains("remote_state")
@pytest.mark.parametrize("recipe", [build_github_jobs, build_gitlab_jobs, build_atlantis_jobs])
def test_plan_with_overridden_variable_file_is_applied(
    recipe: Callable[[Repository], tuple[Callable[[], str], Callable[[], str]]],
    tmp_path: Path,
    http_variables: dict[str, str],
) -> None:
    arguments = {"ARGUMENTS": "-var-file=large.nfvars.hcl", "NF_VAR_workers": "1"}
    repository = Repository(tmp_path, "http", {**http_variables, **arguments})
    plan, apply = recipe(repository)
    repository.commit("var.workers")
    declaration = 'variable "workers" {\n  type = number\n}\n'
    (tmp_path / "lab" / "variables.nf.hcl").write_text(declaration)
    (tmp_path / "lab" / "nexusform.nfvars.hcl").write_text("workers = 2\n")
    (tmp_path / "lab" / "large.nfvars.hcl").write_text("workers = 4\n")
    assert "Placements: 7 to place, 0 to move, 0 to remove, 0 kept." in plan()
    log = apply()
    assert "Apply complete! Resources: 4 added, 0 changed, 0 destroyed." in log
    assert "changed since" not in log
    assert "No changes." in plan()


def test_runner_with_local_state_gets_a_warning(tmp_path: Path) -> None:
    repository = Repository(tmp_path, "local", {"BACKEND_CONFIG": ""})
    plan, _ = build_github_jobs(repository)
    repository.commit(workers=1)
    shown = plan()
    assert "Advice: Local only state" in shown
    assert 'backend "azurerm"' in " ".join(shown.replace("│", " ").split())


def test_plan_output_contains_no_runner_commands(tmp_path: Path) -> None:
    repository = Repository(tmp_path, "local", {"BACKEND_CONFIG": ""})
    plan, _ = build_github_jobs(repository)
    repository.commit(workers=1)
    shown = plan()
    start = shown.index("::stop-commands::")
    end = shown.rindex("\n::")
    token = shown[start:].split("::")[2].split("\n")[0]
    assert len(token) == 32
    assert shown[end:].startswith(f"\n::{token}::")
    assert start < shown.index("Plan: ") < end
