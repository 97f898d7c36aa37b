"""Ledger of unread facts: the only place that decides certainty from missing data.

Documents and exports have facts that nexusform does not read. Certainty, capacity, guard rails and
checks by real programs ask the ledger of a plan about them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Problem
from nexusform.diagnostics.levels import UNKNOWN_CAPACITY_IDS
from nexusform.diagnostics.phrases import format_count, group_by, join_texts
from nexusform.documents.unread_facts import Influence, UnreadFact
from nexusform.scheduling.listing.site_listing import ListedSite

_MAX_FIELDS: Final = 2
_WORKLOAD_KINDS: Final = frozenset({"VM", "cluster", "agent pool"})


class PlacedPool(Struct, frozen=True):
    """Pool with VMs placed by a plan; `is_decided`: nexusform decides their machines.

    `doubt` is a clause on the order and time of requests that was not tried, "" if all were.
    """

    site_id: str
    address: str
    pool: str
    is_decided: bool
    doubt: str = ""


class UnreadLedger(Struct, frozen=True, dict=True):
    """Unread facts of a plan, and the sites with an uncertain VM that the platform places.

    The other VMs placed there depend on its host, so theirs are uncertain, too.
    `differing_sites` have other machines than the configuration. Findings say that a source lacks
    VMs of `incomplete_sites` ("": any site). The hardware of a machine of
    `sites_without_hardware` is unknown.
    """

    facts: tuple[UnreadFact, ...] = ()
    uncertain_sites: frozenset[str] = frozenset()
    differing_sites: frozenset[str] = frozenset()
    incomplete_sites: frozenset[str] = frozenset()
    sites_without_hardware: frozenset[str] = frozenset()

    def has_certain_hosts(self, pool: PlacedPool) -> bool:
        """Return whether no unread fact, VM or other hardware may change the hosts of a pool."""
        return not self.explain_uncertain_hosts(pool)

    def explain_uncertain_hosts(self, pool: PlacedPool) -> str:
        """Return a clause on why the hosts of a pool are uncertain, "" if they are certain."""
        fact = self.find_fact_of_pool(pool)
        if fact is not None:
            return fact.cause
        if not pool.is_decided and pool.site_id in self.differing_sites:
            return "the site is listed with differences"
        if not pool.is_decided and not self.incomplete_sites.isdisjoint(("", pool.site_id)):
            return "a source lacks VMs (see the warnings)"
        if not pool.is_decided and pool.site_id in self.uncertain_sites:
            return "the host of another VM of the site is uncertain"
        return pool.doubt

    def find_fact_of_pool(self, pool: PlacedPool) -> UnreadFact | None:
        """Return the first fact that may change the hosts of a pool's VMs, None without any."""
        if not self.facts:
            return None
        addresses = dict.fromkeys(("", pool.address))
        positions = merge(*(self._positions_by_address.get(address, ()) for address in addresses))
        facts = (self.facts[position] for position in positions)
        return next((fact for fact in facts if _is_about_pool(fact, pool)), None)

    @cached_property
    def _positions_by_address(self) -> Mapping[str, Sequence[int]]:
        """Positions of the facts by the address of their object, "" without one, ascending."""
        return group_by(range(len(self.facts)), lambda position: self.facts[position].address)

    def may_move(self, created: Container[str]) -> bool:
        """Return whether an unread fact may move or remove an existing VM.

        `created` are the addresses of new objects, which have none.
        """
        influences = (Influence.PLACEMENT, Influence.EXISTENCE)
        return _concerns_existing(self.facts, created, influences)

    def may_remove(self, created: Container[str]) -> bool:
        """Return whether an unread fact may remove an existing VM; `created` as in `may_move`."""
        return _concerns_existing(self.facts, created, (Influence.EXISTENCE,))

    def select_sites(self, site_ids: Container[str]) -> UnreadLedger:
        """Return the ledger of some sites: what concerns only other sites is left out."""

        def select(concerned: Iterable[str]) -> frozenset[str]:
            return frozenset(site_id for site_id in concerned if not site_id or site_id in site_ids)

        return UnreadLedger(
            tuple(fact for fact in self.facts if not fact.site_id or fact.site_id in site_ids),
            select(self.uncertain_sites),
            select(self.differing_sites),
            select(self.incomplete_sites),
            select(self.sites_without_hardware),
        )

    @property
    def lacks_capacity_data(self) -> bool:
        """Whether a source lacks VMs of some site."""
        return bool(self.incomplete_sites)

    @property
    def has_unknown_capacity(self) -> bool:
        """Whether missing data may change the spare capacity of some site."""
        influences = (Influence.CAPACITY, Influence.EXISTENCE)
        if self.lacks_capacity_data or self.sites_without_hardware:
            return True
        return any(fact.may_change in influences for fact in self.facts)

    @property
    def _subject_form(self) -> int:
        """Index of the clause for the subjects, in `_CLAUSES`."""
        if all(fact.address.startswith("data.") for fact in self.facts):
            return 3
        if not all(fact.address for fact in self.facts):
            return 2
        return min(len(self.facts), 2) - 1

    def describe(self) -> str:
        """Return the unread facts as the end of a sentence, "" without any.

        An example is `availability_zone of 2 servers (hot.yaml:14); their hosts are uncertain`.
        """
        if not self.facts:
            return ""
        groups = list(group_by(self.facts, lambda fact: fact.field).values())
        texts = [_describe_group(group) for group in groups[:_MAX_FIELDS]]
        rest = len(groups) - _MAX_FIELDS
        if rest > 0:
            texts.append(format_count(rest, "more field"))
        consequences = dict.fromkeys(fact.may_change for fact in self.facts)
        clauses = [_CLAUSES[influence][self._subject_form] for influence in consequences]
        return f"{join_texts(texts)}; {' and '.join(clauses)}"


