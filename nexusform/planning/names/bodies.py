"""Bodies of blocks checked against their schema, once per block and plan."""

from __future__ import annotations

from collections.abc import Mapping

from nexusform.address import ConfigAddress, Mode
from nexusform.configuration.evaluation import PreparedBody, prepare_resource
from nexusform.configuration.model import ResourceBlock
from nexusform.diagnostics import Diagnostic, has_errors
from nexusform.schema import BlockSchema


class PreparedBodies:
    """Bodies checked against their schema, once per block."""

    def __init__(self, schemas: Mapping[Mode, Mapping[str, BlockSchema]]) -> None:
        self._schemas = schemas
        self._known: dict[ConfigAddress, PreparedBody | None] = {}
        self.diagnostics: list[Diagnostic] = []
        self.flawed: set[ConfigAddress] = set()

    def of(self, block: ResourceBlock) -> PreparedBody | None:
        """The block's body, None for an unknown type. What is wrong with it was reported, its block
        is `flawed`, and what is wrong reads as unknown.
        """
        if block.address not in self._known:
            schema = self._schemas[block.mode].get(block.type)
            body = None
            if schema is not None:
                body, problems = prepare_resource(block, schema)
                self.diagnostics += problems
                if has_errors(problems):
                    self.flawed.add(block.address)
            self._known[block.address] = body
        return self._known[block.address]
