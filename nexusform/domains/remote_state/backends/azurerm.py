"""State in a blob of an Azure storage account, locked by a renewed lease.

For a state blob K: its lease is the lock, its metadata name the holder; `K:journal:NUMBER` are
append blobs with the operations since K was written; snapshots of K are its history; `Kenv:NAME` is
the workspace NAME. The settings have OpenTofu's names.
"""

from __future__ import annotations

import base64
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, Final

from msgspec import Struct

from nexusform.backends import backend_definition, journal_lines, locks
from nexusform.backends.backend_definition import (
    DEFAULT_WORKSPACE,
    check_deletable,
    check_name,
    require_backend_package,
)
from nexusform.backends.journal_lines import LineBatcher, LineJournalBackend
from nexusform.backends.locks import LeaseLost, LockLease, read_lease_seconds, read_monotonic_clock
from nexusform.domains.remote_state.backends.azure_login import (
    NOT_SIGNED_IN,
    create_blob_credential,
)
from nexusform.files.regular_files import FileTooLarge
from nexusform.files.sandbox import declare_server
from nexusform.interfaces.state_storage import (
    BackendProblem,
    LockInfo,
    StateLocked,
    StoredStateVersion,
)
from nexusform.json_data.plain_data import get_text
from nexusform.network.connection_errors import find_connection_error
from nexusform.network.limited_session import build_limited_session
from nexusform.network.read_limits import ReadByteLimit
from nexusform.network.web_errors import check_plain_credentials

# Classes of azure-storage-blob: their keyword arguments are typed too loosely for checks.
ContainerClient = Any
BlobClient = Any

# The metadata key of the holder.
_LOCK: Final = "nexusformlock"
_WORKSPACE: Final = "env:"
_JOURNAL: Final = ":journal:"
# An append blob ends at 50,000.
_MAX_BLOCKS: Final = 40_000
# Maximum bytes of one block.
_MAX_BLOCK_BYTES: Final = 4 << 20
# Number of bytes that come with the size of a blob.
_FIRST_READ_BYTES: Final = 1 << 20


