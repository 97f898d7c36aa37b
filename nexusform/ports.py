"""What nexusform asks of resource types, data sources and providers; state_ports.py: of whoever keeps states.

`Files` and `Clock` are declared in language/evaluation.py and named again here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct, field

from nexusform.address import Address, Mode
from nexusform.demands import NodeMarks, PlacedVm, VmDemand
from nexusform.diagnostics import Problem
from nexusform.forecasts import Claim
from nexusform.language.evaluation import Clock, FileProblem, Files
from nexusform.plain_data import Path
from nexusform.scheduling.racks.vms import Machine, VmSku
from nexusform.scheduling.world import Inventory
from nexusform.schema import BlockSchema
from nexusform.state.objects import State
from nexusform.value_types import Type

__all__ = [
    "Ask",
    "ChangeRequest",
    "Clock",
    "DataAnswer",
    "FileProblem",
    "Files",
    "FollowsPlans",
    "JudgesPlans",
    "Kind",
    "MindsTerms",
    "NotDoneYet",
    "ObjectKey",
    "OutsideProblem",
    "Provider",
    "ProviderAnswer",
    "ProviderProblem",
    "Question",
    "ReadAnswer",
    "ReadContext",
    "ReadRequest",
    "Registries",
    "RemembersObjects",
    "ResourceType",
    "StateQuery",
    "StateReader",
    "StepNews",
    "StepWaits",
    "Surroundings",
    "TellsVerdict",
    "Unplaced",
    "VmFamily",
]

# --- resource types ----------------------------------------------------------------------------


class Surroundings(Protocol):
    """What a resource type may ask of the plan while it states its demand."""

    def sku(self, name: str) -> VmSku | None:
        """A VM SKU by name: the catalogue's, or a nexus_vm_sku's."""
        ...

    def sku_names(self) -> Sequence[str]:
        """All known SKU names, sorted."""
        ...

    def cluster(self, cluster_id: str) -> Mapping[str, Any] | None:
        """The attributes of the nexus_kubernetes_cluster with this id, or None."""
        ...

    def hint_targets(self, resource_id: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """Machines and racks (names) that a placement hint's resource_id stands for now: a VM's
        machine and rack, a machine, or a rack; None when nothing has this id.
        """
        ...

    def machines(self, site_id: str) -> Sequence[Machine] | None:
        """The machines of a site, None when they are not known (what stood before)."""
        ...


# VMs without a machine, by pool and number, as the attributes of their object record them.
Unplaced: TypeAlias = Mapping[tuple[str, "int | str"], Mapping[str, Any]]


class VmFamily(Struct, frozen=True):
    """How a resource type of phase 4 speaks of its VMs. All of these are pure.

    `demand(attributes, surroundings, address)` -> what it wants (None with problems when it
    cannot be told). `standing(attributes)` -> what a prior object has. `unplaced(attributes)` -> the VMs
    that the platform has and found no machine for, by pool and number, as their attributes record them.
    `assemble(attributes, surroundings, placed, unplaced)` -> the computed attributes that show the placements
    (`nodes`, `machine`, ...).
    `unknown_skus(attributes, names)` -> a problem for every SKU in the arguments that is not among the
    names, for checks without a plan. `node(attributes, vm, cluster)` -> what one of its VMs carries as a
    node; `cluster` are the attributes of the cluster that separate pools belong to, else its own.
    What `assemble` gets are the arguments and, of an object that stands, what was computed of it before.
    """

    demand: Callable[[Mapping[str, Any], Surroundings, Address], tuple[VmDemand | None, list[Problem]]]
    standing: Callable[[Mapping[str, Any]], tuple[PlacedVm, ...]]
    assemble: Callable[[Mapping[str, Any], Surroundings, Sequence[PlacedVm], Unplaced], dict[str, Any]]
    unknown_skus: Callable[[Mapping[str, Any], Collection[str]], list[Problem]] = lambda _values, _names: []
    node: Callable[[Mapping[str, Any], PlacedVm, Mapping[str, Any]], NodeMarks] = (
        lambda _values, _vm, _cluster: NodeMarks()
    )
    unplaced: Callable[[Mapping[str, Any]], Unplaced] = lambda _values: {}


class StateQuery(Struct, frozen=True):
    """Which state is asked for: the kind of its backend, that backend's settings, and the workspace.

    `reader` is the name of the data block that asks.
    """

    reader: str
    backend: str
    config: Mapping[str, Any]
    workspace: str


# The state, None with problems when it cannot be read. Their paths are in the query.
StateReader: TypeAlias = Callable[[StateQuery], tuple[State | None, list[Problem]]]


def _no_other_states(_query: StateQuery) -> tuple[State | None, list[Problem]]:
    return None, [Problem((), "the-state-cannot-be-read", "No other state can be read here.")]


class Question(Struct, frozen=True):
    """What a data source asks of a server: `reader` is who asks it (`package.module:function`), `arguments`
    are those of the block.
    """

    reader: str
    arguments: Mapping[str, Any]


# The answer as text. Raises OutsideProblem.
Ask: TypeAlias = Callable[[Question], str]


class OutsideProblem(Exception):
    """What is outside cannot be asked, or answers what nobody can use; the problem says it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def _nobody_to_ask(_question: Question) -> str:
    raise OutsideProblem(Problem((), "the-hub-cannot-be-read", "No server can be asked here."))


