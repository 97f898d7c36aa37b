"""Documents of a VNF package (CSAR) for a tacker_vnf, from a folder or a zip file.

Nothing is unpacked. Documents are read one by one with size limits for each and for all.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

import yaml
from msgspec import Struct

from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error, suggest_name
from nexusform.domains.vnf.importers.vnf_text import describe_foreign_kind
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, get_value_at_path
from nexusform.language.evaluation_run import FileProblem, Files

META: Final = "TOSCA-Metadata/TOSCA.meta"
_BASE_HOT: Final = "BaseHOT/"
_ENTRY: Final = re.compile(
    r"^Entry-Definitions:[ \t]*(\S.*?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE
)
_DOCUMENTS: Final = (".yaml", ".yml")
_MIB: Final = 2**20
# Limits for one document and for all: far above any package, far below a zip bomb.
_MAX_DOCUMENT_BYTES: Final = 4 * _MIB
_MAX_TOTAL_BYTES: Final = 32 * _MIB
_MAX_FILES: Final = 20_000
_ZIP_HEADER: Final = b"PK\x01\x02"
_MAX_HEADERS: Final = 10 * _MAX_FILES


class VnfPackageDocuments(Struct, frozen=True):
    """Texts for one deployment flavour, None if missing; `nested` by file name."""

    vnfd: str | None
    base_hot: str | None
    nested: Mapping[str, str]


def read_vnf_package(path: str, flavour_id: str, files: Files) -> VnfPackageDocuments:
    """Return the documents of a flavour ("" if there is only one).

    Raises DiagnosticsError, FileProblem.
    """
    try:
        is_file = files.is_file(path)
    except FileProblem:
        # A directory, or an unreadable path: listing it raises the same problem.
        is_file = False
    source = _PackageZip(files.read(path)) if is_file else _PackageFolder(path, files)
    read_text = _LimitedReader(source)
    definitions = _load_definitions(source.names, read_text)
    # The first one of each flavour counts.
    documents_by_flavour: dict[str, _ToscaDefinitions] = {}
    for document in definitions:
        for flavour in _list_described_flavours(document):
            documents_by_flavour.setdefault(flavour, document)
    flavour = _select_flavour(
        flavour_id, sorted(documents_by_flavour) or _list_hot_folders(source.names)
    )
    vnfd = _join_documents(documents_by_flavour.get(flavour), definitions)
    base_hot, nested = _read_hot_files(source.names, flavour, read_text)
    if vnfd is None and base_hot is None:
        kind = describe_foreign_kind(document.content for document in definitions)
        raise _build_error(
            f"It contains {kind}." if kind else "It has no definitions with a VDU and no BaseHOT."
        )
    return VnfPackageDocuments(vnfd, base_hot, nested)


def _list_described_flavours(document: _ToscaDefinitions) -> list[str]:
    """Return the deployment flavour described by a TOSCA template; [] for another document.

    An older template declares VDUs without naming a flavour; its flavour is "".
    """
    flavour = get_text(
        document.content, "topology_template", "substitution_mappings", "properties", "flavour_id"
    )
    if flavour or any(
        kind.lower().endswith(("vdu.compute", "vdu.tacker")) for kind in _list_node_types(document)
    ):
        return [flavour]
    return []


def _build_error(detail: str) -> DiagnosticsError:
    return DiagnosticsError(build_error("invalid-vnf-package", detail))


class _PackageFolder:
    def __init__(self, path: str, files: Files) -> None:
        self._path = path.rstrip("/")
        self._files = files
        self.names: Sequence[str] = files.find_files(self._path, "**/*.{yaml,yml,meta}")

    def read(self, name: str) -> str:
        """Return the text of a file below the folder."""
        return _decode_text(name, self._files.read(f"{self._path}/{name}"))


class _PackageZip:
    def __init__(self, content: bytes) -> None:
        """Open a package, and check the paths in it.

        Raises DiagnosticsError.
        """
        # The mark of gzip.
        if content.startswith(b"\x1f\x8b"):
            raise _build_error("It is a packed tar, as of OSM. Tacker takes a zip or a folder.")
        # Before `zipfile` keeps them all: each file and directory has such a header, and a package
        # in the package, too.
        header_count = content.count(_ZIP_HEADER)
        if header_count > _MAX_HEADERS:
            raise _build_error(
                f"It contains {header_count:,} files; the maximum is {_MAX_FILES:,}."
            )
        try:
            self._archive = zipfile.ZipFile(BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise _build_error("It is neither a folder nor a zip file.") from None
        entries = self._archive.infolist()
        if len(entries) > _MAX_FILES:
            raise _build_error(
                f"It contains {len(entries):,} files; the maximum is {_MAX_FILES:,}."
            )
        for entry in entries:
            _check_package_path(entry.filename)
            # As stored: zipfile may have changed `filename`.
            _check_package_path(entry.orig_filename)
        self.names: Sequence[str] = sorted(
            {entry.filename for entry in entries if not entry.is_dir()}
        )

    def read(self, name: str) -> str:
        """Return the text of a member, up to the maximum size."""
        try:
            with self._archive.open(name) as member:
                return _decode_text(name, member.read(_MAX_DOCUMENT_BYTES + 1))
        except (
            zipfile.BadZipFile,
            RuntimeError,
            NotImplementedError,
            EOFError,
            OSError,
            zlib.error,
        ):
            detail = (
                f'"{name}" in it cannot be read: damaged, encrypted or packed in an unknown way.'
            )
            raise _build_error(detail) from None


def _check_package_path(name: str) -> None:
    """Raise DiagnosticsError for an absolute path, or one out of the package."""
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
        raise _build_error(f'"{name[:80]}" in it points outside the package.')


def _decode_text(name: str, content: bytes) -> str:
    """Return a document of the package as text.

    Raises DiagnosticsError if it is too large, or not UTF-8.
    """
    if len(content) > _MAX_DOCUMENT_BYTES:
        raise _build_error(f'"{name}" in it is larger than {_MAX_DOCUMENT_BYTES // _MIB} MiB.')
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _build_error(f'"{name}" in it is not UTF-8 text.') from None


class _LimitedReader:
    """Reader of a package with a total size limit."""

    def __init__(self, source: _PackageFolder | _PackageZip) -> None:
        self._source = source
        self._names = frozenset(source.names)
        # Bytes read so far.
        self._size = 0

    def __call__(self, name: str, named_by: str) -> str:
        """Return the text of a file; `named_by` is the subject of the error if it is missing."""
        if name not in self._names:
            hint = suggest_name(name, self._names)
            raise _build_error(
                f'{named_by} references "{name}", which is not in the package.{hint}'
            )
        text = self._source.read(name)
        self._size += len(text.encode())
        if self._size > _MAX_TOTAL_BYTES:
            raise _build_error(
                f"Its documents are larger than {_MAX_TOTAL_BYTES // _MIB} MiB together."
            )
        return text


class _ToscaDefinitions(Struct, frozen=True):
    """Document of TOSCA definitions: its text and its content (plain data)."""

    text: str
    content: Mapping[str, Any]


_ReadFile = Callable[[str, str], str]


def _load_definitions(names: Sequence[str], read: _ReadFile) -> list[_ToscaDefinitions]:
    """Return the TOSCA documents of a package.

    The entry document, the files in its folder, and all their imports. The folder counts because
    Tacker searches it for deployment flavours. Missing files of standard types are skipped.
    """
    entry, named_by = _find_entry_definitions(names, read)
    if not entry:
        return []
    folder = posixpath.dirname(entry)
    folder_files = [
        name for name in names if posixpath.dirname(name) == folder and name.endswith(_DOCUMENTS)
    ]
    # Files to load, each with the file that names it, for messages.
    queue = [(entry, named_by), *((name, entry) for name in folder_files if not _is_standard(name))]
    definitions: dict[str, _ToscaDefinitions] = {}
    while queue:
        name, named_by = queue.pop(0)
        if name in definitions:
            continue  # imported twice
        definitions[name] = _parse_definitions(name, read(name, named_by))
        for imported in _list_imports(definitions[name].content):
            path = _resolve_package_path(imported, name)
            if path in names or not _is_standard(path):
                queue.append((path, name))
    return list(definitions.values())


def _parse_definitions(name: str, text: str) -> _ToscaDefinitions:
    """Parse the first YAML document of a file; its content is {} if it is no mapping.

    Raises DiagnosticsError.
    """
    # The faster one if it is installed.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        document = next(iter(yaml.load_all(text, loader)), None)
    except yaml.MarkedYAMLError as problem:
        line = f":{problem.problem_mark.line + 1}" if problem.problem_mark is not None else ""
        raise _build_error(f"{name}{line} in it is not valid YAML: {problem.problem}.") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise _build_error(f"{name} in it is not valid YAML.") from None
    return _ToscaDefinitions(text, get_mapping(document))


def _find_entry_definitions(names: Sequence[str], read: _ReadFile) -> tuple[str, str]:
    """Return the entry definitions of a package, and the file with their name, for messages.

    Raises DiagnosticsError. TOSCA.meta names them, or they are the only YAML file at the top. Both
    are "" for a package of HOT files alone.
    """
    if META in names:
        match = _ENTRY.search(read(META, META))
        if match is None:
            raise _build_error(f"{META} has no Entry-Definitions.")
        return _resolve_package_path(match[1], base_file=""), META
    top_files = [name for name in names if "/" not in name and name.endswith(_DOCUMENTS)]
    if len(top_files) == 1:
        return top_files[0], "The package"
    if not any(map(_is_hot_file, names)):
        raise _build_error(f"It has no {META}, and not exactly one YAML file at its top.")
    return "", ""


def _is_standard(name: str) -> bool:
    """Return whether ETSI publishes the file.

    Packages may omit its types, and they are not needed here.
    """
    return posixpath.basename(name).startswith("etsi_nfv_sol001")


def _resolve_package_path(path: str, base_file: str) -> str:
    """Return a path next to `base_file`, the file with the reference.

    Raises DiagnosticsError for another folder.
    """
    name = posixpath.normpath(posixpath.join(posixpath.dirname(base_file), path))
    _check_package_path(name)
    return name


def _list_imports(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files imported by a document.

    An import is FILE, {file: FILE}, {NAME: FILE} or {NAME: {file: FILE}}.
    """
    for item in get_list(content, "imports"):
        # {} for FILE alone.
        fields = get_mapping(item)
        body = next(iter(fields.values())) if len(fields) == 1 and "file" not in fields else item
        file = get_mapping(body).get("file", body)
        # A URL is not in the package.
        if isinstance(file, str) and "://" not in file:
            yield file


