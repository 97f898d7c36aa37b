"""Functions on files and paths, and functions that render a text as a template.

Files are read through the Files port. `templatefile` and `templatestring` render a text with
variables of its own.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    build_error,
    has_errors,
    select_errors,
    suggest_name,
)
from nexusform.json_data.plain_data import ConversionProblem
from nexusform.language.evaluation_run import FileProblem, Files, MissingDirectory
from nexusform.language.functions.encoding import decode_utf8
from nexusform.language.functions.function import (
    Example,
    Function,
    FunctionProblem,
    Functions,
    Parameter,
    build_plain_function,
)
from nexusform.language.functions.hashing import HASHES, encode_base64
from nexusform.language.syntax.syntax_nodes import Traversal
from nexusform.language.type_conversion import convert_value, describe_problem
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    STRING,
    MapType,
    ObjectType,
    SetType,
    describe_type,
)
from nexusform.values.typed_value import DYNAMIC_UNKNOWN, Value, build_set, build_string

# Of nested template calls.
MAX_DEPTH: Final = 32
_NAME: Final = re.compile(r"[^\W\d][\w-]*\Z")
_PATH: Final = [("path", STRING, "a path, relative to the working directory")]
_VARIABLES: Final = Parameter("vars", DYNAMIC, "a map or object of the template's variables")


def _get_base_name(path: str) -> str:
    """Return the last part of a path, as Go does: "." for an empty path, "/" for the root."""
    if not path:
        return "."
    return path.rstrip("/").rpartition("/")[2] or "/"


def _get_directory(path: str) -> str:
    """Return a path without its last part: "." for a name alone."""
    head = path.rpartition("/")[0]
    if not head and path.startswith("/"):
        return "/"
    return posixpath.normpath(head) if head else "."


PATH_FUNCTIONS: Final = (
    build_plain_function(
        "basename",
        "The last part of a path.",
        _PATH,
        compute=_get_base_name,
        examples=[('basename("foo/bar/baz.txt")', '"baz.txt"')],
    ),
    build_plain_function(
        "dirname",
        "A path without its last part.",
        _PATH,
        compute=_get_directory,
        examples=[('dirname("foo/bar/baz.txt")', '"foo/bar"'), ('dirname("foo")', '"."')],
    ),
)


class FileReader:
    """Reader of files for functions: relative paths start at the base directory."""

    def __init__(self, files: Files, base_directory: str) -> None:
        self._files = files
        self._base = base_directory

    def resolve(self, path: str) -> str:
        """Return the path to read: `~` expanded, relative to the base directory.

        Raises FunctionProblem.
        """
        expanded = self.expand_home(path)
        if self._base in {"", "."} or expanded.startswith("/"):
            return expanded
        return posixpath.join(self._base, expanded)

    def read(self, path: str) -> bytes:
        """Read the content of a file.

        Raises FunctionProblem.
        """
        full_path = self.resolve(path)
        with _convert_file_problems():
            return self._files.read(full_path)

    def read_text(self, path: str) -> str:
        """Read the content of a text file.

        Raises FunctionProblem.
        """
        return decode_utf8(self.read(path), f'the content of "{path}"')

    def is_file(self, path: str) -> bool:
        """Check whether a file exists.

        Raises FunctionProblem.
        """
        full_path = self.resolve(path)
        with _convert_file_problems():
            return self._files.is_file(full_path)

    def find_files(self, path: str, pattern: str) -> list[str]:
        """Find the files below a directory that match, none if it does not exist.

        Raises FunctionProblem.
        """
        full_path = self.resolve(path)
        with _convert_file_problems(), suppress(MissingDirectory):
            return self._files.find_files(full_path, pattern)
        return []

    def resolve_path(self, path: str) -> str:
        """Return the absolute form of a path.

        Raises FunctionProblem.
        """
        with _convert_file_problems():
            return self._files.resolve_path(path)

    def expand_home(self, path: str) -> str:
        """Replace `~` at the start.

        Raises FunctionProblem.
        """
        with _convert_file_problems():
            return self._files.expand_home(path)


@contextmanager
def _convert_file_problems() -> Iterator[None]:
    """Raise a FileProblem of the `with` block as a FunctionProblem about the path.

    The path is the first argument.
    """
    try:
        yield
    except FileProblem as problem:
        raise FunctionProblem(str(problem).rstrip("."), argument=0) from None


def _build_file_hash(
    reader: FileReader, name: str, description: str, digest: Callable[[bytes], str]
) -> Function:
    """Build the function to hash a file, such as filesha256 for the name "sha256", by `digest`."""
    return build_plain_function(
        f"file{name}",
        f"The {description} of a file.",
        _PATH,
        compute=lambda path: digest(reader.read(path)),
    )


def build_file_functions(reader: FileReader) -> tuple[Function, ...]:
    """Build the functions that read files."""
    return (
        build_plain_function(
            "abspath", "The absolute form of a path.", _PATH, compute=reader.resolve_path
        ),
        build_plain_function(
            "file", "The content of a text file (UTF-8).", _PATH, compute=reader.read_text
        ),
        build_plain_function(
            "filebase64",
            "The content of a file in base64.",
            _PATH,
            compute=lambda p: encode_base64(reader.read(p)),
        ),
        *[_build_file_hash(reader, *hash_entry) for hash_entry in HASHES],
        build_plain_function(
            "fileexists",
            "Whether a regular file exists at a path.",
            _PATH,
            returns=BOOL,
            compute=reader.is_file,
        ),
        Function(
            "fileset",
            "The files below a directory that match a pattern: *, **, ?, [a-z] and {a,b}.",
            (
                Parameter("path", STRING, "the directory"),
                Parameter("pattern", STRING, "the pattern"),
            ),
            returns=SetType(STRING),
            body=lambda path, pattern: build_set(
                map(build_string, reader.find_files(path.raw, pattern.raw)), STRING
            ),
        ),
        build_plain_function(
            "pathexpand",
            "A path with ~ at its start replaced by the home directory.",
            _PATH,
            compute=reader.expand_home,
        ),
    )


class _TemplateScope:
    # Contains only the variables passed to a template.
    def __init__(self, variables: Mapping[str, Value], functions: Functions) -> None:
        self._variables = variables
        self._functions = functions

    @property
    def functions(self) -> Functions:
        return self._functions

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return the value of a variable, or an unknown value with an error (see Scope.lookup)."""
        name = traversal.root.name
        value = self._variables.get(name)
        if value is not None:
            # No step is applied yet.
            return value, 0, []
        hint = suggest_name(name, self._variables)
        detail = f'vars map does not contain key "{name}".{hint}'
        problem = build_error("unknown-template-variable", detail, traversal.root.span)
        # No step is left to apply.
        return DYNAMIC_UNKNOWN, len(traversal.steps), [problem]


