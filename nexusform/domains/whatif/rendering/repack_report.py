"""Report of `simulate repack`."""

import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Final

from nexusform.diagnostics.phrases import format_count, format_list, select_word_form
from nexusform.domains.whatif.questions import repack_orders
from nexusform.domains.whatif.questions.repack_planning import RepackResult, RepackStatus
from nexusform.domains.whatif.questions.repack_windows import RepackStep, RepackWindow
from nexusform.placement_kinds.vm_kind import format_short_location
from nexusform.rendering.report.report_tree import Report, Row, Section, Table
from nexusform.scheduling.racks.vms import Interval

_VIRTUAL_MACHINE: Final = "nexus_virtual_machine"
_RACK: Final = "nexus_rack"
_RESULT_HEADERS: Final = (
    "status",
    "requested",
    "fit now",
    "at most",
    "re-creations",
    "at least",
    "windows",
)


def build_repack_report(repack: RepackResult, origin: str) -> Report:
    """Build the report: summary with proof, blocking constraints, and every window.

    Windows have commands.
    """
    sections = [_build_result_section(repack)]
    if repack.blocking:
        constraint_rows: list[Row] = []
        for constraint in repack.blocking:
            # No solution without the constraint, either.
            answer = "no"
            recreations = ""
            if constraint.recreations is not None:
                answer = "yes"
                recreations = f"{constraint.recreations:,}"
            elif constraint.undecided:
                answer = "not decided"
            constraint_rows.append(Row((constraint.loosened_by, answer, recreations)))
        heads = ("loosened", "fits then", "re-creations")
        table = Table(heads, tuple(constraint_rows), number_columns=frozenset({2}))
        title = "Blocking constraints (each tested alone)"
        sections.append(Section(title, table=table, name="blocking"))
    for number, window in enumerate(repack.windows, 1):
        sections.append(_build_window_section(repack, window, number))
        if window.pods:
            sections.append(_build_pod_section(window, number))
    request = repack.request
    zones = (
        ""
        if request.zones is None
        else f" in zones {', '.join(sorted(request.zones, key=str.encode))}"
    )
    return Report(
        title=(
            f"Capacity for {request.want:,} more {request.sku.title}{zones} on {repack.site.id} "
            f"({origin})"
        ),
        verdict=_build_summary(repack),
        is_finding=repack.has_findings,
        facts=tuple(_describe_proof(repack)),
        sections=tuple(sections),
    )


def _build_result_section(repack: RepackResult) -> Section:
    """Build the figures of the answer; a proved answer has no more than the minimum."""
    figures = (
        repack.request.want,
        repack.fits_now,
        repack.maximum,
        repack.recreations,
        repack.bound,
        len(repack.windows),
    )
    cells = ("" if figure is None else _format_figure(figure) for figure in figures)
    row = Row((repack.status.value, *cells), is_finding=repack.has_findings)
    numbers = frozenset(range(1, len(_RESULT_HEADERS)))
    return Section("Result", table=Table(_RESULT_HEADERS, (row,), numbers), name="result")


def _format_figure(figure: int | Interval) -> str:
    """Format a number, or its bounds."""
    return f"{figure:,}" if isinstance(figure, int) else str(figure)


def _build_summary(repack: RepackResult) -> str:
    """Build the summary: number of re-creations, and whether it or the impossibility is proved."""
    want = repack.request.want
    sku = repack.request.sku.title
    # 0 without a solution.
    recreations = repack.recreations or 0
    match repack.status:
        case RepackStatus.NOTHING_TO_DO:
            return (
                f"Nothing to do: {repack.fits_now} "
                f"{select_word_form(repack.fits_now.maximum, 'fits', 'fit')} now."
            )
        case RepackStatus.OPTIMAL:
            vms = format_count(recreations, "VM")
            return f"{vms} to re-create; this is the minimum (proved)."
        case RepackStatus.GAP if recreations:
            bound = repack.bound or 0
            vms = format_count(recreations, "VM")
            per_cent = 100 * (recreations - bound) / recreations
            return f"{vms} to re-create; at least {bound} are needed (gap {per_cent:.1f} %)."
        case RepackStatus.GAP:
            return f"No solution found, none ruled out: at least {repack.bound} re-creations."
    # It is impossible within -moves.
    if repack.bound is not None and repack.request.moves is not None:
        return (
            f"Not possible with {format_count(repack.request.moves, 're-creation')}: at least "
            f"{repack.bound} are needed (proved)."
        )
    return f"Not possible: no choice of re-creations frees capacity for {want:,} {sku} (proved)."


