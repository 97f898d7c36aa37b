"""A VNF package (CSAR), a folder or a zip file: which of its documents a tacker_vnf is made of.

Nothing is unpacked. Documents are read one by one, each of them and all together up to a bound.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, Protocol

import yaml
from msgspec import Struct

from nexusform.diagnostics import Refused, did_you_mean, error
from nexusform.documents.shapes import list_at, mapping_at, text_at, value_at
from nexusform.domains.vnf.importers.foreign import foreign_kind
from nexusform.domains.vnf.importers.sol006 import flavours_of
from nexusform.language.evaluation import FileProblem, Files

META: Final = "TOSCA-Metadata/TOSCA.meta"
_BASE_HOT: Final = "BaseHOT/"
_ENTRY: Final = re.compile(r"^Entry-Definitions:[ \t]*(\S.*?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_DOCUMENTS: Final = (".yaml", ".yml")
_GZIP: Final = b"\x1f\x8b"
_MIB: Final = 2**20
# A document and all of them: far more than any package has, far less than a zip bomb.
_LARGEST: Final = 4 * _MIB
_MOST_BYTES: Final = 32 * _MIB
_MOST_FILES: Final = 20_000
_VDUS: Final = ("vdu.compute", "vdu.tacker")
_VNF_TYPE: Final = "tosca.nodes.nfv.VNF"
_TYPES: Final = ("node_types", "group_types", "policy_types")
# Python without libyaml has only the slow one.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class VnfPackage(Struct, frozen=True):
    """The texts for one deployment flavour, None where the package has none; `nested` by file name."""

    vnfd: str | None
    base_hot: str | None
    nested: Mapping[str, str]


class _Source(Protocol):
    """A package as names and texts."""

    names: Sequence[str]

    def read(self, name: str) -> str:
        """The text of a file. Raises Refused."""
        ...


def read_package(path: str, flavour_id: str, files: Files) -> VnfPackage:
    """The documents of a flavour ("" where there is one only). Raises Refused, FileProblem."""
    source = _source(path, files)
    texts = _Bounded(source)
    definitions = _definitions(source.names, texts)
    flavours = _flavours(definitions)
    folders = sorted(
        {name.split("/")[1] for name in source.names if _below_base_hot(name) and name.count("/") > 1}
    )
    flavour = _chosen(flavour_id, sorted(flavours) or folders)
    vnfd = _vnfd(flavours.get(flavour), definitions)
    base_hot, nested = _hot(source.names, flavour, texts)
    if vnfd is None and base_hot is None:
        kind = foreign_kind(document.says for document in definitions)
        raise _refused(f"It holds {kind}." if kind else "It has no definitions with a VDU and no BaseHOT.")
    return VnfPackage(vnfd, base_hot, nested)


def _refused(detail: str) -> Refused:
    return Refused(error("invalid-vnf-package", detail))


# --- where it stands ---------------------------------------------------------------------------


def _source(path: str, files: Files) -> _Source:
    try:
        zipped = files.exists(path)
    except FileProblem:  # a directory, or a path that looking into it refuses as well
        zipped = False
    return _Zip(files.read(path)) if zipped else _Folder(path, files)


class _Folder:
    def __init__(self, path: str, files: Files) -> None:
        self._path = path.rstrip("/")
        self._files = files
        self.names: Sequence[str] = files.glob(self._path, "**/*.{yaml,yml,meta}")

    def read(self, name: str) -> str:
        """The text of a file below the folder."""
        return _text(name, self._files.read(f"{self._path}/{name}"))


class _Zip:
    def __init__(self, content: bytes) -> None:
        if content.startswith(_GZIP):
            raise _refused("It is a packed tar, as OSM makes them: unpack it, and name the folder.")
        try:
            self._archive = zipfile.ZipFile(BytesIO(content))
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            raise _refused("It is neither a folder nor a zip file.") from None
        entries = self._archive.infolist()
        if len(entries) > _MOST_FILES:
            raise _refused(f"It holds {len(entries):,} files; at most {_MOST_FILES:,} are read.")
        for entry in entries:
            _refuse_outside(entry.filename, entry.orig_filename)
        self.names: Sequence[str] = sorted({entry.filename for entry in entries if not entry.is_dir()})

    def read(self, name: str) -> str:
        """The text of a member, never more of it than a document may have."""
        try:
            with self._archive.open(name) as member:
                return _text(name, member.read(_LARGEST + 1))
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, OSError, zlib.error):
            raise _refused(
                f'"{name}" in it cannot be read: damaged, encrypted or packed in an unknown way.'
            ) from None


def _refuse_outside(*names: str) -> None:
    for name in names:
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
            raise _refused(f'"{name[:80]}" in it leads out of the package.')


def _text(name: str, content: bytes) -> str:
    if len(content) > _LARGEST:
        raise _refused(f'"{name}" in it is larger than {_LARGEST // _MIB} MiB.')
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _refused(f'"{name}" in it is no UTF-8 text.') from None


class _Bounded:
    """Reads of a package, all together bounded, and only of what it has."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._names = frozenset(source.names)
        self._size = 0

    def __call__(self, name: str, named_by: str) -> str:
        if name not in self._names:
            hint = did_you_mean(name, self._names)
            raise _refused(f'{named_by} names "{name}", which is not in the package.{hint}')
        text = self._source.read(name)
        self._size += len(text)
        if self._size > _MOST_BYTES:
            raise _refused(f"Its documents are larger than {_MOST_BYTES // _MIB} MiB together.")
        return text