class AzureBackend(LineJournalBackend):
    """State of one workspace in a blob; see the module."""

    _journal: _BlobJournal

    def __init__(
        self,
        container: ContainerClient,
        key: str,
        *,
        snapshots: bool = True,
        workspace: str = DEFAULT_WORKSPACE,
        max_bytes: int = backend_definition.MAXIMUM_SIZE,
    ) -> None:
        """Prepare access to the blob `key` (with a suffix for other workspaces).

        With `snapshots`, old versions are kept.
        """
        check_name(workspace)
        self._max_bytes = max_bytes
        self._container = container
        self._key = key
        self._snapshots = snapshots
        self._workspace = workspace
        self._name = key if workspace == DEFAULT_WORKSPACE else f"{key}{_WORKSPACE}{workspace}"
        self._blob: BlobClient = container.get_blob_client(self._name)
        self._lease_state: _HeldBlobLease | None = None
        self._journal = _BlobJournal(
            container, f"{self._name}{_JOURNAL}", self.check_lease, max_bytes
        )

    def describe(self) -> str:
        """Return the URL of the blob, without credentials."""
        return f"{self._container.url.split('?')[0]}/{self._name}"

    def read(self) -> bytes | None:
        """Return the state document, None if there is none."""
        return self._read_with_etag()[0]

    def write(self, document: bytes) -> None:
        """Replace the document and keep the previous one as a snapshot.

        An equal document is not written.
        """
        self._mark_base(document)
        self._replace_document(document)

    def _replace_document(self, document: bytes) -> None:
        """Replace the document unless it is equal."""
        from azure.core import MatchConditions

        self.check_lease()
        current, etag = self._read_with_etag()
        if current == document:
            return
        with self._convert_errors("write the state"):
            if current is not None and self._snapshots:
                lease_argument = (
                    {} if self._lease_state is None else {"lease": self._lease_state.lease_id}
                )
                self._blob.create_snapshot(**lease_argument)
            # The write is under the lease, or only over the version read before.
            if self._lease_state is not None:
                # With the holder of the lock; uploads replace it.
                metadata = self._blob.get_blob_properties().metadata
                lease_id = self._lease_state.lease_id
                self._blob.upload_blob(document, overwrite=True, metadata=metadata, lease=lease_id)
            elif etag:
                condition = MatchConditions.IfNotModified
                self._blob.upload_blob(
                    document, overwrite=True, etag=etag, match_condition=condition
                )
            else:
                # No blob was found.
                self._blob.upload_blob(document, overwrite=False)

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document, then empty the journal but for `keep`.

        A mark lets its readers skip older lines.
        """
        with self._convert_errors("write to the journal"):
            if keep or self._journal.has_lines():
                self._journal.add_lines([journal_lines.build_compaction_mark(document), *keep])
        self._replace_document(document)
        # After a lost lock, the journal is another run's.
        self.check_lease()
        if keep:
            # The journal continues with these records.
            with self._convert_errors("write to the journal"):
                self._journal.add_lines([journal_lines.WRITTEN_MARK])
            return
        with self._convert_errors("empty the journal"):
            self._journal.delete()
        self._has_named_document = False

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock, also from a holder with an expired lease (then return a warning).

        Raises StateLocked.
        """
        from azure.core.exceptions import HttpResponseError

        seconds = read_lease_seconds()
        sent_at = read_monotonic_clock()
        with self._convert_errors("lock the state"):
            try:
                client = self._acquire_lease(seconds)
            except HttpResponseError as refusal:
                if _get_error_code(refusal) in (
                    "LeaseAlreadyPresent",
                    "LeaseIsBreakingAndCannotBeAcquired",
                ):
                    raise StateLocked(self.read_lock()) from None
                raise
            try:
                self._journal.reset()
                self._has_named_document = False
                previous_holder = _parse_lock_holder(self._blob.get_blob_properties().metadata)
                self._write_lock_holder(info, client.id)
                # Now a former holder cannot append.
                self._journal.write_seal(info.id)
            except BaseException:
                client.release()
                raise

        def renew() -> None:
            try:
                client.renew(timeout=10)
            except HttpResponseError as refusal:
                # No blob, no lease, or another lease.
                if refusal.status_code in (404, 409, 412):
                    raise LeaseLost("its lease was broken, or another run holds the lock") from None
                raise

        self._lease_state = _HeldBlobLease(client.id, LockLease(seconds, renew))
        self._lease_state.lease.begin(sent_at)
        if previous_holder is None:
            return []
        return [
            (
                f"The lock of {locks.describe_lock_holder(previous_holder)} was replaced: its "
                "lease had expired."
            )
        ]

    def unlock(self, lock_id: str) -> None:
        """Release the lock.

        Raises BackendProblem if it is not held under this id.
        """
        lease_state = self._lease_state
        self._lease_state = None
        if lease_state is not None:
            lease_state.lease.stop()
        holder = self.read_lock()
        if holder is None or holder.id != lock_id or lease_state is None:
            raise BackendProblem(locks.format_unlock_failure(lock_id, holder))
        with self._convert_errors("unlock the state"):
            properties = self._blob.get_blob_properties()
            if properties.size == 0:
                # It was for the lock.
                self._blob.delete_blob(delete_snapshots="include", lease=lease_state.lease_id)
                return
            self._write_lock_holder(info=None, lease_id=lease_state.lease_id)
            self._create_lease_client(lease_state.lease_id).release()

    def read_lock(self) -> LockInfo | None:
        """Return the current holder of the lock; a lease without a record has an unknown holder."""
        from azure.core.exceptions import ResourceNotFoundError

        with self._convert_errors("read the lock"):
            try:
                properties = self._blob.get_blob_properties()
            except ResourceNotFoundError as refusal:
                if _get_error_code(refusal) != "BlobNotFound":
                    raise
                # No state, and no lock.
                return None
        if properties.lease.state != "leased":
            # The lease is expired or broken.
            return None
        return _parse_lock_holder(properties.metadata) or locks.parse_lock(b"")

    def force_unlock(self, lock_id: str) -> None:
        """Break the lease of the lock with this id, and seal the journal.

        Its former holder cannot append.
        """
        locks.check_breakable(lock_id, self.read_lock())
        with self._convert_errors("break the lock"):
            self._create_lease_client().break_lease(lease_break_period=0)
            self._write_lock_holder(info=None)
            self._journal.write_seal(f"broken {lock_id}")

    def list_workspaces(self) -> list[str]:
        """Return the default workspace and those with a state.

        An empty blob is for a lock alone.
        """
        prefix = f"{self._key}{_WORKSPACE}"
        with self._convert_errors("list the workspaces"):
            blobs = list(self._container.list_blobs(name_starts_with=prefix))
        names = (blob.name.removeprefix(prefix) for blob in blobs if blob.size)
        # ":": a journal.
        return [DEFAULT_WORKSPACE, *sorted(name for name in names if ":" not in name)]

    def select_workspace(self, name: str) -> AzureBackend:
        """Return the backend of another workspace in the same container and key."""
        return AzureBackend(
            self._container,
            self._key,
            snapshots=self._snapshots,
            workspace=name,
            max_bytes=self._max_bytes,
        )

    def delete_workspace(self, name: str) -> None:
        """Delete the blobs of a workspace and its history, with the lock held on it here."""
        check_deletable(name, self.list_workspaces())
        workspace = self if name == self._workspace else self.select_workspace(name)
        workspace.remove()

    def remove(self) -> None:
        """Delete state, journal and history; the lock held here is the lease of the state."""
        self.check_lease()
        lease_state = self._lease_state
        lease_argument = {} if lease_state is None else {"lease": lease_state.lease_id}
        with self._convert_errors("delete the workspace"):
            self._journal.delete()
            self._journal.delete_copies()
            self._blob.delete_blob(delete_snapshots="include", **lease_argument)
        self._lease_state = None
        if lease_state is not None:
            lease_state.lease.stop()

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the earlier documents, newest first."""
        with self._convert_errors("list the history"):
            blobs = list(
                self._container.list_blobs(name_starts_with=self._name, include=["snapshots"])
            )
        snapshots = sorted(
            blob.snapshot for blob in blobs if blob.name == self._name and blob.snapshot
        )
        # Its time is its id.
        return [StoredStateVersion(snapshot, snapshot) for snapshot in reversed(snapshots)]

    def read_version(self, version: str) -> bytes:
        """Return an earlier document by its id."""
        with self._convert_errors("read the history"):
            snapshot = self._container.get_blob_client(self._name, snapshot=version)
            return _read_content(snapshot.download_blob(), ReadByteLimit(self._max_bytes))

    def _read_with_etag(self) -> tuple[bytes | None, str]:
        """Return the document and its ETag; (None, "") without a blob.

        An empty blob exists only for its lease.
        """
        from azure.core.exceptions import ResourceNotFoundError

        with self._convert_errors("read the state"):
            try:
                download = self._blob.download_blob()
            except ResourceNotFoundError as refusal:
                if _get_error_code(refusal) != "BlobNotFound":
                    # A missing container, or an error of another server.
                    raise
                return None, ""
            document = _read_content(download, ReadByteLimit(self._max_bytes))
            return document or None, str(download.properties.etag)

    def _acquire_lease(self, seconds: int) -> Any:
        """Acquire a lease of the blob; create the blob, empty, if it is absent."""
        from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError

        try:
            return self._blob.acquire_lease(lease_duration=seconds, lease_id=str(uuid.uuid4()))
        except ResourceNotFoundError:
            # Another process has created it; the lease decides.
            with suppress(ResourceExistsError):
                self._blob.upload_blob(b"", overwrite=False)
            return self._blob.acquire_lease(lease_duration=seconds, lease_id=str(uuid.uuid4()))

    def _create_lease_client(self, lease_id: str | None = None) -> Any:
        from azure.storage.blob import BlobLeaseClient

        return BlobLeaseClient(self._blob, lease_id)

    def _write_lock_holder(self, info: LockInfo | None, lease_id: str | None = None) -> None:
        """Write the holder of the lock to the metadata of the blob, or remove it (None)."""
        metadata = dict(self._blob.get_blob_properties().metadata or {})
        metadata.pop(_LOCK, None)
        if info is not None:
            metadata[_LOCK] = base64.b64encode(locks.format_lock(info)).decode()
        # Azure requires the id of an active lease.
        lease = {"lease": lease_id} if lease_id else {}
        self._blob.set_blob_metadata(metadata, **lease)

    def check_lease(self) -> None:
        """Raise a BackendProblem if the lock was held here and its lease is lost."""
        if self._lease_state is not None:
            self._lease_state.lease.check_valid()

    @contextmanager
    def _convert_errors(self, operation: str) -> Iterator[None]:
        """Convert errors of Azure to BackendProblem.

        `operation` is a verb phrase: `read the lock`.
        """
        from azure.core.exceptions import AzureError

        try:
            yield
        except AzureError as problem:
            raise BackendProblem(
                f"Cannot {operation} at {self.describe()}: {_format_reason(problem)}"
            ) from None
        except FileTooLarge as problem:
            raise backend_definition.build_size_problem(
                operation, f"at {self.describe()}", problem
            ) from None


class _HeldBlobLease(Struct):
    """Lock held by this object."""

    lease_id: str
    lease: LockLease


class _BlobJournal:
    """Numbered append blobs.

    Blocks state their position, so one of two writers fails.
    """

    def __init__(
        self,
        container: ContainerClient,
        prefix: str,
        check_lease: Callable[[], None],
        max_bytes: int,
    ) -> None:
        """Prepare access to blobs with this name prefix.

        `check_lease` raises BackendProblem if the lease is lost.
        """
        self._max_bytes = max_bytes
        self._container = container
        self._prefix = prefix
        # Not below the prefix of the journal.
        self._copy_prefix = f"{prefix[:-1]}.old"
        self._check_lease = check_lease
        # It joins concurrent appends.
        self._batch_writer = LineBatcher(self._write_lines)
        # The open one, for appends.
        self._blob: BlobClient | None = None
        # In the name of this blob.
        self._number = 0
        self._position = 0  # its size
        # Its number of blocks.
        self._blocks = 0

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Append lines.

        Raises AzureError, BackendProblem.
        """
        if lines:
            self._batch_writer.add_lines(lines)

    def list_lines(self) -> list[bytes]:
        """Return every line of every blob, in order."""
        reading = ReadByteLimit(self._max_bytes)
        texts = [
            _read_content(self._get_blob(name).download_blob(), reading)
            for name in self._list_names()
        ]
        return journal_lines.split_journal(texts)

    def has_lines(self) -> bool:
        """Return whether there is any line."""
        return self._blob is not None or bool(self._list_names())

    def keep_copy(self, lines: Sequence[bytes]) -> str:
        """Write the lines to a new blob beside the journal; return its URL."""
        from azure.core.exceptions import ResourceExistsError

        for number in count(1):
            blob = self._get_blob(f"{self._copy_prefix}{number if number > 1 else ''}")
            try:
                blob.upload_blob(b"\n".join([*lines, b""]), overwrite=False)
            except ResourceExistsError:
                continue
            return str(blob.url).split("?")[0]
        raise AssertionError

    def reset(self) -> None:
        """Reset the position: other writers may have appended."""
        self._batch_writer = LineBatcher(self._write_lines)
        self._blob = None

    def write_seal(self, lock_id: str) -> None:
        """Append a seal record.

        A former writer expects the old end of the blob, so its next append fails.
        """
        if self._list_names():
            self._open_journal_blob()
            self._write_lines([journal_lines.build_seal_record(lock_id)])

    def delete(self) -> None:
        """Delete the blobs; later ones continue their numbers."""
        for name in self._list_names():
            self._get_blob(name).delete_blob()
        self._blob = None

    def delete_copies(self) -> None:
        """Delete the copies of journals that continued other documents."""
        for name in list(self._container.list_blob_names(name_starts_with=self._copy_prefix)):
            self._get_blob(name).delete_blob()

    def _list_names(self) -> list[str]:
        return sorted(self._container.list_blob_names(name_starts_with=self._prefix))

    def _get_blob(self, name: str) -> BlobClient:
        return self._container.get_blob_client(name)

    def _write_lines(self, lines: list[bytes]) -> None:
        """Append lines in blocks; a holder without its lease must not continue."""
        self._check_lease()
        data = b"\n".join([*lines, b""])
        for start in range(0, len(data), _MAX_BLOCK_BYTES):
            self._append_block(data[start : start + _MAX_BLOCK_BYTES])
        self._check_lease()

    def _append_block(self, data: bytes) -> None:
        """Append bytes to the journal blob.

        If an earlier response was lost, the bytes may be there already.
        """
        from azure.core.exceptions import HttpResponseError

        # None is open, or Azure allows few more appends.
        if self._blob is None or self._blocks >= _MAX_BLOCKS:
            self._open_journal_blob(creates_next=self._blob is not None)
        assert self._blob is not None
        try:
            self._blob.append_block(data, appendpos_condition=self._position)
        except HttpResponseError as refusal:
            if _get_error_code(refusal) != "AppendPositionConditionNotMet":
                raise
            download = self._blob.download_blob(offset=self._position, length=len(data) + 1)
            # Another process wrote it.
            if bytes(download.readall()) != data:
                raise
        self._position += len(data)
        self._blocks += 1

    def _open_journal_blob(self, *, creates_next: bool = False) -> None:
        """Open the last blob at its end.

        Create the next one with `creates_next`, or if there is none.
        """
        from azure.core import MatchConditions

        names = self._list_names()
        if names and not creates_next:
            self._blob = self._get_blob(names[-1])
            properties = self._blob.get_blob_properties()
            self._number = int(names[-1].removeprefix(self._prefix))
            self._position = properties.size
            self._blocks = properties.append_blob_committed_block_count or 0
            return
        # Number of the last deleted blob.
        last_number = int(names[-1].removeprefix(self._prefix)) if names else self._number
        self._number = last_number + 1
        self._blob = self._get_blob(f"{self._prefix}{self._number:08}")
        self._blob.create_append_blob(match_condition=MatchConditions.IfMissing)
        self._position = self._blocks = 0


