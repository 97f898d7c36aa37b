"""The staged types, cluster-wide and namespaced: strategies, runs and approvals."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from msgspec import convert
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Problem, Severity
from nexusform.diagnostics.phrases import (
    enclose,
    format_count,
    format_list,
    join_texts,
    select_word_form,
)
from nexusform.documents.scalars import parse_integer
from nexusform.domains.fleet.importers.fleet_records import (
    FleetApprovalRequest,
    FleetObject,
    FleetUpdateRun,
    FleetUpdateStrategy,
    RunRecord,
)
from nexusform.domains.fleet.scheduling.fleet_api_validation import (
    build_error,
    build_violations,
    check_update_stages,
)
from nexusform.domains.fleet.scheduling.staged_update import (
    APPROVAL,
    TIMED_WAIT,
    RunState,
    Stage,
    UpdateStageTask,
)
from nexusform.domains.fleet.types.fleet_arguments import (
    check_integers_or_percentages,
    get_or_default,
    read_integer_or_percentage,
    read_label_selector,
    read_text,
)
from nexusform.domains.fleet.types.fleet_kinds import FleetKind, Values, build_fleet_type
from nexusform.domains.fleet.types.fleet_schemas import (
    LABEL_SELECTOR,
    PLACEMENT_NAME,
    make_block,
    make_block_list,
    make_choice,
    make_placement_argument,
    make_text,
)
from nexusform.domains.pods.types.fleet_object_type import FleetObjectType
from nexusform.json_data.plain_data import get_list, list_texts
from nexusform.kubernetes.quantity import IntegerOrPercent, find_weaker_amount, parse_duration
from nexusform.placements.consequences import LASTING_LOSS, ConsequenceTable, ObjectChange
from nexusform.schemas.block_schema import BlockSchema, ObjectReference, OnChange
from nexusform.schemas.value_types import BOOL, STRING, SetType

_TASK_NOUNS: Final = {APPROVAL: "approval", TIMED_WAIT: "wait"}
# Lost rules in a text.
_MAX_RULES: Final = 3
_APPROVALS: Final = make_placement_argument(
    SetType(STRING), "Approved requests: <run>-before-<stage>, <run>-after-<stage>."
)


def _build_run_spec(strategy: str) -> BlockSchema:
    """Build the schema of a run's spec; `strategy` is the resource type of its strategy."""
    return BlockSchema(
        {
            "placement_name": replace(
                PLACEMENT_NAME, required=True, optional=False, on_change=OnChange.REPLACE
            ),
            "staged_rollout_strategy_name": make_text(
                "Name of the staged update strategy.",
                required=True,
                on_change=OnChange.REPLACE,
                refers_to=ObjectReference((strategy,), by="name"),
            ),
            "resource_snapshot_index": make_text(
                "Number of the resource snapshot. Default: the latest.", on_change=OnChange.REPLACE
            ),
            "state": make_choice("Requested state of the run.", *map(str, RunState)),
        }
    )


def _read_run(attributes: Values, arguments: Values) -> FleetUpdateRun:
    """Return the staged update run; a missing `state` means Initialize."""
    return FleetUpdateRun(
        name=read_text(attributes, "name"),
        placement=read_text(arguments, "placement_name"),
        strategy=read_text(arguments, "staged_rollout_strategy_name"),
        resource_index=parse_integer(arguments.get("resource_snapshot_index")),
        state=RunState(get_or_default(arguments, "state", RunState.INITIALIZE)),
        approvals=frozenset(list_texts(attributes, "approvals")),
        namespace=read_text(attributes, "namespace"),
    )


def _check_run(_run: FleetObject, arguments: Values) -> list[Problem]:
    """Return an error for a snapshot index written unlike a hub's labels ("007").

    A hub compares them as texts.
    """
    index = arguments.get("resource_snapshot_index") or ""
    # Such as 007.
    is_other = str(parse_integer(index)) != str(index)
    message = f'"{index}" is not the number of a resource snapshot: digits without leading zeros'
    return build_violations((index and is_other, ("resource_snapshot_index",), message))


def _find_unfinished_run(note: Mapping[str, Any]) -> str:
    """Return `in mid-run: 1 of 3 clusters is updated`; "" if it has not started, or has ended."""
    record = convert(note, RunRecord)
    clusters = {cluster for _, names in record.stages or () for cluster in names}
    if record.ended or not clusters:
        return ""
    done = len(clusters.intersection(record.done))
    verb = select_word_form(done, "is", "are")
    return f"in mid-run: {done:,} of {format_count(len(clusters), 'cluster')} {verb} updated"


def _find_stopped_run(fleet: FleetKind, change: ObjectChange) -> str:
    """Return `stops in mid-run: 1 of 3 clusters is updated`, "" if no run stops."""
    old, new = (
        _read_run(values, fleet.read_arguments(values)).state
        for values in (change.before, change.after)
    )
    if (old, new) != (RunState.RUN, RunState.STOP):
        return ""
    return enclose("stops ", _find_unfinished_run(change.note))


