"""The fast path: a complete training step, traced once, compiled, and replayed as one CUDA graph.

Gathering the batch, forward and backward pass, optimiser, schedules and the sums for the log are one function of
tensors that stay in place: the state, and buffers that hold a block of steps. A counter on the device says which
step is next, so that nothing waits for the host. `make_fx` traces the function and Inductor compiles it; tests
compare it with the plain path.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.utils import _pytree as pytree

from untwine.kernels.dispatch import fast
from untwine.kernels.fusion import fold_factors
from untwine.train.steps.batches import Batches, Block, Inputs
from untwine.train.steps.pack import Turn
from untwine.train.steps.step import PlainStep, Schedules
from untwine.train.steps.table import scaled

BACKEND = "inductor"  # "trace" runs what was traced as it is, to test all of it but the compiler
WARM_UP = 3  # runs before the capture: kernels are made and chosen in the first
# Choices by measurement would differ from process to process, and with them the last bits of sums.
OPTIONS = {
    "triton.cudagraphs": False,
    "deterministic": True,
    "shape_padding": False,
    "size_asserts": False,
    "combo_kernels": True,  # small operations side by side in one launch
}


class CompiledStep:
    """Takes steps by replaying compiled code; a batch that was not compiled for takes the plain step.

    Making one compiles, which takes a while, and leaves the state bitwise as it was.

    Args:
        plain: The plain steps of the same pack.
        batches: The batches of that pack.
        steps: The steps of the run.
        backend: "inductor", or "trace" to run what was traced as it is; by default `BACKEND`.
    """

    path = "fast"

    def __init__(self, plain: PlainStep, batches: Batches, steps: int, backend: str | None = None):
        self.plain, self.function, self.state = plain, plain.function, plain.state
        self.backend = backend or BACKEND
        self.device = self.function.pack.device
        self.size = batches.size if batches.sampling == "iid" else min(batches.size, batches.info.data_size)
        self.width = self.size if batches.pairing is None else 2 * self.size  # examples and their partners
        self.buffers = self._buffers(batches)
        self.flat, self.structure = pytree.tree_flatten(self.buffers)
        self.pool: Any = None
        before = {name: value.clone() for name, value in self.state.tensors().items()}
        try:
            with fast():
                pack = self.function.pack
                kinds = itertools.product((False, True) if pack.terms[1] else (False,), sorted(pack.turns(steps)))
                self.variants = {kind: self._variant(*kind) for kind in kinds}
        finally:
            self.state.fill(before)

    def _buffers(self, batches: Batches) -> dict[str, Any]:
        """All arguments of the compiled function, by name: tensors that stay in place while their content changes."""
        members, steps = len(self.function.pack), batches.block
        like: dict[str, Any] = {"device": self.device}
        twice = range(2 if batches.second else 1)
        shapes = {name: (steps, members, self.width, *shape) for name, (_, shape) in batches.noise.items()}
        block: dict[str, Any] = {
            "noise": {name: torch.full(shape, 0.5, **like) for name, shape in shapes.items()},
            "schedules": {
                name: tuple(value.new_ones((steps, *value.shape[1:])) for value in values)
                for name, values in self.function.schedules(np.arange(1)).items()
            },
        }
        buffers: dict[str, Any] = {
            "state": self.state.tensors(),
            "parts": self.state.buffers,
            "place": torch.zeros(1, dtype=torch.long, **like),  # of the step in the block
            "start": torch.zeros((), dtype=torch.long, **like),  # the first step of the block
            "block": block,
        }
        if batches.gathered:
            block["numbers"] = [torch.zeros(steps, members, self.size, dtype=torch.long, **like) for _ in twice]
            buffers["rows"] = batches.table.rows
            if batches.table.standard is not None:
                buffers["standard"] = batches.table.standard
        else:
            buffers["batches"] = [torch.zeros(members, self.width, *batches.info.shape, **like) for _ in twice]
        return buffers

    def _variant(self, watch: bool, turn: Turn) -> Callable[[], Tensor]:
        """A function that takes a step and returns its terms."""
        with torch.enable_grad(), _unchecked():
            traced = _traced(self._flat_function(watch, turn), self.flat)
        if self.backend == "trace":
            return lambda: traced(*self.flat)[0]
        compiled = _inductor(traced, self.flat)
        return self._captured(compiled) if self.device.type == "cuda" else lambda: compiled(*self.flat)[0]

    def _flat_function(self, watch: bool, turn: Turn) -> Callable[..., list[Tensor]]:
        """A step as a function of the flat tensors; it changes some of them, and returns its terms."""

        def step(*flat: Tensor) -> list[Tensor]:
            buffers = pytree.tree_unflatten(flat, self.structure)
            state, place = buffers["state"], buffers["place"]
            now = pytree.tree_map(lambda many: many.index_select(0, place)[0], buffers["block"])
            if "numbers" in now:
                x = [_rows(buffers["rows"], numbers, buffers.get("standard")) for numbers in now["numbers"]]
            else:
                x = buffers["batches"]
            inputs = Inputs(buffers["start"] + place[0], x[0], now["noise"], x[1] if len(x) > 1 else None)
            terms, new = self.function(
                state, buffers["parts"], inputs, now["schedules"], watch, compiled=True, turn=turn
            )
            for name, value in new.items():
                state[name].copy_(value)
            place.add_(1)
            return [terms]

        return step

    def _captured(self, function: Callable[..., Any]) -> Callable[[], Tensor]:
        """The function as a CUDA graph."""
        stream = torch.cuda.Stream(self.device)
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(WARM_UP):
                self.buffers["place"].zero_()
                function(*self.flat)
            stream.synchronize()
            self.buffers["place"].zero_()
        torch.cuda.current_stream(self.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        # Graphs share their memory: one at a time runs, and its terms are read before the next.
        with torch.no_grad(), torch.cuda.graph(graph, self.pool, stream, capture_error_mode="thread_local"):
            terms = function(*self.flat)[0]
        self.pool = graph.pool()

        def replay() -> Tensor:
            graph.replay()
            return terms

        return replay

    def begin(self, block: Block, schedules: Schedules) -> None:
        """Fill the buffers with what the steps of a block consume."""
        self.plain.begin(block, schedules)
        self.block = block
        content: dict[str, Any] = {"schedules": schedules}
        content["noise"] = {name: values[:, :, : self.width] for name, values in block.noise.items()}
        if "numbers" in self.buffers["block"]:
            content["numbers"] = [_stacked(numbers, self.size) for numbers in zip(*block.sources, strict=True)]
        _fill(self.buffers["block"], content)
        self.buffers["place"].zero_()
        self.buffers["start"].fill_(block.start)

    def __call__(self, i: int, watch: bool) -> Tensor:
        """Take the i-th step of the block; return its terms."""
        if self.block.size(i) != self.size:  # the last batch of an epoch may be short
            terms, new = self.plain.compute(i, watch)
            self.state.fill(new)
            self.buffers["place"].add_(1)
            return terms
        if "batches" in self.buffers:
            for buffer, batch in zip(self.buffers["batches"], self.block.examples(i), strict=False):
                buffer.copy_(batch)
        return self.variants[watch, self.function.pack.turn(self.block.start + i)]()


def _traced(function: Callable[..., Any], tensors: list[Tensor]) -> torch.fx.GraphModule:
    """The graph of a function's operations, below autograd and vmap, in which equal operations are one.

    Tracing runs none of them. Equal operations can be found because nothing is changed in place before the end; the
    weights, for example, are laid out once for values and tangents.

    Args:
        function: A function of tensors.
        tensors: Its arguments.
    """
    from torch._functorch.compile_utils import fx_graph_cse
    from torch.fx.experimental.proxy_tensor import make_fx

    make = functools.partial(make_fx, tracing_mode="fake", _allow_non_fake_inputs=True)
    traced = make(function)(*tensors)
    pure = make(torch.func.functionalize(traced, remove="mutations"))(*tensors)
    # Below autograd these return their argument, and hide that operations are equal. Which of them torch records for
    # `Tensor.detach` depends on its version: `alias` since 2.15.
    for identity in (torch.ops.aten.detach.default, torch.ops.aten.alias.default):
        for node in pure.graph.find_nodes(op="call_function", target=identity):
            node.replace_all_uses_with(node.args[0])
            pure.graph.erase_node(node)
    graph = fx_graph_cse(pure.graph)
    fold_factors(graph)
    return torch.fx.GraphModule(pure, graph)


def _inductor(traced: torch.fx.GraphModule, tensors: list[Tensor]) -> Callable[..., Any]:
    import torch._inductor as inductor

    known = set(inductor.list_options())
    compiler: Any = inductor.compile
    _announced()
    with torch.no_grad():
        return compiler(traced, tensors, options={key: OPTIONS[key] for key in OPTIONS if key in known})


def _announced() -> None:
    """Tell Inductor of our operators, since it compiles an operator differently when it first meets it."""
    from torch._inductor import lowering

    from untwine.kernels import norm_operators, operators

    for operator in (*operators.OPERATORS, *norm_operators.OPERATORS):
        if operator._opoverload not in lowering.lowerings:
            lowering.make_fallback(operator._opoverload, lowering.constrain_to_fake_tensors, warn=False)


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    """A context in which distributions do not check their arguments: torch builds some inside of others, which do."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


def _rows(rows: Tensor, numbers: Tensor, standard: Tensor | None) -> Tensor:
    return scaled(rows.index_select(0, numbers.flatten()), standard).unflatten(0, numbers.shape)


def _stacked(numbers: Sequence[Tensor], size: int) -> Tensor:
    """The numbers of several batches `[steps, members, size]`; short ones, which are never read, are padded."""
    short = [size - batch.shape[1] for batch in numbers]
    return torch.stack([torch.nn.functional.pad(n, (0, by)) if by else n for n, by in zip(numbers, short, strict=True)])


def _fill(buffers: Any, values: Any) -> None:
    """Copy nested tensors into the beginnings of nested buffers."""
    if isinstance(buffers, Tensor):
        buffers[: len(values)].copy_(values)
        return
    for key in buffers if isinstance(buffers, dict) else range(len(buffers)):
        _fill(buffers[key], values[key])
