"""Parser of nexusform.sites.hcl to a FleetDefinition, with all diagnostics."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from nexusform.backends.registry import BACKENDS
from nexusform.configuration.body_preparation import build_prepared_body
from nexusform.configuration.loader import check_hidden_characters
from nexusform.configuration.prepared_body import PreparedBody, build_missing_argument_error
from nexusform.diagnostics.diagnostic import (
    Diagnostic,
    SourceFile,
    Span,
    build_error,
    has_errors,
    suggest_name,
)
from nexusform.diagnostics.phrases import format_count, group_by
from nexusform.domain_table import explain_absent_domain
from nexusform.domains.sites.types.fleet_plan import (
    ANY_SITE,
    FILE_NAME,
    ONLY_WAVE,
    SITE_NAME,
    FleetDefinition,
    SiteEntry,
    Wave,
)
from nexusform.files.regular_files import Confinement
from nexusform.interfaces.plugins import FileProblem
from nexusform.json_data.plain_data import Path as DataPath
from nexusform.json_data.plain_data import get_text, has_unknown_part
from nexusform.language.body_decoding import BodySchema, decode_body
from nexusform.language.evaluator import evaluate_expression
from nexusform.language.functions.registry import build_functions
from nexusform.language.parser import parse_file
from nexusform.language.syntax.scanner import describe_span
from nexusform.language.syntax.syntax_nodes import Block, Body, Expression, Traversal
from nexusform.planning.name_resolution.evaluation_settings import FileReadRecorder, PlanClock
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema, NestedBlock, Nesting
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    MapType,
    ObjectType,
    SetType,
)
from nexusform.values.typed_value import (
    DYNAMIC_UNKNOWN,
    UNKNOWN,
    Value,
    build_object,
    build_string,
    collect_marks,
)
from nexusform.workflow.opening.system_io import ConfinedFileAccess, read_file

_MAX_BYTES: Final = 16 << 20  # bytes
_MAX_SITES: Final = 20_000
_FILE_SCHEMA: Final = BodySchema(
    blocks={"defaults": (), "site": ("name",), "sites": (), "strategy": ()}
)
# `30s`, `5m`, `1h30m`; not an empty string.
_DURATION: Final = r"(?=.)(?:\d{1,5}h)?(?:\d{1,5}m)?(?:\d{1,7}s)?"


def _make_count_attribute(description: str, *, minimum: int) -> AttributeSchema:
    return AttributeSchema(NUMBER, description, optional=True, minimum=minimum)


_SITE_ATTRIBUTES: Final = {
    "source": AttributeSchema(
        STRING, "Root module directory of the site, relative to this file.", optional=True
    ),
    "inputs": AttributeSchema(
        DYNAMIC, "Values of the root module's variables by name.", optional=True
    ),
    "labels": AttributeSchema(
        MapType(STRING), "Display name of the site in reports and maps.", optional=True
    ),
    "wave": AttributeSchema(STRING, "Wave of the site. Default: the last one.", optional=True),
}
_DEFAULTS: Final = BlockSchema(_SITE_ATTRIBUTES, description="Defaults for all sites.")
_SITE: Final = BlockSchema(
    {
        **_SITE_ATTRIBUTES,
        "destroy": AttributeSchema(BOOL, "Delete everything of the site.", optional=True),
    },
    description="One site.",
)
_LIMITS: Final = {
    "max_unavailable": _make_count_attribute(
        "Maximum number of sites in progress or failed.", minimum=1
    ),
    "max_parallel": _make_count_attribute("Maximum number of sites in progress.", minimum=1),
    "max_failures": _make_count_attribute(
        "Maximum number of failed or rejected sites before the wave stops.", minimum=0
    ),
    "max_miss_rate": AttributeSchema(
        NUMBER,
        "Maximum share of wrong predictions, from 0 to 1.",
        optional=True,
        minimum=0,
        maximum=1,
    ),
}
_WAVE: Final = BlockSchema(
    {
        **_LIMITS,
        "soak": AttributeSchema(
            STRING,
            "Wait time before the next wave.",
            optional=True,
            pattern=_DURATION,
            pattern_hint='a duration such as "30s", "5m" or "1h30m"',
        ),
        "gate": AttributeSchema(
            STRING,
            "`approve`: the wave waits for approval.",
            optional=True,
            choices=("approve", "none"),
        ),
    },
    description="Sites applied together.",
)
_STRATEGY: Final = BlockSchema(
    {
        **_LIMITS,
        "max_requests_per_minute": _make_count_attribute(
            "Maximum number of requests per minute to an Azure subscription, from all workers.",
            minimum=1,
        ),
    },
    {"wave": NestedBlock(_WAVE, Nesting.MAP, "Wave; waves run in file order.", "name")},
    description="Rules for applying the sites.",
)
# Arguments of a site in reports.
_PRINTED: Final = frozenset({"labels", "source", "wave"})


class NameScope(Struct, frozen=True):
    """Names available to an expression of the file (a Scope of the evaluator)."""

    functions: Mapping[str, Any]
    values: Mapping[str, Value]

    def lookup(self, traversal: Traversal) -> tuple[Value, int, list[Diagnostic]]:
        """Return the value of a root name, the number of steps to skip, and errors.

        All after an unknown name.
        """
        name = traversal.root.name
        value = self.values.get(name)
        if value is not None:
            return value, 0, []
        candidates = ", ".join(f"{candidate}.*" for candidate in self.values)
        detail = f'"{name}" is not known here. {FILE_NAME} accepts: {candidates}.'
        return (
            DYNAMIC_UNKNOWN,
            len(traversal.steps),
            [build_error("invalid-reference", detail, traversal.span)],
        )

    def copy_with_names(self, **values: Value) -> NameScope:
        """Return a copy with further names."""
        return NameScope(self.functions, {**self.values, **values})


class _SiteBlock(Struct, frozen=True):
    """`defaults`, `site` or `sites` block: its body without the backend, and the backend's."""

    header: Span
    body: PreparedBody
    backend: str = ""
    settings: PreparedBody | None = None


