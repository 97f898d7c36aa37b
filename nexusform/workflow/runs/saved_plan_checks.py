"""Checks whether a saved plan may be applied.

re-planning gives the same plan, and nothing prevents it.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

import nexusform
from nexusform.applying.provider_calls import get_provider_name
from nexusform.configuration.loader import MAX_FILE_BYTES, list_automatic_variable_files
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    build_error,
    build_warning,
    has_errors,
    select_errors,
)
from nexusform.diagnostics.phrases import format_count, format_first_items, format_list
from nexusform.files.regular_files import Confinement, OutsideConfinement
from nexusform.interfaces.plugins import FileProblem, Files
from nexusform.planning.modules.root_outputs import read_all_data
from nexusform.planning.name_resolution.evaluation_settings import build_state_evaluation
from nexusform.plans.impact.guard_rails import list_broken_limits
from nexusform.plans.plan import Mode, Plan
from nexusform.plans.saved.plan_comparison import list_different_parts, list_visible_differences
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.workflow.opening.command_context import CommandContext, load_project_configuration
from nexusform.workflow.opening.git_work_tree import find_commit
from nexusform.workflow.opening.system_io import read_file
from nexusform.workflow.runs.evaluation_record import is_in_work_tree
from nexusform.workflow.runs.plan_origin import PlanRequirements
from nexusform.workflow.runs.run import Run, build_base_request, get_plan_options

_INSTANCE_KEY: Final = re.compile(r'\["(?:[^"\\]|\\.)*"\]')
_MAX_NAMES: Final = 5
_NO_REQUIREMENTS: Final = PlanRequirements()


class CheckedPlan(Struct, frozen=True):
    """The plan to apply (None: rejected) with diagnostics."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...] = ()


def check_saved_plan(
    run: Run, saved: SavedPlan, requirements: PlanRequirements = _NO_REQUIREMENTS
) -> CheckedPlan:
    """Check whether a saved plan may be applied to the current state.

    A plan that may not be applied is rejected with an error. A new plan has to be the same, see
    `_compare_plan`. A plan with a verified signature may be irreproducible here. If `requirements`
    need a new plan, it also reads the providers.
    """
    rejection = _check_plan_applicable(run, saved) or _check_confinement(run, saved.plan)
    if rejection is not None:
        return CheckedPlan(plan=None, diagnostics=(rejection,))
    diagnostics = _check_configuration(run, saved, requirements)
    diagnostics += _check_variable_files(
        run.project.context, saved.plan, replan=requirements.replan
    )
    known_systems = {*run.stored.state.providers, *saved.plan.observed.providers}
    diagnostics += run.check_identities(saved.plan.observed.providers)
    diagnostics += _check_systems_known(run, saved.plan, known_systems)
    if has_errors(diagnostics):
        return CheckedPlan(plan=None, diagnostics=tuple(diagnostics))
    verdict = _compare_plan(
        run, saved, replan=requirements.replan, is_verified=requirements.is_verified
    )
    return replace(verdict, diagnostics=(*diagnostics, *verdict.diagnostics))


def _check_systems_known(run: Run, plan: Plan, known_systems: Collection[str]) -> list[Diagnostic]:
    """Return an error for each provider with steps if its system may be another than planned.

    `known_systems` are the providers whose system the state or the plan records. A first plan with
    -refresh=false records none.
    """
    if run.identities is None:
        return []
    involved_providers = {get_provider_name(plan.changes[step.change]) for step in plan.steps}
    return [
        build_error(
            "saved-plan-system-unknown",
            f'The plan changes objects of provider "{name}", but does not record for which system: '
            "it was made without a connection, and the state has no objects there. No changes were "
            "made. Plan again with a connection (without -refresh=false).",
        )
        for name in sorted(involved_providers & run.identities.observed.keys())
        if name not in known_systems
    ]


