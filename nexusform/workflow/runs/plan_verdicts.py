"""Whether a saved plan may be applied: planning gives the same, and nothing stands in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

import nexusform
from nexusform.diagnostics import Diagnostic, Severity, error, warning
from nexusform.planning.modules.outputs import read_all_data
from nexusform.planning.names.setting import standing_evaluation
from nexusform.plans.impact.guard_rails import broken_limits
from nexusform.plans.plan import Mode, Plan
from nexusform.plans.saved.comparison import parts_made_otherwise, things_seen_otherwise
from nexusform.plans.saved.plan_file import SavedPlan
from nexusform.ports import FileProblem, Files
from nexusform.regular_files import Confinement, Outside
from nexusform.words import first_of, listed
from nexusform.workflow.opening.place import load_configuration
from nexusform.workflow.opening.surroundings import commit_of
from nexusform.workflow.runs.run import Run, base_request, options_of

_MOST_NAMED: Final = 5


class CheckedPlan(Struct, frozen=True):
    """What is to be applied (None: refused) and what to say of it."""

    plan: Plan | None
    diagnostics: tuple[Diagnostic, ...] = ()


def judge(run: Run, saved: SavedPlan, *, replan: bool = False, vouched: bool = False) -> CheckedPlan:
    """Whether a saved plan may be applied to what stands.

    Planning again must give the same. What the plan was made of may be another since: then, and with
    `replan`, providers are asked anew; otherwise it is made of the very same, and every part of it counts.
    `vouched`: its signature was verified, so that it may be one that cannot be made again here.
    """
    refusal = _refusal(run, saved) or _unseen(run, saved.plan)
    if refusal is not None:
        return CheckedPlan(None, (refusal,))
    remarks = _other_configuration(run, saved)
    verdict = _verdict(run, saved, replan=replan, vouched=vouched)
    return replace(verdict, diagnostics=(*remarks, *verdict.diagnostics))


def _verdict(run: Run, saved: SavedPlan, *, replan: bool, vouched: bool) -> CheckedPlan:
    plan = saved.plan
    if plan.serial != run.stored.state.serial:
        return _still_the_same(run, plan)
    others = _others_since(run, saved)
    if not others and not replan:
        return _made_again(run, saved, vouched=vouched)
    again = run.plan(options_of(plan)).plan
    other = _told_differences(plan, again)
    if other:
        return CheckedPlan(None, (_not_the_same(others, other),))
    if others:
        return CheckedPlan(again, tuple(map(_other_but_alike, others)))
    return _made_again(run, saved, vouched=vouched)


def _made_again(run: Run, saved: SavedPlan, *, vouched: bool) -> CheckedPlan:
    """The plan, if it is what planning gives of the same configuration, state, time and observations."""
    plan, why = saved.plan, _not_to_be_made(run, saved)
    if not why:
        again = run.plan_of(plan)
        if not again.errored:
            return _equal_to(plan, again)
        first = next(each for each in again.diagnostics if each.severity is Severity.ERROR)
        why = f"Planning again fails here: {first.summary}.{run.project.place.why_confined}"
        if _is_all_here(run, plan):
            # It did not fail when the plan was made of the same.
            return _disagreeing(why)
    return CheckedPlan(plan, (_not_compared(why),)) if vouched else CheckedPlan(None, (_unknown(why),))


def _equal_to(plan: Plan, again: Plan) -> CheckedPlan:
    other = parts_made_otherwise(plan, again)
    if other:
        return _disagreeing(f"Its {listed(other)} are not those that planning gives.")
    return CheckedPlan(plan)


def _not_to_be_made(run: Run, saved: SavedPlan) -> str:
    """Why a plan cannot be made again, "" where it can be tried."""
    plan = saved.plan
    if plan.nexusform_version != nexusform.__version__:
        return f"It was made by nexusform {plan.nexusform_version}."
    changed = _changed_files(plan.basis.files, run.project.files)
    return f"It was made of another {first_of(changed, _MOST_NAMED)}." if changed else ""


def _is_all_here(run: Run, plan: Plan) -> bool:
    """Whether the plan's configuration stands here, and everything that it read from outside can be read."""
    project = run.project
    if plan.basis.states:
        return False
    files = [*plan.basis.files, *plan.basis.data_files]
    return all(_is_readable(path, project.files) for path in files)