class _FileReading(Struct):
    """State of one reading of the file."""

    names: NameScope
    root: str
    problems: list[Diagnostic]
    allowed_sources: tuple[str, ...]
    read: dict[str, str]
    confinement: Confinement
    defaults: _SiteBlock | None = None
    repeated_blocks: list[_SiteBlock] = field(default_factory=list)
    requests_per_minute: int = 0


def read_definition(
    root: str, confinement: Confinement, now: str, allowed_sources: tuple[str, ...] = ()
) -> tuple[FleetDefinition | None, list[Diagnostic], Mapping[str, SourceFile]]:
    """Read nexusform.sites.hcl in the directory `root`.

    Return the definition (None if the file is missing or invalid), the problems, and the source
    files to show with them. Site sources may also be in `allowed_sources`.
    """
    path = str(Path(root, FILE_NAME))
    try:
        text = read_file(path, _MAX_BYTES, confinement).decode()
    except FileProblem as problem:
        return None, [build_error("no-sites-file", f"{problem} {_FILE_HINT}")], {}
    except UnicodeDecodeError:
        return None, [build_error("invalid-character-encoding", f'"{FILE_NAME}" is not UTF-8.')], {}
    source = SourceFile(FILE_NAME, text)
    sources = {FILE_NAME: source}
    body, problems = parse_file(source)
    problems += check_hidden_characters(source)
    if has_errors(problems):
        return None, problems, sources
    read_digests: dict[str, str] = {}
    files = FileReadRecorder(ConfinedFileAccess(confinement), read_digests, read_digests)
    functions = build_functions(files, PlanClock(now), root)
    path_names = build_object(
        {"root": build_string("."), "module": build_string("."), "cwd": build_string(".")}
    )
    names = NameScope(functions, {"path": path_names})
    reading = _FileReading(names, root, problems, allowed_sources, read_digests, confinement)
    sites, waves = _read_sites_and_waves(body, reading)
    # The list in `reading` changes, too.
    problems[:] = _merge_equal_problems(problems, {site.name for site in sites})
    if has_errors(problems):
        return None, problems, sources
    file_lines = "".join(f"{name} {digest}\n" for name, digest in sorted(read_digests.items()))
    digest = sha256(f"{text}\0{file_lines}\0{allowed_sources}".encode()).hexdigest()
    definition = FleetDefinition(
        sites=tuple(sites),
        waves=tuple(waves),
        digest=digest,
        templates=tuple(_build_state_location_templates(reading, body.span)),
        requests_per_minute=reading.requests_per_minute,
        sources=sources,
    )
    return definition, problems, sources


