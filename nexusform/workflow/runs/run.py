"""One run on a state: lock, read, recover, refresh, plan, apply, save, unlock.

`begin_run` yields a Run with the lock held until the end of its block. A run that could not begin
is not `is_ready` and has the reasons in its diagnostics.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.backends.local_file import is_local_state
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    DiagnosticsError,
    Position,
    Severity,
    Span,
    build_error,
    build_warning,
    has_errors,
    select_errors,
)
from nexusform.documents.times import is_in_future, parse_time
from nexusform.doubts.doubt import Doubt
from nexusform.doubts.findings import build_finding_doubts
from nexusform.files.run_log import log_duration, log_event
from nexusform.interfaces.plugins import (
    ChangeValidatingProvider,
    Clock,
    DryRunProvider,
    ExternalQueryProblem,
    Provider,
    ProviderProblem,
    ServerQuery,
    ServerReader,
)
from nexusform.interfaces.state_storage import (
    BackendProblem,
    EncryptingBackend,
    LockInfo,
    StateBackend,
)
from nexusform.planning.conclusion.plan_result import PlanResult
from nexusform.planning.conclusion.site_records import add_site_capacity
from nexusform.planning.plan_request import ImportedObject, PlanRequest, Progress
from nexusform.planning.planner import make_plan
from nexusform.planning.preparation.planning_order import iterate_modules
from nexusform.plans.plan import Change, InventoryRead, Mode, Plan, build_hypothetical_plan
from nexusform.providers.clock import read_clock
from nexusform.providers.registry import PROVIDERS
from nexusform.resources.address import Address
from nexusform.state.objects import EMPTY, InstanceState, ObjectState, State, get_current_object
from nexusform.workflow.opening.git_work_tree import find_commit
from nexusform.workflow.opening.project import Project
from nexusform.workflow.opening.provider_setup import (
    PROVIDER_PREFIX,
    check_created_objects,
    check_existing_objects,
    collect_provider_diagnostics,
    create_providers,
    list_captured_inventories,
)
from nexusform.workflow.opening.stored_state import StoredState, read_stored_state
from nexusform.workflow.opening.system_io import SystemClock
from nexusform.workflow.runs.evaluation_record import record_evaluation
from nexusform.workflow.runs.state_locking import (
    STALE_LOCK_TAKEN,
    LockOptions,
    StateLock,
    acquire_lock,
)

if TYPE_CHECKING:
    from nexusform.planning.edits import Edit
    from nexusform.workflow.runs.provider_identity import IdentityCheck, Records


class RunCallbacks(Struct, frozen=True):
    """Callbacks of a run: locks, objects read, planning progress.

    `on_wait` is called while the run waits for a lock, and `on_lock` when it has acquired the lock.
    """

    on_wait: Callable[[str], None] = lambda _: None
    on_read: Callable[[str, str], None] = lambda _address, _id: None
    on_lock: Callable[[str], None] = lambda _: None
    on_progress: Progress = lambda _stage, _done, _of: None


_NO_CALLBACKS: Final = RunCallbacks()
_SYSTEM_CLOCK: Final = SystemClock()
_NO_IDENTITIES: Final[Records] = {}

FOREIGN_JOURNAL_MOVED: Final = "foreign-journal-moved"


class PlanOptions(Struct, frozen=True):
    """Options of a plan; see PlanRequest.

    `dry_run_skip_reason` explains why a run without `refresh` has no server-side dry run; "" if
    none is expected. `generate_config_out` is the file for generated configuration of imported
    objects, "" for none. `now` is the time of the plan, "" for the present. `imports` are objects
    to import besides those of import blocks. With `allows_state_only`, the plan starts from the
    state if a provider does not answer. Without `verifies_certainty` every pod counts as certain.
    With `allows_older_export`, an inventory may be older than that of the last apply.
    `assumptions` as a user wrote them, or `edits` of a question, make the plan a hypothetical one.
    With both, the assumptions are the texts of the edits. Questions share the plan without edits,
    `before`. `after_merge` is what a merge does, for the reports. `doubts` are those by findings
    of a source read before. With `keeps_schedulers`, the sites of
    the result can still place VMs, for checks by programs. With `replayed`, the result has the
    steps of this plan on the objects as read now, and no server validates it.
    """

    mode: Mode = Mode.NORMAL
    refresh: bool = True
    dry_run_skip_reason: str = ""
    targets: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    samples: int | None = None
    first_sample: int = 0
    includes_rejections: bool = False
    includes_losses: bool = False
    includes_remedies: bool = True
    verifies_certainty: bool = True
    explain: tuple[tuple[str, str], ...] = ()
    generate_config_out: str = ""
    now: str = ""
    imports: Mapping[Address, ImportedObject] = field(default_factory=dict)
    allows_state_only: bool = False
    allows_older_export: bool = False
    assumptions: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    before: PlanResult | None = None
    after_merge: str = ""
    doubts: tuple[Doubt, ...] = ()
    keeps_schedulers: bool = False
    replayed: Plan | None = None


class Run(Struct):
    """A run in progress.

    `stored` is the state of the backend with interrupted changes resolved. With
    `has_unfinished_apply`, the last run left its journal or lock. `unreachable` is why a system
    behind a provider has no usable answer, "" otherwise.
    """

    project: Project
    clock: Clock
    diagnostics: list[Diagnostic] = field(default_factory=list)
    stored: StoredState = field(default_factory=lambda: StoredState(EMPTY))
    providers: Mapping[str, Provider] = field(default_factory=dict)
    lock: StateLock | None = None
    has_unfinished_apply: bool = False
    notices: RunCallbacks = _NO_CALLBACKS
    identities: IdentityCheck | None = None
    unreachable: str = ""
    # The objects as read for a replay.
    observed_request: PlanRequest | None = None
    # Identities given by settings alone, known without a connection.
    settings_identities: Records = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether planning may begin."""
        return not has_errors(self.diagnostics)

    def check_identities(
        self, recorded: Records = _NO_IDENTITIES, *, connects: bool = True
    ) -> list[Diagnostic]:
        """Compare the systems behind the providers with the recorded ones.

        Return errors and warnings. `recorded` are the systems in a saved plan: they replace those
        in the state. Without `connects` only settings are compared. A run does not repeat a
        comparison with connections: its result is kept in `identities`.
        """
        has_identities = any(
            hasattr(provider, "read_identity") for provider in self.providers.values()
        )
        if self.identities is not None or not has_identities:
            return []
        from nexusform.workflow.runs.provider_identity import check_identities

        records = {**self.stored.state.providers, **recorded}
        state = self.stored.state
        # The uid of a hub permitted by -allow-other-hub, or "".
        accepted = self.project.context.allow_other_hub
        try:
            check = check_identities(self.providers, state, records, accepted, connects=connects)
        except ProviderProblem as problem:
            # The caller may plan from the state.
            self.unreachable = str(problem) if problem.is_unreachable else ""
            return [build_error("refresh-failed", str(problem))]
        self.settings_identities = check.observed
        # Settings alone do not identify a system.
        if connects:
            self.identities = check
            self._record_identities(check.confirmed)
        return check.diagnostics

    def _record_identities(self, identities: Records) -> None:
        """Add identities to the state; the next write saves them."""
        if identities:
            state = self.stored.state
            providers = dict(sorted({**state.providers, **identities}.items()))
            self.stored = replace(self.stored, state=replace(state, providers=providers))

    def _record_confirmed_identities(self) -> None:
        """Record the identity of a system not comparable before, if all objects exist there.

        It is the same system.
        """
        check = self.identities
        if check is None:
            return
        for name, provider in check.unconfirmed.items():
            if not provider.has_missing_objects():
                self._record_identities({name: check.observed[name]})

    def plan(self, options: PlanOptions) -> PlanResult:
        """Plan against the stored state, within the time limit.

        Exceeding it gives a failed plan.
        """
        seconds = self.project.context.get_planning_seconds(
            self.project.configuration.settings.limits
        )
        time_limit: AbstractContextManager[None] = nullcontext()
        # 0 = unlimited.
        if seconds:
            from nexusform.workflow.runs.planning_time_limit import limit_time

            time_limit = limit_time(seconds)
        try:
            with time_limit:
                result = self._refresh_and_plan(options)
        except DiagnosticsError as failure:
            result = self.build_failed_plan(options, failure.diagnostics)
        if (options.assumptions or options.edits) and not result.plan.is_hypothetical:
            # A failed plan.
            plan = build_hypothetical_plan(result.plan, options.assumptions)
            result = replace(result, plan=plan)
        return replace(result, plan=record_evaluation(result.plan, self.project))

    def _refresh_and_plan(self, options: PlanOptions) -> PlanResult:
        """Check state and providers, import, refresh, plan and dry-run.

        Errors of a step end it with a failed plan.
        """
        diagnostics = self._check_state_consistency()
        if not has_errors(diagnostics) and (options.refresh or self._has_imports(options)):
            diagnostics += self.check_identities()
            # The plan continues without it instead of an error.
            if self.unreachable and options.refresh and options.allows_state_only:
                return self._plan_from_state(options)
        if has_errors(diagnostics):
            return self.build_failed_plan(options, diagnostics)
        # Import first: a cluster is then read without the agent pools imported as separate objects.
        imported, import_problems = self._find_imports(self.build_request(options), options)
        if has_errors(import_problems):
            return self.build_failed_plan(options, import_problems)
        diagnostics += import_problems
        # With the configuration generated for imports.
        request, refresh_diagnostics = self._refresh_request(self.build_request(options), options)
        if has_errors(refresh_diagnostics):
            return self.build_failed_plan(options, refresh_diagnostics)
        diagnostics += refresh_diagnostics
        # What the sources lack decides certainty.
        warnings = chain.from_iterable(
            provider.list_warnings() for provider in self.providers.values()
        )
        request = replace(
            request,
            imports={**request.imports, **imported, **options.imports},
            doubts=(*request.doubts, *build_finding_doubts(warnings)),
        )
        if options.replayed is not None or options.assumptions or options.edits:
            return self._plan_under_assumptions(request, options, diagnostics)
        # Planning adds the responses of servers that data sources read.
        responses = self.project.servers.answers if self.project.servers is not None else {}
        response_count = len(responses)
        with log_duration("plan made", mode=options.mode):
            result = make_plan(request)
        # Then servers are connected.
        has_new_responses = len(responses) > response_count
        diagnostics += self._compare_identities(options, is_connected=has_new_responses)
        if has_errors(diagnostics):
            return self.build_failed_plan(options, diagnostics)
        result, dry_run_diagnostics = self._add_dry_run_results(result, options, request)
        diagnostics += dry_run_diagnostics
        # A new workspace.
        if not self.stored.state.lineage:
            from nexusform.workflow.runs.managed_sites import list_managed_site_warnings

            diagnostics += list_managed_site_warnings(
                result.plan, self.project.backend, self.project.workspace
            )
        # For -refresh=false only: some internal plans give no reason, and a plan from the state has
        # its own warning.
        if options.dry_run_skip_reason and not self.unreachable and self._has_observing_provider:
            detail = (
                "-refresh=false: the plan uses the recorded state. Changes made outside of "
                "nexusform are unknown."
            )
            diagnostics.append(build_warning("refresh-skipped", detail))
        plan = self._add_provider_records(result.plan, options)
        diagnostics += check_exports(plan, self.stored.state)
        diagnostics += check_created_objects(plan, has_state=True)
        return self._complete_plan(
            replace(result, plan=plan),
            request,
            diagnostics,
            frees_schedulers=not options.keeps_schedulers,
        )

    @property
    def _has_observing_provider(self) -> bool:
        """Whether a provider may show other objects than those in the state."""
        return any(provider.observes_objects for provider in self.providers.values())

    def _refresh_request(
        self, request: PlanRequest, options: PlanOptions
    ) -> tuple[PlanRequest, list[Diagnostic]]:
        """Return the request with the objects as read by providers, and the diagnostics."""
        has_objects = bool(request.state.instances) or self._has_observing_provider
        if not (options.refresh and has_objects):
            # There are no changes to read.
            return request, []
        from nexusform.workflow.runs.state_refresh import refresh_request

        try:
            refreshed, diagnostics = refresh_request(request, self.providers, self.notices.on_read)
        except ProviderProblem as problem:
            return request, [build_error("refresh-failed", str(problem))]
        self._record_confirmed_identities()
        return refreshed, list(diagnostics)

    def plan_without_steps(self, plan: Plan) -> Plan:
        """Plan the objects that the last replay of a plan read, without its steps."""
        return self._replay_steps(plan, (), has_steps=False).plan

    def _replay_steps(
        self, plan: Plan, diagnostics: Sequence[Diagnostic], *, has_steps: bool
    ) -> PlanResult:
        """Plan the saved steps of a plan, or none, on the objects as observed."""
        from nexusform.planning.replanning.step_replay import build_replay_request

        assert self.observed_request is not None, "objects are read first"
        request = build_replay_request(plan, self.observed_request, has_steps=has_steps)
        result = make_plan(request)
        errored = result.plan.errored or has_errors(diagnostics)
        replayed_plan = replace(
            result.plan, diagnostics=(*result.plan.diagnostics, *diagnostics), errored=errored
        )
        return add_site_capacity(replace(result, plan=replayed_plan), self.project.registries)

    def _plan_under_assumptions(
        self, request: PlanRequest, options: PlanOptions, diagnostics: Sequence[Diagnostic]
    ) -> PlanResult:
        """Make a hypothetical plan, or replay the steps of a plan: no server validates changes."""
        if options.replayed is not None:
            self.observed_request = request
            result = self._replay_steps(options.replayed, diagnostics, has_steps=True)
            return replace(
                result,
                plan=replace(
                    result.plan,
                    observed=replace(result.plan.observed, site_facts=self._collect_site_facts()),
                ),
            )
        from nexusform.planning.hypothesis.hypothetical_plan import (
            plan_assumptions,
            plan_hypothesis,
        )
        from nexusform.snapshots.machine_losses import add_machine_losses

        identity_problems = self._compare_identities(options, is_connected=False)
        if has_errors(identity_problems):
            return self.build_failed_plan(options, identity_problems)

        def complete(result: PlanResult, request: PlanRequest) -> PlanResult:
            """Add what is known of providers, findings and capacity."""
            plan = self._add_provider_records(result.plan, options)
            problems = [*diagnostics, *identity_problems, *check_exports(plan, self.stored.state)]
            return self._complete_plan(replace(result, plan=plan), request, problems)

        if options.edits:
            return plan_hypothesis(
                request, options.edits, options.before, complete, options.assumptions
            ).after
        return add_machine_losses(plan_assumptions(request, options.assumptions, complete), request)

    def _collect_site_facts(self) -> dict[str, Mapping[str, str]]:
        """Return the facts of whole sites by provider, as the plan read them."""
        from nexusform.providers.optional_provider_interfaces import SiteFactsProvider

        facts: dict[str, Mapping[str, str]] = {}
        for name, provider in sorted(self.providers.items()):
            if isinstance(provider, SiteFactsProvider):
                facts[name] = provider.list_site_facts()
        return facts

    def _add_provider_records(self, plan: Plan, options: PlanOptions) -> Plan:
        """Return the plan with the inventories and the facts of sites read by providers.

        The plan also gets the identities of their systems, if known.
        """
        captured = list_captured_inventories(self.providers, plan.start.timestamp)
        basis = replace(plan.basis, allows_older_export=options.allows_older_export)
        plan = replace(
            plan,
            observed=replace(plan.observed, inventories=(*plan.observed.inventories, *captured)),
            basis=basis,
        )
        # Only an apply compares them, with those of its replay.
        if plan.steps and options.refresh:
            plan = replace(
                plan, observed=replace(plan.observed, site_facts=self._collect_site_facts())
            )
        if self.identities is None:
            return replace(
                plan, observed=replace(plan.observed, providers=self.settings_identities)
            )
        from nexusform.workflow.runs.provider_identity import iterate_system_descriptions

        observed = self.identities.observed
        titles = tuple(iterate_system_descriptions(self.providers, observed))
        return replace(
            plan, observed=replace(plan.observed, providers=observed, provider_titles=titles)
        )

    def _compare_identities(self, options: PlanOptions, *, is_connected: bool) -> list[Diagnostic]:
        """Compare the systems behind the providers after a plan with -refresh=false.

        Usually no connection is made, and only settings are compared. If a data source has just
        connected (`is_connected`), servers are identified, too.
        """
        # The reason: -refresh=false.
        is_refresh_disabled = not options.refresh and options.dry_run_skip_reason
        if not is_refresh_disabled or self.unreachable:
            # It was compared before a refresh or with a saved plan, or a server is known to be
            # down.
            return []
        if is_connected:
            diagnostics = self.check_identities()
            if not self.unreachable:
                return diagnostics
            # No error here: -refresh=false needs no server.
            self.unreachable = ""
        return self.check_identities(connects=False)

    def _plan_from_state(self, options: PlanOptions) -> PlanResult:
        """Plan from the state alone, since a server is unreachable.

        Add a warning; the server validates no change.
        """
        reason = "the plan is made from the state"
        result = self._refresh_and_plan(replace(options, refresh=False, dry_run_skip_reason=reason))
        warning = build_warning(
            "plan-from-state",
            f"{self.unreachable.rstrip('.')}. This plan starts from the state alone: changes made "
            "elsewhere and new members are unknown, and nothing was validated. An apply needs the "
            "hub.",
        )
        titles = (*result.plan.observed.provider_titles, "plan from state: the hub was not read")
        plan = replace(
            result.plan,
            observed=replace(result.plan.observed, provider_titles=titles),
            diagnostics=(warning, *result.plan.diagnostics),
        )
        return replace(result, plan=plan)

    def _add_dry_run_results(
        self, result: PlanResult, options: PlanOptions, request: PlanRequest
    ) -> tuple[PlanResult, list[Diagnostic]]:
        """Return the plan with the verdicts of the server-side dry run.

        The errors of the dry run are added, or warnings of skipping it.
        """
        has_validator = any(
            isinstance(provider, ChangeValidatingProvider) for provider in self.providers.values()
        )
        # This plan uses no server.
        if not options.refresh:
            # No warning is needed.
            if not has_validator or not options.dry_run_skip_reason:
                return result, []
            from nexusform.workflow.runs.provider_dry_run import build_skipped_checks_diagnostics

            return result, build_skipped_checks_diagnostics(
                result, self.providers, options.dry_run_skip_reason
            )
        diagnostics = check_existing_objects(result.plan, self.providers)
        if has_validator:
            from nexusform.workflow.runs.provider_dry_run import validate_changes_at_providers

            diagnostics += validate_changes_at_providers(
                result, self.providers, request, diagnostics
            )
            dry_run_providers = [
                item for item in self.providers.values() if isinstance(item, DryRunProvider)
            ]
            # "" without a verdict.
            verdicts = [provider.describe_dry_run() for provider in dry_run_providers]
            result = replace(
                result,
                plan=replace(
                    result.plan,
                    verdicts=replace(
                        result.plan.verdicts, dry_run_messages=tuple(filter(None, verdicts))
                    ),
                ),
            )
        if any(hasattr(provider, "collect_start_values") for provider in self.providers.values()):
            from nexusform.workflow.runs.provider_dry_run import collect_start_values

            start_values, start_diagnostics = collect_start_values(result.plan, self.providers)
            result = replace(
                result,
                plan=replace(
                    result.plan, observed=replace(result.plan.observed, start_values=start_values)
                ),
            )
            diagnostics += start_diagnostics
        return result, [*diagnostics, *collect_provider_diagnostics(result.plan, self.providers)]

    def build_failed_plan(self, options: PlanOptions, problems: Sequence[Diagnostic]) -> PlanResult:
        """Build a plan with these errors and no changes; it keeps all objects of the state."""
        from nexusform.planning.conclusion.plan_assembly import build_unchanged_plan

        return build_unchanged_plan(self.build_request(options), problems)

    def _check_state_consistency(self) -> list[Diagnostic]:
        """Return the errors of contradictory objects in the state; an empty state has none."""
        if not self.stored.state.instances:
            return []
        from nexusform.planning.verification.state_consistency import check_consistency

        return list(
            check_consistency(self.stored.state, self.project.registries.resource_types, PROVIDERS)
        )

    def _complete_plan(
        self,
        result: PlanResult,
        request: PlanRequest,
        further_diagnostics: Sequence[Diagnostic],
        *,
        frees_schedulers: bool = False,
    ) -> PlanResult:
        """Return the result with `further_diagnostics`, lint findings and site capacity.

        Lint findings are those of a normal plan. With `frees_schedulers`, its sites cannot place
        VMs any more.

        The diagnostics were found outside of the planner, for example by a server-side dry run.
        """
        plan = result.plan
        errors = select_errors(further_diagnostics)
        rejects_only_single_changes = all(
            error.id == "field-conflict" and error.address for error in errors
        )
        if not plan.errored and rejects_only_single_changes:
            # Another manager owns fields of these changes: the plan is complete, and a flag
            # can permit them.
            plan = replace(
                plan,
                verdicts=replace(
                    plan.verdicts, rejected=tuple(sorted({error.address for error in errors}))
                ),
            )
        if further_diagnostics:
            errored = plan.errored or bool(errors)
            plan = replace(
                plan, diagnostics=(*plan.diagnostics, *further_diagnostics), errored=errored
            )
        result = replace(result, plan=plan)
        if plan.options.mode is Mode.NORMAL:
            result = self._add_lint_findings(result, request)
        if frees_schedulers:
            for site in result.sites.values():
                site.release_schedulers()
        with log_duration("capacity counted"):
            return add_site_capacity(result, self.project.registries)

    def _add_lint_findings(self, result: PlanResult, request: PlanRequest) -> PlanResult:
        """Return the result with the findings of the lint rules, and the disabled rules.

        Errors prevent all rules.
        """
        findings: list[Diagnostic] = []
        is_linted = False
        # The rules are about pools with a count and VMs placed by this plan.
        planned_objects = [item for item in result.objects.values() if item.placements.new_handles]
        has_pools_to_lint = any(pool.count_path for item in planned_objects for pool in item.pools)
        if has_pools_to_lint and not result.plan.errored:
            from nexusform.workflow.opening.linting import lint_plan

            findings = lint_plan(result, request)
            is_linted = True
        disabled_rules = tuple(sorted(self.project.configuration.settings.ignored_rules))
        diagnostics = (*result.plan.diagnostics, *findings)
        plan = replace(
            result.plan,
            diagnostics=diagnostics,
            verdicts=replace(
                result.plan.verdicts, disabled_rules=disabled_rules, is_linted=is_linted
            ),
        )
        return replace(result, plan=plan)

    def rebuild_plan(self, saved_plan: Plan) -> Plan:
        """Plan again with the recorded inputs of a saved plan: providers read nothing."""
        options = get_plan_options(saved_plan)
        instances = self.stored.state.instances
        imports: dict[Address, ImportedObject] = {}
        for change in saved_plan.changes:
            if change.importing:
                imports[change.address] = _build_import(change, instances.get(change.address))
        refreshed_objects = dict(saved_plan.observed.refreshed_objects)
        request = replace(
            self.build_request(options), refreshed_objects=refreshed_objects, imports=imports
        )
        result = self._complete_plan(make_plan(request), request, self._check_state_consistency())
        plan = result.plan
        # Captures are inventories read by providers, so they are taken from the saved plan.
        captures = [
            read
            for read in saved_plan.observed.inventories
            if read.address.startswith(PROVIDER_PREFIX)
        ]
        return replace(
            plan,
            observed=replace(
                plan.observed,
                inventories=(*plan.observed.inventories, *captures),
                providers=saved_plan.observed.providers,
                provider_titles=saved_plan.observed.provider_titles,
            ),
            verdicts=replace(plan.verdicts, dry_run_messages=saved_plan.verdicts.dry_run_messages),
        )

    def _has_imports(self, options: PlanOptions) -> bool:
        """Return whether the plan has import blocks; only normal plans import."""
        modules = iterate_modules(self.project.configuration.root)
        return options.mode is Mode.NORMAL and any(module.imports for module in modules)

    def _find_imports(
        self, request: PlanRequest, options: PlanOptions
    ) -> tuple[Mapping[Address, ImportedObject], list[Diagnostic]]:
        """Find the objects of import blocks.

        The configuration generated for them becomes part of the project.
        """
        path = options.generate_config_out
        # An invalid path is an error even if there is nothing to generate.
        if path:
            from nexusform.workflow.runs.object_import import check_generated_path

            rejection = check_generated_path(path)
            if rejection is not None:
                return {}, [rejection]
        if not self._has_imports(options):
            return {}, []
        from nexusform.workflow.runs.object_import import add_generated_configuration, find_imports

        imports = find_imports(request, self.providers, generate=bool(path))
        if imports.generated_configuration and not has_errors(imports.diagnostics):
            project, problems = add_generated_configuration(
                self.project, path, imports.generated_configuration
            )
            imports.diagnostics += problems
            # The project is unchanged after errors.
            self.project = project or self.project
        return imports.objects, imports.diagnostics

    def build_request(self, options: PlanOptions) -> PlanRequest:
        """Build the request for the planner from the project, the state and the options."""
        request = build_base_request(self.project, self.stored)
        query = request.query
        # A failed query is only a warning.
        if query is not None and self.unreachable:
            query = partial(_query_unreachable, query)
        return replace(
            request,
            query=query,
            mode=options.mode,
            targets=options.targets,
            excludes=options.excludes,
            replaces=options.replaces,
            progress=self.notices.on_progress,
            samples=options.samples,
            first_sample=options.first_sample,
            includes_rejections=options.includes_rejections,
            includes_losses=options.includes_losses,
            includes_remedies=options.includes_remedies,
            verifies_certainty=options.verifies_certainty,
            explain=options.explain,
            doubts=options.doubts,
            systems=self.identities.observed if self.identities is not None else {},
            now=options.now or read_clock(self.project.context.environment),
        )


