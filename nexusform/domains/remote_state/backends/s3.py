"""State in an object of an S3 bucket, or of any server that speaks S3 with conditional writes.

For a state object K: `K.lock` says who holds the lock and is renewed while it is held; `K.journal/NUMBER` is
what an apply has done since K was written; the versions of K, where the bucket keeps them, are its history.
The workspace NAME has its objects below `env:/NAME/`. Settings have OpenTofu's names.

All is decided by conditional writes. A lock object is made with If-None-Match and renewed with If-Match; its
age is the server's time less the server's time of the last renewal, so no clock of a client counts. Journal
objects are made with If-None-Match under the next number. Whoever takes over a lock writes the next number
and changes the ETag of K, so that nothing of the former holder is accepted any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final

from nexusform.backends import journal_lines, locks, refusals
from nexusform.backends.journal_lines import Gathering, KeepsLines
from nexusform.backends.locks import Lease, LeaseLost, lease_seconds, now
from nexusform.backends.refusals import DEFAULT, Reading, check_deletable, check_name, needing
from nexusform.regular_files import TooLarge
from nexusform.state_ports import BackendProblem, LockHeld, LockInfo, StoredVersion

_LEASE: Final = "Lease"  # members of the lock object beside those of LockInfo
_RENEWED: Final = "Renewed"
_REFUSED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_AMAZON: Final = re.compile(r"https://[^/@]+\.amazonaws\.com(?:\.cn)?/?")
_ABSENT: Final = "NoSuchKey"  # a bare 404 may come from anybody on the way
_GONE: Final = frozenset({_ABSENT, "NotFound", "404"})
_KEPT_LEASES: Final = 2  # journal objects are removed once they are older than so many leases


class S3Backend(KeepsLines):
    """The state of one workspace in a bucket; see the module. `client` is boto3's."""

    _journal: _Journal

    def __init__(
        self,
        client: Any,
        bucket: str,
        key: str,
        *,
        prefix: str = "env:",
        workspace: str = DEFAULT,
        largest: int = refusals.LARGEST,
    ) -> None:
        check_name(workspace)
        self._client = client
        self._bucket = bucket
        self._base_key = key
        self._prefix = prefix
        self._key = key if workspace == DEFAULT else f"{prefix}/{workspace}/{key}"
        self._objects = _Objects(client, bucket, largest)
        self._lock_key = f"{self._key}.lock"
        self._held: _HeldLock | None = None
        self._journal = _Journal(self._objects, f"{self._key}.journal/", self.check_lease)

    def describe(self) -> str:
        """The S3 URL of the object, and of which service where it is not Amazon's."""
        place = f"s3://{self._bucket}/{self._key}"
        service = str(self._client.meta.endpoint_url)
        return place if _AMAZON.fullmatch(service) else f"{place} ({service.rpartition('@')[2]})"

    def read(self) -> bytes | None:
        """The state document, None when there is none."""
        with self._explained("read the state"):
            content, _ = self._objects.get(self._key)
        return _document(content)

    def write(self, document: bytes) -> None:
        """Replace the document if it is still the one that was read. The same document: nothing."""
        self.check_lease()
        with self._explained("write the state"):
            content, etag = self._objects.get(self._key)
            if _document(content) == document:
                return
            self._objects.put(self._key, document, etag)
        self.check_lease()

    def compact(self, document: bytes, keep: Sequence[bytes] = ()) -> None:
        """Write the document and empty the journal, so that a crash in between counts nothing twice."""
        with self._explained("write to the journal"):
            begun = bool(keep) or self._journal.begun()
            if begun:
                self._journal.add([journal_lines.compaction_mark(document), *keep])
        self.write(document)
        if begun:
            with self._explained("empty the journal"):
                self._journal.remove_old(_KEPT_LEASES * lease_seconds())

    def lock(self, info: LockInfo) -> list[str]:
        """Take the lock or raise LockHeld; one not renewed in its time is replaced, with a warning."""
        seconds = lease_seconds()
        sent_at = now()
        with self._explained("lock the state"):
            standing = self._standing_lock()
            if standing is not None and standing.age < standing.seconds:
                raise LockHeld(standing.holder)
            etag = standing.etag if standing is not None else ""
            try:
                etag = self._objects.put(self._lock_key, _lock_content(info, seconds, 0), etag)
            except _Refused:
                raise LockHeld(self.holder()) from None
            held = _HeldLock(info, seconds, etag)
            self._journal.reset()
            if standing is not None:
                self._fence(info.id)
        held.lease = Lease(seconds, self._renewal(held))
        held.lease.begin(sent_at)
        self._held = held
        if standing is None:
            return []
        who = locks.describe(standing.holder) if standing.holder else "somebody"
        return [f"The lock of {who} was taken over: it was not renewed for {standing.age:.0f} s."]

    def unlock(self, lock_id: str) -> None:
        """Give the lock back; a BackendProblem when it is no longer held under this id."""
        held, self._held = self._held, None
        if held is not None and held.lease is not None:
            held.lease.end()
        with self._explained("unlock the state"):
            standing = self._standing_lock()
            holder = standing.holder if standing is not None else None
            if held is None or holder is None or holder.id != lock_id:
                raise BackendProblem(locks.not_released(lock_id, holder))
            self._objects.delete(self._lock_key)

    def holder(self) -> LockInfo | None:
        """Who holds the lock now."""
        with self._explained("look at the lock"):
            standing = self._standing_lock()
        return standing.holder if standing is not None and standing.age < standing.seconds else None

    def force_unlock(self, lock_id: str) -> None:
        """Remove the lock object with this id; its holder cannot write any more."""
        holder = self.holder()
        if holder is None or holder.id != lock_id:
            raise BackendProblem(locks.not_broken(lock_id, holder))
        with self._explained("break the lock"):
            self._fence(f"broken {lock_id}")
            self._objects.delete(self._lock_key)

    def workspaces(self) -> list[str]:
        """The default workspace and those that have a state."""
        with self._explained("list the workspaces"):
            keys = self._objects.keys(f"{self._prefix}/")
        ends = f"/{self._base_key}"
        middle = [key[len(self._prefix) + 1 : -len(ends)] for key in keys if key.endswith(ends)]
        return [DEFAULT, *sorted(name for name in middle if "/" not in name)]

    def for_workspace(self, name: str) -> S3Backend:
        """The same bucket and key, another workspace."""
        return S3Backend(
            self._client,
            self._bucket,
            self._base_key,
            prefix=self._prefix,
            workspace=name,
            largest=self._objects.largest,
        )

    def delete_workspace(self, name: str) -> None:
        """Remove the objects of a workspace."""
        check_deletable(name, self.workspaces())
        self.for_workspace(name).remove()

    def remove(self) -> None:
        """Delete state, lock and journal."""
        with self._explained("delete the workspace"):
            for key in self._objects.keys(self._key):
                self._objects.delete(key)

    def history(self) -> list[StoredVersion]:
        """The earlier versions, newest first; none where the bucket keeps no versions."""
        with self._explained("list the history"):
            versions = self._objects.versions(self._key)
        return [
            StoredVersion(version["VersionId"], version["LastModified"].strftime("%Y-%m-%dT%H:%M:%SZ"))
            for version in versions
            if not version["IsLatest"]
        ]

    def read_version(self, version: str) -> bytes:
        """One of `history` by its id."""
        with self._explained("read the history"):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._key, VersionId=version)
            return _document(_content(answer, Reading(self._objects.largest))) or b""

    # --- how ---------------------------------------------------------------------------------

    def _standing_lock(self) -> _StandingLock | None:
        answer = self._objects.get_answer(self._lock_key)
        if answer is None:
            return None
        content = _content(answer, Reading(refusals.LARGEST_LOCK))
        return _StandingLock(locks.from_json(content), _lease_of(content), _age(answer), str(answer["ETag"]))

    def _fence(self, lock_id: str) -> None:
        """Make sure that nothing which a former holder has under way is accepted."""
        self._journal.take_over(lock_id)
        content, etag = self._objects.get(self._key)
        # One more line end: the same document under another ETag (see `_document`).
        self._objects.put(self._key, (content or b"") + b"\n", etag)

    def _renewal(self, held: _HeldLock) -> Callable[[], None]:
        def renew() -> None:
            held.renewals += 1
            content = _lock_content(held.info, held.seconds, held.renewals)
            try:
                held.etag = self._objects.put(self._lock_key, content, held.etag)
            except _Refused:
                raise LeaseLost("it was broken, or another run has it") from None

        return renew

    def check_lease(self) -> None:
        """Raise a BackendProblem when the lock was held here and is lost."""
        if self._held is not None and self._held.lease is not None:
            self._held.lease.check()

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Turn what the service or the network says into a BackendProblem."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except _Refused:
            raise BackendProblem(
                f"Cannot {what} at {self.describe()}: it was changed by another run meanwhile."
            ) from None
        except (BotoCoreError, ClientError, _Cut) as problem:
            words = self._elsewhere(problem) if _is_redirect(problem) else f"{problem}"
            raise BackendProblem(f"Cannot {what} at {self.describe()}: {words}") from None
        except TooLarge as problem:
            raise refusals.too_large(what, f"at {self.describe()}", problem) from None

    def _elsewhere(self, problem: Exception) -> str:
        """What a redirect comes to: the bucket is of another region."""
        answered = getattr(problem, "response", {}).get("ResponseMetadata", {}).get("HTTPHeaders", {})
        region, ours = answered.get("x-amz-bucket-region"), self._client.meta.region_name
        where = f'in the region "{region}"' if region else "in another region or at another address"
        return (
            f'the service answers with a redirect: the bucket "{self._bucket}" is {where}, and "{ours}" was '
            f'asked. Write region = "{region or "REGION"}", and the endpoint of that region where one is '
            "named."
        )