_FILE_HINT: Final = (
    f"{FILE_NAME} declares the sites: a `defaults` block, `site` or `sites` blocks and a "
    "`strategy` (example: docs/many-sites.md)."
)


def _read_sites_and_waves(body: Body, reading: _FileReading) -> tuple[list[SiteEntry], list[Wave]]:
    """Read all sites and waves; add problems to `reading`.

    There is ONLY_WAVE without a `strategy` block.
    """
    content, content_problems = decode_body(body, _FILE_SCHEMA)
    problems = reading.problems
    problems += content_problems
    blocks = group_by(content.blocks, lambda block: block.type)
    strategies = blocks.get("strategy", [])
    defaults = blocks.get("defaults", [])
    for duplicate in (*strategies[1:], *defaults[1:]):
        detail = f"Only one `{duplicate.type}` block is allowed."
        problems.append(build_error("duplicate-block", detail, duplicate.header_span))
    waves = _read_waves(strategies[0], reading) if strategies else [Wave(ONLY_WAVE)]
    if defaults:
        reading.defaults = _build_site_block(
            defaults[0],
            BlockSchema(_SITE_ATTRIBUTES, description="Defaults for all sites."),
            problems,
        )
    wave_names = {wave.name for wave in waves}
    last_wave = waves[-1].name
    sites: dict[str, SiteEntry] = {}
    for block in content.blocks:
        if block.type not in ("site", "sites"):
            continue  # read above
        for site in _read_sites(block, reading):
            # A site without a wave is in the last one.
            wave = site.wave or last_wave
            _add_site(sites, replace(site, wave=wave), wave_names, problems)
        if len(sites) > _MAX_SITES:
            detail = (
                f"There are more than {_MAX_SITES:,} sites; split them over several directories."
            )
            problems.append(build_error("too-many-sites", detail, block.header_span))
            break
    if not sites and not has_errors(problems):
        problems.append(build_error("no-sites", f"It declares no site. {_FILE_HINT}", body.span))
    problems += _list_shared_state_errors(sites.values())
    return list(sites.values()), waves


def _list_shared_state_errors(sites: Iterable[SiteEntry]) -> Iterator[Diagnostic]:
    """Yield an error for each site with the state location of an earlier site."""
    first_by_location: dict[tuple[str, str], SiteEntry] = {}
    for site in sites:
        settings = dict(site.settings)
        # `./states/a` and `states/a` are equal.
        if site.backend == "local":
            settings = {name: os.path.normpath(str(text)) for name, text in settings.items()}
        earlier = first_by_location.setdefault((site.backend, repr(sorted(settings.items()))), site)
        if earlier is not site:
            detail = (
                f'"{earlier.name}" and "{site.name}" have the same state location. Use the site '
                'name in the backend settings: path = "states/${site.name}.nfstate".'
            )
            yield build_error("shared-site-state", detail, site.span)


def _add_site(
    sites: dict[str, SiteEntry], site: SiteEntry, wave_names: set[str], problems: list[Diagnostic]
) -> None:
    """Add a site; report a duplicate name or an unknown wave."""
    earlier = sites.get(site.name)
    if earlier is not None:
        location = describe_span(earlier.span)
        detail = (
            f'The site "{site.name}" is already declared at {location}. Site names must be unique.'
        )
        problems.append(build_error("duplicate-site-argument", detail, site.span))
    else:
        sites[site.name] = site
    if site.wave not in wave_names:
        waves = ", ".join(f'"{name}"' for name in sorted(wave_names))
        detail = (
            f'The site "{site.name}" is in the wave "{site.wave}", which is not in the strategy. '
            f"Waves: {waves}.{suggest_name(site.wave, wave_names)}"
        )
        problems.append(build_error("unknown-wave", detail, site.span))


