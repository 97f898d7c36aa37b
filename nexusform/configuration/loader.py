"""Directories to a Configuration, and variable files to values: the only reader of these files.

Also reads `# nexusform:ignore ID` comments, which disable lint rules for the block below them, and
detects invisible characters. Bidirectional controls reverse the order of a line, zero-width
characters and tags make two names that look alike differ. Neither harms a plan; both can hide its
effect from a reviewer, so they cause warnings.
"""

from __future__ import annotations

import hmac
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from nexusform.configuration.configuration_decoder import (
    ModuleFiles,
    ParsedFile,
    ReadConstants,
    decode_configuration,
)
from nexusform.configuration.declarations.configuration import (
    AnyBody,
    CallHeader,
    Configuration,
    Module,
    Settings,
    Variable,
)
from nexusform.configuration.resource_blocks import KnownTypes
from nexusform.configuration.static_arguments import unpack_result
from nexusform.configuration.variable_values import (
    Assignment,
    VariableValueSource,
    parse_environment_variables,
    parse_variable_file,
    parse_variable_option,
    resolve_variable_values,
)
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    SourceFile,
    Span,
    build_error,
    build_warning,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.levels import MISSING_VALUE
from nexusform.diagnostics.phrases import format_first_items, select_word_form
from nexusform.files.access_record import record_file_access
from nexusform.files.directories import make_directories
from nexusform.files.regular_files import (
    PRIVATE,
    UNCONFINED,
    Confinement,
    FileTooLarge,
    create_file,
    is_path_below,
    list_directory,
    open_regular_file,
    read_regular,
    remove_file,
    write_file_atomically,
)
from nexusform.language import parser
from nexusform.language.parser import SYNTAX_VERSION, parse_file
from nexusform.language.syntax.scanner import CharacterPositions
from nexusform.language.syntax.syntax_nodes import Body
from nexusform.schemas.block_schema import BlockSchema
from nexusform.values.typed_value import Value, build_unknown

if TYPE_CHECKING:
    from nexusform.configuration.remote_modules.module_packages import (
        InstalledPackage,
        PackageFinder,
    )

__all__ = ["VariableValueSource", "load_configuration", "read_root_variables"]

NATIVE: Final = ".nf.hcl"
JSON: Final = ".nf.json"
MAX_FILE_BYTES: Final = 64 * 1024 * 1024  # bytes
# Number of characters; less is parsed faster than looked up.
_MIN_CACHED_LENGTH: Final = 4096
# Number of trees kept on disk.
_MAX_CACHED_TREES: Final = 512
# Maximum bytes of a kept tree.
_MAX_ENTRY_BYTES: Final = 1 << 30
_KEY_LENGTH: Final = 32  # bytes
_DIGEST_LENGTH: Final = 32
_VARIABLE_FILES: Final = ("nexusform.nfvars.hcl", "nexusform.nfvars.json")
NO_UNSAVED_FILES: Final[Mapping[str, str]] = MappingProxyType({})
_INIT_HINT: Final = " `nexusform init` at a terminal offers to write a first one."
_AUTO: Final = (".auto.nfvars.hcl", ".auto.nfvars.json")


def read_default_constants(
    variables: Mapping[str, Variable],
) -> tuple[dict[str, Value], list[Diagnostic]]:
    """Return the defaults of variables, unknown values without one, and no problems."""
    return {
        name: variable.default or build_unknown(variable.type)
        for name, variable in variables.items()
    }, []


