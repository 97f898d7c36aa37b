"""What Azure itself says that a deployment would change (`az deployment group what-if --no-pretty-print`, and
the what-if of a deployment stack) -> the clusters, agent pools and VMs of Operator Nexus that it touches.

Both list resources with what they are and will be. Neither says what is made before what, and both leave
what they could not evaluate as it is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Problem, Severity
from nexusform.documents.leaves import LEFT_OUT, leaves, rebuilt
from nexusform.domains.azure.importers.arm import SHAPE, id_key, kind_of
from nexusform.domains.azure.importers.az_changes import CLUSTERS, KIND_OF, POOLS, AzAction, AzChange
from nexusform.domains.azure.importers.az_documents import parse_json
from nexusform.words import counted, first_of

_NOT_A_WHAT_IF: Final = "not-a-what-if"
_RUN: Final = "az deployment group what-if ... --no-pretty-print"
_RUN_FULL: Final = f"{_RUN} --result-format FullResourcePayloads"
# By what both call a change, in lower case. Nothing becomes of what is ignored or only leaves a stack.
_ACTIONS: Final[Mapping[str, AzAction]] = {
    "create": AzAction.MAKE,
    "modify": AzAction.CHANGE,
    "delete": AzAction.REMOVE,
    "nochange": AzAction.KEEP,
    "ignore": AzAction.KEEP,
    "detach": AzAction.KEEP,
}
_DEPLOY: Final = "deploy"
_UNSUPPORTED: Final = "unsupported"
_BODY: Final = ("location", "extendedLocation", "properties", "tags")
_NAMED: Final = 4


class _Resource(Struct, frozen=True):
    """A resource that is listed: its id, what becomes of it (in lower case), and what it will be."""

    id: str
    change: str
    after: Any
    path: str
    reason: str = ""
    may: bool = False


def read_arm_what_if(file: str, content: bytes) -> tuple[tuple[AzChange, ...], list[Problem]]:
    """The changes of a deployment, clusters before their pools, and what is wrong with the document."""
    document, problem = _document(file, content, _RUN)
    if problem is not None:
        return (), [problem]
    return _read(file, document, "changes", _of_deployment, _RUN)


def read_stack_what_if(file: str, content: bytes) -> tuple[tuple[AzChange, ...], list[Problem]]:
    """The changes of a deployment stack, clusters before their pools, and what is wrong with the document."""
    run = "the what-if of the stack (deploymentStacksWhatIfResults)"
    document, problem = _document(file, content, run)
    if problem is not None:
        return (), [problem]
    changes = document.get("changes")
    if isinstance(changes, Mapping):
        return _read(file, {**document, **changes}, "resourceChanges", _of_stack, run)
    if "actionOnUnmanage" in document or "deletedResources" in document:
        detail = (
            "this is a stack as it stands: it lists ids and no bodies, so nothing of what an update makes "
            f"can be told from it. Name the JSON of {run}."
        )
        return (), [Problem((), _NOT_A_WHAT_IF, detail, file=file)]
    return (), [_no_what_if(file, "changes.resourceChanges", run)]


def _document(file: str, content: bytes, run: str) -> tuple[Mapping[str, Any], Problem | None]:
    """The document with its `properties`, which the CLI leaves out, laid open."""
    document, problem = parse_json(file, content)
    if problem is not None:
        return {}, problem
    if not isinstance(document, Mapping):
        detail = f"this is no what-if: an object is needed at its top, not {kind_of(document)}. Run {run}."
        return {}, Problem((), _NOT_A_WHAT_IF, detail, file=file)
    inside = document.get("properties")
    return ({**document, **inside} if isinstance(inside, Mapping) else document), None


def _no_what_if(file: str, needed: str, run: str) -> Problem:
    return Problem(
        (), _NOT_A_WHAT_IF, f'this is no what-if: it has no list "{needed}". Run {run}.', file=file
    )


def _read(
    file: str, document: Mapping[str, Any], listed: str, read: Any, run: str
) -> tuple[tuple[AzChange, ...], list[Problem]]:
    error = document.get("error")
    if isinstance(error, Mapping):
        said = f"{error.get('code')}: {error.get('message')}"
        return (), [Problem(("error",), _NOT_A_WHAT_IF, f"what-if failed: {said}", file=file)]
    if not isinstance(document.get(listed), list):
        return (), [_no_what_if(file, listed, run)]
    reading = _Reading(file)
    reading.add(listed, document[listed], read)
    potential = document.get("potentialChanges")
    if isinstance(potential, list):
        reading.add("potentialChanges", potential, read, may=True)
    reading.say_diagnostics(document.get("diagnostics"))
    return reading.changes(), reading.findings


def _of_deployment(one: Mapping[str, Any], path: str, *, may: bool) -> _Resource:
    return _Resource(
        str(one.get("resourceId") or ""),
        str(one.get("changeType") or "").lower(),
        one.get("after"),
        path,
        str(one.get("unsupportedReason") or ""),
        may,
    )


def _of_stack(one: Mapping[str, Any], path: str, *, may: bool) -> _Resource:
    configuration = one.get("resourceConfigurationChanges")
    after = configuration.get("after") if isinstance(configuration, Mapping) else None
    certainty = str(one.get("changeCertainty") or "").lower()
    return _Resource(
        str(one.get("id") or ""),
        str(one.get("changeType") or "").lower(),
        after,
        path,
        str(one.get("unsupportedReason") or ""),
        may or certainty == "potential",
    )


class _Reading:
    """One document while it is read."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.findings: list[Problem] = []
        self._changes: list[AzChange] = []

    def add(self, listed: str, values: Sequence[Any], read: Any, *, may: bool = False) -> None:
        """Read a list of resources; those of other types are passed over."""
        maybe: list[str] = []
        for number, one in enumerate(values):
            path = f"{listed}[{number}]"
            if not isinstance(one, Mapping):
                self._say(path, SHAPE, f"an object is needed here, not {kind_of(one)}.")
                continue
            resource = read(one, path, may=may)
            kind, names = _kind_and_names(resource.id)
            if not kind:
                continue
            if resource.may and _ACTIONS.get(resource.change) is not AzAction.KEEP:
                maybe.append("/".join(names))
                continue
            self._take(resource, kind, names)
        if maybe:
            detail = (
                f"Azure does not know whether {first_of(maybe, _NAMED)} will change (conditions that are "
                "decided while it is deployed): that is not foretold here."
            )
            self._say(listed, "not-known-in-the-plan", detail, warns=True)

    def _take(self, resource: _Resource, kind: str, names: tuple[str, ...]) -> None:
        """One resource of Operator Nexus."""
        title = "/".join(names)
        action = _ACTIONS.get(resource.change)
        if resource.change == _UNSUPPORTED:
            detail = f"Azure could not tell what becomes of {title}: {resource.reason or 'no reason said'}"
            self._say(resource.path, "not-known-in-the-plan", detail)
            return
        if resource.change == _DEPLOY:
            detail = (
                f"{title} is deployed, and what it will be is left out (ResourceIdOnly). Run `{_RUN_FULL}`."
            )
            self._say(resource.path, "not-known-in-the-plan", detail)
            return
        if action is None:
            detail = f'its changeType "{resource.change}" is none that is known.'
            self._say(resource.path, SHAPE, detail)
            return
        body: Mapping[str, Any] = {}
        if action in (AzAction.MAKE, AzAction.CHANGE):
            if not isinstance(resource.after, Mapping):
                detail = f'{title}: its "after" must be an object and is {kind_of(resource.after)}.'
                self._say(resource.path, SHAPE, detail)
                return
            body = {name: resource.after[name] for name in _BODY if name in resource.after}
        unknown = {path: _why(leaf) for path, leaf in leaves(body) if _is_expression(leaf)}
        known = rebuilt(body, lambda path, leaf: LEFT_OUT if path in unknown else leaf)
        self._changes.append(AzChange(kind, names, action, title, self.file, resource.id, known, unknown))

    def changes(self) -> tuple[AzChange, ...]:
        """What stands first, then what comes: clusters before their pools, each kind by id."""
        self._changes.sort(key=lambda one: (one.action is AzAction.MAKE, one.kind == POOLS, id_key(one.id)))
        made = [change for change in self._changes if change.action is AzAction.MAKE]
        if _in_any_order(made):
            detail = (
                f"a what-if does not say in which order {counted(len(made), 'object')} are made "
                f"({first_of([one.title for one in made], _NAMED)}); who comes first may take the better "
                "place. Foretold in the order of their ids, clusters before pools."
            )
            self._say("", "creation-order-open", detail, warns=True)
        clusters = {one.title: one.place for one in made if one.kind == CLUSTERS}
        return tuple(_after_cluster(one, clusters) for one in self._changes)

    def say_diagnostics(self, diagnostics: Any) -> None:
        """What Azure itself remarks, such as nested deployments that it did not look into."""
        for one in diagnostics if isinstance(diagnostics, list) else ():
            if isinstance(one, Mapping) and one.get("message"):
                detail = f"Azure says: {one.get('code')}: {one['message']}"
                self._say(str(one.get("target") or ""), "not-known-in-the-plan", detail, warns=True)

    def _say(self, path: str, kind: str, detail: str, *, warns: bool = False) -> None:
        severity = Severity.WARNING if warns else Severity.ERROR
        self.findings.append(Problem((path,) if path else (), kind, detail, severity, file=self.file))


