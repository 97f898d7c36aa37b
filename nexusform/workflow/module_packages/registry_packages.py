"""Registries of modules: the module registry protocol of Terraform and OpenTofu.

A host is asked for its services, then for the versions of a module, then for the source of one.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urljoin

from nexusform.configuration.remote_modules.module_sources import (
    InvalidModuleSource,
    ModuleSource,
    get_registry_url,
    is_local_path,
    parse_module_source,
)
from nexusform.configuration.version_constraints import sort_versions
from nexusform.files.access_record import read_variable
from nexusform.network.http_client import WebResponse, parse_origin
from nexusform.network.read_limits import parse_json
from nexusform.network.web_errors import WebError
from nexusform.workflow.module_packages.package_download import (
    DownloadError,
    hide_query,
    send_download,
)

_SERVICE: Final = "modules.v1"
_MAX_ANSWER_BYTES: Final = 1 << 25
_TOKEN_PREFIXES: Final = ("NF_TOKEN_", "TF_TOKEN_")
_SOURCE_HEADER: Final = "x-terraform-get"


class ModuleRegistry:
    """Client of one registry host."""

    def __init__(
        self, host: str, environment: Mapping[str, str], allows_address: Callable[[str], bool]
    ) -> None:
        """Use a host; nothing is requested yet."""
        self._host = host
        self._url = get_registry_url(host)
        self._environment = environment
        self._allows_address = allows_address
        self._service = ""

    def select_version(self, name: str, constraint: str) -> str:
        """Return the newest version of NAMESPACE/NAME/PROVIDER that satisfies the constraint.

        Raises DownloadError.
        """
        address = f"{self._find_service()}{name}/versions"
        document = self._parse(address, self._request(address))
        versions = _list_versions(document)
        if versions is None:
            raise DownloadError(f"{address}: the answer is not a list of versions")
        matching = sort_versions(versions, constraint)
        if not matching:
            newest = versions[-3:]
            known = f" It has {', '.join(newest)}." if newest else " It has none."
            wanted = f' "{constraint}"' if constraint else " that is not a prerelease"
            raise DownloadError(
                f"the registry {self._host} has no version{wanted} of {name}.{known}"
            )
        return matching[-1]

    def find_source(self, name: str, version: str) -> ModuleSource:
        """Return the source of a version: a git repository or an archive.

        Raises DownloadError.
        """
        address = f"{self._find_service()}{name}/{version}/download"
        response = self._request(address)
        location = response.headers.get(_SOURCE_HEADER, "")
        if not location and response.content:
            document = self._parse(address, response)
            found = document.get("location") if isinstance(document, dict) else None
            location = found if isinstance(found, str) else ""
        if not location:
            raise DownloadError(f"{address}: the answer names no source of the module")
        if is_local_path(location) or location.startswith("/"):
            location = _join_location(address, location)
        try:
            source = parse_module_source(location, needs_checksum=False)
        except InvalidModuleSource as problem:
            raise DownloadError(
                f"{address}: the answer names a source that is not supported. {problem}".rstrip(".")
            ) from None
        if source.kind == "registry":
            raise DownloadError(f"{address}: the answer names another registry")
        return source

    def _find_service(self) -> str:
        """Return the address of the module service, with a slash at its end."""
        if self._service:
            return self._service
        address = f"{self._url}/.well-known/terraform.json"
        document = self._parse(address, self._request(address))
        service = document.get(_SERVICE) if isinstance(document, dict) else None
        if not isinstance(service, str) or not service:
            raise DownloadError(f"the host {self._host} has no registry of modules")
        url = urljoin(address, service)
        try:
            origin = parse_origin(url)
        except WebError as problem:
            raise DownloadError(f"{address}: the address of its registry: {problem}") from None
        if origin.startswith("http:") and not self._url.startswith("http:"):
            raise DownloadError(f"{address}: the address of its registry has no TLS")
        self._service = url if url.endswith("/") else f"{url}/"
        return self._service

    def _request(self, address: str) -> WebResponse:
        headers: dict[str, str] = {}
        token = self._read_token()
        # The token is for this host only.
        if token and parse_origin(address) == parse_origin(self._url):
            headers["Authorization"] = f"Bearer {token}"
        return send_download(address, self._allows_address, headers, _MAX_ANSWER_BYTES)

    def _read_token(self) -> str:
        """Return the token in NF_TOKEN_HOST, else TF_TOKEN_HOST, as Terraform names it."""
        name = self._host.partition(":")[0].replace("-", "__").replace(".", "_")
        for prefix in _TOKEN_PREFIXES:
            token = self._environment.get(f"{prefix}{name}", "")
            if token:
                read_variable(f"{prefix}{name}")
                if not re.fullmatch(r"[\x21-\x7e]+", token):
                    raise DownloadError(f"{prefix}{name} is not a token")
                return token
        return ""

    def _parse(self, address: str, response: WebResponse) -> Any:
        try:
            return parse_json(response.content)
        except ValueError as problem:
            raise DownloadError(
                f"{hide_query(address)}: the answer is unusable: {problem}"
            ) from None


def _join_location(address: str, location: str) -> str:
    """Return the absolute form of a relative location, which may end in `//DIRECTORY`."""
    base, question_mark, query = location.partition("?")
    # `urljoin` would make one slash of two.
    path, slashes, directory = base.partition("//")
    return f"{urljoin(address, path)}{slashes}{directory}{question_mark}{query}"


def _list_versions(document: Any) -> list[str] | None:
    """Return the valid versions in an answer, the newest last; None for another document."""
    try:
        versions = [entry["version"] for entry in document["modules"][0]["versions"]]
    except (KeyError, IndexError, TypeError):
        return None
    return sort_versions(version for version in versions if isinstance(version, str))
