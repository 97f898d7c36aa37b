"""moto's server, one request at a time: S3 writes on a condition at once, moto looks and then writes.

python tests/contracts/s3_service.py PORT
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from threading import Lock
from typing import Any

from moto import server

_ALONE = Lock()


class OneAtATime(server.DomainDispatcherApplication):
    """The application, of which no two requests are under way together."""

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with _ALONE:
            return list(super().__call__(environ, start_response))


server.DomainDispatcherApplication = OneAtATime  # type: ignore[misc]
server.main(["-H", "127.0.0.1", "-p", sys.argv[1]])