def _list_node_types(document: _ToscaDefinitions) -> list[str]:
    bodies = get_mapping(document.content, "topology_template", "node_templates").values()
    return [get_text(body, "type") for body in bodies]


def _select_flavour(flavour_id: str, flavours: Sequence[str]) -> str:
    """Return the deployment flavour to use for the requested id ("": no request).

    Raises DiagnosticsError. Without a request it is the only flavour. A flavour without a name ("")
    serves every request.
    """
    if flavour_id in flavours or not flavours:
        # Without flavours, nothing in the package contradicts the request.
        return flavour_id
    names_text = ", ".join(f'"{name}"' for name in flavours)
    if not flavour_id:
        if len(flavours) > 1:
            raise _build_error(
                f"It has the deployment flavours {names_text}. Set flavour_id to one of them."
            )
        return flavours[0]
    if "" not in flavours:
        hint = suggest_name(flavour_id, flavours)
        raise _build_error(
            f'It has no deployment flavour "{flavour_id}".{hint} Known flavours: {names_text}.'
        )
    return ""


def _join_documents(
    document: _ToscaDefinitions | None, definitions: Sequence[_ToscaDefinitions]
) -> str | None:
    """Return the text of a flavour's document, followed by those that declare its node types.

    Return None without a document. `definitions` are all documents of the package. The text
    separates them by "---". Types of TOSCA need no declaration.
    """
    if document is None:
        return None
    used_types = {kind for kind in _list_node_types(document) if not kind.startswith("tosca.")}
    texts = [document.text]
    for other in definitions:
        if other is document:
            # Its text is the first one.
            continue
        if not used_types.isdisjoint(_list_declared_types(other)):
            texts.append(other.text)
    return "\n---\n".join(texts)


