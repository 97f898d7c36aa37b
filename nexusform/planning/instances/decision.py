"""What becomes of an instance: its planned attributes, and the action that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nexusform.planning.instances.difference import planned_attributes, pool_replacing_paths, replacing_paths
from nexusform.planning.instances.instance import Instance
from nexusform.planning.plan import Action


def decide(instance: Instance, computed: Mapping[str, Any], *, requested: bool) -> None:
    """Work out the planned attributes and the action."""
    assert instance.config is not None
    schema = instance.type.schema
    prior = instance.before
    instance.planned = planned_attributes(schema, instance.config, prior, computed)
    if prior is None:
        instance.action = Action.CREATE
        return
    assert instance.prior is not None
    instance.replace_paths = replacing_paths(schema, prior, instance.config)
    reason = ""
    if instance.prior.tainted:
        reason = "replace_because_tainted"
    elif requested:
        reason = "replace_by_request"
    elif instance.forced:
        reason = instance.forced
    elif instance.replace_paths:
        reason = "replace_because_cannot_update"
    if reason:
        instance.reason = reason
        instance.action = Action.REPLACE_CREATE_FIRST if instance.create_first else Action.REPLACE
        if computed or instance.replace_paths:
            instance.planned = planned_attributes(schema, instance.config, None, computed)
        return
    instance.action = Action.NO_OP if same(instance.planned, prior) else Action.UPDATE
    instance.replace_paths = tuple(sorted(pool_replacing_paths(schema, prior, instance.config)))


def same(planned: Mapping[str, Any], prior: Mapping[str, Any]) -> bool:
    """Whether nothing differs; an attribute that state does not know yet counts when it is set."""
    return all(prior.get(name) == value for name, value in planned.items())
