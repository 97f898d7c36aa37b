"""The arguments of fleet types, as blocks or as a manifest, read into the words of the scheduler.

Arguments that are not known read as absent: `check_known` leaves out what is said about them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from nexusform.diagnostics import Problem, Severity
from nexusform.domains.fleet.importers.fleet_documents import FleetDocument, read_fleet_document
from nexusform.domains.fleet.importers.fleet_model import (
    CLUSTER_SCOPE_ONLY,
    DELETE,
    MIRROR,
    ROLLING_UPDATE,
    WITH_RESOURCES,
    ApplyStrategy,
    FleetPlacement,
    ObjectSelector,
)
from nexusform.domains.fleet.importers.fleet_shapes import API_KINDS
from nexusform.domains.fleet.scheduling.bindings import (
    ClusterTerm,
    PlacementType,
    Policy,
    PreferredTerm,
    PropertyRequirement,
    PropertySorter,
    SpreadConstraint,
)
from nexusform.domains.fleet.scheduling.rollout import DEFAULT_PERIOD, QUARTER, RollingUpdate
from nexusform.domains.fleet.scheduling.validation import invalid, sentence
from nexusform.kubernetes.matching import LabelSelector, Requirement, Taint, Toleration, label_selector
from nexusform.kubernetes.quantity import Amount, parse_amount
from nexusform.plain_data import Path, unknown_paths
from nexusform.schema import BlockSchema
from nexusform.values import UNKNOWN

Values = Mapping[str, Any]


# --- manifests ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def document_of(manifest: str, kind: str, schema: BlockSchema, *, lenient: bool) -> FleetDocument:
    """The manifest of an object, read once per text."""
    return read_fleet_document("manifest", manifest, API_KINDS[kind], schema, lenient=lenient)


def line_problems(findings: Iterable[Problem], argument: str) -> list[Problem]:
    """What was found in the text of an argument: errors one by one, warnings of one kind together, so that
    each line of them is seen.
    """
    errors: list[Problem] = []
    together: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for each in findings:
        line = f":{each.line}" if each.line else ""
        detail = each.detail if each.detail.endswith((".", "?")) else f"{each.detail}."
        text = f"{argument}{line}: {detail}"
        if each.severity is Severity.ERROR:
            errors.append(Problem((argument,), each.id, text, line=each.line))
        else:
            together.setdefault(each.id, []).append(text)
            first.setdefault(each.id, each.line)
    warnings = (
        Problem((argument,), kind, "\n".join(lines), Severity.WARNING, line=first[kind])
        for kind, lines in together.items()
    )
    return [*errors, *warnings]


def finding_problems(findings: Iterable[Problem], document: FleetDocument | None = None) -> list[Problem]:
    """Findings of the scheduler's validation: at the block, or at the manifest's line. What the reading of
    the manifest judged is not said again.
    """
    problems = []
    for each in findings:
        path, text, line = each.path, sentence(each.detail), 0
        if document is not None:
            if document.is_judged(path):
                continue
            line = document.line(path)
            text, path = f"manifest{f':{line}' if line else ''}: {text}", ("manifest",)
        problems.append(Problem(path, each.id, text, each.severity, line=line))
    return problems


def without_unknown(values: Any) -> Any:
    """A copy in which unknown parts are absent."""
    if values is UNKNOWN:
        return None
    if isinstance(values, Mapping):
        return {name: without_unknown(value) for name, value in values.items()}
    if isinstance(values, list):
        return [without_unknown(value) for value in values]
    return values


def known_only(attributes: Values, problems: Iterable[Problem]) -> list[Problem]:
    """The problems without those about a part that is not known (yet), or that holds one."""
    open_paths = [path for path in unknown_paths(dict(attributes)) if path]
    return [problem for problem in problems if not _touches_any(problem.path, open_paths)]


def _touches_any(path: Path, unknown: Iterable[Path]) -> bool:
    """Whether one of the paths leads into the other."""
    for other in unknown:
        length = min(len(path), len(other))
        if length > 0 and path[:length] == other[:length]:
            return True
    return False


# --- selectors ---------------------------------------------------------------------------------


def read_label_selector(values: Values | None) -> LabelSelector | None:
    """A label_selector block; None when there is none."""
    if values is None:
        return None
    expressions = [
        Requirement(_text(e, "key"), _text(e, "operator"), _texts(e, "values"))
        for e in values.get("match_expression") or ()
    ]
    pairs = {str(k): "" if v is None else str(v) for k, v in (values.get("match_labels") or {}).items()}
    return label_selector(pairs, expressions)


def read_term(values: Values) -> ClusterTerm:
    """A cluster selector term, or a preference."""
    properties = values.get("property_selector")
    sorter = values.get("property_sorter") or values.get("metric_sorter")
    return ClusterTerm(
        read_label_selector(values.get("label_selector")),
        None
        if properties is None
        else tuple(
            PropertyRequirement(_text(e, "name"), _text(e, "operator"), _texts(e, "values"))
            for e in properties.get("match_expression") or ()
        ),
        PropertySorter(_text(sorter, "name"), _text(sorter, "sort_order")) if sorter else None,
    )


def read_objects(blocks: Iterable[Values] | None) -> tuple[ObjectSelector, ...]:
    """The resource_selector blocks of a placement."""
    return tuple(
        ObjectSelector(
            group=_text(block, "group"),
            version=_text(block, "version"),
            kind=_text(block, "kind"),
            name=_text(block, "name"),
            labels=read_label_selector(block.get("label_selector")),
            scope=block.get("selection_scope") or WITH_RESOURCES,
        )
        for block in blocks or ()
    )


def read_taints(blocks: Iterable[Values] | None) -> tuple[Taint, ...]:
    """The taint blocks of a member."""
    return tuple(
        Taint(_text(b, "key"), _text(b, "value"), b.get("effect") or "NoSchedule") for b in blocks or ()
    )


# --- policy and strategy -----------------------------------------------------------------------


def read_policy(values: Values | None) -> Policy | None:
    """A policy block; None when there is none."""
    if values is None:
        return None
    affinity = ((values.get("affinity") or {}).get("cluster_affinity")) or {}
    required = affinity.get("required_during_scheduling_ignored_during_execution")
    preferred = affinity.get("preferred_during_scheduling_ignored_during_execution") or ()
    number = values.get("number_of_clusters")
    return Policy(
        placement_type=PlacementType(values.get("placement_type") or PlacementType.PICK_ALL),
        number_of_clusters=None if number is None else int(number),
        cluster_names=_texts(values, "cluster_names"),
        required=None
        if required is None
        else tuple(read_term(term) for term in required.get("cluster_selector_term") or ()),
        preferred=tuple(
            PreferredTerm(int(term.get("weight") or 0), read_term(term.get("preference") or {}))
            for term in preferred
        ),
        spread=tuple(
            SpreadConstraint(
                _text(c, "topology_key"),
                1 if c.get("max_skew") is None else int(c["max_skew"]),
                c.get("when_unsatisfiable") or "DoNotSchedule",
            )
            for c in values.get("topology_spread_constraint") or ()
        ),
        tolerations=tuple(
            Toleration(_text(t, "key"), t.get("operator") or "Equal", _text(t, "value"), _text(t, "effect"))
            for t in values.get("toleration") or ()
        ),
    )


def read_placement(attributes: Values, arguments: Values) -> FleetPlacement:
    """A placement. `arguments` are its blocks: those of the configuration, or of its manifest."""
    strategy = arguments.get("strategy") or {}
    report_back = strategy.get("report_back_strategy") or {}
    return FleetPlacement(
        name=_text(attributes, "name"),
        namespace=_text(attributes, "namespace"),
        policy=read_policy(arguments.get("policy")),
        selectors=read_objects(arguments.get("resource_selector")),
        strategy=strategy.get("type") or ROLLING_UPDATE,
        rolling=read_rolling(strategy.get("rolling_update")),
        apply=read_apply(strategy.get("apply_strategy") or {}),
        revision_history_limit=int(arguments.get("revision_history_limit") or 10),
        status_reporting_scope=arguments.get("status_reporting_scope") or CLUSTER_SCOPE_ONLY,
        propagation_policy=(strategy.get("delete_strategy") or {}).get("propagation_policy") or DELETE,
        report_back_to=_text(report_back, "destination") if report_back.get("type") == MIRROR else "",
        old_names=not isinstance(attributes.get("manifest"), str) or attributes.get("lenient") is True,
    )


def read_apply(values: Values) -> ApplyStrategy:
    """An apply_strategy block; what is not written is the default."""
    texts = {
        name: str(values[name])
        for name in ("type", "comparison_option", "when_to_apply", "when_to_take_over")
        if values.get(name) is not None
    }
    return ApplyStrategy(
        **texts,
        allow_co_ownership=bool(values.get("allow_co_ownership")),
        force=bool((values.get("server_side_apply_config") or {}).get("force")),
    )


def read_rolling(values: Values | None) -> RollingUpdate:
    """A rolling_update block; amounts that are none count as the default."""
    values = values or {}
    period = values.get("unavailable_period_seconds")
    return RollingUpdate(
        read_amount(values.get("max_unavailable"), QUARTER) or QUARTER,
        read_amount(values.get("max_surge"), QUARTER) or QUARTER,
        DEFAULT_PERIOD if period is None else int(period),
    )


def read_amount(written: Any, default: Amount | None = None) -> Amount | None:
    """A number or per cent; the default for what is neither (`amount_problems` says so)."""
    if written is None:
        return default
    amount = parse_amount(str(written))
    return amount if isinstance(amount, Amount) else default


def amount_problems(values: Values | None, names: Iterable[str], path: Path) -> list[Problem]:
    """The named arguments that are neither a whole number nor a percentage."""
    problems = []
    for name in names:
        written = (values or {}).get(name)
        read = parse_amount(str(written)) if written is not None else None
        if isinstance(read, str):
            problems.append(invalid((*path, name), read))
    return problems


def json_value(written: str | None) -> Any:
    """A text that holds JSON, else the text itself."""
    if written is None:
        return None
    try:
        return json.loads(written)
    except ValueError:
        return written


def _text(values: Values, name: str) -> str:
    value = values.get(name)
    return "" if value is None else str(value)


def _texts(values: Values, name: str) -> tuple[str, ...]:
    return tuple("" if v is None else str(v) for v in values.get(name) or ())
