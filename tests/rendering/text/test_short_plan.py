"""Tests of the short plan: its content, length, width and completeness."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import build_warning
from nexusform.planning.conclusion.existing_findings import mark_existing_findings
from nexusform.plans.plan import (
    Action,
    Change,
    CheckResult,
    Mode,
    PlacementAction,
    PlacementFigures,
    Plan,
    PlannedOptions,
    SitePredictionAccuracy,
)
from nexusform.plans.site_capacity.occupancy import PoolVms, SiteSkuCapacity, SiteVms, SpareCapacity
from nexusform.rendering.notation.colours import strip_colours
from nexusform.rendering.page.html_page import render_html
from nexusform.rendering.pull_request.plan_comment import render_markdown
from nexusform.rendering.report.object_rows import build_object_folds, create_schema_lookup
from nexusform.rendering.report.placement_rows import ShownPlacements
from nexusform.rendering.text.plan_text import PlanTextOptions, render_plan
from nexusform.rendering.text.report_text import render_labelled_text
from nexusform.scheduling.sku_catalogue import CATALOGUES, NEWEST
from tests.planning.harness import (
    RACKS,
    build_all_types,
    build_state,
    cluster,
    plan,
    pool,
    require_success,
)
from tests.rendering.pieces import ALL_PLANS, D, address, change, table, vm_row


def render_short(plan: Plan, plans: SimpleNamespace, **more: object) -> str:
    options = replace(PlanTextOptions(registries=plans.registries), **more)
    return render_plan(plan, plans.files, options)


@pytest.mark.parametrize("name", ALL_PLANS)
def test_short_plan_matches_reviewed_file(
    name: str, plans: SimpleNamespace, golden: Callable[[str, str], None]
) -> None:
    golden(f"short/plans/{name}.txt", render_short(getattr(plans, name)(), plans))


@pytest.mark.parametrize("name", ALL_PLANS)
@pytest.mark.parametrize("width", [80, 120, 200])
def test_lines_fit_the_screen_and_names_are_not_broken(
    name: str, width: int, plans: SimpleNamespace
) -> None:
    plan = getattr(plans, name)()
    lines = render_short(plan, plans, width=width).split("\n")
    assert all(len(line) <= width for line in lines)
    unbroken = render_short(plan, plans, width=1000)
    names = [
        word for line in lines for word in line.split() if re.fullmatch(r"[a-z][\w.-]{11,}", word)
    ]
    assert all(word in unbroken for word in names)


@pytest.mark.parametrize("name", ALL_PLANS)
@pytest.mark.parametrize("detail", list(ShownPlacements))
def test_colour_adds_only_escapes(
    name: str, detail: ShownPlacements, plans: SimpleNamespace
) -> None:
    plan = getattr(plans, name)()
    plain = render_short(plan, plans, placements=detail)
    coloured = render_short(plan, plans, placements=detail, colour=True)
    assert "\x1b" not in plain
    assert strip_colours(coloured) == plain


def test_verdict_is_last(plans: SimpleNamespace) -> None:
    lines = render_short(plans.added_cluster(), plans, saved_path="p.plan").rstrip("\n").split("\n")
    assert lines[-1] == "Plan: 1 to add, 0 to change, 0 to destroy."
    assert lines[-2].startswith("Placements: 53 to place, 0 to move")
    saved = lines.index('Saved the plan to: p.plan   (nexusform apply "p.plan")')
    assert saved > max(i for i, line in enumerate(lines) if line.startswith("i "))


def test_only_configured_arguments_are_shown_as_changes(plans: SimpleNamespace) -> None:
    text = render_short(plans.changed_placements(), plans)
    (line,) = [line for line in text.split("\n") if "~ nexus_kubernetes_cluster.d" in line]
    assert line.split() == [
        "~",
        "nexus_kubernetes_cluster.d",
        "cluster-d:",
        "pool2",
        "count",
        "24",
        "->",
        "21",
    ]
    assert "node_count" not in text


def test_move_has_origin_target_and_reason(plans: SimpleNamespace) -> None:
    text = render_short(plans.changed_placements(), plans, colour=True)
    (line,) = [line for line in text.split("\n") if "machine_evacuated" in line]
    assert re.search(r"rack\d-bm\d\d -> rack7-bm14 \(machine_evacuated\)$", line)
    assert "\x1b[1mcluster-d-" in line
    assert "\x1b[1;33m1 to move\x1b[0m" in text


def test_drained_rack_is_summarized() -> None:
    schema_of = create_schema_lookup(build_all_types())
    machines = {f"rack3-bm{number:02}": {} for number in range(1, 17)}
    before = {"name": "rack3", "machine_count": 16, "machines": machines, "machine_override": {}}
    for drained, said in (
        (16, "all 16 machines (evacuate = true)"),
        (2, "rack3-bm01,02 (evacuate = true)"),
    ):
        overrides = {
            name: {"evacuate": True, "cordoned": False} for name in list(machines)[:drained]
        }
        after = before | {"machine_override": overrides}
        rack = change(address("nexus_rack", "r"), Action.UPDATE, before, after)
        (fold,) = build_object_folds(Plan(changes=(rack,)), schema_of)
        assert fold.clauses[-1].removeprefix("rack3: ") == said
        (fold,) = build_object_folds(
            Plan(changes=(replace(rack, before=after, after=before),)), schema_of
        )
        assert fold.clauses[-1].removeprefix("rack3: ") == said.replace(" (", " no longer (")


def test_rows_are_aligned_for_labels_of_any_length() -> None:
    old = "web"
    new = "abcdefghijklmnop"
    rows = [
        change(address("nexus_kubernetes_cluster", old), Action.DELETE, {"node_count": 7}, None),
        change(address("nexus_kubernetes_cluster", new), Action.CREATE, None, {"node_count": 7}),
    ]
    text = render_plan(Plan(changes=tuple(rows)), {}, PlanTextOptions(registries=build_all_types()))
    assert [line.index("7 VMs") for line in text.split("\n") if "7 VMs" in line] == [47, 47]


def test_probable_rename_is_reported_with_moved_block() -> None:
    def build_configuration(name: str) -> str:
        return RACKS + cluster(name, pools=pool("p", 2))

    made = require_success(
        plan(build_configuration("b"), build_state(build_configuration("a")))
    ).plan
    text = render_plan(made, {}, PlanTextOptions(registries=build_all_types()))
    block = [line.strip(" │") for line in text.partition("moved {")[2].split("\n")[:4]]
    assert block == [
        "",
        "from = nexus_kubernetes_cluster.a",
        "to   = nexus_kubernetes_cluster.b",
        "}",
    ]
    comment = render_markdown(made, {}, build_all_types())
    assert "  ```hcl\n  moved {\n    from = nexus_kubernetes_cluster.a\n" in comment


def test_replacement_has_its_cause(plans: SimpleNamespace) -> None:
    text = render_short(plans.every_action(), plans, width=200)
    assert re.search(r"-/\+ nexus_rack\.j +r: availability_zone .* \(forces replacement\)", text)
    state = build_state(RACKS + cluster("a", pools=pool("p", 2)))
    changed = plan(RACKS + cluster("a", pools=pool("p", 2, sku="NC_G12_56_v1")), state)
    text = render_plan(
        require_success(changed).plan, {}, PlanTextOptions(registries=build_all_types(), width=200)
    )
    assert re.search(
        r"~ nexus_kubernetes_cluster\.a +p vm_sku_name .* \(replaces this agent_pool\)", text
    )


def test_replacement_without_changed_argument_has_its_cause(plans: SimpleNamespace) -> None:
    text = render_short(plans.every_action(), plans, width=200)
    assert re.search(r"-/\+ nexus_rack\.k +r: \(tainted\)", text)
    assert re.search(r'nexus_rack\.p +r: imported from "lab/r"', text)


def test_secrets_are_not_shown(plans: SimpleNamespace) -> None:
    secret = {"id": "x", "name": "hunter2", "location": "hunter3", "machine_count": 3}
    hidden = {
        "sensitive_before": (("name",), ("location",)),
        "sensitive_after": (("name",), ("location",)),
    }
    changes = tuple(
        plans.change(plans.address("thing", f"t{action.name}x"), action, before, after, **hidden)
        for action, before, after in (
            (Action.CREATE, None, secret),
            (Action.UPDATE, secret, secret | {"location": "hunter4"}),
            (Action.DELETE, secret, None),
            (Action.FORGET, secret, secret),
        )
    )
    text = render_short(Plan(changes=changes), plans)
    assert "3 machines" in text
    assert "hunter" not in text


def test_destroyed_object_is_named(plans: SimpleNamespace) -> None:
    gone = plans.change(D, Action.DELETE, plans.added_cluster().changes[0].after, None)
    text = render_short(Plan(options=PlannedOptions(mode=Mode.DESTROY), changes=(gone,)), plans)
    assert "- nexus_kubernetes_cluster.d  cluster-d: 53 VMs in 3 pools" in text
    assert "Plan: 0 to add, 0 to change, 1 to destroy." in text


def test_plan_without_changes(plans: SimpleNamespace) -> None:
    kept = plans.change(D, Action.NO_OP, {"id": "x"}, {"id": "x"})
    text = render_short(Plan(changes=(kept,), figures=PlacementFigures(unchanged_count=178)), plans)
    assert text.startswith("No changes. Your infrastructure matches the configuration.")
    assert "Placements: 0 to place, 0 to move, 0 to remove, 178 kept." in text
    assert "Plan:" not in text
    assert "Not saved" not in text


def test_failed_plan_shows_no_changes(plans: SimpleNamespace) -> None:
    text = render_short(replace(plans.added_cluster(), errored=True), plans)
    assert text.startswith("Planning failed.")
    assert "zones-pinned" in text
    for part in ("Plan:", "Placements:", "Where VMs land", "Saved", "Certainty"):
        assert part not in text


def test_warnings_precede_advice_and_name_all_subjects(plans: SimpleNamespace) -> None:
    names = [f"{'ab'[i % 2]}{i}x/pool" for i in range(20)]
    failing = [
        build_warning("no-surge-capacity", "", brief=(f"{name}: an upgrade would fail"))
        for name in names
    ]
    advice = [build_warning("zones-pinned", "", brief=f"c{i}/p: reason {i}") for i in range(30)]
    text = render_short(replace(plans.added_cluster(), diagnostics=(*advice, *failing)), plans)
    assert text.index("! no-surge-capacity") < text.index("i zones-pinned")
    assert all(name in " ".join(text.split()) for name in names)
    assert "i 18 more: zones-pinned" in text


def test_entry_has_at_most_three_lines(plans: SimpleNamespace) -> None:
    long = build_warning(
        "incomplete-rollout", "word " * 200, plans.span_of("agent_pool"), address="a.b"
    )
    text = render_short(replace(plans.added_cluster(), diagnostics=(long,)), plans)
    entry = (
        text[text.index("! incomplete-rollout") : text.index("  All warnings")]
        .rstrip("\n")
        .split("\n")
    )
    assert len(entry) == 3
    assert entry[-1].endswith("...  main.nf.hcl:4")


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("A is so. Therefore b: " + "word " * 60, "A is so."),
        ("There are 3 lacking cpu; 1 has " + "word " * 60, "There are 3 lacking cpu"),
        ("manifest:7: it is read as b [c]. manifest:9: " + "word " * 60, "it is read as b [c]."),
        ("On cluster a: it is left as it is: " + "word " * 60, "On cluster a: it is left as it is"),
        ("The pool is too small (" + "word " * 60 + ")", "The pool is too small"),
    ],
)
def test_long_entry_ends_with_a_complete_clause(
    text: str, end: str, plans: SimpleNamespace
) -> None:
    told = build_warning("not-captured", text, plans.span_of("agent_pool"), address="a.b")
    drawn = render_short(replace(plans.added_cluster(), diagnostics=(told,)), plans)
    entry = drawn[drawn.index("! not-captured") : drawn.index("  All warnings")]
    assert " ".join(entry.split()).endswith(f"{end} main.nf.hcl:4")
    assert "..." not in entry


def test_no_entry_of_an_example_is_cut() -> None:
    texts = sorted((Path(__file__).parents[1] / "golden" / "short").glob("*.txt"))
    assert texts
    entry = re.compile(r"^[!i] .*(?:\n    .*)*", re.MULTILINE)
    entries = [text for path in texts for text in entry.findall(path.read_text(encoding="utf-8"))]
    assert entries
    assert [each for each in entries if re.search(r" \.\.\.(?: |$)", each)] == []


def test_long_id_is_followed_by_its_subject(plans: SimpleNamespace) -> None:
    told = build_warning(
        "empty-resource-selection", "It stops.", plans.span_of("agent_pool"), address="a.b"
    )
    drawn = render_short(replace(plans.added_cluster(), diagnostics=(told,)), plans)
    assert "! empty-resource-selection  a.b:\n    It stops.    main.nf.hcl:4\n" in drawn


def build_surge_warning(address_text: str) -> object:
    return build_warning(
        "no-surge-capacity",
        "",
        brief="cluster-d/pool1: an upgrade would fail",
        address=address_text,
    )


@pytest.mark.parametrize(("before", "caused"), [(("cluster-d",), False), ((), True), (None, True)])
def test_preexisting_finding_is_not_attributed_to_the_plan(
    before: tuple[str, ...] | None, caused: bool, plans: SimpleNamespace
) -> None:
    sku = CATALOGUES[NEWEST].vm_skus["NC_P46_224_v1"]
    stood = None if before is None else SpareCapacity(4, 2, "rack1", ("cluster-d",), before)
    capacity = SiteSkuCapacity(
        "lab",
        "lab",
        sku.name,
        1,
        stood,
        SpareCapacity(3, 1, "rack1", ("cluster-d",), ("cluster-d",)),
    )
    plan = replace(
        plans.added_cluster(),
        diagnostics=(build_surge_warning(str(D)),),
        site_records=replace(
            plans.added_cluster().site_records,
            sites=(SiteVms("lab", "lab", pools=(PoolVms(D, "cluster-d", "pool1", sku),)),),
            capacity=(capacity,),
        ),
    )
    text = render_short(mark_existing_findings(plan), plans)
    assert ("! no-surge-capacity" in text) is caused
    assert ("not caused by this plan: no-surge-capacity cluster-d/pool1" in text) is not caused
    assert "Upgrades:    no surge capacity for cluster-d\n" in text
    assert re.search(r"\nCapacity:    lab (4 -> )?3 x NC_P46_224_v1 \(", text)


def test_expected_figures_are_shown_if_they_differ(plans: SimpleNamespace) -> None:
    uneven = table("pool1", "NC_P46_224_v1", 32, {"r1": 5, "r2": 3, "r3": 8}, expected=8, placed=32)
    row = vm_row("cluster-d-pool1-0", PlacementAction.PLACE, "new", None, _SPOT)
    plan = replace(
        plans.added_cluster(),
        figures=replace(plans.added_cluster().figures, placement_tables=(uneven,)),
        placements=(row,),
    )
    assert "uneven: 8 on r3, 5 on r1, 3 on r2; even would be 4 on 8 racks" in render_short(
        plan, plans
    )
    even = table("pool1", "NC_P46_224_v1", 32, {f"r{i}": 4 for i in range(8)}, placed=32)
    assert "expected" not in render_short(
        replace(plan, figures=replace(plan.figures, placement_tables=(even,))), plans
    )


_SPOT = {"machine": "r1-bm01", "rack": "r1", "availability_zone": "1", "numa_cells": [0]}


def test_confidence_names_the_comparison_of_the_rule_with_the_site(plans: SimpleNamespace) -> None:
    plan = plans.added_cluster()
    (site,) = {table.site_id for table in plan.figures.placement_tables if table.placed}
    text = " ".join(render_short(plan, plans).split())
    assert (
        f"if the placement rule holds (not verified on {site}: nexusform reconcile -replay)"
    ) in text
    score = SitePredictionAccuracy(site, 209, 215, unverified_count=0, date="2026-11-20")
    text = " ".join(
        render_short(
            replace(plan, figures=replace(plan.figures, prediction_scores=(score,))), plans
        ).split()
    )
    assert f" (rule verified on {site} 2026-11-20: 209 of 215 VMs); Azure" in text
    assert "if the placement rule holds" not in text


# few samples prove nothing.
@pytest.mark.parametrize("samples", [0, 1, 9])
def test_uncomputed_certainty_has_no_figures(plans: SimpleNamespace, samples: int) -> None:
    text = render_short(
        replace(
            plans.added_cluster(), figures=replace(plans.added_cluster().figures, samples=samples)
        ),
        plans,
    )
    assert f"Confidence:  not computed (-samples={samples})" in text
    assert " of 53" not in text


@pytest.mark.parametrize(
    ("placed", "samples", "text"),
    [
        (53, 100, ""),
        (2_000, 100, ""),
        (4_000, 50, "; 50 samples"),
        (30_000, 0, "not computed for so many VMs; -samples=100 computes it"),
        (30_000, 5, "not computed (-samples=5)"),
    ],
)
def test_confidence_of_large_plans_names_their_fewer_samples(
    plans: SimpleNamespace, placed: int, samples: int, text: str
) -> None:
    plan = plans.added_cluster()
    first, *others = [table for table in plan.figures.placement_tables if table.placed]
    added = placed - sum(table.placed for table in (first, *others))
    tables = (replace(first, placed=first.placed + added), *others)
    output = render_short(
        replace(plan, figures=replace(plan.figures, placement_tables=tables, samples=samples)),
        plans,
    )
    [line] = re.findall(r"Confidence: +(.*(?:\n {13}.*)*)", output)
    line = " ".join(line.split())
    if text:
        assert line.endswith(text)
    else:
        assert "samples" not in line


def test_conditions_are_marked_as_predicted(plans: SimpleNamespace) -> None:
    checks = (
        CheckResult("resource", "a.b", "pass"),
        CheckResult("check", "check.c", "fail", ("no",)),
    )
    text = render_short(
        replace(
            plans.added_cluster(), verdicts=replace(plans.added_cluster().verdicts, checks=checks)
        ),
        plans,
    )
    assert re.search(r"Conditions: +1 holds, 1 fails \(predicted\)\.", text)


def test_terraform_header_is_printed_for_its_tools(plans: SimpleNamespace) -> None:
    plan = plans.added_cluster()
    details = render_short(plan, plans, details=True)
    assert "\nnexusform will perform the following actions:\n" in details
    compatible = render_short(plan, plans, terraform=True)
    of_terraform = details.replace("nexusform will perform", "Terraform will perform").partition(
        "\nImpact: "
    )[0]
    # Terraform tools know only errors and warnings.
    assert compatible == of_terraform.replace("Advice: ", "Warning: ")


def build_racks(count: int, name: Callable[[int], str]) -> tuple[Change, ...]:
    return tuple(
        change(
            address("nexus_rack", name(i)),
            Action.CREATE,
            None,
            {
                "id": f"lab/{name(i)}",
                "name": name(i),
                "machine_count": 2 + i % 7,
                "machine_sku": f"s{i % 90}",
            },
        )
        for i in range(count)
    )


@pytest.mark.parametrize("name", ["c-{:04}", "{:x}z"])
def test_five_thousand_objects_take_at_most_two_hundred_lines(
    name: str, plans: SimpleNamespace
) -> None:
    tables = tuple(
        replace(
            table("pool1", "NC_P46_224_v1", 8, {"r1": 4, "r2": 4}, placed=8),
            cluster=f"c-{i:04}",
            address=a,
        )
        for i, a in enumerate(address("nexus_kubernetes_cluster", f"c{i}") for i in range(500))
    )
    rows = tuple(
        replace(
            vm_row(f"cluster-d-pool1-{i}", PlacementAction.MOVE, "machine_evacuated", _SPOT, _SPOT),
            address=t.address,
        )
        for i, t in enumerate(tables)
    )
    plan = Plan(
        changes=build_racks(5001, name.format),
        figures=PlacementFigures(placement_tables=tables, samples=10),
        placements=rows,
    )
    text = render_short(plan, plans)
    assert len(text.split("\n")) <= 200
    assert "Plan: 5001 to add, 0 to change, 0 to destroy." in text
    assert "500 to move" in text


def test_thousands_are_separated_except_in_lines_for_tools(plans: SimpleNamespace) -> None:
    rows = tuple(
        vm_row(f"cluster-d-pool1-{i}", PlacementAction.PLACE, "new", None, _SPOT)
        for i in range(1200)
    )
    made = Plan(changes=build_racks(1001, "c-{:04}".format), placements=rows)
    plain_number = re.compile(r"(?<![-\w.,])[0-9]{4,}(?![-\w])")
    text = render_short(made, plans)
    assert "Placements: 1,200 to place, 0 to move" in text
    # Terraform tools expect this line in Terraform's format.
    assert "Plan: 1001 to add, 0 to change, 0 to destroy." in text
    assert plain_number.findall(text.replace("Plan: 1001", "")) == []
    comment = render_markdown(made, {}, plans.registries)
    assert "\n> - Plan: 1,001 to add, 0 to change, 0 to destroy.\n" in comment
    page = render_html(made, {}, plans.registries)
    assert "<dt>Plan</dt><dd>1,001 to add, 0 to change, 0 to destroy.</dd>" in page


def test_manifest_change_is_reported_by_object_and_field(plans: SimpleNamespace) -> None:
    manifest = "kind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
    turned = manifest.replace("3", "5")
    edited = change(address("thing", "x"), Action.UPDATE, {"body": manifest}, {"body": turned})
    assert "~ thing.x  Deployment web: replicas 3 -> 5\n" in render_short(
        Plan(changes=(edited,)), plans
    )
    secret = replace(edited, sensitive_before=(("body",),), sensitive_after=(("body",),))
    assert "replicas" not in render_short(Plan(changes=(secret,)), plans)


def test_label_wider_than_the_screen_is_wrapped() -> None:
    label = f"  ~ {'a' * 40}-control-plane-0 [{'b' * 40}-pv2zt]"
    lines = render_labelled_text(label, "-> rack1", 30, 80)
    assert max(map(len, lines)) <= 80
    assert lines == [f"  ~ {'a' * 40}-control-plane-0", f"      [{'b' * 40}-pv2zt]  -> rack1"]
