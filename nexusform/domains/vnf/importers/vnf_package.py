"""Documents of a VNF package (CSAR) for a tacker_vnf, from a folder or a zip file. Nothing is unpacked.
Documents are read one by one with size limits for each and for all.
"""

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
from nexusform.domains.vnf.importers.sol006 import list_flavours
from nexusform.domains.vnf.importers.vnf_text import describe_foreign_kind
from nexusform.json_data.plain_data import get_list, get_mapping, get_text, get_value_at_path
from nexusform.language.evaluation_run import FileProblem, Files

META: Final = "TOSCA-Metadata/TOSCA.meta"
_BASE_HOT: Final = "BaseHOT/"
_ENTRY: Final = re.compile(r"^Entry-Definitions:[ \t]*(\S.*?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_DOCUMENTS: Final = (".yaml", ".yml")
_GZIP: Final = b"\x1f\x8b"
_MIB: Final = 2**20
# Limits for one document and for all: far above any package, far below a zip bomb.
_MAX_DOCUMENT_BYTES: Final = 4 * _MIB
_MAX_TOTAL_BYTES: Final = 32 * _MIB
_MAX_FILES: Final = 20_000
_VDU_TYPES: Final = ("vdu.compute", "vdu.tacker")
_VNF_TYPE: Final = "tosca.nodes.nfv.VNF"
_TYPES: Final = ("node_types", "group_types", "policy_types")
# Without libyaml, Python has only the slow loader.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class VnfPackageDocuments(Struct, frozen=True):
    """Texts for one deployment flavour, None if missing; `nested` by file name."""

    vnfd: str | None
    base_hot: str | None
    nested: Mapping[str, str]


def read_vnf_package(path: str, flavour_id: str, files: Files) -> VnfPackageDocuments:
    """Return the documents of a flavour ("" if there is only one). Raises DiagnosticsError, FileProblem."""
    try:
        is_file = files.is_file(path)
    except FileProblem:  # a directory, or an unreadable path: listing it raises the same problem
        is_file = False
    source = _PackageZip(files.read(path)) if is_file else _PackageFolder(path, files)
    texts = _LimitedReader(source)
    definitions = _load_definitions(source.names, texts)
    # The documents with VDUs by deployment flavour ("" without a name).
    flavours: dict[str, _ToscaDefinitions] = {}
    for document in definitions:
        for flavour in list_flavours(document.content):
            flavours.setdefault(flavour, document)
        has_vdus = any(kind.lower().endswith(_VDU_TYPES) for kind in _list_node_types(document))
        if has_vdus or _get_flavour(document):  # an older document without a flavour ("") may declare VDUs
            flavours.setdefault(_get_flavour(document), document)
    flavour = _select_flavour(flavour_id, sorted(flavours) or _list_hot_folders(source.names))
    vnfd = _join_documents(flavours.get(flavour), definitions)
    base_hot, nested = _read_hot_files(source.names, flavour, texts)
    if vnfd is None and base_hot is None:
        kind = describe_foreign_kind(document.content for document in definitions)
        raise _build_error(f"It contains {kind}." if kind else "It has no definitions with a VDU and no BaseHOT.")
    return VnfPackageDocuments(vnfd, base_hot, nested)


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
        if content.startswith(_GZIP):
            raise _build_error("It is a packed tar (OSM format). Unpack it and use the folder.")
        try:
            self._archive = zipfile.ZipFile(BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise _build_error("It is neither a folder nor a zip file.") from None
        entries = self._archive.infolist()
        if len(entries) > _MAX_FILES:
            raise _build_error(f"It contains {len(entries):,} files; the maximum is {_MAX_FILES:,}.")
        for entry in entries:
            _check_package_path(entry.filename, entry.orig_filename)
        self.names: Sequence[str] = sorted({entry.filename for entry in entries if not entry.is_dir()})

    def read(self, name: str) -> str:
        """Return the text of a member, up to the maximum size."""
        try:
            with self._archive.open(name) as member:
                return _decode_text(name, member.read(_MAX_DOCUMENT_BYTES + 1))
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError, zlib.error):
            detail = f'"{name}" in it cannot be read: damaged, encrypted or packed in an unknown way.'
            raise _build_error(detail) from None


def _check_package_path(*names: str) -> None:
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
            raise _build_error(f'"{name[:80]}" in it points outside the package.')


def _decode_text(name: str, content: bytes) -> str:
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
        self._size = 0

    def __call__(self, name: str, named_by: str) -> str:
        """Return the text of a file; `named_by` is the subject of the error if it is missing."""
        if name not in self._names:
            hint = suggest_name(name, self._names)
            raise _build_error(f'{named_by} references "{name}", which is not in the package.{hint}')
        text = self._source.read(name)
        self._size += len(text.encode())
        if self._size > _MAX_TOTAL_BYTES:
            raise _build_error(f"Its documents are larger than {_MAX_TOTAL_BYTES // _MIB} MiB together.")
        return text


class _ToscaDefinitions(Struct, frozen=True):
    """Document of TOSCA definitions: its text and its content (plain data)."""

    text: str
    content: Mapping[str, Any]


_ReadFile = Callable[[str, str], str]


def _load_definitions(names: Sequence[str], read: _ReadFile) -> list[_ToscaDefinitions]:
    """Return the entry document, its imports, and documents in its folder: Tacker searches for flavours there."""
    entry, named_by = _find_entry_definitions(names, read)
    if not entry:
        return []
    definitions: dict[str, _ToscaDefinitions] = {}
    folder_names = [name for name in names if posixpath.dirname(name) == posixpath.dirname(entry)]
    documents = [name for name in folder_names if name.endswith(_DOCUMENTS) and not _is_standard(name)]
    queue = [(entry, named_by), *((name, entry) for name in documents)]  # each with the file naming it
    while queue:
        name, named_by = queue.pop(0)
        if name in definitions:
            continue  # imported twice
        text = read(name, named_by)
        try:
            document = next(iter(yaml.load_all(text, _LOADER)), None)
        except yaml.MarkedYAMLError as problem:
            line = f":{problem.problem_mark.line + 1}" if problem.problem_mark is not None else ""
            raise _build_error(f"{name}{line} in it is not valid YAML: {problem.problem}.") from None
        except (yaml.YAMLError, RecursionError, ValueError):
            raise _build_error(f"{name} in it is not valid YAML.") from None
        definitions[name] = _ToscaDefinitions(text, get_mapping(document))  # {} if it is no mapping
        imports = [_resolve_package_path(imported, name) for imported in _list_imports(definitions[name].content)]
        # A package may lack the files of standard types.
        queue += [(imported, name) for imported in imports if imported in names or not _is_standard(imported)]
    return list(definitions.values())


def _find_entry_definitions(names: Sequence[str], read: _ReadFile) -> tuple[str, str]:
    """Return the entry definitions, and the subject of messages on them; both "" for a package of HOT files alone."""
    if META in names:
        match = _ENTRY.search(read(META, META))
        if match is None:
            raise _build_error(f"{META} has no Entry-Definitions.")
        return _resolve_package_path(match[1], base_file=""), META
    top_files = [name for name in names if "/" not in name and name.endswith(_DOCUMENTS)]
    if len(top_files) == 1:
        return top_files[0], "The package"
    if any(map(_is_hot_file, names)):
        return "", ""
    raise _build_error(f"It has no {META}, and not exactly one YAML file at its top.")


def _is_standard(name: str) -> bool:
    """Return whether ETSI publishes the file: packages may omit its types, and they are not needed here."""
    return posixpath.basename(name).startswith("etsi_nfv_sol001")


def _resolve_package_path(path: str, base_file: str) -> str:
    name = posixpath.normpath(posixpath.join(posixpath.dirname(base_file), path))
    _check_package_path(name)
    return name


def _list_imports(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files imported by a document."""
    for item in get_list(content, "imports"):
        body = item
        if isinstance(item, dict) and "file" not in item and len(item) == 1:  # NAME: FILE
            body = next(iter(item.values()))
        name = body.get("file") if isinstance(body, dict) else body
        if isinstance(name, str) and "://" not in name:  # a URL is not in the package
            yield name


def _get_flavour(document: _ToscaDefinitions) -> str:
    return get_text(document.content, "topology_template", "substitution_mappings", "properties", "flavour_id")


def _list_node_types(document: _ToscaDefinitions) -> list[str]:
    bodies = get_mapping(document.content, "topology_template", "node_templates").values()
    return [get_text(body, "type") for body in bodies]


def _select_flavour(flavour_id: str, flavours: Sequence[str]) -> str:
    """Return the requested deployment flavour, or without a request the only one; "" for an unnamed one."""
    names_text = ", ".join(f'"{name}"' for name in flavours if name)
    if not flavours or flavour_id in flavours:
        return flavour_id
    if not flavour_id:
        if len(flavours) > 1:
            raise _build_error(f"It has the deployment flavours {names_text}. Set flavour_id to one of them.")
        return flavours[0]
    if "" not in flavours:
        hint = suggest_name(flavour_id, flavours)
        raise _build_error(f'It has no deployment flavour "{flavour_id}".{hint} Known flavours: {names_text}.')
    return ""  # the document without a name of a flavour serves every request


def _join_documents(document: _ToscaDefinitions | None, definitions: Sequence[_ToscaDefinitions]) -> str | None:
    """Return the document of the flavour, followed by those declaring its node types; None without a document."""
    if document is None:
        return None
    own_types = {kind for kind in _list_node_types(document) if not kind.startswith("tosca.")}
    required_texts = (
        other.text
        for other in definitions
        if other is not document and not own_types.isdisjoint(_list_declared_types(other))
    )
    return "\n---\n".join([document.text, *required_texts])


def _list_declared_types(document: _ToscaDefinitions) -> Iterator[str]:
    """Yield the types declared in a document, except VNF types."""
    for section in _TYPES:
        types = get_mapping(document.content, section)
        yield from (name for name, body in types.items() if get_value_at_path(body, "derived_from") != _VNF_TYPE)


def _is_hot_file(name: str) -> bool:
    return name.startswith(_BASE_HOT) and name.endswith(_DOCUMENTS)


def _list_hot_folders(names: Iterable[str]) -> list[str]:
    """Return the folders with HOT files below the base folder, sorted; each is named after its flavour."""
    return sorted({name.split("/")[1] for name in filter(_is_hot_file, names) if name.count("/") > 1})


def _read_hot_files(names: Sequence[str], flavour: str, read: _ReadFile) -> tuple[str | None, dict[str, str]]:
    """Return the top HOT file of a flavour, None without one, and the nested ones by file name (by path if taken)."""
    folders = _list_hot_folders(names)
    # An unnamed flavour has the only folder. A flavour without its own folder has its files in the base folder.
    if not flavour and len(folders) == 1:
        flavour = folders[0]
    prefix = f"{_BASE_HOT}{flavour}/" if flavour in folders else _BASE_HOT
    hot_files = filter(_is_hot_file, names)
    relative_names = [name.removeprefix(prefix) for name in hot_files if name.startswith(prefix)]
    top_names = [name for name in relative_names if "/" not in name]
    if len(top_names) > 1:
        files = ", ".join(f"{prefix}{top}" for top in top_names)
        raise _build_error(f"{prefix} in it contains several files ({files}); Tacker supports one.")
    if not top_names:
        return None, {}
    nested: dict[str, str] = {}
    for name in sorted(set(relative_names).difference(top_names)):
        base_name = posixpath.basename(name)
        unique_name = name if base_name in nested else base_name
        nested[unique_name] = read(f"{prefix}{name}", prefix)
    return read(f"{prefix}{top_names[0]}", prefix), nested