class _HeldLock:
    """The lock that this object holds, and the ETag of its last renewal."""

    __slots__ = ("etag", "info", "lease", "renewals", "seconds")

    def __init__(self, info: LockInfo, seconds: int, etag: str) -> None:
        self.info = info
        self.seconds = seconds
        self.etag = etag
        self.renewals = 0
        self.lease: Lease | None = None


class _StandingLock:
    """A lock object as it stands: `age` and `seconds` say whether it has run out."""

    __slots__ = ("age", "etag", "holder", "seconds")

    def __init__(self, holder: LockInfo | None, seconds: float, age: float, etag: str) -> None:
        self.holder = holder
        self.seconds = seconds
        self.age = age
        self.etag = etag


class _Refused(Exception):
    """A conditional write found another version than it named."""


class _Cut(Exception):
    """An answer that ended before its end, or that does not say how long it is."""


class _Objects:
    """The objects of a bucket, written on condition."""

    def __init__(self, client: Any, bucket: str, largest: int) -> None:
        self._client = client
        self._bucket = bucket
        self.largest = largest  # bytes of an object that is read

    def get_answer(self, key: str) -> Mapping[str, Any] | None:
        """The server's answer with body and headers, None when there is no such object."""
        from botocore.exceptions import ClientError

        try:
            answer: Mapping[str, Any] = self._client.get_object(Bucket=self._bucket, Key=key)
        except ClientError as problem:
            if _code(problem) == _ABSENT:
                return None
            raise
        return answer

    def get(self, key: str, reading: Reading | None = None) -> tuple[bytes | None, str]:
        """Content and ETag; None and "" when there is no such object. Raises TooLarge."""
        answer = self.get_answer(key)
        if answer is None:
            return None, ""
        return _content(answer, reading or Reading(self.largest)), str(answer["ETag"])

    def put(self, key: str, content: bytes, etag: str) -> str:
        """Write over the version with this ETag ("": there must be none); the new ETag. Raises _Refused."""
        from botocore.exceptions import ClientError

        condition = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        try:
            answer = self._client.put_object(Bucket=self._bucket, Key=key, Body=content, **condition)
        except ClientError as problem:
            if _code(problem) not in _REFUSED | _GONE:
                raise
            # The answer to an earlier try may have been lost on its way: then our bytes stand there.
            standing, standing_etag = self.get(key)
            if standing != content:
                raise _Refused from None
            return standing_etag
        return str(answer["ETag"])

    def delete(self, key: str) -> None:
        """Remove an object; one that is gone is no error."""
        self._client.delete_object(Bucket=self._bucket, Key=key)

    def keys(self, prefix: str) -> list[str]:
        """The keys below a prefix, sorted."""
        return [entry["Key"] for entry in self.entries(prefix)]

    def entries(self, prefix: str) -> list[Mapping[str, Any]]:
        """Keys with their times, sorted by key."""
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
        entries = _entries(pages, "Contents")
        return sorted(entries, key=lambda entry: str(entry["Key"]))

    def versions(self, key: str) -> list[Mapping[str, Any]]:
        """The versions of one object, newest first."""
        pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=key)
        entries = _entries(pages, "Versions")
        return [entry for entry in entries if entry["Key"] == key and entry["VersionId"] != "null"]