def _compare_plan(run: Run, saved: SavedPlan, *, replan: bool, is_verified: bool) -> CheckedPlan:
    """Compare a saved plan with a new one, and return the plan to apply, or none with an error.

    If the state has another serial or an input changed, a plan from current values must have the
    same changes, and is applied. So must one for a refresh-only plan: an old observation is never
    recorded. Otherwise the plan is made again from the values recorded in its file, and must be
    equal. With `replan`, a plan from current values must also have the same changes. With
    `is_verified`, the file has a verified signature.
    """
    plan = saved.plan
    if plan.start.serial != run.stored.state.serial:
        return _compare_for_new_serial(run, plan)
    changed_inputs = [f"{name} changed" for name in _list_changed_inputs(run, saved)]
    applies_current_values = bool(changed_inputs) or plan.options.mode is Mode.REFRESH_ONLY
    if applies_current_values or replan:
        verdict = _compare_current_values(run, plan, changed_inputs)
        if applies_current_values or verdict.plan is None:
            return verdict
    return _compare_with_new_plan(run, saved, is_verified=is_verified)


def _compare_current_values(run: Run, plan: Plan, changed_inputs: Sequence[str]) -> CheckedPlan:
    """Accept a plan from current values if it has the same changes.

    `changed_inputs` are clauses about inputs that changed since the saved plan.
    """
    new_plan = run.plan(get_plan_options(plan)).plan
    differences = _describe_differences(plan, new_plan)
    if differences:
        cause = "A new plan from current values"
        if changed_inputs:
            clauses = format_first_items(changed_inputs, _MAX_NAMES)
            cause = f"Since the plan, {clauses}, and a new plan"
        rejection = build_error(
            "saved-plan-outdated",
            (
                f"{cause} differs: {differences} No changes were made. Plan again and review the "
                "new plan."
            ),
        )
        return CheckedPlan(plan=None, diagnostics=(rejection,))
    warnings = [
        build_warning(
            "plan-inputs-changed",
            f"{clause} since the plan. A new plan has the same changes, so they are applied.",
        )
        for clause in changed_inputs
    ]
    # The saved plan lacks the values of the changed inputs.
    return CheckedPlan(new_plan, tuple(warnings))


def _compare_for_new_serial(run: Run, plan: Plan) -> CheckedPlan:
    """Plan again for the current serial of the state.

    Accept the new plan if it has the same changes as `plan`. A state older than the plan is an
    error: others may have newer objects.
    """
    if plan.start.serial > run.stored.state.serial:
        return CheckedPlan(None, (_build_older_state_error(run, plan),))
    if (
        plan.options.mode is not Mode.NORMAL
        or plan.options.targets
        or plan.options.excludes
        or plan.options.replaces
    ):
        return CheckedPlan(
            None, (_build_stale_error(run, plan, "Plans with special options are not compared."),)
        )
    new_plan = run.plan(get_plan_options(plan)).plan
    differences = _describe_differences(plan, new_plan)
    if differences:
        return CheckedPlan(
            None, (_build_stale_error(run, plan, f"A new plan has other changes: {differences}"),)
        )
    serial_warning = build_warning(
        "state-changed-since-plan",
        f"The plan is for serial {plan.start.serial}; the state now has serial "
        f"{run.stored.state.serial}. A new "
        "plan has the same changes, so they are applied.",
    )
    return CheckedPlan(new_plan, (serial_warning,))


def _compare_with_new_plan(run: Run, saved: SavedPlan, *, is_verified: bool) -> CheckedPlan:
    """Accept the plan if its recorded inputs give the same plan.

    An irreproducible one needs a verified signature.
    """
    plan = saved.plan
    reason = _explain_not_reproducible(run, saved)
    if not reason:
        new_plan = run.rebuild_plan(plan)
        if not new_plan.errored:
            verdict = _compare_all_parts(saved, new_plan)
            moved_inputs = _list_moved_inputs(plan, new_plan) if verdict.plan is None else []
            return _compare_current_values(run, plan, moved_inputs) if moved_inputs else verdict
        first_error = select_errors(new_plan.diagnostics)[0]
        reason = (
            "Planning again fails here: "
            f"{first_error.summary}.{run.project.context.confinement_note}"
        )
        unread_names = _list_unread_inputs(run, plan)
        if unread_names:
            names = format_first_items(unread_names, _MAX_NAMES)
            reason = f"Inputs of the plan cannot be read here: {names}. {reason}"
        elif not plan.basis.states:
            # The original planning with the same inputs succeeded.
            return _reject_plan(reason)
    if is_verified:
        unverified_content_warning = build_warning(
            "unverified-saved-plan",
            f"{reason} Its content could not be compared with a new plan. It is applied because "
            "its signature was verified.",
        )
        return CheckedPlan(plan, (unverified_content_warning,))
    not_reproducible_error = build_error(
        "saved-plan-not-reproducible",
        f"{reason} The plan cannot be verified here. No changes were made. Plan again, or apply a "
        "signed plan with -verify=key:FILE.",
    )
    return CheckedPlan(plan=None, diagnostics=(not_reproducible_error,))


