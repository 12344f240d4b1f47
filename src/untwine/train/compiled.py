"""The fast path: a whole training step, traced once, compiled, and replayed as one CUDA graph.

The gathering of the batch, noise, forward and backward pass, optimiser, schedules and the sums for the log
are one function of tensors that stay where they are: the state, and buffers that hold a block of steps.
A counter on the device says which of them is next, so that nothing waits for the host. The function is
traced by `make_fx` and compiled by Inductor; the plain path remains what it is compared with.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.utils import _pytree as pytree

from untwine.kernels.dispatch import fast
from untwine.train.batches import Block, scaled

if TYPE_CHECKING:
    from untwine.train.trainer import Trainer

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
    """The steps of a trainer on the fast path: `begin` a block, then call it for each step that `fits`.

    Making one compiles, which takes a while, and leaves the trainer's state bitwise as it was.
    """

    def __init__(self, trainer: Trainer, backend: str | None = None):
        self.trainer, self.backend = trainer, backend or BACKEND
        self.device = trainer.pack.device
        made = trainer.batches
        self.size = made.size if made.sampling == "iid" else min(made.size, made.info.data_size)
        self.width = self.size if made.pairing is None else 2 * self.size  # examples and their partners
        self.given = self._buffers()
        self.flat, self.structure = pytree.tree_flatten(self.given)
        self.pool: Any = None
        before = {name: value.clone() for name, value in trainer.state.tensors().items()}
        try:
            with fast():
                kinds = (False, True) if trainer.pack.terms[1] else (False,)
                self.variants = {watch: self._variant(watch) for watch in kinds}
        finally:
            trainer.state.fill(before)

    def _buffers(self) -> dict[str, Any]:
        """All that the function is of, by name: tensors that stay, and whose content changes."""
        trainer, made, pack = self.trainer, self.trainer.batches, self.trainer.pack
        members, steps = len(pack), made.block
        like: dict[str, Any] = {"device": self.device}
        twice = range(2 if made.second else 1)
        block: dict[str, Any] = {
            "noise": {k: torch.full((steps, members, self.width, *s), 0.5, **like) for k, (_, s) in made.noise.items()},
            "schedules": {
                name: tuple(one.new_ones((steps, *one.shape[1:])) for one in values)
                for name, values in trainer.schedules(np.arange(1)).items()
            },
        }
        given: dict[str, Any] = {
            "state": trainer.state.tensors(),
            "parts": pack.buffers,
            "place": torch.zeros(1, dtype=torch.long, **like),  # of the step in the block
            "start": torch.zeros((), dtype=torch.long, **like),  # the first step of the block
            "block": block,
        }
        if made.gathered:
            block["numbers"] = [torch.zeros(steps, members, self.size, dtype=torch.long, **like) for _ in twice]
            given["rows"] = made.table.rows
            if made.table.standard is not None:
                given["standard"] = made.table.standard
        else:
            given["batches"] = [torch.zeros(members, self.width, *made.info.shape, **like) for _ in twice]
        return given

    def _variant(self, watch: bool) -> Callable[[], Tensor]:
        """What runs a step and gives its terms."""
        with torch.enable_grad(), _unchecked():
            traced = _traced(self._function(watch), self.flat)
        if self.backend == "trace":
            return lambda: traced(*self.flat)[0]
        compiled = _inductor(traced, self.flat)
        return self._captured(compiled) if self.device.type == "cuda" else lambda: compiled(*self.flat)[0]

    def _function(self, watch: bool) -> Callable[..., list[Tensor]]:
        """A step as a function of the flat tensors; it changes some of them, and returns its terms."""
        trainer = self.trainer

        def step(*flat: Tensor) -> list[Tensor]:
            given = pytree.tree_unflatten(flat, self.structure)
            state, place = given["state"], given["place"]
            now = pytree.tree_map(lambda many: many.index_select(0, place)[0], given["block"])
            if "numbers" in now:
                x = [_rows(given["rows"], numbers, given.get("standard")) for numbers in now["numbers"]]
            else:
                x = given["batches"]
            second = x[1] if len(x) > 1 else None
            with _in_place(trainer.pack, state["parameters"], given["parts"]):
                schedules = now["schedules"]
                terms, gradients = trainer.pack.step(x[0], schedules["weights"], now["noise"], watch, None, second)
            new = trainer.updated(state, given["start"] + place[0], terms, gradients, schedules)
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
                self.given["place"].zero_()
                function(*self.flat)
            stream.synchronize()
            self.given["place"].zero_()
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

    def begin(self, block: Block, schedules: Mapping[str, Any]) -> None:
        """Fill the buffers with what the steps of a block consume."""
        found: dict[str, Any] = {"schedules": schedules}
        found["noise"] = {name: values[:, :, : self.width] for name, values in block.noise.items()}
        if "numbers" in self.given["block"]:
            found["numbers"] = [_stacked(numbers, self.size) for numbers in zip(*block.sources, strict=True)]
        _fill(self.given["block"], found)
        self.given["place"].zero_()
        self.given["start"].fill_(block.start)

    def fits(self, block: Block, i: int) -> bool:
        """Whether the i-th step was compiled for: the last batch of an epoch may be short."""
        return block.size(i) == self.size

    def __call__(self, block: Block, i: int, watch: bool) -> Tensor:
        """Train one step; its terms."""
        if "batches" in self.given:
            for buffer, batch in zip(self.given["batches"], block.examples(i), strict=False):
                buffer.copy_(batch)
        return self.variants[watch]()

    def skip(self) -> None:
        """Another took this step."""
        self.given["place"].add_(1)


def _traced(function: Callable[..., Any], tensors: list[Tensor]) -> torch.fx.GraphModule:
    """The operations of a function, below autograd and vmap, without doing any of them; the same ones once.

    Those are found where nothing is changed in place before the end: weights are laid out for values and for tangents.
    """
    from torch._functorch.compile_utils import fx_graph_cse
    from torch.fx.experimental.proxy_tensor import make_fx

    make = functools.partial(make_fx, tracing_mode="fake", _allow_non_fake_inputs=True)
    traced = make(function)(*tensors)
    pure = make(torch.func.functionalize(traced, remove="mutations"))(*tensors)
    for node in pure.graph.find_nodes(op="call_function", target=torch.ops.aten.detach.default):
        node.replace_all_uses_with(node.args[0])  # below autograd it says nothing, and hides what is the same
        pure.graph.erase_node(node)
    return torch.fx.GraphModule(pure, fx_graph_cse(pure.graph))


def _inductor(traced: torch.fx.GraphModule, tensors: list[Tensor]) -> Callable[..., Any]:
    import torch._inductor as inductor

    known = set(inductor.list_options())
    compiler: Any = inductor.compile
    _announced()
    with torch.no_grad():
        return compiler(traced, tensors, options={key: OPTIONS[key] for key in OPTIONS if key in known})


def _announced() -> None:
    """Tell Inductor of our operators: those that it meets for the first time it compiles otherwise than later on."""
    from torch._inductor import lowering

    from untwine.kernels import operators

    for one in operators.OPERATORS:
        if one._opoverload not in lowering.lowerings:
            lowering.make_fallback(one._opoverload, lowering.constrain_to_fake_tensors, warn=False)


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    """Distributions that do not look at their arguments: torch makes some inside of others, which do."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


@contextlib.contextmanager
def _in_place(pack: Any, parameters: Tensor, buffers: Mapping[str, Tensor]) -> Iterator[None]:
    """A pack with other tensors in the place of its own."""
    before = pack.parameters, pack.buffers
    pack.parameters, pack.buffers = parameters, buffers
    try:
        yield
    finally:
        pack.parameters, pack.buffers = before


def _rows(rows: Tensor, numbers: Tensor, standard: Tensor | None) -> Tensor:
    return scaled(rows.index_select(0, numbers.flatten()), standard).unflatten(0, numbers.shape)


def _stacked(numbers: Sequence[Tensor], size: int) -> Tensor:
    """The numbers of several batches `[steps, members, size]`; short ones, which nobody reads, are made longer."""
    short = [size - one.shape[1] for one in numbers]
    return torch.stack([torch.nn.functional.pad(n, (0, by)) if by else n for n, by in zip(numbers, short, strict=True)])


def _fill(buffers: Any, values: Any) -> None:
    """Copy nested tensors into the beginnings of nested buffers."""
    if isinstance(buffers, Tensor):
        buffers[: len(values)].copy_(values)
        return
    for key in buffers if isinstance(buffers, dict) else range(len(buffers)):
        _fill(buffers[key], values[key])
