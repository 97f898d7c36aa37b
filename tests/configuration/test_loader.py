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
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text)


def loaded(directory: str = ".", cache: str | None = None) -> Configuration:
    configuration, problems = load_configuration(directory, cache_directory=cache)
    assert problems == []
    assert configuration is not None
    return configuration


def summaries(problems: list[Diagnostic]) -> list[tuple[str, str]]:
    return [(p.subject.filename if p.subject else "-", p.summary) for p in problems]


# --- files -------------------------------------------------------------------------------------


def test_names_are_shown_as_they_would_be_typed() -> None:
    write("site/main.nf.hcl", 'module "a" {\n  source = "../shared/a"\n}\n')
    write("shared/a/main.nf.hcl", "locals {\n  x = 1\n}\n")
    configuration = loaded("./site/")
    assert set(configuration.files) == {"site/main.nf.hcl", "shared/a/main.nf.hcl"}
    assert configuration.root.directory == "site"
    assert configuration.root.calls["a"].module.directory == "shared/a"


def test_only_configuration_files_are_read() -> None:
    write("main.nf.hcl", "")
    for name in (".hidden.nf.hcl", "main.nf.hcl~", "notes.txt", "main.tf", "#x.nf.hcl"):
        write(name, "not a configuration {")
    assert set(loaded().files) == {"main.nf.hcl"}


def test_a_missing_directory_and_one_without_configuration() -> None:
    assert load_configuration("nowhere", cache_directory=None)[0] is None
    assert summaries(load_configuration("nowhere", cache_directory=None)[1]) == [
        ("-", "Unreadable configuration directory")
    ]
    assert summaries(load_configuration(".", cache_directory=None)[1]) == [("-", "No configuration files")]


def test_files_that_cannot_be_read_are_named() -> None:
    Path("latin.nf.hcl").write_bytes(b'locals {\n  a = "\xe9"\n}\n')
    Path("wide.nf.hcl").write_bytes("locals {}".encode("utf-16"))
    os.mkfifo("pipe.nf.hcl")
    Path("folder.nf.hcl").mkdir()
    configuration, problems = load_configuration(".", cache_directory=None)
    assert summaries(problems) == [
        ("folder.nf.hcl", "Unreadable file"),
        ("latin.nf.hcl", "Invalid character encoding"),
        ("pipe.nf.hcl", "Unreadable file"),
        ("wide.nf.hcl", "Invalid character encoding"),
    ]
    assert "line 2" in problems[1].detail
    assert configuration is not None


def test_a_byte_order_mark_does_no_harm() -> None:
    Path("main.nf.hcl").write_bytes(b"\xef\xbb\xbflocals {\n  a = 1\n}\n")
    assert list(loaded().root.locals) == ["a"]


# --- the cache ---------------------------------------------------------------------------------


def rack(number: int) -> str:
    return f'resource "nexus_rack" "r{number}" {{\n  name = "r{number}"\n}}\n\n'


def test_a_kept_tree_is_the_same_and_saves_the_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))))
    first = loaded(cache="cache")
    monkeypatch.setattr("nexusform.configuration.loader.parse_file", None)
    assert loaded(cache="cache") == first


def test_a_changed_or_damaged_file_is_parsed_again() -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))))
    first = loaded(cache="cache")
    for kept in Path("cache").rglob("*"):
        if kept.is_file():
            kept.write_bytes(kept.read_bytes()[:100])
    assert loaded(cache="cache") == first
    write("main.nf.hcl", "".join(map(rack, range(151))))
    assert len(loaded(cache="cache").root.resources) == 151


def test_without_a_cache_directory_nothing_is_written() -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))))
    loaded()
    assert [p.name for p in Path().iterdir()] == ["main.nf.hcl"]


def kept_trees() -> list[Path]:
    return sorted(Path("cache", "trees").iterdir())