def _query_unreachable(query: ServerReader, question: ServerQuery) -> str:
    """Query a server.

    A failure has the severity of a warning, since the plan is made from the state anyway.
    """
    try:
        return query(question)
    except ExternalQueryProblem as failure:
        raise ExternalQueryProblem(replace(failure.problem, severity=Severity.WARNING)) from None


def get_plan_options(plan: Plan) -> PlanOptions:
    """Return the options to make a saved plan again."""
    return PlanOptions(
        mode=plan.options.mode,
        targets=plan.options.targets,
        excludes=plan.options.excludes,
        replaces=plan.options.replaces,
        samples=plan.figures.samples,
        includes_rejections=any(row.rejections for row in plan.placements),
        now=plan.start.timestamp,
        allows_older_export=plan.basis.allows_older_export,
        after_merge=plan.basis.after_merge,
        doubts=build_finding_doubts(plan.diagnostics),
    )


def _build_import(change: Change, recorded: InstanceState | None) -> ImportedObject:
    """Build the import recorded in a change.

    The change has the attributes of the object before the plan, so no provider is read. `recorded`
    is the object in the state, if it is there and only gets another provider. Its other data is
    kept, and the private note in the change is added to its own.
    """
    attributes = change.before or {}
    creation_number = change.prior_creation
    imported_object = ObjectState(
        attributes, creation_number, change.sensitive_before, provider=change.provider
    )
    current = get_current_object(recorded)
    if current is not None:
        private = {**current.note, **(change.private or {})} or None
        imported_object = replace(
            current, attributes=attributes, provider=change.provider, private=private
        )
    start = Position(1, 1, 0)
    return ImportedObject(
        change.importing, imported_object, change.source or Span("", start, start)
    )


