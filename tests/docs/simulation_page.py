"""Builder of the reference page of the JSON of `simulate`, from the sections of its reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nexusform.domains.whatif.questions.capacity import SkuCount, compute_site_capacity
from nexusform.domains.whatif.questions.kubernetes_upgrade import simulate_kubernetes_upgrade
from nexusform.domains.whatif.questions.kubernetes_upgrade_path import find_upgrade_path
from nexusform.domains.whatif.questions.repack_context import (
    Constraint,
    RepackRequest,
    build_repack_context,
)
from nexusform.domains.whatif.questions.repack_planning import (
    BlockingConstraint,
    RepackResult,
    RepackStatus,
)
from nexusform.domains.whatif.questions.repack_windows import MovedPod, RepackStep, RepackWindow
from nexusform.domains.whatif.questions.runtime_upgrade import (
    UpgradeOptions,
    UpgradeStrategy,
    simulate_runtime_upgrade,
)
from nexusform.domains.whatif.rendering.failure_report import build_failure_report
from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import (
    build_kubernetes_upgrade_report,
    build_upgrade_path_report,
)
from nexusform.domains.whatif.rendering.repack_report import build_repack_report
from nexusform.domains.whatif.rendering.runtime_upgrade_report import build_runtime_upgrade_report
from nexusform.domains.whatif.rendering.site_capacity_report import build_capacity_report
from nexusform.rendering.json.report_document import build_report_document
from nexusform.rendering.report.report_tree import Report
from nexusform.scheduling.racks.vms import Interval
from nexusform.snapshots.snapshot import SiteSnapshot
from tests.domains.whatif.questions.failures import build_start, simulate_rack_failure
from tests.planning.harness import cluster, pool
from tests.worlds.small_worlds import build_applied_state, build_racks, get_site

WORDS = """\
```sh
nexusform simulate failure -rack=rack7 -format=json
```

All answers have these members: `question`, `of` (the input), `hypothetical`, `finding`, `verdict`, `warnings`, `facts` and
`sections`. A section has a `name`, a `title`, `finding`, and what it shows: `lines`, `commands`, and `tables` with a `caption`.
A table has `rows`, one object each by column. A column of numbers has numbers, `{"min": N, "max": N}` if only bounds are known, or
null. A row has `finding`, too. A section without content is left out. Racks and zones that are columns are not listed here.

`simulate placement` has the section `clusters`, `simulate rebalance` has `evictions`. `explain` and `advise` have the same members:
`explain` has `rules`, `location`, `elsewhere`, `racks`, `machines` and `rejected` of a VM, `pools`, or `clusters` and `nodes` of a
fleet; `advise` has `findings`, each as in `validate -json`.

```sh
jq '.sections[] | select(.name == "losses") | .tables[] | select(.caption == "Each VM") | .rows[]' answer.json
```"""  # noqa: E501
_OLD = '  kubernetes_version = "1.29"\n'


def build_simulations_page(head: str) -> str:
    """Build docs/reference/simulations.md: the sections and columns of each question."""
    lines = [head, "", "# JSON of simulations", "", *WORDS.splitlines(), ""]
    for question, report in _build_reports().items():
        document = build_report_document(report)
        lines += [f"## simulate {question}", "", "| section | table | columns |", "|---|---|---|"]
        lines += dict.fromkeys(_list_rows(document))
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _list_rows(document: dict[str, Any]) -> Iterator[str]:
    """Yield a line per table of a document, without its columns of racks and zones."""
    for section in document["sections"]:
        for table in section.get("tables", [{"rows": []}]):
            keys = [key for key in table["rows"][0] if key != "finding"] if table["rows"] else []
            names = ", ".join(f"`{key}`" for key in keys if key[-1:].isalpha())
            yield f"| `{section['name']}` | {table.get('caption', '')} | {names or 'lines only'} |"


def _build_reports() -> dict[str, Report]:
    """Return the report of each question about a small site in which VMs lack capacity."""
    files = build_racks(2, 2, 1) + cluster(
        "a", arguments=_OLD, count=3, pools=pool("p", 6, "NC_P46_224_v1")
    )
    state = build_applied_state(files)
    site = get_site(state)
    start = build_start(state)
    mix = [SkuCount(1, site.skus["NC_P46_224_v1"])]
    options = UpgradeOptions(UpgradeStrategy.RACK, None, drain=True)
    upgrade = simulate_runtime_upgrade(start, site, options)
    path = find_upgrade_path(start, site, site.clusters, "1.30", {})
    return {
        "capacity": build_capacity_report([compute_site_capacity(site, mix=mix)], "state"),
        "failure": build_failure_report(simulate_rack_failure(state, "r1"), "state"),
        "runtime-upgrade": build_runtime_upgrade_report([upgrade], "state"),
        "kubernetes-upgrade": build_kubernetes_upgrade_report(
            simulate_kubernetes_upgrade(start, site, site.clusters[0]), "state"
        ),
        "kubernetes-upgrade -to": build_upgrade_path_report(path, "state"),
        "repack": build_repack_report(_build_repack_result(site), "state"),
    }


def _build_repack_result(site: SiteSnapshot) -> RepackResult:
    """Build a result with one window, one pod and one constraint, without a solver."""
    request = RepackRequest(sku=site.skus["NC_P46_224_v1"], want=1)
    source = build_repack_context(site, request).all_movable_vms[0]
    pod = MovedPod("a", "w", "w-0", "n", "m", "m", is_certain=True)
    window = RepackWindow((RepackStep(source, source.vm.placement, 1, 1),), (), (pod,))
    return RepackResult(
        request,
        site,
        RepackStatus.OPTIMAL,
        Interval(0, 0),
        bound=1,
        windows=(window,),
        blocking=(BlockingConstraint(Constraint.MOVES, "without -moves", 1),),
    )
