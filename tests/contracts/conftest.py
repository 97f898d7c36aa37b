"""Fixtures with the servers of the backend tests, one of each for all tests."""

from collections.abc import Iterator

import pytest

from tests.contracts import servers
from tests.contracts.http_state_server import run_state_server


@pytest.fixture(scope="session")
def azurite() -> Iterator[str]:
    with servers.run_azurite() as address:
        yield address


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    with servers.run_s3_server() as address:
        yield address


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with servers.run_postgres() as address:
        yield address


@pytest.fixture(scope="session")
def http_server() -> Iterator[str]:
    with run_state_server() as (address, _):
        yield address