def _merge_equal_problems(problems: Iterable[Diagnostic], sites: set[str]) -> Iterator[Diagnostic]:
    """Merge messages about sites of one block, different only in the site's name.

    They are merged to the first, with their number.
    """

    def replace_name(match: re.Match[str]) -> str:
        site_word, name = match.groups()
        # The match is site "NAME", or the name of a declared site.
        return "SITE" if site_word or name in sites else match[0]

    def get_key(problem: Diagnostic) -> tuple[str, Span | None, str]:
        return problem.id, problem.subject, _QUOTED_NAME.sub(replace_name, problem.detail)

    for first, *further_problems in group_by(problems, get_key).values():
        if not further_problems:
            yield first
            continue
        count = format_count(len(further_problems), "other site")
        yield replace(first, detail=f"{first.detail} The same holds for {count} of this block.")


_QUOTED_NAME: Final = re.compile(r'(site )?"([^"]*)"')


def _read_waves(block: Block, reading: _FileReading) -> list[Wave]:
    """Read the waves; arguments of the strategy are their defaults.

    Without waves, or after errors, return one wave.
    """
    body, problems = build_prepared_body(block.body, _STRATEGY, block.header_span)
    values, _, value_problems = body.evaluate(reading.names)
    reading.problems += [*problems, *value_problems]
    if has_errors([*problems, *value_problems]):
        # The file is invalid, but its sites are checked, too.
        return [Wave(ONLY_WAVE)]
    # 0: no limit.
    reading.requests_per_minute = int(values.pop("max_requests_per_minute") or 0)
    common = _remove_nulls(values)
    waves = [
        _build_wave(name, {**common, **_remove_nulls(values["wave"][name])})
        for name in values["wave_order"]
    ]
    return waves or [_build_wave(ONLY_WAVE, common)]


def _remove_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _build_wave(name: str, values: Mapping[str, Any]) -> Wave:
    """Build a wave from its attributes and those of the strategy."""
    # Such as `1h30m`.
    duration = values.get("soak", "")
    units = {"h": 3600, "m": 60, "s": 1}
    soak = float(
        sum(int(figure) * units[unit] for figure, unit in re.findall(r"(\d+)([hms])", duration))
    )
    return Wave(
        name,
        max_parallel=values.get("max_parallel"),
        max_unavailable=values.get("max_unavailable"),
        max_failures=int(values.get("max_failures", 0)),
        max_miss_rate=float(values.get("max_miss_rate", 1)),
        soak=soak,
        needs_approval=values.get("gate") == "approve",
    )


def _build_site_block(block: Block, schema: Any, problems: list[Diagnostic]) -> _SiteBlock:
    """Prepare a block for evaluation by site, with its backend if that is known.

    Duplicate or unknown backends are reported.
    """
    assert isinstance(block.body, Body), "the file is of native syntax"
    backends = [inner for inner in block.body.blocks if inner.type == "backend"]
    without_backend = replace(
        block.body, blocks=tuple(inner for inner in block.body.blocks if inner.type != "backend")
    )
    body, body_problems = build_prepared_body(without_backend, schema, block.header_span)
    problems += body_problems
    site = _SiteBlock(block.header_span, body)
    # That of `defaults` applies, else a local file.
    if not backends:
        return site
    if len(backends) > 1:
        detail = "Only one backend block is allowed: a site has one state."
        problems.append(
            build_error("duplicate-backend-configuration", detail, backends[1].header_span)
        )
    backend = backends[0]
    kind = backend.labels[0].value if backend.labels else ""
    # A state in memory would be lost.
    durable_backends = [name for name in BACKENDS if name != "memory"]
    if kind not in durable_backends:
        names = ", ".join(durable_backends)
        hint = explain_absent_domain(kind, "backends") or suggest_name(kind, BACKENDS)
        detail = f'There is no backend "{kind}" for sites. Known backends: {names}.{hint}'
        problems.append(build_error("unknown-backend", detail, backend.header_span))
        return site
    settings, setting_problems = build_prepared_body(
        backend.body, BACKENDS[kind].schema, backend.header_span
    )
    problems += setting_problems
    return replace(site, backend=kind, settings=settings)