def load_configuration(
    directory: str,
    *,
    cache_directory: str | None,
    managed: Mapping[str, BlockSchema] | None = None,
    data: Mapping[str, BlockSchema] | None = None,
    extra: Sequence[SourceFile] = (),
    confinement: Confinement = UNCONFINED,
    unsaved: Mapping[str, str] = NO_UNSAVED_FILES,
    read_constants: ReadConstants = read_default_constants,
    open_packages: Callable[[], PackageFinder] | None = None,
    package: str = "",
    reads_calls: bool = True,
) -> tuple[Configuration, list[Diagnostic]]:
    """Load the module tree of a root directory.

    Return it with all problems. Without `reads_calls`, called modules are empty.

    `extra` are further texts of the root module, after its files; `unsaved` are texts that replace
    those of files, by the files' real paths. `managed` and `data` are the schemas by type name;
    without them types are not checked. `read_constants` returns the values of constant variables.
    `open_packages` returns the finder of downloaded modules. `package` is the directory of the
    downloaded package of the root, if it is one. Parsed trees are cached below
    `cache_directory` if given. With errors the configuration contains the decodable parts. After
    syntax errors these are only the files, to display source lines, and a root module without a
    directory. For an unreadable directory there are no files.
    """
    reader = _FileReader(cache_directory, confinement, unsaved, open_packages)
    root = reader.read_module(directory, call=None, package=package)
    if root is None:
        return Configuration(Module(path=(), directory=""), Settings(), files={}), reader.problems
    root = replace(root, files=(*root.files, *map(reader.parse_source, extra)))
    known_types = KnownTypes(managed, data)
    configuration, new_problems = decode_configuration(
        root,
        reader.read_called_module if reads_calls else lambda _source, _path, _call: None,
        known_types,
        read_constants,
    )
    # Of remote modules: a saved plan has it, too.
    lock_file = reader.packages.lock_file if reader.packages is not None else None
    if lock_file is not None:
        files = {**configuration.files, lock_file.name: lock_file}
        configuration = replace(configuration, files=files)
    return configuration, [*reader.problems, *new_problems]


def read_root_variables(
    configuration: Configuration,
    *,
    environment: Mapping[str, str],
    var_options: Sequence[tuple[str, str]],
    directory: str,
    confinement: Confinement = UNCONFINED,
    assignments_override: Sequence[Assignment] = (),
    only_options: bool = False,
    ask_for_value: Callable[[Variable], str | None] | None = None,
) -> tuple[dict[str, tuple[Value, VariableValueSource]], list[Diagnostic]]:
    """Return the value of every variable of the root module with its origin.

    `var_options` are ("var", "name=value") and ("var-file", path) in the order given. Automatic
    variable files of the directory have lower precedence, the environment lower still;
    `assignments_override` has the highest. `only_options` ignores files and environment. Source
    lines of variable files are never displayed, since they may contain secrets.
    """
    if not configuration.root.directory:
        # Its files have errors: the declarations are unknown.
        return {}, []
    return read_given_variables(
        configuration.root.variables,
        environment=environment,
        var_options=var_options,
        directory=directory,
        confinement=confinement,
        assignments_override=assignments_override,
        only_options=only_options,
        ask_for_value=ask_for_value,
    )


def check_constant_variables(
    configuration: Configuration, values: Mapping[str, Value]
) -> Iterator[Diagnostic]:
    """Yield errors for constant variables with other values than during the reading of modules."""
    for name, constant in configuration.constants.items():
        # Without a value (after errors) it counts as equal.
        if values.get(name, constant) != constant:
            detail = (
                f"var.{name} is constant: modules were read with another value. Set it by its "
                "default, -var, a "
                "variable file of the directory or NF_VAR_."
            )
            yield build_error(
                "constant-with-another-value", detail, configuration.root.variables[name].span
            )


