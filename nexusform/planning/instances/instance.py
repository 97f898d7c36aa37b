"""One resource instance while it is planned: its arguments, what stands, and what becomes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, field

from nexusform.address import Address
from nexusform.configuration.body_evaluation import PreparedBody
from nexusform.configuration.declared.configuration import Lifecycle, ResourceBlock
from nexusform.diagnostics import Diagnostic, Problem, diagnostic, text_line
from nexusform.plain_data import Path, Refined
from nexusform.planning.names.repetition import ObjectView, Repetition
from nexusform.planning.names.scope import ModuleInstance
from nexusform.plans.plan import Action
from nexusform.ports import ResourceType
from nexusform.source import Span
from nexusform.state.objects import ObjectState
from nexusform.values import UNKNOWN

UNDECIDED = "placement-depends-on-an-unknown-value"
# Why what is in a place, or of a cluster, is replaced: in JSON it is OpenTofu's "replace_by_triggers".
WITH_ITS_PLACE = "replace_with_its_place"


class Arguments(Struct, frozen=True):
    """What is written of an instance, evaluated.

    `config` are the arguments with ignored changes taken back, None when the instance goes. `sensitive` are
    the paths that are marked so; `secrets` those that are sensitive by what they hold: what is wrong with
    them is told. `refined` is what is known of values that are not.
    """

    config: dict[str, Any] | None = None
    sensitive: tuple[Path, ...] = ()
    secrets: tuple[Path, ...] = ()
    refined: Refined = ()


class Decision(Struct, frozen=True):
    """What becomes of an instance.

    `planned` are all attributes after, None when it goes. `reason` is why it is replaced or goes
    (action_reason), `replace_paths` what of its arguments cannot be updated. `unsettled` are computed
    attributes that lack VMs which do not fit: what refers to them is unknown.
    """

    action: Action = Action.NO_OP
    planned: dict[str, Any] | None = None
    reason: str = ""
    replace_paths: tuple[Path, ...] = ()
    unsettled: frozenset[str] = frozenset()


_NOTHING_WRITTEN = Arguments()
_NOTHING_DECIDED = Decision()


class Instance(Struct):
    """One instance of a managed resource: what it is, then, stage by stage, its arguments and what becomes of
    it.

    `prior` is the object as the provider found it (None: nothing stands). `broken` instances had errors: what
    refers to them is unknown. `forced` is a reason to replace from outside (action_reason), with its
    placement trigger. `private` is what state is to note of it (None: what it notes now); that alone is no
    change.
    """

    address: Final[Address]
    type: Final[ResourceType]
    prior: Final[ObjectState | None]
    block: Final[ResourceBlock | None] = None
    module: Final[ModuleInstance | None] = None
    repetition: Final[Repetition | None] = None
    prepared: Final[PreparedBody | None] = None
    dependencies: Final[tuple[str, ...]] = ()
    create_first: Final[bool] = False
    importing: Final[str] = ""
    deposed: Final[Mapping[str, ObjectState]] = field(default_factory=dict)
    previous: Final[Address | None] = None
    arguments: Arguments = _NOTHING_WRITTEN
    decision: Decision = _NOTHING_DECIDED
    broken: bool = False
    forced: str = ""
    private: Mapping[str, Any] | None = None

    @property
    def config(self) -> dict[str, Any] | None:
        """Its arguments; None when it goes."""
        return self.arguments.config

    @property
    def planned(self) -> dict[str, Any] | None:
        """All its attributes after the plan; None when it goes."""
        return self.decision.planned

    @property
    def action(self) -> Action:
        """What the plan does with it."""
        return self.decision.action

    @property
    def lifecycle(self) -> Lifecycle:
        """Its lifecycle block."""
        return self.block.lifecycle if self.block is not None else _NO_LIFECYCLE

    @property
    def before(self) -> Mapping[str, Any] | None:
        """The attributes that stand."""
        return self.prior.attributes if self.prior is not None else None

    @property
    def configured(self) -> bool:
        """Whether the configuration asks for it, and the selection takes it in."""
        return self.block is not None and not self.going

    @property
    def going(self) -> bool:
        """Whether it leaves the state, destroyed or forgotten."""
        return self.action in (Action.DELETE, Action.FORGET)

    @property
    def replaced(self) -> bool:
        """Whether a new object takes the place of the old one."""
        return self.action in (Action.REPLACE, Action.REPLACE_CREATE_FIRST)

    @property
    def view(self) -> ObjectView:
        """What expressions see of it."""
        values: Mapping[str, Any] | None = None if self.broken else self.planned
        unsettled = self.decision.unsettled
        if values is not None and unsettled:
            values = {**values, **dict.fromkeys(unsettled, UNKNOWN)}
        return ObjectView(values, self.hidden, self.type.schema, self.type.present, self.arguments.refined)

    @property
    def hidden(self) -> tuple[Path, ...]:
        """What no report shows."""
        return tuple(dict.fromkeys((*self.arguments.sensitive, *self.arguments.secrets)))

    def locate(self, path: Path) -> Span | None:
        """Where a value of its arguments stands."""
        if self.prepared is not None and path:
            return self.prepared.locate(path)
        return self.block.header_span if self.block is not None else None

    def problem(self, problem: Problem, arguments: Mapping[str, Any] | None = None) -> Diagnostic:
        """A resource type's problem as a diagnostic at its line; of a sensitive value it is not told
        what is wrong with it, since that would show parts of it. `arguments`: those that are not kept yet.
        """
        given = arguments if arguments is not None else self.config or {}
        text = given.get(str(problem.path[0])) if problem.path and problem.line else None
        secret = any(problem.path[: len(path)] == path for path in self.arguments.sensitive)
        hidden = secret and problem.path and problem.id != DECIDING_ID
        return diagnostic(
            problem.severity,
            problem.id,
            _HIDDEN if hidden else problem.detail,
            self.locate(problem.path),
            address=str(self.address),
            block=self.block.header if self.block is not None else "",
            headline=problem.headline,
            brief="" if hidden else problem.brief,
            line=None if hidden else text_line(text, problem.line),
        )

    def error(self, kind: str, detail: str, path: Path = (), headline: str = "") -> Diagnostic:
        """An error about this instance."""
        return self.problem(Problem(path, kind, detail, headline=headline))


_NO_LIFECYCLE = Lifecycle()
DECIDING_ID = "sensitive-value-decides"
_HIDDEN = (
    "The value is sensitive, so what is wrong with it is not shown. nonsensitive() shows it while you look."
)
