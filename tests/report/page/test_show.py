"""Single pictures, the arrays behind them, and the commands that train a run again."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from sklearn.metrics import mutual_info_score

import untwine as uw
from untwine.cli import main
from untwine.cli.commands import train as train_cli
from untwine.report.runs import show
from untwine.report.runs.commands import evaluate_command, train_command
from untwine.report.runs.looks import Looks
from untwine.report.runs.opened import OpenedRun, cases, name_apart, opened


@pytest.fixture(scope="module")
def looks(runs: Path) -> Looks:
    run = opened(runs / "jl1", "cpu")
    assert run.ensemble is not None and run.dataset is not None
    return Looks(run.ensemble, run.dataset, [1, 2], shown=5)


def test_reconstructions_are_those_of_the_plain_modules(looks: Looks, runs: Path):
    ensemble = uw.load(runs / "jl1", "cpu")
    for row, member in enumerate((1, 2)):
        model = ensemble.member(member)
        with torch.no_grad():
            for i in range(5):
                x = torch.from_numpy(looks.examples[i : i + 1] / 255).float()
                alone = model.decode(model.posterior(x).mean)[0]
                np.testing.assert_allclose(looks.reconstructions[row, i], alone.numpy(), atol=1e-5)


def test_information_agrees_with_scikit_learn(looks: Looks):
    assert looks.information is not None and looks.factors is not None
    shares, names = looks.information
    space = looks.dataset.factors
    assert space is not None and names == list(space.names)
    for i, order in enumerate(looks.useful[0]):
        for row, latent in enumerate(order):
            code = looks.means[i, :, latent].astype(np.float64)
            edges = np.histogram_bin_edges(code, 20)
            bins = np.clip(np.searchsorted(edges, code, side="right"), 1, 20)
            for k in range(len(names)):
                factor = looks.factors[:, k]
                share = mutual_info_score(bins, factor) / mutual_info_score(factor, factor)
                assert shares[i, row, k] == pytest.approx(share, abs=1e-9)


def test_columns_are_differences_of_images(looks: Looks):
    columns, order, norms = looks.columns(0, 3)
    code = looks.means[:, 0]
    for member in range(2):
        for rank, latent in enumerate(order[member]):
            step = np.zeros_like(code)
            step[member, latent] = 1e-2
            ends = [looks.ensemble.decode((code + sign * step)[:, None])[member, 0].double() for sign in (1, -1)]
            slope = ((ends[0] - ends[1]) / 2e-2).numpy()
            np.testing.assert_allclose(columns[member, rank], slope, atol=1e-2 * max(norms[member, rank], 1e-2))
    assert (np.diff(norms) <= 0).all()


@pytest.mark.parametrize("what", show.WHAT)
def test_every_kind_of_picture_is_written(runs: Path, tmp_path: Path, what: str):
    one = show.show(runs / "jl1", what, tmp_path / "one.png", members=["seed-1"], device="cpu", examples=3)
    assert one == [tmp_path / "one.png"] and imread(one[0]).std() > 0


def test_several_members_and_svg(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files = show.show(runs / "jl1", "traversals", tmp_path / "all.svg", ["seed-0", "seed-2"], latents=2, device="cpu")
    assert [file.name for file in files] == ["all-seed-0.svg", "all-seed-2.svg"]
    assert files[0].read_text().startswith("<?xml")
    monkeypatch.chdir(tmp_path)
    assert show.show(runs / "sweep", "curves", device="cpu") == [Path("shown/sweep-curves.png")]


# --- the command line -----------------------------------------------------------------------------------


def test_commands_write_files_and_say_where(
    runs: Path, vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder, picture, page = str(runs / "jl1"), str(tmp_path / "curves.png"), str(tmp_path / "page.html")
    assert main(["show", folder, "--what", "curves", "--out", picture]) == 0
    assert capsys.readouterr().out == f"Wrote {picture}\n"
    assert main(["report", str(vectors), "--out", page, "--device", "cpu", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"out": page, "bytes": Path(page).stat().st_size}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "RUN", "--what", "colums"], 2, "unknown picture 'colums'; did you mean 'columns'?"),
        (["show", "RUN", "--out", "picture.gif"], 2, "ends in .png, .pdf, .svg, unlike 'picture.gif'"),
        (["show", "RUN", "--members", "seed-9"], 1, "unknown member 'seed-9'"),
        (["show"], 2, "show needs the folder of one run"),
        (["show", "nowhere"], 1, "nowhere holds no run"),
        (["report"], 2, "report needs the folder of a run"),
        (["report", "nowhere"], 1, "nowhere is no folder"),
    ],
)
def test_wrong_commands_are_explained(
    runs: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, message: str
):
    assert main([str(runs / "jl1") if word == "RUN" else word for word in words]) == code
    assert message in capsys.readouterr().err


def test_pictures_that_cannot_be_drawn_are_explained(unlabelled: Path, vectors: Path):
    with pytest.raises(uw.UntwineError, match="no factors that latents could know about"):
        show.show(unlabelled, "information")
    with pytest.raises(uw.UntwineError, match="no images of one or three channels"):
        show.show(vectors, "traversals")


# --- commands that do it again --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sweep", "jl1"])
def test_the_command_of_a_run_trains_the_same_members(runs: Path, name: str):
    run = opened(runs / name, "cpu")
    command = train_command(run, "again")
    assert command is not None
    words = shlex.split(command)
    assert words[:2] == ["untwine", "train"] and words[-2:] == ["--out", "again"]
    method, rest = train_cli._split(words[2:])
    assert method is not None
    again = train_cli._run(method, train_cli._parse(method, rest))
    assert [member.id for member in again.members()] == [member.id for member in run.members]
    assert again.log_every == 1 and list(again.watch) == run.spec()["watch"]


def test_settings_of_every_kind_are_in_the_command():
    settings = dict(latents=3, steps=5, lr=[0.1, 0.2], sampling="epochs", clip=1.5, standardise=True, data_seeds=[4, 7])
    settings |= dict(batch_size=8, precision="bfloat16", log_every=7, watch=("jacobian_l1", "kl"))
    network = uw.networks.conv(channels=(4, 8), log_variance=-2.5)
    dots = uw.datasets.three_dots(size=16, positions=16, examples=50)
    spec = uw.Run("annealed_vae", dots, network, seeds=[3, 9], optimiser={"name": "adam", "beta1": 0.8}, **settings)
    command = train_command(OpenedRun("run", None, spec.members(), {}), "again")
    assert command is not None
    method, rest = train_cli._split(shlex.split(command)[2:])
    assert method is not None
    again = train_cli._run(method, train_cli._parse(method, rest))
    assert [member.id for member in again.members()] == [member.id for member in spec.members()]


def test_settings_that_no_flag_can_say_have_no_command(vectors: Path, runs: Path):
    run = opened(vectors, "cpu")
    run.members[0].spec["method"] = {"objective": {}}
    assert train_command(run, "again") is None
    scores = opened(runs / "jl1", "cpu").scores
    assert evaluate_command(Path("a b"), scores) == "untwine evaluate 'a b' --metrics 'mig(points=60)'"


# --- names ----------------------------------------------------------------------------------------------


def test_runs_are_named_by_their_folders_parents_or_numbers():
    def run(path: str, beta: float = 1.0) -> OpenedRun:
        method = uw.methods.beta_vae(beta=beta)
        members = uw.Run(method, "synthetic_linear", steps=5).members()
        return OpenedRun(Path(path).name, Path(path), members, {})

    runs = [run("x/a"), run("y/a"), run("y/b"), run("s/0123456789abcdef", 4.0), run("s/aaaabbbbccccdddd", 4.0)]
    name_apart(runs)
    assert [one.name for one in runs] == ["x/a", "y/a", "b", "beta-vae beta=4 #1", "beta-vae beta=4 #2"]
    (alone,) = cases([run("x/a")])
    assert alone.label == "a"
