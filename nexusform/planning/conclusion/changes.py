"""Instances to changes: creation numbers, protections, duplicates, drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.address import Address, address_order
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic, error
from nexusform.planning.instances.blocks import Blocks
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action, Change, Drift
from nexusform.planning.preparation.importing import without_configuration
from nexusform.planning.preparation.order import Order
from nexusform.planning.preparation.prior import Prior
from nexusform.planning.request import PlanRequest
from nexusform.state.model import ObjectState

DEFAULT_PROVIDER = "simulated"
_DESTROYING = (Action.DELETE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)
_MAKING = (Action.CREATE, Action.REPLACE, Action.REPLACE_CREATE_FIRST)


def build_changes(
    instances: Mapping[Address, Instance], order: Order, prior: Prior
) -> tuple[list[Change], list[Diagnostic]]:
    """A change per instance in planning order, then per deposed object. Numbers new objects."""
    blocks = {b.address: b for b in order.blocks}
    changes: list[Change] = []
    problems = _duplicate_ids(instances)
    last = prior.state.last_creation
    for instance in instances.values():
        if instance.prior is None and instance.planned is None:
            continue
        if instance.action in _MAKING:
            last += 1
            instance.creation = last
        block = instance.block or blocks.get(instance.address.config)
        problems += _protected(instance, block)
        changes.append(_change(instance, block))
    for address in sorted(prior.instances, key=address_order):
        known = instances.get(address)
        if (
            known is not None
            and known.block is None
            and known.action is Action.NO_OP
            and known.prior is not None
        ):
            continue
        for key, old in sorted(prior.instances[address].deposed.items()):
            changes.append(
                Change(
                    address,
                    Action.DELETE,
                    old.attributes,
                    None,
                    old.provider,
                    0,
                    old.creation,
                    sensitive_before=old.sensitive,
                    deposed=key,
                    dependencies=old.dependencies,
                )
            )
    return changes, problems


def _change(instance: Instance, block: ResourceBlock | None) -> Change:
    prior = instance.prior
    going = instance.going
    before = prior.creation if prior is not None else 0
    dependencies = instance.dependencies
    if prior is not None and (going or instance.block is None):
        dependencies = prior.dependencies
    return Change(
        instance.address,
        instance.action,
        prior.attributes if prior is not None else None,
        None if going else instance.planned,
        _provider(block, prior, going=going),
        instance.creation or (0 if going else before),
        before,
        sensitive_before=prior.sensitive if prior is not None else (),
        sensitive_after=() if going else instance.sensitive,
        replace_paths=instance.replace_paths,
        reason=instance.reason if instance.action in _DESTROYING else "",
        previous_address=instance.previous,
        importing=instance.importing,
        dependencies=dependencies,
        create_before_destroy=instance.create_first
        or (prior.create_before_destroy if going and prior else False),
        tainted_before=prior.tainted if prior is not None else False,
        private=_private(instance),
        source=block.span if block is not None else None,
        block=block.header if block is not None else "",
    )


def _private(instance: Instance) -> Mapping[str, Any] | None:
    if instance.private is not None:
        return instance.private
    return instance.prior.private if instance.prior is not None and not instance.replaced else None


def _provider(block: ResourceBlock | None, prior: ObjectState | None, *, going: bool) -> str:
    """Which provider carries it out: the block's, for what goes the one that made it."""
    if prior is not None and (going or block is None):
        return prior.provider
    return (block.provider if block is not None else "") or DEFAULT_PROVIDER


def _protected(instance: Instance, block: ResourceBlock | None) -> list[Diagnostic]:
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
    seen: dict[tuple[str, str], Instance] = {}
    found = []
    for instance in instances.values():
        if instance.planned is None or instance.going or instance.broken:
            continue
        object_id = instance.planned.get("id")
        if not isinstance(object_id, str) or not object_id:
            continue
        other = seen.setdefault((instance.type.name, object_id), instance)
        if other is not instance and instance.type.offer is None:
            what = instance.type.noun
            path = ("name",) if "name" in instance.type.schema.attributes else ()
            found.append(
                instance.error(
                    "duplicate-object",
                    f'{other.address} already describes the {what} "{object_id}". Give one of the two '
                    "another "
                    "name, or remove it.",
                    path,
                    f"Duplicate {what}",
                )
            )
    return found


def find_drift(request: PlanRequest) -> tuple[Drift, ...]:
    """Objects that changed outside nexusform."""
    found = []
    for address in sorted(request.refreshed, key=address_order):
        known = request.state.instances.get(address)
        if known is None or known.current is None:
            continue
        now = request.refreshed[address]
        if now is None:
            found.append(Drift(address, known.current.attributes, None, known.current.sensitive))
        elif now.attributes != known.current.attributes:
            found.append(Drift(address, known.current.attributes, now.attributes, known.current.sensitive))
    return tuple(found)


def missing_targets(blocks: Blocks) -> list[Diagnostic]:
    """Objects that are to be taken over, and that no instance of the configuration stands for."""
    problems = []
    for address, imported in blocks.prior.imports.items():
        instance = blocks.instances.get(address)
        if instance is None or not instance.configured:
            problems.append(without_configuration(address, imported.span))
    return problems
