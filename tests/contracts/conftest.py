import sys
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "train"))  # helpers.py


@pytest.fixture
def quick() -> Iterator[None]:
    """One thread suits models this small. Shapes are checked in other tests: here it would take half the time."""
    import torch

    torch.set_num_threads(1)
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)