def build_run_type(
    name: str, kind: str, *, strategy: str, is_namespaced: bool = False
) -> FleetObjectType:
    """Build the resource type of a staged update run; `strategy` is the type of its strategy."""
    placement = (
        "resource placement of its namespace" if is_namespaced else "cluster resource placement"
    )
    fleet = FleetKind(kind, _build_run_spec(strategy), is_namespaced)
    return build_fleet_type(
        name,
        fleet,
        (
            f"Rolls out a {placement} with the strategy External, stage by stage, on creation or "
            "change."
        ),
        read=_read_run,
        findings=_check_run,
        values={"approvals": _APPROVALS},
        consequences=ConsequenceTable(
            noun="staged run",
            find_unfinished=_find_unfinished_run,
            find_weakening=partial(_find_stopped_run, fleet),
        ),
    )


_APPROVAL_SPEC: Final = BlockSchema(
    {
        "parent_stage_rollout": make_text(
            "Name of the staged update run.", required=True, on_change=OnChange.REPLACE
        ),
        "target_stage": make_text(
            "Name of the waiting stage.", required=True, on_change=OnChange.REPLACE
        ),
    }
)
_APPROVED: Final = make_placement_argument(
    BOOL,
    (
        "Whether the request is approved. Default: condition Approved of the manifest; true for "
        "blocks."
    ),
)


def _read_approval(attributes: Values, arguments: Values, fleet: FleetKind) -> FleetApprovalRequest:
    """Return an approval request.

    The argument `approved` decides, else the manifest; without both it is approved.
    """
    document = fleet.read_document(attributes)
    is_approved = attributes.get("approved")
    if not isinstance(is_approved, bool):
        is_approved = document is None or ("Approved", "True") in document.conditions
    return FleetApprovalRequest(
        name=read_text(attributes, "name"),
        namespace=read_text(attributes, "namespace"),
        run=read_text(arguments, "parent_stage_rollout"),
        stage=read_text(arguments, "target_stage"),
        is_approved=is_approved,
    )


def _warn_unrequested_approval(approval: FleetObject, _arguments: Values) -> Iterator[Problem]:
    """Warn about an approval request with another name than those created by its run.

    Those are `<run>-before-<stage>` and `<run>-after-<stage>`. No warning is possible while its
    name, run or stage is not known ("").
    """
    assert isinstance(approval, FleetApprovalRequest)
    run = approval.run
    stage = approval.stage
    if not (approval.name and run and stage):
        return
    names = [f"{run}-before-{stage}", f"{run}-after-{stage}"]
    if approval.name not in names:
        text = f"a run requests {names[0]} or {names[1]}; no run waits for {approval.name}"
        yield Problem((), "useless-approval-request", text, Severity.WARNING)


def build_approval_type(
    name: str, kind: str, *, run: str, is_namespaced: bool = False
) -> FleetObjectType:
    """Build the resource type of an approval request.

    `run` is the type of the run that waits for it.
    """
    fleet = FleetKind(kind, _APPROVAL_SPEC, is_namespaced)
    return build_fleet_type(
        name,
        fleet,
        "Approval of a stage of a staged update run. The run continues once approved.",
        read=partial(_read_approval, fleet=fleet),
        findings=_warn_unrequested_approval,
        values={"approved": _APPROVED},
        concurrent_types=(run,),
        consequences=ConsequenceTable(noun="approval request"),
    )


_TASK: Final = BlockSchema(
    {
        "type": make_text(
            "Approval or TimedWait.", required=True, choices=("Approval", "TimedWait")
        ),
        "wait_time": make_text("Duration such as 1h30m (TimedWait)."),
    }
)
_STRATEGY_SPEC: Final = BlockSchema(
    attributes={},
    blocks={
        "stage": make_block_list(
            "The stages in order.",
            BlockSchema(
                {
                    "name": make_text("Name: lower-case letters and digits.", required=True),
                    "sorting_label_key": make_text(
                        "Label with an integer value that orders the clusters."
                    ),
                    "max_concurrency": make_text(
                        "Clusters at a time: a number or percent.", default="1"
                    ),
                },
                {
                    "label_selector": make_block(
                        "The clusters. Empty block: all picked clusters. No block: none.",
                        LABEL_SELECTOR,
                    ),
                    "before_stage_task": make_block_list("Condition before the stage.", _TASK),
                    "after_stage_task": make_block_list("Condition after the stage.", _TASK),
                },
            ),
        )
    },
)


def _read_strategy(attributes: Values, arguments: Values) -> FleetUpdateStrategy:
    """Return the strategy; invalid values count as absent (`_check_strategy` reports them)."""
    stages = tuple(
        Stage(
            name=read_text(block, "name"),
            label_selector=read_label_selector(block.get("label_selector")),
            sorting_label_key=block.get("sorting_label_key"),
            max_concurrency=read_integer_or_percentage(
                block.get("max_concurrency"), IntegerOrPercent(1)
            ),
            before=_read_stage_tasks(get_list(block, "before_stage_task")),
            after=_read_stage_tasks(get_list(block, "after_stage_task")),
        )
        for block in get_list(arguments, "stage")
    )
    namespace = read_text(attributes, "namespace")
    return FleetUpdateStrategy(read_text(attributes, "name"), stages, namespace)


