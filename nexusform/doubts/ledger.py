"""Ledger of doubts: the only place to decide on certainty.

Certainty, capacity, guard rails and checks by real programs ask the ledger of a plan.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from heapq import merge
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics.phrases import format_count, group_by, join_texts
from nexusform.doubts.doubt import Doubt, Influence

_MAX_FIELDS: Final = 2
# What changes the hosts of VMs.
_HOST_INFLUENCES: Final = frozenset(Influence) - {
    *(Influence.CAPACITY, Influence.BINDINGS, Influence.CHANGES)
}
_WORKLOAD_KINDS: Final = frozenset({"VM", "cluster", "agent pool"})


class PlacedPool(Struct, frozen=True):
    """Pool with VMs placed by a plan; `is_decided`: nexusform decides their machines.

    `untried` is a clause on the untried order and time of requests, "" if all were tried.
    """

    site_id: str
    address: str
    pool: str
    is_decided: bool
    untried: str = ""


class DoubtLedger(Struct, frozen=True, dict=True):
    """Doubts of a plan, the most specific first."""

    doubts: tuple[Doubt, ...] = ()

    @property
    def unread(self) -> tuple[Doubt, ...]:
        """Doubts about unread fields of documents."""
        return tuple(doubt for doubt in self.doubts if doubt.field)

    def has_certain_hosts(self, pool: PlacedPool) -> bool:
        """Return whether no doubt may change the hosts of a pool."""
        return not self.explain_uncertain_hosts(pool)

    def explain_uncertain_hosts(self, pool: PlacedPool) -> str:
        """Return a clause on why the hosts of a pool are uncertain, "" if they are certain."""
        doubt = self.find_doubt_of_pool(pool)
        return doubt.cause if doubt is not None else ""

    def find_doubt_of_pool(self, pool: PlacedPool) -> Doubt | None:
        """Return the first doubt about the hosts of a pool's VMs, None without any."""
        if not self.doubts:
            return None
        addresses = dict.fromkeys(("", pool.address))
        positions = merge(*(self._positions_by_address.get(address, ()) for address in addresses))
        doubts = (self.doubts[position] for position in positions)
        return next((doubt for doubt in doubts if _is_about_pool(doubt, pool)), None)

    def find_doubt_of_object(self, address: str) -> Doubt | None:
        """Return the first doubt by a finding about an object, None without any."""
        positions = self._positions_by_address.get(address, ())
        doubts = (self.doubts[position] for position in positions)
        return next(
            (
                doubt
                for doubt in doubts
                if doubt.finding and doubt.may_change is Influence.PLACEMENT
            ),
            None,
        )

    @cached_property
    def _positions_by_address(self) -> Mapping[str, Sequence[int]]:
        """Positions of the doubts by the address of their object, "" without one, ascending."""
        return group_by(range(len(self.doubts)), lambda position: self.doubts[position].address)

    def may_move(self, created: Container[str]) -> bool:
        """Return whether a doubt may move or remove an existing VM.

        `created` are the addresses of new objects, which have none.
        """
        influences = (Influence.PLACEMENT, Influence.EXISTENCE)
        return _is_about_existing_object(self.doubts, created, influences)

    def may_remove(self, created: Container[str]) -> bool:
        """Return whether a doubt may remove an existing VM; `created` as in `may_move`."""
        return _is_about_existing_object(self.doubts, created, (Influence.EXISTENCE,))

    def select_sites(self, site_ids: Container[str]) -> DoubtLedger:
        """Return the ledger of some sites, without doubts about other sites."""
        return DoubtLedger(
            tuple(doubt for doubt in self.doubts if not doubt.site_id or doubt.site_id in site_ids)
        )

    @property
    def lacks_capacity_data(self) -> bool:
        """Whether a source lacks VMs of some site."""
        return any(
            doubt.finding and doubt.may_change is Influence.CAPACITY for doubt in self.doubts
        )

    @property
    def lacks_objects(self) -> bool:
        """Whether a source lacks objects: their changes are not detected."""
        return any(doubt.may_change is Influence.CHANGES for doubt in self.doubts)

    @property
    def has_unknown_capacity(self) -> bool:
        """Whether missing data may change the spare capacity of some site."""
        influences = (Influence.CAPACITY, Influence.EXISTENCE)
        return any(doubt.may_change in influences for doubt in self.doubts)

    def describe(self) -> str:
        """Return the unread facts as the end of a sentence, "" without any.

        An example is `availability_zone of 2 servers (hot.yaml:14); their hosts are uncertain`.
        """
        facts = self.unread
        if not facts:
            return ""
        groups = list(group_by(facts, lambda fact: fact.field).values())
        texts = [_describe_group(group) for group in groups[:_MAX_FIELDS]]
        rest = len(groups) - _MAX_FIELDS
        if rest > 0:
            texts.append(format_count(rest, "more field"))
        consequences = dict.fromkeys(fact.may_change for fact in facts)
        subject_form = _get_subject_form(facts)
        clauses = [_CLAUSES[influence][subject_form] for influence in consequences]
        return f"{join_texts(texts)}; {' and '.join(clauses)}"


