"""The `azure_export` provider: a site as `az networkcloud` printed it into a directory.

It reads and sends nothing. What a plan asks for is done by people, or by another tool; once it is done and
captured, an apply finds it there and takes it over. Until then the step fails and says so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.language.surroundings import FileProblem
from nexusform.ports import ChangeRequest, ObjectKey, ProviderAnswer, ProviderProblem, ReadAnswer, ReadRequest
from nexusform.regular_files import FREE, Confinement, NotRegular, TooLarge, read_regular
from nexusform.schema import Attribute, BlockSchema
from nexusform.value_types import STRING, MapType

if TYPE_CHECKING:  # the importers are loaded where a site is read
    from nexusform.importers.az_adoption import AdoptedObject
    from nexusform.importers.az_directory import Export
    from nexusform.importers.az_model import AzSite

NAME: Final = "nexusform.dev/builtin/azure_export"
_LARGEST: Final = 64 * 1024 * 1024  # bytes of one file
# What Azure knows nothing of: these stand in state alone.
_OF_OURS: Final = frozenset({"nexus_site", "nexus_vm_sku", "nexus_separation_rule"})

SETTINGS: Final = BlockSchema(
    {
        "directory": Attribute(
            STRING,
            "Directory with the exported files, relative to the root module's directory.",
            required=True,
        ),
        "machine_sku_by_id": Attribute(
            MapType(STRING),
            "Machine SKU of the catalogue by machineSkuId. Default: what the SKU's name tells.",
            optional=True,
        ),
    },
    {},
    "Reads a site from what `az networkcloud` printed, and sends nothing.",
)


def make(
    settings: Mapping[str, Any], directory: str, _leaving: ExitStack, confinement: Confinement = FREE
) -> AzureExportProvider:
    """The provider for evaluated settings; the directory is read when it is first asked about, where the
    `confinement` lets it.
    """
    path = os.path.normpath(Path(directory) / str(settings["directory"]))
    return AzureExportProvider(path, settings.get("machine_sku_by_id") or {}, confinement)


class AzureExportProvider:
    """A site as it was captured. See the module's text."""

    name = NAME
    sends = False
    observes = True

    def __init__(
        self, directory: str, machine_sku_by_id: Mapping[str, str], confinement: Confinement = FREE
    ) -> None:
        self.directory = directory
        self._confinement = confinement
        self._machine_sku_by_id = machine_sku_by_id
        self._lock = Lock()
        self._sites: tuple[AzSite, ...] | None = None

    def read(self, requests: Sequence[ReadRequest]) -> list[ReadAnswer]:
        """What stands in the export; nodes keep the numbers that state gave them. Raises ProviderProblem."""
        objects = self._objects([request.attributes for request in requests])
        return [_read(request, objects) for request in requests]

    def create(self, request: ChangeRequest) -> ProviderAnswer:
        """Find what was to be made. Raises ProviderProblem while the export does not have it."""
        return self._done(request, "made")

    def update(self, request: ChangeRequest) -> ProviderAnswer:
        """Find the change done. Raises ProviderProblem while the export does not show it."""
        return self._done(request, "changed")

    def delete(self, request: ChangeRequest) -> None:
        """Find the object gone. Raises ProviderProblem while the export still has it."""
        key = request.key
        if key.type not in _OF_OURS and (key.type, key.id) in self._objects([request.prior or {}]):
            raise ProviderProblem(self._not_yet(request, "removed"))

    def find(self, resource_type: str, object_id: str) -> tuple[ObjectKey, Mapping[str, Any]] | None:
        """The object of that type and id in the export."""
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
                sites, problems = read_export(self.directory, self._machine_sku_by_id, self._confinement)
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
            f"{request.key.type} {request.key.id} is not {word} yet: the export in {self.directory} does not "
            f"show it{where}. This provider reads an export and sends nothing: make the change on the site, "
            "capture the export again, and apply."
        )


# What of a type is asked for and shows in an export, and what the platform decides and shows there.
_MACHINE_STATES: Final = ("roles", "cordon_status", "power_state", "ready_state", "detailed_status")
_ASKED: Final[Mapping[str, tuple[str, ...]]] = {
    "nexus_rack": ("availability_zone",),
    "nexus_bare_metal_machine": _MACHINE_STATES,
    "nexus_kubernetes_cluster": ("kubernetes_version", "control_plane", "agent_pool"),
    "nexus_virtual_machine": ("cpu_cores", "memory_gib", "disk_gib"),
}
_BY_LABEL: Final = ("agent_pool", "nodes")  # maps of which an export tells every entry
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
    """Attributes with what the export says of the object over them; all of it where nothing is known."""
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
    """What an export tells in place of what is known: what it is silent about stays, and absent and empty are
    one, as is the order of a set.
    """
    if not known and not told:
        return known
    if isinstance(known, Mapping) and isinstance(told, Mapping):
        return {**known, **{name: _over(known.get(name), part) for name, part in told.items()}}
    if isinstance(known, list) and isinstance(told, list) and all(isinstance(one, str) for one in known):
        return known if sorted(known) == sorted(map(str, told)) else told
    return told


# --- files -------------------------------------------------------------------------------------


def read_export(
    directory: str, machine_sku_by_id: Mapping[str, str], confinement: Confinement = FREE
) -> tuple[tuple[AzSite, ...], list[Problem]]:
    """The sites of a directory and everything wrong with its files."""
    from nexusform.importers.az_inventory import read_sites

    export = read_files(directory, confinement)
    if export.problems:
        return (), export.problems
    sites, findings = read_sites(export.documents, machine_sku_by_id)
    return sites, list(findings)


def read_files(directory: str, confinement: Confinement = FREE) -> Export:
    """The files of a directory by kind, and what cannot be read."""
    from nexusform.importers.az_directory import Export, read_directory

    try:
        names = [entry.name for entry in os.scandir(confinement.admitted(directory)) if entry.is_file()]
    except OSError as problem:
        detail = f'The directory "{directory}" cannot be read: {problem.strerror}.'
        return Export(problems=[Problem((), "unreadable-file", detail)])
    return read_directory(directory, names, lambda path: _content(path, confinement))


def _content(path: str, confinement: Confinement) -> bytes:
    try:
        return read_regular(confinement.admitted(path), _LARGEST)
    except NotRegular:
        raise FileProblem(f'"{path}" is not a regular file.') from None
    except TooLarge:
        raise FileProblem(f'"{path}" is larger than {_LARGEST} bytes, the most that is read.') from None
    except OSError as problem:
        raise FileProblem(f'"{path}" cannot be read: {problem.strerror}.') from None
