"""State in an object of an S3 bucket, or of any S3-compatible server with conditional writes.

For a state object K: `K.lock` names the lock holder and is renewed while the lock is held;
`K.journal/NUMBER` are the operations since K was written; the versions of K, if the bucket keeps
them, are its history. The objects of workspace NAME are below `env:/NAME/`. Settings have
OpenTofu's names. All decisions use conditional writes. A lock object is created with If-None-Match
and renewed with If-Match; its age is the server's time minus the server's time of the last renewal,
so client clocks do not matter. Journal objects are created with If-None-Match under the next
number. A new lock holder writes the next number and changes the ETag of K, so that no write of the
former holder is accepted.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import chain, count
from typing import Any, Final
from urllib.parse import urlsplit

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
from nexusform.documents.scalars import parse_integer
from nexusform.files.regular_files import FileTooLarge
from nexusform.files.sandbox import declare_program, declare_server
from nexusform.interfaces.state_storage import (
    BackendProblem,
    LockInfo,
    StateLocked,
    StoredStateVersion,
)
from nexusform.network.connection_errors import find_connection_error
from nexusform.network.read_limits import ReadByteLimit
from nexusform.network.web_errors import check_plain_credentials

# Members of the lock object in addition to those of LockInfo.
_LEASE: Final = "Lease"
_RENEWED: Final = "Renewed"
_AMAZON: Final = re.compile(r"https://[^/@]+\.amazonaws\.com(?:\.cn)?/?")
_AMAZON_DOMAINS: Final = ("amazonaws.com", "amazonaws.com.cn")
# Services that botocore gets credentials from, and the addresses on this machine.
_SIGN_IN_SERVICES: Final = ("sts", "portal.sso", "oidc")
_SIGN_IN_SERVERS: Final = (
    "http://169.254.169.254",
    "http://169.254.170.2",
    "http://169.254.170.23",
    "http://[fd00:ec2::254]",
    "http://[fd00:ec2::23]",
)
_SIGN_IN_VARIABLES: Final = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_EC2_METADATA_SERVICE_ENDPOINT",
)
# Of the journal, while another run empties it.
_LIST_ATTEMPTS: Final = 5
# A bare 404 may be from a proxy.
_MISSING_CODE: Final = "NoSuchKey"
_MISSING_CODES: Final = (_MISSING_CODE, "NotFound", "404")
_CONFLICT_CODES: Final = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")


class S3Backend(LineJournalBackend):
    """State of one workspace in a bucket; see the module.

    `client` is boto3's.
    """

    _journal: _BucketJournal

    def __init__(
        self,
        client: Any,
        bucket: str,
        key: str,
        *,
        prefix: str = "env:",
        workspace: str = DEFAULT_WORKSPACE,
        max_bytes: int = backend_definition.MAXIMUM_SIZE,
    ) -> None:
        """Prepare the access to the object `key`.

        For another than the default workspace, the object is PREFIX/WORKSPACE/KEY.
        """
        check_name(workspace)
        self._client = client
        self._bucket = bucket
        self._base_key = key
        self._workspace = workspace
        self._prefix = prefix
        self._key = key if workspace == DEFAULT_WORKSPACE else f"{prefix}/{workspace}/{key}"
        self._objects = _BucketObjects(client, bucket, max_bytes)
        self._lock_key = f"{self._key}.lock"
        self._lease: LockLease | None = None
        self._journal = _BucketJournal(self._objects, f"{self._key}.journal/", self.check_lease)

    def describe(self) -> str:
        """Return the S3 URL of the object, with the service unless it is Amazon's."""
        location = f"s3://{self._bucket}/{self._key}"
        service = str(self._client.meta.endpoint_url)
        return (
            location if _AMAZON.fullmatch(service) else f"{location} ({service.rpartition('@')[2]})"
        )

    def read(self) -> bytes | None:
        """Return the state document, None if there is none."""
        with self._convert_errors("read the state"):
            content, _ = self._objects.get_content(self._key)
        return _strip_added_line_ends(content)

    def write(self, document: bytes) -> None:
        """Replace the document if it is unchanged since it was read.

        An equal document is not written.
        """
        self._mark_base(document)
        self._replace_document(document)

    def _replace_document(self, document: bytes) -> None:
        """Replace the document if it is unchanged since it was read, unless it is equal."""
        self.check_lease()
        with self._convert_errors("write the state"):
            content, etag = self._objects.get_content(self._key)
            if _strip_added_line_ends(content) == document:
                return
            self._objects.put(self._key, document, etag)
        self.check_lease()

    def write_merged_state(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document, then empty the journal but for `keep`.

        A mark lets its readers skip older lines.
        """
        with self._convert_errors("write to the journal"):
            has_lines = bool(keep) or self._journal.has_lines()
            if has_lines:
                self._journal.add_lines([journal_lines.build_compaction_mark(document), *keep])
        self._replace_document(document)
        # Newer objects before the mark may stay: readers skip them.
        if has_lines:
            with self._convert_errors("empty the journal"):
                self._journal.add_lines([journal_lines.WRITTEN_MARK])
                # Objects older than so many leases are removed.
                kept_leases = 2
                self._journal.delete_old_objects(kept_leases * read_lease_seconds())

    def lock(self, info: LockInfo) -> list[str]:
        """Acquire the lock or raise StateLocked; an expired one is replaced, with a warning."""
        seconds = read_lease_seconds()
        sent_at = read_monotonic_clock()
        with self._convert_errors("lock the state"):
            current = self._read_lock()
            if current is not None and current.age < current.seconds:
                raise StateLocked(current.holder)
            # The version to replace; "": none may exist.
            etag = current.etag if current is not None else ""
            try:
                content = locks.format_lock(info, **{_LEASE: str(seconds), _RENEWED: "0"})
                etag = self._objects.put(self._lock_key, content, etag)
            except _WriteConflict:
                # Another process was faster.
                raise StateLocked(self.read_lock()) from None
            lock_state = _HeldLock(etag)
            self._journal.reset()
            self._has_named_document = False
            # The former holder may only be suspended, and write later.
            if current is not None:
                self._block_former_holder(info.id)

        def renew() -> None:
            lock_state.renewals += 1
            renewed_content = locks.format_lock(
                info, **{_LEASE: str(seconds), _RENEWED: str(lock_state.renewals)}
            )
            try:
                lock_state.etag = self._objects.put(
                    self._lock_key, renewed_content, lock_state.etag
                )
            except _WriteConflict:
                raise LeaseLost("it was broken, or another run holds it") from None

        lease = LockLease(seconds, renew)
        lease.begin(sent_at)
        self._lease = lease
        if current is None:
            return []  # no warning
        previous_holder = locks.describe_lock_holder(current.holder)
        return [
            (
                f"The lock of {previous_holder} was replaced: it was not renewed for "
                f"{current.age:.0f} s."
            )
        ]

    def unlock(self, lock_id: str) -> None:
        """Release the lock.

        Raises BackendProblem if it is not held under this id.
        """
        lease = self._lease
        self._lease = None
        if lease is not None:
            lease.stop()
        with self._convert_errors("unlock the state"):
            current = self._read_lock()
            holder = current.holder if current is not None else None
            if lease is None or current is None or holder is None or holder.id != lock_id:
                raise BackendProblem(locks.format_unlock_failure(lock_id, holder))
            try:
                self._objects.delete(self._lock_key, current.etag)
            except _WriteConflict:
                # The lease expired, and another run holds the lock now.
                raise BackendProblem(
                    locks.format_unlock_failure(lock_id, self.read_lock())
                ) from None

    def read_lock(self) -> LockInfo | None:
        """Return the current holder of the lock; None without one, or if its lease has expired."""
        with self._convert_errors("read the lock"):
            current = self._read_lock()
        return current.holder if current is not None and current.age < current.seconds else None

    def force_unlock(self, lock_id: str) -> None:
        """Delete the lock object with this id; its holder cannot write any more."""
        with self._convert_errors("break the lock"):
            current = self._read_lock()
            is_held = current is not None and current.age < current.seconds
            locks.check_breakable(lock_id, current.holder if current and is_held else None)
            assert current is not None
            self._block_former_holder(f"broken {lock_id}")
            self._objects.delete(self._lock_key, current.etag)

    def list_workspaces(self) -> list[str]:
        """Return the default workspace and those with a state."""
        with self._convert_errors("list the workspaces"):
            keys = self._objects.list_keys(f"{self._prefix}/")
        # Of the key of a state: PREFIX/NAME/KEY.
        start = len(self._prefix) + 1
        suffix = f"/{self._base_key}"
        names = [key[start : -len(suffix)] for key in keys if key.endswith(suffix)]
        # "/": of another state.
        return [DEFAULT_WORKSPACE, *sorted(name for name in names if "/" not in name)]

    def select_workspace(self, name: str) -> S3Backend:
        """Return the backend of another workspace in the same bucket and key."""
        max_bytes = self._objects.max_bytes
        return S3Backend(
            self._client,
            self._bucket,
            self._base_key,
            prefix=self._prefix,
            workspace=name,
            max_bytes=max_bytes,
        )

    def delete_workspace(self, name: str) -> None:
        """Delete the objects of a workspace, with the lock held on it here."""
        check_deletable(name, self.list_workspaces())
        workspace = self if name == self._workspace else self.select_workspace(name)
        workspace.remove()

    def remove(self) -> None:
        """Delete state, journal and lock."""
        self.check_lease()
        with self._convert_errors("delete the workspace"):
            # Other states may have keys that begin with this one.
            for prefix in (f"{self._key}.journal/", f"{self._key}.journal.old"):
                for key in self._objects.list_keys(prefix):
                    self._objects.delete(key)
            self._objects.delete(self._key)
            lease = self._lease
            self._lease = None
            if lease is not None:
                lease.stop()
            self._objects.delete(self._lock_key)

    def list_versions(self) -> list[StoredStateVersion]:
        """Return the earlier versions, newest first; none without bucket versioning."""
        with self._convert_errors("list the history"):
            versions = self._objects.list_versions(self._key)
        return [
            StoredStateVersion(
                version["VersionId"], version["LastModified"].strftime("%Y-%m-%dT%H:%M:%SZ")
            )
            for version in versions
            if not version["IsLatest"]
        ]

    def read_version(self, version: str) -> bytes:
        """Return an earlier document by its id."""
        with self._convert_errors("read the history"):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key, VersionId=version)
            return (
                _strip_added_line_ends(
                    _read_content(answer, ReadByteLimit(self._objects.max_bytes))
                )
                or b""
            )

    def _read_lock(self) -> _StoredLock | None:
        """Read the lock object with its age, None without one.

        The lock may be expired.
        """
        answer = self._objects.get_response(self._lock_key)
        if answer is None:
            return None
        content = _read_content(answer, ReadByteLimit(backend_definition.MAXIMUM_LOCK_SIZE))
        text = locks.read_lock_member(content, _LEASE)
        # 0: expired at once.
        stored_seconds = parse_integer(text)
        lease_seconds = float(read_lease_seconds() if stored_seconds is None else stored_seconds)
        # The seconds from the last renewal to the response, by the server's clock.
        response_time = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
        age = float((response_time - answer["LastModified"]).total_seconds())
        return _StoredLock(locks.parse_lock(content), lease_seconds, age, str(answer["ETag"]))

    def _block_former_holder(self, lock_id: str) -> None:
        """Ensure that no write in progress of a former holder is accepted."""
        self._journal.write_seal(lock_id)
        content, etag = self._objects.get_content(self._key)
        # One more line end: the same document under another ETag (see `_strip_added_line_ends`).
        self._objects.put(self._key, (content or b"") + b"\n", etag)

    def check_lease(self) -> None:
        """Raise a BackendProblem if the lock was held here and is lost."""
        if self._lease is not None:
            self._lease.check_valid()

    @contextmanager
    def _convert_errors(self, operation: str) -> Iterator[None]:
        """Convert errors of S3 to BackendProblem; `operation` is a verb phrase: `read the lock`."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except _WriteConflict:
            raise BackendProblem(
                f"Cannot {operation} at {self.describe()}: another run changed it."
            ) from None
        except (BotoCoreError, ClientError, _IncompleteResponse) as problem:
            # Only a ClientError has it.
            metadata = getattr(problem, "response", {}).get("ResponseMetadata", {})
            status = int(metadata.get("HTTPStatusCode") or 0)
            # A ClientError is an answer of the server: its context may be an earlier try.
            is_answer = isinstance(problem, ClientError)
            connection_error = "" if is_answer else find_connection_error(problem)
            message = f"{connection_error}." if connection_error else f"{problem}"
            if 300 <= status < 400:
                region = metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region")
                location = (
                    f'in the region "{region}"'
                    if region
                    else "in another region or at another address"
                )
                message = (
                    f'the server answered {status} (redirect). The bucket "{self._bucket}" is '
                    f'{location}, not in "{self._client.meta.region_name}". Set region = '
                    f'"{region or "REGION"}", and the endpoint of that region if one is set.'
                )
            raise BackendProblem(f"Cannot {operation} at {self.describe()}: {message}") from None
        except FileTooLarge as problem:
            raise backend_definition.build_size_problem(
                operation, f"at {self.describe()}", problem
            ) from None


class _HeldLock(Struct):
    """Lock held by this object: the ETag of its last renewal, and the number of renewals."""

    etag: str
    renewals: int = 0


class _StoredLock(Struct):
    """Stored lock object; it is expired if `age` exceeds `seconds`."""

    holder: LockInfo
    seconds: float
    age: float
    etag: str


class _WriteConflict(Exception):
    """A conditional write met another version than expected."""


class _IncompleteResponse(Exception):
    """Response that is incomplete, or without a length."""


class _BucketObjects:
    """Objects of a bucket with conditional writes."""

    def __init__(self, client: Any, bucket: str, max_bytes: int) -> None:
        self._client = client
        self.bucket = bucket
        # Maximum bytes of an object that is read.
        self.max_bytes = max_bytes

    def get_response(self, key: str) -> Mapping[str, Any] | None:
        """Return the server's response with body and headers, None if there is no such object."""
        from botocore.exceptions import ClientError

        try:
            answer: Mapping[str, Any] = self._client.get_object(Bucket=self.bucket, Key=key)
        except ClientError as problem:
            if _get_error_code(problem) == _MISSING_CODE:
                return None
            raise
        return answer

    def get_content(
        self, key: str, reading: ReadByteLimit | None = None
    ) -> tuple[bytes | None, str]:
        """Return content and ETag; None and "" if there is no such object.

        Raises FileTooLarge.
        """
        answer = self.get_response(key)
        if answer is None:
            return None, ""
        return _read_content(answer, reading or ReadByteLimit(self.max_bytes)), str(answer["ETag"])

    def put(self, key: str, content: bytes, etag: str) -> str:
        """Write an object if it has this ETag, or for "" if it is missing.

        Return its ETag. Raises _WriteConflict.
        """
        from botocore.exceptions import ClientError

        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        try:
            answer = self._client.put_object(Bucket=self.bucket, Key=key, Body=content, **condition)
        except ClientError as problem:
            if _get_error_code(problem) not in (*_CONFLICT_CODES, *_MISSING_CODES):
                raise
            # The response to an earlier attempt may be lost: then the object has this content.
            current, current_etag = self.get_content(key)
            if current != content:
                raise _WriteConflict from None
            return current_etag
        return str(answer["ETag"])

    def delete(self, key: str, etag: str = "") -> None:
        """Delete an object, if it has this ETag or for "" in any version.

        A missing one is no error. Raises _WriteConflict.
        """
        from botocore.exceptions import ClientError

        if etag:
            try:
                self._client.delete_object(Bucket=self.bucket, Key=key, IfMatch=etag)
            except ClientError as problem:
                code = _get_error_code(problem)
                if code in _CONFLICT_CODES:
                    raise _WriteConflict from None
                # The server has no conditional deletion.
                if code != "NotImplemented":
                    raise
            else:
                return
        self._client.delete_object(Bucket=self.bucket, Key=key)

    def list_keys(self, prefix: str) -> list[str]:
        """Return the keys below a prefix, sorted."""
        return [entry["Key"] for entry in self.list_entries(prefix)]

    def list_entries(self, prefix: str) -> list[Mapping[str, Any]]:
        """Return keys with their times, sorted by key."""
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=prefix
        )
        entries = _collect_entries(pages, "Contents")
        return sorted(entries, key=lambda entry: str(entry["Key"]))

    def list_versions(self, key: str) -> list[Mapping[str, Any]]:
        """Return the versions of one object, newest first."""
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=self.bucket, Prefix=key
        )
        entries = _collect_entries(pages, "Versions")
        # The prefix also matches longer keys; "null" is the version of a bucket without versioning.
        return [entry for entry in entries if entry["Key"] == key and entry["VersionId"] != "null"]


