"""Warning about sites to create that another workspace of the backend manages."""

from collections.abc import Iterator
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.interfaces.state_storage import BackendProblem, StateBackend
from nexusform.plans.plan import Action, Change, Plan
from nexusform.workflow.opening.stored_state import read_stored_state

_SITE_SUFFIX: Final = "_site"


def list_managed_site_warnings(
    plan: Plan, backend: StateBackend, workspace: str
) -> list[Diagnostic]:
    """Return a warning for each site to create that another workspace has in its state.

    Workspaces that cannot be read are left out.
    """
    sites = {
        (change.address.type, change.id): change
        for change in plan.changes
        if change.action is Action.CREATE and change.address.type.endswith(_SITE_SUFFIX)
    }
    if not sites:
        return []
    try:
        others = [name for name in backend.list_workspaces() if name != workspace]
    except BackendProblem:
        return []
    warnings: list[Diagnostic] = []
    for name in others:
        for key in _list_objects(backend, name):
            # One warning for each site.
            change = sites.pop(key, None)
            if change is not None:
                warnings.append(_build_site_warning(change, name))
        if not sites:
            break
    return warnings


def _list_objects(backend: StateBackend, workspace: str) -> Iterator[tuple[str, str]]:
    """Yield type and id of the objects in the state of a workspace."""
    try:
        workspace_backend = backend.select_workspace(workspace)
    except BackendProblem:
        return
    stored, _ = read_stored_state(workspace_backend, checks_objects=False)
    if stored is None:
        return
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
