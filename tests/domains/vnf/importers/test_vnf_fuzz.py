"""Fuzz tests of VNFD and HOT files.

Any input is parsed or rejected with a message, never with a crash.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nexusform.domains.vnf.importers.vnf_reading import read_vnf
from nexusform.domains.vnf.importers.vnf_records import (
    VnfSourceDocuments,
    compute_maximum_counts,
    compute_vdu_counts,
    find_unmet_rules,
    list_size_problems,
)
from tests.kill_points import scale_count

CASES = Path(__file__).parent / "cases"
TEXTS = sorted({path.read_text() for path in CASES.glob("*/*.yaml")})
WORDS = sorted({word for text in TEXTS for word in text.replace(":", " ").split()})
ODD = [
    None,
    True,
    -1,
    0,
    3,
    10**30,
    1.5,
    "",
    "...",
    "many",
    [],
    {},
    [[]],
    {"get_param": []},
    {"get_input": "x"},
]


def check_parsing(sources: VnfSourceDocuments) -> None:
    read = read_vnf(sources)
    for found in read.findings:
        assert found.detail
        assert found.line >= 0
    names = [vdu.name for vdu in read.vnf.vdus]
    assert len(names) == len(set(names))
    for numbers in (compute_vdu_counts(read.vnf).numbers, compute_maximum_counts(read.vnf).numbers):
        assert set(numbers) == set(names)
        assert all(0 <= number <= 10_000_000 for number in numbers.values())
        find_unmet_rules(read.vnf, numbers, 3, 2)
    list_size_problems(read.vnf, "no such level", {"no such aspect": 1})


@st.composite
def mangled_documents(draw: st.DrawFn) -> str:
    """Draw a known document with changed lines or a replaced word.

    Some lines are dropped, duplicated, indented or dedented.
    """
    lines = draw(st.sampled_from(TEXTS)).split("\n")
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        how = draw(st.sampled_from(["drop", "double", "in", "out", "word", "odd"]))
        if how == "drop":
            lines[at : at + 1] = [] if len(lines) > 1 else [""]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "in":
            lines[at] = "  " + lines[at]
        elif how == "out":
            lines[at] = lines[at].removeprefix("  ")
        elif how == "word":
            word = draw(st.sampled_from(WORDS))
            lines[at] = lines[at].replace(draw(st.sampled_from(WORDS)), word)
        else:
            head, colon, _ = lines[at].partition(":")
            value = yaml.safe_dump(draw(st.sampled_from(ODD)), default_flow_style=True)
            lines[at] = f"{head}{colon} {value.splitlines()[0]}"
    return "\n".join(lines)


@settings(max_examples=scale_count(150), deadline=None)
@given(mangled_documents(), mangled_documents(), mangled_documents())
def test_mangled_documents(one: str, two: str, three: str) -> None:
    check_parsing(VnfSourceDocuments(vnfd=one))
    check_parsing(
        VnfSourceDocuments(
            base_hot=one, nested={"worker.yaml": two, "master.yaml": three, "app.yaml": two}
        )
    )
    check_parsing(VnfSourceDocuments(one, two, {"grouped.yaml": three, "circle.yaml": three}))


def replace_random_part(data: Any, draw: st.DrawFn) -> Any:
    """Return the data with one randomly chosen part replaced by an unusual value."""
    if isinstance(data, dict) and data and draw(st.integers(0, 7)):
        key = draw(st.sampled_from(list(data)))
        return {**data, key: replace_random_part(data[key], draw)}
    if isinstance(data, list) and data and draw(st.integers(0, 7)):
        at = draw(st.integers(0, len(data) - 1))
        return [*data[:at], replace_random_part(data[at], draw), *data[at + 1 :]]
    return draw(st.sampled_from(ODD))


@st.composite
def invalid_documents(draw: st.DrawFn) -> str:
    """Draw a known document with well-formed but invalid parts."""
    names = [
        "podaffinity/vnfd.yaml",
        "levels/vnfd.yaml",
        "zones-and-sizes/vnfd.yaml",
        "podaffinity/base_hot.yaml",
    ]
    names += ["heat-groups/base_hot.yaml", "nested-troubles/base_hot.yaml"]
    data = yaml.safe_load((CASES / draw(st.sampled_from(names))).read_text())
    for _ in range(draw(st.integers(1, 3))):
        data = replace_random_part(data, draw)
    return yaml.safe_dump(data)


@settings(max_examples=scale_count(150), deadline=None)
@given(
    invalid_documents(),
    invalid_documents(),
    st.dictionaries(
        st.sampled_from(["nfv", "policy", "size", "memory", "workers"]), st.sampled_from(ODD)
    ),
)
def test_invalid_documents(one: str, two: str, parameters: dict[str, Any]) -> None:
    check_parsing(VnfSourceDocuments(one, None, {}, parameters, "complex"))
    check_parsing(
        VnfSourceDocuments(None, one, {"worker.yaml": two, "master.yaml": two}, parameters)
    )
    check_parsing(VnfSourceDocuments(one, two, {"master.yaml": one}, parameters))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    check_parsing(VnfSourceDocuments(text, text))
