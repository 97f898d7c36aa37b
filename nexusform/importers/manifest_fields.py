"""A careful walk through a manifest's body: what has the wrong type is a finding, not a crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from nexusform.diagnostics import Problem, Severity
from nexusform.importers.kubernetes_manifests import INVALID, Manifest, plain_text
from nexusform.importers.yaml_text import problem_at

_EMPTY: Final[Mapping[str, Any]] = {}


class Fields:
    """A mapping of a manifest at a path. Absent parts read as empty; wrong ones are noted once."""

    def __init__(
        self, manifest: Manifest, findings: list[Problem], data: Mapping[str, Any], *path: str | int
    ) -> None:
        self.manifest = manifest
        self.findings = findings
        self.data = data
        self.path = path

    def __contains__(self, key: str) -> bool:
        return self.data.get(key) is not None

    def say(self, key: str, detail: str, severity: Severity = Severity.ERROR) -> None:
        """Note what is wrong with a key, naming the object."""
        path = (*self.path, key) if key else self.path
        name = ".".join(str(step) for step in path)
        where = self.manifest.find(*path)
        text = f"{self.manifest.title}: {name} {detail}"
        self.findings.append(problem_at(self.manifest.file, where, INVALID, text, severity))

    def at(self, key: str) -> Fields:
        """The mapping under a key."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, dict):
            self.say(key, "must be a mapping.")
            value = None
        return Fields(self.manifest, self.findings, value or _EMPTY, *self.path, key)

    def each(self, key: str) -> Iterator[Fields]:
        """The mappings of a list under a key. A single mapping in its place is read as one item."""
        value = self.data.get(key)
        if isinstance(value, dict):
            self.say(key, "must be a list; it is read as a list of one.", Severity.WARNING)
            yield Fields(self.manifest, self.findings, value, *self.path, key)
            return
        for at, item in enumerate(self.list(key)):
            if isinstance(item, dict):
                yield Fields(self.manifest, self.findings, item, *self.path, key, at)
            else:
                self.say(key, f"must be a list of mappings (item {at + 1} is none).")

    def list(self, key: str) -> list[Any]:
        """The items of a list under a key."""
        value = self.data.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.say(key, "must be a list.")
            return []
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; other scalars are read as the text that was meant."""
        items = self.list(key)
        if any(isinstance(item, (dict, list)) for item in items):
            self.say(key, "must be a list of texts.")
        elif any(not isinstance(item, str) for item in items):
            self.say(key, "must be a list of texts; quote its items.", Severity.WARNING)
        return tuple(plain_text(item) for item in items if not isinstance(item, (dict, list)))

    def text(self, key: str, default: str = "") -> str:
        """A text; other scalars are read as the text that was meant."""
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, (dict, list)):
            self.say(key, "must be a text.")
            return default
        if not isinstance(value, str):
            self.say(key, "must be a text; quote it.", Severity.WARNING)
        return plain_text(value)

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """A whole number that is not below `least`."""
        value = self.data.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.say(key, f"must be a whole number, {least} or more.")
            return default
        return value

    def flag(self, key: str) -> bool:
        """A boolean; absent is false."""
        value = self.data.get(key)
        if value is not None and not isinstance(value, bool):
            self.say(key, "must be true or false.")
        return value is True

    def one_of(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of some words."""
        value = self.text(key, default)
        if value not in choices:
            self.say(key, f'is "{value}"; it must be one of {", ".join(choices)}.')
            return default
        return value

    def pairs(self, key: str) -> dict[str, str]:
        """A mapping of texts, as labels are."""
        inner = self.at(key)
        return {name: inner.text(name) for name in inner.data}