def _content(answer: Mapping[str, Any], reading: Reading) -> bytes:
    """The body of an answer, which is closed unread when it is too large. Raises TooLarge."""
    length = answer.get("ContentLength")
    with closing(answer["Body"]) as body:
        content = reading.take_all(body, length or 0)
    if length is None or len(content) != length:
        raise _Cut(f"the answer was cut off: {len(content)} of {length} bytes came")
    return content


def _entries(pages: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    # A page without any has no list of them either.
    entries: list[Mapping[str, Any]] = []
    for page in pages:
        if "Name" not in page:  # of the bucket; without it this is no list at all
            raise _Cut("the answer is no list of objects")
        entries += page.get(name, ())
    return entries


class _Journal:
    """Numbered objects; a number is taken once, so of two writers one loses."""

    def __init__(self, objects: _Objects, prefix: str, check_lease: Callable[[], None]) -> None:
        self._objects = objects
        self._prefix = prefix
        self._check_lease = check_lease
        self._gathering = Gathering(self._write)
        self._last: int | None = None  # the number written last; None: not looked up yet

    def add(self, lines: Sequence[bytes]) -> None:
        """Write lines as the next object. Raises _Refused when somebody else took its number."""
        if lines:
            self._gathering.add(lines)

    def lines(self) -> list[bytes]:
        """Every line of every object, in order."""
        reading = Reading(self._objects.largest)
        texts = [self._objects.get(key, reading)[0] or b"" for key in self._objects.keys(self._prefix)]
        return journal_lines.lines_of(texts)

    def begun(self) -> bool:
        """Whether there is any line."""
        return bool(self._last) or bool(self._objects.keys(self._prefix))

    def reset(self) -> None:
        """Look the end up anew: others may have written since."""
        self._gathering = Gathering(self._write)
        self._last = None

    def take_over(self, lock_id: str) -> None:
        """Take the number that a former holder would write next."""
        self._last = self._last_number()
        while True:
            try:
                self._objects.put(self._key(self._last + 1), journal_lines.seal(lock_id) + b"\n", "")
            except _Refused:
                self._last += 1  # it was still writing
            else:
                self._last += 1
                return

    def remove_old(self, seconds: float) -> None:
        """Remove objects older than this but for the last: nobody can still write under their numbers."""
        entries = self._objects.entries(self._prefix)
        if not entries:
            return
        newest = max(entry["LastModified"] for entry in entries)
        for entry in entries[:-1]:
            if (newest - entry["LastModified"]).total_seconds() > seconds:
                self._objects.delete(str(entry["Key"]))

    def _write(self, lines: list[bytes]) -> None:
        self._check_lease()
        if self._last is None:
            self._last = self._last_number()
        self._objects.put(self._key(self._last + 1), b"\n".join([*lines, b""]), "")
        self._last += 1
        self._check_lease()  # a holder that slept meanwhile must not act upon what it wrote

    def _last_number(self) -> int:
        keys = self._objects.keys(self._prefix)
        return int(keys[-1].removeprefix(self._prefix)) if keys else 0

    def _key(self, number: int) -> str:
        return f"{self._prefix}{number:010}"


def _document(content: bytes | None) -> bytes | None:
    """The document without the line ends that a taking over added; None when nothing else is there."""
    if content is None:
        return None
    bare = content.rstrip(b"\n")
    return bare + b"\n" if bare and content.endswith(b"\n") else bare or None


def _lock_content(info: LockInfo, seconds: int, renewals: int) -> bytes:
    return locks.to_json(info, **{_LEASE: str(seconds), _RENEWED: str(renewals)})


def _lease_of(content: bytes) -> float:
    text = locks.member(content, _LEASE)
    return float(text) if text.isdigit() else float(lease_seconds())


def _age(answer: Mapping[str, Any]) -> float:
    """Seconds from the last renewal to the answer, both by the server's clock."""
    asked = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    return float((asked - answer["LastModified"]).total_seconds())


def _is_redirect(problem: Exception) -> bool:
    """Whether the service says that a bucket is elsewhere."""
    answered = getattr(problem, "response", {}).get("ResponseMetadata", {})
    return 300 <= int(answered.get("HTTPStatusCode") or 0) < 400


def _ask_once(context: dict[str, Any], **_more: Any) -> None:
    """Let the client not ask for the region of a bucket because of a redirect of just that question: a server
    that redirects everything, and names no region, would be asked until the stack is full.
    """
    context.get("s3_redirect", {})["redirected"] = True


def _code(problem: Any) -> str:
    return str(problem.response.get("Error", {}).get("Code", ""))


@cache
def _models(data_path: str | None) -> Any:
    """What botocore knows of services, read once for all workspaces: it takes 0.1 s."""
    from botocore.loaders import create_loader

    return create_loader(data_path)


def open_s3(settings: Mapping[str, Any], largest: int = refusals.LARGEST) -> S3Backend:
    """The backend that the settings describe; raises BackendProblem."""
    with needing("s3", "s3"):
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session
    style = {"addressing_style": "path"} if settings.get("use_path_style") else {}
    try:
        core = Session()
        core.register_component("data_loader", _models(core.get_config_variable("data_path")))
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
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    except (BotoCoreError, ValueError) as problem:
        raise BackendProblem(f'The backend "s3" cannot be opened: {problem}') from None
    client.meta.events.register("before-call.s3.HeadBucket", _ask_once)
    prefix = settings.get("workspace_key_prefix") or "env:"
    return S3Backend(client, settings["bucket"], settings["key"], prefix=prefix, largest=largest)
