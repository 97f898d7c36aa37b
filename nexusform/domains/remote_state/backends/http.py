"""State behind Terraform's HTTP protocol: GitLab's state store and every server written for Terraform.

GET and POST the document, LOCK and UNLOCK with the holder's information as the body; every method can be
another one (GitLab: POST and DELETE at `.../lock`). The protocol knows neither a journal nor a lock that runs
out. So the journal lies on this machine, the state is sent at most every 20 s while an apply runs, and what a
machine lost between two of these is lost; and who holds the lock of a dead run must break it by hand.

`{workspace}` in the address stands for the workspace's name; without it there is the default workspace only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends import locks, refusals
from nexusform.backends.deadlines import still_wanted
from nexusform.backends.refusals import DEFAULT, check_deletable, check_name
from nexusform.backends.state_files import JournalFile
from nexusform.domains.remote_state.backends.http_client import (
    SCHEMES,
    WebAnswer,
    WebProblem,
    WebRequest,
    ask,
)
from nexusform.regular_files import TooLarge
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo

_PLACE: Final = "{workspace}"
_INDEX: Final = "nexusform-workspaces"  # the document that lists workspaces, kept like one of them
_TAKEN: Final = frozenset({409, 423})
_GONE: Final = frozenset({204, 404})
_AGAIN: Final = frozenset({429, 500, 502, 503, 504})
_CHECK_SECONDS: Final = 10.0  # between two looks whether the lock is still held
_JUST_NOW: Final = 1.0
_CHECKPOINT_SECONDS: Final = 20.0  # between two documents while an apply runs


class HttpService(Struct, frozen=True):
    """Addresses, methods and credentials; a lock address of "" means that the server locks nothing."""

    address: str
    update_method: str = "POST"
    lock_address: str = ""
    lock_method: str = "LOCK"
    unlock_address: str = ""
    unlock_method: str = "UNLOCK"
    username: str = ""
    password: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    verify: bool = True
    tries: int = 3
    pause: float = 1.0  # seconds before the second try, doubled before each further one
    largest: int = refusals.LARGEST  # bytes of an answer that is read

    def at(self, workspace: str) -> HttpService:
        """The same service with the workspace's name in its addresses."""
        name = urllib.parse.quote(workspace, safe="")
        return replace(
            self,
            address=self.address.replace(_PLACE, name),
            lock_address=self.lock_address.replace(_PLACE, name),
            unlock_address=self.unlock_address.replace(_PLACE, name),
        )


