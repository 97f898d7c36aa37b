"""State in a blob of an Azure storage account, locked by a lease that is renewed while it is held.

For a state blob K: its lease is the lock, its metadata say who holds it; `K:journal:NUMBER` are append blobs
with what an apply has done since K was written; snapshots of K are its history; `Kenv:NAME` is the workspace
NAME. The settings have OpenTofu's names.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from nexusform.backends import journal_lines, locks, refusals
from nexusform.backends.journal_lines import Gathering, KeepsLines
from nexusform.backends.locks import Lease, LeaseLost, lease_seconds, now
from nexusform.backends.refusals import DEFAULT, Reading, check_deletable, check_name, needing
from nexusform.domains.remote_state.backends.azure_login import NOBODY_SIGNED_IN, blob_credential
from nexusform.regular_files import TooLarge
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo, StoredVersion

# What azure-storage-blob gives: its keyword arguments are declared too loosely to be checked.
ContainerClient = Any
BlobClient = Any

_LOCK: Final = "nexusformlock"  # the metadata key under which the holder stands
_WORKSPACE: Final = "env:"
_JOURNAL: Final = ":journal:"
_MOST_BLOCKS: Final = 40_000  # an append blob ends at 50,000
_MOST_BYTES: Final = 4 << 20  # of one block
_FIRST_PART: Final = 1 << 20  # bytes that come with the size of a blob


class AzureBackend(KeepsLines):
    """The state of one workspace in a blob; see the module."""

    _journal: _Journal

    def __init__(
        self,
        container: ContainerClient,
        key: str,
        *,
        snapshots: bool = True,
        workspace: str = DEFAULT,
        largest: int = refusals.LARGEST,
    ) -> None:
        check_name(workspace)
        self._largest = largest
        self._container = container
        self._key = key
        self._snapshots = snapshots
        self._name = key if workspace == DEFAULT else f"{key}{_WORKSPACE}{workspace}"
        self._blob: BlobClient = container.get_blob_client(self._name)
        self._held: _HeldLease | None = None
        self._journal = _Journal(container, f"{self._name}{_JOURNAL}", self.check_lease, largest)

    def describe(self) -> str:
        """The URL of the blob, without credentials."""
        return f"{self._container.url.split('?')[0]}/{self._name}"

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        return self._read()[0]

    def write(self, document: bytes) -> None:
        """Replace the document, the one before becoming a snapshot. The same document: nothing."""
        self.check_lease()
        standing, etag = self._read()
        if standing == document:
            return
        with self._explained("write the state"):
            if standing is not None and self._snapshots:
                self._blob.create_snapshot(**self._lease_argument())
            self._upload(document, etag)

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal, so that a crash in between counts nothing twice."""
        with self._explained("write to the journal"):
            if keep or self._journal.begun():
                self._journal.add([journal_lines.compaction_mark(document), *keep])
        self.write(document)
        self.check_lease()
        if keep:
            return
        with self._explained("empty the journal"):
            self._journal.remove()

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld; a holder whose lease ran out is replaced, with a warning."""
        from azure.core.exceptions import HttpResponseError

        seconds = lease_seconds()
        sent_at = now()
        with self._explained("lock the state"):
            try:
                client = self._acquire(seconds)
            except HttpResponseError as refusal:
                if _code(refusal) in ("LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"):
                    raise LockHeld(self.holder()) from None
                raise
            try:
                self._journal.reset()
                former = self._noted()
                self._note(info, client.id)
                self._journal.take_over(info.id)
            except BaseException:
                client.release()
                raise
        self._held = _HeldLease(info.id, client.id, Lease(seconds, _renewal(client)))
        self._held.lease.begin(sent_at)
        if former is None:
            return []
        return [f"The lock of {locks.describe(former)} was taken over: its lease had run out."]

    def unlock(self, lock_id: str) -> None:
        """Give the lock back; a BackendProblem when it is no longer held under this id."""
        held, self._held = self._held, None
        if held is not None:
            held.lease.end()
        holder = self.holder()
        if holder is None or holder.id != lock_id or held is None:
            raise BackendProblem(locks.not_released(lock_id, holder))
        with self._explained("unlock the state"):
            properties = self._blob.get_blob_properties()
            if properties.size == 0:
                self._blob.delete_blob("include", lease=held.lease_id)  # only the lock needed it
                return
            self._note(None, held.lease_id)
            self._lease_client(held.lease_id).release()

    def holder(self) -> LockInfo | None:
        """Who holds the lock now; somebody whose lease says nothing is one whom nobody knows."""
        from azure.core.exceptions import ResourceNotFoundError

        with self._explained("look at the lock"):
            try:
                properties = self._blob.get_blob_properties()
            except ResourceNotFoundError as refusal:
                if _code(refusal) != "BlobNotFound":
                    raise
                return None
        if properties.lease.state != "leased":
            return None
        return _holder_in(properties.metadata) or locks.from_json(b"")

    def force_unlock(self, lock_id: str) -> None:
        """Break the lease of the lock with this id."""
        holder = self.holder()
        if holder is None or holder.id != lock_id:
            raise BackendProblem(locks.not_broken(lock_id, holder))
        with self._explained("break the lock"):
            self._lease_client().break_lease(lease_break_period=0)
            self._note(None)
            self._journal.take_over(f"broken {lock_id}")

    def workspaces(self) -> list[str]:
        """The default workspace and those that have a state."""
        prefix = f"{self._key}{_WORKSPACE}"
        with self._explained("list the workspaces"):
            blobs = list(self._container.list_blobs(name_starts_with=prefix))
        names = [blob.name.removeprefix(prefix) for blob in blobs if blob.size and _JOURNAL not in blob.name]
        return [DEFAULT, *sorted(names)]

    def for_workspace(self, name: str) -> AzureBackend:
        """The same container and key, another workspace."""
        return AzureBackend(
            self._container, self._key, snapshots=self._snapshots, workspace=name, largest=self._largest
        )

    def delete_workspace(self, name: str) -> None:
        """Remove the blobs of a workspace, its history too."""
        check_deletable(name, self.workspaces())
        self.for_workspace(name).remove()

    def remove(self) -> None:
        """Delete state, journal and history."""
        with self._explained("delete the workspace"):
            self._journal.remove()
            self._blob.delete_blob("include")

    def history(self) -> list[StoredVersion]:
        """The earlier documents, newest first."""
        with self._explained("list the history"):
            blobs = list(self._container.list_blobs(name_starts_with=self._name, include=["snapshots"]))
        taken = sorted(blob.snapshot for blob in blobs if blob.name == self._name and blob.snapshot)
        return [StoredVersion(snapshot, snapshot) for snapshot in reversed(taken)]

    def read_version(self, version: str) -> bytes:
        """One of `history` by its id."""
        with self._explained("read the history"):
            snapshot = self._container.get_blob_client(self._name, snapshot=version)
            return _content(snapshot.download_blob(), Reading(self._largest))

    # --- how ---------------------------------------------------------------------------------

    def _read(self) -> tuple[bytes | None, str]:
        """The document and its ETag; an empty blob is there for its lease alone."""
        from azure.core.exceptions import ResourceNotFoundError

        with self._explained("read the state"):
            try:
                download = self._blob.download_blob()
            except ResourceNotFoundError as refusal:
                # Not the container's absence, nor that of a page of some other server.
                if _code(refusal) != "BlobNotFound":
                    raise
                return None, ""
            document = _content(download, Reading(self._largest))
            return document or None, str(download.properties.etag)

    def _upload(self, document: bytes, etag: str) -> None:
        """Write under the lease, or only onto the version that was read."""
        from azure.core import MatchConditions

        if self._held is not None:
            metadata = self._blob.get_blob_properties().metadata
            self._blob.upload_blob(document, overwrite=True, metadata=metadata, **self._lease_argument())
        elif etag:
            self._blob.upload_blob(
                document, overwrite=True, etag=etag, match_condition=MatchConditions.IfNotModified
            )
        else:
            self._blob.upload_blob(document, overwrite=False)

    def _acquire(self, seconds: int) -> Any:
        """A lease on the blob, which is made when there is none."""
        from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

        try:
            return self._blob.acquire_lease(lease_duration=seconds, lease_id=str(uuid.uuid4()))
        except ResourceNotFoundError:
            with suppress(ResourceExistsError):  # somebody else was faster; the lease decides
                self._blob.upload_blob(b"", overwrite=False)
            return self._blob.acquire_lease(lease_duration=seconds, lease_id=str(uuid.uuid4()))

    def _lease_client(self, lease_id: str | None = None) -> Any:
        from azure.storage.blob import BlobLeaseClient

        return BlobLeaseClient(self._blob, lease_id)

    def _lease_argument(self) -> dict[str, str]:
        return {} if self._held is None else {"lease": self._held.lease_id}

    def _noted(self) -> LockInfo | None:
        """Who the metadata say held the lock last: somebody who did not give it back."""
        return _holder_in(self._blob.get_blob_properties().metadata)

    def _note(self, info: LockInfo | None, lease_id: str | None = None) -> None:
        metadata = dict(self._blob.get_blob_properties().metadata or {})
        metadata.pop(_LOCK, None)
        if info is not None:
            metadata[_LOCK] = base64.b64encode(locks.to_json(info)).decode()
        lease = {"lease": lease_id} if lease_id else {}
        self._blob.set_blob_metadata(metadata, **lease)

    def check_lease(self) -> None:
        """Raise a BackendProblem when the lock was held here and its lease is lost."""
        if self._held is not None:
            self._held.lease.check()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn what the service or the network says into a BackendProblem."""
        from azure.core.exceptions import AzureError

        try:
            yield
        except AzureError as problem:
            raise BackendProblem(f"Cannot {what} at {self.describe()}: {_reason(problem)}") from None
        except TooLarge as problem:
            raise refusals.too_large(what, f"at {self.describe()}", problem) from None


