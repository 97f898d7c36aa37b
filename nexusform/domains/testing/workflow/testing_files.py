"""Which test files there are, and what they say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nexusform.configuration.loader import hidden_characters
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.domains.testing.configuration.testing_blocks import RunFile, decode_test_file
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_file
from nexusform.ports import FileProblem
from nexusform.source import SourceFile
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.surroundings import RealFiles

ENDINGS: Final = (".nftest.hcl", ".nftest.json")
DEFAULT_DIRECTORY: Final = "tests"


def find_test_files(
    place: Place, test_directory: str, named: Sequence[str], problems: list[Diagnostic]
) -> list[str]:
    """The test files beside the configuration and in the test directory, by name.

    Of `named` ones only those; one that names no test file is an error.
    """
    paths: list[str] = []
    root = place.directory
    for directory in dict.fromkeys((root, os.path.normpath(Path(root, test_directory)))):
        try:
            opened = place.confinement.followed(directory)
            names = sorted(os.listdir(opened), key=os.fsencode)  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            continue
        except OSError as problem:
            problems.append(
                error("unreadable-test-directory", f'"{directory}" cannot be read: {problem.strerror}.')
            )
            continue
        paths += [os.path.normpath(Path(directory, n)) for n in names if n.endswith(ENDINGS) and n[0] != "."]
    if not named:
        return paths
    chosen = {os.path.normpath(Path(root, name)) for name in named}
    for name in sorted(chosen - set(paths)):
        detail = f'There is no test file "{name}".{did_you_mean(name, paths)}'
        problems.append(error("unknown-test-file", detail))
    return [name for name in paths if name in chosen]


def read_test_file(
    path: str, place: Place, sources: dict[str, SourceFile]
) -> tuple[RunFile | None, list[Diagnostic]]:
    """One test file; None when it is in error. Its text is added to `sources`."""
    try:
        text = RealFiles().read(place.confinement.followed(path)).decode()
    except OSError as problem:
        return None, [error("unreadable-test-file", f'"{path}" cannot be read: {problem.strerror}.')]
    except FileProblem as problem:
        return None, [error("unreadable-test-file", str(problem))]
    except UnicodeDecodeError as problem:
        detail = f'"{path}" is not UTF-8: byte {problem.start} belongs to no character. Save it as UTF-8.'
        return None, [error("invalid-character-encoding", detail)]
    source = sources[path] = SourceFile(path, text)
    parsed = parse_json_file(source) if path.endswith(".json") else parse_file(source)
    body, wrong = parsed
    problems = [*hidden_characters(source), *wrong]
    if has_errors(problems):
        return None, problems
    file, wrong = decode_test_file(path, body)
    problems = [*problems, *wrong]
    return (None if has_errors(problems) else file), problems


def test_file_problems(place: Place, directory: str, sources: dict[str, SourceFile]) -> list[Diagnostic]:
    """What is wrong with the test files; their texts are added to `sources`."""
    problems: list[Diagnostic] = []
    for path in find_test_files(place, directory, (), problems):
        problems += read_test_file(path, place, sources)[1]
    return problems
