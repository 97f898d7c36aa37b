"""Instances to changes: creation numbers, protections, duplicates, drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from nexusform.address import Address, ConfigAddress, address_order
from nexusform.configuration.declared.configuration import DEFAULT_PROVIDER, ResourceBlock
from nexusform.diagnostics import Diagnostic, error
from nexusform.forecasts import FORECASTS
from nexusform.plain_data import Path
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.preparation.order import Order
from nexusform.planning.preparation.prior import Prior, without_configuration
from nexusform.planning.request import PlanRequest
from nexusform.plans.plan import Action, Change, Drift
from nexusform.ports import UNFINISHED
from nexusform.state.objects import ObjectState, State

_DESTROYING = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_CHANGING = (Action.UPDATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_MAKING = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def build_changes(
    instances: Mapping[Address, Instance], order: Order, prior: Prior
) -> tuple[list[Change], list[Diagnostic]]:
    """A change per instance in planning order, then per deposed object. Numbers new objects."""
    blocks = {block.address: block for block in order.blocks}
    changes: list[Change] = []
    problems = _duplicate_ids(instances)
    last = prior.state.last_creation
    written: dict[ConfigAddress, tuple[Path, ...]] = {}
    for instance in instances.values():
        if instance.prior is None and instance.planned is None:
            continue
        is_made = instance.action in _MAKING
        last += is_made
        block = instance.block or blocks.get(instance.address.config)
        problems += _protected(instance, block)
        change = _change(instance, block, last if is_made else 0)
        if block is not None and change.action in _CHANGING:
            if block.address not in written:
                written[block.address] = tuple(dict.fromkeys(block.body.places()))
            change = replace(change, written=written[block.address])
        changes.append(change)
    for address in sorted(prior.instances, key=address_order):
        if not _is_left_alone(instances.get(address)):
            deposed = sorted(prior.deposed(address).items())
            changes += [_deposed_change(address, key, remains) for key, remains in deposed]
    return changes, problems


def _is_left_alone(instance: Instance | None) -> bool:
    """Whether the plan leaves an object out: then its deposed objects are left, too."""
    if instance is None or instance.prior is None:
        return False
    return instance.block is None and instance.action is Action.NO_OP


def _deposed_change(address: Address, key: str, remains: ObjectState) -> Change:
    """What is left of a replacement goes with the next plan."""
    return Change(
        address=address,
        action=Action.DELETE,
        before=remains.attributes,
        after=None,
        provider=remains.provider,
        creation=0,
        prior_creation=remains.creation,
        sensitive_before=remains.sensitive,
        deposed=key,
        dependencies=remains.dependencies,
    )


def _change(instance: Instance, block: ResourceBlock | None, creation: int) -> Change:
    """What becomes of an instance, as the plan has it; `creation` is its number if it is made, else 0."""
    prior = instance.prior
    going = instance.going
    prior_creation = prior.creation if prior is not None else 0
    create_first = instance.create_first
    if going and prior is not None:
        create_first = create_first or prior.create_before_destroy
    dependencies = instance.dependencies
    if prior is not None and (going or instance.block is None):
        dependencies = prior.dependencies
    before = prior.attributes if prior is not None else None
    after: Mapping[str, Any] | None = None if going else instance.planned
    if instance.action is Action.NO_OP and before == after:
        after = before  # one object, that of the state: written once, and compared at once
    return Change(
        address=instance.address,
        action=instance.action,
        before=before,
        after=after,
        provider=_provider(block, prior, going=going),
        creation=creation or (0 if going else prior_creation),
        prior_creation=prior_creation,
        sensitive_before=prior.sensitive if prior is not None else (),
        sensitive_after=() if going else instance.hidden,
        refined_after=() if going else instance.arguments.refined,
        replace_paths=instance.decision.replace_paths,
        reason=instance.decision.reason if instance.going or instance.action in _DESTROYING else "",
        previous_address=instance.previous,
        importing=instance.importing,
        dependencies=dependencies,
        create_before_destroy=create_first,
        tainted_before=prior.tainted if prior is not None else False,
        private=_private(instance),
        source=block.span if block is not None else None,
        block=block.header if block is not None else "",
        ignored=instance.lifecycle.ignore_changes if instance.action is Action.UPDATE else (),
    )


def _private(instance: Instance) -> Mapping[str, Any] | None:
    """The private note of an object after the plan: a new one, else the one of the object that stays. What
    became of earlier claims stays with the object, and so does a change that is not done.
    """
    noted = instance.prior.private if instance.prior is not None and not instance.replaced else None
    if instance.private is None:
        return noted
    kept = {name: noted[name] for name in (FORECASTS, UNFINISHED) if name in noted} if noted else {}
    return {**instance.private, **kept} or None


def _provider(block: ResourceBlock | None, prior: ObjectState | None, *, going: bool) -> str:
    """Which provider carries it out: the block's, for what goes the one that made it."""
    if prior is not None and (going or block is None):
        return prior.provider
    return (block.provider if block is not None else "") or DEFAULT_PROVIDER