class _HeldLease:
    """The lock that this object holds."""

    __slots__ = ("lease", "lease_id", "lock_id")

    def __init__(self, lock_id: str, lease_id: str, lease: Lease) -> None:
        self.lock_id = lock_id
        self.lease_id = lease_id
        self.lease = lease


class _Journal:
    """Numbered append blobs. A block names the position that it expects, so that of two writers one loses."""

    def __init__(
        self, container: ContainerClient, prefix: str, check_lease: Callable[[], None], largest: int
    ) -> None:
        self._largest = largest
        self._container = container
        self._prefix = prefix
        self._check_lease = check_lease
        self._gathering = Gathering(self._write)
        self._blob: BlobClient | None = None
        self._number = 0
        self._position = 0
        self._blocks = 0

    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines at the end. Raises AzureError, BackendProblem."""
        if lines:
            self._gathering.add(lines)

    def lines(self) -> list[bytes]:
        """Every line of every blob, in order."""
        reading = Reading(self._largest)
        texts = [_content(self._blob_of(name).download_blob(), reading) for name in self._names()]
        return journal_lines.lines_of(texts)

    def begun(self) -> bool:
        """Whether there is any line."""
        return self._blob is not None or bool(self._names())

    def reset(self) -> None:
        """Look the end up anew: others may have written since."""
        self._gathering = Gathering(self._write)
        self._blob = None

    def take_over(self, lock_id: str) -> None:
        """Write a seal behind what others wrote: none of them can add a line any more."""
        if self._names():
            self._open()
            self._write([journal_lines.seal(lock_id)])

    def remove(self) -> None:
        """Delete the blobs; the numbers go on."""
        for name in self._names():
            self._blob_of(name).delete_blob()
        self._blob = None

    def _names(self) -> list[str]:
        return sorted(self._container.list_blob_names(name_starts_with=self._prefix))

    def _blob_of(self, name: str) -> BlobClient:
        return self._container.get_blob_client(name)

    def _write(self, lines: list[bytes]) -> None:
        self._check_lease()
        data = b"\n".join([*lines, b""])
        for start in range(0, len(data), _MOST_BYTES):
            self._append(data[start : start + _MOST_BYTES])
        self._check_lease()

    def _append(self, data: bytes) -> None:
        """Add bytes to the journal blob; an append that arrived without an answer counts."""
        from azure.core.exceptions import HttpResponseError

        if self._blob is None or self._blocks >= _MOST_BLOCKS:
            self._open(anew=self._blob is not None)
        assert self._blob is not None
        try:
            self._blob.append_block(data, appendpos_condition=self._position)
        except HttpResponseError as refusal:
            if _code(refusal) != "AppendPositionConditionNotMet" or not self._arrived(data):
                raise
        self._position += len(data)
        self._blocks += 1

    def _arrived(self, data: bytes) -> bool:
        """Whether this very block stands where it was to stand: the answer to an earlier try got lost."""
        assert self._blob is not None
        download = self._blob.download_blob(offset=self._position, length=len(data) + 1)
        return bytes(download.readall()) == data

    def _open(self, *, anew: bool = False) -> None:
        """Go to the end of the last blob, or make the next one."""
        from azure.core import MatchConditions

        names = self._names()
        if names and not anew:
            self._blob = self._blob_of(names[-1])
            properties = self._blob.get_blob_properties()
            self._number = int(names[-1].removeprefix(self._prefix))
            self._position = properties.size
            self._blocks = properties.append_blob_committed_block_count or 0
            return
        last = int(names[-1].removeprefix(self._prefix)) if names else self._number
        self._number = last + 1
        self._blob = self._blob_of(f"{self._prefix}{self._number:08}")
        self._blob.create_append_blob(match_condition=MatchConditions.IfMissing)
        self._position = self._blocks = 0


def _content(download: Any, reading: Reading) -> bytes:
    """What a blob holds; its first part came with its size. Raises TooLarge, AzureError."""
    from azure.core.exceptions import IncompleteReadError

    reading.take(download.size)
    content = bytes(download.readall())
    if len(content) != download.size:
        raise IncompleteReadError(f"The answer was cut off: {len(content)} of {download.size} bytes came.")
    return content


def _renewal(client: Any) -> Callable[[], None]:
    """How the lease is renewed; LeaseLost when the service says that it is not ours any more."""

    def renew() -> None:
        from azure.core.exceptions import HttpResponseError

        try:
            client.renew(timeout=10)
        except HttpResponseError as refusal:
            if refusal.status_code in (404, 409, 412):
                raise LeaseLost("its lease was broken, or another run has it") from None
            raise

    return renew


def _holder_in(metadata: Mapping[str, str] | None) -> LockInfo | None:
    """Who the metadata of a blob say holds the lock; None when they do not."""
    text = (metadata or {}).get(_LOCK, "")
    try:
        if not text:
            return None
        try:
            return locks.from_json(base64.b64decode(text))
        except ValueError:
            return locks.from_json(text.encode())
    except ValueError:
        return None


def _code(problem: Any) -> str:
    """The service's own name for what is wrong, "" when it gave none."""
    return str(getattr(problem, "error_code", None) or "")