def _read_sites(block: Block, reading: _FileReading) -> Iterator[SiteEntry]:
    """Yield the sites of one `site` or `sites` block up to the first invalid one.

    Add problems to `reading`.
    """
    if block.type == "site":
        prepared = _build_site_block(block, _SITE, reading.problems)
        site = _build_site(block.labels[0].value, prepared, reading.names, reading)
        if site is not None:
            yield site
        return
    assert isinstance(block.body, Body), "the file is of native syntax"
    expressions = {attribute.name: attribute.expression for attribute in block.body.attributes}
    # The arguments `for_each` and `name` are evaluated separately, everything else once per site.
    attributes = tuple(
        item for item in block.body.attributes if item.name not in ("for_each", "name")
    )
    body = replace(block.body, attributes=attributes)
    prepared = _build_site_block(replace(block, body=body), _SITE, reading.problems)
    if "for_each" not in expressions:
        reading.problems.append(build_missing_argument_error("for_each", block.header_span))
        return
    # For the states of undeclared sites.
    reading.repeated_blocks.append(prepared)
    rows, data_files = _evaluate_for_each_with_files(expressions["for_each"], reading)
    for key, value in rows:
        names = reading.names.copy_with_names(
            each=build_object({"key": build_string(key), "value": value})
        )
        name = _evaluate_name(key, expressions.get("name"), names, reading)
        problem_count = len(reading.problems)
        site = _build_site(name, prepared, names, reading) if name is not None else None
        if site is None:
            data_location = describe_data_location(
                data_files, key, reading.root, reading.confinement
            )
            new_problems = reading.problems[problem_count:]
            reading.problems[problem_count:] = [
                replace(problem, detail=f"{problem.detail}{data_location}")
                for problem in new_problems
            ]
            # Further sites of the block may have the same problem.
            return
        yield replace(site, key=key, data_files=data_files)


def _evaluate_name(
    key: str, expression: Expression | None, names: NameScope, reading: _FileReading
) -> str | None:
    """Evaluate the name of one site of a `sites` block, by default its key in for_each.

    Return None if the name is invalid.
    """
    if expression is None:
        return key
    value, problems = evaluate_expression(expression, names)
    if not has_errors(problems) and (not isinstance(value.raw, str) or collect_marks(value)):
        detail = "The name of a site must be a known string that is not sensitive."
        problems.append(build_error("invalid-site-name", detail, expression.span))
    reading.problems += problems
    return None if has_errors(problems) else str(value.raw)


def _evaluate_for_each_with_files(
    expression: Expression, reading: _FileReading
) -> tuple[Sequence[tuple[str, Value]], tuple[str, ...]]:
    """Return the keys and values of for_each, and the paths of the files read by it.

    The paths are relative to the sites file.
    """
    previous_digests = dict(reading.read)
    # From here, it has the files read by for_each.
    reading.read.clear()
    rows = _evaluate_for_each(expression, reading)
    root = os.path.realpath(reading.root)
    data_files = tuple(
        os.path.relpath(os.path.realpath(Path(root, name)), root) for name in sorted(reading.read)
    )
    reading.read.update({**previous_digests, **reading.read})
    return rows, data_files


def _evaluate_for_each(
    expression: Expression, reading: _FileReading
) -> Sequence[tuple[str, Value]]:
    """Evaluate keys and values of for_each (members of a set are both); none after a problem."""
    value, problems = evaluate_expression(expression, reading.names)
    reading.problems += problems
    if has_errors(problems):
        return ()
    reason = _explain_unusable_for_each(value)
    if reason:
        detail = f"for_each cannot be used: {reason}."
        reading.problems.append(build_error("invalid-for-each-argument", detail, expression.span))
        return ()
    if isinstance(value.type, SetType):
        return [(member.raw, member) for member in value.raw]
    return list(value.raw.items())


