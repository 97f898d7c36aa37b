"""Tests of saved plans: equal plans give equal bytes, and every plan round-trips.

Invalid files are rejected.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from nexusform.diagnostics.diagnostic import Diagnostic, Position, Severity, Span, ValueNote
from nexusform.domain_table import find_domains
from nexusform.json_data.plain_data import convert_number
from nexusform.placements.vm_demands import PlacedVm
from nexusform.plans.plan import (
    PLAN_PARTS,
    Action,
    Change,
    CheckResult,
    Drift,
    Mode,
    ObjectLocation,
    OutputChange,
    PlacementAction,
    PlacementChange,
    PlacementTable,
    Plan,
    PlanStart,
    Step,
    StepKind,
    VariableValue,
)
from nexusform.plans.saved import plan_file
from nexusform.plans.saved.plan_file import compute_digest, read_plan_file, write_plan_file
from nexusform.plans.site_capacity.occupancy import (
    PoolVms,
    SiteMachine,
    SiteRack,
    SiteSkuCapacity,
    SiteVms,
    SpareCapacity,
    UnmanagedVm,
)
from nexusform.resources.address import Address, ModulePathStep
from nexusform.scheduling.placement_decision import PlacementCertainty, Rejection
from nexusform.scheduling.racks.vms import Machine, Placement, VmSku
from nexusform.schemas.value_types import (
    BOOL,
    DYNAMIC,
    NUMBER,
    STRING,
    ListType,
    MapType,
    ObjectType,
    SetType,
    TupleType,
)
from nexusform.state.objects import ObjectState, OutputState
from nexusform.values.typed_value import UNKNOWN, Refinement, round_number
from tests.kill_points import scale_count

# --- random plans ----------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(
    ["&?", "&0", "&:0", "&&1"]
)
names = st.from_regex(r"[a-z][a-z0-9_]{0,4}", fullmatch=True)
counts = st.integers(0, 50)
keys = st.none() | counts | texts
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.just(UNKNOWN),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=5,
)
objects = st.dictionaries(texts, plain, max_size=3)
types = st.recursive(
    st.sampled_from([STRING, NUMBER, BOOL, DYNAMIC]),
    lambda inner: st.one_of(
        inner.map(ListType),
        inner.map(SetType),
        inner.map(MapType),
        st.lists(inner, max_size=2).map(lambda parts: TupleType(tuple(parts))),
        st.dictionaries(names, inner, max_size=2).map(
            lambda parts: ObjectType.create(parts, optional=list(parts)[:1])
        ),
    ),
    max_leaves=4,
)
addresses = st.builds(
    Address,
    st.lists(st.builds(ModulePathStep, names, keys), max_size=2).map(tuple),
    st.sampled_from(["managed", "data"]),
    names,
    names,
    keys,
)
spans = st.builds(Span, texts, *[st.builds(Position, counts, counts, counts)] * 2)
paths = st.lists(texts | counts, max_size=3).map(tuple)


def round_fraction(number: Fraction) -> int | float | Fraction:
    return convert_number(round_number(number.numerator, number.denominator))


def build_short_tuples(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(strategy, max_size=2).map(tuple)


bounds = st.none() | st.integers() | st.fractions(max_denominator=2**20).map(round_fraction)
refined = build_short_tuples(
    st.tuples(
        paths,
        st.builds(
            Refinement,
            not_null=st.booleans(),
            prefix=texts,
            lowest=bounds,
            highest=bounds,
            shortest=counts,
            longest=st.none() | counts,
        ),
    )
)
diagnostics = st.builds(
    Diagnostic,
    severity=st.sampled_from(Severity),
    summary=texts,
    detail=texts,
    subject=st.none() | spans,
    context=st.none() | spans,
    address=texts,
    block=texts,
    id=texts,
    values=build_short_tuples(st.builds(ValueNote, texts, texts)),
    function=texts,
    extra=objects,
)
object_states = st.builds(
    ObjectState,
    attributes=objects,
    creation=counts,
    sensitive=build_short_tuples(paths),
    dependencies=build_short_tuples(texts),
    tainted=st.booleans(),
    create_before_destroy=st.booleans(),
    provider=texts,
    schema_version=counts,
    private=st.none() | objects,
)
changes = st.builds(
    Change,
    address=addresses,
    action=st.sampled_from(Action),
    before=st.none() | objects,
    after=st.none() | objects,
    provider=texts,
    creation=counts,
    prior_creation=counts,
    sensitive_before=build_short_tuples(paths),
    sensitive_after=build_short_tuples(paths),
    refined_after=refined,
    replace_paths=build_short_tuples(paths),
    reason=texts,
    previous_address=st.none() | addresses,
    importing=texts,
    deposed=texts,
    dependencies=build_short_tuples(texts),
    create_before_destroy=st.booleans(),
    tainted_before=st.booleans(),
    private=st.none() | objects,
    source=st.none() | spans,
    block=texts,
)
steps = st.builds(
    Step,
    id=counts,
    kind=st.sampled_from(StepKind),
    change=counts,
    waits_for=build_short_tuples(counts),
    prior=st.none() | objects,
    planned=st.none() | objects,
)
vm_locations = st.builds(Placement, texts, texts, texts, st.lists(counts, max_size=2).map(tuple))


def location_strategies() -> Iterator[st.SearchStrategy[ObjectLocation]]:
    """Yield strategies for the locations of the installed domains."""
    if "fleet" in find_domains():
        from nexusform.domains.fleet.scheduling.bindings import Binding, BindingState

        states = st.sampled_from(BindingState)
        yield st.builds(Binding, texts, states, counts, previous_state=st.none() | states)
    if "pods" in find_domains():
        from nexusform.domains.pods.pod_kind import PodLocation

        yield st.builds(PodLocation, texts, *[st.none() | texts] * 3)


locations = st.one_of(st.none(), vm_locations, *location_strategies())
placements = st.builds(
    PlacementChange,
    address=addresses,
    kind=texts,
    object=texts,
    action=st.sampled_from(PlacementAction),
    source=locations,
    target=locations,
    trigger=texts,
    cluster=texts,
    number=counts | texts,
    scores=objects,
    certainty=st.none() | st.builds(PlacementCertainty, st.floats(0, 1), st.floats(0, 1)),
    rejections=build_short_tuples(st.builds(Rejection, texts, texts, texts)),
)
tables = st.builds(
    PlacementTable,
    address=addresses,
    site_id=texts,
    cluster=texts,
    pool=texts,
    vm_sku_name=texts,
    total_count=counts,
    expected_racks=counts,
    actual_racks=counts,
    expected_vms_per_rack=st.tuples(counts, counts),
    actual_vms_per_rack=st.dictionaries(texts, counts, max_size=2),
    certain_racks=build_short_tuples(texts),
    minimum_remaining_on_rack=st.none() | counts,
)
vms = build_short_tuples(st.builds(PlacedVm, texts, counts | texts, texts, texts, vm_locations))
skus = st.builds(VmSku, texts, counts, counts, counts, counts)
sites = st.builds(
    SiteVms,
    texts,
    texts,
    build_short_tuples(st.builds(SiteRack, texts, texts, st.booleans())),
    build_short_tuples(
        st.builds(
            SiteMachine, st.builds(Machine, *[texts] * 3, counts, st.none() | texts, *[counts] * 4)
        )
    ),
    build_short_tuples(st.builds(PoolVms, addresses, texts, texts, skus, vms, vms, vms)),
    build_short_tuples(st.builds(UnmanagedVm, texts, skus, vm_locations)),
)
capacities = st.none() | st.builds(
    SpareCapacity, counts, counts, texts, build_short_tuples(texts), build_short_tuples(texts)
)


def build_plan_of_fields(fields: dict[str, Any]) -> Plan:
    """Build a plan from the fields of its parts side by side."""
    fields = dict(fields)
    parts = {
        part: kind(**{name: fields.pop(name) for name in kind.__struct_fields__ if name in fields})
        for part, kind in PLAN_PARTS.items()
    }
    return Plan(**fields, **parts)


plans = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(Mode),
        "changes": build_short_tuples(changes),
        "steps": build_short_tuples(steps),
        "drift": build_short_tuples(
            st.builds(
                Drift,
                addresses,
                objects,
                st.none() | objects,
                build_short_tuples(paths),
                st.booleans(),
            )
        ),
        "outputs": build_short_tuples(
            st.builds(
                OutputChange, texts, st.sampled_from(Action), plain, plain, types, st.booleans()
            )
        ),
        "planned_outputs": st.dictionaries(
            texts, st.builds(OutputState, plain, types, st.booleans()), max_size=2
        ),
        "placements": build_short_tuples(placements),
        "placement_tables": build_short_tuples(tables),
        "unchanged_count": counts,
        "samples": counts,
        "diagnostics": build_short_tuples(diagnostics),
        "refined_outputs": st.dictionaries(texts, refined, max_size=2),
        "checks": build_short_tuples(
            st.builds(CheckResult, texts, texts, texts, build_short_tuples(texts))
        ),
        "variables": st.dictionaries(
            texts, st.builds(VariableValue, plain, types, st.booleans(), st.booleans()), max_size=2
        ),
        "refreshed_objects": st.dictionaries(addresses, st.none() | object_states, max_size=2),
        "lineage": texts,
        "serial": counts,
        "workspace": texts,
        "targets": build_short_tuples(texts),
        "errored": st.booleans(),
        "sites": build_short_tuples(sites),
        "capacity": build_short_tuples(
            st.builds(SiteSkuCapacity, texts, texts, texts, counts, capacities, capacities)
        ),
        "address_moves": build_short_tuples(st.tuples(addresses, addresses)),
    },
).map(build_plan_of_fields)


@given(plans, st.dictionaries(texts, texts, max_size=2), st.dictionaries(texts, plain, max_size=2))
@settings(max_examples=scale_count(300), deadline=None)
def test_plan_file_round_trips(
    plan: Plan, snapshot: Mapping[str, str], prior: Mapping[str, Any]
) -> None:
    data = write_plan_file(plan, snapshot, prior)
    saved, problems = read_plan_file(data)
    assert problems == []
    assert saved is not None
    assert saved.plan == plan
    assert list(saved.plan.root_values.variables) == list(plan.root_values.variables)
    assert (dict(saved.configuration_files), saved.prior_state, saved.digest) == (
        snapshot,
        prior,
        compute_digest(data),
    )
    assert write_plan_file(saved.plan, saved.configuration_files, saved.prior_state) == data


# --- one plan ----------------------------------------------------------------------------------

RACK = Address((), "managed", "nexus_rack", "r", 0)
PLAN = Plan(
    changes=(
        Change(
            RACK, Action.CREATE, None, {"id": UNKNOWN, "tags": {"a": [UNKNOWN]}}, "simulated", 1, 0
        ),
    ),
    steps=(Step(0, StepKind.CREATE, 0, (), None, {"id": UNKNOWN}),),
    start=PlanStart(serial=3, nexusform_version="0.1.0"),
)
DATA = write_plan_file(PLAN, {"main.tf": "x"}, {"resources": []})


def reject(data: bytes, **options: str) -> Diagnostic:
    saved, problems = read_plan_file(data, "p.nfplan", **options)
    assert saved is None
    (problem,) = problems
    assert problem.severity is Severity.ERROR
    assert problem.detail.startswith("p.nfplan ")
    return problem


def replace_manifest(**changes: Any) -> bytes:
    members = plan_file.unpack_archive(DATA)
    assert members is not None
    manifest = json.loads(members["nexusform.json"]) | changes
    return plan_file.pack_archive(members | {"nexusform.json": json.dumps(manifest).encode()})


def replace_member(name: str, content: bytes) -> bytes:
    """Return the file with one member and its digest replaced."""
    members = plan_file.unpack_archive(DATA)
    assert members is not None
    manifest = json.loads(members["nexusform.json"])
    manifest["members"][name] = compute_digest(content)
    return plan_file.pack_archive(
        members | {name: content, "nexusform.json": json.dumps(manifest).encode()}
    )


def test_unknown_is_read_as_the_same_object() -> None:
    saved, _ = read_plan_file(DATA)
    assert saved is not None
    after = saved.plan.changes[0].after
    assert after is not None
    assert after["id"] is UNKNOWN
    assert after["tags"]["a"][0] is UNKNOWN


def test_plan_file_is_a_readable_zip_archive() -> None:
    with zipfile.ZipFile(io.BytesIO(DATA)) as archive:
        assert archive.testzip() is None
        assert archive.namelist()[0] == "nexusform.json"
        assert json.loads(archive.read("configuration.json")) == {"main.tf": "x"}
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert json.loads(archive.read("plan.json"))["serial"] == 3


def test_order_of_snapshot_does_not_matter() -> None:
    assert write_plan_file(PLAN, {"a": "1", "b": "2"}) == write_plan_file(
        PLAN, {"b": "2", "a": "1"}
    )


def test_every_changed_byte_is_detected() -> None:
    for at in range(len(DATA)):
        reject(DATA[:at] + bytes([DATA[at] ^ 1]) + DATA[at + 1 :])


def test_every_truncation_is_detected() -> None:
    for length in range(0, len(DATA), 7):
        reject(DATA[:length])


@given(st.data())
@settings(max_examples=scale_count(300), deadline=None)
def test_inserted_or_removed_bytes_are_detected(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(DATA)))
    end = data.draw(st.integers(start, min(start + 4, len(DATA))))
    changed = DATA[:start] + data.draw(st.binary(max_size=4)) + DATA[end:]
    if changed != DATA:
        reject(changed)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"version": 4}', b"\0" * 100])
def test_file_of_another_kind_is_reported(data: bytes) -> None:
    assert reject(data).summary == "Not a plan file"


def build_zip(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return target.getvalue()


def test_terraform_plan_is_recognized() -> None:
    problem = reject(build_zip(("tfplan", b"x"), ("tfstate", b"y")))
    assert problem.summary == "Not a plan file"
    assert "Terraform or OpenTofu" in problem.detail


def test_zip_bomb_is_rejected_without_extraction() -> None:
    bomb = build_zip(("nexusform.json", b" " * 50_000_000), method=zipfile.ZIP_DEFLATED)
    assert reject(bomb).summary == "Damaged plan file"


def test_rewritten_archive_is_rejected() -> None:
    with zipfile.ZipFile(io.BytesIO(DATA)) as archive:
        again = build_zip(*[(name, archive.read(name)) for name in archive.namelist()])
    assert reject(again).summary == "Damaged plan file"


@pytest.mark.parametrize("extra", ["surplus.json", "nexusform.json"])
def test_additional_member_is_rejected(extra: str) -> None:
    members = plan_file.unpack_archive(DATA)
    assert members is not None
    assert (
        reject(plan_file.pack_archive(members | {"surplus.json": b"{}"})).summary
        == "Damaged plan file"
    )
    assert reject(plan_file.pack_archive({k: v for k, v in members.items() if k != "steps.json"}))
    assert extra


def test_member_with_wrong_digest_is_rejected() -> None:
    members = plan_file.unpack_archive(DATA)
    assert members is not None
    problem = reject(plan_file.pack_archive(members | {"configuration.json": b"{}"}))
    assert '"configuration.json" was changed after it was saved' in problem.detail


def test_plan_of_newer_nexusform_is_rejected() -> None:
    problem = reject(replace_manifest(nexusform_version="1.10.0"), own_version="1.9.4")
    assert problem.summary == "Newer plan format"
    assert "1.10.0" in problem.detail
    assert "1.9.4" in problem.detail


def test_plan_of_older_nexusform_is_read() -> None:
    assert (
        read_plan_file(replace_manifest(nexusform_version="0.1.0"), own_version="0.2.0")[0]
        is not None
    )
    assert (
        read_plan_file(replace_manifest(nexusform_version="0.2.0rc1"), own_version="0.2.0")[0]
        is not None
    )


def test_newer_format_is_rejected() -> None:
    assert reject(replace_manifest(version=2)).summary == "Newer plan format"


def test_plan_of_development_version_is_rejected() -> None:
    problem = reject(replace_manifest(format="nexusform-plan", version=4))
    assert problem.id == "development-version-file"
    assert "was written by a development version of nexusform; run plan again." in problem.detail


@pytest.mark.parametrize(
    "changes",
    [
        {"format": "x"},
        {"kind": "state"},
        {"version": 0},
        {"version": "1"},
        {"version": None},
        {"nexusform_version": 1},
        {"members": []},
        {"mark": 3},
        {"mark": ""},
    ],
)
def test_invalid_manifest_is_rejected(changes: dict[str, Any]) -> None:
    assert reject(replace_manifest(**changes)).summary == "Damaged plan file"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("plan.json", b"[]", "not an object"),
        ("plan.json", b"{", "not JSON"),
        ("plan.json", b'{"mode": "strange"}', "mode: one of normal"),
        ("plan.json", b'{"serial": true}', "serial: int expected"),
        ("plan.json", b'{"strange": 1}', '"strange" is not known'),
        ("changes.json", b"{}", "changes: a list or a table expected"),
        ("changes.json", b"[1]", "changes[0]: an object expected"),
        ("changes.json", b"[{}]", 'changes[0]: "action" is missing'),
        ("plan.json", b'{"address_moves": [["a.b"]]}', "address_moves[0]: a list of 2 expected"),
        (
            "plan.json",
            b'{"address_moves": [["a.b", "c"]]}',
            "address_moves[0][1]: an address expected",
        ),
        (
            "plan.json",
            b'{"variables": {"v": {"value": 1, "type": ["object", {}, 5]}}}',
            "type: a type expected",
        ),
        ("configuration.json", b'{"main.tf": 1}', "does not contain files"),
    ],
)
def test_invalid_parts_are_rejected_with_their_path(
    name: str, content: bytes, message: str
) -> None:
    problem = reject(replace_member(name, content))
    assert problem.summary == "Damaged plan file"
    assert message in problem.detail


def test_missing_field_has_its_default() -> None:
    saved, _ = read_plan_file(replace_member("plan.json", b'{"serial": 4}'))
    assert saved is not None
    assert saved.plan == replace(PLAN, start=replace(PLAN.start, serial=4, nexusform_version=""))


def test_large_numbers_and_deep_values_round_trip() -> None:
    deep: Any = UNKNOWN
    for _ in range(300):
        deep = [deep]
    plan = replace(
        PLAN,
        root_values=replace(
            PLAN.root_values, variables={"v": VariableValue([2**100, deep], DYNAMIC)}
        ),
    )
    saved, problems = read_plan_file(write_plan_file(plan, {}))
    assert problems == []
    assert saved is not None
    assert saved.plan == plan


def test_writing_does_not_change_the_plan() -> None:
    plan = replace(PLAN, figures=replace(PLAN.figures, unchanged_count=1))
    write_plan_file(plan, {})
    assert plan == replace(PLAN, figures=replace(PLAN.figures, unchanged_count=1))