class TemplateRenderer:
    """Renderer of templates with the functions of the configuration, with limited nesting."""

    def __init__(self) -> None:
        # For the templates; set once all functions are built.
        self.functions: Functions = {}
        # Of templates that render one another.
        self._depth = 0

    def render(self, name: str, text: str, variables: Value) -> Value:
        """Render a template to its value: text, or of any type if it is one interpolation.

        Raises FunctionProblem, also if the value is null.
        """
        from nexusform.language.evaluator import evaluate_expression
        from nexusform.language.parser import parse_template

        if self._depth >= MAX_DEPTH:
            raise FunctionProblem(f"templates render one another more than {MAX_DEPTH} levels deep")
        if not isinstance(variables.type, (MapType, ObjectType)):
            raise FunctionProblem(
                f"invalid vars value: must be a map, not {describe_type(variables.type)}",
                argument=1,
            )
        for variable_name in variables.raw:
            if not _NAME.match(variable_name):
                raise FunctionProblem(
                    f'invalid template variable name "{variable_name}": must start with a letter, '
                    "followed by zero or "
                    "more letters, digits, and underscores",
                    argument=1,
                )
        expression, problems = parse_template(SourceFile(name, text))
        if expression is None or has_errors(problems):
            raise FunctionProblem(_describe_first_error(problems))
        self._depth += 1
        try:
            value, problems = evaluate_expression(
                expression, _TemplateScope(variables.raw, self.functions)
            )
        finally:
            self._depth -= 1
        if has_errors(problems):
            raise FunctionProblem(_describe_first_error(problems))
        if value.is_null:
            raise FunctionProblem(
                f"{name}: the result of the template is null. Use a variable that is not null, "
                'for example through coalesce(x, "")'
            )
        return value

    def render_string(self, text: Value, variables: Value) -> Value:
        """Render the template of `templatestring` to text.

        Raises FunctionProblem.
        """
        value = self.render("<templatestring argument>", text.raw, variables)
        try:
            return convert_value(value, STRING)
        except ConversionProblem as problem:
            raise FunctionProblem(f"invalid template result: {describe_problem(problem)}") from None


def _describe_first_error(problems: Sequence[Diagnostic]) -> str:
    """Return position, summary and detail of the first error as one clause."""
    first = select_errors(problems)[0]
    span = first.subject
    position = f"{span.filename}:{span.start.line},{span.start.column}: " if span else ""
    return f"{position}{first.summary}; {first.detail.rstrip('.')}"


def build_template_functions(
    reader: FileReader, renderer: TemplateRenderer
) -> tuple[Function, ...]:
    """Build templatefile and templatestring."""
    return (
        Function(
            "templatefile",
            "The content of a file rendered as a template.",
            (Parameter("path", STRING, "the file"), _VARIABLES),
            DYNAMIC,
            lambda path, variables: renderer.render(
                path.raw, reader.read_text(path.raw), variables
            ),
        ),
        Function(
            "templatestring",
            "A text rendered as a template.",
            (Parameter("template", STRING, "the text"), _VARIABLES),
            STRING,
            renderer.render_string,
            (Example('templatestring("Hello, $${name}!", { name = "Ander" })', '"Hello, Ander!"'),),
        ),
    )