def read_given_variables(
    variables: Mapping[str, Variable],
    *,
    environment: Mapping[str, str],
    var_options: Sequence[tuple[str, str]],
    directory: str,
    confinement: Confinement,
    assignments_override: Sequence[Assignment] = (),
    only_options: bool = False,
    ask_for_value: Callable[[Variable], str | None] | None = None,
) -> tuple[dict[str, tuple[Value, VariableValueSource]], list[Diagnostic]]:
    """Return the value and origin of each of `variables`, and the problems.

    Values come from the environment, automatic files, `var_options` (-var and -var-file) and
    `assignments_override`; later ones in this order win. With `only_options` the environment and
    automatic files are ignored. A value in a place read only by Terraform causes a warning.
    `ask_for_value` returns the user's value of a required variable without one, None at the end
    of the input.
    """
    problems: list[Diagnostic] = []
    options = tuple(var_options)
    assignments: list[Assignment] = []
    if not only_options:
        automatic_files = list_automatic_variable_files(directory)
        options = (*[("var-file", path) for path in automatic_files], *options)
        assignments = parse_environment_variables(environment)
    # From the lowest precedence up: the last assignment of a variable counts.
    assignments += [
        *_list_option_assignments(options, confinement, problems),
        *assignments_override,
    ]
    if ask_for_value is not None and not has_errors(problems):
        assignments += _ask_for_missing_values(variables, assignments, ask_for_value)
    read_files = {Path(text).name for kind, text in options if kind == "var-file"}

    def explain_missing_value(name: str) -> str:
        """Return a hint on the intended source of the variable's value, or "".

        The hint starts with a blank.
        """
        if f"TF_VAR_{name}" in environment:
            return f" TF_VAR_{name} is set in the environment, but nexusform reads NF_VAR_{name}."
        for file in list_directory(directory):
            new_name = _suggest_nexusform_file_name(file, _VARIABLE_ENDINGS)
            if new_name:
                return f' "{file}" is not read: its name would have to be "{new_name}".'
            # Neither automatic nor an option.
            if file.endswith(_VARIABLE_FILE_ENDINGS) and file not in read_files:
                return f' "{file}" is read only with -var-file={file}.'
        return ""

    values, new_problems = resolve_variable_values(variables, assignments, explain_missing_value)
    if has_errors(problems):
        # Variables assigned by an unreadable file are not reported as missing.
        new_problems = [problem for problem in new_problems if problem.id != MISSING_VALUE]
    # Assigned no value or null; one without a default is an error that says so.
    defaulted = [
        name
        for name, (_, origin) in values.items()
        if origin.is_default and variables[name].default is not None
    ]
    if defaulted:
        unread = _list_unread_values(defaulted, environment, list_directory(directory))
        new_problems += [build_warning("values-not-read", sentence) for sentence in unread]
    return values, [*problems, *new_problems]


def _ask_for_missing_values(
    variables: Mapping[str, Variable],
    assignments: Sequence[Assignment],
    ask_for_value: Callable[[Variable], str | None],
) -> list[Assignment]:
    """Return the answers for required variables without a value, in order of their names."""
    assigned = {assignment.name for assignment in assignments}
    answers: list[Assignment] = []
    for name, variable in sorted(variables.items()):
        if variable.default is not None or name in assigned:
            continue
        text = ask_for_value(variable)
        # The input ended: the rest has no value.
        if text is None:
            break
        answers.append(Assignment(name, text, VariableValueSource("the prompt")))
    return answers


def _list_option_assignments(
    options: Iterable[tuple[str, str]], confinement: Confinement, problems: list[Diagnostic]
) -> Iterator[Assignment]:
    """Yield the assignments of `options`, as ("var", "a=1") or ("var-file", path), in order.

    Invalid options are reported in `problems`.
    """
    for kind, text in options:
        if kind == "var-file":
            yield from _read_variable_file(text, confinement, problems)
        elif (assignment := unpack_result(parse_variable_option(text), problems)) is not None:
            yield assignment