def _reason(problem: Any) -> str:
    """What is wrong in one line, and what to do where it is known."""
    from azure.core.exceptions import ClientAuthenticationError

    if isinstance(problem, ClientAuthenticationError) and not _code(problem):
        return NOBODY_SIGNED_IN
    status = getattr(problem, "status_code", None) or 0
    if status // 100 == 3:
        return f"the server answered {status}, a redirect, as Azure Storage never does. Correct the address."
    code = _code(problem)
    line = str(problem.message).splitlines()[0] if problem.message else type(problem).__name__
    return _HINTS.get(code, f"{line} ({code})" if code and code not in line else line)


_HINTS: Final[Mapping[str, str]] = {
    "AppendPositionConditionNotMet": "another run has written to the journal; this one lost its lock.",
    "ConditionNotMet": "it was changed meanwhile by somebody without the lock. Run the command again.",
    "BlobAlreadyExists": "it was written meanwhile by somebody without the lock. Run the command again.",
    "LeaseIdMissing": "another run holds its lock.",
    "LeaseIdMismatchWithBlobOperation": "another run holds its lock by now.",
    "LeaseLost": "the lease ran out or was broken; another run may hold the lock.",
    "LeaseNotPresentWithBlobOperation": "the lease was broken; another run may hold the lock.",
    "ContainerNotFound": "there is no such container. Make it first, or correct container_name.",
    "AuthenticationFailed": "the credentials were refused.",
    "AuthorizationFailure": "these credentials may not do that.",
    "AuthorizationPermissionMismatch": "these credentials lack a role such as Storage Blob Data Contributor.",
}


def open_azurerm(settings: Mapping[str, Any], largest: int = refusals.LARGEST) -> AzureBackend:
    """The backend that the settings describe; raises BackendProblem."""
    with needing("azurerm", "azure"):
        from azure.storage.blob import ContainerClient
    # What the SDK has to say comes in its exceptions; its log is for those who ask for it.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    account = settings.get("storage_account_name") or ""
    endpoint = settings.get("endpoint") or f"https://{account}.blob.core.windows.net"
    container = ContainerClient(
        endpoint,
        settings["container_name"],
        credential=blob_credential(settings, account),
        # The SDK's own pauses (15 s and more) outlast the claim on a lock.
        retry_total=3,
        initial_backoff=1,
        increment_base=2,
        connection_timeout=10,
        read_timeout=60,
        max_single_get_size=_FIRST_PART,
        # It would carry the state to whatever host an answer names.
        permit_redirects=False,
    )
    snapshots = settings.get("snapshot")
    return AzureBackend(container, settings["key"], snapshots=snapshots is not False, largest=largest)
