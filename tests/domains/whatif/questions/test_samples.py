"""Tests of simulations with unknown NUMA cells of VMs.

They count the samples with sufficient capacity.
"""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from nexusform.domains.whatif.questions.failure_simulation import Failure
from nexusform.domains.whatif.questions.kubernetes_upgrade import (
    KubernetesUpgrade,
    simulate_kubernetes_upgrade,
)
from nexusform.domains.whatif.rendering.failure_report import build_failure_report
from nexusform.domains.whatif.rendering.kubernetes_upgrade_report import (
    build_kubernetes_upgrade_report,
)
from nexusform.rendering.json.report_document import build_report_document
from nexusform.rendering.pull_request.report_markdown import render_report_markdown
from nexusform.rendering.text.report_text import render_report_text
from nexusform.scheduling.racks.vms import Interval
from tests.domains.whatif.questions.failures import (
    build_start,
    simulate_loss,
    simulate_rack_failure,
)
from tests.planning.harness import cluster, pool
from tests.worlds.small_worlds import build_applied_state, build_racks, get_site


def find_table(failure: Failure, caption: str) -> dict[str, Any]:
    """Return a table of the JSON document of a failure."""
    document = build_report_document(build_failure_report(failure, "state"))
    tables = [table for section in document["sections"] for table in section.get("tables", ())]
    [found] = [table for table in tables if table.get("caption") == caption]
    return found


RACK = """
resource "nexus_rack" "others" {
  site_id           = nexus_site.s.id
  name              = "others"
  availability_zone = "2"
  machine_count     = 0
}
"""
SPARE = RACK.replace("others", "spare").replace("= 0", "= 1").replace('"2"', '"3"')


def render_machine(number: int, first: str, second: str) -> str:
    """Return a machine with two unmanaged VMs: in the same cell they leave the other one empty."""
    vms = "".join(
        f'occupied {{\n name = "x{number}-{at}"\n cpu_cores = 20\n memory_gib = 90\n {cells}\n}}\n'
        for at, cells in enumerate((first, second))
    )
    return f"""
resource "nexus_bare_metal_machine" "m{number}" {{
  rack_id     = nexus_rack.others.id
  name        = "o{number}"
  slot        = {number}
  machine_sku = "bom-1.7.3"
  {vms}
}}
"""


