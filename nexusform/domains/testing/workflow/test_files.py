"""Search and parsing of test files."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nexusform.configuration.loader import check_hidden_characters
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    has_errors,
    suggest_name,
)
from nexusform.domains.testing.configuration.test_file_blocks import TestFile, decode_test_file
from nexusform.interfaces.plugins import FileProblem
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import parse_file
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.opening.system_io import ConfinedFileAccess

ENDINGS: Final = (".nftest.hcl", ".nftest.json")
DEFAULT_DIRECTORY: Final = "tests"


def find_test_files(
    context: CommandContext,
    test_directory: str,
    requested_files: Sequence[str],
    problems: list[Diagnostic],
) -> list[str]:
    """Return the test files next to the configuration and in the test directory, sorted by name.

    With `requested_files`, only those are returned; a name without a test file is an error.
    """
    paths: list[str] = []
    root = context.directory
    for directory in dict.fromkeys((root, os.path.normpath(Path(root, test_directory)))):
        try:
            directory_path = context.confinement.resolve_path_of_operator(directory)
            names = os.listdir(directory_path)  # noqa: PTH208 - names, not paths
        except FileNotFoundError:
            # Only this one is optional.
            if test_directory != DEFAULT_DIRECTORY:
                problems.append(
                    build_error(
                        "unreadable-test-directory", f'There is no directory "{directory}".'
                    )
                )
        except OSError as problem:
            detail = f'"{directory}" cannot be read: {problem.strerror}.'
            problems.append(build_error("unreadable-test-directory", detail))
        else:
            # Without hidden ones.
            test_names = [name for name in names if name.endswith(ENDINGS) and name[0] != "."]
            paths += [
                os.path.normpath(Path(directory, name))
                for name in sorted(test_names, key=os.fsencode)
            ]
    if not requested_files:
        return paths
    requested_paths = {os.path.normpath(Path(root, name)) for name in requested_files}
    for name in sorted(requested_paths - set(paths)):
        detail = f'There is no test file "{name}".{suggest_name(name, paths)}'
        problems.append(build_error("unknown-test-file", detail))
    return [name for name in paths if name in requested_paths]


def read_test_file(
    path: str, context: CommandContext, sources: dict[str, SourceFile]
) -> tuple[TestFile | None, list[Diagnostic]]:
    """Read one test file; None if it is invalid.

    Its text is added to `sources`.
    """
    try:
        text = (
            ConfinedFileAccess().read(context.confinement.resolve_path_of_operator(path)).decode()
        )
    except OSError as problem:
        return None, [
            build_error("unreadable-test-file", f'"{path}" cannot be read: {problem.strerror}.')
        ]
    except FileProblem as problem:
        return None, [build_error("unreadable-test-file", str(problem))]
    except UnicodeDecodeError as problem:
        detail = f'"{path}" is not UTF-8: byte {problem.start} is invalid. Save the file as UTF-8.'
        return None, [build_error("invalid-character-encoding", detail)]
    source = sources[path] = SourceFile(path, text)
    body, new_problems = parse_json_file(source) if path.endswith(".json") else parse_file(source)
    problems = [*check_hidden_characters(source), *new_problems]
    if has_errors(problems):
        return None, problems
    file, new_problems = decode_test_file(path, body)
    problems = [*problems, *new_problems]
    return (None if has_errors(problems) else file), problems


def list_test_file_problems(
    context: CommandContext, directory: str, sources: dict[str, SourceFile]
) -> list[Diagnostic]:
    """Return the problems of the test files; their texts are added to `sources`."""
    problems: list[Diagnostic] = []
    for path in find_test_files(context, directory, requested_files=(), problems=problems):
        _, new_problems = read_test_file(path, context, sources)
        problems += new_problems
    return problems
