import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is known to that test alone."""
    from untwine.methods import methods
    from untwine.model.networks import networks

    for registry in (methods, networks):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
