"""Resources of the files of an export, sorted by kind, in any supported format."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NoReturn, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items, select_word_form
from nexusform.documents.json_positions import find_json_lines
from nexusform.documents.scalars import escape_names, replace_scalars
from nexusform.domains.azure.importers.arm_resources import (
    INCOMPLETE,
    ArmItem,
    extract_name,
    extract_parent_id,
    is_resource_list,
    normalize_id,
    read_arm_resources,
)
from nexusform.domains.azure.importers.az_field_checks import LocatedFact
from nexusform.domains.azure.importers.az_records import EXPORTED_AT, STANDARD_FILES
from nexusform.domains.azure.importers.azure_fields import read_azure_schema
from nexusform.doubts.doubt import Doubt, Influence
from nexusform.json_data.plain_data import Path, get_mapping, get_text, unify_json_error

# Files as (name for messages, content) by kind (StandardFile.kind or ANY).
Documents: TypeAlias = Mapping[str, Sequence[tuple[str, bytes]]]

# A file with resources of several types.
ANY: Final = "any"
NODES: Final = "nodes"
_MAX_NAMES: Final = 4
NOT_READ: Final = "resources-not-read"
_WARNING: Final = Severity.WARNING
# Step of a path in a text: an index, or a key.
_STEP: Final = re.compile(r"\[(\d+)\]|[^.\[\]]+")
KINDS: Final = tuple(standard.kind for standard in STANDARD_FILES if standard.kind != EXPORTED_AT)
# Kind by resource type without the provider's name.
KIND_OF_TYPE: Final[Mapping[str, str]] = {
    **{kind.replace("_", ""): kind for kind in KINDS if kind not in {"agent_pools", NODES}},
    "kubernetesclusters/agentpools": "agent_pools",
}
_BASE_KINDS: Final = frozenset({"racks", "bare_metal_machines"})
# They decide on addresses, storage, versions and numbers of nodes, and no capacity for VMs.
_KINDS_WITHOUT_VMS: Final = frozenset(
    {
        *("l2_networks", "l3_networks", "trunked_networks", "storage_appliances", "volumes"),
        *("kubernetes_versions", "nodes"),
    }
)
_PROVIDER: Final = "microsoft.networkcloud/"
_TYPE_IN_ID: Final = re.compile(
    r"/providers/microsoft\.networkcloud/([a-z]+)/[^/]+(?:/([a-z]+)/[^/]+)?/?$"
)
_DEPLOYMENT: Final = "microsoft.resources/deployments"
_YAML: Final = (".yaml", ".yml")
_REFERENCE: Final = re.compile(r"\[(parameters|variables)\('([^']+)'\)\]")
MAX_BYTES: Final = 64 * 1024 * 1024
INVALID: Final = "invalid-json"
# Output of `>` depends on the shell: PowerShell adds a byte order mark or writes UTF-16.
_BYTE_ORDER_MARKS: Final = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


class AzResources(Struct, frozen=True):
    """Resources of an export by kind, in file order.

    `export_times` are the `exported_at` values with their file. `unreadable_kinds` are kinds
    with an unreadable file; references to them cannot be checked. `listed_kinds` are kinds with
    a complete list, possibly empty, and `incomplete_kinds` kinds with a truncated list.
    `clusters_with_pool_files` are the clusters with a file of agent pools, in lower case.
    `unlisted_clusters` are clusters with captured agent pools that are missing in the list of
    clusters. `unread` are facts about resource types that are not read. `contents` is the text
    of each file.
    """

    by_kind: Mapping[str, list[ArmItem]]
    export_times: list[tuple[str, Any]] = field(default_factory=list)
    unreadable_kinds: frozenset[str] = frozenset()
    listed_kinds: frozenset[str] = frozenset()
    incomplete_kinds: frozenset[str] = frozenset()
    clusters_with_pool_files: frozenset[str] = frozenset()
    unlisted_clusters: tuple[str, ...] = ()
    unread: tuple[LocatedFact, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict)

    def list_resources(self, kind: str) -> list[ArmItem]:
        """Return the resources of a kind."""
        return self.by_kind.get(kind, [])

    def find_lines(self, file: str, paths: Collection[Path]) -> Mapping[Path, int]:
        """Return the line of each part of a file, or of its nearest existing ancestor, by path."""
        content = self.contents.get(file, b"")
        if file.lower().endswith(_YAML):
            from nexusform.documents.yaml_documents import parse_yaml

            documents = parse_yaml(file, content).documents
            is_single = len(documents) == 1
            return {
                path: (
                    documents[0].find_position(*path)
                    if is_single
                    else documents[int(path[0])].find_position(*path[1:])
                ).line
                for path in paths
            }
        return _find_lines_of_json(content, paths)


def locate_problems(
    problems: Sequence[Problem], content: bytes, places: Mapping[str, Path]
) -> list[Problem]:
    """Return the problems of a JSON document with their lines.

    A problem has a path in one text, such as `changes[2].after.name`, or begins with a name in
    `places`, such as the address of a resource.
    """
    paths = [
        _find_place(str(problem.path[0]), places) if problem.path else () for problem in problems
    ]
    # The document as a whole is no position of a part.
    lines = _find_lines_of_json(content, paths, shortest=1) if any(paths) else {}
    return [
        replace(problem, line=lines[path]) if path and not problem.line else problem
        for problem, path in zip(problems, paths, strict=True)
    ]


def _find_place(text: str, places: Mapping[str, Path]) -> Path:
    """Return the path of a text: that of a name in `places`, and the steps after it."""
    name = max(
        (name for name in places if re.match(rf"{re.escape(name)}(?![^.\[])", text)),
        key=len,
        default="",
    )
    steps = _STEP.finditer(text[len(name) :])
    return (*places.get(name, ()), *(int(step[1]) if step[1] else step[0] for step in steps))


def _find_lines_of_json(
    content: bytes, paths: Collection[Path], shortest: int = 0
) -> Mapping[Path, int]:
    """Return the line of each part of a JSON text, or of its nearest existing ancestor, by path.

    The path of an ancestor has at least `shortest` steps. The line is 0 without any ancestor.
    """
    text = content.decode(_find_encoding(content), "replace")
    prefixes = {path[:length] for path in paths for length in range(shortest, len(path) + 1)}
    lines = find_json_lines(text, prefixes)
    return {path: _find_nearest_line(lines, path) for path in paths}


def _find_nearest_line(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of the part at a path or of its nearest ancestor; 0 without any."""
    prefixes = (path[:length] for length in range(len(path), -1, -1))
    return next((lines[prefix] for prefix in prefixes if prefix in lines), 0)