def _in_any_order(made: Sequence[AzChange]) -> bool:
    """Whether two of them may be made in either order: a cluster comes before its pools anyway."""
    clusters = {one.title for one in made if one.kind == CLUSTERS}
    pools = Counter(one.names[0] for one in made if one.kind == POOLS)
    beginnings = len(clusters | pools.keys()) + sum(one.kind not in (CLUSTERS, POOLS) for one in made)
    return beginnings > 1 or max(pools.values(), default=0) > 1


def _after_cluster(change: AzChange, clusters: Mapping[str, str]) -> AzChange:
    owner = clusters.get(change.names[0]) if change.kind == POOLS else None
    return replace(change, needs=(owner,)) if owner else change


def _kind_and_names(arm_id: str) -> tuple[str, tuple[str, ...]]:
    """The kind and the names in an ARM id; ("", ()) for other types."""
    _, found, rest = arm_id.rpartition("/providers/")
    parts = rest.split("/")
    if not found or len(parts) < 3 or len(parts) % 2 == 0:
        return "", ()
    written = "/".join([parts[0], *parts[1::2]])
    kind = KIND_OF.get(written.lower(), "")
    return (kind, tuple(parts[2::2])) if kind else ("", ())


def _is_expression(leaf: Any) -> bool:
    """Whether a leaf is an expression still: `[reference(...)]`, but not `[[...]`."""
    return isinstance(leaf, str) and leaf.startswith("[") and leaf.endswith("]") and leaf[1:2] != "["


def _why(expression: str) -> str:
    return f"Azure left {expression} as it is written: it is known only once it is deployed"
