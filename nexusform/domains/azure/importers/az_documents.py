"""The files of an export -> its resources, sorted by kind, whatever form and file they came in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.leaves import rebuilt
from nexusform.documents.shapes import mapping_at, text_at
from nexusform.domains.azure.importers.arm import INCOMPLETE, Item, id_key, is_list, name_of, resources
from nexusform.domains.azure.importers.az_model import EXPORTED_AT
from nexusform.plain_data import Path
from nexusform.words import counted, first_of, form

# Kind of document (az_files.StandardFile.kind, or ANY) -> its files as (name for messages, content).
Documents: TypeAlias = Mapping[str, Sequence[tuple[str, bytes]]]

ANY: Final = "any"  # a file whose resources are told apart by their type
NODES: Final = "nodes"
_MOST_NAMED: Final = 4
NOT_READ: Final = "resources-not-read"
_WARNING: Final = Severity.WARNING
# The type of a resource, without the provider's name -> its kind.
KIND_OF_TYPE: Final[Mapping[str, str]] = {
    "racks": "racks",
    "baremetalmachines": "bare_metal_machines",
    "virtualmachines": "virtual_machines",
    "kubernetesclusters": "kubernetes_clusters",
    "kubernetesclusters/agentpools": "agent_pools",
    "clusters": "clusters",
    "rackskus": "rack_skus",
    "l3networks": "l3_networks",
    "storageappliances": "storage_appliances",
    "volumes": "volumes",
    "kubernetesversions": "kubernetes_versions",
}
KINDS: Final = (*KIND_OF_TYPE.values(), NODES)
_GROUND: Final = ("racks", "bare_metal_machines")
_PROVIDER: Final = "microsoft.networkcloud/"
_TYPE_IN_ID: Final = re.compile(r"/providers/microsoft\.networkcloud/([a-z]+)/[^/]+(?:/([a-z]+)/[^/]+)?/?$")
_YAML: Final = (".yaml", ".yml")


class AzItems(Struct, frozen=True):
    """The resources of an export by kind, in the order of the files.

    `stated` are the `exported_at` that documents name, with their file. `unreadable` are the kinds of
    which a file could not be read: what refers to them cannot be judged. `listed` are the kinds of which the
    export has a whole list, which may be empty: what that lacks is not there; `incomplete` those of which a
    list is cut off. `pools_of` are the clusters
    whose agent pools have a file of their own, in lower case. `clusters_lacking` are the clusters, by name,
    of which agent pools were captured, and which the list of clusters lacks: it is not whole.
    """

    by_kind: Mapping[str, list[Item]]
    stated: list[tuple[str, Any]] = field(default_factory=list)
    unreadable: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()
    incomplete: frozenset[str] = frozenset()
    pools_of: frozenset[str] = frozenset()
    clusters_lacking: tuple[str, ...] = ()

    def of(self, kind: str) -> list[Item]:
        """The resources of a kind."""
        return self.by_kind.get(kind, [])


def read_items(documents: Documents, findings: list[Problem]) -> AzItems:
    """Every resource of an export."""
    by_kind: dict[str, list[Item]] = {kind: [] for kind in KINDS}
    stated: list[tuple[str, Any]] = []
    unreadable: set[str] = set()
    listed: set[str] = set()
    incomplete: set[str] = set()
    sorting = _Sorting(by_kind)
    for kind in (*KINDS, ANY):
        for name, content in documents.get(kind, ()):
            data, problems = _parse(name, content)
            findings += problems
            if problems:
                unreadable.add(kind)
                continue
            if isinstance(data, Mapping) and EXPORTED_AT in data:
                stated.append((name, data[EXPORTED_AT]))
            if kind == ANY and not isinstance(data, list | Mapping):
                findings.append(Problem((), NOT_READ, "no list of resources: not read.", _WARNING, file=name))
                continue
            already_met = len(findings)
            kinds = sorting.take(_items_of(name, data, kind, findings), kind)
            unreadable |= _unreadable(kind, kinds, findings[already_met:])
            if kind != ANY:
                kinds.add(kind)
            if _is_incomplete(findings[already_met:]):
                incomplete |= kinds
                if not kinds.isdisjoint(_GROUND):  # all else stands on these
                    findings[already_met:] = map(_as_error, findings[already_met:])
            elif is_list(data):
                listed |= kinds
    sorting.say_repeated()
    lacking = _clusters_lacking(by_kind, listed)
    pool_files = (name for name, _ in documents.get("agent_pools", ()))
    return AzItems(
        by_kind=by_kind,
        stated=stated,
        unreadable=frozenset(unreadable),
        listed=frozenset(listed - incomplete - unreadable - _contradicted(lacking)),
        incomplete=frozenset(incomplete),
        pools_of=frozenset(map(_cluster_in, pool_files)),
        clusters_lacking=lacking,
    )


def _unreadable(kind: str, kinds: Collection[str], findings: Iterable[Problem]) -> set[str]:
    """The kind of a document in which there are no resources, as findings say, but something else."""
    is_wrong = any(finding.severity is Severity.ERROR for finding in findings)
    return {kind} if is_wrong and not kinds and kind != ANY else set()


def _is_incomplete(findings: Iterable[Problem]) -> bool:
    return any(finding.id == INCOMPLETE for finding in findings)


def _clusters_lacking(by_kind: Mapping[str, list[Item]], listed: Collection[str]) -> tuple[str, ...]:
    """The clusters that captured agent pools belong to, and that the list of clusters lacks, by name."""
    if "kubernetes_clusters" not in listed:
        return ()
    clusters = {str(item.value("name")).lower() for item in by_kind["kubernetes_clusters"]}
    owners = {owner for item in by_kind["agent_pools"] if (owner := _owner_of(item))}
    return tuple(sorted(name for name in owners if name.lower() not in clusters))


def _contradicted(clusters_lacking: Collection[str]) -> frozenset[str]:
    """The kinds of which a list is not whole, as others show."""
    return frozenset({"kubernetes_clusters"} if clusters_lacking else ())


def _owner_of(pool: Item) -> str:
    """The name of the cluster that an agent pool's id tells, "" where it tells none."""
    return name_of((pool.text("id") or "").strip().rstrip("/").rpartition("/")[0].rpartition("/")[0])