def test_a_tree_that_somebody_else_put_into_the_cache_is_not_believed() -> None:
    write("other.nf.hcl", "".join(map(rack, range(150))))
    other = loaded(cache="cache")
    (entry,) = kept_trees()
    forged = entry.read_bytes()
    entry.unlink()
    Path("other.nf.hcl").unlink()
    write("main.nf.hcl", "".join(map(rack, range(151))))
    ours = loaded(cache="cache")
    (entry,) = kept_trees()
    for content in (forged, forged[32:], b"\0" * 32 + forged[32:]):
        entry.write_bytes(content)
        assert loaded(cache="cache") == ours != other
        assert entry.read_bytes() != content, "it is kept anew"


@pytest.mark.parametrize("flaw", ["mode", "link", "short", "directory"])
def test_a_key_that_others_may_know_makes_no_cache(flaw: str) -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))))
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
    assert len(loaded(cache="cache").root.resources) == 150
    assert not Path("cache", "trees").exists()


def test_the_key_is_for_its_owner_alone() -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))))
    loaded(cache="cache")
    key = Path("cache", "key")
    assert key.stat().st_mode & 0o777 == 0o600
    assert Path("cache").stat().st_mode & 0o777 == 0o700
    assert len(key.read_bytes()) == 32
    assert all(tree.stat().st_mode & 0o777 == 0o600 for tree in kept_trees())


def test_a_cache_that_cannot_be_written_is_none() -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))))
    write("cache", "a file in the way")
    assert len(loaded(cache="cache").root.resources) == 150


def test_a_broken_file_is_not_kept() -> None:
    write("main.nf.hcl", "".join(map(rack, range(150))) + "oops")
    assert (
        load_configuration(".", cache_directory="cache")[1] == load_configuration(".", cache_directory="cache")[1] != []
    )
    assert parser.parse_file(SourceFile("x", "oops"))[1]


# --- variables ---------------------------------------------------------------------------------


def values(*options: tuple[str, str], **environment: str) -> tuple[dict[str, tuple[object, str]], list[Diagnostic]]:
    found, problems = read_root_variables(loaded(), environment=environment, var_options=options, directory=".")
    return {name: (convert_to_plain(v)[0], origin.text) for name, (v, origin) in found.items()}, problems


def test_later_sources_win_over_earlier_ones() -> None:
    write("main.nf.hcl", 'variable "a" {\n  type = string\n  default = "default"\n}\n')
    expected = [("default", "default")]
    assert values() == ({"a": expected[0]}, [])
    assert values(NF_VAR_a="env") == ({"a": ("env", "environment variable NF_VAR_a")}, [])
    for name, text in (
        ("nexusform.nfvars.hcl", 'a = "one"'),
        ("nexusform.nfvars.json", '{"a": "two"}'),
        ("a.auto.nfvars.hcl", 'a = "three"'),
        ("b.auto.nfvars.json", '{"a": "four"}'),
    ):
        write(name, text)
        found, problems = values(NF_VAR_a="env")
        assert (found["a"][1], problems) == (name, [])
    write("given.nfvars.hcl", 'a = "file"')
    assert values(("var", "a=x"), ("var-file", "given.nfvars.hcl"))[0]["a"] == ("file", "given.nfvars.hcl")
    assert values(("var-file", "given.nfvars.hcl"), ("var", "a=x=y"))[0]["a"] == ("x=y", "-var")


def test_text_is_literal_for_primitive_types_and_an_expression_for_others() -> None:
    write(
        "main.nf.hcl",
        'variable "s" {\n  type = string\n}\nvariable "n" {\n  type = number\n}\n'
        'variable "l" {\n  type = list(string)\n}\nvariable "any" {\n}\n'
        'variable "o" {\n  type = object({ a = string, b = optional(number, 7) })\n}\n',
    )
    found, problems = values(
        ("var", 's=["x"]'), ("var", "n=12"), ("var", "l=[1, 2]"), ("var", "any=x y"), ("var", 'o={a = "k"}')
    )
    assert problems == []
    assert {n: v for n, (v, _) in found.items()} == {
        "s": '["x"]',
        "n": 12,
        "l": ["1", "2"],
        "any": "x y",
        "o": {"a": "k", "b": 7},
    }


