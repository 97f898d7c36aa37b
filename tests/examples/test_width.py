"""Tests of output width: output of the examples fits 80 columns, except for unbreakable words."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from msgspec import Struct

from nexusform.cli.main import run_command_line
from nexusform.resource_types.registry import RESOURCE_TYPES
from tests.examples.test_every_type import FIRST, copy_every_type
from tests.kill_points import select_cases

EXAMPLES = Path(__file__).parents[2] / "examples"
COLUMNS = 80
# Values are printed as in configuration: `name = "..."`, `"key" = [` and in a heredoc.
VALUE = re.compile(r'\s*([+~-] )?\s*("[^"]*"|[\w.-]+)\s+= ')
HEREDOC = re.compile(r"<<-?EOT$")
# Commands to copy are not wrapped.
COMMAND = re.compile(r"\s+(kubectl|nexusform) ")

BEFORE = ("validate", "plan -out=p.plan", "show p.plan", "plan -details", "plan -placements=all")
AFTER = (
    "plan",
    "plan -destroy",
    "show",
    "output",
    "advise",
    "advise -plan=p.plan",
    "simulate capacity",
    "simulate runtime-upgrade",
    "simulate fleet",
    "state list",
    "state history",
    "state verify",
    "init",
)


class ExampleCommands(Struct, frozen=True):
    """Commands of an example: before its apply, for the apply, and after it."""

    before: tuple[str, ...] = ()
    apply: str = "apply -auto-approve"
    after: tuple[str, ...] = ()


WALKS = {
    "quickstart": ExampleCommands(
        after=("simulate failure -rack=left", "explain nexus_kubernetes_cluster.web")
    ),
    "nexus-document": ExampleCommands(
        after=(
            "plan -var step=empty",
            "simulate failure -rack=rack1",
            "simulate kubernetes-upgrade nexus_kubernetes_cluster.a",
            "explain nexus_kubernetes_cluster.a",
            "explain -every nexus_kubernetes_cluster.a cluster-a-pool1-0",
        )
    ),
    "inventory": ExampleCommands(
        before=("inventory check export",),
        after=(
            "reconcile -from=export",
            "explain -every nexus_kubernetes_cluster.ran ran-du-workers-0",
        ),
    ),
    "fleet": ExampleCommands(
        after=(
            "show fleet_cluster_resource_placement.document",
            "explain fleet_cluster_resource_placement.document",
            "explain fleet_cluster_resource_placement.document cluster1",
        )
    ),
    "end-to-end": ExampleCommands(
        after=(
            "plan -var workers_of_south=4",
            "explain fleet_cluster_resource_placement.web",
            "simulate failure -rack=rack1",
            "simulate failure -cluster=lab/south",
        )
    ),
    "hardware-aware": ExampleCommands(
        after=(
            "plan -var maintenance=true",
            "simulate failure -machine=Compute01",
            "destroy -auto-approve",
            "plan -var maintenance=true",
            (
                "plan -var server_group=false -var maintenance=true -var "
                "topology_key=kubernetes.io/hostname"
            ),
        )
    ),
    "separation": ExampleCommands(
        apply="apply -auto-approve -var apart=true", after=("plan -var apart=true",)
    ),
    "real-nodes": ExampleCommands(after=("show fleet_hub_manifest.upf",)),
    "terraform-plan": ExampleCommands(
        before=("predict -terraform-plan=plan.json -inventory=export",),
        after=("predict -terraform-plan=plan.json -inventory=export -fail-on=capacity:18",),
    ),
    "every-type": ExampleCommands(
        apply="apply -auto-approve -exclude=fleet_placement_eviction.shop_leaves_paris"
    ),
    "brownfield": ExampleCommands(
        before=("inventory check export", "import -from=export -generate-config-out=site.nf.hcl"),
        after=("reconcile -from=export",),
    ),
}


def find_wide_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with too many columns that could be wrapped."""
    in_heredoc = False
    for line in lines:
        is_value = in_heredoc or VALUE.match(line) or COMMAND.match(line)
        in_heredoc = line.strip() != "EOT" if in_heredoc else bool(HEREDOC.search(line))
        if len(line) > COLUMNS and not is_value and not _has_unbreakable_word(line):
            yield line


def _has_unbreakable_word(line: str) -> bool:
    """Return whether the line is wide because of one long word."""
    longest = max(line.split(), key=len)
    return len(longest) > COLUMNS - 16


def run_and_find_wide_lines(
    commands: Sequence[str], capfd: pytest.CaptureFixture[str]
) -> list[str]:
    """Return all wide lines of the output of these commands, each with its command."""
    wide: list[str] = []
    for command in commands:
        run_command_line(command.split())
        printed = capfd.readouterr()
        assert "Internal error" not in printed.err
        lines = [*printed.out.splitlines(), *printed.err.splitlines()]
        wide += [f"{command}: {line}" for line in find_wide_lines(lines)]
    return wide


