"""State behind Terraform's HTTP protocol: GitLab's state store and other servers for Terraform.

GET and POST transfer the document, LOCK and UNLOCK have the holder as the body; methods are
configurable (GitLab: POST and DELETE at `.../lock`). The protocol has neither a journal nor
expiring locks. So the journal is stored locally, and the state is sent at most every 20 s during an
apply: changes since the last document are lost with the machine. A dead run's lock must be broken
manually. `{workspace}` in the address is the workspace's name; without it only `default` exists.
An answer from a cache, or with an older document than this machine has seen, is an error.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from nexusform.backends import backend_definition, locks
from nexusform.backends.backend_definition import DEFAULT_WORKSPACE, check_deletable, check_name
from nexusform.backends.journal_lines import compute_document_digest
from nexusform.backends.state_files import JournalFile
from nexusform.documents.scalars import parse_integer
from nexusform.domains.remote_state.backends.document_order import (
    DocumentOrder,
    SeenDocument,
    describe_document,
)
from nexusform.files.access_record import read_variable
from nexusform.files.regular_files import FileTooLarge
from nexusform.interfaces.state_storage import BackendProblem, LockInfo, StateLocked
from nexusform.network.deadlines import is_caller_waiting
from nexusform.network.http_client import SCHEMES, WebRequest, WebResponse, send_request
from nexusform.network.web_errors import WebError

_WORKSPACE_MARK: Final = "{workspace}"
# The document with the list of workspaces, stored like a workspace.
_INDEX: Final = "nexusform-workspaces"
# A cache may have an older document.
_UNCACHED: Final[Mapping[str, str]] = {"Cache-Control": "no-cache"}
_LOCKED_STATUSES: Final = frozenset({409, 423})
_MISSING_STATUSES: Final = frozenset({204, 404})
_RETRY_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
# Between two checks of the held lock.
_CHECK_SECONDS: Final = 10.0
# A check of the lock is not repeated sooner.
_RECENT_SECONDS: Final = 1.0
# Between two documents while an apply runs.
_CHECKPOINT_SECONDS: Final = 20.0


class HttpSettings(Struct, frozen=True):
    """Addresses, methods and credentials.

    A lock address of "" means that the server does not lock.
    """

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
    attempts: int = 3
    # Seconds before the second try, doubled before each further one.
    pause: float = 1.0
    # Maximum bytes of an answer that is read.
    max_bytes: int = backend_definition.MAXIMUM_SIZE

    def expand_workspace(self, workspace: str) -> HttpSettings:
        """Return the service with the workspace's name in its addresses."""
        name = urllib.parse.quote(workspace, safe="")
        return replace(
            self,
            address=self.address.replace(_WORKSPACE_MARK, name),
            lock_address=self.lock_address.replace(_WORKSPACE_MARK, name),
            unlock_address=self.unlock_address.replace(_WORKSPACE_MARK, name),
        )