class _FileReader:
    """Reader of directories, each once."""

    def __init__(
        self,
        cache_directory: str | None,
        confinement: Confinement,
        unsaved: Mapping[str, str],
        open_packages: Callable[[], PackageFinder] | None,
    ) -> None:
        """Use the syntax tree cache only if its key is available.

        `unsaved` replaces the text of files on disk.
        """
        self._open_packages = open_packages
        # Opened for the first remote module.
        self.packages: PackageFinder | None = None
        self._confinement = confinement
        # Texts in place of files, by real path.
        self._unsaved = unsaved
        self._cache: _SyntaxTreeCache | None = None
        cache_key = _read_or_create_cache_key(Path(cache_directory)) if cache_directory else None
        if cache_directory and cache_key is not None:
            self._cache = _SyntaxTreeCache(Path(cache_directory), cache_key)
        # Installed packages by directory.
        self._installed: dict[str, InstalledPackage] = {}
        # By real path of the directory and of the package.
        self._modules: dict[tuple[str, str], ModuleFiles] = {}
        self.problems: list[Diagnostic] = []

    def read_called_module(
        self, parent: ModuleFiles, path: tuple[str, ...], call: CallHeader
    ) -> ModuleFiles | None:
        """Return the files of the module of a call.

        A local path is relative to the caller's directory, a remote source is a directory
        in its package.
        """
        from nexusform.configuration.remote_modules.module_sources import (
            is_local_path,
            parse_module_source,
        )

        if is_local_path(call.source):
            directory = os.path.join(parent.directory, call.source)  # noqa: PTH118 - a shown path
            return self.read_module(directory, call, parent.package)
        source = parse_module_source(call.source)
        if self.packages is None:
            from nexusform.configuration.remote_modules.module_packages import NoPackages

            self.packages = self._open_packages() if self._open_packages else NoPackages()
        package, new_problems = self.packages.find_package(path, call, source)
        self.problems += new_problems
        if package is None:
            return None
        self._installed[package.directory] = package
        return self.read_module(package.find_module_directory(source), call, package.directory)

    def read_module(
        self, directory: str, call: CallHeader | None, package: str = ""
    ) -> ModuleFiles | None:
        """Read the files of a directory.

        Return None, with an error, if it is unreadable, or outside of its `package`. The root
        has no `call`.
        """
        directory = os.path.normpath(directory)
        try:
            identity = os.path.realpath(self._confinement.resolve(directory))
            package_identity = os.path.realpath(package) if package else ""
            if package and not is_path_below(identity, package_identity):
                detail = (
                    f'"{call.source if call else directory}" leads out of the downloaded package '
                    f'"{package}". A module of a package reads modules of this package by path.'
                )
                self._add_error("module-outside-package", detail, call)
                return None
            if call is not None and package in self._installed:
                from nexusform.configuration.remote_modules.module_packages import (
                    build_incomplete_error,
                )

                problem = build_incomplete_error(directory, self._installed[package], call)
                if problem is not None:
                    self.problems.append(problem)
                    return None
            cached = self._modules.get((identity, package_identity))
            if cached is not None:
                # Another call has the same directory.
                return cached
            unsaved_files = [
                # Strings: a Path of each file takes longer than the listing.
                os.path.basename(path)  # noqa: PTH119
                for path in self._unsaved
                if os.path.dirname(path) == identity  # noqa: PTH120
            ]
            names = sorted({*os.listdir(identity), *unsaved_files}, key=os.fsencode)  # noqa: PTH208
        except OSError as problem:
            diagnostic_id = (
                "unreadable-module-directory" if call else "unreadable-configuration-directory"
            )
            detail = f'The directory "{directory}" cannot be read: {problem.strerror}.'
            if package and isinstance(problem, FileNotFoundError):
                detail = _describe_missing_directory(directory, package)
            self._add_error(diagnostic_id, detail, call)
            return None
        files = [
            self._read_and_parse_file(directory, name)
            for name in names
            # Hidden files and copies of editors are not read.
            if name.endswith((NATIVE, JSON)) and not name.startswith((".", "#"))
        ]
        if not files:
            detail = (
                f'The directory "{directory}" contains no nexusform configuration files (*{NATIVE} '
                "or "
                f"*{JSON}).{_describe_foreign_configuration(names) or ('' if call else _INIT_HINT)}"
            )
            self._add_error("no-configuration-files", detail, call)
        module = ModuleFiles(directory, identity, tuple(files), package)
        self._modules[identity, package_identity] = module
        return module

    def _add_error(self, diagnostic_id: str, detail: str, call: CallHeader | None) -> None:
        block = f'module "{call.name}"' if call else ""
        self.problems.append(
            build_error(diagnostic_id, detail, call.source_span if call else None, block=block)
        )

    def _read_and_parse_file(self, directory: str, name: str) -> ParsedFile:
        """Parse a file: its unsaved text from the editor, else from disk.

        An unreadable file is reported and empty.
        """
        path = os.path.normpath(os.path.join(directory, name))  # noqa: PTH118 - a shown path
        text = self._unsaved.get(os.path.realpath(path))
        if text is not None:
            return self.parse_source(SourceFile(path, text), name)
        source = _read_source_file(path, self._confinement.resolve, self.problems)
        if source is None:
            source = SourceFile(os.fsencode(path).decode(errors="replace"), text="")
            return ParsedFile(
                name, source, parse_file(source)[0], _is_override(name), has_syntax_errors=True
            )
        return self.parse_source(source, name)

    def parse_source(self, source: SourceFile, name: str = "") -> ParsedFile:
        """Parse a text as a file of a module.

        Its `name` there (default: the source's) may mark it as override file.
        """
        name = name or source.name
        body, new_problems = self._parse_syntax_tree_with_cache(source)
        self.problems.extend(new_problems)
        return ParsedFile(
            name=name,
            source=source,
            body=body,
            is_override=_is_override(name),
            ignored_rules=find_ignored_lint_rules(source),
            has_syntax_errors=has_errors(new_problems),
        )

    def _parse_syntax_tree_with_cache(self, source: SourceFile) -> tuple[AnyBody, list[Diagnostic]]:
        """Return the tree of a file, from the cache if it was parsed before and is large."""
        if source.name.endswith(JSON):
            from nexusform.language.json_syntax import parse_json_file

            # JSON is parsed about as fast as read from the cache.
            return parse_json_file(source)
        if self._cache is None or len(source.text) < _MIN_CACHED_LENGTH:
            return parse_file(source)
        cached = self._cache.get(source)
        if cached is not None:
            return cached, []
        body, problems = parse_file(source)
        # An entry has no problems.
        if not problems:
            self._cache.put(source, body)
        return body, problems