class HttpBackend:
    """The state of one workspace behind an address; see the module."""

    def __init__(self, service: HttpService, journal_directory: str, workspace: str = DEFAULT) -> None:
        check_name(workspace)
        self._service = service
        self._journal_directory = journal_directory
        self._workspace = workspace
        self._here = service.at(workspace)
        digest = hashlib.sha256(self._here.address.encode()).hexdigest()[:16]
        self._journal_path = Path(journal_directory) / f"http-{digest}.journal"
        self._journal = JournalFile(self._journal_path, service.largest)
        self._lock_id = ""
        self._seen_held_at = 0.0
        self._sent_at = time.monotonic()

    def describe(self) -> str:
        """The address, without credentials."""
        parts = urllib.parse.urlsplit(self._here.address)
        return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        return self._document(self._here.address, "read the state")

    def write(self, document: bytes) -> None:
        """Send the document, naming the lock's ID. The same document: nothing, unless a run that ended too
        early left its workspace out of the list.
        """
        self._check_held(_JUST_NOW)
        if self.read() == document:
            self._remember_workspace()
            return
        address = self._here.address
        if self._lock_id:
            address += f"{'&' if '?' in address else '?'}ID={urllib.parse.quote(self._lock_id)}"
        checksum = base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode()
        headers = {"Content-Type": "application/json", "Content-MD5": checksum}
        self._ask(self._here.update_method, address, "write the state", document, headers)
        self._check_written(document)
        self._remember_workspace()

    def append(self, record: bytes) -> None:
        """Add one record to the journal on this machine, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Add records in order, all durable on this machine on return."""
        self._check_held(_CHECK_SECONDS)
        self._journal.append(records)
        self._check_held(_CHECK_SECONDS)  # a holder that slept meanwhile must not act upon what it wrote

    def journal(self) -> list[bytes]:
        """The records on this machine that are not in the document yet."""
        return self._journal.pending(self.read)

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Send the document and empty the journal, so that a crash in between counts nothing twice."""
        self._journal.mark_compacted(document, keep)
        self.write(document)
        if not keep:
            self._journal.remove()

    def checkpoint_due(self) -> bool:
        """Whether the server's document is older than the journal here should get."""
        return time.monotonic() - self._sent_at >= _CHECKPOINT_SECONDS

    def checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Send the document in the middle of an apply; the journal goes on with these records."""
        self._journal.mark_compacted(document, records)
        self.write(document)
        self._sent_at = time.monotonic()

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld; nothing when the server locks nothing."""
        address = self._here.lock_address
        if not address:
            return []
        body = locks.to_json(info)
        answer = self._ask(self._here.lock_method, address, "lock the state", body, accepted=_TAKEN)
        if answer.status in _TAKEN:
            holder = locks.from_json(answer.content)
            if holder.id != info.id:  # else an earlier try arrived, and its answer was lost
                raise LockHeld(holder)
        self._lock_id = info.id
        self._seen_held_at = locks.now()
        return []

    def unlock(self, lock_id: str) -> None:
        """Give the lock back; a BackendProblem when the server refuses."""
        self._lock_id = ""
        self._release(lock_id)

    def holder(self) -> LockInfo | None:
        """Who holds the lock now. The protocol cannot be asked: by trying to take it."""
        address = self._here.lock_address
        if not address:
            return None
        probe = LockInfo(
            id="nexusform-probe", operation="look", who="", version="", created="", path="", host="", pid=0
        )
        body = locks.to_json(probe)
        answer = self._ask(self._here.lock_method, address, "look at the lock", body, accepted=_TAKEN)
        if answer.status in _TAKEN:
            return locks.from_json(answer.content)
        self._send_unlock(probe)
        return None

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        holder = self.holder()
        if holder is None or holder.id != lock_id:
            raise BackendProblem(locks.not_broken(lock_id, holder))
        self._send_unlock(holder)

    def workspaces(self) -> list[str]:
        """The default workspace and those that were written from nexusform."""
        return [DEFAULT, *self._listed()]

    def for_workspace(self, name: str) -> HttpBackend:
        """The same service, another workspace."""
        check_name(name)
        if name != DEFAULT and _PLACE not in self._service.address:
            raise BackendProblem(
                f'The workspace "{name}" needs an address of its own: put {_PLACE} where its name belongs in '
                "address, lock_address and unlock_address."
            )
        return HttpBackend(self._service, self._journal_directory, name)

    def delete_workspace(self, name: str) -> None:
        """Remove a workspace's state."""
        check_deletable(name, self.workspaces())
        self.for_workspace(name).remove()
        self._write_index([each for each in self._listed() if each != name])

    def remove(self) -> None:
        """Delete state and journal."""
        self._ask("DELETE", self._here.address, "delete the workspace", accepted=_GONE)
        self._journal.remove()

    # --- how ---------------------------------------------------------------------------------

    def _check_written(self, document: bytes) -> None:
        """Raise a BackendProblem unless the document stands: a proxy says 200 to whatever it is sent."""
        standing = self.read()
        if standing != document and not _are_alike(standing, document):
            raise BackendProblem(
                f"Cannot write the state at {self.describe()}: the server said that it took it, and gives "
                "something else when it is read again. Does that address lead to a state server?"
            )

    def _check_held(self, seconds: float) -> None:
        """Raise a BackendProblem when the lock was broken, by a look at it of the last so many seconds.

        Servers take what is sent under the ID of a lock that is gone, as long as nobody else holds one.
        """
        if not self._lock_id or locks.now() - self._seen_held_at < seconds:
            return
        holder = self.holder()
        if holder is None or holder.id != self._lock_id:
            raise BackendProblem(
                f"The lock of {self.describe()} was broken by somebody else while it was held here. Nothing "
                "more is written, so that two runs do not write over each other."
            )
        self._seen_held_at = locks.now()

    def _release(self, lock_id: str) -> None:
        if not self._here.lock_address:
            return
        holder = self.holder()
        if holder is None or holder.id != lock_id:
            raise BackendProblem(locks.not_released(lock_id, holder))
        self._send_unlock(holder)

    def _send_unlock(self, info: LockInfo) -> None:
        address = self._here.unlock_address or self._here.lock_address
        self._ask(self._here.unlock_method, address, "unlock the state", locks.to_json(info))

    def _listed(self) -> list[str]:
        """The workspaces in the index, by name; none where addresses have no place for one."""
        if _PLACE not in self._service.address:
            return []
        index = self._service.at(_INDEX)
        content = self._document(index.address, "list the workspaces")
        if content is None:
            return []
        try:
            names = json.loads(content)["workspaces"]
        except (ValueError, KeyError, TypeError):
            raise BackendProblem(f"{index.address} does not hold a list of workspaces.") from None
        return sorted(str(name) for name in names)

    def _document(self, address: str, what: str) -> bytes | None:
        """What stands at an address; None when the server says that nothing does. Raises BackendProblem."""
        answer = self._ask("GET", address, what, accepted=_GONE)
        return None if answer.status in _GONE or answer.says_empty else answer.content

    def _remember_workspace(self) -> None:
        if self._workspace == DEFAULT:
            return
        listed = self._listed()
        if self._workspace not in listed:
            self._write_index([*listed, self._workspace])

    def _write_index(self, names: Sequence[str]) -> None:
        index = self._service.at(_INDEX)
        body = json.dumps(
            {"version": 4, "serial": 0, "lineage": _INDEX, "workspaces": sorted(names)}
        ).encode()
        headers = {"Content-Type": "application/json"}
        self._ask(index.update_method, index.address, "list the workspaces", body, headers)

    def _ask(
        self,
        method: str,
        address: str,
        what: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accepted: frozenset[int] = frozenset(),
    ) -> WebAnswer:
        """A whole answer; a BackendProblem for a status that is neither 2xx nor accepted."""
        request = self._request(method, address, body, headers or {})
        pause = self._here.pause
        for left in reversed(range(self._here.tries)):
            hint = ""
            try:
                answer = ask(request)
                if answer.is_success or answer.status in accepted:
                    return answer
                why, may_pass = f"the server answered {answer.status}", answer.status in _AGAIN
                hint = _HINTS.get(answer.status, "")
            except TooLarge as problem:
                raise refusals.too_large(what, f"at {self.describe()}", problem) from None
            except WebProblem as problem:
                why, may_pass = str(problem), problem.may_pass
            if not left or not may_pass or not still_wanted():
                break
            time.sleep(pause)
            pause *= 2
        raise BackendProblem(f"Cannot {what} at {self.describe()}: {why}.{hint}")

    def _request(
        self, method: str, address: str, body: bytes | None, headers: Mapping[str, str]
    ) -> WebRequest:
        """One request with the credentials of the service."""
        login = {}
        if self._here.username:
            secret = f"{self._here.username}:{self._here.password}".encode()
            login["Authorization"] = f"Basic {base64.b64encode(secret).decode()}"
        return WebRequest(
            method=method,
            address=address,
            body=body,
            headers={**dict(self._here.headers), **headers, **login},
            verify=self._here.verify,
            largest=self._here.largest,
        )


