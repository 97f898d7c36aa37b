"""HTTP server of the NFVO interfaces.

The interfaces are grants, VNF packages, and the token endpoint of Tacker's client.
"""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import re
import ssl
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO, ClassVar, Final
from urllib.parse import unquote
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec import Struct

from nexusform.diagnostics.diagnostic import DiagnosticsError
from nexusform.domains.vnf.importers.vnf_package import read_vnf_package
from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import VnfSourceDocuments
from nexusform.domains.vnf.serving.grant_decisions import (
    FORBIDDEN,
    GrantRecord,
    PlannedGrants,
    build_problem_details_response,
    decide_grant,
)
from nexusform.files.regular_files import (
    open_regular_file,
    open_regular_to_read,
    read_regular,
    write_all_bytes,
)
from nexusform.files.run_log import log_event
from nexusform.interfaces.plugins import FileProblem, Files
from nexusform.network.local_server import (
    LocalRequest,
    LocalRequestHandler,
    LocalResponse,
    LocalServer,
)

_PACKAGE_PATH: Final = re.compile(
    "/vnfpkgm/v[12]/onboarded_vnf_packages(?:/(?P<id>[^/]*)(?:/(?P<part>.*))?)?"
)
_MAX_PACKAGE_BYTES: Final = 512 << 20
_MAX_DEFINITIONS_BYTES: Final = 32 << 20


class GrantServer(LocalServer):
    """Server of one plan."""

    def __init__(
        self,
        address: tuple[str, int],
        planned: PlannedGrants,
        journal: GrantJournal,
        packages: Mapping[str, VnfPackageFile],
        token: str = "",
        tls: ssl.SSLContext | None = None,
        hosts: Sequence[str] = (),
        find_obstacle: Callable[[], str] = lambda: "",
    ) -> None:
        """Listen on an address (host, port).

        Without a `token`, make one. Without `tls`, use HTTP. `hosts` are names of this machine.
        `find_obstacle` returns why no step of the plan may run on the site as it is now, or "".
        """
        super().__init__(address, _GrantRequestHandler, token=token, hosts=hosts, tls=tls)
        self.planned = planned
        self.journal = journal
        self.packages = packages
        self.find_obstacle = find_obstacle
        # One decision at a time.
        self.lock = Lock()

    @property
    def url(self) -> str:
        """Address for `[v2_nfvo] endpoint` of Tacker."""
        return self.origin

    def decide_request(self, request: Any) -> tuple[int, Mapping[str, Any]]:
        """Decide on a request, and write a new grant to the journal first.

        Another server of the plan may have written to it, so it is locked and read again. A new
        grant lets a step run, so the site is checked first. The check may take longer than others
        wait for the lock, so it is outside of it.
        """
        with self.lock:
            decision = decide_grant(request, self.planned, self.journal.read_records())
            obstacle = self.find_obstacle() if decision.record is not None else ""
            if obstacle:
                decision = build_problem_details_response(FORBIDDEN, "Not granted", obstacle)
                return decision.status, decision.body
            with self.journal.lock_file() as descriptor:
                decision = decide_grant(request, self.planned, self.journal.read_records())
                if decision.record is not None:
                    self.journal.add(decision.record, descriptor)
        return decision.status, decision.body


