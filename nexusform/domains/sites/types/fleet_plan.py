"""The plan of a whole fleet: what every site's plan comes to, under one digest."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from nexusform.domains.sites.types.definition import SiteEntry, Wave
from nexusform.domains.sites.types.work import Answer, Status


class PlannedSite(Struct, frozen=True):
    """A site in a fleet's plan. `after` are sites whose states it reads, which are applied before it.

    `file` and `line` are where the site stands in the fleet's file.
    """

    wave: str
    answer: Answer
    labels: Mapping[str, str] = {}
    after: tuple[str, ...] = ()
    file: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """The site's name."""
        return self.answer.site


class UndeclaredSite(Struct, frozen=True):
    """A site that nexusform.sites.hcl does not name any more.

    Its state, in `state`, has so many objects (None: `reason` says why it could not be read); `placed` counts
    VMs, bindings and pods, by kind.
    """

    name: str
    state: str
    objects: int | None = None
    placed: dict[str, int] = {}
    serial: int = 0
    reason: str = ""


class FleetPlan(Struct, frozen=True):
    """All sites that were planned, in their order, and the waves that they are applied in.

    `now` is the time that all plans took as now; `confined` and `allow_remote` say how far configuration
    was trusted, and is when it is applied. `undeclared` are sites that have a state and are in no file any
    more: nothing is done to them, so they are no part of what is approved. `definition` is the digest of
    nexusform.sites.hcl and what it read; `digest` is what is approved.
    """

    sites: tuple[PlannedSite, ...]
    waves: tuple[Wave, ...]
    now: str
    definition: str
    digest: str = ""
    allowed_sources: tuple[str, ...] = ()
    confined: bool = False
    allow_remote: tuple[str, ...] = ()
    undeclared: tuple[UndeclaredSite, ...] = ()

    @property
    def identity(self) -> str:
        """What tells this very plan from another one that comes to the same."""
        plans = [site.answer.plan for site in self.sites]
        return sha256(msgspec.json.encode([self.digest, self.now, plans])).hexdigest()

    def of_status(self, *statuses: Status) -> list[PlannedSite]:
        """The sites with one of these statuses."""
        return [site for site in self.sites if site.answer.status in statuses]

    def wave_named(self, name: str) -> Wave:
        """The wave of this name, which is there."""
        return next(wave for wave in self.waves if wave.name == name)

    def of_wave(self, wave: str) -> list[PlannedSite]:
        """The sites of a wave."""
        return [site for site in self.sites if site.wave == wave]

    def has_work(self, wave: str) -> bool:
        """Whether anything changes on a site of a wave, or cannot be planned."""
        return any(site.answer.status is not Status.UNCHANGED for site in self.of_wave(wave))


def fleet_digest(sites: tuple[PlannedSite, ...], waves: tuple[Wave, ...]) -> str:
    """What is approved: which sites, what is done to each or why nothing can be, and in which waves under
    which terms.

    Planning the same once more gives the same, whenever and by whichever workers.
    """
    listed = [
        (
            site.name,
            site.wave,
            site.answer.status,
            site.answer.digest or site.answer.reason,
            site.after,
        )
        for site in sites
    ]
    return sha256(msgspec.json.encode([listed, waves])).hexdigest()


def planned_site(entry: SiteEntry, answer: Answer, after: tuple[str, ...]) -> PlannedSite:
    """A site's answer with what the definition says of it."""
    span = entry.span
    return PlannedSite(entry.wave, answer, entry.labels, after, span.filename, span.start.line)