def build_plan_request(project: Project, stored: StoredState, plan: Plan) -> PlanRequest:
    """Build the request of a saved plan again, on this state."""
    return replace(
        build_base_request(project, stored),
        mode=plan.options.mode,
        targets=plan.options.targets,
        excludes=plan.options.excludes,
        replaces=plan.options.replaces,
        refreshed_objects=plan.observed.refreshed_objects,
    )


def build_base_request(project: Project, stored: StoredState) -> PlanRequest:
    """Build the plan request of a project and its state, without the options of a plan."""
    context = project.context
    return PlanRequest(
        configuration=project.configuration,
        variables=project.variables,
        state=stored.state,
        registries=project.registries,
        files=project.files,
        now=read_clock(context.environment),
        workspace=project.workspace,
        working_directory=context.working_directory,
        prior_digest=stored.digest,
        data_overrides=project.data_values,
        object_overrides=project.planned_values,
        limits=context.merge_limits(project.configuration.settings.limits),
        new_uuid=lambda: str(uuid.uuid4()),
        read_state=project.remote_states.read if project.remote_states is not None else None,
        query=project.servers.query if project.servers is not None else None,
        commit=find_commit(context.directory, context.environment, context.directory_confinement),
    )


def check_exports(plan: Plan, state: State) -> list[Diagnostic]:
    """Return an error for each inventory that is older than the one of the last apply.

    Return [] if the plan accepts older ones.
    """
    if plan.basis.allows_older_export or not state.exports:
        return []
    return find_older_exports(_list_dated_inventories(plan), state)