def _as_error(finding: Problem) -> Problem:
    """A finding as an error where it says that a list is cut off."""
    return replace(finding, severity=Severity.ERROR) if finding.id == INCOMPLETE else finding


def _cluster_in(name: str) -> str:
    """The cluster that a file of agent pools is called after: `export/agent_pools.core.json`."""
    return name.rpartition("/")[2].rpartition(".")[0].partition(".")[2].lower()


def _items_of(name: str, data: Any, kind: str, findings: list[Problem]) -> list[Item]:
    """The resources of a document; what is no list of resources under a name of its own is a warning."""
    known = len(findings)
    items = resources(name, _resolved(data), findings)
    if kind == ANY:
        findings[known:] = [replace(problem, severity=_WARNING) for problem in findings[known:]]
    return items


def _parse(name: str, content: bytes) -> tuple[Any, list[Problem]]:
    """The data of a file: JSON (also several documents, or one a line), or YAML by its name."""
    if not name.lower().endswith(_YAML):
        data, problem = parse_json(name, content)
        return data, [] if problem is None else [problem]
    from nexusform.documents.yaml_text import read_yaml

    stream = read_yaml(name, content)
    documents = [document.data for document in stream.documents]
    return documents[0] if len(documents) == 1 else documents, list(stream.findings)


class _Sorting:
    """Resources on their way under their kinds. One that stands twice, alike, is taken once."""

    def __init__(self, by_kind: dict[str, list[Item]]) -> None:
        self._by_kind = by_kind
        self._known: dict[tuple[str, str], Item] = {}
        self._repeated: list[Item] = []

    def take(self, items: Iterable[Item], kind: str) -> set[str]:
        """Put resources under their kinds: that of their type, else that of the file. The kinds met."""
        strange: dict[str, Item] = {}
        met: set[str] = set()
        for item in items:
            own = kind_of(item)
            if own is None and (_is_named(item) or kind == ANY):
                strange.setdefault(
                    item.text("type") or "" if _is_named(item) else _kubernetes_kind(item), item
                )
                continue
            met.add(own or kind)
            if not self._is_repeated(item, own or kind):
                self._by_kind[own or kind].append(item)
        _say_strange(strange)
        return met

    def _is_repeated(self, item: Item, kind: str) -> bool:
        """Whether another file told of the same resource in the same words before."""
        arm_id = item.value("id")
        if not isinstance(arm_id, str):
            return False
        known = self._known.setdefault((kind, id_key(arm_id)), item)
        if known is item or not known.is_alike(item):
            return False
        self._repeated.append(item)
        return True

    def say_repeated(self) -> None:
        """Say once that resources stand twice."""
        if self._repeated:
            count = len(self._repeated)
            detail = (
                f"{counted(count, 'resource')} {form(count, 'stands', 'stand')} further up already, alike."
            )
            self._repeated[0].report("id", "resources-twice", f"{detail} Each is read once.", _WARNING)


