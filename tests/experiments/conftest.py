"""A small experiment with everything that an experiment can have."""

import pytest

import untwine as uw
from untwine.experiments.engine import catalogue, contract
from untwine.experiments.engine.claims import Exactly
from untwine.experiments.engine.comparisons import Higher
from untwine.experiments.engine.contract import Experiment, Fact, Plan, case, experiment
from untwine.experiments.engine.measures import Logged, Scored


def squares(count: int) -> list[dict[str, object]]:
    return [{"number": i, "measure": "square", "value": float(i * i)} for i in range(count)]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Registered for one test: two betas on a tiny dataset, numbers without training, claims and a figure."""
    catalogue.experiments()  # a paper that is first imported now would be registered for this test alone
    monkeypatch.setattr(contract, "_EXPERIMENTS", {})

    @experiment("toy/fig1", claim="beta lowers the divergence", smoke={"steps": 4, "seeds": "0-1"})
    def fig1(seeds: str = "0-2", steps: int = 12, betas: tuple[float, ...] = (0.001, 50.0)) -> Plan:
        """Two betas on linear data."""
        runs = {
            beta: uw.Run(
                method={"name": "beta_vae", "beta": beta, "likelihood": "squared_error"},
                dataset={"name": "synthetic_linear", "samples": 200, "levels": 16},
                network={"name": "mlp", "hidden": [8]},
                latents=2,
                seeds=seeds,
                steps=steps,
                batch_size=16,
                lr=0.01,
                log_every=2,
            )
            for beta in betas
        }
        return Plan(
            cases=[case(run, beta=beta) for beta, run in runs.items()],
            measures=[Scored(["mig"], settings={"points": 50}), Logged(["kl"])],
            facts=[Fact("squares", squares, {"count": 3})],
            claims=[
                Higher("a small beta leaves a larger divergence", "kl", {"beta": 0.001}, {"beta": 50.0}),
                Exactly("two squared is four", "square", {"number": 2}, 1e-9),
            ],
            published=[{"number": 2, "measure": "square", "value": 4.0}],
            figures={"fig1": lambda outcome: uw.figures.lines(outcome.rows.where(measure="kl"), "beta")},
            caveats=["It is a toy."],
        )

    return fig1