def _get_subject_form(facts: Sequence[Doubt]) -> int:
    """Return the index of the clause for the subjects of unread facts, in `_CLAUSES`."""
    if all(fact.address.startswith("data.") for fact in facts):
        return 3
    if not all(fact.address for fact in facts):
        return 2
    return min(len(facts), 2) - 1


def _is_about_pool(doubt: Doubt, pool: PlacedPool) -> bool:
    """Return whether a doubt without an address, or of the pool's, may change the hosts of VMs."""
    if doubt.may_change not in _HOST_INFLUENCES:
        return False
    # The order matters only to a platform that places one VM after another.
    if pool.is_decided and doubt.may_change in (Influence.ORDER, Influence.CHOICE):
        return False
    return doubt.site_id in ("", pool.site_id) and doubt.pool in ("", pool.pool)


def _is_about_existing_object(
    doubts: Iterable[Doubt], created: Container[str], influences: Container[Influence]
) -> bool:
    """Return whether a doubt with one of the influences may be about an existing object."""
    return any(doubt.may_change in influences and doubt.address not in created for doubt in doubts)


def explain_uncertain_vm(
    facts: Iterable[Doubt], site_id: str, owners: Mapping[str, str], *, is_placed: bool = False
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


def merge_influences(facts: Iterable[Doubt]) -> Iterator[tuple[Doubt, list[Influence]]]:
    """Yield each unread field of a subject once, with all its possible effects."""
    by_field = group_by(facts, lambda fact: replace(fact, may_change=Influence.PLACEMENT))
    for field_facts in by_field.values():
        yield field_facts[0], [fact.may_change for fact in field_facts]


def build_ledger(
    doubts: Iterable[Doubt], pools: Iterable[PlacedPool], others: Iterable[Doubt] = ()
) -> DoubtLedger:
    """Build the ledger of a plan from the doubts of documents and its pools with placed VMs.

    `others` are doubts by findings and by the lists of a platform. If the host of one VM is
    uncertain by an unread fact, so are those of the other VMs placed beside it by a platform.
    """
    ledger = DoubtLedger(tuple(dict.fromkeys(doubts)))
    pools = list(pools)
    uncertain_sites = {
        pool.site_id: None
        for pool in pools
        if not pool.is_decided and ledger.find_doubt_of_pool(pool) is not None
    }
    doubts_by_hosts = [
        Doubt("site", site_id, may_change=Influence.CHOICE, reason=_OTHER_HOST, site_id=site_id)
        for site_id in uncertain_sites
    ]
    doubts_by_orders = [
        Doubt(
            *("agent pool", pool.pool),
            reason=pool.untried,
            address=pool.address,
            site_id=pool.site_id,
            pool=pool.pool,
        )
        for pool in pools
        if pool.untried
    ]
    return DoubtLedger(
        (*ledger.doubts, *dict.fromkeys(others), *doubts_by_hosts, *doubts_by_orders)
    )


_OTHER_HOST: Final = "the host of another VM of the site is uncertain"
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


def _describe_group(facts: list[Doubt]) -> str:
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
