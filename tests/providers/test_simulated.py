from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from nexusform.interfaces.plugins import ChangeRequest, ObjectKey, ProviderProblem, ReadRequest
from nexusform.providers.simulated import SimulatedProvider, make_provider, parse_delay, parse_path
from nexusform.values.typed_value import UNKNOWN


def build_key(number: int = 1, name: str = "a") -> ObjectKey:
    return ObjectKey("nexus_kubernetes_cluster", f"lab/{name}", number)


def build_create_request(number: int = 1, name: str = "a", **attributes: Any) -> ChangeRequest:
    planned = {"id": f"lab/{name}", **attributes}
    return ChangeRequest(build_key(number, name), f"nexus_kubernetes_cluster.{name}", None, planned)


def build_provider(directory: Path, **settings: Any) -> SimulatedProvider:
    return make_provider(settings, str(directory), ExitStack())


def read_rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())


def test_reality_file_is_created_and_sorted(tmp_path: Path) -> None:
    site = build_provider(tmp_path, reality="site.json")
    site.create(build_create_request(2, "b"))
    site.create(build_create_request(1, "a", count=3))
    assert [(r["type"], r["id"], r["creation"]) for r in read_rows(tmp_path / "site.json")] == [
        ("nexus_kubernetes_cluster", "lab/a", 1),
        ("nexus_kubernetes_cluster", "lab/b", 2),
    ]
    assert read_rows(tmp_path / "site.json")[0]["attributes"] == {"id": "lab/a", "count": 3}


def test_edited_reality_file_is_read(tmp_path: Path) -> None:
    build_provider(tmp_path, reality="site.json").create(build_create_request(count=3))
    edited = read_rows(tmp_path / "site.json")
    edited[0]["attributes"]["count"] = 5
    (tmp_path / "site.json").write_text(json.dumps(edited))
    (answer,) = build_provider(tmp_path, reality="site.json").read(
        [ReadRequest(build_key(), {"count": 3})]
    )
    assert answer.attributes == {"id": "lab/a", "count": 5}


def test_update_keeps_unrelated_changes(tmp_path: Path) -> None:
    site = build_provider(tmp_path, reality="site.json")
    site.create(build_create_request(count=3, place="m1"))
    edited = read_rows(tmp_path / "site.json")
    edited[0]["attributes"]["place"] = "m7"
    (tmp_path / "site.json").write_text(json.dumps(edited))
    prior = {"id": "lab/a", "count": 3, "place": "m1"}
    request = ChangeRequest(build_key(), "nexus_kubernetes_cluster.a", prior, {**prior, "count": 4})
    answer = build_provider(tmp_path, reality="site.json").update(request)
    assert answer.attributes == {"id": "lab/a", "count": 4, "place": "m7"}
    assert answer.observed_paths == (("place",),)


def test_delete_fails_if_the_object_changed_since_the_plan(tmp_path: Path) -> None:
    site = build_provider(tmp_path, reality="site.json")
    site.create(build_create_request(count=7))
    address = "nexus_kubernetes_cluster.a"
    request = ChangeRequest(build_key(), address, {"id": "lab/a", "count": 3}, None)
    words = "count of nexus_kubernetes_cluster lab/a changed since the plan: it is 7 there, and 3"
    with pytest.raises(ProviderProblem, match=words):
        site.delete(request)
    with pytest.raises(ProviderProblem, match=r"changed since the plan\. The object was not"):
        site.delete(replace(request, is_sensitive=True))
    assert read_rows(tmp_path / "site.json")
    # A plan that reads an answer of a fault shows this value.
    fault = {"address": "*", "operation": "read", "answer": {"count": 3}}
    build_provider(tmp_path, reality="site.json", fault=[fault]).delete(request)
    assert read_rows(tmp_path / "site.json") == []
    # An earlier run removed a part.
    site = build_provider(tmp_path, reality="site.json")
    site.create(build_create_request(count=2))
    site.delete(replace(request, resumed_operation=""))
    assert read_rows(tmp_path / "site.json") == []