# --- definitions -------------------------------------------------------------------------------


class _Definitions(Struct, frozen=True):
    """One document of TOSCA definitions: its text and what it says (plain data)."""

    text: str
    says: Mapping[str, Any]


_Read = Callable[[str, str], str]


def _definitions(names: Sequence[str], read: _Read) -> list[_Definitions]:
    """The entry document, all that it imports, and what lies beside it: Tacker looks for flavours there."""
    entry, named_by = _entry(names, read)
    if not entry:
        return []
    definitions: dict[str, _Definitions] = {}
    beside = [name for name in names if posixpath.dirname(name) == posixpath.dirname(entry)]
    documents = [name for name in beside if name.endswith(_DOCUMENTS) and not _is_standard(name)]
    waiting = [(entry, named_by), *((name, entry) for name in documents)]
    while waiting:
        name, named_by = waiting.pop(0)
        if name in definitions:
            continue
        text = read(name, named_by)
        definitions[name] = _Definitions(text, _loaded(name, text))
        imports = [_resolved(each, name) for each in _imports(definitions[name].says)]
        waiting += [(each, name) for each in imports if each in names or not _is_standard(each)]
    return list(definitions.values())


def _entry(names: Sequence[str], read: _Read) -> tuple[str, str]:
    """The entry definitions, and the file that names them; both "" for a package of HOT files alone."""
    if META in names:
        match = _ENTRY.search(read(META, META))
        if match is None:
            raise _refused(f"{META} has no Entry-Definitions.")
        return _resolved(match[1], ""), META
    tops = [name for name in names if "/" not in name and name.endswith(_DOCUMENTS)]
    if len(tops) == 1:
        return tops[0], "The package"
    if any(_below_base_hot(name) for name in names):
        return "", ""
    raise _refused(f"It has no {META}, and not exactly one YAML file at its top.")


def _is_standard(name: str) -> bool:
    """Whether ETSI publishes it: packages may leave its types out, and nothing here needs them."""
    return posixpath.basename(name).startswith("etsi_nfv_sol001")


def _resolved(written: str, at: str) -> str:
    name = posixpath.normpath(posixpath.join(posixpath.dirname(at), written))
    _refuse_outside(name)
    return name


def _imports(says: Mapping[str, Any]) -> Iterator[str]:
    """The files that a document imports."""
    for each in list_at(says, "imports"):
        body = each
        if isinstance(each, dict) and "file" not in each and len(each) == 1:
            body = next(iter(each.values()))
        name = body.get("file") if isinstance(body, dict) else body
        if isinstance(name, str) and "://" not in name:
            yield name


def _loaded(name: str, text: str) -> Mapping[str, Any]:
    """A document as plain data; empty when it is no mapping."""
    try:
        document = next(iter(yaml.load_all(text, _LOADER)), None)
    except yaml.MarkedYAMLError as problem:
        line = f":{problem.problem_mark.line + 1}" if problem.problem_mark is not None else ""
        raise _refused(f"{name}{line} in it is no YAML: {problem.problem}.") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise _refused(f"{name} in it is no YAML.") from None
    return mapping_at(document)


