"""HTTP server of the NFVO interfaces.

Grants, VNF packages, and the token endpoint of Tacker's client.
"""

from __future__ import annotations

import base64
import binascii
import errno
import hmac
import io
import json
import os
import re
import ssl
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any, Final
from urllib.parse import unquote, urlsplit
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Struct

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.documents.yaml_documents import parse_whole_number
from nexusform.domains.vnf.importers.vnf_package import read_vnf_package
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments
from nexusform.domains.vnf.serving.grant_decisions import (
    GrantRecord,
    PlannedGrants,
    build_problem_details_response,
    decide_grant,
)
from nexusform.files.regular_files import open_regular_file, read_regular, write_all_bytes
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import FileProblem, Files

_MAX_REQUEST_BYTES: Final = 4 << 20
_PACKAGE_PATH: Final = re.compile(
    "/vnfpkgm/v[12]/onboarded_vnf_packages(?:/(?P<id>[^/]*)(?:/(?P<part>.*))?)?"
)
_MAX_PACKAGE_BYTES: Final = 512 << 20


class GrantServer(ThreadingHTTPServer):
    """Server of one plan.

    `token` "" accepts every request.
    """

    daemon_threads = True

    def __init__(
        self,
        address: tuple[str, int],
        planned: PlannedGrants,
        journal: GrantJournal,
        packages: Mapping[str, VnfPackageFile],
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Listen on an address (host, port).

        Clients need the `token`, if it is not "". Without `tls`, use HTTP.
        """
        super().__init__(address, _GrantRequestHandler)
        self.planned = planned
        self.journal = journal
        self.packages = packages
        self.token = token
        # One decision at a time.
        self.lock = Lock()
        self.scheme = "http"
        if tls is not None:
            self.scheme = "https"
            # The handshake belongs to the thread of the request: a silent client must not block
            # others.
            self.socket = tls.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False
            )

    @property
    def url(self) -> str:
        """Address for `[v2_nfvo] endpoint` of Tacker."""
        return f"{self.scheme}://{self.server_address[0]!s}:{self.server_port}"

    def decide_request(self, request: Any) -> tuple[int, Mapping[str, Any]]:
        """Decide on a request, and write a new grant to the journal first.

        Another server of the plan may have written to it, so it is locked and read again.
        """
        with self.lock, self.journal.lock_file() as descriptor:
            decision = decide_grant(request, self.planned, self.journal.read_records())
            if decision.record is not None:
                self.journal.add(decision.record, descriptor)
        return decision.status, decision.body


class _GrantRequestHandler(BaseHTTPRequestHandler):
    server: GrantServer
    protocol_version = "HTTP/1.1"
    timeout = 30

    def handle_get(self) -> None:
        """Send the answer to a request for packages.

        /vnfpkgm/VERSION/onboarded_vnf_packages[/ID[/PART]]. Without an id, it is the list; without
        a part, the data of a package. A part is "vnfd" or "package_content".
        """
        if not self._verify_access_token():
            return  # rejected
        path = urlsplit(self.path).path.rstrip("/")
        match = _PACKAGE_PATH.fullmatch(path)
        if match is None:
            self._reject(HTTPStatus.NOT_FOUND, "No such resource.")
            return
        if match["id"] is None:
            self._send_json(
                HTTPStatus.OK, [package.build_info() for package in self.server.packages.values()]
            )
            return
        descriptor_id = unquote(match["id"])
        package = self.server.packages.get(descriptor_id)
        if package is None or match["part"] not in (None, "vnfd", "package_content"):
            self._reject(HTTPStatus.NOT_FOUND, f"No package has the vnfdId {descriptor_id}.")
        elif match["part"] is None:
            self._send_json(HTTPStatus.OK, package.build_info())
        else:
            self._send_package(
                package.read_definitions if match["part"] == "vnfd" else package.read_content
            )

    def _send_package(self, read: Callable[[], bytes]) -> None:
        """Send the bytes returned by `read`.

        Reject the request if the file is missing, too large or damaged.
        """
        try:
            content = read()
        except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error):
            self._reject(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "The file of the package is missing, too large or damaged.",
            )
            return
        self._send(HTTPStatus.OK, content, "application/zip")

    def handle_post(self) -> None:
        """Decide on a grant request, or send the token."""
        path = urlsplit(self.path).path.rstrip("/")
        length = parse_whole_number(self.headers.get("Content-Length"))
        if length is None or length > _MAX_REQUEST_BYTES:
            self._reject(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "The request has no valid length, or is too large.",
            )
            return
        body = self.rfile.read(length)
        if path == "/token":
            self._send_token()
        elif not self._verify_access_token():
            return  # rejected
        elif path not in ("/grant/v1/grants", "/grant/v2/grants"):
            self._reject(HTTPStatus.NOT_FOUND, "No such resource.")
        else:
            self._send_grant(path, body)

    def _send_grant(self, path: str, body: bytes) -> None:
        """Decide a grant request, and send the grant with its address, or the rejection."""
        try:
            request = json.loads(body)
        except (ValueError, RecursionError) as problem:
            self._reject(HTTPStatus.BAD_REQUEST, f"The body is not JSON: {problem}.")
            return
        try:
            status, answer = self.server.decide_request(request)
        except OSError as problem:
            detail = f"The journal cannot be written: {problem.strerror}. Nothing was granted."
            self._reject(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
            return
        log_event(
            "info",
            "grant request",
            status=status,
            detail=str(answer.get("detail", answer.get("id"))),
        )
        location = {}
        # A grant, not a rejection.
        if "id" in answer:
            own_path = f"{path}/{answer['id']}"
            location = {"Location": f"{self.server.url}{own_path}"}
            answer = {**answer, "_links": {**answer["_links"], "self": {"href": own_path}}}
        self._send_json(HTTPStatus(status), answer, location)

    def _send_token(self) -> None:
        """Send the token to a client with the token as its password.

        This is OAuth 2 client credentials.
        """
        token = self.server.token
        kind, _, credentials = self.headers.get("Authorization", "").partition(" ")
        try:
            password = (
                base64.b64decode(credentials, validate=True).partition(b":")[2]
                if kind == "Basic"
                else b""
            )
        except binascii.Error:
            password = b""
        if token and not hmac.compare_digest(password, token.encode()):
            self._reject(
                HTTPStatus.UNAUTHORIZED, "The client password is not the token of -token-file."
            )
            return
        # Without -token-file, any token is accepted.
        self._send_json(
            HTTPStatus.OK,
            {"access_token": token or "none", "token_type": "Bearer", "expires_in": 86400},
        )

    def _verify_access_token(self) -> bool:
        """Return whether a request has the token, or the server needs none; otherwise reject it."""
        expected = f"Bearer {self.server.token}"
        given = self.headers.get("Authorization", "")
        if self.server.token and not hmac.compare_digest(given.encode(), expected.encode()):
            self._reject(HTTPStatus.UNAUTHORIZED, "The token is missing or wrong.")
            return False
        return True

    def _reject(self, status: HTTPStatus, detail: str) -> None:
        # The body of the request may be unread.
        self.close_connection = True
        body = build_problem_details_response(status, status.phrase, detail).body
        self._send(status, json.dumps(body).encode(), "application/problem+json")

    def _send_json(
        self, status: HTTPStatus, document: Any, headers: Mapping[str, str] = {}
    ) -> None:
        kind = "application/json" if status < HTTPStatus.BAD_REQUEST else "application/problem+json"
        self._send(status, json.dumps(document).encode(), kind, headers)

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str, headers: Mapping[str, str] = {}
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = handle_get  # noqa: N815 - the names called by the library
    do_POST = handle_post  # noqa: N815 - as above

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name it has in the library
        """Skip the log of the library: decisions are logged."""


_MAX_BYTES: Final = 64 << 20
_LOCK_SECONDS: Final = 10.0
_LOCK_PAUSE: Final = 0.02


class GrantJournal:
    """Records of the plan with this digest; those of other plans stay in the file.

    Several servers of one plan may use it: each locks the file for a decision.
    """

    def __init__(self, plan_file: str, digest: str) -> None:
        """Keep the path of the journal of a plan file, and the digest of the plan."""
        self.path = Path(f"{plan_file}.grants")
        self.digest = digest

    @contextmanager
    def lock_file(self) -> Iterator[int]:
        """Lock the file, and return its descriptor.

        Raises OSError, also if another process keeps the lock for too long.
        """
        descriptor = open_regular_file(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            _lock_descriptor(descriptor)
            yield descriptor
        finally:
            # It also releases the lock.
            os.close(descriptor)

    def read_records(self) -> list[GrantRecord]:
        """Return the records of the plan in the file.

        Raises OSError.
        """
        if not self.path.exists():
            # Nothing was granted yet.
            return []
        records: list[GrantRecord] = []
        for line in read_regular(self.path, _MAX_BYTES).splitlines():
            # A line cut off by the end of an earlier process.
            with suppress(msgspec.DecodeError):
                entry = msgspec.json.decode(line, type=_JournalEntry)
                # others are of earlier plans in the same file.
                if entry.plan == self.digest:
                    records.append(entry.record)
        return records

    def add(self, record: GrantRecord, descriptor: int) -> None:
        """Append a record to the locked file, synced to disk."""
        # The first newline ends a line cut off by the end of an earlier process.
        text = b"\n" + msgspec.json.encode(_JournalEntry(self.digest, record)) + b"\n"
        write_all_bytes(descriptor, text)
        os.fsync(descriptor)


def _lock_descriptor(descriptor: int) -> None:
    """Lock an open file within a few seconds.

    Raises OSError.
    """
    # Without flocks only one server of a plan may run.
    if sys.platform == "win32":
        return
    import fcntl

    ends_at = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends_at:
                raise OSError(errno.EAGAIN, "another server of the plan holds its lock") from None
            time.sleep(_LOCK_PAUSE)
        else:
            return


class _JournalEntry(msgspec.Struct, frozen=True):
    plan: str
    record: GrantRecord


class VnfPackageFile(Struct, frozen=True):
    """Package file with the descriptor_id of its VNFD."""

    path: Path
    descriptor_id: str

    def read_content(self) -> bytes:
        """Return the whole package."""
        return read_regular(self.path, _MAX_PACKAGE_BYTES)

    def read_definitions(self) -> bytes:
        """Return the definitions of the package as a zip archive."""
        target = io.BytesIO()
        with (
            zipfile.ZipFile(io.BytesIO(self.read_content())) as source,
            zipfile.ZipFile(target, "w") as archive,
        ):
            for name in source.namelist():
                if name.startswith(("TOSCA-Metadata/", "Definitions/")) and not name.endswith("/"):
                    archive.writestr(name, source.read(name))
        return target.getvalue()

    def build_info(self) -> dict[str, Any]:
        """Build the VnfPkgInfo of the package: its description in the interface of ETSI NFV."""
        base = f"/vnfpkgm/v2/onboarded_vnf_packages/{self.descriptor_id}"
        return {
            "id": str(uuid5(NAMESPACE_URL, self.descriptor_id)),
            "vnfdId": self.descriptor_id,
            "vnfProvider": "",
            "vnfProductName": self.path.stem,
            "vnfSoftwareVersion": "",
            "vnfdVersion": "",
            "onboardingState": "ONBOARDED",
            "operationalState": "ENABLED",
            "usageState": "IN_USE",
            "_links": {
                "self": {"href": base},
                "vnfd": {"href": f"{base}/vnfd"},
                "packageContent": {"href": f"{base}/package_content"},
            },
        }


def list_packages(directory: str, files: Files) -> tuple[Mapping[str, VnfPackageFile], list[str]]:
    """Return the packages of a directory by descriptor_id, and problems.

    The problems are those of unusable packages.
    """
    packages: dict[str, VnfPackageFile] = {}
    problems: list[str] = []
    for path in sorted(Path(directory).iterdir()):
        if path.suffix.lower() not in (".csar", ".zip"):
            continue  # no package
        try:
            vnfd = read_vnf_package(str(path), flavour_id="", files=files).vnfd
        except (FileProblem, DiagnosticsError) as problem:
            reason = (
                problem.diagnostics[0].detail
                if isinstance(problem, DiagnosticsError)
                else str(problem)
            )
            problems.append(f"{path}: {reason}")
            continue
        descriptor_id = (
            read_vnf(VnfSourceDocuments(vnfd=vnfd)).vnf.descriptor_id if vnfd is not None else ""
        )
        if not descriptor_id:
            problems.append(f"{path}: its VNFD has no descriptor_id.")
        elif descriptor_id in packages:
            problems.append(
                f"{path}: {packages[descriptor_id].path} has the same descriptor_id "
                f"{descriptor_id}."
            )
        else:
            packages[descriptor_id] = VnfPackageFile(path, descriptor_id)
    return packages, problems
