"""Rewrites a traced step so that kernels do what would be an operation of its own before them."""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from untwine.kernels import operators

_ATEN = torch.ops.aten
_VIEWS = {
    *(_ATEN.view.default, _ATEN._unsafe_view.default, _ATEN.permute.default, _ATEN.transpose.int),
    *(_ATEN.squeeze.dim, _ATEN.squeeze.dims, _ATEN.unsqueeze.default, _ATEN.select.int),
}
_ADDED, _FACTOR = 5, 6  # the places of these arguments of `conv_down` and `conv_up`


def fold_factors(graph: Graph) -> int:
    """Leave `scaled` tensors that a convolution adds to that convolution; returns how many.

    A pass over memory less for each. What is scaled and used in another way stays as it is.

    Args:
        graph: The graph of a traced function, which is changed. Its nodes know their values as `meta["val"]`.
    """
    folded = 0
    for operator in (operators.conv_down, operators.conv_up):
        for node in graph.find_nodes(op="call_function", target=operator._opoverload):
            added = node.args[_ADDED]
            if added is None or node.args[_FACTOR] is not None:
                continue
            source = _source(added)
            if source.target is not operators.scaled._opoverload or _shape(source) != _shape(added):
                continue
            arguments = list(node.args)
            arguments[_ADDED : _FACTOR + 1] = source.args
            node.args = tuple(arguments)
            _erase_unused(graph, added, source)
            folded += 1
    return folded


def _source(node: Node) -> Node:
    """The node that a view shows: all of its numbers, in their order."""
    while node.target in _VIEWS and isinstance(before := node.args[0], Node) and _same_memory(node, before):
        node = before
    return node


def _same_memory(node: Node, other: Node) -> bool:
    first, second = node.meta["val"], other.meta["val"]
    return first.is_contiguous() and second.is_contiguous() and first.numel() == second.numel()


def _shape(node: Node) -> torch.Size:
    return node.meta["val"].shape


def _erase_unused(graph: Graph, node: Node, last: Node) -> None:
    """Erase views without users, and what the last of them shows."""
    while not node.users:
        before = node.args[0]
        graph.erase_node(node)
        if node is last:
            return
        assert isinstance(before, Node)
        node = before