def _read_content(download: Any, reading: ReadByteLimit) -> bytes:
    """Return the content of a blob; its size is known from its first part.

    Raises FileTooLarge, AzureError.
    """
    from azure.core.exceptions import IncompleteReadError

    reading.reserve(download.size)
    content = bytes(download.readall())
    if len(content) != download.size:
        raise IncompleteReadError(
            f"The answer was cut off: {len(content)} of {download.size} bytes received."
        )
    return content


def _parse_lock_holder(metadata: Mapping[str, str] | None) -> LockInfo | None:
    """Parse the holder in the metadata of a blob, in base64 or as text.

    Return None if the holder is absent or unreadable.
    """
    text = get_text(metadata, _LOCK)
    try:
        if not text:
            return None  # no holder
        try:
            return locks.parse_lock(base64.b64decode(text))
        except ValueError:  # not base64
            return locks.parse_lock(text.encode())
    except ValueError:
        return None  # unreadable


def _get_error_code(problem: Any) -> str:
    return str(getattr(problem, "error_code", None) or "")


def _format_reason(problem: Any) -> str:
    """Format the reason of a failed request, with a hint for known error codes."""
    from azure.core.exceptions import ClientAuthenticationError

    if isinstance(problem, ClientAuthenticationError) and not _get_error_code(problem):
        # There is no token; Azure Storage did not answer.
        return NOT_SIGNED_IN
    status = getattr(problem, "status_code", None) or 0
    if status // 100 == 3:
        return (
            f"the server answered {status} (redirect). Azure Storage never redirects: correct the "
            "address."
        )
    code = _get_error_code(problem)
    if "<html" in str(problem.message).lower() or "<!doctype" in str(problem.message).lower():
        return f"the server answered {status} with a web page. A proxy may answer in its place."
    connection_error = find_connection_error(problem)
    if connection_error:
        return f"{connection_error}."
    line = str(problem.message).splitlines()[0] if problem.message else type(problem).__name__
    # An absent code, "", is in every line.
    return _HINTS.get(code, line if code in line else f"{line} ({code})")