def test_update_fails_if_its_value_changed_since_the_plan(tmp_path: Path) -> None:
    site = build_provider(tmp_path, reality="site.json")
    site.create(build_create_request(count=7))
    prior = {"id": "lab/a", "count": 3}
    request = ChangeRequest(build_key(), "nexus_kubernetes_cluster.a", prior, {**prior, "count": 4})
    words = "count of nexus_kubernetes_cluster lab/a changed since the plan: it is 7 there, and 3"
    with pytest.raises(ProviderProblem, match=words):
        site.update(request)
    with pytest.raises(ProviderProblem, match=r"changed since the plan\. The object was not"):
        site.update(replace(request, is_sensitive=True))
    assert read_rows(tmp_path / "site.json")[0]["attributes"]["count"] == 7
    # An interrupted run has changed it already.
    assert site.update(replace(request, planned={**prior, "count": 7})).attributes["count"] == 7
    assert site.update(replace(request, resumed_operation="")).attributes["count"] == 4


def test_provider_without_reality_observes_nothing(tmp_path: Path) -> None:
    assert build_provider(tmp_path).create(build_create_request(count=1)).observed_paths == ()
    assert not build_provider(tmp_path).observes_objects
    assert build_provider(tmp_path, reality="r.json").observes_objects


def test_import_finds_the_only_object(tmp_path: Path) -> None:
    site = build_provider(tmp_path, reality="site.json")
    site.create(build_create_request(4, "a"))
    found = site.find("nexus_kubernetes_cluster", "lab/a")
    assert found is not None
    assert found[0] == build_key(4)
    with pytest.raises(ProviderProblem, match="lab/a already exists"):
        site.create(build_create_request(5, "a"))
    # A replacement is created before the deletion of the former object.
    site.set_state_objects((), [("nexus_kubernetes_cluster", "lab/a")])
    site.create(build_create_request(5, "a"))
    assert site.find("nexus_kubernetes_cluster", "lab/a") is None
    assert build_provider(tmp_path).find("nexus_kubernetes_cluster", "lab/a") is None


def test_effects_are_durable_before_the_answer_and_merged_at_exit(tmp_path: Path) -> None:
    leaving = ExitStack()
    site = make_provider({"reality": "site.json"}, str(tmp_path), leaving)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: site.create(build_create_request(n, f"c{n:04}")), range(1, 601)))
    # A new process, as after a kill, sees all of them.
    (tmp_path / "copy").mkdir()
    for file in tmp_path.glob("site.json*"):
        (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    with (tmp_path / "copy" / "site.json.pending").open("ab") as torn:
        torn.write(b'["nexus_rack","half')
    after_kill = build_provider(tmp_path / "copy", reality="site.json")
    answers = after_kill.read([ReadRequest(build_key(n, f"c{n:04}"), {}) for n in range(1, 601)])
    assert all(a.attributes is not None for a in answers)
    assert (tmp_path / "copy" / "site.json.pending").exists(), "who only reads writes nothing"
    after_kill.create(build_create_request(601, "c0601"))
    assert len(read_rows(tmp_path / "copy" / "site.json")) == 601
    assert not (tmp_path / "copy" / "site.json.pending").exists()

    leaving.close()
    assert len(read_rows(tmp_path / "site.json")) == 600
    assert not (tmp_path / "site.json.pending").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "is not JSON: line 1"),
        ("{}", "must be a list"),
        ('[{"type": "t"}]', "entry 0 must be an object with type and id"),
        ('[{"type":"t","id":"i","creation":"1","attributes":{}}]', "entry 0 must be"),
        (
            '[{"type":"t","id":"i","attributes":{}},{"type":"t","id":"i","attributes":{}}]',
            "entry 1 repeats",
        ),
    ],
)
def test_invalid_reality_file_is_reported(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "site.json").write_text(content)
    with pytest.raises(ProviderProblem, match=r"site\.json") as caught:
        build_provider(tmp_path, reality="site.json").create(build_create_request())
    assert told in str(caught.value)
    assert (tmp_path / "site.json").read_text() == content