def read_export_resources(documents: Documents, findings: list[Problem]) -> AzResources:
    """Read every resource of an export, and the completeness of each kind.

    Add findings about unreadable files.
    """
    reader = _ExportReader(findings)
    for kind in (*KINDS, ANY):
        for name, content in documents.get(kind, ()):
            reader.read_file(name, content, kind)
    reader.report_repeated()
    unlisted_clusters = _find_unlisted_clusters(reader.by_kind, reader.listed_kinds)
    doubtful_kinds = reader.incomplete_kinds | reader.unreadable_kinds
    # They contradict the list of clusters.
    if unlisted_clusters:
        doubtful_kinds.add("kubernetes_clusters")
    pool_files = (name.rpartition("/")[2] for name, _ in documents.get("agent_pools", ()))
    # The file export/agent_pools.core.json is that of the cluster core.
    clusters_with_pool_files = {
        name.rpartition(".")[0].partition(".")[2].lower() for name in pool_files
    }
    return AzResources(
        by_kind=reader.by_kind,
        export_times=reader.export_times,
        unreadable_kinds=frozenset(reader.unreadable_kinds),
        listed_kinds=frozenset(reader.listed_kinds - doubtful_kinds),
        incomplete_kinds=frozenset(reader.incomplete_kinds),
        clusters_with_pool_files=frozenset(clusters_with_pool_files),
        unlisted_clusters=unlisted_clusters,
        unread=tuple(reader.unread),
        contents=dict(chain.from_iterable(documents.values())),
    )


