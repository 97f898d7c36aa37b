"""Directories to a Configuration, and variable files to values: the only reader of these files. What a
file says beside its blocks is read here, too: `# nexusform:ignore ID` comments, by which lint rules rest
for the block below them, and characters that no reader sees.

Bidirectional controls turn the order of a line round, zero-width characters and tags make two names that
look alike differ. Neither harms a plan; both can hide from a reviewer what it will do, so they warn.
"""

from __future__ import annotations

import hmac
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.configuration.declared.configuration import AnyBody, Configuration
from nexusform.configuration.decoder import ModuleFiles, ParsedFile, decode
from nexusform.configuration.module_blocks import CallHeader
from nexusform.configuration.overlooked import (
    listed,
    overlooked_configuration,
    overlooked_value,
    unread_values,
)
from nexusform.configuration.resource_blocks import Registered
from nexusform.configuration.variable_values import (
    DEFAULT,
    Assignment,
    Origin,
    from_environment,
    from_file,
    from_option,
    settle,
)
from nexusform.diagnostics import Diagnostic, error, has_errors, warning
from nexusform.language import parser
from nexusform.language.json_syntax import parse_json_file
from nexusform.language.parser import SYNTAX_VERSION, collector_off, parse_file
from nexusform.language.syntax.nodes import Body
from nexusform.language.syntax.positions import Positions
from nexusform.regular_files import (
    FREE,
    PRIVATE,
    Confinement,
    TooLarge,
    create,
    open_regular,
    read_regular,
    write_whole,
)
from nexusform.schema import BlockSchema
from nexusform.source import Position, SourceFile, Span
from nexusform.values import Value

__all__ = ["Origin", "load", "read_variables"]

NATIVE: Final = ".nf.hcl"
JSON: Final = ".nf.json"
LARGEST_FILE: Final = 64 * 1024 * 1024  # bytes
_SMALLEST_CACHED: Final = 4096  # characters; less is parsed faster than looked up
_MOST_CACHED: Final = 512  # trees kept on disk
_LARGEST_ENTRY: Final = 1 << 30  # bytes of a kept tree
_KEY_LENGTH: Final = 32  # bytes
_DIGEST_LENGTH: Final = 32
_VARIABLE_FILES: Final = ("nexusform.nfvars.hcl", "nexusform.nfvars.json")
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_FIRST: Final = " `nexusform init` at a terminal offers to write a first one."
_AUTO: Final = (".auto.nfvars.hcl", ".auto.nfvars.json")


def load(
    directory: str,
    *,
    cache_directory: str | None,
    managed: Mapping[str, BlockSchema] | None = None,
    data: Mapping[str, BlockSchema] | None = None,
    extra: Sequence[SourceFile] = (),
    confinement: Confinement = FREE,
    unsaved: Mapping[str, str] = NOTHING,
) -> tuple[Configuration | None, list[Diagnostic]]:
    """Read the module tree whose root is a directory, and everything wrong with it.

    `extra` are further texts of the root module, after its files; `unsaved` are texts in place of those of
    files, by the files' real paths. `managed` and `data` are the schemas
    by type name; without them types are not checked. Parsed trees are kept below `cache_directory` when
    one is given. None when nothing could be read; with errors the configuration holds what could be
    understood, after syntax errors only its files (to show source lines) and a root module without a
    directory.
    """
    reader = _FileReader(cache_directory, confinement, unsaved)
    with collector_off():
        root = reader.module(directory, None)
        if root is None:
            return None, reader.problems
        root = replace(root, files=(*root.files, *[reader.parsed(source) for source in extra]))
        configuration, wrong = decode(root, reader.called, Registered(managed, data))
    return configuration, [*reader.problems, *wrong]