def _is_override(name: str) -> bool:
    """Return whether a file name marks an override file."""
    stem = name.removesuffix(NATIVE).removesuffix(JSON)
    return stem == "override" or stem.endswith("_override")


def _read_source_file(
    path: str, resolve_path: Callable[[str], str], problems: list[Diagnostic]
) -> SourceFile | None:
    """Read a regular file's text.

    Report a failure and return None. `resolve_path` returns the path to open.
    """
    display_path = os.fsencode(path).decode(errors="replace")
    start = Position(line=1, column=1, byte=0)
    span = Span(display_path, start, start)
    try:
        raw = read_regular(resolve_path(path), MAX_FILE_BYTES)
    except FileTooLarge:
        detail = (
            f'The file "{display_path}" is larger than {MAX_FILE_BYTES // 2**20} MiB. Split it up.'
        )
        problems.append(build_error("file-too-large", detail, span))
        return None
    except OSError as problem:
        detail = f'The file "{display_path}" cannot be read: {problem.strerror}.'
        problems.append(build_error("unreadable-file", detail, span))
        return None
    try:
        source = SourceFile(display_path, raw.decode())
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        detail = (
            f'The file "{display_path}" is not UTF-8: byte {problem.start} on line {line} is '
            "invalid. Save it as UTF-8."
        )
        column = len(raw[raw.rfind(b"\n", 0, problem.start) + 1 : problem.start].decode()) + 1
        position = Position(line, column, problem.start)
        problems.append(
            build_error(
                "invalid-character-encoding", detail, Span(display_path, position, position)
            )
        )
        return None
    problems += check_hidden_characters(source)
    return source


