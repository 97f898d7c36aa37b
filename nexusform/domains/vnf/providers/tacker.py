"""The `tacker` provider: settings and factory."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from nexusform.files.regular_files import UNCONFINED, Confinement
from nexusform.interfaces.plugins import Provider, ProviderProblem
from nexusform.kubernetes.quantity import parse_duration
from nexusform.providers.provider_definition import ProviderDefinition
from nexusform.schemas.block_schema import AttributeSchema, BlockSchema
from nexusform.schemas.value_types import BOOL, STRING

NAME: Final = "nexusform.dev/builtin/tacker"
KEYSTONE: Final = "keystone"

SETTINGS: Final = BlockSchema(
    {
        "endpoint": AttributeSchema(
            STRING, "Address of Tacker, such as https://tacker:9890.", required=True
        ),
        "auth": AttributeSchema(
            STRING,
            (
                '"keystone": credentials from OS_CLOUD and clouds.yaml, else from OS_*. "none": '
                "for noauth."
            ),
            optional=True,
            default=KEYSTONE,
            choices=(KEYSTONE, "none"),
        ),
        "on_failure": AttributeSchema(
            STRING,
            "Answer to an operation that failed temporarily. Healing, scale-in and termination "
            "cannot be rolled back: they fail.",
            optional=True,
            default="rollback",
            choices=("retry", "rollback", "fail"),
        ),
        "graceful": AttributeSchema(
            BOOL, "Terminate VNFs gracefully, not forcefully.", optional=True, default=True
        ),
        "timeout": AttributeSchema(
            STRING,
            "Timeout of an operation, such as 30m. Continue later with `apply -resume`.",
            optional=True,
            default="30m",
            pattern=r"(?=.*[1-9])([0-9]{1,9}(\.[0-9]{1,9})?[smh])+",
            pattern_hint="a duration such as 30m",
        ),
    },
    blocks={},
    description="Instantiates, scales, heals and terminates VNFs through Tacker.",
)


def make_provider(
    settings: Mapping[str, Any],
    _directory: str,
    exit_stack: ExitStack,
    confinement: Confinement = UNCONFINED,
) -> Provider:
    """Create the provider for evaluated settings; nothing is sent before the first read.

    Raises ProviderProblem.
    """
    from nexusform.domains.vnf.providers.tacker_client import (
        Credentials,
        PollTiming,
        TackerClient,
        read_credentials,
    )
    from nexusform.domains.vnf.providers.tacker_provider import TackerOptions, TackerProvider
    from nexusform.network.web_errors import check_plain_credentials

    endpoint = str(settings["endpoint"]).rstrip("/")
    credentials = Credentials()
    if settings["auth"] == KEYSTONE:
        credentials = read_credentials(confinement)
        if rejection := check_plain_credentials(endpoint):
            raise ProviderProblem(f"endpoint: {rejection}.")
    timeout = parse_duration(str(settings["timeout"]))
    # Its pattern ensures this.
    assert not isinstance(timeout, str)
    # Retries last no longer than an operation.
    retry_timing = PollTiming(outage=min(30.0, timeout))
    client = TackerClient(endpoint, credentials, retry_timing)
    exit_stack.callback(client.close)
    options = TackerOptions(
        on_failure=str(settings["on_failure"]),
        timeout=timeout,
        is_graceful=settings["graceful"] is not False,
    )
    return TackerProvider(NAME, client, options)


def list_urls(settings: Mapping[str, Any]) -> Sequence[str]:
    """List the servers to contact.

    The operator must permit them, also for a connection without credentials.
    """
    return (str(settings["endpoint"]),)


PROVIDER: Final = ProviderDefinition(
    SETTINGS,
    make_provider,
    list_server_urls=list_urls,
    alternative="Without `provider = tacker`, VNFs are planned only.",
)
