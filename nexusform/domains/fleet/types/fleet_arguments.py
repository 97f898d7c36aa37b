"""Conversion of fleet arguments, from blocks or a manifest, to scheduler records.

Unknown arguments read as absent.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.domains.fleet.importers.fleet_documents import FleetDocument, read_fleet_document
from nexusform.domains.fleet.importers.fleet_records import (
    CLUSTER_SCOPE_ONLY,
    DELETE,
    ROLLING_UPDATE,
    WITH_RESOURCES,
    ApplyStrategy,
    FleetPlacement,
    ObjectSelector,
)
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.scheduling.bindings import (
    ClusterSelectorTerm,
    PlacementType,
    Policy,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    TopologySpreadConstraint,
)
from nexusform.domains.fleet.scheduling.fleet_api_validation import build_error, format_sentence
from nexusform.domains.fleet.scheduling.rolling_update import DEFAULT_PERIOD, QUARTER, RollingUpdate
from nexusform.json_data.plain_data import (
    Path,
    get_list,
    get_mapping,
    get_value_at_path,
    list_unknown_paths,
)
from nexusform.kubernetes.matching import (
    EQUAL,
    LabelSelector,
    Requirement,
    Taint,
    Toleration,
    build_label_selector,
)
from nexusform.kubernetes.quantity import IntegerOrPercent, parse_int_or_percent
from nexusform.schemas.block_schema import BlockSchema

Values = Mapping[str, Any]


# More than the objects of a hub: a plan reads each text several times, in turns.
@lru_cache(maxsize=4096)
def parse_manifest(
    manifest: str, kind: str, schema: BlockSchema, *, lenient: bool
) -> FleetDocument:
    """Return the manifest of an object, parsed once per text."""
    return read_fleet_document("manifest", manifest, API_KINDS[kind], schema, lenient=lenient)


def build_line_problems(findings: Iterable[Problem], argument: str) -> list[Problem]:
    """Return findings in an argument's text as problems.

    Errors are reported one by one, warnings grouped by kind with all lines.
    """
    errors: list[Problem] = []
    # texts of warnings by kind.
    grouped: dict[str, list[str]] = {}
    # Of warnings by kind.
    first_lines: dict[str, int] = {}
    for finding in findings:
        line = f":{finding.line}" if finding.line else ""
        detail = finding.detail if finding.detail.endswith((".", "?")) else f"{finding.detail}."
        text = f"{argument}{line}: {detail}"
        if finding.severity is Severity.ERROR:
            errors.append(Problem((argument,), finding.id, text, line=finding.line))
        else:
            grouped.setdefault(finding.id, []).append(text)
            first_lines.setdefault(finding.id, finding.line)
    warnings = (
        Problem(
            (argument,),
            kind,
            "\n".join(lines),
            Severity.WARNING,
            line=first_lines[kind],
            is_multiline=True,
        )
        for kind, lines in grouped.items()
    )
    return [*errors, *warnings]


def build_problems(
    findings: Iterable[Problem], document: FleetDocument | None = None
) -> list[Problem]:
    """Return findings as problems at their arguments, or at lines of a `document`.

    Problems reported at the document already are left out.
    """
    problems = []
    for finding in findings:
        path = finding.path
        text = format_sentence(finding.detail)
        line = 0
        if document is not None:
            if document.is_part_reported(path):
                continue
            line = document.find_line(path)
            location = f"manifest:{line}" if line else "manifest"
            text = f"{location}: {text}"
            path = ("manifest",)
        problems.append(Problem(path, finding.id, text, finding.severity, line=line))
    return problems


def remove_unknown_part_problems(attributes: Values, problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems without those about an unknown argument.

    Problems of an argument inside or around an unknown one are left out, too.
    """
    unknown_parts = [*list_unknown_paths(dict(attributes))]
    remaining: list[Problem] = []
    for problem in problems:
        path = problem.path
        # One path is a prefix of the other. An empty path is about the whole block, which is known.
        is_in_unknown_part = any(path[: len(part)] == part[: len(path)] for part in unknown_parts)
        if not path or not is_in_unknown_part:
            remaining.append(problem)
    return remaining


def read_label_selector(values: Values | None) -> LabelSelector | None:
    """Return a label_selector block; None if it is absent."""
    if values is None:
        return None
    expressions = [
        Requirement(read_text(e, "key"), read_text(e, "operator"), _read_texts(e, "values"))
        for e in get_list(values, "match_expression")
    ]
    return build_label_selector(convert_text_map(get_mapping(values, "match_labels")), expressions)


def read_selector_term(values: Values) -> ClusterSelectorTerm:
    """Return a cluster selector term or a preference."""
    properties = values.get("property_selector")
    # Its old name.
    sorter = values.get("property_sorter") or values.get("metric_sorter")
    requirements = tuple(
        PropertyRequirement(
            read_text(e, "name"), read_text(e, "operator"), _read_texts(e, "values")
        )
        for e in get_list(properties, "match_expression")
    )
    return ClusterSelectorTerm(
        read_label_selector(values.get("label_selector")),
        property_selector=None if properties is None else requirements,
        property_sorter=PropertySorter(read_text(sorter, "name"), read_text(sorter, "sort_order"))
        if sorter
        else None,
    )


def read_resource_selectors(blocks: Iterable[Values]) -> tuple[ObjectSelector, ...]:
    """Return the selector blocks of a placement or an override."""
    return tuple(
        ObjectSelector(
            group=read_text(block, "group"),
            version=read_text(block, "version"),
            kind=read_text(block, "kind"),
            name=read_text(block, "name"),
            labels=read_label_selector(block.get("label_selector")),
            scope=get_or_default(block, "selection_scope", WITH_RESOURCES),
        )
        for block in blocks
    )


