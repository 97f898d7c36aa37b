"""Tests of a creation that is resumed after another client made an object of the same name."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("lightkube")
from nexusform.backends.local_file import LocalBackend
from nexusform.domains.hub.providers.creation_marks import is_created_by_step
from nexusform.domains.hub.providers.hub_bodies import HubObject
from nexusform.state.journal import Intent, RunningOperation, encode_journal_record, parse_journal
from tests.domains.hub.hub_controller import Controller
from tests.domains.hub.hub_server import HubServer
from tests.domains.hub.test_fleet_crashes import CREATED, Change, CrashScenario, send_heartbeats

APPLY = ("apply", "-auto-approve", "-parallelism=1")
SETTINGS = "/api/v1/namespaces/web/configmaps/settings"
NAMESPACE = ("", "Namespace", "", "web")
KEY = ("", "ConfigMap", "web", "settings")


@pytest.fixture
def crash_scenario(tmp_path: Path) -> Iterator[CrashScenario]:
    hub = HubServer()
    hub.controller = Controller()
    send_heartbeats(hub)
    crash_scenario = CrashScenario(tmp_path, hub, Change("", CREATED))
    yield crash_scenario
    crash_scenario.runner.end()
    hub.close()


def apply_settings(hub: HubServer, value: str) -> None:
    """Apply the ConfigMap with the field manager of this state, as another state would."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "namespace": "web"},
        "data": {"a": value},
    }
    query = urlencode({"fieldManager": "nexusform", "#type": "apply"})
    target = f"{SETTINGS}?{query}"
    status, answer = hub.answer("PATCH", target, "admin-token", json.dumps(body).encode())
    assert status in (200, 201), answer


def kill_at_creation(scenario: CrashScenario, *, is_sent: bool) -> Path:
    """Kill an apply before the request that creates the ConfigMap, or before its answer."""
    directory = scenario.begin("killed")
    process_file = (directory.parent / "said").with_name("said.pid")

    def kill(method: str, path: str) -> None:
        # Not a dry run for the plan.
        is_apply = "dryRun" not in path and NAMESPACE in scenario.hub.objects
        if method == "PATCH" and path.startswith(SETTINGS) and is_apply:
            os.kill(int(process_file.read_text()), signal.SIGKILL)
            raise ConnectionAbortedError

    if is_sent:
        scenario.hub.carried_out = kill
    else:
        scenario.hub.faults = kill
    code, text = scenario.runner.run(directory, *APPLY)
    scenario.answer_all()
    assert code == -signal.SIGKILL, text
    assert (KEY in scenario.hub.objects) == is_sent
    return directory


def expect_existing_object(scenario: CrashScenario, directory: Path) -> None:
    """Resume, and expect that the ConfigMap is neither written nor recorded."""
    existing = scenario.hub.objects[KEY]
    code, text = scenario.runner.run(directory, "apply", "-resume")
    message = "ConfigMap web/settings already exists on the hub"
    assert (code, message in " ".join(text.split())) == (1, True), text
    assert scenario.hub.objects[KEY] == existing


def test_object_of_another_state_is_not_overwritten(crash_scenario: CrashScenario) -> None:
    directory = kill_at_creation(crash_scenario, is_sent=False)
    apply_settings(crash_scenario.hub, "9")
    expect_existing_object(crash_scenario, directory)


def test_own_object_is_found_without_an_answer(crash_scenario: CrashScenario) -> None:
    directory = kill_at_creation(crash_scenario, is_sent=True)
    crash_scenario.good(directory, "apply", "-resume")
    assert crash_scenario.read_hub() == crash_scenario.result


def test_object_created_again_after_the_answer_is_not_written(
    crash_scenario: CrashScenario,
) -> None:
    """The uid of the answer is recorded, so an equal object of another state is another one."""
    directory = crash_scenario.begin("killed")
    process_file = (directory.parent / "said").with_name("said.pid")

    def kill(method: str, path: str) -> None:
        is_read = method == "GET" and path.startswith(SETTINGS)
        if is_read and KEY in crash_scenario.hub.objects:
            os.kill(int(process_file.read_text()), signal.SIGKILL)
            raise ConnectionAbortedError

    crash_scenario.hub.faults = kill
    code, text = crash_scenario.runner.run(directory, *APPLY)
    crash_scenario.answer_all()
    assert code == -signal.SIGKILL, text
    crash_scenario.hub.remove(crash_scenario.hub.objects[KEY])
    apply_settings(crash_scenario.hub, "1")
    expect_existing_object(crash_scenario, directory)


