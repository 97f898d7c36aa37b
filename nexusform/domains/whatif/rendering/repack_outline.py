"""The answer to `simulate repack`, for people and as data."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final

from nexusform.domains.whatif.questions.repack import Repack, RepackStatus
from nexusform.domains.whatif.questions.repack_blocking import Blocking
from nexusform.domains.whatif.questions.repack_steps import FollowedPod, RepackStep, RepackWindow
from nexusform.json_forms import Form
from nexusform.placement_kinds.kinds import place_document
from nexusform.rendering.answers.outline import Outline, Row, Section, Table, short_place_text
from nexusform.rendering.notation.json_bounds import INTERVAL
from nexusform.words import counted, form, listed

_VIRTUAL_MACHINE: Final = "nexus_virtual_machine"
_RACK: Final = "nexus_rack"
_NAMED_CORDONS: Final = 4
_NAMED_PODS: Final = 40


def repack_outline(repack: Repack, origin: str) -> Outline:
    """The verdict with its proof, what stands in the way, and every window with its commands."""
    sections: list[Section] = []
    if repack.blocking:
        sections.append(_blocking(repack))
    for number, window in enumerate(repack.windows, 1):
        sections.append(_window(repack, window, number))
        sections += _pods(window, number)
    if repack.windows:
        sections.append(_rooms(repack))
    request = repack.request
    zones = "" if request.zones is None else f" in zones {', '.join(sorted(request.zones, key=str.encode))}"
    return Outline(
        f"Room for {request.want:,} more {request.sku.title}{zones} on {repack.site.id} ({origin})",
        _verdict(repack),
        repack.bad,
        tuple(_facts(repack)),
        tuple(sections),
    )


def _verdict(repack: Repack) -> str:
    want, sku = repack.request.want, repack.request.sku.title
    match repack.status:
        case RepackStatus.NOTHING_TO_DO:
            return f"Nothing to do: {repack.fits_now} {form(repack.fits_now.most, 'fits', 'fit')} now."
        case RepackStatus.OPTIMAL:
            vms = counted(repack.recreations or 0, "VM")
            return f"{vms} to re-create; with fewer it cannot be done (proved)."
        case RepackStatus.GAP if repack.recreations is not None:
            made, bound = repack.recreations, repack.bound or 0
            per_cent = 100 * (made - bound) / made
            return f"{counted(made, 'VM')} to re-create; at least {bound} are needed (gap {per_cent:.1f} %)."
        case RepackStatus.GAP:
            return f"No way was found, and no proof that there is none: at least {repack.bound} re-creations."
    if repack.bound is not None and repack.request.moves is not None:
        return (
            f"It cannot be done with {counted(repack.request.moves, 're-creation')}: "
            f"at least {repack.bound} are needed (proved)."
        )
    return f"It cannot be done: no choice of re-creations makes room for {want:,} {sku} (proved)."


def _facts(repack: Repack) -> Iterable[str]:
    """What the proof stands on, and what it does not say."""
    request = repack.request
    if repack.status is not RepackStatus.NOTHING_TO_DO:
        verb = form(repack.fits_now.most, "fits", "fit")
        yield f"{repack.fits_now} of {request.want:,} {verb} as it stands."
    if repack.most is not None:
        yield f"{repack.most:,} {form(repack.most, 'is', 'are')} the most that could be made to fit."
    if repack.windows:
        in_pools = counted(repack.pools, "pool")
        yield (
            f"{counted(repack.pods, 'pod')} restart, {in_pools} {form(repack.pools, 'is', 'are')} touched, "
            f"in {counted(len(repack.windows), 'window')}{_fewest_windows(repack)}."
        )
        yield _landing(repack)
    if repack.unknown:
        yield _unknown(repack)
    if repack.on_this_machine:
        yield "The search was ended by -time: on another computer the answer may be another one."
    if repack.unwalked:
        yield "There are choices that would make room, but none was found that the rule can be led to."


def _fewest_windows(repack: Repack) -> str:
    """Whether these VMs could go in fewer windows."""
    if len(repack.windows) > repack.fewest_windows:
        return f" (at least {repack.fewest_windows} for these VMs)"
    return "" if repack.fewest_windows == 1 else " (fewer cannot do for these VMs)"


def _landing(repack: Repack) -> str:
    """How sure the places are."""
    steps = [step for window in repack.windows for step in window.steps]
    sure = sum(step.lands == step.of for step in steps)
    runs = steps[0].of
    text = f"{sure} of {len(steps)} land as planned in {runs} of {runs} tie-breaks"
    if sure == len(steps):
        return f"{text}, with the cordons below."
    fewest = min(step.lands for step in steps)
    text = f"{text}, the others in at least {fewest}"
    if not repack.unknown:
        return f"{text}."
    return (
        f"{text}: as the unknown cells may lie they can go elsewhere, and neither another order nor a cordon "
        "was found that keeps them from it. Ask again with -not for these VMs; or go on, look where they are "
        "after their window, and ask again if it is elsewhere."
    )


def _unknown(repack: Repack) -> str:
    machines = counted(repack.unknown, "machine")
    text = (
        f"On {machines} the NUMA cells of VMs are not known: such a machine is emptied as a whole or not "
        "at all, and takes only what fits however they lie."
    )
    if repack.if_known is None:
        return text
    return f"{text} With cells known, {counted(repack.if_known, 're-creation')} might do (one draw)."


def _blocking(repack: Repack) -> Section:
    rows = tuple(
        Row(
            (
                each.loosened_by,
                _fits_then(each),
                "" if each.recreations is None else f"{each.recreations:,}",
            )
        )
        for each in repack.blocking
    )
    table = Table(("loosened", "fits then", "re-creations"), rows, frozenset({2}))
    return Section("What stands in the way, each tried by itself", table=table)


def _pods(window: RepackWindow, number: int) -> Iterable[Section]:
    """Where the pods of a window's nodes are meanwhile, and afterwards."""
    if not window.pods:
        return
    rows = tuple(
        Row((pod.pod, pod.was, _node_text(pod.meanwhile, pod), pod.then or "Pending"))
        for pod in window.pods[:_NAMED_PODS]
    )
    more = len(window.pods) - len(rows)
    lines = (f"And {counted(more, 'more pod')}; JSON has them all.",) if more else ()
    table = Table(("pod", "leaves", "meanwhile on", "then on"), rows)
    yield Section(f"Pods of window {number}", lines, table=table)