def read_variables(
    configuration: Configuration,
    *,
    environment: Mapping[str, str],
    var_options: Sequence[tuple[str, str]],
    directory: str,
    confinement: Confinement = FREE,
    assigned: Sequence[Assignment] = (),
) -> tuple[dict[str, tuple[Value, Origin]], list[Diagnostic]]:
    """The value of every variable of the root module with where it came from.

    `var_options` are ("var", "name=value") and ("var-file", path) in the order given. Files found in
    the directory come before them, the environment before those; what was `assigned` already counts most.
    Source lines of these files are never shown, since they may hold secrets.
    """
    if not configuration.root.directory:
        return {}, []  # its files are broken: what is declared cannot be told
    problems: list[Diagnostic] = []
    automatic = automatic_files(directory)
    options = (*(("var-file", path) for path in automatic), *var_options)
    assignments = from_environment(environment)
    assignments += [*_from_options(options, confinement, problems), *assigned]
    names = listed(directory)
    read = [Path(text).name for kind, text in options if kind == "var-file"]
    values, wrong = settle(
        configuration.root.variables,
        assignments,
        lambda name: overlooked_value(name, environment, names, read),
    )
    if has_errors(problems):
        # What a file that cannot be read would have assigned is not known to be missing.
        wrong = [problem for problem in wrong if problem.id != "no-value-for-required-variable"]
    defaulted = [name for name, (_, origin) in values.items() if origin.text == DEFAULT]
    unread = unread_values(defaulted, environment, names)
    return values, [*problems, *wrong, *(warning("values-not-read", sentence) for sentence in unread)]


def _from_options(
    options: Iterable[tuple[str, str]], confinement: Confinement, problems: list[Diagnostic]
) -> Iterator[Assignment]:
    """What files of variables and -var assign, in their order."""
    reader = _VariableFiles(confinement, problems)
    for kind, text in options:
        if kind == "var-file":
            yield from reader.read(text)
            continue
        assignment, wrong = from_option(text)
        problems.extend(wrong)
        if assignment is not None:
            yield assignment


# --- modules -----------------------------------------------------------------------------------


class _FileReader:
    """Reads directories, each once."""

    def __init__(
        self, cache_directory: str | None, confinement: Confinement, unsaved: Mapping[str, str]
    ) -> None:
        self._confinement = confinement
        self._unsaved = unsaved
        self._cache = _Cache(cache_directory) if cache_directory else None
        self._modules: dict[str, ModuleFiles] = {}
        self.problems: list[Diagnostic] = []

    def called(self, parent: str, call: CallHeader) -> ModuleFiles | None:
        """The files of the module that a call names, seen from the caller's directory."""
        return self.module(os.path.join(parent, call.source), call)  # noqa: PTH118 - a shown path

    def module(self, directory: str, call: CallHeader | None) -> ModuleFiles | None:
        """The files of one directory; None when it cannot be read."""
        directory = os.path.normpath(directory)
        try:
            identity = os.path.realpath(self._confinement.admitted(directory))
            known = self._modules.get(identity)
            if known is not None:
                return known
            names = sorted({*os.listdir(identity), *self._only_typed(identity)}, key=os.fsencode)  # noqa: PTH208
        except OSError as problem:
            kind = "unreadable-module-directory" if call else "unreadable-configuration-directory"
            self._tell(kind, f'The directory "{directory}" cannot be read: {problem.strerror}.', call)
            return None
        files = [self._file(directory, n) for n in names if _is_configuration(n)]
        if not files:
            detail = (
                f'The directory "{directory}" contains no nexusform configuration files '
                f"(*{NATIVE} or *{JSON}).{overlooked_configuration(names) or ('' if call else _FIRST)}"
            )
            self._tell("no-configuration-files", detail, call)
        module = ModuleFiles(directory, identity, tuple(files))
        self._modules[identity] = module
        return module

    def _only_typed(self, directory: str) -> list[str]:
        """The names of files of a directory that the editor has, on the disk or not yet."""
        return [os.path.basename(path) for path in self._unsaved if os.path.dirname(path) == directory]  # noqa: PTH119, PTH120 - as strings

    def _tell(self, kind: str, detail: str, call: CallHeader | None) -> None:
        block = f'module "{call.name}"' if call else ""
        self.problems.append(error(kind, detail, call.source_span if call else None, block=block))

    def _file(self, directory: str, name: str) -> ParsedFile:
        """A file as it stands in the editor, else as it is on the disk."""
        path = os.path.normpath(os.path.join(directory, name))  # noqa: PTH118 - a shown path
        text = self._unsaved.get(os.path.realpath(path)) if self._unsaved else None
        if text is not None:
            return self.parsed(SourceFile(path, text), name)
        source = _read(path, self._confinement.admitted, self.problems)
        if source is None:
            source = SourceFile(os.fsencode(path).decode(errors="replace"), "")
            return ParsedFile(name, source, parse_file(source)[0], _is_override(name), broken=True)
        return self.parsed(source, name)

    def parsed(self, source: SourceFile, name: str = "") -> ParsedFile:
        """A text as a file of a module; its `name` orders blocks, "" = that of the source."""
        name = name or source.name
        body, wrong = self._parse(source)
        self.problems.extend(wrong)
        ignored = ignored_rules(source)
        return ParsedFile(
            name=name,
            source=source,
            body=body,
            override=_is_override(name),
            ignored=ignored,
            broken=has_errors(wrong),
        )

    def _parse(self, source: SourceFile) -> tuple[AnyBody, list[Diagnostic]]:
        """The tree of a file, from the cache where a large one was parsed before."""
        if source.name.endswith(JSON):
            return parse_json_file(source)  # read about as fast as a kept tree
        cache = self._cache if len(source.text) >= _SMALLEST_CACHED else None
        kept = cache.get(source) if cache is not None else None
        if kept is not None:
            return kept, []
        body, problems = parse_file(source)
        if cache is not None and not problems:
            cache.put(source, body)
        return body, problems


