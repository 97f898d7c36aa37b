"""Place and age of a saved plan: apply accepts it only where and when it is meant for."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, build_warning
from nexusform.diagnostics.phrases import format_duration, format_list
from nexusform.documents.times import CLOCK_TOLERANCE, parse_time
from nexusform.plans.plan import Plan
from nexusform.plans.plan_checks import PlanOrigin
from nexusform.providers.clock import is_clock_fixed, read_clock
from nexusform.workflow.opening.git_work_tree import (
    LOCAL,
    NONE,
    explain_not_ancestor,
    normalize_repository,
)

_UNKNOWN_PLACE: Final = (
    "The plan does not record its repository, directory and backend: an earlier version of "
    "nexusform made it. No changes were made. Plan again."
)


class PlanRequirements(Struct, frozen=True):
    """Requirements of `apply` on a saved plan.

    With `is_verified`, its signature is verified. With `replan`, a new plan is equal. With
    `is_ancestor`, its commit is an ancestor of the current one. `max_age` is in seconds
    (None: as saved).
    """

    is_verified: bool = False
    replan: bool = False
    is_ancestor: bool = False
    max_age: float | None = None

    @property
    def is_strict(self) -> bool:
        """Whether the place has to be known, and the configuration to be the planned one."""
        return self.is_verified or self.replan or self.is_ancestor


def check_origin_complete(plan: Plan) -> list[Diagnostic]:
    """Return an error if a plan to sign lacks a part of its place or time."""
    origin = plan.basis.origin
    if origin is None:
        return [build_error("plan-signing-failed", _UNKNOWN_PLACE)]
    names = ("repository", "directory", "backend", "location", "commit")
    parts = {name: getattr(origin, name) for name in names}
    parts |= {"workspace": plan.options.workspace, "time": plan.start.timestamp}
    missing = [name for name, value in parts.items() if not value]
    if not missing:
        return []
    reason = "The files of .git cannot be read. Plan again."
    detail = f"The plan does not record its {format_list(missing)}. {reason}"
    return [build_error("plan-signing-failed", detail)]


def check_plan_place(
    planned: PlanOrigin | None,
    find_current: Callable[[], PlanOrigin],
    requirements: PlanRequirements,
    directory: str,
) -> list[Diagnostic]:
    """Return an error for a plan of another repository, directory, backend or commit.

    `find_current` returns the place here, `directory` is the one of the configuration. Without
    strict requirements, repositories and unknown parts are not compared.
    """
    if planned is None:
        is_unknown = requirements.is_strict
        return [build_error("saved-plan-place-mismatch", _UNKNOWN_PLACE)] if is_unknown else []
    # An earlier version recorded other forms.
    planned = replace(planned, repository=normalize_repository(planned.repository))
    current = find_current()
    differences = [
        _describe_difference(name, getattr(planned, name), getattr(current, name))
        for name in _list_compared_parts(planned, current, is_strict=requirements.is_strict)
        if getattr(planned, name) != getattr(current, name)
    ]
    if differences:
        detail = (
            f"The plan is for {format_list(differences)}. No changes were made. Apply it "
            "there, or plan again here."
        )
        return [build_error("saved-plan-place-mismatch", detail)]
    if requirements.is_ancestor:
        return _check_ancestor(directory, planned.commit, current.commit)
    return []


def _list_compared_parts(planned: PlanOrigin, current: PlanOrigin, *, is_strict: bool) -> list[str]:
    """List the parts of a place to compare.

    The repository only if strict: it has many names. A directory without a work tree is only a
    name, so it is compared only with another name, and only if strict.
    """
    work_trees = [_has_work_tree(origin) for origin in (planned, current)]
    parts = ["repository"] if is_strict else []
    if all(work_trees) or (is_strict and not any(work_trees)):
        parts.append("directory")
    return [*parts, "backend", "location"]


def _has_work_tree(origin: PlanOrigin) -> bool:
    return origin.has_work_tree and origin.repository != NONE


_PART_NAMES: Final = {"location": "state"}
_REPOSITORY_NAMES: Final = {
    NONE: "a directory without a repository",
    LOCAL: "a repository without a remote",
}


def _describe_difference(name: str, planned: str, current: str) -> str:
    """Describe a part of the place: `the directory "lab" (here it is "prod")`."""
    part = _PART_NAMES.get(name, name)
    if name != "repository":
        return f'the {part} "{planned}" (here it is "{current}")'
    start = _REPOSITORY_NAMES.get(planned, f'the repository "{planned}"')
    end = _REPOSITORY_NAMES.get(current, f'"{current}"')
    return f"{start} (here it is {end})"


def _check_ancestor(directory: str, planned: str, current: str) -> list[Diagnostic]:
    """Return an error unless the commit of the plan is an ancestor of the current one."""
    if {planned, current} & {NONE, ""}:
        reason = "The commit of the plan or of this directory is unknown."
    else:
        reason = explain_not_ancestor(planned, current, directory)
    if not reason:
        return []
    detail = f"-verify=ancestor: {reason} No changes were made."
    return [build_error("saved-plan-not-ancestor", detail)]


def check_plan_age(
    timestamp: str, limit: float, requirements: PlanRequirements, environment: Mapping[str, str]
) -> list[Diagnostic]:
    """Return an error for a plan that is older than its maximum age, or from the future.

    Return a warning if the age is unknown, because SOURCE_DATE_EPOCH sets the time. `timestamp` is
    the time of the plan, `limit` the maximum age saved with it, in seconds.
    """
    shorter_limit = requirements.max_age
    if shorter_limit is not None:
        if limit and shorter_limit > limit:
            detail = (
                f"-max-age: the plan was saved with {format_duration(limit)}, and apply can only "
                "shorten it. No changes were made. Omit the flag, or plan again."
            )
            return [build_error("saved-plan-expired", detail)]
        limit = shorter_limit
    planned_at = parse_time(timestamp)
    now = parse_time(read_clock(environment))
    if not limit or now is None:
        return []
    if planned_at is None or planned_at - now > CLOCK_TOLERANCE:
        reason = f'The time of the plan, "{timestamp}", is in the future or unknown.'
    elif now - planned_at > timedelta(seconds=limit):
        age = format_duration((now - planned_at).total_seconds())
        reason = (
            f"The plan was made at {timestamp}, {age} ago. Its maximum age is "
            f"{format_duration(limit)}."
        )
    elif is_clock_fixed(environment):
        detail = (
            "SOURCE_DATE_EPOCH sets the current time, so the real age of the plan is unknown. "
            f"It is not checked against the maximum age of {format_duration(limit)}. To check "
            "it, unset SOURCE_DATE_EPOCH."
        )
        return [build_warning("plan-age-unknown", detail)]
    else:
        return []
    detail = f"{reason} No changes were made. Plan again and review the new plan."
    return [build_error("saved-plan-expired", detail)]
