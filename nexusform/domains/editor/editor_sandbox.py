"""The wall around requests of an editor; each directory has its own confinement."""

from collections.abc import Iterator
from contextlib import contextmanager

from nexusform.files.sandbox import use_sandbox
from nexusform.workflow.opening.command_context import CommandContext


@contextmanager
def open_editor_sandbox(context: CommandContext) -> Iterator[None]:
    """Reject undeclared accesses of this process within a block, if the directory is confined."""
    if not context.confinement.root:
        yield
        return
    with use_sandbox(context.confinement, (context.directory,)):
        yield
