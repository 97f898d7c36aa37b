"""Resource instance during planning: arguments, prior object, and action."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.configuration.body_preparation import PreparedBody
from nexusform.configuration.declarations.configuration import Lifecycle, ResourceBlock
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    Position,
    Problem,
    Span,
    build_diagnostic,
    get_text_line,
)
from nexusform.interfaces.plugins import ResourceType
from nexusform.json_data.plain_data import Path, Refinements
from nexusform.json_data.secret_paths import add_secret_paths, find_secret_texts, redact_texts
from nexusform.planning.name_resolution.instance_scope import ModuleInstance
from nexusform.planning.name_resolution.repetition import InstanceView, RepetitionData
from nexusform.plans.plan import Action
from nexusform.resources.address import Address
from nexusform.state.objects import ObjectState
from nexusform.values.typed_value import UNKNOWN

UNKNOWN_PLACEMENT = "placement-argument-unknown"
# Objects are replaced with their host or cluster: OpenTofu's "replace_by_triggers" in JSON.
REPLACED_WITH_HOST = "replace_with_its_place"


class EvaluatedArguments(Struct, frozen=True):
    """Evaluated arguments of an instance.

    `config` are the arguments with ignored changes restored, None for a removed instance.
    `sensitive` are the paths marked as sensitive; `secrets` those sensitive by their content:
    problems with them are still reported. `refined` holds the refinements of unknown values.
    """

    config: dict[str, Any] | None = None
    sensitive: tuple[Path, ...] = ()
    secrets: tuple[Path, ...] = ()
    refined: Refinements = ()


class ActionDecision(Struct, frozen=True):
    """Decided action on an instance.

    `planned` are all attributes after, None if it is removed. `reason` is the reason of a
    replacement or removal (action_reason), `replace_paths` the arguments that cannot be updated.
    `unresolved` are computed attributes with missing VMs: references to them are unknown.
    """

    action: Action = Action.NO_OP
    planned: dict[str, Any] | None = None
    reason: str = ""
    replace_paths: tuple[Path, ...] = ()
    unresolved: frozenset[str] = frozenset()


_NO_ARGUMENTS = EvaluatedArguments()
_NO_DECISION = ActionDecision()


class Instance(Struct):
    """One instance of a managed resource, with its arguments and decision set stage by stage.

    `prior` is the object as read by the provider (None: it does not exist). References to invalid
    instances (`is_invalid`) are unknown; of a rejected one a precondition fails. `forced_reason` is
    an external reason to replace (action_reason), with its placement trigger. `private` is the new
    private note (None: unchanged); this alone is no change.
    """

    address: Final[Address]
    type: Final[ResourceType]
    prior: Final[ObjectState | None]
    block: Final[ResourceBlock | None] = None
    module: Final[ModuleInstance | None] = None
    repetition: Final[RepetitionData | None] = None
    prepared: Final[PreparedBody | None] = None
    dependencies: Final[tuple[str, ...]] = ()
    create_first: Final[bool] = False
    importing: Final[str] = ""
    deposed: Final[Mapping[str, ObjectState]] = field(default_factory=dict)
    previous_address: Final[Address | None] = None
    arguments: EvaluatedArguments = _NO_ARGUMENTS
    decision: ActionDecision = _NO_DECISION
    is_invalid: bool = False
    is_rejected: bool = False
    forced_reason: str = ""
    private: Mapping[str, Any] | None = None

    @property
    def config(self) -> dict[str, Any] | None:
        """Arguments; None if the instance is removed."""
        return self.arguments.config

    @property
    def planned(self) -> dict[str, Any] | None:
        """All attributes after the plan; None if the instance is removed."""
        return self.decision.planned

    @property
    def action(self) -> Action:
        """Action of the plan on the instance."""
        return self.decision.action

    @property
    def lifecycle(self) -> Lifecycle:
        """Lifecycle block of the instance."""
        return self.block.lifecycle if self.block is not None else _NO_LIFECYCLE

    @property
    def before(self) -> Mapping[str, Any] | None:
        """Prior attributes."""
        return self.prior.attributes if self.prior is not None else None

    @property
    def prior_note(self) -> Mapping[str, Any]:
        """Private note of the prior object; empty without one."""
        return self.prior.note if self.prior is not None else {}

    @property
    def prior_creation(self) -> int:
        """Creation number of the prior object; 0 for none."""
        return self.prior.creation if self.prior is not None else 0

    @property
    def argument_values(self) -> dict[str, Any] | None:
        """Evaluated arguments.

        Without an evaluation all planned attributes, or None if the instance is removed.
        """
        return self.config if self.config is not None else self.planned

    @property
    def block_header(self) -> str:
        """Header of the block; "" for a removed one."""
        return self.block.header if self.block is not None else ""

    @property
    def is_configured(self) -> bool:
        """Whether the instance is configured and within the selection."""
        return self.block is not None and not self.is_removed

    @property
    def is_removed(self) -> bool:
        """Whether the instance leaves the state, destroyed or forgotten."""
        return self.action in (Action.DELETE, Action.FORGET)

    @property
    def is_unselected(self) -> bool:
        """Whether an existing object is outside the selection, so that it stays.

        An object of an unknown type stays as well.
        """
        return self.prior is not None and self.block is None and self.action is Action.NO_OP

    @property
    def is_replaced(self) -> bool:
        """Whether a new object replaces the old one."""
        return self.action in (Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def is_destroyed(self) -> bool:
        """Whether the plan destroys the prior object."""
        return self.is_replaced or self.action is Action.DELETE

    @property
    def loses_prior_object(self) -> bool:
        """Whether the prior object leaves the state: the instance is removed or replaced."""
        return self.is_removed or self.is_replaced

    @property
    def view(self) -> InstanceView:
        """The instance as seen by expressions."""
        values: Mapping[str, Any] | None = None if self.is_invalid else self.planned
        # Computed attributes with missing VMs.
        unresolved = self.decision.unresolved
        if values is not None and unresolved:
            values = {**values, **dict.fromkeys(unresolved, UNKNOWN)}
        return InstanceView(
            values, self.hidden_paths, self.type.schema, self.type.present, self.arguments.refined
        )

    @property
    def hidden_paths(self) -> tuple[Path, ...]:
        """Paths that no report displays."""
        return add_secret_paths(self.arguments.sensitive, self.arguments.secrets)

    def locate(self, path: Path) -> Span | None:
        """Return the source span of an argument value, else of the header of the block.

        Return None without a block.
        """
        if self.prepared is not None and path:
            return self.prepared.locate(path)
        return self.block.header_span if self.block is not None else None

    def _locate_beside_secrets(self, path: Path) -> Span | None:
        """Return the source span of an argument, without lines that contain a literal secret.

        Messages show the lines of a span. It ends where a text of several lines begins, and is the
        header of the block if the secret is on the same line.
        """
        span = self.locate(path)
        secrets = [self.locate(secret) for secret in self.arguments.secrets]
        spans = [secret for secret in secrets if secret is not None]
        if span is None or not any(_have_common_line(span, secret) for secret in spans):
            return span
        first = span.start
        begin = Span(span.filename, first, Position(first.line, first.column + 1, first.byte + 1))
        is_beside = any(
            secret.start.line == secret.end.line and _have_common_line(begin, secret)
            for secret in spans
        )
        return self.block.header_span if is_beside and self.block is not None else begin

    def build_diagnostic(
        self, problem: Problem, arguments: Mapping[str, Any] | None = None
    ) -> Diagnostic:
        """Return a resource type's problem as a diagnostic at its line.

        Details about a sensitive value are hidden, because they would reveal parts of it.
        For a problem in a text, its line is displayed. The text is in `arguments`, by
        default in `config`.
        """
        values = arguments if arguments is not None else self.config or {}
        # The text shows its line.
        text = values.get(str(problem.path[0])) if problem.path and problem.line else None
        detail = problem.detail
        brief = problem.brief
        line = get_text_line(text, problem.line)
        is_secret = any(problem.path[: len(path)] == path for path in self.arguments.sensitive)
        # That one says nothing about the value.
        if is_secret and problem.id != SENSITIVE_PLACEMENT:
            detail = _HIDDEN_DETAIL
            brief = ""
            line = None
        else:
            secrets = find_secret_texts(values, self.arguments.secrets)
            detail = redact_texts(detail, secrets)
            brief = redact_texts(brief, secrets)
            # Its other lines may hold the secret.
            is_secret = any(problem.path[: len(path)] == path for path in self.arguments.secrets)
            line = None if is_secret else line
        return build_diagnostic(
            problem.severity,
            problem.id,
            detail,
            self._locate_beside_secrets(problem.path),
            address=str(self.address),
            block=self.block_header,
            headline=problem.headline,
            brief=brief,
            line=line,
            site_id=problem.site_id,
        )

    def build_diagnostics(self, problems: Iterable[Problem]) -> list[Diagnostic]:
        """Return a resource type's problems as diagnostics."""
        return [self.build_diagnostic(problem) for problem in problems]

    def build_error(
        self, kind: str, detail: str, path: Path = (), headline: str = ""
    ) -> Diagnostic:
        """Build an error about this instance."""
        return self.build_diagnostic(Problem(path, kind, detail, headline=headline))


def _have_common_line(first: Span, second: Span) -> bool:
    return (
        first.filename == second.filename
        and first.start.line <= second.end.line
        and second.start.line <= first.end.line
    )


_NO_LIFECYCLE = Lifecycle()
SENSITIVE_PLACEMENT = "sensitive-value-decides"
_HIDDEN_DETAIL = (
    "The value is sensitive, so the problem is not shown. Wrap it in nonsensitive() to see it."
)
