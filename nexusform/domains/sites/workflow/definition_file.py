"""nexusform.sites.hcl to a FleetDefinition, with everything that is wrong with it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.backends.registry import BACKENDS
from nexusform.configuration.body_evaluation import prepare_body
from nexusform.configuration.loader import hidden_characters
from nexusform.configuration.prepared_body import PreparedBody, missing_argument
from nexusform.diagnostics import Diagnostic, did_you_mean, error, has_errors
from nexusform.domains.sites.types.definition import (
    ANY_SITE,
    FILE_NAME,
    ONLY_WAVE,
    SITE_NAME,
    FleetDefinition,
    SiteEntry,
    Wave,
)
from nexusform.domains.sites.workflow import schemas
from nexusform.domains.sites.workflow.listed_sites import from_root, where_listed
from nexusform.language.bodies import BodySchema, content
from nexusform.language.evaluator import evaluate
from nexusform.language.functions.registry import standard_functions
from nexusform.language.parser import parse_file
from nexusform.language.syntax.nodes import Block, Body, Expression, Traversal
from nexusform.language.syntax.positions import describe
from nexusform.plain_data import has_unknown
from nexusform.planning.names.setting import NotedFiles, PlanClock
from nexusform.ports import FileProblem
from nexusform.regular_files import Confinement
from nexusform.source import SourceFile, Span
from nexusform.value_types import MapType, ObjectType, SetType
from nexusform.values import DYNAMIC_UNKNOWN, UNKNOWN, Value, all_marks, object_value, string
from nexusform.words import counted
from nexusform.workflow.opening.surroundings import RealFiles, read_file

_LARGEST: Final = 16 << 20  # bytes
_MOST_SITES: Final = 20_000
_REPEATING: Final = ("for_each", "name")
_FACE: Final = BodySchema(
    blocks={"defaults": (), "site": ("name",), "sites": (), "strategy": ()},
)


class Names(Struct, frozen=True):
    """The names that an expression of the file may use (a Scope of the evaluator)."""

    functions: Mapping[str, Any]
    values: Mapping[str, Value]

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """The value of a root name."""
        name = traversal.root.name
        value = self.values.get(name)
        if value is not None:
            return value, 0, []
        known = ", ".join(f"{each}.*" for each in self.values) or "functions alone"
        detail = f'"{name}" means nothing here. In this place {FILE_NAME} knows: {known}.'
        return DYNAMIC_UNKNOWN, len(traversal.steps), [error("invalid-reference", detail, traversal.span)]

    def knowing(self, **more: Value) -> Names:
        """The same with further names."""
        return Names(self.functions, {**self.values, **more})


class _SiteBlock(Struct, frozen=True):
    """`defaults`, `site` or `sites`: its body apart from the backend, and the backend's."""

    header: Span
    body: PreparedBody
    backend: str = ""
    settings: PreparedBody | None = None


class _Reading(Struct):
    """One reading of the file."""

    names: Names
    root: str
    problems: list[Diagnostic]
    allowed_sources: tuple[str, ...]
    read: dict[str, str]
    confinement: Confinement
    defaults: _SiteBlock | None = None
    repeated: list[_SiteBlock] = field(default_factory=list)
    requests: int = 0