def _is_readable(path: str, files: Files) -> bool:
    try:
        files.read(path)
    except FileProblem:
        return False
    return True


def _not_compared(why: str) -> Diagnostic:
    return warning(
        "what-the-plan-shows-was-not-compared",
        f"{why} What it shows could not be compared with what planning gives; it is applied because its "
        "signature was verified.",
    )


def _unknown(why: str) -> Diagnostic:
    return error(
        "saved-plan-cannot-be-made-again",
        f"{why} So nobody can tell here whether it means what it shows. Nothing was done. Plan again; or, "
        "where it was signed, apply it with -verify=key:FILE.",
    )


def _disagreeing(problem: str) -> CheckedPlan:
    refusal = error(
        "saved-plan-does-not-mean-what-it-shows",
        f"{problem} What a plan shows follows from its configuration and the state; somebody changed this "
        "one. Plan again and review the new plan.",
    )
    return CheckedPlan(None, (refusal,))


def _refusal(run: Run, saved: SavedPlan) -> Diagnostic | None:
    """Why a saved plan cannot be applied to what stands."""
    plan, state = saved.plan, run.stored.state
    if plan.errored:
        return error(
            "saved-plan-has-errors", "A plan with errors cannot be applied. Mend them and plan again."
        )
    limits = broken_limits(plan)
    if limits:
        return error(
            "saved-plan-breaks-a-guard-rail",
            f"When it was made, it broke {listed(limits)}. Nothing was done. If that is meant, plan again "
            "with a limit that allows it.",
        )
    if plan.workspace != run.project.workspace:
        return error(
            "saved-plan-is-for-another-workspace",
            f'It was made for the workspace "{plan.workspace}", and "{run.project.workspace}" is selected.',
        )
    if saved.digest in state.applied_plans:
        return error(
            "saved-plan-was-applied-already",
            "The state says that this very plan was applied. If that apply did not come to its end, "
            "`nexusform apply -resume` does what it left to do; otherwise plan again.",
        )
    if plan.lineage != state.lineage:
        return error(
            "saved-plan-does-not-match-the-state",
            f"The plan was made for {_history(plan.lineage)}, and here is "
            f"{_history(state.lineage)}. Plan again.",
        )
    return None


def _history(lineage: str) -> str:
    return f'the state with lineage "{lineage}"' if lineage else "an empty state"


def _still_the_same(run: Run, plan: Plan) -> CheckedPlan:
    """A plan on an older serial: accepted when planning again gives the same changes."""
    if plan.mode is not Mode.NORMAL or plan.targets or plan.excludes or plan.replaces:
        return CheckedPlan(None, (_stale(run, plan, "Plans with special options are not compared."),))
    again = run.plan(options_of(plan)).plan
    other = _told_differences(plan, again)
    if other:
        return CheckedPlan(None, (_stale(run, plan, f"Planning again gives other changes: {other}"),))
    said = warning(
        "the-state-changed-since-the-plan-was-saved",
        f"The plan was made on serial {plan.serial}, and the state has serial {run.stored.state.serial} now. "
        "Planning again gives the identical changes, so they are applied.",
    )
    return CheckedPlan(again, (said,))


def _told_differences(plan: Plan, again: Plan) -> str:
    """What a reviewer would see otherwise in the plan of today, "" when nothing is."""
    if again.errored:
        first = next(each for each in again.diagnostics if each.severity is Severity.ERROR)
        return f"it fails ({first.summary}{', ' if first.address else ''}{first.address})."
    names = things_seen_otherwise(plan, again)
    return f"{first_of(names, _MOST_NAMED)}." if names else ""


# --- what it was made of -----------------------------------------------------------------------