def test_values_that_do_not_fit_are_told() -> None:
    write("main.nf.hcl", 'variable "n" {\n  type = number\n}\nvariable "l" {\n  type = list(string)\n}\n')
    found, problems = values(("var", "n=many"), ("var", "l=[1"))
    assert problems[0].summary == "Invalid value for input variable"
    assert "var.n declared at main.nf.hcl:1,1-13: a number is required." in problems[0].detail
    assert len(problems) == 2
    write("x.nfvars.hcl", "n = 1\nl = upper(2)\n")
    found, problems = values(("var-file", "x.nfvars.hcl"))
    assert summaries(problems) == [("x.nfvars.hcl", "Function calls not allowed")]
    assert found["n"] == (1, "x.nfvars.hcl")


def test_required_and_not_nullable() -> None:
    write(
        "main.nf.hcl",
        'variable "a" {\n}\nvariable "b" {\n  default = 5\n  nullable = false\n}\n'
        'variable "c" {\n  nullable = false\n}\n',
    )
    write("x.nfvars.hcl", "b = null\nc = null\n")
    found, problems = values(("var-file", "x.nfvars.hcl"))
    assert found["b"] == (5, "default")
    assert summaries(problems) == [
        ("main.nf.hcl", "No value for required variable"),
        ("x.nfvars.hcl", "Required variable not set"),
    ]


def test_undeclared_variables() -> None:
    write("main.nf.hcl", 'variable "zone" {\n  default = 1\n}\n')
    write("x.nfvars.hcl", "zne = 1\n")
    _, problems = values(("var-file", "x.nfvars.hcl"), ("var", "zon=1"), NF_VAR_other="1")
    assert [(p.severity, p.summary) for p in problems] == [
        (Severity.WARNING, "Value for undeclared variable"),
        (Severity.ERROR, "Value for undeclared variable"),
    ]
    assert 'Did you mean "zone"?' in problems[0].detail


def test_options_and_files_that_are_none() -> None:
    write("main.nf.hcl", "")
    _, problems = values(("var", "novalue"), ("var", "a =1"), ("var-file", "gone.nfvars.hcl"))
    assert [p.summary for p in problems] == [
        "Invalid -var option",
        "Invalid variable name",
        "Failed to read variables file",
    ]
    write("bad.nfvars.hcl", "block {\n}\na = \n")
    options = [("var-file", "bad.nfvars.hcl")]
    _, problems = read_root_variables(loaded(), environment={}, var_options=options, directory=".")
    assert {p.subject.filename for p in problems if p.subject} == {"bad.nfvars.hcl"}


def test_broken_files_bring_no_complaints_about_variables() -> None:
    write("main.nf.hcl", 'variable "a" {\n')
    configuration, problems = load_configuration(".", cache_directory=None)
    assert len(problems) == 1
    assert configuration is not None
    options = [("var", "a=1")]
    assert read_root_variables(configuration, environment={}, var_options=options, directory=".") == ({}, [])


def test_sensitive_variables_are_marked() -> None:
    write("main.nf.hcl", 'variable "key" {\n  sensitive = true\n}\n')
    found, _ = read_root_variables(loaded(), environment={"NF_VAR_key": "k"}, var_options=[], directory=".")
    assert found["key"][0].is_sensitive


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("main.nf.hcl", 'variable "l" {\n  type = list\n}\nvariable "m" {\n  type = map\n}\n'),
        ("main.nf.json", '{"variable": {"l": {"type": "list"}, "m": {"type": "map"}}}'),
    ],
)
def test_list_and_map_alone_are_short_for_those_of_anything(name: str, text: str) -> None:
    write(name, text)
    variables = loaded().root.variables
    assert variables["l"].type == ListType(DYNAMIC)
    assert variables["m"].type == MapType(DYNAMIC)