class ReadContext(Struct, frozen=True):
    """What a data source may use: files and the time.

    `managed` names what the configuration already stands for (prior state and import blocks):
    clusters and VMs by name, separate pools as `<cluster>/<pool>`. `types` are the resource types by
    name. `read_state` reads the state of another configuration. `ask` asks a server, once in a run.
    """

    files: Files
    now: str  # RFC 3339, UTC
    managed: frozenset[str] = frozenset()
    types: Mapping[str, ResourceType] = field(default_factory=dict)
    read_state: StateReader = _no_other_states
    ask: Ask = _nobody_to_ask


class DataAnswer(Struct, frozen=True):
    """What a data source read: its computed attributes (plain data) and what is wrong.

    `sensitive` are paths in the attributes that must not be shown; `types` say what an attribute is whose
    type the schema leaves open.
    """

    attributes: dict[str, Any]
    problems: Sequence[Problem] = ()
    sensitive: tuple[Path, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)


class Kind(StrEnum):
    """What the objects of a type are to planning, where its schema does not say it."""

    OTHER = "other"
    VM_SKU = "vm_sku"
    RACK = "rack"
    MACHINE = "machine"
    CLUSTER = "cluster"  # separate pools may join it
    MEMBER = "member"
    MANIFEST = "manifest"
    PLACEMENT = "placement"
    SEPARATION_RULE = "separation_rule"
    REMOTE_STATE = "remote_state"
    NODES = "nodes"
    HUB_EXPORT = "hub_export"


class ResourceType(Struct, frozen=True):
    """One resource type or data source; attribute values are plain data.

    `phase` is its planning phase (1..7; 0 for data). `identify(attributes)` gives the id.
    `derive(attributes)` gives computed attributes that follow from the arguments alone.
    `check(attributes)` says what is wrong with the arguments beyond the schema; unknown leaves
    are UNKNOWN and must be let pass. `offer(attributes, address, inventory)` puts what the
    resource offers into the inventory and returns problems. `vms` for types that place VMs.
    `read` for data sources: (arguments, context) -> what was read.
    `present(attributes, name)` gives an attribute as expressions read it, where parts of it are derived
    rather than stored. `fill(arguments)` gives arguments that were left out where others say them (a
    manifest's name). `unpack(arguments, files)` gives arguments that stand in a file which another one
    names, and what is wrong with it. `fleet(attributes)` says what the object is to a fleet (a `FleetObject`
    of that domain); arguments that `check` refused are not asked about. `kind` is what the planner takes its
    objects for. `secrets(attributes)` are the paths of arguments that hold secrets, whatever the
    configuration says. `holds` are the kinds of placements, beside VMs, that its objects bring.
    `brought(attributes, note)` gives the Kubernetes objects that an object of state brought, by member; None
    where its note does not tell. `goes_beside` are types whose objects are done only once those of this type
    that refer to them are (a run goes on when its approval is granted): in an apply both begin together.
    """

    name: str
    phase: int
    schema: BlockSchema
    identify: Callable[[Mapping[str, Any]], str]
    mode: Mode = "managed"
    derive: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    check: Callable[[Mapping[str, Any]], list[Problem]] | None = None
    offer: Callable[[Mapping[str, Any], str, Inventory], list[Problem]] | None = None
    vms: VmFamily | None = None
    read: Callable[[Mapping[str, Any], ReadContext], DataAnswer] | None = None
    present: Callable[[Mapping[str, Any], str], Any] | None = None
    fill: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    unpack: Callable[[Mapping[str, Any], Files], tuple[dict[str, Any], list[Problem]]] | None = None
    fleet: Callable[[Mapping[str, Any]], Any] | None = None
    kind: Kind = Kind.OTHER
    secrets: Callable[[Mapping[str, Any]], tuple[Path, ...]] | None = None
    holds: tuple[str, ...] = ()
    brought: Callable[[Mapping[str, Any], Mapping[str, Any] | None], Any] | None = None
    goes_beside: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """The type in words: "kubernetes cluster"."""
        return self.name.removeprefix("nexus_").replace("_", " ")