def render_site(workers: int, *cells: tuple[str, str], more: str = "") -> str:
    """Return workers with one cell each on rack r1, and next to it machines of other owners."""
    others = "".join(render_machine(number, *each) for number, each in enumerate(cells, 1))
    pools = pool("p", workers, "NC_P46_224_v1", more)
    return build_racks((workers + 2) // 2) + RACK + others + cluster("a", pools=pools)


UNKNOWN = ("", "")
KNOWN = (("cells = [0]", "cells = [0]"), ("cells = [0]", "cells = [1]"))


def simulate_rack_loss(text: str) -> Failure:
    return simulate_rack_failure(build_applied_state(text), "r1")


def simulate_upgrade(text: str) -> KubernetesUpgrade:
    state = build_applied_state(text)
    site = get_site(state)
    [a] = site.clusters
    return simulate_kubernetes_upgrade(build_start(state), site, a)


@pytest.mark.parametrize(("workers", "machines"), [(1, 1), (2, 2), (3, 2)])
def test_bounds_include_every_split_of_other_vms(workers: int, machines: int) -> None:
    failure = simulate_rack_loss(render_site(workers, *[UNKNOWN] * machines))
    assert failure.samples is not None
    truths = [
        simulate_rack_loss(render_site(workers, *cells))
        for cells in product(KNOWN, repeat=machines)
    ]
    assert all(truth.samples is None for truth in truths)
    missing = [truth.missing for truth in truths]
    assert failure.samples.missing_count == Interval(min(missing), max(missing))
    [control_plane, pool_of_workers] = failure.samples.pools
    assert (control_plane, pool_of_workers) == (Interval(0, 0), failure.samples.missing_count)
    assert bool(failure.samples.numa_sampling.fitting_count) == (min(missing) == 0)
    assert failure.has_findings


def test_bounds_of_single_re_created_pool_hold_for_every_split() -> None:
    state = build_applied_state(render_site(3, UNKNOWN, UNKNOWN))
    site = get_site(state)
    [plane] = site.clusters[0].pools[0].vms
    [machine_] = [
        each.name for each in site.machines_by_rack["r1"] if each.name != plane.placement.machine
    ]
    failure = simulate_loss(state, [machine_])
    assert failure.samples is not None
    assert (failure.samples.missing_count, failure.samples.is_exact) == (Interval(0, 2), True)
    [row] = find_table(failure, "Re-created VMs")["rows"]
    assert row["no_place"] == {"min": 0, "max": 2}


def test_failure_reports_number_of_fitting_samples() -> None:
    failure = simulate_rack_loss(render_site(2, UNKNOWN, UNKNOWN))
    assert failure.samples is not None
    fitting = failure.samples.numa_sampling.fitting_count
    assert 0 < fitting < 100
    outline = build_failure_report(failure, "state")
    for text in (
        render_report_text(outline, colour=False, width=100),
        render_report_markdown(outline),
    ):
        words = " ".join(text.split())
        assert (
            f"0 to 2 VMs fit nowhere else; everything fits in {fitting} of 100 samples (NUMA use "
            "unknown)"
        ) in words
        assert (
            f"unknown on 2 machines; everything fits in {fitting} of 100 sampled layouts" in words
        )
        assert re.search(r"Azure\W+0\W+0 to 2\W+0 to 2", words)
        assert "others / o2" in words
        assert "o2 /" not in words
    assert "❌ Loss of" in render_report_markdown(outline)
    rows = find_table(failure, "Re-created VMs")["rows"]
    # The control plane is lost, so no node can be deleted before a machine returns.
    assert rows[1]["fits_after"] == {"min": 0, "max": 2}


def test_fit_in_every_sample_is_no_finding() -> None:
    failure = simulate_rack_loss(render_site(1, UNKNOWN) + SPARE)
    assert failure.samples is not None
    assert (failure.samples.numa_sampling.fitting_count, failure.samples.is_certain) == (100, True)
    outline = build_failure_report(failure, "state")
    assert "every node fits elsewhere" in outline.verdict
    rows = find_table(failure, "Re-created VMs")["rows"]
    assert [row["no_place"] for row in rows] == [0] * len(rows)


def test_no_sampling_without_re_creations_or_unknown_cells() -> None:
    assert simulate_loss(build_applied_state(render_site(1, UNKNOWN)), ["o1"]).samples is None
    failure = simulate_rack_loss(render_site(1, KNOWN[0]))
    assert failure.samples is None


def test_unknown_cells_of_lost_machines_do_not_count() -> None:
    for others, machines in (((UNKNOWN, UNKNOWN), 1), ((UNKNOWN,), 0)):
        state = build_applied_state(render_site(2, *others) + SPARE)
        lost = [machine.name for machine in get_site(state).machines_by_rack["r1"]]
        failure = simulate_loss(state, [*lost, "o1"])
        assert failure.recreations
        count = 0 if failure.samples is None else failure.samples.numa_sampling.machines
        assert count == machines


TWO = 'upgrade_settings {\n max_surge = "2"\n }'


def test_upgrade_reports_number_of_fitting_samples() -> None:
    upgrade = simulate_upgrade(render_site(3, UNKNOWN, more=TWO))
    assert upgrade.samples is not None
    fitting = upgrade.samples.numa_sampling.fitting_count
    assert 0 < fitting < 100
    assert upgrade.has_findings
    assert [
        bool(simulate_upgrade(render_site(3, each, more=TWO)).blocked_pools) for each in KNOWN
    ] == [False, True]
    outline = build_kubernetes_upgrade_report(upgrade, "state")
    for text in (
        render_report_text(outline, colour=False, width=100),
        render_report_markdown(outline),
    ):
        words = " ".join(text.split())
        assert f"The upgrade fits in {fitting} of 100 samples (NUMA use unknown)" in words
        assert "no surge capacity for p." in words
    known = simulate_upgrade(render_site(3, KNOWN[0], more=TWO))
    assert not any("NUMA" in fact for fact in build_kubernetes_upgrade_report(known, "x").facts)