_HINTS: Final[Mapping[int, str]] = {
    401: " Give username and password (or NF_HTTP_USERNAME and NF_HTTP_PASSWORD).",
    403: " These credentials may not do that.",
    404: " Correct the address.",
    409: " Another run holds the lock.",
    423: " Another run holds the lock.",
}


def _are_alike(standing: bytes | None, document: bytes) -> bool:
    """Whether two documents are the same JSON: some servers lay it out anew."""
    try:
        return bool(json.loads(standing or b"") == json.loads(document))
    except (ValueError, RecursionError):
        return False


def open_http(
    settings: Mapping[str, Any], data_directory: str, largest: int = refusals.LARGEST
) -> HttpBackend:
    """The backend that the settings describe; raises BackendProblem."""
    for name in ("address", "lock_address", "unlock_address"):
        text = settings.get(name)
        if text and urllib.parse.urlsplit(text).scheme not in SCHEMES:
            shown = "it" if "@" in text or "?" in text else f'"{text}"'  # either may hold a secret
            raise BackendProblem(
                f"The setting {name} is not an http or https address: {shown} must begin so."
            )
    lock_address = settings.get("lock_address") or ""
    service = HttpService(
        address=settings["address"],
        update_method=settings.get("update_method") or "POST",
        lock_address=lock_address,
        lock_method=settings.get("lock_method") or "LOCK",
        unlock_address=settings.get("unlock_address") or lock_address,
        unlock_method=settings.get("unlock_method") or "UNLOCK",
        username=settings.get("username") or os.environ.get("NF_HTTP_USERNAME", ""),
        password=settings.get("password") or os.environ.get("NF_HTTP_PASSWORD", ""),
        verify=not settings.get("skip_cert_verification"),
        largest=largest,
    )
    return HttpBackend(service, data_directory)
