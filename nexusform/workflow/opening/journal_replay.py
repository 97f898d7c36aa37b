"""Replay of the journal of an apply onto its state."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, build_error, has_errors
from nexusform.json_data.plain_data import format_path
from nexusform.schemas.block_schema import BlockSchema
from nexusform.state import journal
from nexusform.state.attribute_validation import (
    validate_attributes,
    validate_private_data,
    validate_schema_version,
)
from nexusform.state.earlier_keys import rename_earlier_keys
from nexusform.state.journal import ApplyProgress, InstanceOutcome, PlanPart, Record
from nexusform.state.objects import State
from nexusform.state.state_draft import StateDraft, build_draft


def replay_journal(
    state: State, lines: Sequence[bytes], name: str, types: Mapping[str, BlockSchema]
) -> tuple[StateDraft | None, list[Record], list[Diagnostic]]:
    """Apply the journal `name` to a state.

    Return the new state (None with errors), and the records changing it.
    """
    records, problems = journal.parse_journal(lines, f"the {name}")
    if has_errors(problems):
        return None, [], problems
    records = [_rename_keys_of_record(record, types) for record in records]
    draft = build_draft(state, records)
    problems += _validate_replayed_attributes(draft.build_state(), types, f"The {name}")
    # A plan and the progress of its steps belong to an unfinished apply and leave the state
    # as it is.
    changes: list[Record] = [
        record for record in records if not isinstance(record, PlanPart | ApplyProgress)
    ]
    return (None if has_errors(problems) else draft), changes, problems


def _rename_keys_of_record(record: Record, types: Mapping[str, BlockSchema]) -> Record:
    """Return a record in which objects have the present names of their keys."""
    if isinstance(record, InstanceOutcome) and record.instance is not None:
        current = record.instance.current
        schema = types.get(record.address.type)
        if current is not None and schema is not None:
            instance = replace(record.instance, current=rename_earlier_keys(schema, current))
            return replace(record, instance=instance)
    return record


def _validate_replayed_attributes(
    state: State, known: Mapping[str, BlockSchema], name: str
) -> list[Diagnostic]:
    """Return errors for replayed attributes outside of their schema.

    Resource types not in `known` are skipped.
    """
    diagnostics: list[Diagnostic] = []
    for address, current in state.list_current_objects():
        if address.type not in known:
            continue
        newer = validate_schema_version(current.schema_version)
        if newer:
            detail = f"{name}, {address}: {newer[0].detail} Use a newer nexusform."
            diagnostics.append(build_error(newer[0].id, detail))
            continue
        for misfit in (
            *validate_attributes(known[address.type], current.attributes),
            *validate_private_data(known[address.type], current.private),
        ):
            detail = f"{name}, {address}: {format_path(misfit.path)}: {misfit.detail}"
            diagnostics.append(build_error(misfit.id, detail))
    return diagnostics