def _say_strange(strange: Mapping[str, Item]) -> None:
    """Say of each type of resources that is not read that it is not."""
    of_kubernetes = {name: item for name, item in strange.items() if name and not _is_named(item)}
    for type_name, item in strange.items():
        said = (
            f'resources of the type "{type_name}"' if type_name else "what says neither its type nor its id"
        )
        if type_name not in of_kubernetes:
            item.report("type", NOT_READ, f"{said}: not read.", _WARNING)
    if of_kubernetes:
        kinds = first_of(list(of_kubernetes), _MOST_NAMED)
        detail = (
            f"objects of Kubernetes ({kinds}): not read here, but Nodes. `data fleet_hub_export` reads what "
            "stands on a fleet's hub, `data kubernetes_nodes` what runs on nodes."
        )
        next(iter(of_kubernetes.values())).report("kind", NOT_READ, detail, _WARNING)


def _kubernetes_kind(item: Item) -> str:
    """The kind of an object of Kubernetes, "" for anything else."""
    return text_at(item.value("kind")) if isinstance(item.value("apiVersion"), str) else ""


def kind_of(item: Item) -> str | None:
    """The kind that a resource's type or id says; None where neither says one."""
    if item.value("kind") == "Node" and isinstance(item.value("metadata"), Mapping):
        return NODES
    type_name = text_at(item.value("type")).lower()
    if type_name.startswith(_PROVIDER):
        return KIND_OF_TYPE.get(type_name.removeprefix(_PROVIDER))
    match = _TYPE_IN_ID.search(text_at(item.value("id")).strip().lower())
    if match is None:
        return None
    parent, child = match.groups()
    return KIND_OF_TYPE.get(f"{parent}/{child}" if child else parent)


def _is_named(item: Item) -> bool:
    """Whether a resource says a type (one that is not read)."""
    return "/" in text_at(item.value("type"))


# --- ARM templates -----------------------------------------------------------------------------

_REFERENCE: Final = re.compile(r"\[(parameters|variables)\('([^']+)'\)\]")


def _resolved(document: Any) -> Any:
    """An ARM template with the defaults of its parameters, and its variables, where they are named."""
    if not isinstance(document, Mapping) or "$schema" not in document or "resources" not in document:
        return document
    values: dict[tuple[str, str], Any] = {}
    for name, declared in mapping_at(document, "parameters").items():
        if "defaultValue" in mapping_at(declared):
            values["parameters", name] = declared["defaultValue"]
    for name, value in mapping_at(document, "variables").items():
        values["variables", name] = value

    def with_value(_: Path, leaf: Any) -> Any:
        match = _REFERENCE.fullmatch(leaf) if isinstance(leaf, str) else None
        return values.get((match[1], match[2]), leaf) if match is not None else leaf

    return {"resources": rebuilt(document["resources"], with_value)}


# --- JSON --------------------------------------------------------------------------------------

MAX_BYTES: Final = 64 * 1024 * 1024
INVALID: Final = "invalid-json"

# What `>` writes depends on the shell: PowerShell puts a mark first, or writes UTF-16.
_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


def parse_json(file: str, content: bytes) -> tuple[Any, Problem | None]:
    """The data of a JSON document, or (None, what is wrong with it)."""
    if len(content) > MAX_BYTES:
        detail = f"the file has {len(content):,} bytes; at most {MAX_BYTES:,} are read."
        return None, Problem((), "file-too-large", detail, file=file)
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as problem:
        before = content[: problem.start]
        line = before.count(b"\n") + 1
        column = problem.start - (before.rfind(b"\n") + 1) + 1
        return None, _broken(file, line, column, f"this is not {encoding} text.")
    if not text.strip():
        return None, _broken(file, 1, 1, "the file is empty. Capture it again.")
    try:
        return json.loads(text, parse_constant=_refuse_constant), None
    except json.JSONDecodeError as problem:
        documents = _one_after_another(text)
        if documents is not None:
            return documents, None
        detail = f"{problem.msg}. Is this the whole output of the command?"
        return None, _broken(file, problem.lineno, problem.colno, detail)
    except RecursionError:
        return None, _broken(file, 1, 1, "the document is nested too deeply.")
    except ValueError as problem:
        return None, _broken(file, 1, 1, f"a number cannot be read: {str(problem).split(';')[0]}.")


def _one_after_another(text: str) -> list[Any] | None:
    """Documents written one after the other (lines, or pages joined with `cat`); None: that is not so."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    documents: list[Any] = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return documents
        if text[at] not in "{[":
            return None
        try:
            document, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError:
            return None
        documents.append(document)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _broken(file: str, line: int, column: int, detail: str) -> Problem:
    return Problem((), INVALID, detail, file=file, line=line, column=column)
