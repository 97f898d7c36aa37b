"""Tests of warnings about text rejected by hcl2."""

import pytest

from nexusform.diagnostics.diagnostic import Position, SourceFile
from nexusform.language.parser import check_with_hcl2


def test_file_accepted_by_hcl2_has_no_warning() -> None:
    assert check_with_hcl2(SourceFile("a.nf.hcl", 'a "b" {\n  c = [1, "${d}"]\n}\n')) is None


def test_warning_has_its_position() -> None:
    problem = check_with_hcl2(SourceFile("a.nf.hcl", "a = 1\nb = !!c\n"))
    assert problem is not None
    assert problem.severity.value == "warning"
    assert problem.subject is not None
    assert problem.subject.start == Position(2, 6, 11)


@pytest.mark.parametrize(
    "text", ["größe = 1\n", "\ufeffa = 1\n", 'a = "${~ b ~}"\n', 'a = "$${b"\n', "a = [\n"]
)
def test_every_rejection_by_hcl2_is_a_warning_inside_the_file(text: str) -> None:
    problem = check_with_hcl2(SourceFile("a.nf.hcl", text))
    assert problem is not None
    assert problem.subject is not None
    assert problem.subject.end.byte <= len(text.encode())
