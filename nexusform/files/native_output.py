"""Output of native libraries, past sys.stdout."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def discard_native_output() -> Iterator[None]:
    """Discard native writes to standard output.

    HiGHS 1.16 prints a banner there before it can be disabled.
    """
    sys.stdout.flush()
    original = os.dup(1)
    try:
        with Path(os.devnull).open("w") as sink:
            os.dup2(sink.fileno(), 1)
        yield
    finally:
        os.dup2(original, 1)
        os.close(original)