# --- flavours ----------------------------------------------------------------------------------


def _flavours(definitions: Sequence[_Definitions]) -> dict[str, _Definitions]:
    """The documents that describe VDUs, by deployment flavour ("" for one that names none)."""
    flavours: dict[str, _Definitions] = {}
    for document in definitions:
        for flavour in flavours_of(document.says):
            flavours.setdefault(flavour, document)
        kinds = list(_kinds(document))
        if any(kind.lower().endswith(_VDUS) for kind in kinds) or _flavour(document):
            flavours.setdefault(_flavour(document), document)
    return flavours


def _flavour(document: _Definitions) -> str:
    return text_at(document.says, "topology_template", "substitution_mappings", "properties", "flavour_id")


def _kinds(document: _Definitions) -> Iterator[str]:
    for body in mapping_at(document.says, "topology_template", "node_templates").values():
        kind = value_at(body, "type")
        if isinstance(kind, str):
            yield kind


def _chosen(flavour_id: str, flavours: Sequence[str]) -> str:
    """The deployment flavour that is asked for, or the only one ("": none is described)."""
    listed = ", ".join(f'"{name}"' for name in flavours if name)
    if not flavour_id:
        if len(flavours) > 1:
            raise _refused(f"It has the deployment flavours {listed}: set flavour_id to one of them.")
        return flavours[0] if flavours else ""
    if flavour_id in flavours or not flavours:
        return flavour_id
    if listed and "" not in flavours:
        hint = did_you_mean(flavour_id, flavours)
        raise _refused(f'It has no deployment flavour "{flavour_id}".{hint} It has: {listed}.')
    return ""


def _vnfd(document: _Definitions | None, definitions: Sequence[_Definitions]) -> str | None:
    """The document of the flavour, with those behind it that declare types which it needs."""
    if document is None:
        return None
    own = {kind for kind in _kinds(document) if not kind.startswith("tosca.")}
    others = [other for other in definitions if other is not document]
    needed = [other.text for other in others if not own.isdisjoint(_declared_types(other))]
    return "\n---\n".join([document.text, *needed])


def _declared_types(document: _Definitions) -> Iterator[str]:
    """The names of the types that a document declares, but for VNFs themselves."""
    for section in _TYPES:
        types = mapping_at(document.says, section)
        yield from (name for name, body in types.items() if value_at(body, "derived_from") != _VNF_TYPE)


# --- HOT files ---------------------------------------------------------------------------------


def _below_base_hot(name: str) -> bool:
    return name.startswith(_BASE_HOT) and name.endswith(_DOCUMENTS)


def _hot(names: Sequence[str], flavour: str, read: _Read) -> tuple[str | None, dict[str, str]]:
    """The top HOT file of a flavour, and the nested ones by file name."""
    all_files = [name for name in names if _below_base_hot(name)]
    start = _folder_of(flavour, all_files)
    below = [name.removeprefix(start) for name in all_files if name.startswith(start)]
    tops = [inner for inner in below if "/" not in inner]
    if len(tops) > 1:
        files = ", ".join(f"{start}{top}" for top in tops)
        raise _refused(f"{start} in it holds several files ({files}); Tacker takes one.")
    if not tops:
        return None, {}
    nested: dict[str, str] = {}
    for inner in below:
        if "/" in inner:
            short = posixpath.basename(inner)
            nested[inner if short in nested else short] = read(f"{start}{inner}", start)
    return read(f"{start}{tops[0]}", start), nested


def _folder_of(flavour: str, files: Sequence[str]) -> str:
    """The folder with the HOT files of a flavour, with a slash at the end. Without a flavour the only folder
    is meant; where there is no such folder, the files stand in the one above.
    """
    folders = sorted({name.split("/")[1] for name in files if name.count("/") > 1})
    if not flavour and len(folders) == 1:
        return f"{_BASE_HOT}{folders[0]}/"
    return f"{_BASE_HOT}{flavour}/" if flavour in folders else _BASE_HOT