def _unseen(run: Run, plan: Plan) -> Diagnostic | None:
    """Why a confined run cannot tell whether what the plan was made of is another now."""
    place = run.project.place
    if not place.confinement.root:
        return None
    paths = (*plan.basis.files, *plan.basis.data_files)
    names = [f'"{path}"' for path in paths if not _admits(place.confinement, path)]
    if plan.basis.states:
        readable = _states_now(run)
        names += [f"the state that {name} reads" for name in plan.basis.states if name not in readable]
    if not names:
        return None
    return error(
        "saved-plan-reads-what-is-confined",
        f"It was made of {first_of(names, _MOST_NAMED)}, which a confined run does not read, so that nobody "
        f"can tell whether it is another now. Nothing was done.{place.why_confined}",
    )


def _admits(confinement: Confinement, path: str) -> bool:
    try:
        confinement.admitted(path)
    except Outside:
        return False
    return True


def _states_now(run: Run) -> Mapping[str, str]:
    """The states of other configurations that can be read: lineage and serial by the data block's address."""
    evaluation = standing_evaluation(base_request(run.project, run.stored))
    read_all_data(run.project.configuration, evaluation)
    return evaluation.setting.reads.states


def _others_since(run: Run, saved: SavedPlan) -> list[str]:
    """What the plan stands on and is another now: the state of that serial, inventories, other states."""
    plan, others = saved.plan, []
    if plan.prior_digest != run.stored.digest:
        others.append(f"the state under serial {plan.serial}")
    others += [
        f'"{path.removeprefix("./")}"' for path in _changed_files(plan.basis.data_files, run.project.files)
    ]
    if plan.basis.states:
        now = _states_now(run)
        # One that cannot be read now says nothing of whether it changed.
        changed = [name for name, state in plan.basis.states.items() if now.get(name, state) != state]
        others += [f"the state that {name} reads" for name in changed]
    return others


def _changed_files(digests: Mapping[str, str], files: Files) -> list[str]:
    """Files with another content than was read; one that is not here is none of them."""
    changed: list[str] = []
    for path, digest in digests.items():
        try:
            content = files.read(path)
        except FileProblem:
            continue
        if sha256(content).hexdigest() != digest:
            changed.append(path)
    return changed


def _other_configuration(run: Run, saved: SavedPlan) -> list[Diagnostic]:
    """A warning when the configuration that stands here is not the one that was reviewed."""
    standing, _ = load_configuration(run.project.place)
    if standing is None or not standing.files:
        return []
    here = {name: file.text for name, file in standing.files.items()}
    names = [name for name in {**saved.snapshot, **here} if saved.snapshot.get(name) != here.get(name)]
    names += _changed_files(saved.plan.basis.files, run.project.files)
    if not names:
        return []
    place = run.project.place
    commit, now = (
        saved.plan.basis.commit,
        commit_of(place.directory, place.environment, place.confinement_of_directory),
    )
    commits = f" The plan was made at commit {commit[:12]}, and here is {now[:12]}." if commit and now else ""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return [
        warning(
            "configuration-changed-since-the-plan-was-saved",
            f"{', '.join(names[:_MOST_NAMED])}{more}: another content than the plan was made of.{commits} "
            "The plan is applied as it was reviewed; plan again to see what the configuration says now.",
        )
    ]


def _other_but_alike(name: str) -> Diagnostic:
    return warning(
        "what-the-plan-stands-on-changed",
        f"Since the plan was made {name} changed. Planning again gives the identical changes, so they are "
        "applied.",
    )


def _not_the_same(others: Sequence[str], other: str) -> Diagnostic:
    why = f"Since the plan was made {' and '.join(others)} changed, and planning" if others else "Planning"
    return error(
        "saved-plan-is-not-what-planning-gives-now",
        f"{why} again gives something else: {other} Nothing was done. Plan again and review the new plan.",
    )


def _stale(run: Run, plan: Plan, why: str) -> Diagnostic:
    return error(
        "saved-plan-is-stale",
        f"The plan was made on serial {plan.serial} of the state, which has serial "
        f"{run.stored.state.serial} now. {why} Plan again and review the new plan.",
    )