class _ExportReader:
    """Reader of the files of an export.

    The reader collects resources, and kinds with such a file (fields of AzResources).
    """

    def __init__(self, findings: list[Problem]) -> None:
        """Start without resources; problems of the files are added to `findings`."""
        self.findings = findings
        self.by_kind: dict[str, list[ArmItem]] = {kind: [] for kind in KINDS}
        # The first item by kind and lower-case id.
        self.known: dict[tuple[str, str], ArmItem] = {}
        # Identical items that were read again.
        self.repeated: list[ArmItem] = []
        # Pairs of file and time.
        self.export_times: list[tuple[str, Any]] = []
        # With an unreadable file.
        self.unreadable_kinds: set[str] = set()
        # With a complete list, possibly empty.
        self.listed_kinds: set[str] = set()
        # With a truncated list.
        self.incomplete_kinds: set[str] = set()
        # About types that no version of the reader knows.
        self.unread: list[LocatedFact] = []

    def read_file(self, name: str, content: bytes, kind: str) -> None:
        """Read the resources of a file, and record by kind how complete its lists are.

        A list is complete, incomplete or unreadable. The name of the file determines `kind`. With
        ANY, the name is unknown, and the type of each resource decides.
        """
        data, problems = _parse_json_or_yaml_file(name, content)
        if problems:
            self.findings += problems
            self.unreadable_kinds.add(kind)
            return
        if isinstance(data, Mapping) and EXPORTED_AT in data:
            self.export_times.append((name, data[EXPORTED_AT]))
        if kind == ANY and (detail := _explain_file_without_resources(data)):
            self.findings.append(Problem((), NOT_READ, detail, _WARNING, file=name))
            return
        finding_count = len(self.findings)
        items = read_arm_resources(name, _resolve_arm_template(data, {}), self.findings)
        # A file of an unknown name: problems of its contents are warnings.
        if kind == ANY:
            warnings = [
                replace(problem, severity=_WARNING) for problem in self.findings[finding_count:]
            ]
            self.findings[finding_count:] = warnings
        kinds = self._add_resources_by_kind(items, kind)
        new_findings = self.findings[finding_count:]
        has_error = any(finding.severity is Severity.ERROR for finding in new_findings)
        if has_error and not kinds:
            # Nothing of it was read.
            self.unreadable_kinds.add(kind)
        if kind != ANY:
            # The list of a kind may be empty.
            kinds.add(kind)
        # One page of several.
        if any(finding.id == INCOMPLETE for finding in new_findings):
            self.incomplete_kinds |= kinds
            changes = _list_changes_of_truncation(kind, kinds)
            self.findings[finding_count:] = [
                replace(finding, **changes) if finding.id == INCOMPLETE else finding
                for finding in new_findings
            ]
        elif is_resource_list(data):
            # A single resource does not make its kind complete.
            self.listed_kinds |= kinds

    def _add_resources_by_kind(self, items: Iterable[ArmItem], kind: str) -> set[str]:
        """Add the resources under the kind of their type, or else of the file (`kind`).

        Return the kinds of the added ones. Resources of unsupported types are reported.
        """
        # The first item of each unsupported ARM type or Kubernetes kind.
        unread: dict[str, ArmItem] = {}
        added_kinds: set[str] = set()
        for item in items:
            item_kind = find_resource_kind(item)
            has_type = _has_type(item)
            if item_kind is None and (has_type or kind == ANY):
                type_name = ""
                if has_type:
                    type_name = item.read_text("type", "")
                elif isinstance(item.read_value("apiVersion"), str):
                    # Type of a Kubernetes object.
                    type_name = get_text(item.read_value("kind"))
                unread.setdefault(type_name, item)
                continue
            item_kind = item_kind or kind
            added_kinds.add(item_kind)
            if not self._is_repeated(item, item_kind):
                self.by_kind[item_kind].append(item)
        _report_unsupported_resource_types(unread)
        self.unread += _build_unread_types(unread.values())
        return added_kinds

    def _is_repeated(self, item: ArmItem, kind: str) -> bool:
        """Return True if an identical resource of this id was read before.

        It is then recorded for a warning.
        """
        arm_id = item.read_value("id")
        if not isinstance(arm_id, str):
            # No id to compare.
            return False
        first_item = self.known.setdefault((kind, normalize_id(arm_id)), item)
        if first_item is item or not first_item.is_equal(item):
            # The first, or a different one.
            return False
        self.repeated.append(item)
        return True

    def report_repeated(self) -> None:
        """Add one warning about duplicate resources: identical ones are kept once."""
        if self.repeated:
            count = len(self.repeated)
            subject = f"{format_count(count, 'resource')} {select_word_form(count, 'is', 'are')}"
            detail = f"{subject} listed earlier in the export, identical. Each is read once."
            self.repeated[0].report("id", "duplicate-inventory-resources", detail, _WARNING)


def _list_changes_of_truncation(file_kind: str, kinds: Collection[str]) -> Mapping[str, Any]:
    """Return the fields that the finding about a truncated list has, by the kinds in the list.

    All else depends on racks and machines: an error.
    """
    if not _BASE_KINDS.isdisjoint(kinds):
        return {"severity": Severity.ERROR}
    # The next page of a file of an unknown name may have VMs.
    if file_kind != ANY and _KINDS_WITHOUT_VMS.issuperset(kinds):
        return {"id": NOT_READ}
    return {}


