"""The names of members: what differs, then the seed; unique, and never changed once they are written."""

import json
from pathlib import Path

import pytest
from helpers import losses, tiny

import untwine as uw
from untwine.train.folders import record
from untwine.train.folders.names import named


def beta(*values: float) -> uw.Objective:
    return uw.methods.beta_vae(beta=values[0] if len(values) == 1 else list(values), likelihood="squared_error")


def names(run: uw.Run | uw.Ensemble) -> list[str]:
    return [member.name for member in (run.members() if isinstance(run, uw.Run) else run.members)]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (tiny(seeds=[0, 7]), ["seed-0", "seed-7"]),
        (tiny(seeds=[0, 0], data_seeds=[0, 5]), ["seed-0", "seed-0-data-5"]),
        (tiny(beta(1, 4), seeds=[0, 0]), ["beta=1, seed 0", "beta=4, seed 0"]),
        (tiny(beta(1, 4), seeds=[0, 1]), ["beta=1, seed 0", "beta=4, seed 1"]),
        (tiny(beta(2, 2), seeds=[0, 1]), ["seed-0", "seed-1"]),
        (
            tiny(beta(1, 4), seeds=[0, 0], lr=[1e-3, 0.00012345678], data_seeds=[0, 9]),
            ["beta=1, lr=0.001, seed 0", "beta=4, lr=0.00012345678, seed 0, data seed 9"],
        ),
        (
            tiny(uw.methods.beta_vae(beta=uw.join([1.0, uw.ramp(uw.each(3.0, 1.0), 0)], [5])), seeds=[0, 1]),
            ["beta=3, seed 0", "beta=1, seed 1"],
        ),
        (
            tiny(uw.methods.decomposition_vae(prior=uw.priors.student_t([2.0, 3.0])), seeds=[4, 4]),
            ["nu=2, seed 4", "nu=3, seed 4"],
        ),
    ],
)
def test_names_say_what_differs(run: uw.Run, expected: list[str]) -> None:
    assert names(run) == expected


def test_names_that_would_be_equal_are_told_apart() -> None:
    """More numbers differ than a name can say, and the ones that it says are the same."""
    variances = [[1.0, 1.0, 1.0, 1.0, value] for value in (1.0, 2.0)] + [[2.0, 2.0, 2.0, 2.0, 1.0]]
    members = tiny(seeds=[0, 1, 2]).members()
    for member, own in zip(members, variances, strict=True):
        member.spec["method"] = {"name": "own", **{f"number{i}": value for i, value in enumerate(own)}}
        object.__setattr__(member, "seed", 0)
        object.__setattr__(member, "data_seed", 0)
    renamed = [member.name for member in named(members)]
    assert len(set(renamed)) == 3
    assert renamed[0] == "number0=1, number1=1, number2=1, number3=1, seed 0"
    assert renamed[1] == f"{renamed[0]}, {members[1].id[:8]}"


def test_names_that_are_written_stay(tmp_path: Path) -> None:
    uw.fit(tiny(beta(1), seeds=[0, 1], steps=2), tmp_path)
    more = uw.fit(tiny(beta(1, 4, 4), seeds=[0, 0, 2], steps=2), tmp_path)
    assert names(more) == ["seed-0", "beta=4, seed 0", "beta=4, seed 2"]
    assert [entry["name"] for entry in record.read(tmp_path)["members"]] == ["seed-0", "seed-1", *names(more)[1:]]
    assert names(uw.load(tmp_path)) == ["seed-0", "seed-1", "beta=4, seed 0", "beta=4, seed 2"]
    later = uw.fit(tiny(beta(1), seeds=[3], steps=2), tmp_path)
    assert names(later) == ["beta=1, seed 3"]
    assert len(losses(later, "beta=4, seed 2")) == 1


def test_folders_with_the_names_of_earlier_versions_are_read(tmp_path: Path) -> None:
    run = tiny(beta(1, 4), seeds=[0, 0], steps=2)
    uw.fit(run, tmp_path)
    for file in ("run.json", "log.jsonl"):
        text = (tmp_path / file).read_text()
        text = text.replace("beta=1, seed 0", "seed-0").replace("beta=4, seed 0", "seed-0-1a2b3c4d")
        (tmp_path / file).write_text(text)
    content = json.loads((tmp_path / "run.json").read_text())
    del content["sha256"]  # which earlier versions did not write
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert names(uw.load(tmp_path)) == names(uw.fit(run, tmp_path)) == ["seed-0", "seed-0-1a2b3c4d"]


def test_scores_and_messages_have_the_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from untwine.cli import main

    uw.fit(tiny(beta(0.01, 1e39), seeds=[0, 0], steps=3), tmp_path)
    with pytest.warns(UserWarning, match=r"beta=1e\+39, seed 0 diverged at step 0 and is left out"):
        scores = uw.evaluate(tmp_path, ["hoyer"])
    assert [row["member"] for row in scores.rows()] == ["beta=0.01, seed 0"]
    capsys.readouterr()
    assert main(["train", "--resume", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "beta=0.01, seed 0" in said and "beta=1e+39, seed 0" in said
    assert said.splitlines()[1].split()[:2] == ["member", "loss"]  # no column of what the names say
