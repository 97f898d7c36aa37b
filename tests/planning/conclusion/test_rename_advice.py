"""What was most likely renamed is said with the `moved` block to write; what merely goes and comes is not."""

from __future__ import annotations

from tests.planning.harness import RACKS, cluster, plan, pool, state_of, warnings


def told(before: str, after: str) -> list[str]:
    result = plan(RACKS + after, state_of(RACKS + before))
    return [problem.detail for problem in warnings(result) if problem.id in {"probable-rename", "destructive-rename"}]


def test_a_block_under_another_name_is_said_with_the_block_to_write() -> None:
    (detail,) = told(cluster("a", pools=pool("p", 2)), cluster("b", pools=pool("p", 2)))
    assert detail.startswith("nexus_kubernetes_cluster.a is removed and nexus_kubernetes_cluster.b")
    moved = "  moved {\n    from = nexus_kubernetes_cluster.a\n    to   = nexus_kubernetes_cluster.b\n  }"
    assert detail.endswith(moved)
    # With that block nothing is destroyed, and nothing is said.
    assert told(cluster("a", pools=pool("p", 2)), cluster("b", pools=pool("p", 2)) + moved) == []


def test_what_is_written_otherwise_is_another_thing() -> None:
    old = cluster("a", pools=pool("p", 2))
    assert told(old, cluster("b", pools=pool("p", 3))) == []
    assert told(old, cluster("b", pools=pool("q", 2))) == []
    # A name that is written would be another one: moved would not keep the object.
    assert told(old, cluster("b", arguments='name = "b"', pools=pool("p", 2))) == []
    assert told(old, cluster("b", arguments='name = "a"', pools=pool("p", 2))) != []


def test_which_of_two_it_was_is_not_guessed() -> None:
    twins = cluster("b", pools=pool("p", 2)) + cluster("c", pools=pool("p", 2))
    assert told(cluster("a", pools=pool("p", 2)), twins) == []


def test_keys_of_a_block_are_renamed_alike() -> None:
    def each(*keys: str) -> str:
        names = ", ".join(f'"{key}"' for key in keys)
        name = 'name = lookup({ z = "y" }, each.key, each.key)'
        return cluster("a", arguments=f"for_each = toset([{names}])\n  {name}", pools=pool("p", 1))

    (detail,) = told(each("x", "y"), each("x", "z"))
    assert 'from = nexus_kubernetes_cluster.a["y"]' in detail
    assert 'to   = nexus_kubernetes_cluster.a["z"]' in detail
    assert told(each("x", "y"), each("x", "u", "v")) == []


def test_all_instances_of_a_block_go_with_it() -> None:
    old, new = (
        cluster(name, arguments='count = 2\n  name  = "c${count.index}"', pools=pool("p", 1)) for name in ("a", "b")
    )
    (detail,) = told(old, new)
    assert detail.startswith("nexus_kubernetes_cluster.a (2 instances) is removed")
    assert "from = nexus_kubernetes_cluster.a\n" in detail