def _describe_proof(repack: RepackResult) -> Iterable[str]:
    """Build sentences about the proof and its limits."""
    request = repack.request
    if repack.status is not RepackStatus.NOTHING_TO_DO:
        verb = select_word_form(repack.fits_now.maximum, "fits", "fit")
        yield f"{repack.fits_now} of {request.want:,} {verb} now."
    if repack.maximum is not None:
        yield (
            f"{repack.maximum:,} {select_word_form(repack.maximum, 'is', 'are')} the maximum "
            "that can fit."
        )
    if repack.windows:
        pools_text = format_count(repack.pool_count, "pool")
        minimum_text = "" if repack.minimum_windows == 1 else " (the minimum for these VMs)"
        # Fewer windows may be possible for these VMs.
        if len(repack.windows) > repack.minimum_windows:
            minimum_text = f" (at least {repack.minimum_windows} for these VMs)"
        yield (
            f"{format_count(repack.pod_restarts, 'pod')} restart, {pools_text} "
            f"{select_word_form(repack.pool_count, 'is', 'are')} affected, in "
            f"{format_count(len(repack.windows), 'window')}{minimum_text}."
        )
        yield _describe_certainty(repack)
    if repack.unknown_machines:
        known_text = ""
        # Re-creations with the cells of one sample.
        if repack.if_known is not None:
            count_text = format_count(repack.if_known, "re-creation")
            known_text = f" With known cells, {count_text} might be enough (one sample)."
        yield (
            f"On {format_count(repack.unknown_machines, 'machine')} NUMA use is unknown. Such a "
            "machine is emptied "
            f"completely or kept, and gets only VMs that fit in any case.{known_text}"
        )
    if repack.is_machine_dependent:
        yield "The search stopped at the -time limit; the result may differ on another computer."
    if repack.has_no_order:
        yield (
            "Some choices would free capacity, but no tested steps lead Azure's placement rule to "
            "them."
        )
    if repack.status is RepackStatus.GAP:
        yield _describe_order_search(repack)


def _describe_order_search(repack: RepackResult) -> str:
    """Describe how far the orders of re-creations were searched."""
    if repack.searched_orders is None:
        if repack.unknown_machines:
            cause = f"NUMA use is unknown on {format_count(repack.unknown_machines, 'machine')}"
        elif repack.movable_vms > repack_orders.MAX_VMS:
            cause = (
                f"the site has {repack.movable_vms:,} movable VMs, more than "
                f"{repack_orders.MAX_VMS}"
            )
        else:
            cause = "VMs were kept because of their pods"
        return f"Not every order was searched: {cause}."
    if repack.orders_cut_at is not None:
        return (
            f"The search of orders was cut at {format_count(repack.orders_cut_at, 're-creation')}."
        )
    return (
        f"Every order of up to {format_count(repack.searched_orders, 're-creation')} was tried, "
        "with at most three VMs "
        "down at a time; none frees the capacity."
    )


def _describe_certainty(repack: RepackResult) -> str:
    """Describe the certainty of the target machines.

    The text has the number of VMs on them in all samples, and the worst VM.
    """
    steps = list(chain.from_iterable(window.steps for window in repack.windows))
    certain_count = sum(step.hits == step.runs for step in steps)
    # Samples of a window.
    fewest = min(step.runs for step in steps)
    most = max(step.runs for step in steps)
    samples = (
        f"{fewest} of {fewest} samples"
        if fewest == most
        else f"all {fewest} to {most} samples of their window"
    )
    text = f"{certain_count} of {len(steps)} land as planned in {samples}"
    if certain_count == len(steps):
        return f"{text}, with the cordons below."
    worst_step = min(steps, key=lambda step: step.hits / step.runs)
    text = f"{text}, the others in at least {worst_step.hits} of {worst_step.runs}"
    if not repack.unknown_machines:
        return f"{text}."
    return (
        f"{text}: unknown NUMA use may send them elsewhere, and no tested order or cordon prevents "
        "it. Run the command again with -not for these VMs. Or continue, check their machines "
        "after the window, and run it again if they differ."
    )


def _build_window_section(repack: RepackResult, window: RepackWindow, number: int) -> Section:
    """Build the section of a window: moves and commands.

    A VM lands on its target in `hits` of `runs` samples.
    """
    rows = []
    for step in window.steps:
        vm = step.source.vm
        pod_count = f"{step.source.pods:,}"
        locations = format_short_location(vm.placement), format_short_location(step.target)
        hits = f"{step.hits} of {step.runs}"
        rows.append(Row((vm.name, *locations, hits, pod_count, _get_address(repack, step))))
    headers = ("VM", "from", "to", "hits", "pods", "resource")
    # Hits are aligned to the right.
    numbers = frozenset({3, 4})
    table = Table(headers, tuple(rows), numbers, details=frozenset({5}))
    # These machines are closed to new VMs during the window.
    lines = (f"Cordoned meanwhile: {format_list(window.cordons)}.",) if window.cordons else ()
    title = f"Window {number} of {len(repack.windows)}"
    commands = tuple(build_window_commands(repack, window, number))
    return Section(title, lines, commands=commands, table=table, name="window")


