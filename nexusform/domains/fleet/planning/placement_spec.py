"""Specification of a placement and its prior bindings: the first stage of its plan."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, json
from msgspec.structs import replace

from nexusform.domains.fleet.importers.fleet_documents import NODE_COUNT, OLD_NODE_COUNT
from nexusform.domains.fleet.importers.fleet_records import (
    EXTERNAL,
    REPORT_DIFF,
    ApplyStrategy,
    FleetPlacement,
)
from nexusform.domains.fleet.planning.foreign_field_merge import (
    build_merged_placement,
    find_deleting_objects,
)
from nexusform.domains.fleet.planning.placement_records import read_bindings, read_policy_snapshot
from nexusform.domains.fleet.scheduling.bindings import (
    Binding,
    ClusterSelectorTerm,
    Policy,
    PolicySnapshot,
)
from nexusform.domains.fleet.scheduling.member_list import MemberList
from nexusform.domains.fleet.scheduling.policy_snapshots import build_next_snapshot
from nexusform.json_data.plain_data import get_mapping, get_text
from nexusform.planning.instances.instance import Instance

NOT_OBSERVED: Final[Mapping[str, Any]] = {}


class PlacementSpec(Struct, frozen=True):
    """Specification of one placement.

    `previous_configuration` is None for a new placement. `prior_bindings` are empty for a new or
    replaced object; `deleting_clusters` have a binding in deletion. `policy_snapshot` may be one
    newer than the last. `was_fulfilled` means that all requested clusters were bound before the
    plan. `observed_attributes` come from a hub and take precedence over state. `recorded_bindings`
    are those of the last apply.
    """

    instance: Instance
    configuration: FleetPlacement
    previous_configuration: FleetPlacement | None
    prior_bindings: tuple[Binding, ...]
    deleting_clusters: frozenset[str]
    policy_snapshot: PolicySnapshot
    policy_changed: bool
    number_changed: bool
    number_increased: bool
    was_fulfilled: bool
    observed_attributes: Mapping[str, Any] = NOT_OBSERVED
    recorded_bindings: tuple[Binding, ...] = ()

    @property
    def address(self) -> str:
        """Address as text."""
        return str(self.instance.address)

    @property
    def creation_order(self) -> int:
        """Position in creation order; new objects are last."""
        if self.is_new or self.instance.prior is None:
            # Above every recorded position.
            return 1 << 62
        return self.instance.prior.creation

    @property
    def is_new(self) -> bool:
        """Whether the plan creates the object; False if state or a hub has it."""
        return self.previous_configuration is None

    @property
    def is_being_deleted(self) -> bool:
        """Whether the hub is deleting the placement, so it changes nothing else for it."""
        return bool(find_deleting_objects(self.instance))

    @property
    def is_first_scheduling(self) -> bool:
        """Whether the scheduler processes the placement for the first time.

        It is new, or was never scheduled. The latter has no bindings, and is pending on its hub or
        has no policy snapshot.
        """
        is_unscheduled = self.is_pending or read_policy_snapshot(self.prior_attributes) is None
        return self.is_new or (not self.prior_bindings and is_unscheduled)

    @property
    def is_pending(self) -> bool:
        """Whether a hub reports that its scheduler has not processed the placement yet."""
        return self.observed_attributes.get("pending") is True

    @property
    def prior_attributes(self) -> Mapping[str, Any]:
        """Attributes of the existing object from state, overridden by the hub's.

        They are empty for a new object.
        """
        return (
            {} if self.is_new else {**get_mapping(self.instance.before), **self.observed_attributes}
        )

    @property
    def is_external(self) -> bool:
        """Whether staged runs roll out the placement."""
        return self.configuration.strategy == EXTERNAL

    @property
    def strategy_changed(self) -> bool:
        """Whether the block `strategy` changed.

        Its type, the rolling update or the apply strategy.
        """
        previous = self.previous_configuration
        current = self.configuration
        settings = (current.strategy, current.rolling_update, current.apply)
        return (
            previous is not None
            and (previous.strategy, previous.rolling_update, previous.apply) != settings
        )

    @property
    def apply_strategy_changed(self) -> bool:
        """Whether the apply strategy changed on any cluster.

        A hub then updates all at once, without a rollout.
        """
        # staged runs distribute the new strategy, not the hub itself.
        if self.is_external:
            return False
        return any(
            strategy != self.configuration.apply for strategy in self._list_prior_apply_strategies()
        )

    def _list_prior_apply_strategies(self) -> Iterator[ApplyStrategy]:
        """Yield the known apply strategies before the plan.

        They are those of the configuration, and of bindings on a hub.
        """
        if self.previous_configuration is not None:
            yield self.previous_configuration.apply
        for cluster in get_mapping(self.observed_attributes, "bindings"):
            strategy = self.find_apply_strategy(cluster)
            if strategy is not None:
                yield strategy

    def find_apply_strategy(self, cluster: str) -> ApplyStrategy | None:
        """Return the apply strategy on a cluster before the plan.

        The result is None if unknown, or with a binding in deletion.
        """
        # Not read from a hub: the same on all clusters.
        if not self.observed_attributes:
            return (
                None if self.previous_configuration is None else self.previous_configuration.apply
            )
        binding = get_mapping(self.observed_attributes, "bindings", cluster)
        if binding.get("deleting") or not binding.get("apply"):
            return None
        return json.decode(binding["apply"], type=ApplyStrategy)

    @property
    def spec_changed(self) -> bool:
        """Whether the configuration changed."""
        return (
            self.previous_configuration is not None
            and self.previous_configuration != self.configuration
        )

    def resolve_policy(self, member_list: MemberList) -> Policy:
        """Return the policy for these members.

        The old name of node-count is replaced by the current one unless a member has the old
        property or the configuration is strict.
        """
        policy = self.configuration.effective_policy
        return (
            rename_policy_properties(policy, member_list)
            if self.configuration.accepts_old_names
            else policy
        )

    @property
    def switches_to_applying(self) -> bool:
        """Whether the plan switches from only reporting differences to applying the objects.

        The type of the strategy was ReportDiff before.
        """
        if self.configuration.is_report_only or not self.apply_strategy_changed:
            return False
        return any(strategy.type == REPORT_DIFF for strategy in self._list_prior_apply_strategies())


def build_placement_spec(
    instance: Instance,
    configuration: FleetPlacement,
    observed_attributes: Mapping[str, Any] = NOT_OBSERVED,
) -> PlacementSpec:
    """Build the specification of an instance from its configuration and its state.

    `observed_attributes`, read from a hub, have priority over the state. A re-created placement
    starts without state.
    """
    recorded = {} if instance.is_replaced else get_mapping(instance.before)
    attributes = {**recorded, **observed_attributes}
    previous = build_merged_placement(instance, attributes) if attributes else None
    bindings = read_bindings(attributes)
    # None for a new placement.
    last_snapshot = read_policy_snapshot(attributes)
    snapshot = build_next_snapshot(last_snapshot, configuration.policy)
    # Without an earlier snapshot, nothing changed.
    earlier_snapshot = last_snapshot or snapshot
    earlier_number = earlier_snapshot.number_of_clusters
    number = configuration.number_of_clusters
    # The first condition is Scheduled.
    was_fulfilled = get_text(attributes, "conditions", 0, "status") == "True"
    return PlacementSpec(
        instance=instance,
        configuration=configuration,
        previous_configuration=previous,
        prior_bindings=bindings,
        deleting_clusters=frozenset(binding.cluster for binding in bindings if binding.is_deleting),
        policy_snapshot=snapshot,
        policy_changed=earlier_snapshot.index != snapshot.index,
        number_changed=earlier_number != number,
        number_increased=earlier_number is not None
        and number is not None
        and number > earlier_number,
        was_fulfilled=was_fulfilled,
        observed_attributes=observed_attributes,
    )


def rename_policy_properties(policy: Policy, member_list: MemberList) -> Policy:
    """Return the policy with the old name of node-count replaced.

    Return the same object if the policy does not have the old name, or if a member still has
    the old property.
    """
    required = policy.required_terms
    preferred = policy.preferred_terms
    renamed = replace(
        policy,
        required_terms=None
        if required is None
        else tuple(map(_rename_properties_in_term, required)),
        preferred_terms=tuple(
            replace(t, preference=_rename_properties_in_term(t.preference)) for t in preferred
        ),
    )
    if renamed == policy or any(
        OLD_NODE_COUNT in member.properties for member in member_list.members
    ):
        return policy
    return renamed


def _rename_properties_in_term(term: ClusterSelectorTerm) -> ClusterSelectorTerm:
    """Return the term with the current name of node-count in its sorter and selector."""
    sorter = term.property_sorter
    selector = term.property_selector
    new_names = {OLD_NODE_COUNT: NODE_COUNT}
    if sorter is not None:
        sorter = replace(sorter, name=new_names.get(sorter.name, sorter.name))
    if selector is not None:
        selector = tuple(
            replace(item, name=new_names.get(item.name, item.name)) for item in selector
        )
    return replace(term, property_sorter=sorter, property_selector=selector)
