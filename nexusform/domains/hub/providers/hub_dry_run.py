"""Validation of a plan by the hub: one server-side dry run per object to write.

Placements unchanged by the plan that select these objects are reported: a hub rolls the
objects out too.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from shlex import quote
from typing import Any, Final

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import enclose, format_count, format_first_items, join_texts
from nexusform.domains.fleet.importers.fleet_export import is_deleting
from nexusform.domains.hub.api.api_errors import ApiError, ApiErrorKind
from nexusform.domains.hub.api.hub_cache import get_namespaced_name
from nexusform.domains.hub.api.hub_client import (
    MAX_CONCURRENT,
    HubClient,
    HubConnection,
    HubProblem,
)
from nexusform.domains.hub.api.hub_kinds import KINDS
from nexusform.domains.hub.providers.field_ownership import (
    find_released_fields,
    is_recreated,
    remove_ignored_fields,
)
from nexusform.domains.hub.providers.hub_bodies import (
    APPROVAL_TYPES,
    MANIFEST_TYPE,
    MEMBER_TYPE,
    PLACEMENT_TYPES,
    HubObject,
    build_hub_objects,
    build_sent_objects,
    index_hub_objects,
)
from nexusform.domains.hub.providers.hub_wait import has_external_rollout
from nexusform.domains.hub.providers.object_access import (
    HubOptions,
    describe_deletion_blockers,
    describe_existing_object,
    describe_missing_member,
    describe_owners,
    find_object_path,
    find_tool_manager,
    get_identity,
    get_ownership_source,
    hide_sensitive_values,
    is_sensitive_object,
    read_existing_bodies,
    suggest_azure_command,
)
from nexusform.domains.hub.providers.step_writer import EXTERNAL_PATCH, is_switching_to_external
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import ChangeRequest
from nexusform.json_data.plain_data import (
    get_mapping,
    get_part,
    get_text,
    has_unknown_part,
    list_mappings,
)
from nexusform.network.parallel_calls import call_in_parallel

HUB_REJECTION: Final = "hub-rejection"
FIELD_CONFLICT: Final = "field-conflict"
# Limit of dry runs of a plan.
_MAX_DRY_RUNS: Final = 500
_LIMIT_REASON: Final = f"a plan sends at most {_MAX_DRY_RUNS} dry runs"
BEING_DELETED: Final = "object-being-deleted"
OBJECT_EXISTS: Final = "object-exists-on-hub"
MISSING_MEMBER: Final = "missing-hub-member"
MANAGED_BY_TOOL: Final = "unmanaged-object"
FIELDS_TAKEN_OVER: Final = "field-ownership-change"
FIELDS_KEPT: Final = "fields-kept-by-others"
FIELDS_REMOVED: Final = "fields-from-other-configuration"
DRY_RUN_SKIPPED: Final = "not-checked"
# No diagnostic: validated only during the apply.
_DEFERRED: Final = "later"
_MAX_NAMES: Final = 4
Finding = tuple[int, Problem]


class HubDryRun:
    """Dry run of the changes of a plan."""

    def __init__(
        self,
        connection: HubConnection,
        options: HubOptions,
        recreated: Mapping[str, Mapping[str, Problem]],
    ) -> None:
        """Start without results.

        `recreated` contains the objects re-created by others, by address and title.
        """
        self._connection = connection
        self._options = options
        # Objects re-created by others, by address and title.
        self._recreated = recreated
        # Namespaces that the plan creates.
        self._new_namespaces: set[str] = set()
        # API groups of CustomResourceDefinitions created by the plan.
        self._new_groups: set[str] = set()
        # Listed objects by path.
        self._existing: dict[str, dict[str, Any] | None] = {}
        # Number of dry runs that remain.
        self._remaining_count = _MAX_DRY_RUNS
        # How many changes the hub accepts, as text.
        self.verdict = ""

    def validate_changes(self, requests: Sequence[ChangeRequest]) -> list[Finding]:
        """Return the findings about changes, each with the number of its change.

        The number is its index in `requests`.
        """
        numbers = self._select_changes(requests)
        findings = self._validate_changes_on_hub(requests, numbers) if numbers else []
        return [*findings, *self._check_deletions(requests)]

    def _validate_changes_on_hub(
        self, requests: Sequence[ChangeRequest], numbers: Sequence[int]
    ) -> list[Finding]:
        """Validate the changes (`numbers`: indexes), and set `verdict`.

        Without a usable hub there is one finding for all.
        """
        try:
            hub = self._connection.connect()
            if not self._options.allows_dry_run(hub.server):
                reason = "a sandboxed run contacts it only if -allow-remote names it"
                return self._build_skipped_checks_warning(numbers, reason)
        except HubProblem as problem:
            return self._build_skipped_checks_warning(numbers, str(problem))
        # With errors, or dependent on one.
        invalid: list[tuple[int, ChangeRequest]] = []
        # Numbers of changes with unknown values.
        partly_known: list[int] = []
        objects_by_number: dict[int, Sequence[HubObject]] = {}
        for number in numbers:
            request = requests[number]
            if request.skip_reason:
                invalid.append((number, request))
            elif has_unknown_part(dict(request.planned_attributes)):
                partly_known.append(number)
            else:
                objects_by_number[number] = build_sent_objects(request)
        validated, over_limit = self._reserve_dry_runs(objects_by_number)
        for hub_object in chain.from_iterable(validated.values()):
            self._record_new_kinds(hub_object)

        def validate_number(number: int) -> list[Finding]:
            """Return the findings about the change with this number."""
            return list(self._validate_change(hub, number, requests[number], validated[number]))

        try:
            self._existing = read_existing_bodies(hub, chain.from_iterable(validated.values()))
            results = call_in_parallel(validate_number, validated, MAX_CONCURRENT)
            findings = list(chain.from_iterable(results))
            findings += find_affected_placements(hub, requests, validated)
        except HubProblem as problem:
            return self._build_skipped_checks_warning(numbers, str(problem))
        # For the verdict: a dry run needs all values.
        for number in partly_known:
            detail = f"{requests[number].address} (some of its values are known only then)"
            findings.append((number, Problem((), _DEFERRED, detail)))
        self.verdict = _format_dry_run_summary(hub.server, validated.keys(), findings)
        return [
            *_combine_skipped_findings(findings, self._skip_severity),
            *self._build_skipped_checks_warning(over_limit, _LIMIT_REASON),
            *_build_invalid_changes_warning(invalid),
        ]

    def _reserve_dry_runs(
        self, hub_objects: Mapping[int, Sequence[HubObject]]
    ) -> tuple[dict[int, Sequence[HubObject]], list[int]]:
        """Take one dry run per object from the limit.

        Return the changes within it, and the numbers of the others.
        """
        reserved: dict[int, Sequence[HubObject]] = {}
        over_limit: list[int] = []
        for number, objects in hub_objects.items():
            if len(objects) > self._remaining_count:
                over_limit.append(number)
                # A later, smaller change may still fit.
                continue
            self._remaining_count -= len(objects)
            reserved[number] = objects
        return reserved, over_limit

    def _check_deletions(self, requests: Sequence[ChangeRequest]) -> list[Finding]:
        """Return findings about objects to delete: applied by another tool, or rejected.

        The result is [] without a usable hub.
        """
        # Objects by number of the change.
        deletions = {
            number: build_hub_objects(request.key.type, request.prior_attributes)
            for number, request in enumerate(requests)
            if request.planned is None
            and request.key.type not in (*APPROVAL_TYPES, MEMBER_TYPE)  # never deleted
        }
        if not deletions:
            return []
        try:
            hub = self._connection.connect()
            is_wanted = self._options.validate_changes != "off" and not self._options.is_read_only
            is_validated = is_wanted and self._options.allows_dry_run(hub.server)
            self._existing |= read_existing_bodies(hub, chain.from_iterable(deletions.values()))
            # Without validation no dry run is sent, so no change is over the limit.
            reserved, over_limit = (
                self._reserve_dry_runs(deletions) if is_validated else (deletions, [])
            )

            def check_number(number: int) -> list[Finding]:
                """Return the findings about the deletion with this number."""
                problems: list[Problem] = []
                for hub_object in reserved[number]:
                    problems += self._check_deletion(
                        hub, hub_object, requests[number], is_validated=is_validated
                    )
                return [(number, problem) for problem in problems]

            results = call_in_parallel(check_number, reserved, MAX_CONCURRENT)
            findings = list(chain.from_iterable(results))
        except (HubProblem, ApiError) as problem:
            log_event("debug", "deletions not validated", why=str(problem))
            # The apply reports it.
            return []
        skipped = self._build_skipped_checks_warning(over_limit, _LIMIT_REASON)
        return [*_combine_skipped_findings(findings, self._skip_severity), *skipped]

    def _check_deletion(
        self, hub: HubClient, hub_object: HubObject, request: ChangeRequest, *, is_validated: bool
    ) -> Iterator[Problem]:
        """Yield the problems of one object to delete.

        They come from a dry run if it is needed and `is_validated`.
        """
        body = self._read_body(hub, hub_object)
        manager = "" if self._options.takes_ownership else find_tool_manager(body)
        if manager:
            detail = (
                f"{hub_object.title} ({request.address}) is applied by {manager}, which would make "
                "it again. It is deleted only with -take-ownership (plan, apply, destroy). To "
                f"leave it there: nexusform state rm {quote(request.address)}."
            )
            yield Problem((), MANAGED_BY_TOOL, detail)
        is_other_object = is_recreated(request.key.type, hub_object, body, request.private_note)
        if any((manager, not body, not is_validated, is_deleting(body), is_other_object)):
            # It is rejected above, no dry run is wanted, or nothing of this resource is left to
            # delete.
            return
        try:
            hub.delete(find_object_path(hub, hub_object), body, dry_run=True)
        except ApiError as api_error:
            yield self._build_rejection_problem(hub, api_error, hub_object, request)

    def _read_body(self, hub: HubClient, hub_object: HubObject) -> Mapping[str, Any]:
        """Return the body of an object on the hub, listed before or read now.

        Return {} if it does not exist.
        """
        path = find_object_path(hub, hub_object)
        return get_mapping(self._existing[path] if path in self._existing else hub.get(path))

    def list_skipped(self, requests: Sequence[ChangeRequest], reason: str) -> list[Finding]:
        """Return one finding about all changes not validated for this reason.

        It is a warning, or an error if validation is required.
        """
        return self._build_skipped_checks_warning(self._select_changes(requests), reason)

    def _select_changes(self, requests: Sequence[ChangeRequest]) -> list[int]:
        """Return the numbers of the creations and updates to validate.

        An approval applies no object.
        """
        if self._options.validate_changes == "off":
            return []
        return [
            number
            for number, request in enumerate(requests)
            if request.planned is not None  # no deletion
            and request.key.type not in APPROVAL_TYPES
        ]

    def _record_new_kinds(self, hub_object: HubObject) -> None:
        """Record a namespace or an API group of this plan.

        Objects in it are validated only during the apply.
        """
        metadata = get_mapping(hub_object.body, "metadata")
        if hub_object.is_namespace:
            self._new_namespaces.add(str(metadata.get("name")))
        elif hub_object.body.get("kind") == "CustomResourceDefinition":
            self._new_groups.add(str(get_mapping(hub_object.body, "spec").get("group")))

    @property
    def _skip_severity(self) -> Severity:
        return Severity.ERROR if self._options.validate_changes == "require" else Severity.WARNING

    def _build_skipped_checks_warning(self, numbers: Sequence[int], reason: str) -> list[Finding]:
        """Return one warning, at the first change, or an error if dry runs are required.

        Return [] without changes.
        """
        if not numbers:
            return []
        detail = (
            f"Server-side dry run skipped for {format_count(len(numbers), 'change')}: "
            f"{reason.rstrip('.')}."
        )
        if self._options.validate_changes == "require":
            detail += ' dry_run = "require" needs the validation.'
        return [(numbers[0], Problem((), DRY_RUN_SKIPPED, detail, self._skip_severity))]

    def _validate_change(
        self, hub: HubClient, number: int, request: ChangeRequest, hub_objects: Sequence[HubObject]
    ) -> Iterator[Finding]:
        """Yield the findings about one change.

        A rejected object does not end the validation of the others.
        """
        prior_objects = index_hub_objects(request.key.type, request.prior)
        replaced_objects = index_hub_objects(request.key.type, request.replaced_attributes)
        if not hub_objects:
            detail = (
                "This goes to a cluster directly (cluster_id), and the provider writes to the hub "
                "alone."
            )
            yield number, Problem((), "unsupported-by-provider", detail)
        for hub_object in hub_objects:
            try:
                # A dry run would validate an update.
                if hub_object.identity in replaced_objects:
                    for problem in self._warn_tool_manager(
                        hub_object, self._read_body(hub, hub_object)
                    ):
                        yield number, problem
                    yield (
                        number,
                        Problem(
                            (),
                            _DEFERRED,
                            f"{hub_object.title} (the existing object is deleted first)",
                        ),
                    )
                    continue
                for problem in self._validate_object(
                    hub, hub_object, request, prior_objects.get(hub_object.identity)
                ):
                    yield number, problem
            except ApiError as api_error:
                yield number, self._build_rejection_problem(hub, api_error, hub_object, request)

    def _validate_object(
        self, hub: HubClient, hub_object: HubObject, request: ChangeRequest, prior: HubObject | None
    ) -> Iterator[Problem]:
        """Yield the problems of one object.

        The first obstacle to an apply is the only problem: an unserved kind, a missing member, an
        object in deletion or not in state. Otherwise warnings and a dry run of the apply follow.
        `prior` is the object in state, None if new. Raises ApiError for a rejection.
        """
        path = find_object_path(hub, hub_object)
        if not path:
            yield self._build_unserved_kind_problem(hub_object)
            return
        body = self._read_body(hub, hub_object)
        obstacle = self._find_obstacle(hub_object, request, body, is_managed=prior is not None)
        if obstacle is not None:
            yield obstacle
            return
        yield from self._warn_tool_manager(hub_object, body)
        # Names of fields may be secret.
        if not request.write_only:
            yield from self._warn_released_fields(hub_object, prior, body)
        sent_body = remove_ignored_fields(
            hub_object.body, body, request.ignored_paths, self._options.manager
        )
        if body and is_switching_to_external(hub_object.body, body):
            # The apply removes the rolling-update settings first by a merge patch. Here this is
            # a dry run only, so the hub still has the existing strategy: validate the rest
            # without a strategy.
            hub.merge(path, EXTERNAL_PATCH, self._options.manager, dry_run=True)
            sent_body["spec"].pop("strategy", None)
        try:
            hub.apply(path, sent_body, self._options.manager, dry_run=True)
        except ApiError as api_error:
            ownership_source = get_ownership_source(self._options, request)
            if api_error.kind is not ApiErrorKind.OTHER_MANAGER or not ownership_source:
                raise
            detail = (
                f"{hub_object.title}: {describe_owners(api_error)}; {ownership_source} takes that "
                "over."
            )
            yield Problem((), FIELDS_TAKEN_OVER, detail, Severity.WARNING)
            hub.apply(path, sent_body, self._options.manager, force=True, dry_run=True)

    def _find_obstacle(
        self,
        hub_object: HubObject,
        request: ChangeRequest,
        body: Mapping[str, Any],
        *,
        is_managed: bool,
    ) -> Problem | None:
        """Return the problem of an object impossible to write as planned, else None.

        `body` is the object on the hub, {} if it does not exist; `is_managed`: it is in state.
        """
        if request.key.type == MEMBER_TYPE:
            # A member joins by other tools, not by an apply. Labels of a leaving member
            # can be written.
            return (
                None if body else Problem((), MISSING_MEMBER, describe_missing_member(hub_object))
            )
        if is_deleting(body):
            blockers = describe_deletion_blockers(body)
            detail = (
                f"{hub_object.title} is being deleted on the hub{blockers}. Plan again once it is "
                "gone."
            )
            return Problem((), BEING_DELETED, detail)
        if is_managed or not body:
            return None
        # If re-created by others.
        warning = self._recreated.get(request.address, {}).get(hub_object.title)
        detail = (
            warning.detail
            if warning
            else describe_existing_object(hub_object, request.key, request.address)
        )
        if manager := find_tool_manager(body):
            detail += (
                f" {manager} applies it, and would change it back: importing it takes "
                "-take-ownership."
            )
        return Problem((), OBJECT_EXISTS, detail)

    def _build_unserved_kind_problem(self, hub_object: HubObject) -> Problem:
        """Build the problem of a kind unknown to the hub.

        Deferred if this plan creates its definition.
        """
        version = str(hub_object.body.get("apiVersion"))
        # The API group.
        if version.partition("/")[0] in self._new_groups:
            return Problem(
                (),
                _DEFERRED,
                f"{hub_object.title} (its CustomResourceDefinition comes with this plan)",
            )
        detail = (
            f"{hub_object.title}: the hub serves no {version} of that kind. Is its "
            "CustomResourceDefinition there?"
        )
        return Problem((), HUB_REJECTION, detail)

    def _warn_tool_manager(
        self, hub_object: HubObject, body: Mapping[str, Any]
    ) -> Iterator[Problem]:
        """Yield a warning about an object applied by Flux or Argo CD.

        There is none if the operator takes it over.
        """
        manager = find_tool_manager(body)
        if manager and not self._options.takes_ownership:
            detail = (
                f"{hub_object.title} is applied by {manager}, which would change it back. `apply` "
                "writes it only with "
                "-take-ownership; change it there, or leave it out here."
            )
            yield Problem((), MANAGED_BY_TOOL, detail, Severity.WARNING)

    def _warn_released_fields(
        self, hub_object: HubObject, prior: HubObject | None, body: Mapping[str, Any]
    ) -> Iterator[Problem]:
        """Yield warnings about fields no longer applied.

        One is about fields kept by other owners. Another is about fields removed by the apply, but
        never in this configuration (`prior`: the object in state, None if new).
        """
        manager = self._options.manager
        # The placement switches to staged runs.
        is_switching = is_switching_to_external(hub_object.body, body)
        kept_fields: list[str] = []
        removed_fields: list[str] = []
        for path, owners in find_released_fields(hub_object.body, body, manager).items():
            field_name = ".".join(map(str, path))
            # The switch first removes the settings of a rolling update, whatever their owners.
            is_removed_first = is_switching and path[:2] == ("spec", "strategy")
            if owners and not is_removed_first:
                kept_fields.append(f"{field_name} belongs to {' and '.join(owners)} as well")
            elif not owners and (prior is None or get_part(prior.body, path) is None):
                # The field was not removed on purpose.
                removed_fields.append(field_name)
        if kept_fields:
            field_texts = format_first_items(kept_fields, _MAX_NAMES, separator="; ")
            detail = f"{hub_object.title}: {field_texts}. What stays is as it is there."
            yield Problem((), FIELDS_KEPT, detail, Severity.WARNING)
        if removed_fields:
            detail = (
                f"{hub_object.title}: {format_first_items(removed_fields, _MAX_NAMES)} was applied "
                f"under the name {manager}, is not of this configuration, and goes with this "
                "apply. Give each configuration that writes to one hub a field_manager of its own."
            )
            yield Problem((), FIELDS_REMOVED, detail, Severity.WARNING)

    def _build_rejection_problem(
        self, hub: HubClient, api_error: ApiError, hub_object: HubObject, request: ChangeRequest
    ) -> Problem:
        """Return the problem of a rejected dry run.

        Its id is _DEFERRED if only the apply can validate the object, and DRY_RUN_SKIPPED if these
        credentials cannot. Others are conflicts of field owners, and refusals.
        """
        api_error = hide_sensitive_values(api_error, hub_object, request)
        namespace = get_text(hub_object.body, "metadata", "namespace")
        if api_error.status == 404 and namespace in self._new_namespaces:
            return Problem(
                (), _DEFERRED, f"{hub_object.title} (its namespace comes with this plan)"
            )
        if api_error.kind is ApiErrorKind.OTHER_MANAGER:
            body = (
                {} if is_sensitive_object(hub_object, request) else self._read_body(hub, hub_object)
            )
            return _build_conflict_problem(api_error, hub_object, request, body)
        if api_error.kind is ApiErrorKind.PERMISSION:
            return Problem((), DRY_RUN_SKIPPED, api_error.reason, Severity.WARNING)
        if api_error.kind is ApiErrorKind.UNAUTHENTICATED:
            reason = f"the hub rejected the credentials ({api_error.status})"
            return Problem((), DRY_RUN_SKIPPED, reason, Severity.WARNING)
        if api_error.kind is ApiErrorKind.WEBHOOK_TIMEOUT:
            detail = (
                f"{hub_object.title}: the hub cannot take it ({api_error.status}), "
                f"{api_error.server_message}. While its failurePolicy is Fail, nothing of the kind "
                "can be written; its operator must repair the webhook."
            )
            return Problem((), HUB_REJECTION, detail)
        rejection = f"{hub_object.title}: the hub refuses it ({api_error.status})"
        if api_error.kind is ApiErrorKind.WEBHOOK:
            message = f"{api_error.server_message}{suggest_azure_command(hub_object)}"
            return Problem((), HUB_REJECTION, f"{rejection}, {message}")
        causes = dict.fromkeys(
            cause.text for cause in api_error.causes if cause.message
        )  # without duplicates
        message = "; ".join(causes) or api_error.server_message
        return Problem((), HUB_REJECTION, f"{rejection}: {message}")


def _build_invalid_changes_warning(
    invalid: Sequence[tuple[int, ChangeRequest]],
) -> Iterator[Finding]:
    """Yield one warning, at the first change, about all changes with errors or dependent on one.

    Index, change.
    """
    if invalid:
        change_count = format_count(len(invalid), "change")
        causes = [f"{request.address} ({request.skip_reason})" for _, request in invalid]
        detail = (
            f"Server-side dry run skipped for {change_count}: "
            f"{format_first_items(causes, _MAX_NAMES)}."
        )
        names = format_first_items([request.address for _, request in invalid], _MAX_NAMES)
        summary = f"{change_count} with errors, or dependent on one: {names}"
        yield invalid[0][0], Problem((), DRY_RUN_SKIPPED, detail, Severity.WARNING, brief=summary)


def _build_conflict_problem(
    api_error: ApiError, hub_object: HubObject, request: ChangeRequest, body: Mapping[str, Any]
) -> Problem:
    """Build the problem of fields with other owners.

    `body` is the object on the hub, {} to hide its values.
    """
    advice = "Leave the field out here (lifecycle ignore_changes), or take it over"
    # The setting `ignore_changes` does not apply to objects missing in state.
    if request.prior is None:
        import_block = f'import {{ to = {request.address}, id = "{request.key.id}" }}'
        advice = (
            f"Leave the field out here, import the object ({import_block}), or take the field over"
        )
    detail = (
        f"{hub_object.title}: "
        f"{describe_owners(api_error)}{_describe_values(api_error, hub_object, body)}. An apply "
        f"would be refused. {advice}: once by nexusform apply -take-ownership, for good by "
        "force_conflicts = true. To see that plan: nexusform plan -take-ownership"
    )
    return Problem((), FIELD_CONFLICT, detail)


def _describe_values(
    api_error: ApiError, own_object: HubObject, hub_body: Mapping[str, Any]
) -> str:
    """Return both values of each conflicting field: ` (hub: 1, configuration: 2)`.

    The result is "" without the hub's body.
    """
    if not hub_body:
        # The value is sensitive, or missing.
        return ""
    values: list[str] = []
    for cause in api_error.causes:
        path = tuple(cause.field.strip(".").split("."))
        # None for a path into a list: `containers[name="web"]` is no key.
        own_value = get_part(own_object.body, path)
        # Other causes are no conflicts.
        if cause.manager and own_value is not None:
            values.append(
                f"hub: {json.dumps(get_part(hub_body, path))}, configuration: "
                f"{json.dumps(own_value)}"
            )
    return enclose(" (", format_first_items(values, _MAX_NAMES, separator="; "), ")")


def _combine_skipped_findings(findings: Sequence[Finding], severity: Severity) -> Iterator[Finding]:
    """Yield the findings, with skipped validations combined into one of `severity`.

    Deferred validations are omitted.
    """
    # Of changes; a dict as an ordered set.
    skipped_numbers: dict[int, None] = {}
    # An ordered set, too.
    causes: dict[str, None] = {}
    for number, problem in findings:
        if problem.id == DRY_RUN_SKIPPED:
            skipped_numbers[number] = None
            causes[problem.detail.rstrip(".")] = None
        elif problem.id != _DEFERRED:
            yield number, problem
    if skipped_numbers:
        change_count = format_count(len(skipped_numbers), "change")
        reasons = format_first_items(list(causes), _MAX_NAMES)
        detail = f"Server-side dry run failed for {change_count}: {reasons}."
        first_number = next(iter(skipped_numbers))
        yield (
            first_number,
            Problem((), DRY_RUN_SKIPPED, detail, severity, brief=f"{change_count}: {reasons}"),
        )


def _format_dry_run_summary(
    server: str, sent: AbstractSet[int], findings: Sequence[Finding]
) -> str:
    """Return sentences on the changes accepted by the hub, and on those deferred to apply.

    Only the changes with a number in `sent` count.
    """
    skipped: set[int] = set()
    rejected: set[int] = set()
    deferred: set[int] = set()
    deferred_texts: list[str] = []
    for number, problem in findings:
        if problem.id == _DEFERRED:
            deferred.add(number)
            deferred_texts.append(problem.detail)
        elif problem.id == DRY_RUN_SKIPPED:
            skipped.add(number)
        elif problem.severity is Severity.ERROR:
            rejected.add(number)
    # Of a change, one object may be deferred and another rejected.
    validated = sent - skipped - (deferred - rejected)
    deferred_sentence = enclose(
        " Validated only during apply: ", format_first_items(deferred_texts, _MAX_NAMES), "."
    )
    if not validated:
        return deferred_sentence.strip()
    count_text = f"{len(validated - rejected)} of {format_count(len(validated), 'change')}"
    return f"The hub {server} takes {count_text} (dry runs).{deferred_sentence}"


OTHER_PLACEMENTS: Final = "selected-by-other-placements"
Body = Mapping[str, Any]
# Kind, namespace and name.
PlacementKey = tuple[str, str, str]
# By group, kind, namespace and name of a selected object; a namespace with its content has no kind
# and no name.
SelectionIndex = Mapping[tuple[str, str, str, str], Sequence[Body]]


def find_affected_placements(
    hub: HubClient,
    requests: Sequence[ChangeRequest],
    hub_objects: Mapping[int, Sequence[HubObject]],
) -> Iterator[tuple[int, Problem]]:
    """Yield for each manifest with objects selected by placements outside the plan.

    An item is the number of the change, and a warning. `hub_objects` are the objects to send by
    number of their change. Raises HubProblem.
    """
    # New or changed ones of manifests, by number of the change.
    changed_objects: dict[int, list[HubObject]] = {}
    for number, objects in hub_objects.items():
        request = requests[number]
        if request.key.type == MANIFEST_TYPE:
            prior_objects = index_hub_objects(MANIFEST_TYPE, request.prior)
            changed_objects[number] = [
                item for item in objects if prior_objects.get(item.identity) != item
            ]
    if not any(changed_objects.values()):
        # No placement can be affected.
        return
    planned_placements = {
        get_identity(request.key.type, request.attributes)
        for request in requests
        if request.key.type in PLACEMENT_TYPES
    }
    placements, obstacles = _list_rolling_placements(hub)
    if obstacles:
        detail = (
            "It is unknown which other placements select the changed objects: "
            f"{'; '.join(obstacles)}."
        )
        first_number = next(iter(changed_objects))
        yield first_number, Problem((), OTHER_PLACEMENTS, detail, Severity.WARNING)
    # The plan predicts its own placements.
    index = _index_selections(
        item for item in placements if _get_key(item) not in planned_placements
    )
    for number, objects in changed_objects.items():
        descriptions: list[str] = []
        for hub_object in objects:
            descriptions += _describe_selections(hub_object, index)
        if descriptions:
            text = format_first_items(descriptions, _MAX_NAMES, separator="; ")
            detail = (
                f"{text}. The hub applies the changes to these clusters; this plan does not "
                "predict how."
            )
            yield number, Problem((), OTHER_PLACEMENTS, detail, Severity.WARNING)


def _index_selections(placements: Iterable[Body]) -> SelectionIndex:
    """Return the placements by each selected object.

    A namespace selected with content has another entry for that.
    """
    index: dict[tuple[str, str, str, str], list[Body]] = {}
    for placement in placements:
        includes_content = any(
            _is_namespace(selector) and selector.get("selectionScope") != "NamespaceOnly"
            for selector in list_mappings(placement, "spec", "resourceSelectors")
        )
        for selected in list_mappings(placement, "status", "selectedResources"):
            group, kind, namespace, name = (
                get_text(selected, key) for key in ("group", "kind", "namespace", "name")
            )
            index.setdefault((group, kind, namespace, name), []).append(placement)
            if includes_content and _is_namespace(selected):
                # The key of all objects in the namespace.
                all_in_namespace = ("", "", name, "")
                index.setdefault(all_in_namespace, []).append(placement)
    return index


def _list_rolling_placements(hub: HubClient) -> tuple[list[Body], list[str]]:
    """List the placements rolled out by the hub automatically.

    Return also the reasons for kinds not listed.
    """
    rolling_placements: list[Body] = []
    obstacles: list[str] = []
    for kind in ("ClusterResourcePlacement", "ResourcePlacement"):
        try:
            placements = hub.list_objects(KINDS[kind].collection)
        except ApiError as api_error:
            if api_error.kind not in {ApiErrorKind.UNKNOWN_KIND, ApiErrorKind.NOT_FOUND}:
                obstacles.append(api_error.reason)
            # None of a kind unknown to the hub.
            continue
        rolling_placements += (
            # Items of a list have no kind.
            {"kind": kind, **placement}
            for placement in placements
            # It distributes to clusters.
            if not has_external_rollout(placement) and _list_clusters(placement)
        )
    return rolling_placements, obstacles


def _list_clusters(placement: Body) -> list[str]:
    """Return the names of the clusters in a placement's status, sorted."""
    statuses = list_mappings(placement, "status", "placementStatuses")
    return sorted(str(status["clusterName"]) for status in statuses if status.get("clusterName"))


def _is_namespace(reference: Body) -> bool:
    """Return whether an object or a selector is a Namespace."""
    return (get_text(reference, "group"), reference.get("kind")) == ("", "Namespace")


def _get_key(placement: Body) -> PlacementKey:
    """Return kind, namespace and name of a placement."""
    return str(placement.get("kind")), *get_namespaced_name(placement)


def _describe_selections(hub_object: HubObject, index: SelectionIndex) -> Iterator[str]:
    """Yield the placements that select an object or its whole namespace.

    Each comes once, with its clusters.
    """
    _group, _kind, namespace, _name = hub_object.identity
    placements = [*index.get(hub_object.identity, ())]
    if namespace:
        # The key of all objects in a namespace.
        placements += index.get(("", "", namespace, ""), ())
    placements_by_key = {_get_key(placement): placement for placement in placements}
    for (kind, *namespace_and_name), placement in placements_by_key.items():
        clusters = format_first_items(_list_clusters(placement), _MAX_NAMES)
        title = f"{kind} {join_texts(namespace_and_name, '/')}"
        yield f"{hub_object.title} is selected by {title} ({clusters})"