def _build_pod_section(window: RepackWindow, number: int) -> Section:
    """Build the section of the pods moved in a window.

    It has their nodes before, meanwhile, and afterwards.
    """
    rows: list[Row] = []
    for pod in window.pods:
        meanwhile = pod.meanwhile or "none: waits"
        if pod.meanwhile and not pod.is_certain:
            meanwhile = f"{pod.meanwhile} (one outcome)"
        final_node = pod.final_node or "Pending"
        rows.append(Row((pod.pod, pod.old_node, meanwhile, final_node, pod.workload)))
    headers = ("pod", "leaves", "meanwhile on", "then on", "workload")
    table = Table(headers, tuple(rows), details=frozenset({4}))
    return Section(f"Pods of window {number}", table=table, is_folded=True, name="pods")


def build_window_commands(repack: RepackResult, window: RepackWindow, number: int) -> Iterable[str]:
    """Build the commands of a window: cordon, plan and apply, steps by hand, uncordon.

    The steps by hand are comments, to re-create VM resources, and to drain and delete nodes. VMs on
    machines generated by racks need none.
    """
    # By machine, of the resource offering it.
    addresses = repack.site.offering_addresses
    yield from _build_cordon_commands(repack, window.cordons, "cordon")
    if any(not _is_rack_address(addresses.get(machine, "")) for machine in window.cordons):
        yield (
            '# and cordon_status = "Cordoned" in their blocks, or a new export: the plan must see '
            "it"
        )
    flags = " ".join(
        f"-replace={shlex.quote(f'{_get_address(repack, step)}:{step.source.vm.name}')}"
        for step in window.steps
    )
    yield f"nexusform plan {flags} -out=window-{number}.nfplan"
    yield f"nexusform apply window-{number}.nfplan"
    # Apply re-creates the VMs on machines generated by racks itself.
    manual_steps = [
        step
        for step in window.steps
        if not _is_rack_address(addresses.get(step.source.vm.placement.machine, ""))
    ]
    if manual_steps:
        yield "# (the provider azure_export sends nothing: run this instead of that apply)"
    get_address = partial(_get_address, repack)
    for address, steps_of_resource in groupby(sorted(manual_steps, key=get_address), get_address):
        sources = [step.source for step in steps_of_resource]
        # It is no Kubernetes node to drain.
        if _VIRTUAL_MACHINE in address.split("."):
            yield f"# delete {address} and create it again"
            continue
        node_names = " ".join(
            shlex.quote(source.vm.platform_name or source.vm.name) for source in sources
        )
        kubectl = (
            f"kubectl --context={shlex.quote(repack.site.pools[sources[0].pool].owner.cluster)}"
        )
        yield (
            f"# {kubectl} drain {node_names} --ignore-daemonsets; {kubectl} delete node "
            f"{node_names}   (in {address})"
        )
    yield from _build_cordon_commands(repack, window.cordons, "uncordon")
    if manual_steps:
        yield (
            "# (azure_export: capture the export again; nexusform apply then records their "
            "machines)"
        )


def _get_address(repack: RepackResult, step: RepackStep) -> str:
    """Return the address of the resource with the re-created VM."""
    return str(repack.site.pools[step.source.pool].address)


def _build_cordon_commands(
    repack: RepackResult, machines: Sequence[str], verb: str
) -> Iterable[str]:
    """Build the commands to cordon or uncordon (`verb`).

    Machines generated by racks get HCL, and others `az` commands.
    """
    # Addresses of their resources.
    addresses = {name: repack.site.offering_addresses.get(name, "") for name in machines}
    ordered = sorted(machines, key=lambda name: (addresses[name], name))
    for address, names in groupby(ordered, lambda name: addresses[name]):
        if not _is_rack_address(address):
            for name in names:
                yield (
                    f"az networkcloud baremetalmachine {verb} --name {shlex.quote(name)} "
                    '--resource-group "$MANAGED_RESOURCE_GROUP"'
                )
        elif verb == "uncordon":
            yield f"# afterwards, take the blocks out of {address} again"
        else:
            yield f"# in {address}:"
            for name in names:
                yield f'#   machine_override "{name}" {{ cordoned = true }}'


def _is_rack_address(address: str) -> bool:
    """Return True for the address of a rack: `nexus_rack.a`, also in a module."""
    return _RACK in address.split(".")