def _is_configuration(name: str) -> bool:
    hidden = name.startswith((".", "#")) or name.endswith("~")
    return name.endswith((NATIVE, JSON)) and not hidden


def _is_override(name: str) -> bool:
    stem = name.removesuffix(NATIVE).removesuffix(JSON)
    return stem == "override" or stem.endswith("_override")


def _read(path: str, opened: Callable[[str], str], problems: list[Diagnostic]) -> SourceFile | None:
    """A regular file's text; None after a diagnostic. `opened` says what to open in place of the path."""
    shown = os.fsencode(path).decode(errors="replace")
    start = Position(1, 1, 0)
    place = Span(shown, start, start)
    try:
        raw = read_regular(opened(path), LARGEST_FILE)
    except TooLarge:
        detail = f'The file "{shown}" is larger than {LARGEST_FILE // 2**20} MiB. Split it up.'
        problems.append(error("file-too-large", detail, place))
        return None
    except OSError as problem:
        detail = f'The file "{shown}" cannot be read: {problem.strerror or problem}.'
        problems.append(error("unreadable-file", detail, place))
        return None
    try:
        source = SourceFile(shown, raw.decode())
    except UnicodeDecodeError as problem:
        line = raw.count(b"\n", 0, problem.start) + 1
        detail = (
            f'The file "{shown}" is not UTF-8: byte {problem.start}, on line {line}, belongs to no '
            "character. Save it as UTF-8."
        )
        column = len(raw[raw.rfind(b"\n", 0, problem.start) + 1 : problem.start].decode()) + 1
        at = Position(line, column, problem.start)
        problems.append(error("invalid-character-encoding", detail, Span(shown, at, at)))
        return None
    problems += hidden_characters(source)
    return source


# --- variables ---------------------------------------------------------------------------------


def automatic_files(directory: str) -> list[str]:
    """The variable files that are read without being named, weakest first."""
    names = listed(directory)
    variable_files = [n for n in names if n in _VARIABLE_FILES]
    variable_files.extend(n for n in names if n.endswith(_AUTO) and not n.startswith("."))
    return [os.path.normpath(os.path.join(directory, n)) for n in variable_files]  # noqa: PTH118 - a shown path


class _VariableFiles(Struct):
    """Reads files of variables: those of the work tree, and those that the operator names."""

    confinement: Confinement
    problems: list[Diagnostic]

    def read(self, path: str) -> list[Assignment]:
        """What a file assigns; nothing after a diagnostic."""
        if not os.path.lexists(path):
            detail = f'Assignment variables file "{path}" does not exist.'
            self.problems.append(error("failed-to-read-variables-file", detail))
            return []
        source = _read(path, self.confinement.followed, self.problems)
        if source is None:
            return []
        assignments, wrong = from_file(source)
        self.problems.extend(wrong)
        return assignments


# --- the cache of parsed trees -----------------------------------------------------------------