def _list_declared_types(document: _ToscaDefinitions) -> Iterator[str]:
    """Yield the types declared in a document, except VNF types."""
    vnf_type = "tosca.nodes.nfv.VNF"
    for section in ("node_types", "group_types", "policy_types"):
        types = get_mapping(document.content, section)
        yield from (
            name
            for name, body in types.items()
            if get_value_at_path(body, "derived_from") != vnf_type
        )


def _is_hot_file(name: str) -> bool:
    return name.startswith(_BASE_HOT) and name.endswith(_DOCUMENTS)


def _list_hot_folders(names: Iterable[str]) -> list[str]:
    """Return the folders with HOT files below the base folder, sorted.

    Each is named after its flavour.
    """
    return sorted(
        {name.split("/")[1] for name in filter(_is_hot_file, names) if name.count("/") > 1}
    )


def _read_hot_files(
    names: Sequence[str], flavour: str, read: _ReadFile
) -> tuple[str | None, dict[str, str]]:
    """Return the texts of a flavour's top HOT file and of its nested files.

    The former is None if there is none; the latter are by name. Nested files are named by
    their file name, or by their path in the folder if an earlier one has the same name.
    `names` are the paths of all files in the package. The top file is the only one directly in
    the flavour's folder.
    """
    folders = _list_hot_folders(names)
    # An unnamed flavour has the only folder. A flavour without its own folder uses the base folder.
    if not flavour and len(folders) == 1:
        flavour = folders[0]
    folder = f"{_BASE_HOT}{flavour}/" if flavour in folders else _BASE_HOT
    paths = [name for name in names if name.startswith(folder) and name.endswith(_DOCUMENTS)]
    top_paths = [path for path in paths if "/" not in path.removeprefix(folder)]
    if len(top_paths) > 1:
        detail = (
            f"{folder} in it contains several files ({', '.join(top_paths)}); Tacker supports one."
        )
        raise _build_error(detail)
    if not top_paths:
        return None, {}
    nested: dict[str, str] = {}
    for path in sorted({*paths} - {*top_paths}):
        base_name = posixpath.basename(path)
        unique_name = path.removeprefix(folder) if base_name in nested else base_name
        nested[unique_name] = read(path, folder)
    return read(top_paths[0], folder), nested
