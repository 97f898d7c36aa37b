"""Tests of errors in nexusform.sites.hcl.

All are reported at once with their lines, before anything is planned.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nexusform.diagnostics.diagnostic import Diagnostic
from nexusform.domains.sites.types.fleet_plan import FleetDefinition, UndeclaredSite, Wave
from nexusform.domains.sites.workflow.definition_file import read_definition
from nexusform.domains.sites.workflow.fleet_tasks import select_sites
from nexusform.files.regular_files import UNCONFINED

Fleet = Callable[..., None]
NOW = "2026-01-01T00:00:00Z"


def read_fleet_definition(text: str) -> tuple[FleetDefinition | None, list[Diagnostic]]:
    Path("nexusform.sites.hcl").write_text(text)
    definition, problems, _ = read_definition(".", UNCONFINED, NOW)
    return definition, problems


def list_ids_and_lines(problems: list[Diagnostic]) -> list[tuple[str, int]]:
    """Return the id and the line of each diagnostic."""
    return [(each.id, each.subject.start.line if each.subject else 0) for each in problems]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'site "a" { source = "./site" }\nsite "a" { source = "./site" }',
            [("duplicate-site-argument", 2)],
        ),
        (
            'site "a" { source = "./site" }\nsite "a" {\n  source = "./site"\n  wave = "x"\n}',
            [("duplicate-site-argument", 2), ("unknown-wave", 2)],
        ),
        (
            'site "a" {\n source = "./s"\n wave = "on"\n}\nstrategy {\n wave "one" {}\n}',
            [("unknown-wave", 1)],
        ),
        ('site "a" {}', [("missing-required-argument", 1)]),
        ('site "a" {\n source = "../elsewhere"\n}', [("source-outside-root", 2)]),
        ('site "a" {\n source = "git::https://x/y"\n}', [("remote-module-source", 2)]),
        ('site "a b" { source = "./s" }', [("invalid-site-name", 1)]),
        ('site "a" {\n source = "./s"\n input = {}\n}', [("unsupported-argument", 3)]),
        ('site "a" {\n source = "./s"\n inputs = [1]\n}', [("unsuitable-value-type", 3)]),
        ('site "a" {\n source = "./s"\n inputs = { t = timestamp() }\n}', [("unknown-value", 3)]),
        ('sites {\n source = "./s"\n for_each = ["a"]\n}', [("invalid-for-each-argument", 3)]),
        ('sites {\n source = "./s"\n}', [("missing-required-argument", 1)]),
        ("sites {\n source = var.x\n for_each = {a=1}\n}", [("invalid-reference", 2)]),
        (
            'strategy {\n wave "w" {\n  soak = "soon"\n }\n}\nsite "a" { source = "./s" }',
            [("invalid-value-for-argument", 3)],
        ),
        (
            'strategy {\n max_failures = -1\n}\nsite "a" { source = "./s" }',
            [("invalid-value-for-argument", 2)],
        ),
        (
            (
                'defaults {\n source = "."\n backend "local" {\n  path = "1"\n }\n}\nsite "a" {}\n'
                'site "b" {}'
            ),
            [("shared-site-state", 8)],
        ),
        (
            "".join(
                (
                    f'site "{name}" {{\n source = "./s"\n backend "local" {{\n  path = "{path}"\n '
                    "}\n}\n"
                )
                for name, path in (("a", "x/a"), ("b", "./x//a"))
            ),
            [("shared-site-state", 7)],
        ),
        ('site "a" {\n source = "./s"\n backend "lokal" {}\n}', [("unknown-backend", 3)]),
        (
            'site "a" {\n source = "./s"\n backend "local" {\n  paths = "x"\n }\n}',
            [("unsupported-argument", 4)],
        ),
        ("defaults {}\ndefaults {}", [("duplicate-block", 2)]),
        ("", [("no-sites", 1)]),
        ('site "a" {\n', [("unclosed-configuration-block", 1)]),
    ],
)
def test_error_is_reported_at_its_line(
    text: str, expected: list[tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    definition, problems = read_fleet_definition(text)
    assert definition is None
    assert list_ids_and_lines(problems)[: len(expected)] == expected


def test_several_errors_are_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        'site "a" {\n source = "../x"\n}\nsite "b" {}\nsite "c" {\n source = "./s"\n wave = "z"\n'
        "}\n"
    )
    _, problems = read_fleet_definition(text)
    assert [each for each, _ in list_ids_and_lines(problems)] == [
        "source-outside-root", "missing-required-argument", "unknown-wave",
    ]  # fmt: skip


def test_site_inputs_override_defaults_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    definition, problems = read_fleet_definition("""
    defaults {
      source = "./site"
      inputs = { racks = 2, token = sensitive("x"), name = site.name }
      labels = { kind = "edge" }
    }
    site "a" {
      inputs = { racks = 8 }
    }
    sites {
      for_each = toset(["c", "b"])
      name     = "lon-${each.key}"
      wave     = "first"
    }
    strategy {
      max_failures = 2
      wave "first" {
        soak = "1h30m"
      }
      wave "last" {
        max_failures = 0
        gate         = "approve"
      }
    }
    """)
    assert problems == []
    assert definition is not None
    assert [site.name for site in definition.sites] == ["a", "lon-b", "lon-c"]
    site = definition.sites[0]
    assert site.inputs == {"racks": 8, "token": "x", "name": "a"}
    assert (site.sensitive, site.wave, site.labels) == (("token",), "last", {"kind": "edge"})
    assert definition.sites[1].settings == {"path": "states/lon-b.nfstate"}
    first, last = definition.waves
    assert (first.max_failures, first.soak, first.needs_approval) == (2, 5400.0, False)
    assert (last.max_failures, last.needs_approval) == (0, True)


def test_wave_without_limits_stops_at_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = 'site "a" {\n source = "./s"\n wave = "one"\n}\nstrategy {\n wave "one" {}\n}\n'
    definition, problems = read_fleet_definition(text)
    assert definition is not None, problems
    assert definition.waves == (
        Wave("one", max_failures=0, max_miss_rate=1.0, soak=0.0, needs_approval=False),
    )


def test_source_outside_needs_permission_of_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet").mkdir()
    monkeypatch.chdir(tmp_path / "fleet")
    Path("nexusform.sites.hcl").write_text('site "a" {\n source = "../modules/site"\n}\n')
    allowed = (str(tmp_path / "modules"),)
    assert read_definition(".", UNCONFINED, NOW)[0] is None
    definition, _, _ = read_definition(".", UNCONFINED, NOW, allowed)
    assert definition is not None


def test_symlink_outside_the_tree_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fleet").mkdir()
    (tmp_path / "modules").mkdir()
    monkeypatch.chdir(tmp_path / "fleet")
    Path("site").symlink_to(tmp_path / "modules")
    _, problems = read_fleet_definition('site "a" {\n source = "./site"\n}\n')
    assert list_ids_and_lines(problems) == [("source-outside-root", 2)]


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        ('wave = "on"', [("unknown-wave", 1)]),
        ('backend "local" {\n path = "x"\n }', [("shared-site-state", 1)]),
    ],
)
def test_error_in_block_of_many_sites_is_reported_once(
    mistake: str, expected: list[tuple[str, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        'sites {\n source = "./s"\n for_each = toset(["a", "b", "c"])\n name = each.key\n '
        f"{mistake}\n}}"
    )
    definition, problems = read_fleet_definition(text)
    assert definition is None
    assert list_ids_and_lines(problems) == expected
    others = "1 other site" if "share" in problems[0].id else "2 other sites"
    assert problems[0].detail.endswith(f" The same holds for {others} of this block.")


@pytest.mark.parametrize(
    ("inputs", "sensitive"),
    [
        ('sensitive({ token = "x", racks = 2 })', ("racks", "token")),
        ('{ token = { key = sensitive("x") }, racks = 2 }', ("token",)),
    ],
)
def test_sensitive_inputs_stay_sensitive(
    inputs: str, sensitive: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    definition, problems = read_fleet_definition(
        f'site "a" {{\n source = "./s"\n inputs = {inputs}\n}}\n'
    )
    assert definition is not None, problems
    assert definition.sites[0].sensitive == sensitive


def test_printed_arguments_of_a_site_cannot_be_sensitive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    defaults = 'defaults {\n labels = { kind = sensitive("edge") }\n}\n'
    text = f'{defaults}site "a" {{\n source = "./s"\n wave = sensitive("w")\n}}\n'
    definition, problems = read_fleet_definition(text)
    assert definition is None
    assert [problem.id for problem in problems] == ["sensitive-site-argument"] * 2
    assert "edge" not in "".join(problem.detail for problem in problems)


@pytest.mark.parametrize(
    ("patterns", "wave", "names", "details"),
    [
        (["lon?"], "", ["lon1", "lon2"], []),
        (["*1"], "rest", ["par1"], []),
        (["ams"], "", [], ['-site: there is no site "ams".']),
        (
            ["old?"],
            "",
            [],
            ['-site: there is no site "old?". Existing states: old1\'s state states/old1.nfstate.'],
        ),
        (["lon1", "par2"], "", ["lon1"], ['-site: there is no site "par2". Did you mean "par1"?']),
        (
            [],
            "rset",
            [],
            ['-wave: there is no wave "rset". There are: "first", "rest". Did you mean "rest"?'],
        ),
        (["lon1"], "rest", [], ["No site of that wave has such a name. Nothing was planned."]),
    ],
)
def test_sites_are_selected_by_name_and_wave(
    patterns: list[str],
    wave: str,
    names: list[str],
    details: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    waves = {"lon1": "first", "lon2": "first", "par1": "rest"}
    sites = [
        f'site "{name}" {{\n source = "./s"\n wave = "{of_site}"\n}}\n'
        for name, of_site in waves.items()
    ]
    definition, problems = read_fleet_definition(
        "".join([*sites, 'strategy {\n wave "first" {}\n wave "rest" {}\n}\n'])
    )
    assert definition is not None, problems
    undeclared = [UndeclaredSite(name, f"states/{name}.nfstate") for name in ("gone", "old1")]
    selected, problems = select_sites(definition, patterns, wave, undeclared)
    assert (selected, [problem.detail for problem in problems]) == (names, details)