def _compare_all_parts(saved: SavedPlan, new_plan: Plan) -> CheckedPlan:
    """Accept the plan if all of its parts equal those of a new plan.

    So do the figures of confidence: the predictions of the plan are verified with them.
    """
    differing_parts = list_different_parts(saved.plan, new_plan)
    if differing_parts:
        problem = f"Its {format_list(differing_parts)} differ from a new plan."
        return _reject_plan(problem)
    return CheckedPlan(saved.plan)


def _explain_not_reproducible(run: Run, saved: SavedPlan) -> str:
    """Return why a new plan may differ: another version, or changed files read by functions.

    Return "" if it may not differ.
    """
    plan = saved.plan
    if plan.start.nexusform_version != nexusform.__version__:
        return f"nexusform {plan.start.nexusform_version} created it."
    changed_files = _list_changed_files(plan.basis.files, run.project.files)
    return (
        f"Its inputs changed: {format_first_items(changed_files, _MAX_NAMES)}."
        if changed_files
        else ""
    )


def _list_unread_inputs(run: Run, plan: Plan) -> list[str]:
    """List the files of the plan that cannot be read here."""
    names = []
    for path in (*plan.basis.files, *plan.basis.data_files):
        try:
            run.project.files.read(path)
        except FileProblem:
            names.append(f'"{path.removeprefix("./")}"')
    return names


def _reject_plan(problem: str) -> CheckedPlan:
    """Build the rejection of a plan not derived from its inputs; its file was modified."""
    cause = "A plan follows from its configuration and the state, so this file was modified."
    rejection = build_error(
        "saved-plan-contents-mismatch", f"{problem} {cause} Plan again and review the new plan."
    )
    return CheckedPlan(plan=None, diagnostics=(rejection,))


def _check_plan_applicable(run: Run, saved: SavedPlan) -> Diagnostic | None:
    """Return an error for a plan that may not be applied; otherwise None.

    It is over its limits, of another workspace or state, or already applied.
    """
    plan = saved.plan
    state = run.stored.state
    limits = list_broken_limits(plan)
    if limits:
        return build_error(
            "saved-plan-guard-rail",
            f"The plan exceeds {format_list(limits)}. No changes were made. To allow this, plan "
            "again with a higher limit.",
        )
    if plan.options.workspace != run.project.workspace:
        return build_error(
            "saved-plan-workspace-mismatch",
            (
                f'The plan is for the workspace "{plan.options.workspace}", but '
                f'"{run.project.workspace}" is selected.'
            ),
        )
    if saved.digest in state.applied_plans:
        return build_error(
            "saved-plan-already-applied",
            "The state has already applied this plan. If that apply was interrupted, continue it "
            "with `nexusform apply -resume`; otherwise plan again.",
        )
    if plan.start.lineage != state.lineage:
        planned_state, current_state = [
            f'the state with lineage "{lineage}"' if lineage else "an empty state"
            for lineage in (plan.start.lineage, state.lineage)
        ]
        detail = f"The plan is for {planned_state}, but this is {current_state}. Plan again."
        return build_error("saved-plan-state-mismatch", detail)
    return None


