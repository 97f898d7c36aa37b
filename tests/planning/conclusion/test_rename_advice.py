"""Tests of rename advice: a probable rename is reported with its `moved` block.

A plain removal or addition is not reported.
"""

from __future__ import annotations

from tests.planning.harness import RACKS, build_state, cluster, list_warnings, plan, pool


def list_rename_warnings(before: str, after: str) -> list[str]:
    result = plan(RACKS + after, build_state(RACKS + before))
    return [
        problem.detail
        for problem in list_warnings(result)
        if problem.id in {"probable-rename", "destructive-rename"}
    ]


def test_renamed_block_is_reported_with_moved_block() -> None:
    (detail,) = list_rename_warnings(
        cluster("a", pools=pool("p", 2)), cluster("b", pools=pool("p", 2))
    )
    assert detail.startswith("nexus_kubernetes_cluster.a is removed and nexus_kubernetes_cluster.b")
    moved = (
        "  moved {\n    from = nexus_kubernetes_cluster.a\n    to   = nexus_kubernetes_cluster.b\n"
        "  }"
    )
    assert detail.endswith(moved)
    # With that block nothing is destroyed and nothing is reported.
    assert (
        list_rename_warnings(
            cluster("a", pools=pool("p", 2)), cluster("b", pools=pool("p", 2)) + moved
        )
        == []
    )


def test_blocks_with_different_arguments_are_no_rename() -> None:
    old = cluster("a", pools=pool("p", 2))
    assert list_rename_warnings(old, cluster("b", pools=pool("p", 3))) == []
    assert list_rename_warnings(old, cluster("b", pools=pool("q", 2))) == []
    # A configured name changes with the rename: a moved block would not keep the object.
    assert list_rename_warnings(old, cluster("b", arguments='name = "b"', pools=pool("p", 2))) == []
    assert list_rename_warnings(old, cluster("b", arguments='name = "a"', pools=pool("p", 2))) != []


def test_ambiguous_rename_is_not_guessed() -> None:
    twins = cluster("b", pools=pool("p", 2)) + cluster("c", pools=pool("p", 2))
    assert list_rename_warnings(cluster("a", pools=pool("p", 2)), twins) == []


def test_renamed_keys_of_a_block_are_reported() -> None:
    def build_cluster(*keys: str) -> str:
        names = ", ".join(f'"{key}"' for key in keys)
        name = 'name = lookup({ z = "y" }, each.key, each.key)'
        return cluster("a", arguments=f"for_each = toset([{names}])\n  {name}", pools=pool("p", 1))

    (detail,) = list_rename_warnings(build_cluster("x", "y"), build_cluster("x", "z"))
    assert 'from = nexus_kubernetes_cluster.a["y"]' in detail
    assert 'to   = nexus_kubernetes_cluster.a["z"]' in detail
    assert list_rename_warnings(build_cluster("x", "y"), build_cluster("x", "u", "v")) == []


def test_all_instances_of_a_block_are_renamed_together() -> None:
    old, new = (
        cluster(name, arguments='count = 2\n  name  = "c${count.index}"', pools=pool("p", 1))
        for name in ("a", "b")
    )
    (detail,) = list_rename_warnings(old, new)
    assert detail.startswith("nexus_kubernetes_cluster.a (2 instances) is removed")
    assert "from = nexus_kubernetes_cluster.a\n" in detail


def test_object_with_one_id_is_created_again_whatever_its_arguments() -> None:
    """The moved block is known although arguments change, too, and for count as for for_each."""
    name = 'name = "x"'
    (detail,) = list_rename_warnings(
        cluster("a", arguments=name, pools=pool("p", 2)),
        cluster("b", arguments=name, pools=pool("p", 3)),
    )
    assert "with the same id, is added. The object is deleted and created again." in detail
    (detail,) = list_rename_warnings(
        cluster("a", arguments=f"count = 1\n  {name}", pools=pool("p", 2)),
        cluster("a", arguments=f'for_each = toset(["k"])\n  {name}', pools=pool("p", 2)),
    )
    assert "from = nexus_kubernetes_cluster.a[0]" in detail
    assert 'to   = nexus_kubernetes_cluster.a["k"]' in detail


def test_pool_cannot_be_renamed() -> None:
    def list_pool_warnings(pools: str) -> list[str]:
        state = build_state(RACKS + cluster("a", pools=pool("p", 2) + pool("q", 3)))
        result = plan(RACKS + cluster("a", pools=pools), state=state)
        return [item.detail for item in list_warnings(result) if item.id == "pool-rename"]

    (detail,) = list_pool_warnings(pool("new", 2) + pool("q", 3))
    assert detail.endswith("Add pool new first, move the workloads, then remove p.")
    assert list_pool_warnings(pool("new", 1) + pool("q", 3)) == []
    assert list_pool_warnings(pool("p", 2) + pool("q", 3) + pool("new", 2)) == []