def _read_content(answer: Mapping[str, Any], reading: ReadByteLimit) -> bytes:
    """Return the body of a response; one too large is closed unread.

    Raises FileTooLarge, _IncompleteResponse.
    """
    length = answer.get("ContentLength")
    with closing(answer["Body"]) as body:
        content = reading.read_all(body, length or 0)
    if length is None or len(content) != length:
        raise _IncompleteResponse(
            f"the answer was cut off: {len(content)} of {length} bytes received"
        )
    return content


def _collect_entries(pages: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Collect the entries of all pages (an empty page has no list).

    Raises _IncompleteResponse.
    """
    entries: list[Mapping[str, Any]] = []
    for page in pages:
        # Of the bucket; without it this is no list at all.
        if "Name" not in page:
            raise _IncompleteResponse("the answer is not a list of objects")
        entries += page.get(name, ())
    return entries


class _BucketJournal:
    """Numbered objects; each number is used once, so that one of two concurrent writers fails."""

    def __init__(
        self, objects: _BucketObjects, prefix: str, check_lease: Callable[[], None]
    ) -> None:
        self._objects = objects
        self._prefix = prefix
        self._check_lease = check_lease
        # It joins concurrent appends.
        self._batch_writer = LineBatcher(self._write_lines)
        # The number written last; None: not looked up yet.
        self._last_written: int | None = None

    def add_lines(self, lines: Sequence[bytes]) -> None:
        """Write lines as the next object.

        Raises _WriteConflict if another writer used its number.
        """
        if lines:
            self._batch_writer.add_lines(lines)

    def list_lines(self) -> list[bytes]:
        """Return every line of every object, in order.

        Raises _IncompleteResponse if listed objects cannot be read.
        """
        for _ in range(_LIST_ATTEMPTS):
            reading = ReadByteLimit(self._objects.max_bytes)
            texts = [
                self._objects.get_content(key, reading)[0]
                for key in self._objects.list_keys(self._prefix)
            ]
            known_texts = [text for text in texts if text is not None]
            # Else the holder of the lock has emptied the journal meanwhile.
            if len(known_texts) == len(texts):
                return journal_lines.split_journal(known_texts)
        raise _IncompleteResponse("objects of the journal are listed, but do not exist")

    def has_lines(self) -> bool:
        """Return whether there is any line."""
        return bool(self._last_written) or bool(self._objects.list_keys(self._prefix))

    def keep_copy(self, lines: Sequence[bytes]) -> str:
        """Write the lines to a new object beside the journal; return its address."""
        for number in count(1):
            # Not below the prefix of the journal.
            key = f"{self._prefix[:-1]}.old{number if number > 1 else ''}"
            try:
                self._objects.put(key, b"\n".join([*lines, b""]), etag="")
            except _WriteConflict:
                continue
            return f"s3://{self._objects.bucket}/{key}"
        raise AssertionError

    def reset(self) -> None:
        """Reset the position: other writers may have appended."""
        self._batch_writer = LineBatcher(self._write_lines)
        self._last_written = None

    def write_seal(self, lock_id: str) -> None:
        """Write a seal under the next free number.

        A former holder expects the same free number, and fails.
        """
        self._last_written = self._find_last_number()
        while True:
            try:
                seal = journal_lines.build_seal_record(lock_id) + b"\n"
                self._objects.put(f"{self._prefix}{self._last_written + 1:010}", seal, etag="")
            except _WriteConflict:
                # The former holder was still writing, and took the number.
                self._last_written += 1
            else:
                self._last_written += 1
                return

    def delete_old_objects(self, seconds: float) -> None:
        """Delete objects `seconds` older than the newest, but keep the last number.

        The next one follows from it.
        """
        # Entries in order of their numbers.
        entries = self._objects.list_entries(self._prefix)
        if not entries:
            return
        # By the server's clock.
        newest_time = max(entry["LastModified"] for entry in entries)
        for entry in entries[:-1]:
            if (newest_time - entry["LastModified"]).total_seconds() > seconds:
                self._objects.delete(str(entry["Key"]))

    def _write_lines(self, lines: list[bytes]) -> None:
        """Write lines as the object with the next number.

        Raises _WriteConflict.
        """
        self._check_lease()
        if self._last_written is None:
            self._last_written = self._find_last_number()
        self._objects.put(
            f"{self._prefix}{self._last_written + 1:010}", b"\n".join([*lines, b""]), etag=""
        )
        self._last_written += 1
        # A holder that slept meanwhile must not act upon what it wrote.
        self._check_lease()

    def _find_last_number(self) -> int:
        keys = self._objects.list_keys(self._prefix)
        return int(keys[-1].removeprefix(self._prefix)) if keys else 0


def _strip_added_line_ends(content: bytes | None) -> bytes | None:
    """Return the document with at most one line end (a replaced lock adds one).

    Return None if the document is absent or empty.
    """
    if content is None:
        return None
    document = content.rstrip(b"\n")
    if not document:
        return None
    return document + b"\n" if content.endswith(b"\n") else document


def _disable_region_redirects(context: dict[str, Any], **_arguments: Any) -> None:
    """Prevent endless region lookups on a server that redirects everything."""
    # The library botocore redirects a request only once.
    context.get("s3_redirect", {})["redirected"] = True


def _get_error_code(problem: Any) -> str:
    return str(problem.response.get("Error", {}).get("Code", ""))


@cache
def _load_service_models(data_path: str | None) -> Any:
    """Return botocore's service models, loaded once for all workspaces (0.1 s)."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _declare_sign_in(session: Any, region: str) -> None:
    """Allow a sandboxed run to use the servers and programs of the operator's AWS settings."""
    declare_server(f"https://sts.{_AMAZON_DOMAINS[0]}")
    for address in _SIGN_IN_SERVERS:
        declare_server(address)
    for name, value in os.environ.items():
        if name in _SIGN_IN_VARIABLES or name.startswith("AWS_ENDPOINT_URL"):
            declare_server(value)
    config = session.full_config
    sections = [*config.get("profiles", {}).values(), *config.get("sso_sessions", {}).values()]
    regions = {region, "us-east-1", *(section.get("sso_region") for section in sections)}
    regions.add(session.get_config_variable("region"))
    for name in sorted(filter(None, regions)):
        for service in _SIGN_IN_SERVICES:
            declare_server(f"https://{service}.{name}.{_get_domain(name)}")
    for section in sections:
        # The library botocore reports an invalid command.
        with suppress(ValueError):
            declare_program(shlex.split(str(section.get("credential_process", ""))))
    services = [*sections, *config.get("services", {}).values()]
    for address in _list_endpoints(services):
        declare_server(address)


def _list_endpoints(settings: Any) -> Iterator[str]:
    """Yield the addresses of `endpoint_url` at any depth of AWS settings."""
    if isinstance(settings, Mapping):
        for name, value in settings.items():
            if name == "endpoint_url" and isinstance(value, str):
                yield value
            else:
                yield from _list_endpoints(value)
    elif isinstance(settings, list):
        for item in settings:
            yield from _list_endpoints(item)


def _declare_bucket(session: Any, endpoint: str, bucket: str) -> None:
    """Allow a sandboxed run to use the servers of a bucket, whatever its region is."""
    declare_server(endpoint)
    parts = urlsplit(endpoint)
    declare_server(f"{parts.scheme}://{bucket}.{parts.netloc}")
    # Amazon redirects a request to the region of the bucket.
    if not str(parts.hostname).endswith(_AMAZON_DOMAINS):
        return
    partitions = session.get_available_partitions()
    for region in chain.from_iterable(
        session.get_available_regions("s3", partition) for partition in partitions
    ):
        host = f"s3.{region}.{_get_domain(region)}"
        declare_server(f"https://{host}")
        declare_server(f"https://{bucket}.{host}")


def _get_domain(region: str) -> str:
    """Return the domain of Amazon's servers in a region."""
    return _AMAZON_DOMAINS[1] if region.startswith("cn-") else _AMAZON_DOMAINS[0]


def open_s3(
    settings: Mapping[str, Any], max_bytes: int = backend_definition.MAXIMUM_SIZE
) -> S3Backend:
    """Build the backend of the settings and its S3 client; no request is sent.

    Raises BackendProblem.
    """
    with require_backend_package("s3"):
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    style = {"addressing_style": "path"} if settings.get("use_path_style") else {}
    try:
        core = Session()
        _declare_sign_in(core, str(settings.get("region") or ""))
        core.register_component(
            "data_loader", _load_service_models(core.get_config_variable("data_path"))
        )
        session = boto3.Session(
            botocore_session=core,
            aws_access_key_id=settings.get("access_key"),
            aws_secret_access_key=settings.get("secret_key"),
            aws_session_token=settings.get("token"),
            region_name=settings.get("region"),
            profile_name=settings.get("profile"),
        )
        client = session.client(
            "s3",
            endpoint_url=settings.get("endpoint"),
            config=Config(
                s3=style,
                connect_timeout=10,
                read_timeout=60,
                retries={"mode": "standard", "max_attempts": 4},
                # Other servers than Amazon's may know no checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (BotoCoreError, ValueError) as problem:
        raise BackendProblem(f'The backend "s3" cannot be opened: {problem}') from None
    # Why credentials must not be sent there, or "".
    rejection = check_plain_credentials(client.meta.endpoint_url)
    if rejection:
        raise BackendProblem(f'The backend "s3" cannot be opened: {rejection}.')
    _declare_bucket(core, client.meta.endpoint_url, settings["bucket"])
    # They may be endless.
    client.meta.events.register("before-call.s3.HeadBucket", _disable_region_redirects)
    prefix = settings.get("workspace_key_prefix") or "env:"
    return S3Backend(
        client, settings["bucket"], settings["key"], prefix=prefix, max_bytes=max_bytes
    )
