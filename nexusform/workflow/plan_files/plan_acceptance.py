"""Acceptance of a saved plan: signatures, withdrawals, place and age.

One check for `apply FILE`, `apply -resume`, `sites apply` and `serve sol003`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct

from nexusform.diagnostics.diagnostic import Diagnostic, has_errors
from nexusform.files.regular_files import Confinement
from nexusform.plans.plan import Plan
from nexusform.plans.plan_checks import PlanOrigin
from nexusform.workflow.opening.command_context import CommandContext
from nexusform.workflow.plan_files.plan_revocations import check_not_withdrawn
from nexusform.workflow.plan_files.plan_signing import verify_signature
from nexusform.workflow.plan_files.plan_statement import check_plan_statement
from nexusform.workflow.runs.plan_origin import PlanRequirements, check_plan_age, check_plan_place


class PlanVerification(Struct, frozen=True):
    """The checks that an operator requires: `key_files` must all have signed the plan.

    With `replan`, a new plan must be equal. With `is_ancestor`, the commit of the plan must be
    an ancestor. `max_age` is the maximum age in seconds (None: as saved), `revocation_files`
    list withdrawn plans.
    """

    key_files: tuple[str, ...] = ()
    replan: bool = False
    is_ancestor: bool = False
    max_age: float | None = None
    revocation_files: tuple[str, ...] = ()

    @property
    def requirements(self) -> PlanRequirements:
        """The requirements besides signatures and withdrawals."""
        return PlanRequirements(bool(self.key_files), self.replan, self.is_ancestor, self.max_age)


class PlanIdentity(Struct, frozen=True):
    """Digest, place (None: not recorded), time and maximum age (0: none) of a saved plan."""

    digest: str
    origin: PlanOrigin | None
    timestamp: str
    max_age: float


def build_plan_identity(plan: Plan, digest: str) -> PlanIdentity:
    """Build the identity of the plan of one configuration, with the digest of its file."""
    return PlanIdentity(digest, plan.basis.origin, plan.start.timestamp, plan.basis.max_age)


def check_plan_acceptance(
    identity: PlanIdentity,
    verification: PlanVerification,
    context: CommandContext,
    find_current: Callable[[], PlanOrigin],
) -> list[Diagnostic]:
    """Return errors for a plan that is withdrawn, too old, or of another place.

    `find_current` returns the place here.
    """
    problems: list[Diagnostic] = []
    for revocation_file in verification.revocation_files:
        problems += check_not_withdrawn(
            identity.digest, revocation_file, verification.key_files, context.confinement
        )
    requirements = verification.requirements
    problems += check_plan_place(identity.origin, find_current, requirements, context.directory)
    problems += check_plan_age(
        identity.timestamp, identity.max_age, requirements, context.environment
    )
    return problems


class SignedContent(Protocol):
    """Content of a plan file as its signature covers it."""

    @property
    def digest(self) -> str:
        """Digest of the plan."""

    @property
    def signed_digest(self) -> str:
        """Digest of all parts of the file but the signature."""

    @property
    def signature(self) -> Mapping[str, Any] | None:
        """Part with the signature, None if unsigned."""


def check_plan_signatures(
    content: SignedContent, path: str, key_files: Sequence[str], confinement: Confinement
) -> list[Diagnostic]:
    """Return errors unless a plan file and its statement are signed with each key."""
    problems: list[Diagnostic] = []
    for key_file in key_files:
        problems += verify_signature(
            content.signature, content.signed_digest, key_file, confinement
        )
        # Otherwise the plan is already refused.
        if not has_errors(problems):
            problems += check_plan_statement(content.digest, path, key_file)
    return problems