class _GrantRequestHandler(LocalRequestHandler):
    server: GrantServer
    # OAuth 2: the body names the kind of the sign-in, and is not read.
    content_types: ClassVar[Mapping[str, Sequence[str]]] = {
        "/token": ("application/x-www-form-urlencoded", "application/json")
    }

    host_advice: ClassVar[str] = "Name further addresses with -host."

    def find_token(self, request: LocalRequest) -> str:
        """Return the token of a client, or the password of one that requests it."""
        kind, _, credentials = request.headers.get("authorization", "").partition(" ")
        if request.path != "/token":
            return credentials if kind == "Bearer" else ""
        if kind != "Basic":
            return ""
        # Also for characters outside of ASCII.
        with suppress(ValueError):
            password = base64.b64decode(credentials, validate=True).partition(b":")[2]
            return password.decode(errors="replace")
        return ""

    def answer_request(self, request: LocalRequest) -> LocalResponse:
        """Return packages, the token, or the decision on a grant request."""
        if request.method == "GET":
            return self._answer_package_request(request.path)
        if request.path == "/token":
            # OAuth 2 client credentials: the password is the token.
            token = {"access_token": self.server.token, "token_type": "Bearer"}
            return _build_json_response(HTTPStatus.OK, {**token, "expires_in": 86400})
        if request.path not in ("/grant/v1/grants", "/grant/v2/grants"):
            return self.build_rejection(HTTPStatus.NOT_FOUND, "No such resource.")
        return self._decide_grant_request(request)

    def build_rejection(self, status: HTTPStatus, reason: str) -> LocalResponse:
        """Return the response to a rejected request, with problem details."""
        body = build_problem_details_response(status, status.phrase, reason).body
        return _build_json_response(status, body)

    def _answer_package_request(self, path: str) -> LocalResponse:
        """Return the response to a request for packages.

        The path is /vnfpkgm/VERSION/onboarded_vnf_packages[/ID[/PART]]. Without an id, it is the
        list; without a part, the data of a package. A part is "vnfd" or "package_content".
        """
        match = _PACKAGE_PATH.fullmatch(path)
        if match is None:
            return self.build_rejection(HTTPStatus.NOT_FOUND, "No such resource.")
        if match["id"] is None:
            rows = [package.build_info() for package in self.server.packages.values()]
            return _build_json_response(HTTPStatus.OK, rows)
        descriptor_id = unquote(match["id"])
        package = self.server.packages.get(descriptor_id)
        if package is None or match["part"] not in (None, "vnfd", "package_content"):
            return self.build_rejection(
                HTTPStatus.NOT_FOUND, f"No package has the vnfdId {descriptor_id}."
            )
        if match["part"] is None:
            return _build_json_response(HTTPStatus.OK, package.build_info())
        try:
            file = package.read_definitions() if match["part"] == "vnfd" else package.open_content()
        except (OSError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error):
            return self.build_rejection(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "The file of the package is missing, too large or damaged.",
            )
        return LocalResponse(HTTPStatus.OK, content_type="application/zip", file=file)

    def _decide_grant_request(self, request: LocalRequest) -> LocalResponse:
        """Return the grant with its address, or the rejection."""
        try:
            document = json.loads(request.body)
            # A half of a surrogate pair has no form in the journal.
            json.dumps(document, ensure_ascii=False).encode()
        except (ValueError, RecursionError) as problem:
            return self.build_rejection(HTTPStatus.BAD_REQUEST, f"The body is not JSON: {problem}.")
        try:
            status, answer = self.server.decide_request(document)
        except OSError as problem:
            detail = f"The journal cannot be written: {problem.strerror}. Nothing was granted."
            return self.build_rejection(HTTPStatus.INTERNAL_SERVER_ERROR, detail)
        log_event(
            "info",
            "grant request",
            status=status,
            detail=str(answer.get("detail", answer.get("id"))),
        )
        location = {}
        # A grant, not a rejection.
        if "id" in answer:
            own_path = f"{request.path}/{answer['id']}"
            # The address that the client uses: the server may listen on all.
            origin = f"{self.server.scheme}://{request.headers['host']}"
            location = {"Location": f"{origin}{own_path}"}
            answer = {**answer, "_links": {**answer["_links"], "self": {"href": own_path}}}
        return _build_json_response(HTTPStatus(status), answer, location)


def _build_json_response(
    status: HTTPStatus, document: Any, headers: Mapping[str, str] = {}
) -> LocalResponse:
    """Return the response with a JSON document; problem details have their own type."""
    kind = "application/json" if status < HTTPStatus.BAD_REQUEST else "application/problem+json"
    return LocalResponse(status, json.dumps(document).encode(), kind, headers)


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
                # Other entries are of earlier plans in the same file.
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

    def open_content(self) -> BinaryIO:
        """Open the whole package, to be sent in pieces."""
        return open_regular_to_read(self.path, _MAX_PACKAGE_BYTES)

    def read_definitions(self) -> BinaryIO:
        """Return the definitions of the package as a zip archive.

        Raises ValueError for more than 32 MiB: a small package may hold gigabytes.
        """
        target = io.BytesIO()
        remaining = _MAX_DEFINITIONS_BYTES
        with (
            self.open_content() as file,
            zipfile.ZipFile(file) as source,
            zipfile.ZipFile(target, "w") as archive,
        ):
            for name in source.namelist():
                if name.startswith(("TOSCA-Metadata/", "Definitions/")) and not name.endswith("/"):
                    with source.open(name) as member:
                        content = member.read(remaining + 1)
                    remaining -= len(content)
                    if remaining < 0:
                        raise ValueError("the definitions are too large")
                    archive.writestr(name, content)
        target.seek(0)
        return target

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