def _find_unlisted_clusters(
    by_kind: Mapping[str, list[ArmItem]], listed_kinds: Collection[str]
) -> tuple[str, ...]:
    """Return the names of clusters missing in the list of clusters, but with captured agent pools.

    Case is ignored.
    """
    if "kubernetes_clusters" not in listed_kinds:
        # Without a list, none is missing in it.
        return ()
    known_names = {str(item.read_value("name")).lower() for item in by_kind["kubernetes_clusters"]}
    unlisted_names: set[str] = set()
    for pool in by_kind["agent_pools"]:
        # An id of a pool is CLUSTER_ID/agentPools/NAME.
        cluster_id = extract_parent_id(pool.read_text("id", ""))
        name = extract_name(cluster_id)
        # "": the id of the pool is malformed.
        if name and name.lower() not in known_names:
            unlisted_names.add(name)
    return tuple(sorted(unlisted_names))


def _parse_json_or_yaml_file(name: str, content: bytes) -> tuple[Any, list[Problem]]:
    """Parse a JSON file, or a YAML file by its suffix.

    Return its data (a list for several documents) and problems.
    """
    if not name.lower().endswith(_YAML):
        data, problem = parse_json(name, content)
        return escape_names(data), [] if problem is None else [problem]
    from nexusform.documents.yaml_documents import parse_yaml

    stream = parse_yaml(name, content)
    documents = [escape_names(document.data) for document in stream.documents]
    return documents[0] if len(documents) == 1 else documents, list(stream.findings)


def _build_unread_types(items: Iterable[ArmItem]) -> Iterator[LocatedFact]:
    """Yield a fact for each type of the platform's provider that nexusform does not know.

    Resources of other providers, and types known from Azure's SDK, hold no VMs.
    """
    for item in items:
        type_name = item.read_text("type", "").lower()
        name = type_name.removeprefix(_PROVIDER)
        if name != type_name and name not in read_azure_schema()["resource_types"]:
            label = item.read_text("name", "")
            origin = item.find_field_origin("type")
            fact = Doubt("resource", label, "type", origin.file, 0, Influence.EXISTENCE)
            yield LocatedFact(fact, origin)


def _report_unsupported_resource_types(unread: Mapping[str, ArmItem]) -> None:
    """Add a warning about each type of resource not read, and one about all objects of Kubernetes.

    `unread` has one item of each ARM type ("": without a type) and of each Kubernetes kind.
    """
    kubernetes_objects = {
        name: item for name, item in unread.items() if name and not _has_type(item)
    }
    for type_name, item in unread.items():
        label = (
            f'resources of the type "{type_name}"' if type_name else "an object without type and id"
        )
        if type_name not in kubernetes_objects:
            item.report("type", NOT_READ, f"{label}: not read.", _WARNING)
    if kubernetes_objects:
        kinds = format_first_items(list(kubernetes_objects), _MAX_NAMES)
        detail = (
            f"objects of Kubernetes ({kinds}): not read, except Nodes. Use `data fleet_hub_export` "
            "for objects of a fleet's hub, `data kubernetes_nodes` for pods."
        )
        next(iter(kubernetes_objects.values())).report("kind", NOT_READ, detail, _WARNING)


def find_resource_kind(item: ArmItem) -> str | None:
    """Find the kind of a resource by its type, else by the type in its id.

    Return None if it is unknown or missing.
    """
    if item.read_value("kind") == "Node" and isinstance(item.read_value("metadata"), Mapping):
        # An object of Kubernetes, not an Azure resource.
        return NODES
    type_name = get_text(item.read_value("type")).lower()
    if type_name.startswith(_PROVIDER):
        return KIND_OF_TYPE.get(type_name.removeprefix(_PROVIDER))
    match = _TYPE_IN_ID.search(get_text(item.read_value("id")).strip().lower())
    if match is None:
        return None
    parent, child = match.groups()
    return KIND_OF_TYPE.get(f"{parent}/{child}" if child else parent)


def _has_type(item: ArmItem) -> bool:
    """Return True if a resource has an ARM type: NAMESPACE/TYPE."""
    return "/" in get_text(item.read_value("type"))


def _explain_file_without_resources(document: Any) -> str:
    """Explain why a file of an unknown name is not read; "" if it may have resources."""
    if not isinstance(document, list | Mapping):
        return "not a list of resources: not read."
    if "deploymentparameters.json" in get_text(document, "$schema").lower():
        return (
            "a parameter file of an ARM template: not read. Set its values as defaultValue of the "
            "parameters in the template."
        )
    return ""