@pytest.mark.parametrize("command", ["resume", "discard"])
def test_equal_object_of_another_state_is_not_taken_over(
    crash_scenario: CrashScenario, command: str
) -> None:
    """Same content, same field manager, and no answer: only the mark of the creation differs."""
    scenario = crash_scenario
    directory = kill_at_creation(scenario, is_sent=False)
    apply_settings(scenario.hub, "1")
    if command == "resume":
        expect_existing_object(scenario, directory)
        return
    existing = scenario.hub.objects[KEY]
    code, text = scenario.runner.run(directory, "apply", "-discard", "-auto-approve")
    assert code in (0, 2), text
    code, text = scenario.runner.run(directory, "destroy", "-auto-approve")
    assert scenario.hub.objects.get(KEY) == existing, text


def test_equal_namespace_of_another_state_is_not_taken_over(crash_scenario: CrashScenario) -> None:
    """A namespace with nothing but its name has no fields that would name its field manager."""
    scenario = crash_scenario
    directory = scenario.begin("killed")
    process_file = (directory.parent / "said").with_name("said.pid")

    patches: list[str] = []

    def kill(method: str, path: str) -> None:
        if method == "PATCH" and path == "/api/v1/namespaces/web":
            patches.append(path)
            # The first one is a dry run.
            if len(patches) > 1:
                os.kill(int(process_file.read_text()), signal.SIGKILL)
                raise ConnectionAbortedError

    scenario.good(directory, "plan", "-out=p.nfplan")
    scenario.hub.faults = kill
    code, text = scenario.runner.run(directory, *APPLY, "p.nfplan")
    scenario.answer_all()
    assert (code, NAMESPACE in scenario.hub.objects) == (-signal.SIGKILL, False), text
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}}
    scenario.hub.put(body, "nexusform")
    code, text = scenario.runner.run(directory, "apply", "-resume")
    message = "Namespace web already exists on the hub"
    assert (code, message in " ".join(text.split())) == (1, True), text


def test_field_manager_of_a_creation_is_gone_after_it(crash_scenario: CrashScenario) -> None:
    scenario = crash_scenario
    directory = kill_at_creation(scenario, is_sent=True)
    marked = {entry["manager"] for entry in scenario.hub.objects[KEY]["metadata"]["managedFields"]}
    assert len(marked) == 1
    assert marked.pop().startswith("nexusform-creation-")
    scenario.good(directory, "apply", "-resume")
    managers = {
        entry["manager"]
        for body in scenario.hub.objects.values()
        for entry in body["metadata"].get("managedFields", ())
    }
    assert not [name for name in managers if "creation" in name]
    assert "nexusform" in managers


def rewrite_journal(directory: Path, operation: str) -> None:
    """Replace the recorded operation by that of an earlier version."""
    backend = LocalBackend(str(directory / "state" / "nexusform.nfstate"))
    records, problems = parse_journal(list(backend.read_journal()))
    assert not problems
    kept = [record for record in records if not isinstance(record, RunningOperation)]
    number = next(record.number for record in kept if isinstance(record, Intent))
    lines = [encode_journal_record(item) for item in (*kept, RunningOperation(number, operation))]
    (journal,) = (directory / "state").glob("*journal*")
    journal.write_bytes(b"".join(line.rstrip(b"\n") + b"\n" for line in lines))


@pytest.mark.parametrize("is_answered", [False, True], ids=["request", "answer"])
def test_creation_of_an_earlier_version_names_the_way_out(
    crash_scenario: CrashScenario, *, is_answered: bool
) -> None:
    """It had no field manager of its own. Its journal has the uid of the last object at most."""
    scenario = crash_scenario
    directory = kill_at_creation(scenario, is_sent=False)
    apply_settings(scenario.hub, "1")
    uid = scenario.hub.objects[KEY]["metadata"]["uid"]
    title = "ConfigMap web/settings"
    rewrite_journal(directory, f"created {title} {uid}" if is_answered else f"apply {title}")
    code, text = scenario.runner.run(directory, "apply", "-resume")
    hint = "nexusform apply -discard`, and import the object."
    assert (code, hint in " ".join(text.replace("│", " ").split())) == (1, True), text


@pytest.mark.parametrize(
    ("operation", "is_created"),
    [
        ("created ConfigMap web/settings u", True),
        ("created ConfigMap web/settings v", False),
        ("apply ConfigMap web/settings", False),
        ("created Namespace web u", False),
        ("", False),
        (None, False),
    ],
)
def test_uid_in_a_journal_of_an_earlier_version_counts(
    operation: str | None, *, is_created: bool
) -> None:
    metadata = {"name": "settings", "namespace": "web"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    existing = {**body, "metadata": {**metadata, "uid": "u"}}
    hub_object = HubObject(body, SETTINGS)
    assert is_created_by_step(operation, "creation", hub_object, existing) is is_created