def test_pipe_is_rejected_as_reality_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "site.json")
    with pytest.raises(ProviderProblem, match="not a regular file"):
        build_provider(tmp_path, reality="site.json").create(build_create_request())


def build_fault(**more: Any) -> dict[str, Any]:
    return {"address": "nexus_kubernetes_cluster.*", "operation": "create", **more}


def test_fault_occurs_the_configured_number_of_times(tmp_path: Path) -> None:
    site = build_provider(tmp_path, fault=[build_fault(error="quota", times=2)])
    for _ in range(2):
        with pytest.raises(ProviderProblem, match="quota"):
            site.create(build_create_request())
    assert site.create(build_create_request()).attributes == {"id": "lab/a"}
    always = build_provider(tmp_path, fault=[build_fault(error="quota", times=0)])
    for _ in range(5):
        with pytest.raises(ProviderProblem, match="quota"):
            always.create(build_create_request())


def test_fault_of_another_address_or_operation_has_no_effect(tmp_path: Path) -> None:
    elsewhere = build_fault(error="x") | {"address": "nexus_kubernetes_cluster.b*"}
    site = build_provider(tmp_path, fault=[elsewhere, build_fault(error="x", operation="delete")])
    assert site.create(build_create_request()).attributes == {"id": "lab/a"}


def test_brackets_in_fault_address_are_literal(tmp_path: Path) -> None:
    site = build_provider(
        tmp_path, fault=[build_fault(error="hit") | {"address": 'nexus_rack.r["a*"]'}]
    )
    with pytest.raises(ProviderProblem, match="hit"):
        site.create(ChangeRequest(build_key(), 'nexus_rack.r["a1"]', None, {}))


def test_fault_after_effect_keeps_the_object(tmp_path: Path) -> None:
    site = build_provider(
        tmp_path, reality="site.json", fault=[build_fault(error="cut off", after_effect=True)]
    )
    with pytest.raises(ProviderProblem, match="cut off") as caught:
        site.create(build_create_request(count=2))
    assert caught.value.object_exists
    assert caught.value.attributes == {"id": "lab/a", "count": 2}
    assert len(read_rows(tmp_path / "site.json")) == 1


def test_delay_waits_and_answer_overrides_attributes(tmp_path: Path) -> None:
    waited: list[float] = []
    answer = {'nodes["a-0"].machine': "m9"}
    made = build_provider(tmp_path, fault=[build_fault(delay="2s", answer=answer)])
    site = SimulatedProvider(None, made._faults, waited.append)
    given = site.create(build_create_request(nodes={"a-0": {"machine": "m1", "rack": "r1"}}))
    assert waited == [2.0]
    assert given.attributes["nodes"] == {"a-0": {"machine": "m9", "rack": "r1"}}
    assert given.observed_paths == (("nodes", "a-0", "machine"),)


def test_read_fault_simulates_drift_without_reality_file(tmp_path: Path) -> None:
    site = build_provider(
        tmp_path, fault=[build_fault(operation="read", answer={"count": 9}, times=0)]
    )
    assert site.observes_objects
    request = ReadRequest(build_key(), {"count": 3}, "nexus_kubernetes_cluster.a")
    (answer,) = site.read([request])
    assert answer.attributes == {"count": 9}


def test_unknown_parts_become_null(tmp_path: Path) -> None:
    assert (
        build_provider(tmp_path).create(build_create_request(note=UNKNOWN)).attributes["note"]
        is None
    )


def test_durations_and_paths_are_parsed() -> None:
    assert [parse_delay(t) for t in ("2s", "300ms", "1.5m", "4")] == [2.0, 0.3, 90.0, 4.0]
    assert parse_path('a.b["c d"][2].e') == ("a", "b", "c d", 2, "e")
    with pytest.raises(ProviderProblem, match="not a duration"):
        parse_delay("soon")
    with pytest.raises(ProviderProblem, match="not an attribute path"):
        parse_path("a..b")
    with pytest.raises(ProviderProblem, match="answer must be an object"):
        make_provider({"fault": [build_fault() | {"answer": "text"}]}, ".", ExitStack())
