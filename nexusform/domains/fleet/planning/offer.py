"""What a placement has to bring, and what of it stands already: the second stage of its plan."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from nexusform.domains.fleet.importers.fleet_model import FleetOverride
from nexusform.domains.fleet.planning.contents import Contents, ResourceSnapshot, with_snapshot
from nexusform.domains.fleet.planning.overrides import Rendered, Renders
from nexusform.domains.fleet.planning.selecting import SelectorProblem
from nexusform.domains.fleet.planning.world import Clusters
from nexusform.domains.fleet.scheduling.watcher import Trigger
from nexusform.domains.pods.importers.kubernetes_manifests import Manifest


class Offer(Struct, frozen=True):
    """The objects that are `selected`, and the `overrides` over them. `idle` are the numbers of selectors
    that select nothing; `refused` is what a hub has against the selectors: such a placement is left as it is.
    `clusters` are the members.
    """

    selected: tuple[Manifest, ...] = ()
    overrides: tuple[FleetOverride, ...] = ()
    idle: Sequence[int] = ()
    refused: SelectorProblem | None = None
    clusters: Clusters = Clusters()


class Standing(Struct, frozen=True):
    """`contents` is what stood before the plan. `left_to_runs` is what this plan changes of what only staged
    runs bring. `looked_at`: a hub looks at the placement, as the plan changes what it selects. `outdated` are
    clusters whose bindings name other override snapshots than are for them today, `otherwise` those for which
    overrides make something else of the objects than they have; `override_changed`: one that names the
    placement is another, which begins a rollout.
    """

    contents: Contents = Contents()
    resources_changed: bool = False
    left_to_runs: Trigger | None = None
    looked_at: bool = False
    outdated: frozenset[str] = frozenset()
    otherwise: frozenset[str] = frozenset()
    override_changed: bool = False


class Stock:
    """The resource snapshots, which grow as plan and runs take more, and what overrides make of each for each
    cluster. What a run brings to a cluster stays as it was when the run began.
    """

    def __init__(self, offer: Offer, snapshots: tuple[ResourceSnapshot, ...] = ()) -> None:
        self.snapshots = snapshots
        self._offer = offer
        self._renders: dict[int, Renders] = {}
        self._fixed: dict[str, tuple[int, Renders]] = {}

    def take(self, limit: int) -> ResourceSnapshot:
        """The snapshot of what is selected now: the newest one where nothing changed, else one more. `limit`
        is how many are kept.
        """
        self.snapshots = with_snapshot(self.snapshots, self._offer.selected, limit)
        return self.snapshots[-1]

    def fix(self, cluster: str, index: int, renders: Renders) -> None:
        """From now on the cluster gets this of a snapshot."""
        self._fixed[cluster] = index, renders

    def snapshot(self, index: int | None) -> ResourceSnapshot | None:
        """The snapshot with a number, as long as it is there."""
        return Contents(self.snapshots).snapshot(index)

    def rendered(self, index: int | None, cluster: str) -> Rendered | None:
        """What a cluster gets of a snapshot; None when there is no such snapshot or member."""
        if index is None:
            return None
        number, renders = self._fixed.get(cluster, (None, None))
        if renders is not None and number == index:
            return renders.get(cluster)
        if index not in self._renders:
            snapshot = self.snapshot(index)
            if snapshot is None:
                return None
            offer = self._offer
            self._renders[index] = Renders(snapshot.objects, offer.overrides, offer.clusters.labels)
        return self._renders[index].get(cluster)
