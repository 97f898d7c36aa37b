from __future__ import annotations

import pytest

from nexusform.rendering.pull_request.origin import Origin, line_of


@pytest.mark.parametrize(
    ("origin", "place", "text"),
    [
        (Origin(), "main.nf.hcl:3", "`main.nf.hcl:3`"),
        (Origin("https://h/o/r/blob/1", "lab"), "a b.nf.hcl:3", "[a b.nf.hcl:3](https://h/o/r/blob/1/lab/a%20b.nf.hcl#L3)"),
        (Origin("https://h/r", "lab"), "../shared/m.nf.hcl:3", "[../shared/m.nf.hcl:3](https://h/r/shared/m.nf.hcl#L3)"),
        (Origin("https://h/r", "lab"), "../../outside:3", "`../../outside:3`"),
        (Origin("https://h/r"), "/etc/x:3", "`/etc/x:3`"),
        (Origin("https://h/a) [b](c"), "m:3", "[m:3](https://h/a%29%20%5Bb%5D%28c/m#L3)"),
        (Origin("https://h/r"), "](x) @you:3", "[\\](x) @<span></span>you:3](https://h/r/%5D%28x%29%20%40you#L3)"),
    ],
)  # fmt: skip
def test_a_line_is_linked_where_its_file_is_at_the_host(origin: Origin, place: str, text: str) -> None:
    assert line_of(place, origin) == text