class HttpBackend:
    """State of one workspace behind an address; see the module."""

    def __init__(
        self, service: HttpSettings, journal_directory: str, workspace: str = DEFAULT_WORKSPACE
    ) -> None:
        """Keep the address of the workspace.

        Its local journal file is named by a hash of this address.
        """
        check_name(workspace)
        self._service = service
        self._journal_directory = journal_directory
        self._workspace = workspace
        self._workspace_service = service.expand_workspace(workspace)
        digest = hashlib.sha256(self._workspace_service.address.encode()).hexdigest()[:16]
        self._journal_path = Path(journal_directory) / f"http-{digest}.journal"
        self._journal = JournalFile(
            self._journal_path, self.read, service.max_bytes, compute_digest=_compute_content_digest
        )
        self._order = DocumentOrder(self._journal_path.with_suffix(".seen"))
        self._lock_id = ""  # not locked
        # Digests of the documents that this run read first, or sent; None: it read none yet.
        self._known_digests: set[bytes] | None = None
        # Time of the last check of the lock.
        self._checked_at = 0.0
        # Time of the last checkpoint, or of this start.
        self._sent_at = time.monotonic()

    def describe(self) -> str:
        """Return the address, without credentials."""
        parts = urllib.parse.urlsplit(self._workspace_service.address)
        return urllib.parse.urlunsplit(
            parts._replace(netloc=parts.netloc.rpartition("@")[2], query="")
        )

    def read(self) -> bytes | None:
        """Return the state document, None if there is none.

        Raises BackendProblem, also if a newer one was seen before.
        """
        # Before the request: another process may add the next document during it.
        seen_documents = self._order.load()
        document = self._read_document(self._workspace_service.address, "read the state")
        self._check_not_outdated(document, seen_documents)
        if self._known_digests is None:
            self._known_digests = {_compute_content_digest(document or b"")}
        return document

    def list_warnings(self) -> list[str]:
        """Return a warning if this machine cannot remember the documents that it has seen."""
        if not self._order.problem:
            return []
        warning = (
            f"{self._order.path} {self._order.problem}. It records which states this machine has "
            f"seen at {self.describe()}. Without it, an older state from a cache or from a copy of "
            "the server is not noticed, and objects created since would be created again. Set "
            "NF_DATA_DIR to a writable directory that is kept between runs."
        )
        return [warning]

    def write(self, document: bytes) -> None:
        """Send the document with the lock's id, unless the server has it already.

        Add the workspace to the index.
        """
        self._verify_lock_is_held(_RECENT_SECONDS)
        current = self.read()
        if current == document:
            # An aborted run may have sent the document only.
            self._add_to_workspace_index()
            return
        self._check_unchanged(current)
        self._journal.mark_base(document)
        address = self._workspace_service.address
        # Terraform sends it in this form.
        if self._lock_id:
            address += f"{'&' if '?' in address else '?'}ID={urllib.parse.quote(self._lock_id)}"
        checksum = base64.b64encode(hashlib.md5(document, usedforsecurity=False).digest()).decode()
        headers = {"Content-Type": "application/json", "Content-MD5": checksum}
        # It may arrive although its answer is lost.
        if self._known_digests is not None:
            self._known_digests.add(_compute_content_digest(document))
        self._send_request(
            self._workspace_service.update_method, address, "write the state", document, headers
        )
        self._order.add(_describe(document), self._order.load())
        # A proxy may answer 200 to anything.
        current = self._read_document(self._workspace_service.address, "read the state")
        if current != document and not _is_equal_json(current, document):
            raise BackendProblem(
                f"Cannot write the state at {self.describe()}: the server accepted it, but returns "
                "a different document. Check that the address is a state server."
            )
        self._known_digests = {_compute_content_digest(document)}
        self._add_to_workspace_index()

    def _check_unchanged(self, current: bytes | None) -> None:
        """Raise a BackendProblem if the server has another document than this run read or sent."""
        digest = _compute_content_digest(current or b"")
        if self._known_digests is not None and digest not in self._known_digests:
            raise BackendProblem(
                f"The state at {self.describe()} is another one than this run read, so it is not "
                "overwritten. A cache answered with an old document, or another run wrote the "
                "state meanwhile. Check the server, and plan again."
            )

    def _check_not_outdated(
        self, document: bytes | None, seen_documents: list[SeenDocument]
    ) -> None:
        """Raise a BackendProblem if this document is older than one seen before; else add it."""
        described = _describe(document)
        if self._order.is_outdated(described, seen_documents):
            answer = "without a state" if document is None else "with an older state"
            raise BackendProblem(
                f"{self.describe()} answered {answer}, but this machine has seen a newer one "
                "there: a cache or a copy of the server is behind, or the state was restored or "
                "deleted. Check the server, and run the command again. If its answer is right, "
                f"forget the newer state first:\nrm {quote(str(self._order.path))}"
            )
        if document is not None:
            self._order.add(described, seen_documents)

    def append(self, record: bytes) -> None:
        """Append one record to the local journal, durable on return."""
        self.append_all([record])

    def append_all(self, records: Sequence[bytes]) -> None:
        """Append records to the local journal in order, all durable on return."""
        self._verify_lock_is_held(_CHECK_SECONDS)
        self._journal.append_lines(records)
        # A suspended holder must not continue after its write.
        self._verify_lock_is_held(_CHECK_SECONDS)

    def read_journal(self) -> list[bytes]:
        """Return the local records not in the document yet."""
        return self._journal.list_pending()

    def move_foreign_journal(self) -> str:
        """Move a local journal that continues another document to a file beside it.

        Return the path of that file, "" if there is no such journal.
        """
        self._verify_lock_is_held(_RECENT_SECONDS)
        return self._journal.move_if_foreign()

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Send the document, then empty the journal but for `keep`.

        A crash in between duplicates no record.
        """
        self._journal.mark_compacted(document, keep)
        self.write(document)
        if keep:
            self._journal.mark_written()
        else:
            self._journal.remove()

    def needs_checkpoint(self) -> bool:
        """Return whether the server's document is old.

        It should then be updated during an apply.
        """
        return time.monotonic() - self._sent_at >= _CHECKPOINT_SECONDS

    def write_checkpoint(self, document: bytes, records: Sequence[bytes]) -> None:
        """Send the document during an apply; the journal continues with these records."""
        self._journal.mark_compacted(document, records)
        self.write(document)
        self._sent_at = time.monotonic()

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked; without a lock address nothing is locked.

        There are no warnings.
        """
        address = self._workspace_service.lock_address
        if not address:
            # The server has no locks.
            return []
        method = self._workspace_service.lock_method
        body = locks.format_lock(info)
        answer = self._send_request(
            method, address, "lock the state", body, accepted=_LOCKED_STATUSES
        )
        if answer.status in _LOCKED_STATUSES:
            holder = locks.parse_lock(answer.content)
            # Else an earlier try arrived, and its answer was lost.
            if holder.id != info.id:
                raise StateLocked(holder)
        # A proxy may answer 200 to anything.
        current = self.read_lock()
        if current is None or current.id != info.id:
            raise BackendProblem(
                f"Cannot lock the state at {self.describe()}: the server accepted the lock, but "
                "does not hold it. Check that lock_address is that of a state server."
            )
        self._lock_id = info.id
        # Another run may have written before.
        self._known_digests = None
        self._checked_at = locks.read_monotonic_clock()
        self._journal.remove_if_merged()
        return []

    def unlock(self, lock_id: str) -> None:
        """Release the lock.

        Raises BackendProblem if it is not held under this id, or the server rejects it.
        """
        self._lock_id = ""
        if not self._workspace_service.lock_address:
            # The server has no locks.
            return
        holder = self.read_lock()
        if holder is None or holder.id != lock_id:
            raise BackendProblem(locks.format_unlock_failure(lock_id, holder))
        self._send_unlock(holder)

    def read_lock(self) -> LockInfo | None:
        """Return the lock holder, None without one.

        The protocol has no query: acquire the lock as a test.
        """
        address = self._workspace_service.lock_address
        if not address:
            # The server has no locks.
            return None
        test = LockInfo(
            id="nexusform-probe",
            operation="look",
            who="",
            version="",
            created="",
            path="",
            host="",
            pid=0,
        )
        method = self._workspace_service.lock_method
        body = locks.format_lock(test)
        answer = self._send_request(
            method, address, "read the lock", body, accepted=_LOCKED_STATUSES
        )
        if answer.status in _LOCKED_STATUSES:
            return locks.parse_lock(answer.content)
        self._send_unlock(test)
        return None

    def force_unlock(self, lock_id: str) -> None:
        """Break the lock with this id."""
        self._send_unlock(locks.check_breakable(lock_id, self.read_lock()))

    def list_workspaces(self) -> list[str]:
        """Return the default workspace and those written by nexusform."""
        return [DEFAULT_WORKSPACE, *self._read_workspace_index()]

    def select_workspace(self, name: str) -> HttpBackend:
        """Return the backend of another workspace of the same service."""
        check_name(name)
        if name != DEFAULT_WORKSPACE and _WORKSPACE_MARK not in self._service.address:
            raise BackendProblem(
                f'The workspace "{name}" needs its own address. Write {_WORKSPACE_MARK} for its '
                "name in address, lock_address and unlock_address."
            )
        return HttpBackend(self._service, self._journal_directory, name)

    def delete_workspace(self, name: str) -> None:
        """Delete a workspace's state, with the lock held on it here."""
        check_deletable(name, self.list_workspaces())
        workspace = self if name == self._workspace else self.select_workspace(name)
        workspace.remove()
        self._write_workspace_index(
            [workspace for workspace in self._read_workspace_index() if workspace != name]
        )

    def remove(self) -> None:
        """Delete state and journal; the lock held here is released directly before.

        GitLab rejects the deletion of a locked state.
        """
        address = self._workspace_service.address
        if self._lock_id:
            self.unlock(self._lock_id)
        self._send_request("DELETE", address, "delete the workspace", accepted=_MISSING_STATUSES)
        self._journal.remove_with_copies()
        self._order.remove()

    def _verify_lock_is_held(self, seconds: float) -> None:
        """Raise a BackendProblem if the lock was broken, unless it was checked within `seconds`."""
        if not self._lock_id or locks.read_monotonic_clock() - self._checked_at < seconds:
            # The state is not locked, or was checked recently.
            return
        holder = self.read_lock()
        if holder is None or holder.id != self._lock_id:
            reason = f"Another process broke the lock of {self.describe()} during this run."
            raise BackendProblem(f"{reason} This run writes nothing more.")
        self._checked_at = locks.read_monotonic_clock()

    def _send_unlock(self, info: LockInfo) -> None:
        address = self._workspace_service.unlock_address or self._workspace_service.lock_address
        self._send_request(
            self._workspace_service.unlock_method,
            address,
            "unlock the state",
            locks.format_lock(info),
        )

    def _read_workspace_index(self) -> list[str]:
        """Return the sorted names of the workspaces in the index.

        There are none if the address has no placeholder for a name.
        """
        if _WORKSPACE_MARK not in self._service.address:
            # Only the default workspace exists.
            return []
        index = self._service.expand_workspace(_INDEX)
        content = self._read_document(index.address, "list the workspaces")
        if content is None:
            # No workspace was created yet.
            return []
        try:
            names = json.loads(content)["workspaces"]
        except (ValueError, KeyError, TypeError):
            raise BackendProblem(f"{index.address} does not hold a list of workspaces.") from None
        return sorted(map(str, names))

    def _read_document(self, address: str, operation: str) -> bytes | None:
        """Return the document at an address; None if the server has none.

        Raises BackendProblem.
        """
        answer = self._send_request(
            "GET", address, operation, headers=_UNCACHED, accepted=_MISSING_STATUSES
        )
        # Only an answer that no server gave or checked for this request has an age.
        age = parse_integer(answer.headers.get("age", ""))
        if age:
            raise BackendProblem(
                f"Cannot {operation} at {self.describe()}: a cache answered with a copy that is "
                f"{age} s old. Let the cache pass requests to the server, or use the address of "
                "the server itself."
            )
        if answer.status in _MISSING_STATUSES:
            return None
        # A proxy may answer so: taken for no state, every object would be created again.
        if not answer.content:
            raise BackendProblem(
                f"Cannot {operation} at {self.describe()}: the server answered {answer.status} "
                "without content, so whether it has a state is unknown. A server without a state "
                "must answer 204 or 404. Check the address."
            )
        return answer.content

    def _add_to_workspace_index(self) -> None:
        """Add this workspace to the list of workspaces; the default one is never in it."""
        if self._workspace == DEFAULT_WORKSPACE:
            return
        names = self._read_workspace_index()
        if self._workspace not in names:
            self._write_workspace_index([*names, self._workspace])

    def _write_workspace_index(self, names: Sequence[str]) -> None:
        """Write the list of workspaces to its own address, with the members of a state document."""
        index = self._service.expand_workspace(_INDEX)
        body = json.dumps(
            {"version": 4, "serial": 0, "lineage": _INDEX, "workspaces": sorted(names)}
        ).encode()
        headers = {"Content-Type": "application/json"}
        self._send_request(index.update_method, index.address, "list the workspaces", body, headers)

    def _send_request(
        self,
        method: str,
        address: str,
        operation: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        accepted: frozenset[int] = frozenset(),
    ) -> WebResponse:
        """Return a complete response, with retries.

        Raises BackendProblem for a status neither 2xx nor accepted.
        """
        service = self._workspace_service
        login = {}
        if service.username:
            secret = f"{service.username}:{service.password}".encode()
            login["Authorization"] = f"Basic {base64.b64encode(secret).decode()}"
        all_headers = {**dict(service.headers), **(headers or {}), **login}
        request = WebRequest(
            method, address, body, all_headers, verify=service.verify, max_bytes=service.max_bytes
        )
        pause = service.pause
        for remaining_attempts in reversed(range(service.attempts)):
            hint = ""
            try:
                answer = send_request(request)
                if answer.is_success or answer.status in accepted:
                    return answer
                reason = f"the server answered {answer.status}"
                is_temporary = answer.status in _RETRY_STATUSES
                hint = _HINTS.get(answer.status, "")
            except FileTooLarge as problem:
                raise backend_definition.build_size_problem(
                    operation, f"at {self.describe()}", problem
                ) from None
            except WebError as problem:
                reason = str(problem)
                is_temporary = problem.is_temporary
            # No retry helps.
            if not remaining_attempts or not is_temporary or not is_caller_waiting():
                break
            time.sleep(pause)
            pause *= 2
        raise BackendProblem(f"Cannot {operation} at {self.describe()}: {reason}.{hint}")