def read_definition(
    root: str, confinement: Confinement, now: str, allowed_sources: tuple[str, ...] = ()
) -> tuple[FleetDefinition | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """The definition in a directory; None, with why, when there is none or it is wrong.

    `allowed_sources` are directories outside of it that sources may lead below.
    """
    path = str(Path(root, FILE_NAME))
    try:
        text = read_file(path, _LARGEST, confinement).decode()
    except FileProblem as problem:
        return None, [error("no-sites-file", f"{problem} {_WHAT_IT_IS}")], {}
    except UnicodeDecodeError:
        return None, [error("invalid-character-encoding", f'"{FILE_NAME}" is not UTF-8.')], {}
    source = SourceFile(FILE_NAME, text)
    sources = {FILE_NAME: source}
    body, problems = parse_file(source)
    problems += hidden_characters(source)
    if has_errors(problems):
        return None, problems, sources
    read: dict[str, str] = {}
    files = NotedFiles(RealFiles(confinement), read)
    functions = standard_functions(files, PlanClock(now), root)
    path_names = object_value({"root": string("."), "module": string("."), "cwd": string(".")})
    names = Names(functions, {"path": path_names})
    reading = _Reading(names, root, problems, allowed_sources, read, confinement)
    sites, waves = _read_blocks(body, reading)
    problems[:] = _folded(problems, {site.name for site in sites})
    if has_errors(problems):
        return None, problems, sources
    listed = "".join(f"{name} {digest}\n" for name, digest in sorted(read.items()))
    digest = sha256(f"{text}\0{listed}\0{allowed_sources}".encode()).hexdigest()
    definition = FleetDefinition(
        sites=tuple(sites),
        waves=tuple(waves),
        digest=digest,
        templates=tuple(_templates(reading, body.span)),
        requests=reading.requests,
        sources=sources,
    )
    return definition, problems, sources


_WHAT_IT_IS: Final = (
    f"{FILE_NAME} names the sites: a `defaults` block, `site` or `sites` blocks and a `strategy` "
    "(docs/many-sites.md shows one)."
)


def _read_blocks(body: Body, reading: _Reading) -> tuple[list[SiteEntry], list[Wave]]:
    """All sites and all waves."""
    parts, wrong = content(body, _FACE)
    problems = reading.problems
    problems += wrong
    strategies = [block for block in parts.blocks if block.type == "strategy"]
    defaults = [block for block in parts.blocks if block.type == "defaults"]
    for further in (*strategies[1:], *defaults[1:]):
        detail = f"Only one `{further.type}` block is allowed."
        problems.append(error("duplicate-block", detail, further.header_span))
    waves = _waves(strategies[0], reading) if strategies else [Wave(ONLY_WAVE)]
    if defaults:
        reading.defaults = _site_block(defaults[0], schemas.DEFAULTS, problems)
    known = {wave.name for wave in waves}
    last = waves[-1].name if waves else ""
    sites: dict[str, SiteEntry] = {}
    for block in parts.blocks:
        if block.type not in ("site", "sites"):
            continue
        for site in _sites_of(block, reading):
            _add(sites, replace(site, wave=site.wave or last), known, problems)
        if len(sites) > _MOST_SITES:
            detail = f"There are more than {_MOST_SITES:,} sites; split them over several directories."
            problems.append(error("too-many-sites", detail, block.header_span))
            break
    if not sites and not has_errors(problems):
        problems.append(error("no-sites", f"There is no site in it. {_WHAT_IT_IS}", body.span))
    problems += _same_states(sites.values())
    return list(sites.values()), waves


def _add(sites: dict[str, SiteEntry], site: SiteEntry, known: set[str], problems: list[Diagnostic]) -> None:
    """Take a site in, unless its name is taken or its wave unknown."""
    earlier = sites.get(site.name)
    if earlier is not None:
        where = describe(earlier.span)
        detail = f'A site "{site.name}" was already given at {where}. Every site needs a name of its own.'
        problems.append(error("site-given-twice", detail, site.span))
    else:
        sites[site.name] = site
    if site.wave not in known:
        waves = ", ".join(f'"{name}"' for name in sorted(known))
        detail = (
            f'The site "{site.name}" is to be applied in the wave "{site.wave}", which the strategy does not '
            f"have. It has: {waves}.{did_you_mean(site.wave, known)}"
        )
        problems.append(error("unknown-wave", detail, site.span))


def _folded(problems: Iterable[Diagnostic], sites: set[str]) -> Iterator[Diagnostic]:
    """One message for one mistake: a `sites` block makes it once for each of its sites."""

    def unnamed(match: re.Match[str]) -> str:
        return "SITE" if match[1] or match[2] in sites else match[0]

    alike: dict[tuple[str, Span | None, str], list[Diagnostic]] = {}
    for problem in problems:
        words = _NAMED.sub(unnamed, problem.detail)
        alike.setdefault((problem.id, problem.subject, words), []).append(problem)
    for first, *others in alike.values():
        count = counted(len(others), "further site")
        detail = f"{first.detail} So it is with {count} of this block."
        yield replace(first, detail=detail) if others else first


_NAMED: Final = re.compile(r'(site )?"([^"]*)"')


def _same_states(sites: Iterable[SiteEntry]) -> Iterator[Diagnostic]:
    """An error for every site whose state is that of an earlier one."""
    first: dict[tuple[str, str], SiteEntry] = {}
    for site in sites:
        key = (site.backend, repr(sorted(site.settings.items())))
        earlier = first.setdefault(key, site)
        if earlier is not site:
            detail = (
                f'"{earlier.name}" and "{site.name}" would keep their states at the same place. Let the '
                'settings of the backend hold the name: path = "states/${site.name}.nfstate".'
            )
            yield error("sites-share-a-state", detail, site.span)


# --- waves -------------------------------------------------------------------------------------


def _waves(block: Block, reading: _Reading) -> list[Wave]:
    """The waves of the strategy, what it says for all filled in."""
    body, problems = prepare_body(block.body, schemas.STRATEGY, block.header_span)
    values, _, wrong = body.evaluate(reading.names)
    reading.problems += [*problems, *wrong]
    if has_errors([*problems, *wrong]):
        return [Wave(ONLY_WAVE)]
    reading.requests = int(values.pop("max_requests_per_minute") or 0)
    waves = []
    for name in values["wave_order"]:
        own = {key: value for key, value in values["wave"][name].items() if value is not None}
        waves.append(_wave(name, {**_without_nulls(values), **own}))
    return waves or [_wave(ONLY_WAVE, _without_nulls(values))]


def _without_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _wave(name: str, values: Mapping[str, Any]) -> Wave:
    return Wave(
        name,
        max_parallel=values.get("max_parallel"),
        max_unavailable=values.get("max_unavailable"),
        max_failures=int(values.get("max_failures", 0)),
        max_miss_rate=float(values.get("max_miss_rate", 1)),
        soak=seconds_of(values.get("soak", "")),
        approve=values.get("gate") == "approve",
    )


def seconds_of(duration: str) -> float:
    """The seconds of `1h30m`, which fits schemas.DURATION; 0 of nothing."""
    units = {"h": 3600, "m": 60, "s": 1}
    return float(sum(int(figure) * units[unit] for figure, unit in re.findall(r"(\d+)([hms])", duration)))


# --- sites -------------------------------------------------------------------------------------


def _site_block(block: Block, schema: Any, problems: list[Diagnostic]) -> _SiteBlock:
    """A block made ready to be evaluated for each of its sites."""
    assert isinstance(block.body, Body), "the file is of native syntax"
    backends = [inner for inner in block.body.blocks if inner.type == "backend"]
    rest = replace(block.body, blocks=tuple(inner for inner in block.body.blocks if inner.type != "backend"))
    body, wrong = prepare_body(rest, schema, block.header_span)
    problems += wrong
    if not backends:
        return _SiteBlock(block.header_span, body)
    if len(backends) > 1:
        detail = "Only one backend block is allowed: a site has one state."
        problems.append(error("duplicate-backend-configuration", detail, backends[1].header_span))
    return _with_backend(_SiteBlock(block.header_span, body), backends[0], problems)


def _with_backend(site: _SiteBlock, backend: Block, problems: list[Diagnostic]) -> _SiteBlock:
    """The block with its backend, if there is such a one."""
    kind = backend.labels[0].value if backend.labels else ""
    if kind not in BACKENDS or kind == "memory":
        known = ", ".join(each for each in BACKENDS if each != "memory")
        detail = f'There is no backend "{kind}" for sites. Known are: {known}.{did_you_mean(kind, BACKENDS)}'
        problems.append(error("unknown-backend", detail, backend.header_span))
        return site
    settings, wrong = prepare_body(backend.body, BACKENDS[kind].schema, backend.header_span)
    problems += wrong
    return replace(site, backend=kind, settings=settings)


def _sites_of(block: Block, reading: _Reading) -> Iterator[SiteEntry]:
    """The sites of one `site` or `sites` block."""
    if block.type == "site":
        prepared = _site_block(block, schemas.SITE, reading.problems)
        site = _site(block.labels[0].value, prepared, reading.names, reading)
        if site is not None:
            yield site
        return
    assert isinstance(block.body, Body), "the file is of native syntax"
    written = {each.name: each.expression for each in block.body.attributes}
    # What repeats and what names are evaluated apart: the rest once for each site.
    rest = tuple(each for each in block.body.attributes if each.name not in _REPEATING)
    prepared = _site_block(
        replace(block, body=replace(block.body, attributes=rest)), schemas.SITE, reading.problems
    )
    if "for_each" not in written:
        reading.problems.append(missing_argument("for_each", block.header_span))
        return
    reading.repeated.append(prepared)
    rows, listed_in = _rows(written["for_each"], reading)
    for key, value in rows:
        names = reading.names.knowing(each=object_value({"key": string(key), "value": value}))
        name = _name_of(key, written.get("name"), names, reading)
        told = len(reading.problems)
        site = _site(name, prepared, names, reading) if name is not None else None
        if site is None:
            where = where_listed(listed_in, key, reading.root, reading.confinement)
            found = reading.problems[told:]
            reading.problems[told:] = [replace(each, detail=f"{each.detail}{where}") for each in found]
            return  # it is the same with the others
        yield replace(site, key=key, listed_in=listed_in)


def _rows(expression: Expression, reading: _Reading) -> tuple[Sequence[tuple[str, Value]], tuple[str, ...]]:
    """The keys and values of for_each, and the files that they were read from."""
    before = dict(reading.read)
    reading.read.clear()
    rows = _each(expression, reading)
    listed_in = from_root(sorted(reading.read), reading.root)
    reading.read.update({**before, **reading.read})
    return rows, listed_in


def _name_of(key: str, expression: Expression | None, names: Names, reading: _Reading) -> str | None:
    """The name of one of many sites; None when it is wrong."""
    if expression is None:
        return key
    value, problems = evaluate(expression, names)
    if not has_errors(problems) and (not isinstance(value.raw, str) or all_marks(value)):
        detail = "The name of a site must be a text that is known and not sensitive."
        problems.append(error("invalid-site-name", detail, expression.span))
    reading.problems += problems
    return None if has_errors(problems) else str(value.raw)


def _each(expression: Expression, reading: _Reading) -> Sequence[tuple[str, Value]]:
    """The keys and values of for_each."""
    value, problems = evaluate(expression, reading.names)
    reading.problems += problems
    if has_errors(problems):
        return ()
    why = ""
    if not value.is_wholly_known:
        why = "its value is not known before anything is applied"
    elif all_marks(value) and isinstance(value.type, SetType):
        why = "its value is sensitive, and names of sites are shown"
    elif value.is_null or not isinstance(value.type, MapType | ObjectType | SetType):
        why = "a map, an object or a set of texts is needed (toset(...) makes one of a list)"
    elif isinstance(value.type, SetType) and not all(isinstance(each.raw, str) for each in value.raw):
        why = "the members of a set must be texts"
    if why:
        detail = f"for_each cannot be used: {why}."
        reading.problems.append(error("invalid-for-each-argument", detail, expression.span))
        return ()
    if isinstance(value.type, SetType):
        return [(each.raw, each) for each in value.raw]
    return list(value.raw.items())


def _site(name: str, block: _SiteBlock, names: Names, reading: _Reading) -> SiteEntry | None:
    """One site with the defaults filled in; None when something is wrong with it."""
    problems: list[Diagnostic] = []
    if not SITE_NAME.fullmatch(name):
        detail = (
            f'"{name}" cannot be the name of a site: up to 100 letters, digits, ".", "_" and "-", the first '
            "a letter or a digit."
        )
        reading.problems.append(error("invalid-site-name", detail, block.header))
        return None
    known = names.knowing(site=object_value({"name": string(name)}))
    own, secret, wrong = block.body.evaluate(known)
    problems += wrong
    common: Mapping[str, Any] = {}
    if reading.defaults is not None:
        common, more_secret, wrong = reading.defaults.body.evaluate(_common_names(known))
        problems += wrong
        secret = (*secret, *more_secret)
    inputs_span = block.body.locate(("inputs",))
    inputs = {**_object("inputs", common, block, problems), **_object("inputs", own, block, problems)}
    labels = {**_object("labels", common, block, problems), **_object("labels", own, block, problems)}
    source = own["source"] if own["source"] is not None else common.get("source")
    if not has_errors(problems):
        problems += _source_problems(name, source, block, reading)
    backend, settings = _settings(name, block, known, reading, problems)
    if has_unknown([inputs, labels, settings]):
        detail = "It holds something that is not known before anything is applied, such as timestamp()."
        problems.append(error("value-is-not-known", detail, inputs_span))
    reading.problems += problems
    if has_errors(problems):
        return None
    return SiteEntry(
        name=name,
        source=os.path.normpath(str(source)),
        wave=own["wave"] or common.get("wave") or "",
        span=block.header,
        inputs_span=inputs_span,
        inputs=inputs,
        sensitive=tuple(sorted({_secret_input(path, inputs) for path in secret} - {""})),
        labels=labels,
        backend=backend,
        settings=settings,
        destroy=bool(own.get("destroy")),
    )


def _common_names(names: Names) -> Names:
    """What `defaults` knows: the site, and not what a `sites` block repeats over."""
    return Names(names.functions, {name: value for name, value in names.values.items() if name != "each"})


def _secret_input(path: Sequence[str | int], inputs: Mapping[str, Any]) -> str:
    """The input that a sensitive path leads into; "" of what is none."""
    if len(path) < 2 or path[0] != "inputs":
        return ""
    return str(path[1]) if path[1] in inputs else ""


def _object(
    name: str, values: Mapping[str, Any], block: _SiteBlock, problems: list[Diagnostic]
) -> Mapping[str, Any]:
    """An argument that is an object or absent."""
    value = values.get(name)
    if value is None or value is UNKNOWN:
        return {}
    if isinstance(value, dict):
        return value
    detail = f'"{name}" must be an object: {name} = {{ NAME = VALUE, ... }}.'
    problems.append(error("unsuitable-value-type", detail, block.body.locate((name,))))
    return {}


def _source_problems(name: str, source: Any, block: _SiteBlock, reading: _Reading) -> Iterator[Diagnostic]:
    """What is wrong with where a site's root module is said to be. Whether it is there, its plan says."""
    at = block.body.locate(("source",))
    if not isinstance(source, str) or not source:
        detail = f'The site "{name}" has no source: the directory of its root module, here or in `defaults`.'
        yield error("missing-required-argument", detail, block.header)
        return
    if "://" in source or "::" in source:
        detail = f'"{source}" is no local directory. Sources of sites are local paths such as "./site".'
        yield error("source-is-not-local", detail, at)
        return
    root = os.path.realpath(reading.root)
    real = os.path.realpath(Path(reading.root, source))
    allowed = (root, *(os.path.realpath(each) for each in reading.allowed_sources))
    if not any(Path(real).is_relative_to(each) for each in allowed):
        detail = (
            f'"{source}" leads out of the directory of {FILE_NAME}. Whoever runs the command may allow it: '
            "-allow-source=DIR."
        )
        yield error("source-outside-of-the-tree", detail, at)


def _settings(
    name: str, block: _SiteBlock, names: Names, reading: _Reading, problems: list[Diagnostic]
) -> tuple[str, Mapping[str, Any]]:
    """The backend of a site and its settings: its own, else that of the defaults, else a file of its name."""
    for candidate, known in ((block, names), (reading.defaults, _common_names(names))):
        if candidate is None or candidate.settings is None:
            continue
        values, _, wrong = candidate.settings.evaluate(known)
        problems += wrong
        return candidate.backend, {each: value for each, value in values.items() if value is not None}
    return "local", {"path": f"states/{name}.nfstate"}


def _templates(reading: _Reading, span: Span) -> Iterator[SiteEntry]:
    """Where the state of a site of any name would be, as far as it depends on the name alone."""
    names = reading.names.knowing(site=object_value({"name": string(ANY_SITE)}))
    blocks = [reading.defaults, *reading.repeated]
    written = [block for block in blocks if block is not None and block.settings is not None]
    for block in written:
        assert block.settings is not None, "chosen for it"
        values, _, wrong = block.settings.evaluate(names)
        if not has_errors(wrong):  # with each.* it depends on more
            settings = {each: value for each, value in values.items() if value is not None}
            yield SiteEntry(ANY_SITE, ".", "", span, span, {}, backend=block.backend, settings=settings)
    if reading.defaults is None or reading.defaults.settings is None:
        settings = {"path": f"states/{ANY_SITE}.nfstate"}
        yield SiteEntry(ANY_SITE, ".", "", span, span, {}, settings=settings)