def _resolve_arm_template(document: Any, passed_values: Mapping[str, Any]) -> Any:
    """Resolve parameters and variables in the resources of an ARM template.

    A parameter has its passed value, else its default. A nested deployment is replaced by the
    resources of its template. Return other documents as given.
    """
    if (
        not isinstance(document, Mapping)
        or "$schema" not in document
        or "resources" not in document
    ):
        return document  # no template
    # Values by kind and name, as in a reference: [parameters('count')] has the
    # key ("parameters", "count").
    values = {
        ("variables", name): value for name, value in get_mapping(document, "variables").items()
    }
    for name, declaration in get_mapping(document, "parameters").items():
        if "defaultValue" in get_mapping(declaration):
            values["parameters", name] = declaration["defaultValue"]
    values |= {("parameters", name): value for name, value in passed_values.items()}

    def resolve_reference(_: Path, scalar: Any) -> Any:
        """Return the value of a scalar that is a reference as a whole; any other scalar stays."""
        match = _REFERENCE.fullmatch(get_text(scalar))
        if match is None:
            return scalar
        kind, name = match.groups()
        # A parameter without a default stays a reference.
        return values.get((kind, name), scalar)

    if not isinstance(document["resources"], list):
        return {"resources": replace_scalars(document["resources"], resolve_reference)}
    resources: list[Any] = []
    for resource in document["resources"]:
        properties = get_mapping(resource, "properties")
        template = get_mapping(properties, "template")
        type_name = get_text(resource, "type").lower()
        if type_name != _DEPLOYMENT or not isinstance(template.get("resources"), list):
            resources.append(replace_scalars(resource, resolve_reference))
            continue
        scope = get_text(properties, "expressionEvaluationOptions", "scope").lower()
        # Only a template of the scope "inner" has parameters and variables of its own.
        if scope != "inner":
            resolved = replace_scalars(template["resources"], resolve_reference)
            template = {"resources": resolved}
        parameters = get_mapping(
            replace_scalars(get_mapping(properties, "parameters"), resolve_reference)
        )
        passed = {
            name: value["value"]
            for name, value in parameters.items()
            if isinstance(value, Mapping) and "value" in value
        }
        resources += _resolve_arm_template({"$schema": "", **template}, passed)["resources"]
    return {"resources": resources}


def parse_json(file: str, content: bytes) -> tuple[Any, Problem | None]:
    """Parse a JSON document; return (data, None) or (None, problem).

    Several documents in a row are one list.
    """
    if len(content) > MAX_BYTES:
        detail = f"the file has {len(content):,} bytes; at most {MAX_BYTES:,} are read."
        return None, Problem((), "file-too-large", detail, file=file)
    encoding = _find_encoding(content)
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as problem:
        before = content[: problem.start]
        line = before.count(b"\n") + 1
        column = problem.start - before.rfind(b"\n")
        return None, _build_invalid_json_problem(
            file, line, column, f"this is not {encoding} text."
        )
    if not text.strip():
        return None, _build_invalid_json_problem(file, 1, 1, "the file is empty. Capture it again.")
    try:
        return json.loads(text, parse_constant=_reject_nonstandard_json_number), None
    except json.JSONDecodeError as problem:
        # As of several commands in one file, None if it is not.
        documents = _parse_concatenated(text)
        if documents is not None:
            return documents, None
        error = unify_json_error(problem)
        detail = f"{error.msg}. Is this the whole output of the command?"
        return None, _build_invalid_json_problem(file, error.lineno, error.colno, detail)
    except RecursionError:
        return None, _build_invalid_json_problem(file, 1, 1, "the document is nested too deeply.")
    except ValueError as problem:
        # Of a huge number, with advice about Python after the semicolon.
        return None, _build_invalid_json_problem(
            file, 1, 1, f"a number is invalid: {str(problem).split(';')[0]}."
        )


def _find_encoding(content: bytes) -> str:
    """Find the encoding of a file by its byte order mark."""
    return next((name for mark, name in _BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")


def _parse_concatenated(text: str) -> list[Any] | None:
    """Parse documents written one after another (lines, or joined pages).

    Return None for anything else.
    """
    decoder = json.JSONDecoder(parse_constant=_reject_nonstandard_json_number)
    documents: list[Any] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position == len(text):
            return documents
        if text[position] not in "{[":
            # No JSON object or list.
            return None
        try:
            document, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError:
            return None
        documents.append(document)


def _reject_nonstandard_json_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _build_invalid_json_problem(file: str, line: int, column: int, detail: str) -> Problem:
    return Problem((), INVALID, detail, file=file, line=line, column=column)