def list_automatic_variable_files(directory: str) -> list[str]:
    """Return the paths of the variable files that are read automatically, lowest precedence first.

    These are `nexusform.nfvars.hcl` and `.json`, then all files with names
    such as `*.auto.nfvars.hcl`.
    """
    names = list_directory(directory)
    fixed_names = [name for name in names if name in _VARIABLE_FILES]
    automatic_names = [name for name in names if name.endswith(_AUTO) and not name.startswith(".")]
    paths = (os.path.join(directory, name) for name in (*fixed_names, *automatic_names))  # noqa: PTH118 - a shown path
    return list(map(os.path.normpath, paths))


def _read_variable_file(
    path: str, confinement: Confinement, problems: list[Diagnostic]
) -> list[Assignment]:
    """Read the assignments of a file.

    Report an unreadable file and return none.
    """
    if not os.path.lexists(path):
        detail = f'Assignment variables file "{path}" does not exist.'
        problems.append(build_error("failed-to-read-variables-file", detail))
        return []
    source = _read_source_file(path, confinement.resolve_path_of_operator, problems)
    if source is None:
        return []  # reported
    record_file_access(path, source.text)
    return unpack_result(parse_variable_file(source), problems)


class _SyntaxTreeCache:
    """Parsed trees on disk, by the name, the text and the version of the syntax.

    A cache entry replaces the parse of the text, so each entry has a keyed digest: only a reader of
    the user's key file can create one. An unreadable cache is ignored without a message.
    """

    def __init__(self, directory: Path, key: bytes) -> None:
        self._directory = directory / "trees"
        self._key = key

    def get(self, source: SourceFile) -> Body | None:
        """Return the tree of a file.

        Return None if it is not cached, or if its digest or content is invalid.
        """
        name = self._compute_cache_entry_name(source)
        try:
            entry = read_regular(self._directory / name, _MAX_ENTRY_BYTES, follow=False)
        except OSError:
            return None  # not cached
        digest = entry[:_DIGEST_LENGTH]
        tree = entry[_DIGEST_LENGTH:]
        if not hmac.compare_digest(digest, self._compute_cache_entry_digest(name, tree)):
            # The entry was not written with this key.
            return None
        body = parser.decode_tree(tree)
        # JSON is not cached.
        return body if isinstance(body, Body) else None

    def put(self, source: SourceFile, body: Body) -> None:
        """Store a tree, and delete the oldest entries above the maximum."""
        name = self._compute_cache_entry_name(source)
        tree = parser.encode_tree(body)
        try:
            entry = self._compute_cache_entry_digest(name, tree) + tree
            path = self._directory / name
            write_file_atomically(path, entry, PRIVATE, durable=False, makes_directories=True)
            with os.scandir(self._directory) as entries:
                entries_by_age = sorted(
                    (file.stat().st_mtime, file.path) for file in entries
                )  # oldest first
            for _, path_text in entries_by_age[:-_MAX_CACHED_TREES]:
                remove_file(path_text)
        except OSError:
            # The cache is optional: the next run parses again.
            return

    def _compute_cache_entry_name(self, source: SourceFile) -> str:
        text = f"{SYNTAX_VERSION}\n{source.name}\n{source.text}"
        return hmac.new(self._key, text.encode(), "sha256").hexdigest()

    def _compute_cache_entry_digest(self, name: str, tree: bytes) -> bytes:
        """Compute the digest, including the entry's name, so that entries cannot be exchanged."""
        return hmac.new(self._key, name.encode() + tree, "sha256").digest()


def _read_or_create_cache_key(directory: Path) -> bytes | None:
    """Return the user's key of this cache, created if missing.

    Return None if the key is unusable, or if others can access it.
    """
    path = directory / "key"
    try:
        make_directories(directory, 0o700)
        with suppress(FileExistsError), os.fdopen(create_file(path), "wb") as file:
            file.write(os.urandom(_KEY_LENGTH))
        with os.fdopen(open_regular_file(path, follow=False), "rb") as file:
            status = os.fstat(file.fileno())
            # One byte more, to detect a longer file.
            key = file.read(_KEY_LENGTH + 1)
    except OSError:
        # There is no cache.
        return None
    # Windows has no modes.
    is_private = os.name == "nt" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    return key if is_private and len(key) == _KEY_LENGTH else None