def _explain_unusable_for_each(value: Value) -> str:
    """Explain why a value cannot be used for for_each, or "".

    Its keys become names of sites, so they are printed.
    """
    is_set = isinstance(value.type, SetType)
    if not value.is_wholly_known:
        return "its value is known only after apply"
    if is_set and collect_marks(value):
        return "its value is sensitive, but site names are printed"
    if value.is_null or not isinstance(value.type, MapType | ObjectType | SetType):
        return "it must be a map, an object or a set of strings (toset(...) converts a list)"
    if is_set and not all(isinstance(member.raw, str) for member in value.raw):
        return "the members of the set must be strings"
    return ""


def _build_site(
    name: str, block: _SiteBlock, names: NameScope, reading: _FileReading
) -> SiteEntry | None:
    """Build one site; its arguments override those of the `defaults` block.

    Return None after an error.
    """
    problems: list[Diagnostic] = []
    if not SITE_NAME.fullmatch(name):
        detail = (
            f'"{name}" cannot be the name of a site: up to 100 letters, digits, ".", "_" and "-", '
            "the first a letter or a digit."
        )
        reading.problems.append(build_error("invalid-site-name", detail, block.header))
        return None
    scope = names.copy_with_names(site=build_object({"name": build_string(name)}))
    site_values, secret_paths, value_problems = block.body.evaluate(scope)
    problems += value_problems
    default_values: Mapping[str, Any] = {}
    if reading.defaults is not None:
        default_values, default_secrets, value_problems = reading.defaults.body.evaluate(
            _build_default_names(scope)
        )
        problems += value_problems
        secret_paths = (*secret_paths, *default_secrets)
    inputs_span = block.body.locate(("inputs",))
    inputs: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    # Later values replace earlier ones of the same name.
    for values in (default_values, site_values):
        inputs |= _read_object_argument("inputs", values, block, problems)
        labels |= _read_object_argument("labels", values, block, problems)
    for printed_name in sorted({str(path[0]) for path in secret_paths} & _PRINTED):
        detail = (
            f"Reports print the {printed_name} of a site, so it cannot be sensitive. Use "
            "nonsensitive()."
        )
        problems.append(
            build_error("sensitive-site-argument", detail, block.body.locate((printed_name,)))
        )
    source = {**default_values, **_remove_nulls(site_values)}.get("source")
    # Otherwise the source itself may be invalid.
    if not has_errors(problems):
        problems += _check_site_source(name, source, block, reading)
    backend, settings = _read_backend(name, block, scope, reading, problems)
    if has_unknown_part([inputs, labels, settings]):
        detail = "A value in it is known only after apply, such as timestamp()."
        problems.append(build_error("unknown-value", detail, inputs_span))
    reading.problems += problems
    if has_errors(problems):
        return None
    return SiteEntry(
        name=name,
        source=os.path.normpath(str(source)),
        wave=site_values["wave"] or get_text(default_values, "wave"),
        span=block.header,
        inputs_span=inputs_span,
        inputs=inputs,
        sensitive=tuple(sorted(_list_secret_inputs(secret_paths, inputs))),
        labels=labels,
        backend=backend,
        settings=settings,
        destroy=bool(site_values.get("destroy")),
    )


def _build_default_names(names: NameScope) -> NameScope:
    """Build the names available in `defaults`: the site, without `each`."""
    return NameScope(
        names.functions, {name: value for name, value in names.values.items() if name != "each"}
    )


def _list_secret_inputs(paths: Sequence[DataPath], inputs: Mapping[str, Any]) -> AbstractSet[str]:
    """Return the names of the inputs with a sensitive part.

    `paths` lead to sensitive values: ("inputs", NAME, ...).
    """
    # The value is sensitive as a whole.
    if ("inputs",) in paths:
        return inputs.keys()
    return {str(path[1]) for path in paths if path[0] == "inputs"} & inputs.keys()


def _read_object_argument(
    name: str, values: Mapping[str, Any], block: _SiteBlock, problems: list[Diagnostic]
) -> Mapping[str, Any]:
    """Read an argument with an object as its value.

    Return {} if it is absent, unknown, or of another type (reported).
    """
    value = values.get(name)
    if value is None or value is UNKNOWN:
        return {}
    if isinstance(value, dict):
        return value
    detail = f'"{name}" must be an object: {name} = {{ NAME = VALUE, ... }}.'
    problems.append(build_error("unsuitable-value-type", detail, block.body.locate((name,))))
    return {}