def copy_example(name: str, where: Path) -> Path:
    """Copy the example into a separate directory."""
    made = shutil.ignore_patterns("state", ".nexusform")
    return Path(shutil.copytree(EXAMPLES / name, where / name, ignore=made))


@pytest.fixture(autouse=True)
def set_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))


@pytest.mark.parametrize("name", select_cases(list(WALKS)))
def test_output_of_example_fits_terminal(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy_example(name, tmp_path))
    walk = WALKS[name]
    commands = [*walk.before, *BEFORE, walk.apply, *AFTER, *walk.after]
    assert run_and_find_wide_lines(commands, capfd) == []


def test_every_object_of_every_type_fits_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy_every_type(tmp_path))
    run_command_line(["apply", "-auto-approve", *FIRST, "-samples=0"])
    run_command_line(["state", "list"])
    addresses = capfd.readouterr().out.splitlines()
    addresses = [
        line for line in addresses if line.startswith(("nexus_", "fleet_", "tacker_", "openstack_"))
    ]
    assert {line.partition(".")[0] for line in addresses} == {*RESOURCE_TYPES} - {
        "fleet_placement_eviction"
    }
    commands = [
        f"{verb} {address}" for address in addresses for verb in ("show", "state show", "explain")
    ]
    assert run_and_find_wide_lines(commands, capfd) == []


def test_output_of_three_sites_fits_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(EXAMPLES / "three-sites", tmp_path / "e")
    commands = []
    for site in ("london", "paris", "dublin"):
        monkeypatch.chdir(tmp_path / "e" / "sites" / site)
        commands += run_and_find_wide_lines(
            ["plan -samples=0", "apply -auto-approve -samples=0"], capfd
        )
    monkeypatch.chdir(tmp_path / "e" / "fleet")
    commands += run_and_find_wide_lines([*BEFORE, "apply -auto-approve", *AFTER], capfd)
    assert commands == []


MISTAKES = {
    "syntax": 'resource "nexus_site" "lab" {\n  name = [' + '"a", ' * 60 + "\n}\n",
    "type": 'resource "nexus_sight" '
    '"a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on" {}\n',
    "argument": 'resource "nexus_site" "lab" {\n  ' + "/* long */" * 20 + ' nam = "x"\n}\n',
    "value": 'locals {\n  a = {a = "' + "long text " * 30 + '"}\n}\nresource "nexus_site" "lab" {\n'
    '  name = length(local.a.nothing, local.a, "' + "more " * 30 + '")\n}\n',
    "reference": 'resource "nexus_rack" "r" {\n  site_id = join("-", ['
    + '"aaaa", ' * 30
    + "nexus_site.lab.id])\n}\n",
    "assertion": 'check "c" {\n  assert {\n    condition     = 1 == 2\n    error_message = "'
    + "It is not so. " * 20
    + '"\n  }\n}\n',
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_errors_fit_terminal(
    mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text(MISTAKES[mistake])
    assert (
        run_and_find_wide_lines(
            ["validate", "plan", "apply -auto-approve", "console -explain local.a.b"], capfd
        )
        == []
    )


USAGE = (
    "",
    "-help",
    "plam",
    "plan -otu=p",
    "plan -help",
    "plan p.plan a-word-too-many",
    "plan -var",
    "plan -var-file=there/is/no/such/file",
    "plan -report=pdf:plan.pdf",
    "plan -report=html",
    "plan -fail-on=moved",
    "plan -fail-on=capacity:-1,certainty:7,speed:1",
    "plan -target=nothing.at.all",
    "plan -out=p -sign=key.pem -confine=false",
    "plan -samples=many",
    "explain",
    "explain nexus_site.lab",
    "simulate",
    "simulate failure",
    "simulate capacity -sku=NC_P99_999_v1",
    "show nothing",
    "state show nexus_site.lab",
    "state rm nexus_site.lab",
    "state mv a b",
    "output nothing",
    "force-unlock x",
    "workspace select nothing",
    "import nexus_site.lab lab",
    "export",
    "predict",
    "completion tcsh",
)  # fmt: skip


def test_usage_errors_fit_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("main.nf.hcl").write_text('resource "nexus_site" "lab" {}\n')
    assert run_and_find_wide_lines(USAGE, capfd) == []


def test_internal_error_message_fits_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    def raise_internal_error(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("nexusform.cli.main.ROOT.main", raise_internal_error)
    assert run_command_line(["version"]) == 1
    text = capfd.readouterr().err
    assert "Internal error" in text
    assert list(find_wide_lines(text.splitlines())) == []