_COMMENT = re.compile(r"\s*(?:#|//)")
_IDS = re.compile(
    (
        r"^[ \t]*(?:#|//)[ \t]*(?P<mark>nexusform:ignore\b)[:=]?(?:[ \t]+(?P<ids>[\w-]+(?:[ "
        r"\t]*,[ \t]*[\w-]+)*))?"
    ),
    re.MULTILINE,
)


def find_ignored_lint_rules(source: SourceFile) -> Mapping[int, frozenset[str]]:
    """Return the ignored lint ids by the number of the line that follows a run of comment lines.

    Line numbers start at 1. Several ids are separated by commas; the rest of the line
    is the reason.
    """
    comments = {span.start.line: ids for span, ids in list_ignore_comments(source)}
    if not comments:
        return {}
    rules: dict[int, frozenset[str]] = {}
    # Ids of the comment lines directly above.
    pending_ids: frozenset[str] = frozenset()
    for number, line in enumerate(source.text.split("\n"), start=1):
        if _COMMENT.match(line):
            pending_ids |= comments.get(number, frozenset())
        elif pending_ids:
            rules[number] = pending_ids
            pending_ids = frozenset()
    return rules


def list_ignore_comments(source: SourceFile) -> list[tuple[Span, frozenset[str]]]:
    """Return the place and the lint ids of each `# nexusform:ignore ID` comment.

    A comment without an id has no lint ids.
    """
    if "nexusform:ignore" not in source.text:
        return []
    positions = CharacterPositions(source.name, source.text)
    comments: list[tuple[Span, frozenset[str]]] = []
    for match in _IDS.finditer(source.text):
        start = match.start("mark")
        end = match.end()
        ids = frozenset(filter(None, re.split(r"[,\s]+", match["ids"] or "")))
        comments.append(
            (Span(source.name, positions.find_position(start), positions.find_position(end)), ids)
        )
    return comments


_BIDIRECTIONAL: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH: Final = "\u180e\u200b-\u200d\u2060-\u2064\ufeff"
_TAGS: Final = "\U000e0000-\U000e007f"
_HIDDEN: Final = re.compile(f"[{_BIDIRECTIONAL}{_ZERO_WIDTH}{_TAGS}]")
_BYTE_ORDER_MARK: Final = "\ufeff"
_MAX_LINES: Final = 5


def check_hidden_characters(source: SourceFile) -> list[Diagnostic]:
    """Return one warning, at the first invisible character of a file.

    Without such a character, there is no warning.
    """
    text = source.text
    if text.isascii():
        return []
    # A mark is allowed at the start of a file.
    start = 1 if text.startswith(_BYTE_ORDER_MARK) else 0
    offsets = [match.start() for match in _HIDDEN.finditer(text, start)]
    if not offsets:
        return []
    positions = CharacterPositions(source.name, text)
    first = Span(
        source.name, positions.find_position(offsets[0]), positions.find_position(offsets[0] + 1)
    )
    # Find lines by the offsets of their ends: positions also count columns, which takes long if one
    # line has many.
    ends = [match.start() for match in re.finditer("\n", text)]
    lines = list(dict.fromkeys(bisect_left(ends, offset) + 1 for offset in offsets))
    line_list = ", ".join(map(str, lines[:_MAX_LINES])) + (
        ", ..." if len(lines) > _MAX_LINES else ""
    )
    detail = (
        f"This file contains {len(offsets)} invisible characters (U+{ord(text[offsets[0]]):04X}) "
        f"on line {line_list}. They can reorder a line, or make different names look the same. "
        "Remove them, or write them as \\uNNNN."
    )
    return [build_warning("hidden-characters", detail, first)]


