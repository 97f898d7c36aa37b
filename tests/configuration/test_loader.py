from __future__ import annotations

import os
from pathlib import Path

import pytest

from nexusform.configuration.declarations.configuration import Configuration
from nexusform.configuration.loader import load_configuration, read_root_variables
from nexusform.diagnostics.diagnostic import Diagnostic, Severity, SourceFile
from nexusform.json_data.plain_data import convert_to_plain
from nexusform.language import parser
from nexusform.schemas.value_types import DYNAMIC, ListType, MapType


@pytest.fixture(autouse=True)
def _change_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_file(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def load(directory: str = ".", cache: str | None = None) -> Configuration:
    configuration, problems = load_configuration(directory, cache_directory=cache)
    assert problems == []
    assert configuration is not None
    return configuration


def list_summaries(problems: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(p.subject.filename if p.subject else "-", p.summary) for p in problems]


# --- files -------------------------------------------------------------------------------------


def test_file_names_are_shown_as_on_the_command_line() -> None:
    write_file("site/main.nf.hcl", 'module "a" {\n  source = "../shared/a"\n}\n')
    write_file("shared/a/main.nf.hcl", "locals {\n  x = 1\n}\n")
    configuration = load("./site/")
    assert set(configuration.files) == {"site/main.nf.hcl", "shared/a/main.nf.hcl"}
    assert configuration.root.directory == "site"
    assert configuration.root.calls["a"].module.directory == "shared/a"


def test_only_configuration_files_are_read() -> None:
    write_file("main.nf.hcl", "")
    for name in (".hidden.nf.hcl", "main.nf.hcl~", "notes.txt", "main.tf", "#x.nf.hcl"):
        write_file(name, "not a configuration {")
    assert set(load().files) == {"main.nf.hcl"}


def test_missing_or_empty_directory_is_reported() -> None:
    assert not load_configuration("nowhere", cache_directory=None)[0].files
    assert list_summaries(load_configuration("nowhere", cache_directory=None)[1]) == [
        ("-", "Unreadable configuration directory")
    ]
    assert list_summaries(load_configuration(".", cache_directory=None)[1]) == [
        ("-", "No configuration files")
    ]


def test_unreadable_files_are_named() -> None:
    Path("latin.nf.hcl").write_bytes(b'locals {\n  a = "\xe9"\n}\n')
    Path("wide.nf.hcl").write_bytes("locals {}".encode("utf-16"))
    os.mkfifo("pipe.nf.hcl")
    Path("folder.nf.hcl").mkdir()
    configuration, problems = load_configuration(".", cache_directory=None)
    assert list_summaries(problems) == [
        ("folder.nf.hcl", "Unreadable file"),
        ("latin.nf.hcl", "Invalid character encoding"),
        ("pipe.nf.hcl", "Unreadable file"),
        ("wide.nf.hcl", "Invalid character encoding"),
    ]
    assert "line 2" in problems[1].detail
    assert configuration is not None


def test_byte_order_mark_is_accepted() -> None:
    Path("main.nf.hcl").write_bytes(b"\xef\xbb\xbflocals {\n  a = 1\n}\n")
    assert list(load().root.locals) == ["a"]


# --- the cache ---------------------------------------------------------------------------------


def format_rack(number: int) -> str:
    return f'resource "nexus_rack" "r{number}" {{\n  name = "r{number}"\n}}\n\n'


def test_cached_tree_is_equal_and_avoids_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))))
    first = load(cache="cache")
    monkeypatch.setattr("nexusform.configuration.loader.parse_file", None)
    assert load(cache="cache") == first


def test_changed_file_or_damaged_tree_is_parsed_again() -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))))
    first = load(cache="cache")
    for kept in Path("cache").rglob("*"):
        if kept.is_file():
            kept.write_bytes(kept.read_bytes()[:100])
    assert load(cache="cache") == first
    write_file("main.nf.hcl", "".join(map(format_rack, range(151))))
    assert len(load(cache="cache").root.resources) == 151


def test_without_cache_directory_nothing_is_written() -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))))
    load()
    assert [p.name for p in Path().iterdir()] == ["main.nf.hcl"]


def list_cached_trees() -> list[Path]:
    return sorted(Path("cache", "trees").iterdir())