_HINTS: Final[Mapping[int, str]] = {
    401: " Set username and password (or NF_HTTP_USERNAME and NF_HTTP_PASSWORD).",
    403: " These credentials lack the permission.",
    404: " Correct the address.",
    409: " Another run holds the lock.",
    423: " Another run holds the lock.",
}


def _compute_content_digest(document: bytes) -> bytes:
    """Return the digest of a document in the journal: some servers reformat its JSON."""
    # What is not JSON is not reformatted.
    with suppress(ValueError, RecursionError):
        document = json.dumps(json.loads(document), sort_keys=True).encode()
    return compute_document_digest(document)


def _describe(document: bytes | None) -> SeenDocument:
    """Return the record of a document in the order of those that the server had."""
    return describe_document(document, _compute_content_digest(document or b""))


def _is_equal_json(current: bytes | None, document: bytes) -> bool:
    """Return whether two documents are the same JSON: some servers reformat it."""
    try:
        return bool(json.loads(current or b"") == json.loads(document))
    except (ValueError, RecursionError):
        return False


def open_http(
    settings: Mapping[str, Any],
    data_directory: str,
    max_bytes: int = backend_definition.MAXIMUM_SIZE,
) -> HttpBackend:
    """Build the backend of the settings, a missing login from the environment.

    Raises BackendProblem.
    """
    for name in ("address", "lock_address", "unlock_address"):
        text = settings.get(name)
        if text and urllib.parse.urlsplit(text).scheme not in SCHEMES:
            # A login (@) or query (?) may be secret.
            address_text = "it" if "@" in text or "?" in text else f'"{text}"'
            raise BackendProblem(
                f"The setting {name} must be an http or https address, not {address_text}."
            )
    # An empty setting counts as absent.
    given = {name: value for name, value in settings.items() if value}
    lock_address = given.get("lock_address", "")
    service = HttpSettings(
        address=settings["address"],
        update_method=given.get("update_method", "POST"),
        lock_address=lock_address,
        lock_method=given.get("lock_method", "LOCK"),
        unlock_address=given.get("unlock_address", lock_address),
        unlock_method=given.get("unlock_method", "UNLOCK"),
        username=settings.get("username") or read_variable("NF_HTTP_USERNAME"),
        password=settings.get("password") or read_variable("NF_HTTP_PASSWORD"),
        verify=not settings.get("skip_cert_verification"),
        max_bytes=max_bytes,
    )
    return HttpBackend(service, data_directory)