_MAX_LISTED_FILES: Final = 3
# Endings of configuration of other tools -> ours.
_CONFIGURATION_ENDINGS: Final = {
    ".tf.json": ".nf.json",
    ".tofu.json": ".nf.json",
    ".tf": ".nf.hcl",
    ".tofu": ".nf.hcl",
    ".nf": ".nf.hcl",
    ".hcl": ".nf.hcl",
}
_OWN_ENDINGS: Final = (".nf.hcl", ".nfvars.hcl", ".nftest.hcl", ".sites.hcl")
_SITES_FILE: Final = "nexusform.sites.hcl"
# The same for files of variables.
_VARIABLE_ENDINGS: Final = {
    "terraform.tfvars.json": "nexusform.nfvars.json",
    "terraform.tfvars": "nexusform.nfvars.hcl",
    ".auto.tfvars": ".auto.nfvars.hcl",
    ".tfvars": ".nfvars.hcl",
    "nexusform.nfvars": "nexusform.nfvars.hcl",
    ".nfvars": ".nfvars.hcl",
}
# Endings of files that are read automatically.
_AUTOMATIC_ENDINGS: Final = {
    ending: new for ending, new in _VARIABLE_ENDINGS.items() if ending not in (".tfvars", ".nfvars")
}
_FOREIGN_ENDINGS: Final = (".tf", ".tf.json", ".tofu", ".tofu.json")
_VARIABLE_FILE_ENDINGS: Final = (".nfvars.hcl", ".nfvars.json")


def _describe_missing_directory(directory: str, package: str) -> str:
    """Return that a downloaded package lacks a directory, with the closest name that it has."""
    parent = Path(directory).parent
    names = []
    with suppress(OSError):
        names = [entry.name for entry in parent.iterdir() if entry.is_dir()]
    path = os.path.relpath(directory, package)
    hint = suggest_name(Path(directory).name, names)
    return f'The package has no directory "{path}".{hint}'


def _describe_foreign_configuration(names: Collection[str]) -> str:
    """Return advice for a directory without configuration, or "".

    The advice is a text of sentences with a leading blank.
    """
    if _SITES_FILE in names:
        return f" {_SITES_FILE} lists several sites. Run `nexusform sites plan` to plan them."
    renames = [
        f'"{name}" to "{new_name}"'
        for name in names
        if not name.endswith(_OWN_ENDINGS)
        and (new_name := _suggest_nexusform_file_name(name, _CONFIGURATION_ENDINGS))
    ]
    if not renames:
        # No file of another tool either.
        return ""
    text = format_first_items(renames, _MAX_LISTED_FILES)
    return (
        f" {select_word_form(len(renames), 'A file here has a name', 'Files here have names')} for "
        "another tool. The language is the same, but the resource types differ. To use the "
        f"content, rename {text}."
    )


def _list_unread_values(
    defaulted: Iterable[str], environment: Mapping[str, str], files: Sequence[str]
) -> list[str]:
    """Describe unread values of Terraform for variables with their default (`defaulted`).

    Return one sentence for each value. `files` are the names in the directory. With a Terraform
    configuration, its variable files are not listed: they are meant for Terraform.
    """
    sentences = [
        (
            f"TF_VAR_{name} is set in the environment, but nexusform reads NF_VAR_{name}: {name} "
            "has its default."
        )
        for name in defaulted
        if f"TF_VAR_{name}" in environment
    ]
    if any(file.endswith(_FOREIGN_ENDINGS) for file in files):
        return sentences
    for file in files:
        new_name = _suggest_nexusform_file_name(file, _AUTOMATIC_ENDINGS)
        if new_name:
            sentences.append(f'"{file}" is not read: its name would have to be "{new_name}".')
    return sentences


def _suggest_nexusform_file_name(name: str, endings: Mapping[str, str]) -> str:
    """Return the name with our ending in place of another tool's; "" without such an ending."""
    if name.startswith("."):
        # Hidden files are never read.
        return ""
    # The longer of two matching endings is first.
    for ending, new_ending in endings.items():
        if name.endswith(ending):
            return name.removesuffix(ending) + new_ending
    return ""
