"""moto's server, one request at a time: S3 writes on a condition at once, moto looks and then writes.

python tests/contracts/s3_service.py PORT
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from io import BytesIO
from threading import Lock
from typing import Any

from moto import server

_ALONE = Lock()


class OneAtATime(server.DomainDispatcherApplication):
    """The application, of which no two requests are under way together."""

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        # All of it is there before others wait for it: who sends half a request may never send the rest.
        is_chunked = environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked"
        length = -1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(length))
        with _ALONE:
            return list(super().__call__(environ, start_response))


server.DomainDispatcherApplication = OneAtATime  # type: ignore[misc]
server.main(["-H", "127.0.0.1", "-p", sys.argv[1]])