def _read_stage_tasks(blocks: Iterable[Values]) -> tuple[UpdateStageTask, ...]:
    """Return the tasks of a stage; a missing or invalid wait time becomes None."""
    tasks = []
    for block in blocks:
        # An invalid duration gives a message instead of a number.
        seconds = parse_duration(block["wait_time"]) if block.get("wait_time") is not None else None
        tasks.append(
            UpdateStageTask(
                read_text(block, "type"), seconds if isinstance(seconds, float) else None
            )
        )
    return tuple(tasks)


def _check_strategy(strategy: FleetObject, arguments: Values) -> Iterator[Problem]:
    """Yield the problems of a strategy's stages."""
    assert isinstance(strategy, FleetUpdateStrategy)
    errors: list[Problem] = []
    for i, block in enumerate(get_list(arguments, "stage")):
        path = ("stage", i)
        errors += check_integers_or_percentages(block, ("max_concurrency",), path)
        for kind in ("before_stage_task", "after_stage_task"):
            for k, task in enumerate(get_list(block, kind)):
                wait_time = task.get("wait_time")
                seconds_or_error = parse_duration(wait_time) if wait_time is not None else None
                if isinstance(seconds_or_error, str):
                    errors.append(build_error((*path, kind, k, "wait_time"), seconds_or_error))
    yield from errors
    yield from build_violations(
        (not strategy.stages, (), "a staged update strategy needs at least one stage")
    )
    # unreadable values, replaced by defaults in `strategy`.
    reported_paths = {f.path for f in errors}
    yield from (f for f in check_update_stages(strategy.stages) if f.path not in reported_paths)


def _find_weaker_stages(fleet: FleetKind, change: ObjectChange) -> str:
    """Return `loses the approval after stage one`, or "" if no stage loses or weakens a rule."""
    old, new = (
        _read_strategy(values, fleet.read_arguments(values))
        for values in (change.before, change.after)
    )
    new_stages = {stage.name: stage for stage in new.stages}
    lost: list[str] = []
    changes: list[str] = []
    for stage in old.stages:
        new_stage = new_stages.get(stage.name)
        if new_stage is None:
            lost.append(f"stage {stage.name}")
            continue
        for position, tasks, new_tasks in (
            ("before", stage.before, new_stage.before),
            ("after", stage.after, new_stage.after),
        ):
            lost += [
                f"the {_TASK_NOUNS[task.type]} {position} stage {stage.name}"
                for task in tasks
                if not any(_is_kept(task, new_task) for new_task in new_tasks)
            ]
        amount = find_weaker_amount(
            "max_concurrency", stage.max_concurrency, new_stage.max_concurrency
        )
        changes += [f"{amount} in stage {stage.name}"] if amount else []
    lost_text = enclose("loses ", format_list(lost, _MAX_RULES))
    change_text = enclose("changes from ", format_list(changes, _MAX_RULES))
    return join_texts((lost_text, change_text), " and ")


def _is_kept(task: UpdateStageTask, new_task: UpdateStageTask) -> bool:
    """Return whether a task has the same type, and waits no shorter."""
    return task.type == new_task.type and (new_task.wait_seconds or 0) >= (task.wait_seconds or 0)


def build_strategy_type(
    name: str, kind: str, description: str, *, is_namespaced: bool = False
) -> FleetObjectType:
    """Build the resource type of a staged update strategy."""
    fleet = FleetKind(kind, _STRATEGY_SPEC, is_namespaced)
    return build_fleet_type(
        name,
        fleet,
        description,
        read=_read_strategy,
        findings=_check_strategy,
        consequences=ConsequenceTable(
            noun="staged strategy",
            delete=LASTING_LOSS,
            find_weakening=partial(_find_weaker_stages, fleet),
        ),
    )


FLEET_CLUSTER_STAGED_UPDATE_STRATEGY: Final = build_strategy_type(
    "fleet_cluster_staged_update_strategy",
    "ClusterStagedUpdateStrategy",
    "The stages of a staged update run.",
)
FLEET_CLUSTER_STAGED_UPDATE_RUN: Final = build_run_type(
    "fleet_cluster_staged_update_run",
    "ClusterStagedUpdateRun",
    strategy="fleet_cluster_staged_update_strategy",
)
FLEET_STAGED_UPDATE_STRATEGY: Final = build_strategy_type(
    "fleet_staged_update_strategy",
    "StagedUpdateStrategy",
    "The stages of a staged update run of a namespace.",
    is_namespaced=True,
)
FLEET_STAGED_UPDATE_RUN: Final = build_run_type(
    "fleet_staged_update_run",
    "StagedUpdateRun",
    strategy="fleet_staged_update_strategy",
    is_namespaced=True,
)
FLEET_CLUSTER_APPROVAL_REQUEST: Final = build_approval_type(
    "fleet_cluster_approval_request",
    "ClusterApprovalRequest",
    run="fleet_cluster_staged_update_run",
)
FLEET_APPROVAL_REQUEST: Final = build_approval_type(
    "fleet_approval_request", "ApprovalRequest", run="fleet_staged_update_run", is_namespaced=True
)