def _check_site_source(
    name: str, source: Any, block: _SiteBlock, reading: _FileReading
) -> Iterator[Diagnostic]:
    """Check the source of a site.

    The plan checks that the directory exists.
    """
    span = block.body.locate(("source",))
    if not isinstance(source, str) or not source:
        detail = (
            f'The site "{name}" has no source: the directory of its root module, here or in '
            "`defaults`."
        )
        yield build_error("missing-required-argument", detail, block.header)
        return
    # A URL, or a forced getter such as git::
    if "://" in source or "::" in source:
        detail = (
            f'"{source}" is not a local directory. Site sources are local paths such as "./site".'
        )
        yield build_error("remote-module-source", detail, span)
        return
    root = os.path.realpath(reading.root)
    real = Path(os.path.realpath(Path(reading.root, source)))
    allowed_roots = (root, *(os.path.realpath(path) for path in reading.allowed_sources))
    if not any(real.is_relative_to(allowed_root) for allowed_root in allowed_roots):
        detail = (
            f'"{source}" is outside the directory of {FILE_NAME}. To allow it, use '
            "-allow-source=DIR."
        )
        yield build_error("source-outside-root", detail, span)


def _read_backend(
    name: str,
    block: _SiteBlock,
    names: NameScope,
    reading: _FileReading,
    problems: list[Diagnostic],
) -> tuple[str, Mapping[str, Any]]:
    """Read the backend of a site and its settings.

    Its own, else the default's, else a local file with its name.
    """
    for candidate, scope in ((block, names), (reading.defaults, _build_default_names(names))):
        if candidate is None or candidate.settings is None:
            continue
        values, _, value_problems = candidate.settings.evaluate(scope)
        problems += value_problems
        return candidate.backend, _remove_nulls(values)
    return "local", {"path": f"states/{name}.nfstate"}


def _build_state_location_templates(reading: _FileReading, span: Span) -> Iterator[SiteEntry]:
    """Build the state locations of a site of any name.

    They find the states of sites no longer declared. Skip a location that needs more than the name:
    for other values its evaluation fails.
    """
    names = reading.names.copy_with_names(site=build_object({"name": build_string(ANY_SITE)}))
    blocks = [reading.defaults, *reading.repeated_blocks]
    template = SiteEntry(name=ANY_SITE, source=".", wave="", span=span, inputs_span=span, inputs={})
    for block in blocks:
        # No backend of its own.
        if block is None or block.settings is None:
            continue
        values, _, value_problems = block.settings.evaluate(names)
        # With each.* it depends on more than the name.
        if not has_errors(value_problems):
            settings = _remove_nulls(values)
            yield replace(template, backend=block.backend, settings=settings)
    # A local file is the default.
    if reading.defaults is None or reading.defaults.settings is None:
        yield replace(template, settings={"path": f"states/{ANY_SITE}.nfstate"})


def describe_data_location(
    files: Sequence[str], key: str, root: str, confinement: Confinement
) -> str:
    """Describe the location of a key: its line if it occurs once, else the only file.

    Return "" for several files.
    """
    # The key, with or without quotes, before `:` (JSON, YAML), `=` (HCL) or `,` (CSV).
    pattern = re.compile(rf"(?<![\w.-])(?P<quote>[\"']?){re.escape(key)}(?P=quote)\s*[:=,]")
    # Pairs of file and line.
    locations: list[tuple[str, int]] = []
    for name in files:
        # Only an aid for an error reported anyway.
        with suppress(FileProblem, UnicodeDecodeError):
            text = read_file(str(Path(root, name)), _MAX_BYTES, confinement).decode()
            locations += [
                (name, text.count("\n", 0, match.start()) + 1) for match in pattern.finditer(text)
            ]
    if len(locations) == 1:
        ((name, line),) = locations
        return f' "{key}" is set in {name}, line {line}.'
    return f' "{key}" is from {files[0]}.' if len(files) == 1 else ""
