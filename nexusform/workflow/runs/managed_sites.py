"""Warnings about sites to create that another workspace of the backend manages, or may manage."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.plans.plan import Action, Change, Plan
from nexusform.workflow.opening.stored_state import read_stored_state

_SITE_SUFFIX: Final = "_site"
# Changes by type and id.
SiteChanges: TypeAlias = Mapping[tuple[str, str], Change]


class UnreadableWorkspace(Exception):
    """Workspace whose state cannot be read; the message is the reason."""


def list_managed_site_warnings(
    plan: Plan, backend: StateBackend, workspace: str
) -> list[Diagnostic]:
    """Return a warning for each site to create that another workspace has in its state.

    A workspace that cannot be read gets a warning too: it may manage a site.
    """
    sites = {
        (change.address.type, change.id): change
        for change in plan.changes
        if change.action is Action.CREATE and change.address.type.endswith(_SITE_SUFFIX)
    }
    if not sites:
        return []
    try:
        names = [name for name in backend.list_workspaces() if name != workspace]
    except BackendProblem as problem:
        return [_build_unknown_owner_warning(sites, "The other workspaces", str(problem))]
    warnings: list[Diagnostic] = []
    # The first workspace of each site.
    owners: dict[tuple[str, str], str] = {}
    for name in names:
        try:
            for key in _list_objects(backend, name):
                owners.setdefault(key, name)
        except UnreadableWorkspace as problem:
            subject = f'The workspace "{name}"'
            warnings.append(_build_unknown_owner_warning(sites, subject, str(problem)))
    warnings += [
        _build_site_warning(change, owners[key]) for key, change in sites.items() if key in owners
    ]
    return warnings


def _list_objects(backend: StateBackend, workspace: str) -> Iterator[tuple[str, str]]:
    """Yield type and id of the objects in the state of a workspace.

    Raises UnreadableWorkspace.
    """
    try:
        workspace_backend = backend.select_workspace(workspace)
    except BackendProblem as problem:
        raise UnreadableWorkspace(str(problem)) from None
    stored, problems = read_stored_state(workspace_backend, checks_objects=False)
    if stored is None:
        raise UnreadableWorkspace(" ".join(problem.detail for problem in problems))
    for address, current in stored.state.list_current_objects():
        yield address.type, str(current.attributes.get("id"))


def _build_site_warning(change: Change, workspace: str) -> Diagnostic:
    """Build the warning about one site."""
    detail = (
        f'The workspace "{workspace}" manages site {change.id}. This workspace has no state, so '
        "the plan starts from an empty site. If it is the same site, select that workspace:\n"
        f"nexusform workspace select {workspace}"
    )
    return build_warning("site-managed-elsewhere", detail, change.source, block=change.block)


def _build_unknown_owner_warning(sites: SiteChanges, subject: str, reason: str) -> Diagnostic:
    """Build the warning about workspaces without a readable state."""
    first = next(iter(sites.values()))
    ids = ", ".join(object_id for _, object_id in sites)
    noun = "site" if len(sites) == 1 else "sites"
    detail = (
        f"{subject} cannot be read, and may manage {noun} {ids}. This workspace has no state, so "
        "the plan starts from an empty site. Repair the state, or check it before you apply. "
        f"Reason: {reason}"
    )
    return build_warning("site-owner-unknown", detail, first.source, block=first.block)
