"""moto's server with one request at a time.

A conditional write of S3 is atomic, moto checks first and then writes.

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


class SequentialApplication(server.DomainDispatcherApplication):
    """Application without parallel requests."""

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        # Read the whole body before others wait: the rest of an incomplete request
        # may never arrive.
        is_chunked = environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked"
        length = -1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(length))
        with _ALONE:
            return list(super().__call__(environ, start_response))


server.DomainDispatcherApplication = SequentialApplication  # type: ignore[misc]
server.main(["-H", "127.0.0.1", "-p", sys.argv[1]])
