import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # calls.py


@pytest.fixture(params=["processes", pytest.param("ray", marks=pytest.mark.slow)])
def engine(request: pytest.FixtureRequest) -> str:
    """Each engine that has other processes work."""
    if request.param == "ray":
        request.getfixturevalue("ray")
    return request.param
