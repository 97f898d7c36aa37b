"""Sites that nexusform.sites.hcl names no more, and whose states still hold something.

Whoever takes a row out of a file takes nothing down by that: what the site has runs on, and nobody is told.
They are found by the states that lie where states of sites do, and by a list of what commands saw, since not
every backend can be asked what it holds.
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from nexusform.diagnostics import Diagnostic
from nexusform.domains.sites.types.definition import ANY_SITE, SITE_NAME, SiteEntry
from nexusform.domains.sites.types.fleet_plan import UndeclaredSite
from nexusform.domains.sites.types.work import Answer, Fleet
from nexusform.domains.sites.workflow.fleet_planning import OpenedFleet
from nexusform.domains.sites.workflow.site_answers import reason_of
from nexusform.domains.sites.workflow.site_project import open_state, place_of_fleet, whereabouts
from nexusform.planning.conclusion.conservation import kinds_held, names_of
from nexusform.regular_files import NotRegular, TooLarge, read_regular
from nexusform.resource_types.registry import registries
from nexusform.state.objects import State
from nexusform.state_ports import StateBackend
from nexusform.workflow.opening.place import Place
from nexusform.workflow.opening.stored import read_stored
from nexusform.workflow.opening.surroundings import write_output

_SEEN: Final = "sites/.seen.json"  # no site can be called so
_LARGEST: Final = 64 << 20  # bytes
_NO_STATES: Final = (".backup", ".journal", ".lock.info", ".tmp")
_NOT_LOOKED_AT: Final = "No backend of nexusform.sites.hcl leads there, so it was not looked at."


class _Seen(Struct, frozen=True):
    """Where the state of a site was when a command saw it last."""

    backend: str
    state: str


def undeclared_sites(
    opened: OpenedFleet, place: Place, patterns: Sequence[str] = ()
) -> tuple[UndeclaredSite, ...]:
    """Those of them whose names are asked for, by name. Nothing is locked or written."""
    definition, fleet = opened.definition, opened.fleet
    assert definition is not None, "a fleet that was read"
    assert fleet is not None, "a fleet that was read"
    declared = {site.name for site in definition.sites}
    held = {
        whereabouts("local", str(Path(fleet.root, str(site.settings.get("path", "")))))
        for site in definition.sites
        if site.backend == "local"
    }
    known = _read_seen(place)
    for template in definition.templates:
        known |= {name: _Seen("local", path) for name, path in _lying(template, fleet)}
    found: list[UndeclaredSite] = []
    for name, seen in sorted(known.items()):
        asked = not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
        if asked and name not in declared and seen.state not in held:
            site = _looked_at(name, seen, definition.templates, fleet)
            if site is not None:
                found.append(replace(site, state=site.state.removeprefix(f"{fleet.root}/")))
    return tuple(found)


def remember_states(opened: OpenedFleet, place: Place, answers: Iterable[Answer]) -> None:
    """Note where the states of sites are that hold something. What cannot be noted is not: it only helps."""
    assert opened.definition is not None, "a fleet that was read"
    kinds = {site.name: site.backend for site in opened.definition.sites}
    known = _read_seen(place)
    seen = {
        answer.site: _Seen(kinds[answer.site], answer.state)
        for answer in answers
        if answer.serial and answer.state and answer.site in kinds
    }
    if seen and seen.items() - known.items():
        path = Path(place.data_directory, _SEEN)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            content = msgspec.json.encode(dict(sorted((known | seen).items())))
            write_output(str(path), msgspec.json.format(content, indent=1), private=True, durable=False)
        except OSError:
            return


def _read_seen(place: Place) -> dict[str, _Seen]:
    """What commands saw, as far as it can be read."""
    try:
        data = read_regular(Path(place.data_directory, _SEEN), _LARGEST, follow=False)
        return msgspec.json.decode(data, type=dict[str, _Seen])
    except (OSError, NotRegular, TooLarge, msgspec.MsgspecError):
        return {}


# --- where states lie --------------------------------------------------------------------------


def _lying(template: SiteEntry, fleet: Fleet) -> Iterator[tuple[str, str]]:
    """The files that have the name of a site's state: whose, and where."""
    backend = _backend(template, fleet)
    if template.backend != "local" or backend is None or ANY_SITE not in backend.describe():
        return
    pattern = whereabouts("local", backend.describe())
    name = f"(?P<site>{SITE_NAME.pattern})"
    parts = [re.escape(part) for part in pattern.split(ANY_SITE)]
    written = re.compile(name.join(parts[:2]) + "".join(f"(?P=site){part}" for part in parts[2:]))
    anything = "*".join(glob.escape(part) for part in pattern.split(ANY_SITE))
    for path in sorted(glob.glob(anything)):  # noqa: PTH207 - from the root of all
        found = written.fullmatch(path)
        if found is not None and not path.endswith(_NO_STATES) and os.path.isfile(path):  # noqa: PTH113
            yield found["site"], path


def _backend(site: SiteEntry, fleet: Fleet) -> StateBackend | None:
    backend, _ = open_state(fleet, place_of_fleet(fleet, os.environ), site, None)
    return backend


# --- what they hold ----------------------------------------------------------------------------


def _looked_at(name: str, seen: _Seen, templates: Sequence[SiteEntry], fleet: Fleet) -> UndeclaredSite | None:
    """What the state of a site holds; None when it is gone or holds nothing."""
    backend = _opened(name, seen, templates, fleet)
    if backend is None:
        return UndeclaredSite(name, seen.state, reason=_NOT_LOOKED_AT)
    stored, problems = read_stored(backend, closely=False)
    if stored is None:
        return UndeclaredSite(name, seen.state, reason=_reason(problems))
    state = stored.state
    if not state.instances:
        return None
    return UndeclaredSite(name, seen.state, len(state.instances), placed_in(state), state.serial)


def _opened(name: str, seen: _Seen, templates: Sequence[SiteEntry], fleet: Fleet) -> StateBackend | None:
    """The backend that leads to a state: a file, or what the sites' file says of a site of that name."""
    for template in templates:
        if template.backend == seen.backend:
            entry = replace(template, name=name, settings=_named(template.settings, name))
            backend = _backend(entry, fleet)
            if backend is not None and whereabouts(seen.backend, backend.describe()) == seen.state:
                return backend
    if seen.backend != "local" or not templates:
        return None
    return _backend(replace(templates[0], name=name, backend="local", settings={"path": seen.state}), fleet)


def _named(settings: Mapping[str, object], name: str) -> dict[str, object]:
    """Settings in which the name stands in its place."""
    return {
        key: value.replace(ANY_SITE, name) if isinstance(value, str) else value
        for key, value in settings.items()
    }


def _reason(problems: Sequence[Diagnostic]) -> str:
    return reason_of(problems[0] if problems else None)


def placed_in(state: State) -> dict[str, int]:
    """How many VMs, bindings and pods a state has, by kind."""
    types = registries().resource_types
    counts: Counter[str] = Counter()
    for address, instance in state.instances.items():
        resource_type = types.get(address.type)
        if resource_type is not None and instance.current is not None:
            for kind in kinds_held(resource_type):
                counts[kind] += names_of(kind, resource_type, instance.current.attributes).total()
    return {kind: count for kind, count in sorted(counts.items()) if count}