# --- providers ---------------------------------------------------------------------------------


class ObjectKey(Struct, frozen=True):
    """What an object is to a provider. `creation` 0 = unknown (import)."""

    type: str
    id: str
    creation: int


class ReadRequest(Struct, frozen=True):
    """Read one object; `attributes` is what state remembers of it. `address` is for messages and
    fault drills. `planned` is what it was to become by a step that may have made it: a provider that finds it
    there takes from it what it cannot see. `unfinished` is its note of that name, `noted` all that its
    private note holds. `going`: a step that an earlier run began was to delete it, and it counts as gone when
    that is over.
    """

    key: ObjectKey
    attributes: Mapping[str, Any]
    address: str = ""
    planned: Mapping[str, Any] | None = None
    unfinished: Mapping[str, Any] | None = None
    going: bool = False
    noted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def known(self) -> Mapping[str, Any]:
        """What is known of the object, if it is there."""
        return self.attributes or self.planned or {}


# Under which key the note of a rack or machine holds the VMs on it that nothing stands for: rows as the
# fields of scheduling.world.Occupied, with its cell numbers where these are known.
UNMANAGED: Final = "unmanaged"
# Under which key it holds those that were forgotten and run on, in such rows, until a provider looks.
FORGOTTEN: Final = "forgotten"
# Under which key the note of an object holds a change of ours that failed, in the provider's own fields and
# as `words` for people. It is due until the provider reads that it is done, or brings it about. With
# `goes_on` it did not fail: an apply that ended before that began it, and it is not over.
UNFINISHED: Final = "unfinished"


class ReadAnswer(Struct, frozen=True):
    """What stands: attributes, or None when the object is gone. `observed` says that the
    provider looked at a reality rather than echoing what it was asked: a reality that says nothing of an
    object does not say that it is gone. `settled` is False while a change of the object still goes on: a step
    that began it is not done. `note` goes into the object's private note in state; what it has as None is
    taken out of that.
    """

    attributes: Mapping[str, Any] | None
    observed: bool = False
    settled: bool = True
    note: Mapping[str, Any] = field(default_factory=dict)


class StepNews(Struct, frozen=True):
    """What a provider tells of a step while it works on it. `operation`: something outside goes on for it
    from now on, in the provider's own words (a URL); it comes back with the step (`ChangeRequest.begun`)
    when this run ends before the step does. `words` are for people. `rests`: all was asked for, and from now
    on the step only waits, so that others may begin.
    """

    operation: str | None = None
    words: str = ""
    rests: bool = False


def _nobody_listens(_news: StepNews) -> None:
    return


class ChangeRequest(Struct, frozen=True):
    """Create, update or delete one object. `address` is for messages and fault drills; `prior`
    is None on create, `planned` None on delete. Creates are idempotent by the key. With `releases`
    this update only gives up VMs, as far as they make room for others; `aim` is what the object is to be
    after all of its steps.

    `begun` is None unless an earlier run began this step: then the operation that it told last, "" when it
    told none. `tell` takes news of the step and returns once they are recorded. `waits_for_people`:
    somebody watches who can do what the provider cannot. `stopping` says whether the run is to end soon.
    `unfinished` is the object's note of an earlier change that failed: it is brought about as well. `noted`
    is all that its private note holds. `ignored` are arguments that are left to others. Of a plan that is
    judged `replaces` is what stands of an object that is deleted before this one is made, and `flaw` why it
    cannot be judged, "" where it can.
    """

    key: ObjectKey
    address: str
    prior: Mapping[str, Any] | None
    planned: Mapping[str, Any] | None
    releases: bool = False
    aim: Mapping[str, Any] | None = None
    begun: str | None = None
    tell: Callable[[StepNews], None] = _nobody_listens
    waits_for_people: bool = False
    stopping: Callable[[], bool] = lambda: False
    unfinished: Mapping[str, Any] | None = None
    noted: Mapping[str, Any] = field(default_factory=dict)
    ignored: tuple[Path, ...] = ()
    replaces: Mapping[str, Any] | None = None
    flaw: str = ""


class ProviderAnswer(Struct, frozen=True):
    """The attributes after a create or update; `observed` are the paths that the provider saw
    for itself (a predicted value there may differ from the plan). `unfinished` is what of the change did not
    come about, as the object's note holds it: it is told as an error, and what came about is saved. `note`
    goes into the object's private note, and so does what became of the plan's `claims` of the object, where
    the provider itself could tell.
    """

    attributes: Mapping[str, Any]
    observed: tuple[Path, ...] = ()
    unfinished: Mapping[str, Any] | None = None
    note: Mapping[str, Any] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()