def find_older_exports(inventories: Sequence[InventoryRead], state: State) -> list[Diagnostic]:
    """Return an error for each dated inventory that is older than the recorded one."""
    problems: list[Diagnostic] = []
    for inventory in inventories:
        recorded = state.exports.get(inventory.address, "")
        exported_at = parse_time(inventory.exported_at)
        recorded_at = parse_time(recorded)
        if exported_at is None or recorded_at is None or exported_at >= recorded_at:
            continue
        detail = (
            f"{inventory.address}: the export is from {inventory.exported_at}, older than that of "
            f"the last apply from {recorded}. A plan of it would undo newer changes. "
            "Export again. To accept the older export, use -allow-older-export."
        )
        problems.append(build_error("older-export", detail))
    return problems


def record_sources(state: State, plan: Plan, now: str) -> State:
    """Return the state with the times of an applied plan's inventories, and what they lack.

    A data source that a whole plan does not have any more is forgotten. Providers read nothing
    without a refresh. A time in the future is wrong: later exports would count as older.
    """
    read_addresses = {item.address for item in plan.observed.inventories}
    is_partial = bool(plan.options.targets or plan.options.excludes)
    times = {
        address: time
        for address, time in state.exports.items()
        if is_partial or address in read_addresses or address.startswith(PROVIDER_PREFIX)
    }
    times |= {
        item.address: item.exported_at
        for item in _list_dated_inventories(plan)
        if not is_in_future(item.exported_at, now)
    }
    # Those of a site or a VM are recorded with it.
    unread = [fact for fact in plan.observed.unread if not fact.site_id and not fact.address]
    if plan.options.mode is Mode.REFRESH_ONLY or is_partial:
        unread = [*state.unread, *unread]
    return replace(state, exports=dict(sorted(times.items())), unread=tuple(dict.fromkeys(unread)))