def _describe_differences(plan: Plan, new_plan: Plan) -> str:
    """Return the visible differences of a new plan, or its first error, as text.

    Return "" if the new plan looks the same.
    """
    if new_plan.errored:
        first_error = select_errors(new_plan.diagnostics)[0]
        # A key may be secret here.
        address = _INSTANCE_KEY.sub("[...]", first_error.address)
        reason = f"{first_error.summary}, {address}" if address else first_error.summary
        return f"it fails ({reason})."
    names = list_visible_differences(plan, new_plan)
    if not names:
        return ""
    # A new instance key may hold a value of this machine, unseen by the reviewer.
    known_keys = set(
        _INSTANCE_KEY.findall(" ".join(str(change.address) for change in plan.changes))
    )
    shown_names = [name for name in names if known_keys.issuperset(_INSTANCE_KEY.findall(name))]
    hidden_count = len(names) - len(shown_names)
    if hidden_count:
        shown_names.append(f"{format_count(hidden_count, 'object')} with new instance keys")
    return f"{format_first_items(shown_names, _MAX_NAMES)}."


def _check_confinement(run: Run, plan: Plan) -> Diagnostic | None:
    """Return an error if a sandboxed run cannot read all inputs of the plan to check them.

    Return None if it can read all of them.
    """
    context = run.project.context
    if not context.confinement.root:
        return None
    paths = (*plan.basis.files, *plan.basis.data_files)
    names = [f'"{path}"' for path in paths if not _is_path_admitted(context.confinement, path)]
    if plan.basis.states:
        readable = _read_remote_states(run)
        names += [
            f"the state that {name} reads" for name in plan.basis.states if name not in readable
        ]
    if not names:
        return None
    return build_error(
        "saved-plan-outside-confinement",
        f"A sandboxed run cannot read {format_first_items(names, _MAX_NAMES)}, an input of the "
        "plan, to check it "
        f"for changes. No changes were made.{context.confinement_note}",
    )


def _is_path_admitted(confinement: Confinement, path: str) -> bool:
    try:
        confinement.resolve(path)
    except OutsideConfinement:
        return False
    return True


def _read_remote_states(run: Run) -> Mapping[str, str]:
    """Read the states of other configurations.

    Return the versions of the readable states by address of their data block.
    """
    evaluation = build_state_evaluation(build_base_request(run.project, run.stored))
    read_all_data(run.project.configuration, evaluation)
    return evaluation.settings.reads.states


def _list_changed_inputs(run: Run, saved: SavedPlan) -> list[str]:
    """List the changed inputs of the plan.

    Its state (same serial, other content), inventories, other states.
    """
    plan = saved.plan
    changed_inputs = []
    if plan.start.prior_digest != run.stored.digest:
        changed_inputs.append(f"the state under serial {plan.start.serial}")
    changed_files = _list_changed_files(plan.basis.data_files, run.project.files)
    changed_inputs += [f'"{path.removeprefix("./")}"' for path in changed_files]
    if plan.basis.states:
        current_states = _read_remote_states(run)
        for reader, planned_state in plan.basis.states.items():
            # An unreadable state counts as unchanged; _check_confinement reports it for a sandbox.
            if current_states.get(reader, planned_state) != planned_state:
                changed_inputs.append(f"the state that {reader} reads")
    return changed_inputs


def _list_moved_inputs(plan: Plan, new_plan: Plan) -> list[str]:
    """List the files that a new plan reads and the plan did not, or the reverse.

    Also list the functions that find other files now.
    """
    planned = {**plan.basis.files, **plan.basis.data_files}
    current = {**new_plan.basis.files, **new_plan.basis.data_files}
    added = [f'"{path.removeprefix("./")}" was added' for path in current if path not in planned]
    removed = [
        f'"{path.removeprefix("./")}" was removed' for path in planned if path not in current
    ]
    searched = [
        f"the result of {call} changed"
        for call, digest in plan.basis.searches.items()
        if new_plan.basis.searches.get(call, digest) != digest
    ]
    return [*added, *removed, *searched]


def _list_changed_files(digests: Mapping[str, str], files: Files) -> list[str]:
    """List the files with another digest now; unreadable files do not count."""
    changed_files: list[str] = []
    for path, digest in digests.items():
        try:
            content = files.read(path)
        except FileProblem:
            continue
        if sha256(content).hexdigest() != digest:
            changed_files.append(path)
    return changed_files