def test_forged_tree_in_cache_is_ignored() -> None:
    write_file("other.nf.hcl", "".join(map(format_rack, range(150))))
    other = load(cache="cache")
    (entry,) = list_cached_trees()
    forged = entry.read_bytes()
    entry.unlink()
    Path("other.nf.hcl").unlink()
    write_file("main.nf.hcl", "".join(map(format_rack, range(151))))
    ours = load(cache="cache")
    (entry,) = list_cached_trees()
    for content in (forged, forged[32:], b"\0" * 32 + forged[32:]):
        entry.write_bytes(content)
        assert load(cache="cache") == ours != other
        assert entry.read_bytes() != content, "it is kept anew"


@pytest.mark.parametrize("flaw", ["mode", "link", "short", "directory"])
def test_cache_is_disabled_if_key_is_not_private(flaw: str) -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))))
    key = Path("cache", "key")
    key.parent.mkdir()
    if flaw == "directory":
        key.mkdir()
    elif flaw == "link":
        Path("known").write_bytes(b"k" * 32)
        Path("known").chmod(0o600)
        key.symlink_to(Path("known").resolve())
    else:
        key.write_bytes(b"k" * (32 if flaw == "mode" else 31))
        key.chmod(0o640 if flaw == "mode" else 0o600)
    assert len(load(cache="cache").root.resources) == 150
    assert not Path("cache", "trees").exists()


def test_key_and_trees_are_private() -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))))
    load(cache="cache")
    key = Path("cache", "key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert Path("cache").stat().st_mode & 0o777 == 0o700
    assert len(key.read_bytes()) == 32
    assert all(tree.stat().st_mode & 0o777 == 0o600 for tree in list_cached_trees())


def test_unwritable_cache_is_ignored() -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))))
    write_file("cache", "a file in the way")
    assert len(load(cache="cache").root.resources) == 150


def test_invalid_file_is_not_cached() -> None:
    write_file("main.nf.hcl", "".join(map(format_rack, range(150))) + "oops")
    assert (
        load_configuration(".", cache_directory="cache")[1]
        == load_configuration(".", cache_directory="cache")[1]
        != []
    )
    assert parser.parse_file(SourceFile("x", "oops"))[1]


# --- variables ---------------------------------------------------------------------------------


def read_variables(
    *options: tuple[str, str], **environment: str
) -> tuple[dict[str, tuple[object, str]], list[Diagnostic]]:
    found, problems = read_root_variables(
        load(), environment=environment, var_options=options, directory="."
    )
    return {
        name: (convert_to_plain(v)[0], origin.text) for name, (v, origin) in found.items()
    }, problems


def test_later_sources_override_earlier_ones() -> None:
    write_file("main.nf.hcl", 'variable "a" {\n  type = string\n  default = "default"\n}\n')
    expected = [("default", "default")]
    assert read_variables() == ({"a": expected[0]}, [])
    assert read_variables(NF_VAR_a="env") == ({"a": ("env", "environment variable NF_VAR_a")}, [])
    for name, text in (
        ("nexusform.nfvars.hcl", 'a = "one"'),
        ("nexusform.nfvars.json", '{"a": "two"}'),
        ("a.auto.nfvars.hcl", 'a = "three"'),
        ("b.auto.nfvars.json", '{"a": "four"}'),
    ):
        write_file(name, text)
        found, problems = read_variables(NF_VAR_a="env")
        assert (found["a"][1], problems) == (name, [])
    write_file("given.nfvars.hcl", 'a = "file"')
    assert read_variables(("var", "a=x"), ("var-file", "given.nfvars.hcl"))[0]["a"] == (
        "file",
        "given.nfvars.hcl",
    )
    assert read_variables(("var-file", "given.nfvars.hcl"), ("var", "a=x=y"))[0]["a"] == (
        "x=y",
        "-var",
    )


def test_text_is_literal_for_primitive_types_else_an_expression() -> None:
    write_file(
        "main.nf.hcl",
        'variable "s" {\n  type = string\n}\nvariable "n" {\n  type = number\n}\n'
        'variable "l" {\n  type = list(string)\n}\nvariable "any" {\n}\n'
        'variable "o" {\n  type = object({ a = string, b = optional(number, 7) })\n}\n',
    )
    found, problems = read_variables(
        ("var", 's=["x"]'),
        ("var", "n=12"),
        ("var", "l=[1, 2]"),
        ("var", "any=x y"),
        ("var", 'o={a = "k"}'),
    )
    assert problems == []
    assert {n: v for n, (v, _) in found.items()} == {
        "s": '["x"]',
        "n": 12,
        "l": ["1", "2"],
        "any": "x y",
        "o": {"a": "k", "b": 7},
    }