def _node_text(node: str, pod: FollowedPod) -> str:
    if not node:
        return "none: waits"
    return node if pod.certain else f"{node} (one outcome)"


def _fits_then(blocking: Blocking) -> str:
    if blocking.undecided:
        return "not decided"
    return "no" if blocking.recreations is None else "yes"


def _window(repack: Repack, window: RepackWindow, number: int) -> Section:
    """The rows from -> to, and what to type."""
    rows = tuple(
        Row(
            (
                step.source.vm.name,
                short_place_text(step.source.vm.placement),
                short_place_text(step.to),
                f"{step.lands} of {step.of}",
                f"{step.source.pods:,}",
            )
        )
        for step in window.steps
    )
    table = Table(("VM", "from", "to", "lands", "pods"), rows, frozenset({3, 4}))
    lines = []
    if window.cordons:
        lines.append(f"Cordoned meanwhile: {listed(window.cordons, _NAMED_CORDONS)}.")
    title = f"Window {number} of {len(repack.windows)}"
    return Section(title, tuple(lines), commands=tuple(window_commands(repack, window, number)), table=table)


def window_commands(repack: Repack, window: RepackWindow, number: int) -> Iterable[str]:
    """Cordon, plan and apply, uncordon."""
    yield from _cordon(repack, window.cordons, "cordon")
    if any(not _is_rack(repack.site.offered_by.get(machine, "")) for machine in window.cordons):
        yield '# and cordon_status = "Cordoned" in their blocks, or an export made anew: the plan must see it'
    flags = " ".join(
        f"-replace={shlex.quote(f'{_address(repack, step)}:{step.source.vm.name}')}" for step in window.steps
    )
    yield f"nexusform plan {flags} -out=window-{number}.nfplan"
    yield f"nexusform apply window-{number}.nfplan"
    by_hand = [step for step in window.steps if not _is_simulated(repack, step)]
    if by_hand:
        yield from _by_hand(repack, by_hand)
    yield from _cordon(repack, window.cordons, "uncordon")
    if by_hand:
        yield "# (azure_export: capture the export anew; nexusform apply then takes over where they are)"