_HINTS: Final[Mapping[str, str]] = {
    "AppendPositionConditionNotMet": (
        "another run has written to the journal; this one lost its lock."
    ),
    "ConditionNotMet": "another process changed it without the lock. Run the command again.",
    "BlobAlreadyExists": "another process wrote it without the lock. Run the command again.",
    "LeaseIdMissing": "another run holds its lock.",
    "LeaseIdMismatchWithBlobOperation": "another run now holds its lock.",
    "LeaseLost": "the lease expired or was broken. Another run may hold the lock.",
    "LeaseNotPresentWithBlobOperation": "the lease was broken. Another run may hold the lock.",
    "ContainerNotFound": "the container does not exist. Create it, or correct container_name.",
    "AuthenticationFailed": "the credentials were rejected.",
    "AuthorizationFailure": "these credentials lack the permission.",
    "AuthorizationPermissionMismatch": (
        "these credentials lack a role such as Storage Blob Data Contributor."
    ),
}


def open_azurerm(
    settings: Mapping[str, Any], max_bytes: int = backend_definition.MAXIMUM_SIZE
) -> AzureBackend:
    """Build the backend of the settings; no request is sent.

    Raises BackendProblem.
    """
    with require_backend_package("azurerm"):
        from azure.core.pipeline.transport import RequestsTransport
        from azure.storage.blob import ContainerClient
    # The SDK reports errors as exceptions, too.
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    account = settings.get("storage_account_name") or ""
    endpoint = settings.get("endpoint") or f"https://{account}.blob.core.windows.net"
    # Why credentials must not be sent there, or "".
    rejection = check_plain_credentials(endpoint)
    if rejection:
        raise BackendProblem(f"Cannot connect to Azure Storage: {rejection}.")
    # The SDK opens its own connections.
    declare_server(endpoint)
    session = build_limited_session(endpoint)
    container = ContainerClient(
        endpoint,
        settings["container_name"],
        credential=create_blob_credential(settings, account),
        # Default retry delays of the SDK (15 s and more) exceed the lease time.
        retry_total=3,
        initial_backoff=1,
        increment_base=2,
        transport=RequestsTransport(
            session=session,
            connection_verify=session.verify,
            connection_timeout=10,
            read_timeout=60,
        ),
        max_single_get_size=_FIRST_READ_BYTES,
        # A redirect would send the state to any host in a response.
        permit_redirects=False,
    )
    # Also if it is not set.
    takes_snapshots = settings.get("snapshot") is not False
    return AzureBackend(container, settings["key"], snapshots=takes_snapshots, max_bytes=max_bytes)
