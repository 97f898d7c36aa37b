"""What providers have in common that show a site as it is: reading it, and finding done what was asked for.

They send nothing. What a plan asks for is done by people, or by another tool; once it is done, an apply finds
it there and takes it over. Until then the step fails and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from nexusform.diagnostics import Problem, Severity
from nexusform.ports import ChangeRequest, ObjectKey, ProviderAnswer, ProviderProblem, ReadAnswer, ReadRequest

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.importers.az_adoption import AdoptedObject
    from nexusform.importers.az_model import AzSite

# Gives the sites as they are, and what is wrong with what was read.
ReadSites: TypeAlias = "Callable[[], tuple[tuple[AzSite, ...], list[Problem]]]"

# What Azure knows nothing of: these stand in state alone.
_OF_OURS: Final = frozenset({"nexus_site", "nexus_vm_sku", "nexus_separation_rule"})


class ObservedSites:
    """Sites that are looked at once, when first asked about. See the module's text."""

    sends = False
    observes = True

    def __init__(self, name: str, source: str, advice: str, read_sites: ReadSites) -> None:
        """`source` is what is looked at ("the export in DIR"), `advice` what to do about a step that is not
        done yet.
        """
        self.name = name
        self.source = source
        self._advice = advice
        self._read = read_sites
        self._lock = Lock()
        self._sites: tuple[AzSite, ...] | None = None

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands; nodes keep the numbers that state gave them. Raises ProviderProblem."""
        objects = self._objects([request.attributes for request in requests])
        return [_read(request, objects) for request in requests]

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Find what was to be made. Raises ProviderProblem while it is not there."""
        return self._done(request, "made")

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Find the change done. Raises ProviderProblem while it does not show."""
        return self._done(request, "changed")

    def delete(self, request: ChangeRequest) -> None:
        """Find the object gone. Raises ProviderProblem while it is still there."""
        key = request.key
        if key.type not in _OF_OURS and (key.type, key.id) in self._objects([request.prior or {}]):
            raise ProviderProblem(self._not_yet(request, "removed"))

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """The object of that type and id."""
        one = self._objects([]).get((resource_type, object_id))
        return None if one is None else (ObjectKey(resource_type, object_id, 0), one.attributes)

    def _objects(self, standing: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], AdoptedObject]:
        """The objects of all sites by type and id."""
        from nexusform.importers.az_adoption import adopt_sites, known_nodes

        adopted = adopt_sites(self._read_sites(), known_nodes(standing))
        return {(one.type, one.id): one for site in adopted for one in site.objects}

    def _read_sites(self) -> tuple[AzSite, ...]:
        with self._lock:
            if self._sites is None:
                sites, problems = self._read()
                wrong = [problem for problem in problems if problem.severity is Severity.ERROR]
                if wrong:
                    raise ProviderProblem(f"{wrong[0]}" if wrong[0].file else wrong[0].detail)
                self._sites = sites
            return self._sites

    def _done(self, request: ChangeRequest, word: str) -> ProviderAnswer:
        planned = request.planned or {}
        key = request.key
        if key.type in _OF_OURS:
            return ProviderAnswer(planned)
        one = self._objects([planned]).get((key.type, key.id))
        if one is None:
            raise ProviderProblem(self._not_yet(request, word))
        seen = _with_told(planned, one)
        differing = [name for name in _ASKED.get(key.type, ()) if seen[name] != planned.get(name)]
        if differing:
            raise ProviderProblem(self._not_yet(request, word, differing))
        return ProviderAnswer(seen, tuple((name,) for name in _SEEN.get(key.type, ())))

    def _not_yet(self, request: ChangeRequest, word: str, differing: Sequence[str] = ()) -> str:
        where = f" ({', '.join(differing)} differ)" if differing else ""
        return (
            f"{request.key.type} {request.key.id} is not {word} yet: {self.source} does not show it{where}. "
            f"This provider sends nothing: make the change on the site, {self._advice}, and apply."
        )


# What of a type is asked for and shows on a site, and what the platform decides and shows there.
_MACHINE_STATES: Final = ("roles", "cordon_status", "power_state", "ready_state", "detailed_status")
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "nexus_rack": ("availability_zone",),
    "nexus_bare_metal_machine": _MACHINE_STATES,
    "nexus_kubernetes_cluster": ("kubernetes_version", "control_plane", "agent_pool"),
    "nexus_virtual_machine": ("cpu_cores", "memory_gib", "disk_gib"),
}
_BY_LABEL: Final = ("agent_pool", "nodes")  # maps of which every entry is told
_SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    "nexus_kubernetes_cluster": ("nodes", "node_count"),
    "nexus_virtual_machine": ("machine", "rack", "availability_zone", "cells", "provenance"),
}


def _read(request: ReadRequest, objects: Mapping[tuple[str, str], AdoptedObject]) -> ReadAnswer:
    if request.key.type in _OF_OURS:
        return ReadAnswer(request.attributes or None)
    one = objects.get((request.key.type, request.key.id))
    if one is None:
        return ReadAnswer(None, observed=True)
    return ReadAnswer(_with_told(request.attributes, one), observed=True)


def _with_told(attributes: Mapping[str, Any], one: AdoptedObject) -> dict[str, Any]:
    """Attributes with what the site says of the object over them; all of it where nothing is known."""
    if not attributes:
        return dict(one.attributes)
    seen: dict[str, Any] = {}
    for name in (*_ASKED.get(one.type, ()), *_SEEN.get(one.type, ())):
        known, told = attributes.get(name), one.attributes[name]
        if name in _BY_LABEL and isinstance(known, Mapping):
            known = {label: part for label, part in known.items() if label in told}
        seen[name] = _over(known, told)
    return {**attributes, **seen}


def _over(known: Any, told: Any) -> Any:
    """What a site tells in place of what is known: what it is silent about stays, and absent and empty are
    one, as is the order of a set.
    """
    if not known and not told:
        return known
    if isinstance(known, Mapping) and isinstance(told, Mapping):
        return {**known, **{name: _over(known.get(name), part) for name, part in told.items()}}
    if isinstance(known, list) and isinstance(told, list) and all(isinstance(one, str) for one in known):
        return known if sorted(known) == sorted(map(str, told)) else told
    return told