class ProviderProblem(Exception):
    """A step failed at the provider. `exists` tells that a create failed after the object came
    to be; `attributes` is then what it has. `unfinished` is what is noted of an object that stands: the
    change is due until it is done.
    """

    def __init__(
        self,
        message: str,
        *,
        exists: bool = False,
        attributes: Mapping[str, Any] | None = None,
        unfinished: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.exists = exists
        self.attributes = attributes
        self.unfinished = unfinished


class StepWaits(ProviderProblem):
    """A step has begun and is not over: the next run looks it up and goes on with it. The message says what
    is waited for.
    """


class NotDoneYet(ProviderProblem):
    """A step that somebody else does, at a provider that only looks: what was asked for is not there yet."""


class Provider(Protocol):
    """Carries out steps. Calls may come from several threads at once."""

    name: str  # as shown in JSON: "nexusform.dev/builtin/simulated"
    sends: bool  # False when nothing leaves this machine
    observes: bool  # False when read() can only echo what state remembers (refresh may skip it)

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """Read many objects at once, answers in order."""
        ...

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Make the object. Raises ProviderProblem."""
        ...

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Change it in place. Raises ProviderProblem."""
        ...

    def delete(self, request: ChangeRequest) -> None:
        """Remove it; one that is gone already is no error. Raises ProviderProblem."""
        ...

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """For import: the only object of that type and id."""
        ...

    def remarks(self) -> list[Problem]:
        """What is to be said of what was read so far: warnings."""
        ...


@runtime_checkable
class JudgesPlans(Protocol):
    """A provider that knows beforehand what it cannot do, and what it leaves to people."""

    def judge(self, requests: Sequence[ChangeRequest]) -> list[tuple[int, Problem]]:
        """What is to be said of the changes of a plan, each with the number of the one that it is said of:
        errors for what cannot be done. Raises ProviderProblem when it cannot find out.
        """
        ...


@runtime_checkable
class TellsVerdict(Protocol):
    """A provider that asks the other side what it makes of a plan. It is given deletions as well (without
    `planned`), and changes that are in error (`flaw`), and says that these were not judged.
    """

    def verdict(self) -> str:
        """What the other side made of the plan that was judged last, in sentences; "" for nothing."""
        ...

    def unasked(self, requests: Sequence[ChangeRequest], why: str) -> list[tuple[int, Problem]]:
        """What is to be said where a run asks nobody about changes, each with the number of one of them."""
        ...


@runtime_checkable
class FollowsPlans(Protocol):
    """A provider that compares what comes about with what a plan stood on."""

    def follow(self, answers: Mapping[str, str]) -> None:
        """What servers said to the data blocks of the plan that is carried out from now on, by question."""
        ...


@runtime_checkable
class MindsTerms(Protocol):
    """A provider to which it matters what the operator lets a run do."""

    def mind(self, allows: Callable[[str], bool], *, take_ownership: bool) -> None:
        """Take what says of a URL whether this run may lead the credentials there for a configuration, and
        whether it may write what others manage.
        """
        ...


@runtime_checkable
class ReadsCaptures(Protocol):
    """A provider that shows sites as they were when somebody captured them."""

    def captures(self) -> list[tuple[str, str]]:
        """The sites that were read, and when each was captured (RFC 3339, "" when nothing tells)."""
        ...


@runtime_checkable
class RemembersObjects(Protocol):
    """A provider to which it matters what state has of what it shows."""

    def remember(self, objects: Iterable[Mapping[str, Any]], managed: Iterable[tuple[str, str]]) -> None:
        """Take the attributes of all objects that state has of this provider, and type and id of all
        objects in state.
        """
        ...


class Registries(Struct, frozen=True):
    """The tables of plug-ins, passed in by the workflow: names to what they stand for.

    A table may load what it holds when it is asked for it, so look up what you need.
    """

    resource_types: Mapping[str, ResourceType] = field(default_factory=dict)
    data_sources: Mapping[str, ResourceType] = field(default_factory=dict)

    def kind_of(self, type_name: str) -> Kind:
        """What objects of a type are to planning; OTHER for a type that nobody knows."""
        resource_type = self.resource_types.get(type_name)
        return resource_type.kind if resource_type is not None else Kind.OTHER

    @property
    def schemas(self) -> Mapping[Mode, Mapping[str, BlockSchema]]:
        """The schema of each type by mode and name."""
        return {"managed": _Schemas(self.resource_types), "data": _Schemas(self.data_sources)}


class _Schemas(Mapping[str, BlockSchema]):
    """The schemas of a table of types, each looked up when it is asked for."""

    def __init__(self, types: Mapping[str, ResourceType]) -> None:
        self._types = types

    def __getitem__(self, name: str) -> BlockSchema:
        return self._types[name].schema

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)
