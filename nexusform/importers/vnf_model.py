"""A VNF as far as placement goes, whatever document it was read from. Frozen; no behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

MACHINE: Final = "machine"
RACK: Final = "rack"
SITE: Final = "site"
# From the narrowest to the widest.
SCOPES: Final = (MACHINE, RACK, SITE)

# More VMs than any VNF has: larger numbers are mistakes.
MOST_INSTANCES: Final = 10_000

CORRECTED: Final = "document-read-with-a-correction"
IGNORED: Final = "not-read-for-placement"
CONTRADICTORY: Final = "contradictory-documents"
INVALID_DOCUMENT: Final = "invalid-vnf-document"


class Origin(Struct, frozen=True):
    """Where something was declared: the document (`vnfd`, `base_hot`, `nested["x.yaml"]`) and the line."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Size(Struct, frozen=True):
    """What one VM asks for: vCPUs, GiB of memory and of local disk, rounded up; None = not said."""

    vcpus: int | None = None
    memory_gib: int | None = None
    disk_gib: int | None = None


class Vdu(Struct, frozen=True):
    """One kind of VM. `initial` is its number at scale level 0; `maximum` None = unbounded. `stated` and
    `bounded`: the document gives the number, the bounds.
    """

    name: str
    origin: Origin
    size: Size = Size()
    minimum: int = 0
    maximum: int | None = None
    initial: int = 1
    stated: bool = True
    bounded: bool = True


class Rule(Struct, frozen=True):
    """All VMs of `vdus` together (`affinity`) or apart, in one `scope` ("machine", "rack", "site").

    Under anti-affinity at most `most` of them share a place. `label` is the scope as written.
    """

    name: str
    affinity: bool
    hard: bool
    scope: str
    vdus: tuple[str, ...]
    origin: Origin
    most: int = 1
    label: str = ""


class Steps(Struct, frozen=True):
    """How many VMs of one VDU each scale level adds; the last step repeats."""

    vdu: str
    added: tuple[int, ...]

    def total(self, level: int) -> int:
        """VMs added up to and including this level."""
        if not self.added or level <= 0:
            return 0
        return sum(self.added[:level]) + self.added[-1] * max(level - len(self.added), 0)


class Aspect(Struct, frozen=True):
    """A scaling aspect: levels 0..max_level, and what they add to each VDU."""

    name: str
    max_level: int
    steps: tuple[Steps, ...]
    origin: Origin


class Level(Struct, frozen=True):
    """An instantiation level: the scale level of each aspect, and the size of each VDU where given."""

    name: str
    scale_levels: Mapping[str, int]
    sizes: Mapping[str, int]
    origin: Origin

    def __hash__(self) -> int:
        return hash((self.name, self.origin))


class Vnf(Struct, frozen=True):
    """What the documents say about placement. VDUs in source order."""

    vdus: tuple[Vdu, ...] = ()
    rules: tuple[Rule, ...] = ()
    aspects: tuple[Aspect, ...] = ()
    levels: tuple[Level, ...] = ()
    default_level: str = ""

    def vdu(self, name: str) -> Vdu | None:
        """A VDU by name."""
        return next((v for v in self.vdus if v.name == name), None)


class VnfSources(Struct, frozen=True):
    """The texts as given; `nested` by file name. `parameters` are plain data."""

    vnfd: str | None = None
    base_hot: str | None = None
    nested: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    flavour_id: str = ""
