"""Limits on the size of a plan and of its input.

An error or untrusted text then ends in a diagnostic.

The `limits` block of a configuration sets them, in a sandboxed run only lower; `-limit=NAME=N` and
NF_LIMIT_NAME override it and may raise them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict, replace

from nexusform.diagnostics.diagnostic import DiagnosticsError, build_error, suggest_name

# Prefix of environment variables.
VARIABLE_PREFIX: Final = "NF_LIMIT_"


class PlanSizeLimits(Struct, frozen=True):
    """Maximum of each figure for one plan; the fields are the names in configuration and flags."""

    vms: int = 2_000_000
    machines: int = 200_000
    instances: int = 200_000
    cpus_per_cell: int = 4_096
    memory_gib_per_cell: int = 65_536
    # Of a state, a journal, a plan file.
    file_mib: int = 1_024
    # Of all files that functions and data sources read.
    read_mib: int = 2_048
    # Maximum planning time in a sandboxed run.
    seconds: int = 600

    @property
    def file_bytes(self) -> int:
        """`file_mib` in bytes."""
        return self.file_mib << 20


DEFAULT: Final = PlanSizeLimits()
NAMES: Final = PlanSizeLimits.__struct_fields__
# Names that cannot be set, with the reason.
FIXED_LIMITS: Final[Mapping[str, str]] = {
    "nesting": (
        '"nesting" cannot be set: YAML and JSON nest at most 512 levels, the safe depth of the '
        "interpreter. Make the document flatter."
    )
}


def build_limit_error(subject: str, name: str, maximum: int) -> DiagnosticsError:
    """Build the error for more than `maximum` of the counted `subject`, the limit `name`.

    It ends the whole plan.
    """
    detail = (
        f"The configuration creates more than {maximum:,} {subject}, the limit. To plan more, "
        f"raise the limit: -limit={name}=N or {VARIABLE_PREFIX}{name.upper()}=N."
    )
    return DiagnosticsError(build_error("plan-too-large", detail))


def parse_limit_overrides(environment: Mapping[str, str], flags: Iterable[str]) -> dict[str, int]:
    """Parse the limits of the environment (NF_LIMIT_VMS=N) and of flags (vms=N).

    Flags win. Raises ValueError.
    """
    # Pairs of a variable or flag, and NAME=N; of equal names the last counts.
    settings = [
        (name, f"{name.removeprefix(VARIABLE_PREFIX).lower()}={number}")
        # They are sorted, so that errors are reported in a fixed order.
        for name, number in sorted(environment.items())
        if name.startswith(VARIABLE_PREFIX)
    ]
    settings += [("-limit", setting) for setting in flags]
    limits: dict[str, int] = {}
    for origin, setting in settings:
        name, _, number = setting.partition("=")
        if name in FIXED_LIMITS:
            raise ValueError(f"{origin}: {FIXED_LIMITS[name]}")
        if name not in NAMES:
            known = f"Known are: {', '.join(NAMES)}.{suggest_name(name, NAMES)}"
            raise ValueError(f'{origin}: there is no limit "{name}". {known}')
        # 15 digits are far above any use.
        if not (number.isascii() and number.isdecimal()) or not 0 < len(number) < 16:
            raise ValueError(
                f'{origin}: "{setting}" is not of the form NAME=N with a whole number.'
            )
        limits[name] = int(number)
    return limits


def merge_limits(
    configured: Mapping[str, int], overrides: Mapping[str, int], *, confined: bool
) -> PlanSizeLimits:
    """Merge the limits of a plan.

    A confined (sandboxed) configuration can only lower the defaults.
    """
    if confined:
        configured = {
            name: min(number, asdict(DEFAULT)[name]) for name, number in configured.items()
        }
    return replace(DEFAULT, **{**configured, **overrides})
