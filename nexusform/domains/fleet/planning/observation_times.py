"""Members whose nodes and pods were read at another time than their hub."""

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from nexusform.diagnostics.diagnostic import Diagnostic, build_warning
from nexusform.documents.times import parse_time
from nexusform.domains.pods.planning.cluster_observation import ExternalClusters
from nexusform.domains.pods.planning.external_clusters import list_read_blocks
from nexusform.interfaces.plugins import PlanningKind
from nexusform.json_data.plain_data import get_text
from nexusform.planning.name_resolution.name_evaluation import Evaluation
from nexusform.planning.plan_request import PlanRequest

OTHER_TIMES: Final = "dumps of several times"
_HOUR: Final = 3600


def warn_other_times(
    request: PlanRequest,
    evaluation: Evaluation,
    external: ExternalClusters,
    members: Mapping[str, Collection[str]],
) -> Iterator[tuple[str, Diagnostic]]:
    """Yield the members (name) read more than an hour before or after a dump of their hub.

    Each has a warning at the data block of its cluster. `members` are the names by cluster id.
    """
    hub_times = [
        hub_time
        for _, attributes in list_read_blocks(PlanningKind.HUB_EXPORT, request, evaluation)
        if (hub_time := parse_time(get_text(attributes, "exported_at"))) is not None
    ]
    for cluster_id, item in external.snapshots.items():
        observation_time = item.snapshot.observation_time
        # 0: unknown, which is a doubt of its own.
        if not observation_time:
            continue
        cluster_time = datetime.fromtimestamp(observation_time, UTC)
        for hub_time in hub_times:
            if abs((hub_time - cluster_time).total_seconds()) <= _HOUR:
                continue
            for name in members.get(cluster_id, ()):
                text = (
                    f"The files show member {name} as of {_format_time(cluster_time)}, and the "
                    f"dump of its hub as of {_format_time(hub_time)}. Placements and pods may have "
                    "changed in between. Create both again, at one time."
                )
                block = item.block
                yield (
                    name,
                    build_warning("several-times", text, block.header_span, block=block.header),
                )


def _format_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M on %Y-%m-%d} (UTC)"