class _Cache:
    """Parsed trees on disk, by the name, the text and the version of the syntax.

    What stands in a cache is believed instead of the text, so each entry carries a keyed digest: only whoever
    reads the user's key file can make one. A cache that cannot be read or written is no cache; nothing is
    said about it.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory, "trees")
        self._key = _key_in(Path(directory))

    def get(self, source: SourceFile) -> Body | None:
        """The tree of a file; None when it is not kept."""
        if self._key is None:
            return None
        name = self._name(source)
        try:
            entry = read_regular(self._directory / name, _LARGEST_ENTRY, follow=False)
        except OSError:
            return None
        digest, tree = entry[:_DIGEST_LENGTH], entry[_DIGEST_LENGTH:]
        if not hmac.compare_digest(digest, self._digest(name, tree)):
            return None
        kept = parser.decode_tree(tree)
        return kept if isinstance(kept, Body) else None

    def put(self, source: SourceFile, body: Body) -> None:
        """Keep a tree."""
        if self._key is None:
            return
        name, tree = self._name(source), parser.encode_tree(body)
        try:
            self._directory.mkdir(exist_ok=True)
            entry = self._digest(name, tree) + tree
            write_whole(self._directory / name, entry, PRIVATE, durable=False)
            self._prune()
        except OSError:
            return

    def _name(self, source: SourceFile) -> str:
        text = f"{SYNTAX_VERSION}\n{source.name}\n{source.text}"
        return hmac.new(self._key or b"", text.encode(), "sha256").hexdigest()

    def _digest(self, name: str, tree: bytes) -> bytes:
        """With the entry's name, so that one cannot be put in another's place."""
        return hmac.new(self._key or b"", name.encode() + tree, "sha256").digest()

    def _prune(self) -> None:
        """Forget the oldest trees beyond a number."""
        with os.scandir(self._directory) as entries:
            aged = sorted((entry.stat().st_mtime, entry.path) for entry in entries)
        for _, path in aged[:-_MOST_CACHED]:
            os.remove(path)  # noqa: PTH107 - paths are strings here


def _key_in(directory: Path) -> bytes | None:
    """The user's key for this cache, made when there is none; None when it is not the user's alone."""
    path = directory / "key"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError), os.fdopen(create(path), "wb") as file:
            file.write(os.urandom(_KEY_LENGTH))
        with os.fdopen(open_regular(path, follow=False), "rb") as file:
            status = os.fstat(file.fileno())
            key = file.read(_KEY_LENGTH + 1)
    except OSError:
        return None
    owned = os.name == "nt" or (status.st_uid == os.getuid() and not status.st_mode & 0o077)
    return key if owned and len(key) == _KEY_LENGTH else None


_MARK = "nexusform:ignore"
_COMMENT = re.compile(r"\s*(?:#|//)")
_IDS = re.compile(r"\s*(?:#|//)\s*nexusform:ignore[:=]?\s+([\w-]+(?:\s*,\s*[\w-]+)*)")


def ignored_rules(source: SourceFile) -> Mapping[int, frozenset[str]]:
    """The ids by the number of the line (from 1) that follows a run of comment lines.

    Several ids are separated by commas; what stands after them is the reason.
    """
    if _MARK not in source.text:
        return {}
    rules: dict[int, frozenset[str]] = {}
    gathered: frozenset[str] = frozenset()
    for number, line in enumerate(source.text.split("\n"), start=1):
        if _COMMENT.match(line):
            ids = _IDS.match(line)
            if ids is not None:
                gathered |= {i.strip() for i in ids.group(1).split(",")}
        elif gathered:
            rules[number] = gathered
            gathered = frozenset()
    return rules


_BIDIRECTIONAL: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ZERO_WIDTH: Final = "\u180e\u200b-\u200d\u2060-\u2064\ufeff"
_TAGS: Final = "\U000e0000-\U000e007f"
_HIDDEN: Final = re.compile(f"[{_BIDIRECTIONAL}{_ZERO_WIDTH}{_TAGS}]")
_BYTE_ORDER_MARK: Final = "\ufeff"
_MOST_LINES: Final = 5


def hidden_characters(source: SourceFile) -> list[Diagnostic]:
    """One warning for a file that holds any, at the first of them."""
    text = source.text
    if text.isascii():
        return []
    # At its very beginning a file may say so that it is UTF-8.
    start = 1 if text.startswith(_BYTE_ORDER_MARK) else 0
    places = [match.start() for match in _HIDDEN.finditer(text, start)]
    if not places:
        return []
    positions = Positions(source.name, text)
    first = Span(source.name, positions.at(places[0]), positions.at(places[0] + 1))
    # Positions count characters from the start of a line; for many in one line that would take for ever.
    ends = [match.start() for match in re.finditer("\n", text)]
    lines = list(dict.fromkeys(bisect_left(ends, place) + 1 for place in places))
    listed = ", ".join(map(str, lines[:_MOST_LINES])) + (", ..." if len(lines) > _MOST_LINES else "")
    detail = (
        f"U+{ord(text[places[0]]):04X} stands here and is not seen; this file has {len(places)} of its "
        f"kind, on line {listed}. Such characters turn the order of a line round, or make names differ that "
        "look alike. Take them out, or write them as \\uNNNN."
    )
    return [warning("hidden-characters", detail, first)]