def _list_dated_inventories(plan: Plan) -> list[InventoryRead]:
    """List the inventories with a time of their export.

    The time of the newest change goes back if the changed object is deleted.
    """
    return [
        item
        for item in plan.observed.inventories
        if parse_time(item.exported_at) is not None and not item.is_newest_change
    ]


@contextmanager
def begin_run(
    project: Project,
    operation: str,
    locking: LockOptions,
    *,
    notices: RunCallbacks = _NO_CALLBACKS,
    clock: Clock = _SYSTEM_CLOCK,
    records_recovery: bool = True,
    moves_foreign_journal: bool = False,
) -> Iterator[Run]:
    """Lock and read the state, create providers, and recover an interrupted run.

    With `records_recovery` the recovered state is saved. With `moves_foreign_journal`, a journal
    that belongs to another state is first moved away, with a warning.
    """
    run = Run(project, clock, notices=notices)
    with ExitStack() as exit_stack:
        _acquire_state_lock(run, operation, locking, exit_stack)
        if run.is_ready and moves_foreign_journal:
            run.diagnostics += _move_foreign_journal(run.project.backend)
        if run.is_ready:
            _prepare_run(run, exit_stack, records_recovery=records_recovery)
        yield run


def _move_foreign_journal(backend: StateBackend) -> list[Diagnostic]:
    """Move a journal that belongs to another state away, so that the state can be used.

    Return a warning with the path of the moved file, an error if it fails, [] without one.
    """
    try:
        path = backend.move_foreign_journal()
    except BackendProblem as problem:
        return [build_error("unreadable-state", str(problem))]
    if not path:
        return []
    detail = (
        "The journal had changes of an interrupted apply that began on another state. They were "
        f'not added to this state, and are kept in "{path}". Import the objects that this apply '
        "created and the state lacks."
    )
    return [build_warning(FOREIGN_JOURNAL_MOVED, detail)]


