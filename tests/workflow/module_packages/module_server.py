"""Server of module packages on loopback: git repositories, files, and a registry."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import tarfile
import threading
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

from tests.crowded_server import CrowdedServer, read_body
from tests.git_repositories import run_git

RACK = """
variable "site_id" {
  type = string
}
resource "nexus_rack" "r" {
  site_id       = var.site_id
  name          = "rack"
  machine_count = COUNT
}
output "count" {
  value = nexus_rack.r.machine_count
}
"""
SITE = """
resource "nexus_site" "s" {
  name = "lab"
}
module "rack" {
  source  = "SOURCE"
  site_id = nexus_site.s.id
}
output "count" {
  value = module.rack.count
}
"""
ROOT = """
module "lab" {
  source = "SOURCE"
}
output "count" {
  value = module.lab.count
}
"""


def commit_files(repository: Path, files: Mapping[str, str], *, tag: str = "") -> str:
    """Commit files of a repository, created if missing; set a tag, and return the commit."""
    if not (repository / ".git").exists():
        repository.mkdir(parents=True, exist_ok=True)
        run_git(repository, "init", "-q", "-b", "main")
    for name, text in files.items():
        path = repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "--allow-empty", "-m", "change")
    if tag:
        run_git(repository, "tag", "-f", tag)
    return run_git(repository, "rev-parse", "HEAD")


def build_zip(files: Mapping[str, str]) -> bytes:
    """Build a .zip archive."""
    document = io.BytesIO()
    with zipfile.ZipFile(document, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return document.getvalue()


def build_tar(files: Mapping[str, str], *members: tarfile.TarInfo) -> bytes:
    """Build a .tar.gz archive of files and further members."""
    document = io.BytesIO()
    with tarfile.open(fileobj=document, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
        assert archive.fileobj is not None
        for member in members:
            # Only the header: since Python 3.13 `addfile` needs the content, and one is huge.
            archive.fileobj.write(member.tobuf())
    return document.getvalue()


class ModuleServer:
    """Running server: `repositories` below /git/, `pages` by path, and requests by path."""

    def __init__(self, repositories: Path) -> None:
        self.repositories = repositories
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.requests: list[str] = []
        self.queries: list[str] = []
        self.tokens: list[str] = []
        # Of each answer.
        self.delay = 0.0
        self.garbage = b""
        self.port = 0

    @property
    def url(self) -> str:
        """The address of the server."""
        return f"http://127.0.0.1:{self.port}"

    def build_git_source(self, repository: str, path: str = "", ref: str = "") -> str:
        """Build the source of a repository of the server."""
        return (
            f"git::{self.url}/git/{repository}"
            + (f"//{path}" if path else "")
            + (f"?ref={ref}" if ref else "")
        )

    def add_file(self, path: str, content: bytes) -> str:
        """Serve a file; return its source with the checksum."""
        self.pages[path] = (200, {}, content)
        return f"{self.url}{path}?checksum=sha256:{hashlib.sha256(content).hexdigest()}"

    def add_registry_module(self, name: str, locations: Mapping[str, str]) -> None:
        """Serve the versions of a module, each with the location of its package."""
        services = json.dumps({"modules.v1": "/api/modules/"}).encode()
        self.pages["/.well-known/terraform.json"] = (200, {}, services)
        versions = {"modules": [{"versions": [{"version": text} for text in locations]}]}
        self.pages[f"/api/modules/{name}/versions"] = (200, {}, json.dumps(versions).encode())
        for version, location in locations.items():
            headers = {"X-Terraform-Get": location}
            self.pages[f"/api/modules/{name}/{version}/download"] = (204, headers, b"")

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        """Answer a request."""
        url = urlsplit(handler.path)
        self.requests.append(url.path)
        self.queries.append(url.query)
        self.tokens.append(handler.headers.get("Authorization", ""))
        if self.delay:
            time.sleep(self.delay)
        if self.garbage:
            handler.wfile.write(self.garbage)
            return
        if url.path.startswith("/git/"):
            self._answer_git(handler, url.path.removeprefix("/git"), url.query, body)
            return
        status, headers, content = self.pages.get(url.path, (404, {}, b"no"))
        handler.send_response(status)
        for name, text in headers.items():
            handler.send_header(name, text)
        if status != 204:
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answer_git(
        self, handler: BaseHTTPRequestHandler, path: str, query: str, body: bytes
    ) -> None:
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": handler.command,
            "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": "127.0.0.1",
        }
        result = subprocess.run(
            ["git", "http-backend"], input=body, env=environment, capture_output=True, check=False
        )
        head, _, content = result.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        handler.send_response(int(headers.pop("Status", "200").split()[0]))
        for name, text in headers.items():
            handler.send_header(name, text)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


@contextmanager
def start_module_server(repositories: Path) -> Iterator[ModuleServer]:
    """Start a server on loopback."""
    server = ModuleServer(repositories)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self, b"")

        def do_POST(self) -> None:
            if "Content-Length" in self.headers:
                body = read_body(self)
            else:
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            server.answer(self, body)

        def handle(self) -> None:
            # The client does not wait for a slow answer.
            with suppress(BrokenPipeError, ConnectionResetError):
                super().handle()

        def finish(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):
                super().finish()

        def log_message(self, *_: object) -> None:
            pass

    with CrowdedServer(("127.0.0.1", 0), Handler) as http_server:
        server.port = http_server.server_port
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        yield server
        http_server.shutdown()
