"""Credentials of an OpenStack user from the environment (OS_*) or clouds.yaml, never from a configuration."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct

from nexusform.files.access_record import read_variable
from nexusform.files.external_files import explain_untrusted_file, is_untrusted_path
from nexusform.files.regular_files import Confinement, read_regular
from nexusform.interfaces.plugins import ProviderProblem
from nexusform.json_data.plain_data import get_mapping
from nexusform.network.api_client import ApiClient, ApiRequest
from nexusform.network.web_errors import WebError, check_plain_credentials

_MAX_BYTES: Final = 1 << 20
_PLACES: Final = ("clouds.yaml", "~/.config/openstack/clouds.yaml", "/etc/openstack/clouds.yaml")
_CREATED: Final = 201
_REJECTIONS: Final = (400, 401, 403)
_SERVER_ERROR: Final = 500
# Fields of `auth` in clouds.yaml; the variable of each is OS_ and its name in capitals.
_FIELDS: Final = (
    "auth_url",
    "username",
    "user_id",
    "password",
    "project_name",
    "project_id",
    "user_domain_name",
    "user_domain_id",
    "project_domain_name",
    "project_domain_id",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    "token",
)
_USER_FIELDS: Final = ("user_id", "username")


class Credentials(Struct, frozen=True):
    """Fields of `auth` as in clouds.yaml, and the certificate settings."""

    fields: Mapping[str, str]
    certificate: str = ""
    is_verified: bool = True

    @property
    def project(self) -> str:
        """Id or name of the project, "" if the credentials imply it."""
        return self.fields.get("project_id") or self.fields.get("project_name", "")

    @property
    def verification(self) -> str | bool:
        """Setting `verify` of the client."""
        return self.certificate or self.is_verified


def read_credentials(confinement: Confinement) -> Credentials:
    """Read the credentials: of the cloud named by OS_CLOUD, else of other OS_ variables. Raises ProviderProblem."""
    cloud = read_variable("OS_CLOUD")
    if cloud:
        return _read_cloud(cloud, confinement)
    fields = {name: value for name in _FIELDS if (value := read_variable(f"OS_{name.upper()}"))}
    return _check_login(Credentials(fields, read_variable("OS_CACERT")), "the environment")


def fetch_token(credentials: Credentials) -> str:
    """Log in to Keystone v3, and return the token. Raises ProviderProblem."""
    fields = credentials.fields
    address = f"{fields['auth_url'].rstrip('/').removesuffix('/v3')}/v3"
    if rejection := check_plain_credentials(address):  # over http
        raise ProviderProblem(f"Keystone: {rejection}.")
    body = json.dumps({"auth": _build_authentication(fields)}).encode()
    client = ApiClient(address, verify=credentials.verification)
    try:
        request = ApiRequest("POST", "/auth/tokens", content=body, headers={"Content-Type": "application/json"})
        answer = client.send(request)
    except WebError as problem:
        raise ProviderProblem(f"Keystone at {address}: {problem}.", is_unreachable=True) from None
    finally:
        client.close()
    token = answer.headers.get("x-subject-token", "")
    if answer.status == _CREATED and token:
        return token
    if answer.status in _REJECTIONS:
        raise ProviderProblem(f"Keystone at {address} rejected the credentials (status {answer.status}).")
    detail = f"{address} is no Keystone v3, or it failed: status {answer.status} in place of a token"
    raise ProviderProblem(f"{detail}. Check auth_url.", is_unreachable=answer.status >= _SERVER_ERROR)


def _read_cloud(cloud: str, confinement: Confinement) -> Credentials:
    """Read the credentials of a cloud from the first clouds.yaml found. Raises ProviderProblem."""
    configured = read_variable("OS_CLIENT_CONFIG_FILE")
    paths = [Path(place).expanduser() for place in ((configured,) if configured else _PLACES)]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        raise ProviderProblem(f'OS_CLOUD is "{cloud}", but there is no clouds.yaml: {", ".join(map(str, paths))}.')
    if is_untrusted_path(str(path), confinement):
        raise ProviderProblem(explain_untrusted_file("OS_CLOUD", str(path), "a pull request could replace it"))
    try:
        document = yaml.safe_load(read_regular(path, _MAX_BYTES))
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        raise ProviderProblem(f"{path} cannot be read as YAML.") from None
    entry = get_mapping(document, "clouds", cloud)
    auth = entry.get("auth")
    if not isinstance(auth, Mapping):
        raise ProviderProblem(f'{path} has no cloud "{cloud}" with the field auth.')
    fields = {name: str(auth[name]) for name in _FIELDS if auth.get(name)}
    verified = entry.get("verify") is not False
    return _check_login(Credentials(fields, str(entry.get("cacert") or ""), verified), f'the cloud "{cloud}" of {path}')


def _check_login(credentials: Credentials, source: str) -> Credentials:
    """Return the credentials if they are enough for a login. Raises ProviderProblem."""
    fields = credentials.fields
    if "auth_url" not in fields:
        raise ProviderProblem(
            f'auth = "keystone" needs credentials, and {source} has no auth_url. Set OS_CLOUD, or OS_AUTH_URL and the '
            'other variables of an openrc file. A Tacker without Keystone needs auth = "none".'
        )
    has_password = "password" in fields and not fields.keys().isdisjoint(_USER_FIELDS)
    if not (has_password or "token" in fields or _has_application_credential(fields)):
        detail = "needs a user and a password, a token, or an application credential with its secret"
        raise ProviderProblem(f"{source[0].upper()}{source[1:]} {detail}.")
    return credentials


def _build_authentication(fields: Mapping[str, str]) -> dict[str, Any]:
    """Build the request of Keystone v3: by application credential, else by token, else by password."""
    user: dict[str, Any] = {"name": fields.get("username"), "domain": _build_domain(fields, "user_domain")}
    if "user_id" in fields:
        user = {"id": fields["user_id"]}
    if _has_application_credential(fields):
        credential: dict[str, Any] = {"secret": fields["application_credential_secret"]}
        if "application_credential_id" in fields:
            credential["id"] = fields["application_credential_id"]
        else:
            credential |= {"name": fields["application_credential_name"], "user": user}
        return {"identity": {"methods": ["application_credential"], "application_credential": credential}}
    scope: dict[str, Any] = {}
    if "project_id" in fields:
        scope = {"scope": {"project": {"id": fields["project_id"]}}}
    elif "project_name" in fields:
        domain = _build_domain(fields, "project_domain")
        scope = {"scope": {"project": {"name": fields["project_name"], "domain": domain}}}
    if "token" in fields:
        return {"identity": {"methods": ["token"], "token": {"id": fields["token"]}}, **scope}
    return {
        "identity": {"methods": ["password"], "password": {"user": user | {"password": fields["password"]}}},
        **scope,
    }


def _has_application_credential(fields: Mapping[str, str]) -> bool:
    has_user = not fields.keys().isdisjoint(_USER_FIELDS)
    has_identifier = "application_credential_id" in fields or ("application_credential_name" in fields and has_user)
    return has_identifier and "application_credential_secret" in fields


def _build_domain(fields: Mapping[str, str], name: str) -> dict[str, str]:
    identifier = fields.get(f"{name}_id")
    return {"id": identifier} if identifier else {"name": fields.get(f"{name}_name", "Default")}