def _check_configuration(
    run: Run, saved: SavedPlan, requirements: PlanRequirements
) -> list[Diagnostic]:
    """Return a warning if files of a configuration differ from those of the plan.

    Files here, or read by its functions. With strict requirements return an error.
    """
    is_strict = requirements.is_strict
    configuration, _ = load_project_configuration(run.project.context)
    if not configuration.files and not is_strict:
        return []
    current_texts = configuration.file_texts
    planned_texts = saved.configuration_files
    # Also of new and of deleted files.
    all_names = {**planned_texts, **current_texts}
    changed_files = [
        name for name in all_names if planned_texts.get(name) != current_texts.get(name)
    ]
    if requirements.replan and not changed_files:
        # A new plan shows the effect of files read by functions.
        is_strict = requirements.is_verified or requirements.is_ancestor
    changed_files += _list_changed_files(saved.plan.basis.files, run.project.files)
    if not changed_files:
        return []
    context = run.project.context
    commit = saved.plan.basis.commit
    current_commit = find_commit(
        context.directory, context.environment, context.directory_confinement
    )
    commits = ""
    if commit and current_commit:
        commits = (
            f" The plan is for commit {commit[:12]}, and the current commit is "
            f"{current_commit[:12]}."
        )
    text = f"{format_first_items(changed_files, _MAX_NAMES)} changed since the plan.{commits}"
    if is_strict:
        detail = (
            f"{text} -verify applies a plan only with the configuration that was reviewed. No "
            "changes were made. Check out that commit, or plan again and review the new plan."
        )
        return [build_error("saved-plan-configuration-mismatch", detail)]
    return [
        build_warning(
            "configuration-changed-since-plan",
            f"{text} The plan is applied as reviewed. To use the current configuration, plan "
            "again.",
        )
    ]


def _check_variable_files(context: CommandContext, plan: Plan, *, replan: bool) -> list[Diagnostic]:
    """Return a warning if variable files differ from those of the plan; with `replan` an error.

    The plan keeps its values: this only says that a new plan may have other ones. A file that
    cannot be read is always a warning: the job that applies may lack it.
    """
    # Not recorded in plans of earlier versions.
    if plan.basis.variable_files is None:
        return []
    changes, unreadable_files = _describe_variable_file_changes(context, plan.basis.variable_files)
    if replan and changes:
        text = f"Since the plan, {format_first_items(changes, _MAX_NAMES)}."
        detail = f"{text} No changes were made. Plan again and review the new plan."
        return [build_error("saved-plan-outdated", detail)]
    changes += unreadable_files
    if not changes:
        return []
    text = f"Since the plan, {format_first_items(changes, _MAX_NAMES)}."
    detail = f"{text} The plan is applied with its own values. To use the new ones, plan again."
    return [build_warning("variable-files-changed-since-plan", detail)]


def _describe_variable_file_changes(
    context: CommandContext, planned_digests: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Describe the variable files that changed or are new, and those that cannot be read here."""
    changes: list[str] = []
    unreadable_files: list[str] = []
    for path in dict.fromkeys(
        (*planned_digests, *list_automatic_variable_files(context.directory))
    ):
        name = f'"{path}"'
        if path not in planned_digests:
            # A plan records only files of the work tree.
            if is_in_work_tree(path, context.directory):
                changes.append(f"{name} was added")
            continue
        try:
            content = read_file(path, MAX_FILE_BYTES, context.directory_confinement)
        except FileProblem:
            unreadable_files.append(f"{name} was removed, or cannot be read here")
            continue
        if sha256(content).hexdigest() != planned_digests[path]:
            changes.append(f"{name} changed")
    return changes, unreadable_files


def _build_older_state_error(run: Run, plan: Plan) -> Diagnostic:
    """Build the error for a state with an older serial than that of the plan."""
    return build_error(
        "older-state",
        f"The state has serial {run.stored.state.serial}, older than serial {plan.start.serial} on "
        "which the plan was made: a cache answered with an old document, or an older state was "
        f"restored. No changes were made. Check the storage ({run.project.backend.describe()}). If "
        "the older state is right, plan again and review the new plan.",
    )


def _build_stale_error(run: Run, plan: Plan, reason: str) -> Diagnostic:
    """Build the error for a plan of another serial of the state."""
    return build_error(
        "stale-saved-plan",
        f"The plan is for serial {plan.start.serial} of the state, which now has serial "
        f"{run.stored.state.serial}. {reason} Plan again and review the new plan.",
    )