def _is_simulated(repack: Repack, step: RepackStep) -> bool:
    """Whether the machine of a VM is one that a rack makes: apply does all there is to do then."""
    return _is_rack(repack.site.offered_by.get(step.source.vm.placement.machine, ""))


def _by_hand(repack: Repack, steps: Sequence[RepackStep]) -> Iterable[str]:
    """What makes VMs anew where the provider only reads: nobody but the platform can, once they are gone."""
    yield "# (the provider azure_export sends nothing: do this in place of that apply)"

    def owner(step: RepackStep) -> str:
        return _address(repack, step)

    for address, of_owner in groupby(sorted(steps, key=owner), owner):
        names = [step.source.vm.platform_name or step.source.vm.name for step in of_owner]
        if _VIRTUAL_MACHINE in address.split("."):
            yield f"# delete {address} and create it again"
            continue
        words = " ".join(map(shlex.quote, names))
        yield f"# kubectl drain {words} --ignore-daemonsets; kubectl delete node {words}   (in {address})"


def _address(repack: Repack, step: RepackStep) -> str:
    return str(repack.site.pools[step.source.pool].address)


def _cordon(repack: Repack, machines: Sequence[str], verb: str) -> Iterable[str]:
    """Lines of HCL for machines that racks make, `az` for those of an inventory."""
    made_by = repack.site.offered_by
    for address, named in groupby(
        sorted(machines, key=lambda name: (made_by.get(name, ""), name)), made_by.get
    ):
        names = list(named)
        if address is None or not _is_rack(address):
            for name in names:
                yield (
                    f"az networkcloud baremetalmachine {verb} --name {shlex.quote(name)} "
                    '--resource-group "$MANAGED_RESOURCE_GROUP"'
                )
            continue
        if verb == "uncordon":
            yield f"# afterwards, take the blocks out of {address} again"
            continue
        yield f"# in {address}:"
        for name in names:
            yield f'#   machine_override "{name}" {{ cordoned = true }}'


def _is_rack(address: str) -> bool:
    return _RACK in address.split(".")


def _rooms(repack: Repack) -> Section:
    line = (
        f"Before: {repack.fits_now} of {repack.request.sku.title}; afterwards at least "
        f"{repack.request.want:,}, once nothing is cordoned any more."
    )
    return Section("Room", (line,))


# --- data --------------------------------------------------------------------------------------


_FIGURES: Final = Form(
    Repack,
    "site_id=site.id vm_sku_name=request.sku.name availability_zones=request.zones status want=request.want "
    "fits_now=fits_now.least fits_now_bounds=fits_now recreations bound most pods_restarted=pods pools "
    "windows=. windows_bound=fewest_windows",
    availability_zones=lambda zones: sorted(zones, key=str.encode),
    fits_now_bounds=INTERVAL,
    windows=lambda repack: len(repack.windows),
)
_STEP: Final = Form(
    RepackStep,
    "object=source.vm.name from=source.vm.placement to lands of pods=source.pods",
    {"from": place_document, "to": place_document},
)
_POD: Final = Form(FollowedPod, "cluster_id workload pod from=was meanwhile? then? certain")
_END: Final = Form(
    Repack,
    "machines_with_unknown_cells=unknown recreations_if_cells_were_known=if_known "
    "depends_on_this_machine=on_this_machine",
)
_BLOCKING: Final = Form(
    Blocking,
    "constraint loosened_by recreations decided=.",
    decided=lambda blocking: not blocking.undecided,
)


def repack_document(repack: Repack) -> dict[str, Any]:
    """The answer as JSON data."""
    windows = tuple(enumerate(repack.windows, 1))
    return {
        **_FIGURES(repack),
        "steps": [
            {"window": number, "address": _address(repack, step), **_STEP(step)}
            for number, window in windows
            for step in window.steps
        ],
        "cordons": [
            {"window": number, "machines": list(window.cordons)}
            for number, window in windows
            if window.cordons
        ],
        "commands": [list(window_commands(repack, window, number)) for number, window in windows],
        "blocking": [_BLOCKING(each) for each in repack.blocking],
        "pods": [{"window": number, **_POD(pod)} for number, window in windows for pod in window.pods],
        **_END(repack),
    }