def read_taints(blocks: Iterable[Values]) -> tuple[Taint, ...]:
    """Return the taint blocks of a member."""
    return tuple(
        Taint(read_text(b, "key"), read_text(b, "value"), get_or_default(b, "effect", "NoSchedule"))
        for b in blocks
    )


def read_policy(values: Values | None) -> Policy | None:
    """Return a policy block; None if it is absent."""
    if values is None:
        return None
    affinity = get_mapping(values, "affinity", "cluster_affinity")
    required_block = affinity.get("required_during_scheduling_ignored_during_execution")
    required_terms = tuple(
        map(read_selector_term, get_list(required_block, "cluster_selector_term"))
    )
    preferred_blocks = get_list(affinity, "preferred_during_scheduling_ignored_during_execution")
    number = values.get("number_of_clusters")
    return Policy(
        placement_type=PlacementType(
            get_or_default(values, "placement_type", PlacementType.PICK_ALL)
        ),
        number_of_clusters=None if number is None else int(number),
        cluster_names=_read_texts(values, "cluster_names"),
        required_terms=None if required_block is None else required_terms,
        preferred_terms=tuple(
            PreferredTerm(
                int(get_or_default(term, "weight", 0)),
                read_selector_term(get_mapping(term, "preference")),
            )
            for term in preferred_blocks
        ),
        spread_constraints=tuple(
            TopologySpreadConstraint(
                read_text(c, "topology_key"),
                1 if c.get("max_skew") is None else int(c["max_skew"]),
                get_or_default(c, "when_unsatisfiable", "DoNotSchedule"),
            )
            for c in get_list(values, "topology_spread_constraint")
        ),
        tolerations=tuple(
            Toleration(
                read_text(t, "key"),
                get_or_default(t, "operator", EQUAL),
                read_text(t, "value"),
                read_text(t, "effect"),
            )
            for t in get_list(values, "toleration")
        ),
    )


def read_placement(attributes: Values, arguments: Values) -> FleetPlacement:
    """Return a placement.

    `arguments` are its blocks, from the configuration or its manifest. `attributes` has the other
    values. Old names of properties are accepted with `lenient`.
    """
    strategy = get_mapping(arguments, "strategy")
    apply_block = get_mapping(strategy, "apply_strategy")
    # absent ones keep the default.
    texts = {
        name: str(apply_block[name])
        for name in ("type", "comparison_option", "when_to_apply", "when_to_take_over")
        if apply_block.get(name) is not None
    }
    apply = ApplyStrategy(
        **texts,
        allow_co_ownership=bool(apply_block.get("allow_co_ownership")),
        force=bool(get_mapping(apply_block, "server_side_apply_config").get("force")),
    )
    return FleetPlacement(
        name=read_text(attributes, "name"),
        namespace=read_text(attributes, "namespace"),
        policy=read_policy(arguments.get("policy")),
        selectors=read_resource_selectors(get_list(arguments, "resource_selector")),
        strategy=get_or_default(strategy, "type", ROLLING_UPDATE),
        rolling_update=read_rolling_update(get_mapping(strategy, "rolling_update")),
        apply=apply,
        revision_history_limit=int(get_or_default(arguments, "revision_history_limit", 10)),
        status_reporting_scope=get_or_default(
            arguments, "status_reporting_scope", CLUSTER_SCOPE_ONLY
        ),
        propagation_policy=get_or_default(
            get_mapping(strategy, "delete_strategy"), "propagation_policy", DELETE
        ),
        accepts_old_names=attributes.get("lenient") is True,
    )


def read_rolling_update(values: Values) -> RollingUpdate:
    """Return a rolling_update block; invalid amounts count as the default."""
    period = values.get("unavailable_period_seconds")
    return RollingUpdate(
        max_unavailable=read_integer_or_percentage(values.get("max_unavailable"), QUARTER),
        max_surge=read_integer_or_percentage(values.get("max_surge"), QUARTER),
        unavailable_period_seconds=DEFAULT_PERIOD if period is None else int(period),
    )


Default = TypeVar("Default", IntegerOrPercent, None)


def read_integer_or_percentage(value: Any, default: Default) -> IntegerOrPercent | Default:
    """Return a number or percentage, and the default for anything else.

    `check_integers_or_percentages` reports anything else.
    """
    amount = parse_int_or_percent(str(value))
    return amount if isinstance(amount, IntegerOrPercent) else default


def check_integers_or_percentages(
    values: Values | None, names: Iterable[str], path: Path
) -> list[Problem]:
    """Return problems for the named arguments that are neither an integer nor a percentage."""
    problems = []
    for name in names:
        value = get_value_at_path(values, name)
        amount = parse_int_or_percent(str(value)) if value is not None else None
        # An error message.
        if isinstance(amount, str):
            problems.append(build_error((*path, name), amount))
    return problems


def parse_json(text: str | None) -> Any:
    """Return the value of a JSON text (None stays None), else the text itself."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def convert_text_map(values: Values) -> dict[str, str]:
    """Return a map of texts; null counts as empty."""
    return {str(key): _convert_to_text(value) for key, value in values.items()}


def _convert_to_text(value: Any) -> str:
    return "" if value is None else str(value)


def read_text(values: Values, name: str) -> str:
    """Return an argument as text; "" for null."""
    return _convert_to_text(values.get(name))


def _read_texts(values: Values, name: str) -> tuple[str, ...]:
    return tuple(map(_convert_to_text, get_or_default(values, name, default=())))


def get_or_default(values: Values, name: str, default: Any) -> Any:
    """Return an argument; the default if it is null, empty or 0."""
    return values.get(name) or default