def _acquire_state_lock(
    run: Run, operation: str, locking: LockOptions, exit_stack: ExitStack
) -> None:
    """Acquire the lock of the state, and release it when `exit_stack` closes.

    Problems go to the run's diagnostics.
    """
    backend = run.project.backend
    environment = run.project.context.environment
    on_wait = run.notices.on_wait
    run.lock, problems = acquire_lock(
        backend, operation, locking, clock=run.clock, environment=environment, on_wait=on_wait
    )
    run.diagnostics += problems
    if run.lock is not None:
        state_lock = run.lock
        run.notices.on_lock("Acquired the state lock.")
        exit_stack.callback(lambda: run.diagnostics.extend(state_lock.release()))


def _prepare_run(run: Run, exit_stack: ExitStack, *, records_recovery: bool) -> None:
    """Read the state into `run`, create its providers, and recover the steps of an interrupted run.

    Errors are added to `run.diagnostics`, and end the preparation: `run.is_ready` is then false.
    With `records_recovery`, a run with the lock also writes the outcomes of the recovered steps.
    """
    with log_duration("state read", state=run.project.backend.describe()):
        stored, problems = read_stored_state(run.project.backend)
    run.diagnostics += problems
    if stored is None:
        return
    had_stale_lock = any(diagnostic.id == STALE_LOCK_TAKEN for diagnostic in run.diagnostics)
    run.has_unfinished_apply = stored.has_journal or had_stale_lock
    log_event("debug", "state", serial=stored.state.serial, objects=len(stored.state.instances))
    running_apply = None if run.lock is not None else _find_running_apply(run, stored)
    if running_apply is not None and records_recovery:
        from nexusform.workflow.opening.interrupted_apply import build_running_apply_error

        run.diagnostics.append(build_running_apply_error(running_apply))
        return
    try:
        if isinstance(run.project.backend, EncryptingBackend):
            # It raises BackendProblem if a later write would fail.
            run.project.backend.check()
    except BackendProblem as problem:
        run.diagnostics.append(build_error("unwritable-state", str(problem)))
        return
    # A new state.
    if not stored.state.lineage and run.project.context.environment.get("NF_IN_AUTOMATION"):
        run.diagnostics += _check_local_state(run.project.backend)
    providers, problems = create_providers(
        build_base_request(run.project, stored), run.project.context, exit_stack
    )
    run.diagnostics += problems
    if has_errors(problems):
        return
    run.providers = providers
    run.stored = stored
    # No interrupted run.
    if not stored.has_journal and running_apply is None:
        return
    _recover_interrupted_run(run, running_apply, write=records_recovery and run.lock is not None)


