"""Test of the HTTP server of the tests: a client that is killed while it sends its request."""

import socket

from tests.contracts.http_state_server import Handler, run_state_server


def test_half_of_a_state_is_not_stored() -> None:
    with run_state_server(Handler) as (address, store):
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"POST /lab HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\nhalf")
            client.shutdown(socket.SHUT_WR)
            # The server closes the connection without an answer.
            assert client.recv(100) == b""
        assert store.requests == []
