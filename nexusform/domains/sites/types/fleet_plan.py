"""Fleet: its definition in nexusform.sites.hcl (sites, and waves in order), and its plan.

The plan has one digest for all sites.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import Struct

from nexusform.diagnostics.diagnostic import SourceFile, Span
from nexusform.domains.sites.types.site_tasks import SiteDiagnostic, SiteResult, SiteStatus
from nexusform.plans.plan_checks import GuardRailOutcome, GuardRailResult, PlanOrigin

FILE_NAME: Final = "nexusform.sites.hcl"
SITE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# Placeholder for a site's name in paths of states.
ANY_SITE: Final = "__any_site__"
# Default wave of a strategy.
ONLY_WAVE: Final = "all"


class SiteEntry(Struct, frozen=True):
    """One site.

    `source` is the directory of its root module, relative to the file's directory. `inputs` are
    variable values as plain data, and `sensitive` the names of sensitive ones. `backend` and
    `settings` are the location of its state, with paths relative to the file's directory. `span` is
    its header. A site of a `sites` block has the `key` of its row and in `data_files` the files of
    the rows. With `destroy`, everything is deleted.
    """

    name: str
    source: str
    wave: str
    span: Span
    inputs_span: Span
    inputs: Mapping[str, Any]
    sensitive: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    backend: str = "local"
    settings: Mapping[str, Any] = {}
    destroy: bool = False
    key: str = ""
    data_files: tuple[str, ...] = ()


class Wave(Struct, frozen=True):
    """Sites applied together, after the previous waves.

    At most `max_parallel` are applied at a time, and at most `max_unavailable` are being applied or
    failed (None: number of workers). More than `max_failures` failed or rejected sites stop it, as
    does a share of wrong predictions above `max_miss_rate`. `soak` is the number of seconds before
    the next wave. With `needs_approval`, the wave is applied only after an approval.
    """

    name: str
    max_parallel: int | None = None
    max_unavailable: int | None = None
    max_failures: int = 0
    max_miss_rate: float = 1.0
    soak: float = 0.0
    needs_approval: bool = False


class FleetDefinition(Struct, frozen=True):
    """All sites and waves in order.

    `digest` is the digest of everything read. `templates` are sites named ANY_SITE with the state
    locations of `sites` blocks. `requests_per_minute` is the maximum for one subscription over all
    workers; 0 is unlimited.
    """

    sites: tuple[SiteEntry, ...]
    waves: tuple[Wave, ...]
    digest: str
    templates: tuple[SiteEntry, ...] = ()
    requests_per_minute: int = 0
    sources: Mapping[str, SourceFile] = {}

    @property
    def sites_by_name(self) -> dict[str, SiteEntry]:
        """Sites by name."""
        return {site.name: site for site in self.sites}


class PlannedSite(Struct, frozen=True):
    """Site in a fleet's plan.

    `dependencies` are sites applied earlier, since it reads their states. `file` and `line` are its
    location in the sites file.
    """

    wave: str
    result: SiteResult
    labels: Mapping[str, str] = {}
    dependencies: tuple[str, ...] = ()
    file: str = ""
    line: int = 0

    @property
    def name(self) -> str:
        """Name of the site."""
        return self.result.site


class UndeclaredSite(Struct, frozen=True):
    """Site no longer in nexusform.sites.hcl.

    `objects` is the number of objects in its state (None: unreadable, with `reason`).
    `placement_counts` are its VMs, bindings and pods by kind.
    """

    name: str
    state_location: str
    objects: int | None = None
    placement_counts: dict[str, int] = {}
    serial: int = 0
    reason: str = ""


class FleetPlan(Struct, frozen=True):
    """Planned sites in order, and their waves.

    `now` is the current time of all plans. `is_confined` and `allow_remote` are the trust in the
    configuration, also on apply. `undeclared` are sites with a state but no longer declared; they
    are not changed and not part of the approval. `definition_digest` is the digest of
    nexusform.sites.hcl and the files it reads, and `digest` the approved digest. `errors` are
    diagnostics of a failed run. `origin` is the place of nexusform.sites.hcl, without a backend
    (None: an earlier version made the plan), `max_age` the maximum age at apply in seconds, 0 for
    none. `after_merge` is what a merge does: `apply`, `wave:N`, `none`, or "" if the pipeline
    does not say. `guard_rails` are the results of limits on the whole plan.
    """

    sites: tuple[PlannedSite, ...]
    waves: tuple[Wave, ...]
    now: str
    definition_digest: str
    digest: str = ""
    allowed_sources: tuple[str, ...] = ()
    is_confined: bool = False
    allow_remote: tuple[str, ...] = ()
    undeclared: tuple[UndeclaredSite, ...] = ()
    errors: tuple[SiteDiagnostic, ...] = ()
    origin: PlanOrigin | None = None
    max_age: float = 0
    after_merge: str = ""
    guard_rails: tuple[GuardRailResult, ...] = ()

    @property
    def is_blocked(self) -> bool:
        """Whether a limit blocks the plan."""
        blocking = (GuardRailOutcome.BLOCKED, GuardRailOutcome.UNKNOWN)
        return any(limit.result in blocking for limit in self.guard_rails)

    @property
    def identity(self) -> str:
        """Id of this plan, different for an equal plan made later."""
        plans = [site.result.plan_digest for site in self.sites]
        return sha256(msgspec.json.encode([self.digest, self.now, plans])).hexdigest()

    def select_by_status(self, *statuses: SiteStatus) -> list[PlannedSite]:
        """Select the sites with one of these statuses."""
        return [site for site in self.sites if site.result.status in statuses]

    def select_wave(self, wave: str) -> list[PlannedSite]:
        """Select the sites of a wave."""
        return [site for site in self.sites if site.wave == wave]

    def has_pending_sites(self, wave: str) -> bool:
        """Return True if a site of the wave changes or cannot be planned."""
        return any(
            site.result.status is not SiteStatus.UNCHANGED for site in self.select_wave(wave)
        )

    def count_rejected(self, wave: str) -> int:
        """Count the sites of a wave without a plan; they count as failures of the wave."""
        rejected = (SiteStatus.REJECTED, SiteStatus.FAILED, SiteStatus.SKIPPED)
        return sum(site.result.status in rejected for site in self.select_wave(wave))

    def find_blocked_wave(self) -> Wave | None:
        """Find the first wave with more rejected sites than it allows."""
        return next(
            (wave for wave in self.waves if self.count_rejected(wave.name) > wave.max_failures),
            None,
        )


def compute_fleet_digest(sites: tuple[PlannedSite, ...], waves: tuple[Wave, ...]) -> str:
    """Compute the digest to approve.

    It covers sites, their changes or rejections, and waves with limits, but no times.
    """
    rows = [
        (
            site.name,
            site.wave,
            site.result.status,
            site.result.digest or site.result.reason,
            site.dependencies,
        )
        for site in sites
    ]
    return sha256(msgspec.json.encode([rows, waves])).hexdigest()


def build_planned_site(
    entry: SiteEntry, result: SiteResult, dependencies: tuple[str, ...]
) -> PlannedSite:
    """Combine a site's result with its definition."""
    span = entry.span
    return PlannedSite(
        entry.wave, result, entry.labels, dependencies, file=span.filename, line=span.start.line
    )
