"""Changes of clusters, agent pools and VMs in what-if results of Azure.

The sources are `az deployment group what-if --no-pretty-print` and deployment stacks. Both list
resources with their state before and after. Neither has a creation order, and both leave
unevaluated expressions in place.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import format_count, format_first_items
from nexusform.documents.scalars import OMITTED, list_scalars, replace_scalars
from nexusform.domains.azure.importers.arm_resources import SHAPE, describe_type, normalize_id
from nexusform.domains.azure.importers.az_changes import (
    CLUSTERS,
    KIND_OF,
    POOLS,
    VMS,
    AzAction,
    ToolChange,
    build_fleet_note,
    find_fleet_noun,
)
from nexusform.domains.azure.importers.az_documents import locate_problems, parse_json
from nexusform.domains.azure.importers.azure_fields import has_unread_effects
from nexusform.domains.azure.importers.azure_request_bodies import select_members
from nexusform.json_data.plain_data import Path, get_list, get_mapping, get_text, get_value_at_path
from nexusform.plans.impact.guard_rails import NOT_PREDICTED

_NOT_A_WHAT_IF: Final = "not-a-what-if"
_WHAT_IF_COMMAND: Final = "az deployment group what-if ... --no-pretty-print"
_FULL_WHAT_IF_COMMAND: Final = f"{_WHAT_IF_COMMAND} --result-format FullResourcePayloads"
# Change types of both documents, in lower case. Ignored and detached resources are not changed.
_ACTIONS: Final[Mapping[str, AzAction]] = {
    "create": AzAction.CREATE,
    "modify": AzAction.UPDATE,
    "delete": AzAction.DELETE,
    "nochange": AzAction.KEEP,
    "ignore": AzAction.KEEP,
    "detach": AzAction.KEEP,
}
_DEPLOY: Final = "deploy"
_UNSUPPORTED: Final = "unsupported"
_BODY_FIELDS: Final = ("location", "extendedLocation", "properties", "tags")
_MAX_NAMES: Final = 4
_TOP_LEVEL_FIELDS: Final = (
    ("error", Mapping, "an object"),
    ("status", str, "a string"),
    ("provisioningState", str, "a string"),
    ("potentialChanges", list, "a list"),
    ("diagnostics", list, "a list"),
)
# A scope, or NAMESPACE/TYPE/NAME[/TYPE/NAME] below it.
_ID: Final = re.compile(
    r"(/subscriptions/[^/]+(/resourcegroups/[^/]+)?|.*/providers(/[^/]+){3}(/[^/]+/[^/]+)*)/*$",
    re.IGNORECASE,
)
# An unevaluated expression: `[reference(...)]`, not the escaped `[[...]`.
_EXPRESSION: Final = re.compile(r"\[(?!\[).*\]", re.DOTALL)


def read_arm_what_if(file: str, content: bytes) -> tuple[tuple[ToolChange, ...], list[Problem]]:
    """Read the changes of a deployment, and findings about the document.

    Clusters come before their pools.
    """
    document, place, problem = _parse_document(file, content, _WHAT_IF_COMMAND)
    if problem is not None:
        return (), [problem]
    reader = _WhatIfChangeReader(file, content, (*place, "changes"), is_stack=False)
    changes, problems = _read_changes(reader, document, "changes", _WHAT_IF_COMMAND)
    return changes, locate_problems(problems, content, {"changes": (*place, "changes")})


def read_stack_what_if(file: str, content: bytes) -> tuple[tuple[ToolChange, ...], list[Problem]]:
    """Read the changes of a deployment stack, and findings about the document.

    Clusters come before their pools.
    """
    command = "the what-if of the stack (deploymentStacksWhatIfResults)"
    document, place, problem = _parse_document(file, content, command)
    if problem is not None:
        return (), [problem]
    changes = document.get("changes")
    # Its lists move to the top level, as in the what-if of a deployment.
    if isinstance(changes, Mapping):
        list_name = "resourceChanges"
        list_place = (*place, "changes", list_name)
        reader = _WhatIfChangeReader(file, content, list_place, is_stack=True)
        tool_changes, problems = _read_changes(reader, {**document, **changes}, list_name, command)
        return tool_changes, locate_problems(problems, content, {list_name: list_place})
    if "actionOnUnmanage" in document or "deletedResources" in document:
        reason = (
            "this is a deployed stack: it lists ids without bodies, so changes cannot be predicted."
        )
        detail = f"{reason} Use the JSON of {command}."
        return (), [Problem((), _NOT_A_WHAT_IF, detail, file=file)]
    return (), [_build_missing_list_problem(file, "changes.resourceChanges", command)]


def _parse_document(
    file: str, content: bytes, command: str
) -> tuple[Mapping[str, Any], Path, Problem | None]:
    """Parse a what-if.

    Its `properties`, absent in CLI output, are merged into the top level. Return also the path of
    the object with `changes`, and {} with a problem.
    """
    document, problem = parse_json(file, content)
    if problem is not None:
        return {}, (), problem
    if not isinstance(document, Mapping):
        kind = describe_type(document)
        detail = (
            f"this is not a what-if: the top level must be an object, not {kind}. Run {command}."
        )
        return {}, (), Problem((), _NOT_A_WHAT_IF, detail, file=file)
    properties = document.get("properties")
    if properties is None:
        return document, (), None
    if not isinstance(properties, Mapping):
        kind = describe_type(properties)
        detail = f'this is not a what-if: its "properties" must be an object, not {kind}.'
        return {}, (), Problem(("properties",), _NOT_A_WHAT_IF, detail, file=file)
    place = ("properties",) if "changes" in properties else ()
    return {**document, **properties}, place, None


def _build_missing_list_problem(file: str, list_name: str, command: str) -> Problem:
    """Build the problem for a document without the required list."""
    detail = f'this is not a what-if: it has no list "{list_name}". Run {command}.'
    return Problem((), _NOT_A_WHAT_IF, detail, file=file)


def _read_changes(
    reader: _WhatIfChangeReader, document: Mapping[str, Any], list_name: str, command: str
) -> tuple[tuple[ToolChange, ...], list[Problem]]:
    """Return the changes of a document, and its problems.

    Resources not predicted by Azure are warnings, or errors if there are no changes. `command`
    creates a valid document.
    """
    file = reader.file
    error = document.get("error")
    if isinstance(error, Mapping):
        message = f"{error.get('code')}: {error.get('message')}"
        return (), [Problem(("error",), _NOT_A_WHAT_IF, f"what-if failed: {message}", file=file)]
    for name, kind, expected in _TOP_LEVEL_FIELDS:
        if not isinstance(document.get(name), kind | None):
            value = describe_type(document[name])
            reader.report(name, SHAPE, f"expected {expected}, not {value}.")
    if not isinstance(document.get(list_name), list):
        return (), [_build_missing_list_problem(file, list_name, command)]
    status_field = "provisioningState" if reader.is_stack else "status"
    status = get_text(document, status_field)
    if status.lower() != "succeeded":
        # Without a status, the list may be of a what-if that failed, or a part of one.
        state = f'is "{status}", not "Succeeded"' if status else f"is missing ({status_field})"
        detail = f"the status of this what-if {state}. Run {command}."
        return (), [Problem((status_field,), _NOT_A_WHAT_IF, detail, file=file)]
    reader.collect_resource_changes(list_name, document[list_name])
    reader.collect_resource_changes(
        "potentialChanges", get_list(document, "potentialChanges"), is_potential=True
    )
    reader.findings += build_fleet_note(file, reader.fleet_changes)
    reader.report_diagnostics(document.get("diagnostics"))
    changes = reader.build_changes()
    if changes:
        return changes, reader.findings
    findings: list[Problem] = []
    for problem in reader.findings:
        severity = Severity.ERROR if problem.id == NOT_PREDICTED else problem.severity
        findings.append(replace(problem, severity=severity))
    return (), findings


class _WhatIfChangeReader:
    """Reader of one document; collects changes and findings."""

    def __init__(self, file: str, content: bytes, place: Path, *, is_stack: bool) -> None:
        """Start without changes; `place` is the path of the list of changes.

        A preview of a deployment stack (`is_stack`) has other field names.
        """
        self.file = file
        self._content = content
        self._place = place
        # The what-if of a deployment stack has other field names.
        self.is_stack = is_stack
        self.findings: list[Problem] = []
        # Noun and name of each resource of a fleet with a change.
        self.fleet_changes: list[tuple[str, str]] = []
        self._changes: list[ToolChange] = []
        # Names of clusters that Azure could not predict.
        self._unsupported_clusters: set[str] = set()

    def collect_resource_changes(
        self, list_name: str, values: Sequence[Any], *, is_potential: bool = False
    ) -> None:
        """Add the changes in a list.

        Types without effect on placement are skipped. Unread types and uncertain changes cause a
        warning, and are not added. With `is_potential`, all changes of the list are uncertain.
        """
        for number, value in enumerate(values):
            path = f"{list_name}[{number}]"
            if not isinstance(value, Mapping):
                self.report(path, SHAPE, f"expected an object, not {describe_type(value)}.")
                continue
            id_name = "id" if self.is_stack else "resourceId"
            names_of_texts = (id_name, "changeType", "changeCertainty", "unsupportedReason")
            self._check_texts(path, value, names_of_texts)
            arm_id = get_text(value, id_name)
            type_name, names = _parse_id(arm_id)
            change_type = get_text(value, "changeType").lower()
            is_unchanged = _ACTIONS.get(change_type) is AzAction.KEEP
            if not type_name:
                self._report_unreadable_id(arm_id, value, path)
            elif has_unread_effects(type_name) and not is_unchanged:
                detail = (
                    f"resources of type {type_name} are not read: effects of {names[-1]} are not "
                    "predicted."
                )
                self.report(path, NOT_PREDICTED, detail, severity=Severity.WARNING)
            elif find_fleet_noun(type_name) and not is_unchanged:
                self.fleet_changes.append((find_fleet_noun(type_name), names[-1]))
            kind = KIND_OF.get(type_name)
            if kind is None:
                # It is reported above, or has no effect on placement.
                continue
            is_uncertain = is_potential or get_text(value, "changeCertainty").lower() == "potential"
            title = "/".join(names)
            if is_uncertain and not is_unchanged:
                detail = (
                    f"Azure does not know whether {title} will change (decided during deployment)."
                )
                self.report(path, NOT_PREDICTED, detail, severity=Severity.WARNING)
                continue
            # KEEP is replaced by the action of `change_type`.
            states = ("resourceConfigurationChanges",) if self.is_stack else ()
            change = ToolChange(
                kind,
                names,
                AzAction.KEEP,
                address=title,
                file=self.file,
                id=arm_id,
                content=self._content,
                place=(*self._place, number, *states, "after"),
            )
            self._add_change(change, change_type, value, path)

    def _report_unreadable_id(self, arm_id: str, document: Mapping[str, Any], path: str) -> None:
        """Report an id without a readable type.

        Skip an expression ("[...]") with only types not read here.
        """
        if "[" in arm_id:
            # An expression may read values of a deployment, whose type is not that of the resource.
            known_text = arm_id.lower().replace("microsoft.resources/deployments", "")
            names_known_type = any(name in known_text for name in KIND_OF)
            if "microsoft." in known_text and not names_known_type:
                # The change is of another type.
                return
            reason = (
                get_text(document, "unsupportedReason") or "its id is known only after deployment"
            )
            detail = (
                f"Azure could not predict {arm_id}: {reason.rstrip('.')}. Its VMs are not placed."
            )
            self.report(path, NOT_PREDICTED, detail, severity=Severity.WARNING)
        elif not document.get("extension") and not _ID.match(arm_id):
            # Extensions are of other providers.
            detail = (
                f'its id "{arm_id}" is not that of a resource.' if arm_id else "its id is missing."
            )
            self.report(path, SHAPE, detail)

    def _add_change(
        self, change: ToolChange, change_type: str, document: Mapping[str, Any], path: str
    ) -> None:
        """Add `change` with the action and body of its `document` (at `path`).

        An unusable document is reported instead.
        """
        title = change.title
        action = _ACTIONS.get(change_type)
        if change_type == _UNSUPPORTED:
            reason = document.get("unsupportedReason") or "no reason given"
            detail = f"Azure could not predict {title}: {reason}. Its VMs are not placed."
            self.report(path, NOT_PREDICTED, detail, severity=Severity.WARNING)
            if change.kind == CLUSTERS:
                self._unsupported_clusters.add(title)
            return
        # Of a what-if with ids only.
        if change_type == _DEPLOY:
            detail = (
                f"{title} has no body in this what-if (ResourceIdOnly). Run "
                f"`{_FULL_WHAT_IF_COMMAND}`."
            )
            self.report(path, "unknown-in-plan", detail)
            return
        if action is None:
            self.report(path, SHAPE, f'its changeType "{change_type}" is unknown.')
            return
        # Before and after.
        states = document.get("resourceConfigurationChanges") if self.is_stack else document
        after = get_value_at_path(states, "after")
        if action in (AzAction.CREATE, AzAction.UPDATE) and not isinstance(after, Mapping):
            self.report(
                path, SHAPE, f'{title}: "after" must be an object, not {describe_type(after)}.'
            )
            return
        values = after if isinstance(after, Mapping) else get_mapping(states, "before")
        body = select_members(values, _BODY_FIELDS)
        # Unevaluated expressions, by location in the body.
        unknown = {
            location: f"{scalar} is known only after deployment"
            for location, scalar in list_scalars(body)
            if _EXPRESSION.fullmatch(get_text(scalar))
        }
        known_body = replace_scalars(
            body, lambda location, scalar: OMITTED if location in unknown else scalar
        )
        previous_body = get_mapping(states, "before")
        if action is AzAction.KEEP:
            previous_body = previous_body or known_body
        self._changes.append(
            replace(
                change, action=action, body=known_body, previous_body=previous_body, unknown=unknown
            )
        )

    def build_changes(self) -> tuple[ToolChange, ...]:
        """Return the changes in the predicted order.

        Existing objects come first, and clusters before pools, then the order is by id. Pools of
        clusters that Azure's prediction does not support are reported and omitted.
        """
        changes: list[ToolChange] = []
        for change in self._changes:
            # The names of a pool are (cluster, pool).
            cluster_name = change.names[0]
            if change.kind == POOLS and cluster_name in self._unsupported_clusters:
                detail = (
                    f"{change.title} is not predicted, because Azure could not predict its cluster."
                )
                self.report("", NOT_PREDICTED, detail, severity=Severity.WARNING)
            else:
                changes.append(change)
        changes.sort(
            key=lambda item: (
                item.action is AzAction.CREATE,
                item.kind == POOLS,
                normalize_id(item.id),
            )
        )
        created = [change for change in changes if change.action is AzAction.CREATE]
        if _is_creation_order_undefined(created):
            detail = (
                f"a what-if has no order for {format_count(len(created), 'object')} to create "
                f"({format_first_items([item.title for item in created], _MAX_NAMES)}). The order "
                "affects placement. Predicted by id, clusters before pools."
            )
            self.report("", "ambiguous-creation-order", detail, severity=Severity.WARNING)
        # A pool depends on its cluster if the cluster is created in the same document.
        created_clusters = {
            item.names[0]: item.address for item in created if item.kind == CLUSTERS
        }
        for number, change in enumerate(changes):
            if change.kind == POOLS and change.names[0] in created_clusters:
                changes[number] = replace(change, dependencies=(created_clusters[change.names[0]],))
        return tuple(changes)

    def report_diagnostics(self, diagnostics: Any) -> None:
        """Add Azure's own diagnostics as warnings."""
        for number, diagnostic in enumerate(diagnostics if isinstance(diagnostics, list) else ()):
            if not isinstance(diagnostic, Mapping):
                reason = f"expected an object, not {describe_type(diagnostic)}."
                self.report(f"diagnostics[{number}]", SHAPE, reason)
                continue
            self._check_texts(f"diagnostics[{number}]", diagnostic, ("code", "message", "target"))
            if diagnostic.get("message"):
                code = get_text(diagnostic, "code")
                # Azure could not expand a nested deployment, so the changes lack its resources.
                kind = NOT_PREDICTED if code.startswith("NestedDeployment") else "unknown-in-plan"
                detail = f"Azure reports {code}: {diagnostic['message']}"
                self.report(get_text(diagnostic, "target"), kind, detail, severity=Severity.WARNING)

    def _check_texts(self, path: str, fields: Mapping[str, Any], names: Sequence[str]) -> None:
        """Report the fields that hold no text."""
        for name in names:
            if not isinstance(fields.get(name), str | None):
                reason = f"expected a string, not {describe_type(fields[name])}."
                self.report(f"{path}.{name}", SHAPE, reason)

    def report(
        self, path: str, kind: str, detail: str, severity: Severity = Severity.ERROR
    ) -> None:
        """Add a finding."""
        self.findings.append(
            Problem((path,) if path else (), kind, detail, severity, file=self.file)
        )