def _is_about_pool(fact: UnreadFact, pool: PlacedPool) -> bool:
    """Return whether a fact without an address, or of the pool's, may change the hosts of VMs."""
    # The order matters only to a platform that places one VM after another.
    is_relevant = fact.may_change is not Influence.CAPACITY and not (
        fact.may_change is Influence.ORDER and pool.is_decided
    )
    return is_relevant and fact.site_id in ("", pool.site_id) and fact.pool in ("", pool.pool)


def _concerns_existing(
    facts: Iterable[UnreadFact], created: Container[str], influences: Container[Influence]
) -> bool:
    """Return whether a fact with one of the influences may be about an existing object."""
    return any(fact.may_change in influences and fact.address not in created for fact in facts)


def explain_uncertain_vm(
    facts: Iterable[UnreadFact], site_id: str, owners: Mapping[str, str], *, is_placed: bool = False
) -> str:
    """Return a clause on why the machine of a VM of a site is uncertain, "" if it is certain.

    `owners` are the names of the VM and of its owners, by kind. A VM that exists has its machine,
    unless a fact is about itself. For a decision that is made again (`is_placed`), other facts of
    the site count, too.
    """
    for fact in facts:
        if fact.site_id not in ("", site_id) or fact.may_change is Influence.CAPACITY:
            continue
        is_about_vm = fact.kind in _WORKLOAD_KINDS
        if owners.get(fact.kind) == fact.name if is_about_vm else is_placed:
            return fact.cause
    return ""


def merge_influences(facts: Iterable[UnreadFact]) -> Iterator[tuple[UnreadFact, list[Influence]]]:
    """Yield each unread field of a subject once, with everything that it may change."""
    by_field = group_by(facts, lambda fact: replace(fact, may_change=Influence.PLACEMENT))
    for field_facts in by_field.values():
        yield field_facts[0], [fact.may_change for fact in field_facts]


def hides_capacity(diagnostic_id: str) -> bool:
    """Return whether a finding is about missing data that counts as free capacity."""
    return diagnostic_id in UNKNOWN_CAPACITY_IDS


def find_incomplete_sites(findings: Iterable[Diagnostic | Problem]) -> frozenset[str]:
    """Return the ids of the sites of which data is missing, "" for a finding about any site."""
    return frozenset(finding.site_id for finding in findings if hides_capacity(finding.id))


def build_ledger(
    facts: Iterable[UnreadFact],
    pools: Iterable[PlacedPool],
    incomplete_sites: frozenset[str] = frozenset(),
    listed: Sequence[ListedSite] = (),
) -> UnreadLedger:
    """Build the ledger of a plan from its unread facts and its pools with placed VMs.

    `incomplete_sites` are those of `find_incomplete_sites`. `listed` are the sites that
    differ from what their platform lists.
    """
    ledger = UnreadLedger(tuple(dict.fromkeys(facts)))
    uncertain_sites = frozenset(
        pool.site_id
        for pool in pools
        if not pool.is_decided and ledger.find_fact_of_pool(pool) is not None
    )
    return UnreadLedger(
        ledger.facts,
        uncertain_sites,
        frozenset(site.site_id for site in listed if site.changes_capacity),
        incomplete_sites=incomplete_sites,
        sites_without_hardware=frozenset(site.site_id for site in listed if site.lacks_hardware),
    )


# What is uncertain, by the subjects: one VM, several, other objects of a site, or those of a dump.
_CLAUSES: Final = {
    Influence.PLACEMENT: (
        "its host is uncertain",
        "their hosts are uncertain",
        "hosts of VMs are uncertain",
        "placements are uncertain",
    ),
    Influence.CAPACITY: ("the capacity is uncertain",) * 4,
    Influence.EXISTENCE: ("the number of VMs is uncertain",) * 4,
    Influence.ORDER: ("the order of VMs is uncertain",) * 4,
}


def _describe_group(facts: list[UnreadFact]) -> str:
    """Return `availability_zone of 2 servers (base_hot:14)` for the facts of one field."""
    first = facts[0]
    subjects = dict.fromkeys((fact.site_id, fact.address, fact.subject) for fact in facts)
    position = f" ({first.position})" if first.position else ""
    if len(subjects) == 1:
        return f"{first.field} of {first.subject}{position}"
    nouns = {fact.kind for fact in facts}
    noun = nouns.pop() if len(nouns) == 1 else "object"
    plural = f"{noun.removesuffix('y')}ies" if noun.endswith("policy") else ""
    return f"{first.field} of {format_count(len(subjects), noun, plural)}{position}"