def test_values_of_wrong_type_are_reported() -> None:
    write_file(
        "main.nf.hcl",
        'variable "n" {\n  type = number\n}\nvariable "l" {\n  type = list(string)\n}\n',
    )
    found, problems = read_variables(("var", "n=many"), ("var", "l=[1"))
    assert problems[0].summary == "Invalid value for input variable"
    assert "var.n declared at main.nf.hcl:1,1-13: a number is required." in problems[0].detail
    assert len(problems) == 2
    write_file("x.nfvars.hcl", "n = 1\nl = upper(2)\n")
    found, problems = read_variables(("var-file", "x.nfvars.hcl"))
    assert list_summaries(problems) == [("x.nfvars.hcl", "Function calls not allowed")]
    assert found["n"] == (1, "x.nfvars.hcl")


def test_required_and_not_nullable() -> None:
    write_file(
        "main.nf.hcl",
        'variable "a" {\n}\nvariable "b" {\n  default = 5\n  nullable = false\n}\n'
        'variable "c" {\n  nullable = false\n}\n',
    )
    write_file("x.nfvars.hcl", "b = null\nc = null\n")
    found, problems = read_variables(("var-file", "x.nfvars.hcl"))
    assert found["b"] == (5, "default")
    assert list_summaries(problems) == [
        ("main.nf.hcl", "No value for required variable"),
        ("x.nfvars.hcl", "Required variable not set"),
    ]


def test_undeclared_variables() -> None:
    write_file("main.nf.hcl", 'variable "zone" {\n  default = 1\n}\n')
    write_file("x.nfvars.hcl", "zne = 1\n")
    _, problems = read_variables(("var-file", "x.nfvars.hcl"), ("var", "zon=1"), NF_VAR_other="1")
    assert [(p.severity, p.summary) for p in problems] == [
        (Severity.WARNING, "Value for undeclared variable"),
        (Severity.ERROR, "Value for undeclared variable"),
    ]
    assert 'Did you mean "zone"?' in problems[0].detail


def test_invalid_options_and_missing_files_are_reported() -> None:
    write_file("main.nf.hcl", "")
    _, problems = read_variables(
        ("var", "novalue"), ("var", "a =1"), ("var-file", "gone.nfvars.hcl")
    )
    assert [p.summary for p in problems] == [
        "Invalid -var option",
        "Invalid variable name",
        "Failed to read variables file",
    ]
    write_file("bad.nfvars.hcl", "block {\n}\na = \n")
    options = [("var-file", "bad.nfvars.hcl")]
    _, problems = read_root_variables(load(), environment={}, var_options=options, directory=".")
    assert {p.subject.filename for p in problems if p.subject} == {"bad.nfvars.hcl"}


def test_invalid_files_cause_no_errors_about_variables() -> None:
    write_file("main.nf.hcl", 'variable "a" {\n')
    configuration, problems = load_configuration(".", cache_directory=None)
    assert len(problems) == 1
    assert configuration is not None
    options = [("var", "a=1")]
    assert read_root_variables(
        configuration, environment={}, var_options=options, directory="."
    ) == ({}, [])


def test_sensitive_variables_are_marked() -> None:
    write_file("main.nf.hcl", 'variable "key" {\n  sensitive = true\n}\n')
    found, _ = read_root_variables(
        load(), environment={"NF_VAR_key": "k"}, var_options=[], directory="."
    )
    assert found["key"][0].is_sensitive


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main.nf.hcl", 'variable "l" {\n  type = list\n}\nvariable "m" {\n  type = map\n}\n'),
        ("main.nf.json", '{"variable": {"l": {"type": "list"}, "m": {"type": "map"}}}'),
    ],
)
def test_list_and_map_without_element_type_accept_any(name: str, text: str) -> None:
    write_file(name, text)
    variables = load().root.variables
    assert variables["l"].type == ListType(DYNAMIC)
    assert variables["m"].type == MapType(DYNAMIC)