def _is_creation_order_undefined(created: Sequence[ToolChange]) -> bool:
    """Return True if two of the objects may be created in either order.

    The order affects their placement. A cluster always precedes its pools, so a cluster with one
    new pool has a defined order.
    """
    vm_count = sum(change.kind == VMS for change in created)
    # The first name of a pool is its cluster.
    cluster_names = {change.names[0] for change in created if change.kind != VMS}
    pools_by_cluster = Counter(change.names[0] for change in created if change.kind == POOLS)
    has_several_owners = vm_count + len(cluster_names) > 1
    return has_several_owners or max(pools_by_cluster.values(), default=0) > 1


def _parse_id(arm_id: str) -> tuple[str, tuple[str, ...]]:
    """Parse the lower-case type and the names in an ARM id.

    Return ("", ()) for a scope or an expression ("[...]").
    """
    if "[" in arm_id or not _ID.match(arm_id):
        return "", ()
    start = arm_id.lower().rfind("/providers/") + len("/providers/")
    # The rest is NAMESPACE/TYPE/NAME, or NAMESPACE/TYPE/NAME/TYPE/NAME of a nested resource.
    namespace, *types_and_names = arm_id.strip().rstrip("/")[start:].split("/")
    type_name = "/".join([namespace, *types_and_names[::2]]).lower()
    return type_name, tuple(types_and_names[1::2])