def _protected(instance: Instance, block: ResourceBlock | None) -> list[Diagnostic]:
    """The error of an object that the plan destroys and prevent_destroy keeps."""
    if block is None or not block.lifecycle.prevent_destroy or instance.action not in _DESTROYING:
        return []
    return [
        error(
            "instance-cannot-be-destroyed",
            f"{instance.address} has lifecycle.prevent_destroy set, but the plan calls for this object to be "
            "destroyed. Take prevent_destroy out if that is wanted, or keep the object out of the plan with "
            f"-exclude={instance.address}.",
            block.header_span,
            address=str(instance.address),
            block=block.header,
        )
    ]


def _duplicate_ids(instances: Mapping[Address, Instance]) -> list[Diagnostic]:
    """Two objects of one type under one id: providers could not tell them apart."""
    first_of_id: dict[tuple[str, str], Instance] = {}
    problems = []
    for instance in instances.values():
        if instance.planned is None or instance.going or instance.broken:
            continue
        object_id = instance.planned.get("id")
        if not isinstance(object_id, str) or not object_id:
            continue
        first = first_of_id.setdefault((instance.type.name, object_id), instance)
        # What offers something is told by its own type, when the inventory is offered it twice.
        if first is not instance and instance.type.offer is None:
            problems.append(_duplicate(instance, first, object_id))
    return problems


def _duplicate(instance: Instance, first: Instance, object_id: str) -> Diagnostic:
    noun = instance.type.noun
    return instance.error(
        "duplicate-object",
        f'{first.address} already describes the {noun} "{object_id}". Give one of the two another '
        "name, or remove it.",
        ("name",) if "name" in instance.type.schema.attributes else (),
        f"Duplicate {noun}",
    )


def find_drift(request: PlanRequest) -> tuple[Drift, ...]:
    """Objects that changed outside nexusform."""
    return drift_between(request.state, request.refreshed)


def drift_between(state: State, refreshed: Mapping[Address, ObjectState | None]) -> tuple[Drift, ...]:
    """Objects whose attributes were observed otherwise than state has them."""
    drift = []
    for address in sorted(refreshed, key=address_order):
        instance = state.instances.get(address)
        if instance is None or instance.current is None:
            continue
        recorded, observed = instance.current, refreshed[address]
        attributes = observed.attributes if observed is not None else None
        if attributes != recorded.attributes:
            drift.append(Drift(address, recorded.attributes, attributes, recorded.sensitive))
    return tuple(drift)


def missing_targets(blocks: Blocks) -> list[Diagnostic]:
    """Objects that are to be taken over, and that no instance of the configuration stands for."""
    problems = []
    for address, imported in blocks.prior.imports.items():
        instance = blocks.instances.get(address)
        if instance is None or not instance.configured:
            problems.append(without_configuration(address, imported.span))
    return problems