def _find_running_apply(run: Run, stored: StoredState) -> LockInfo | None:
    """Return the holder of the lock if it is applying now; the run has no lock."""
    # Most states have no journal.
    if not stored.has_journal and stored.remaining is None:
        return None
    from nexusform.workflow.opening.interrupted_apply import find_running_apply

    return find_running_apply(stored, run.project.backend)


def _recover_interrupted_run(run: Run, running_apply: LockInfo | None, *, write: bool) -> None:
    """Recover the begun steps of an interrupted run, or read those of `running_apply`.

    With `write`, also write their outcomes.
    """
    run.diagnostics += run.check_identities()
    if not run.is_ready:
        return
    # With identities.
    stored = run.stored
    from nexusform.workflow.opening.interrupted_apply import (
        build_running_apply_warning,
        recover_interrupted_apply,
    )

    resolved, problems = recover_interrupted_apply(
        stored, run.providers, run.project.backend, write=write
    )
    run.stored = resolved or stored
    if running_apply is not None:
        # It is not interrupted, and its steps are not to be resumed.
        problems = [build_running_apply_warning(running_apply), *select_errors(problems)]
        run.stored = replace(run.stored, remaining=None)
    run.diagnostics += problems


def _check_local_state(backend: StateBackend) -> list[Diagnostic]:
    """Return a warning in automation if a new state is local: it is lost with the machine.

    The list is empty for a shared backend.
    """
    inner_backend = backend.inner if isinstance(backend, EncryptingBackend) else backend
    if not is_local_state(inner_backend):
        return []
    return [
        build_warning(
            "local-only-state",
            f"NF_IN_AUTOMATION is set, and there is no state at {backend.describe()}. The files of "
            "a CI job are deleted after the job, so the next job would re-create everything. Use a "
            'shared backend, for example `backend "azurerm"`.',
        )
    ]
