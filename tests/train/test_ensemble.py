"""What a run yields, in memory and from its folder."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import same, tiny

import untwine as uw
from untwine.files import sealed
from untwine.train.member import identity


@pytest.fixture(scope="module")
def dots() -> uw.Ensemble:
    dataset = uw.datasets.three_dots(examples=50, size=16)
    run = uw.Run(method="beta_vae", dataset=dataset, latents=3, seeds=[0, 1], steps=2, batch_size=4)
    return uw.fit(run)


def test_members_are_plain_modules_that_agree_with_the_ensemble(dots: uw.Ensemble) -> None:
    images = uw.datasets.three_dots(examples=50, size=16).batch(range(7))
    codes = dots.encode(images, batch=3)
    assert codes.shape == (2, 7, 3)
    x = torch.from_numpy(images).float() / 255
    for i in range(2):
        member = dots.member(i)
        assert isinstance(member, torch.nn.Module)
        with torch.no_grad():
            torch.testing.assert_close(codes[i], member.encode(x))
            torch.testing.assert_close(dots.decode(codes)[i], member.decode(codes[i]))
            torch.testing.assert_close(dots.decode(codes[0])[i], member.decode(codes[0]))
            torch.testing.assert_close(dots.jacobian(codes)[i], member.jacobian(codes[i]))
            torch.testing.assert_close(dots.variances(x)[i], member.posterior(x).variance())
    assert dots.decode(codes).shape == (2, 7, 1, 16, 16)
    assert dots.jacobian(codes).shape == (2, 7, 3, 1, 16, 16)
    assert 0 <= dots.decode(codes).min() <= dots.decode(codes).max() <= 1  # a mean image, not logits


@pytest.mark.parametrize("batching", ["loop", "vmap"])
def test_inputs_that_all_members_share_are_not_copied(dots: uw.Ensemble, batching: str, monkeypatch) -> None:
    """Examples, and codes without members, reach every member whole; results are those of copies."""
    images = uw.datasets.three_dots(examples=50, size=16).batch(range(7))
    codes = dots.encode(images)
    stack, seen = dots._stack, []
    monkeypatch.setattr(stack, "batching", batching)
    kept = stack.map

    def watched(function, weights, *arguments, shared):
        seen.append((shared, *(tuple(one.shape) for one in arguments)))
        return kept(function, weights, *arguments, shared=shared)

    monkeypatch.setattr(stack, "map", watched)
    torch.testing.assert_close(dots.encode(images, batch=4), codes)
    torch.testing.assert_close(dots.encode(torch.from_numpy(images) / 255), codes)
    torch.testing.assert_close(dots.decode(codes[0]), dots.decode(codes[:1].expand(2, -1, -1)))
    assert [call[0] for call in seen] == [True, True, True, True, False]
    assert [call[1] for call in seen] == [(4, 1, 16, 16), (3, 1, 16, 16), (7, 1, 16, 16), (7, 3), (2, 7, 3)]
    stacked = kept(lambda vae, z: vae.decode(z), dots._weights, codes[:1].expand(2, -1, -1))
    torch.testing.assert_close(kept(lambda vae, z: vae.decode(z), dots._weights, codes[0], shared=True), stacked)


def test_wrong_shapes_are_refused(dots: uw.Ensemble) -> None:
    with pytest.raises(uw.UntwineError, match=r"shape \[n, 1, 16, 16\], not \[2, 1, 8, 8\]"):
        dots.encode(np.zeros((2, 1, 8, 8), np.uint8))
    with pytest.raises(uw.UntwineError, match=r"shape \[n, 3\] or \[2, n, 3\], not \[5, 4\]"):
        dots.decode(torch.zeros(5, 4))
    with pytest.raises(uw.UntwineError, match="not"):
        dots.decode(torch.zeros(3, 5, 3))


@pytest.mark.parametrize("function", ["encode", "variances", "posteriors"])
def test_images_outside_the_range_of_training_are_refused(dots: uw.Ensemble, function: str) -> None:
    """Codes of pixels 255 times as large are far from those of the same pictures, and nothing would say so."""
    images = uw.datasets.three_dots(examples=50, size=16).batch(range(7))
    with torch.no_grad():
        far = dots.member(0).encode(torch.from_numpy(images).float())
    assert (far - dots.encode(images)[0]).abs().max() > 1
    of_images = getattr(dots, function)
    for wrong in (images.astype(np.float32), torch.from_numpy(images).double()):
        with pytest.raises(uw.UntwineError, match=r"from 0 to 255, but .* in \[0, 1\]: divide them by 255, or give"):
            of_images(wrong)
    with pytest.raises(uw.UntwineError, match=r"int64 from 0 to 255; .*use x\.astype\(np\.uint8\)"):
        of_images(images.astype(np.int64))


def test_load_gives_the_same_members(tmp_path: Path) -> None:
    trained = uw.fit(tiny(seeds=[0, 3]), tmp_path)
    loaded = uw.load(tmp_path)
    assert same(trained, loaded)
    assert [member.name for member in loaded.members] == ["seed-0", "seed-3"]
    assert loaded.history == trained.history
    assert "seed-3" in repr(loaded)


def test_learned_scales_are_saved(tmp_path: Path) -> None:
    method = uw.methods.vae(likelihood=uw.likelihoods.gaussian(0.5, learned=True))
    trained = uw.fit(tiny(method, lr=1e-2), tmp_path)
    scale = trained.member(0).state_dict()["likelihood.log_scale"]
    assert abs(float(scale) - np.log(0.5)) > 0.01
    assert torch.equal(uw.load(tmp_path).member(0).state_dict()["likelihood.log_scale"], scale)


def test_a_member_is_a_copy(dots: uw.Ensemble) -> None:
    codes = dots.decode(torch.zeros(1, 3))
    for parameter in dots.member(0).parameters():
        parameter.data.zero_()
    assert torch.equal(dots.decode(torch.zeros(1, 3)), codes)


def test_damage_and_strangers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(uw.UntwineError, match="holds no run"):
        uw.load(tmp_path / "nowhere")
    uw.fit(tiny(), tmp_path / "run")
    file = tmp_path / "run" / "members" / "seed-0.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"!")
    with pytest.raises(uw.UntwineError, match="seed-0 cannot be used"):
        uw.load(tmp_path / "run")
    file.write_bytes(content)
    spec = tmp_path / "run" / "run.json"
    entry = json.loads(spec.read_text())
    for changed in (entry["run"], entry["members"][0]["spec"]):
        changed["network"]["name"] = "os.system"
    entry["members"][0]["id"] = identity(changed, 0, 0)
    spec.write_text(json.dumps(sealed(entry)))
    with pytest.raises(uw.UntwineError, match=r"unknown network 'os\.system'"):
        uw.load(tmp_path / "run")
    spec.write_text("{")
    with pytest.raises(uw.UntwineError, match="cannot be read"):
        uw.load(tmp_path / "run")


def test_an_unfinished_run_says_how_to_go_on(tmp_path: Path) -> None:
    from test_fit import StopAt

    with pytest.raises(RuntimeError):
        uw.fit(tiny(), tmp_path, progress=StopAt(3))
    with (
        pytest.raises(uw.UntwineError, match="untwine train --resume"),
        pytest.warns(UserWarning, match="not finished"),
    ):
        uw.load(tmp_path)


def test_whatever_a_run_was_made_of_is_known_to_a_new_process(tmp_path: Path):
    """Parts are looked up by name: whoever loads a run has imported none of their modules."""
    made = {
        "prior": [uw.priors.student_t(), uw.priors.sparse(), uw.priors.laplace(), uw.priors.generalised_normal()],
        "likelihood": ["laplace", "learned-gaussian"],
        "posterior": ["full-normal", "isotropic-normal"],
    }
    paths = []
    for part, several in made.items():
        for i, one in enumerate(several):
            paths.append(str(tmp_path / f"{part}{i}"))
            arguments = {"likelihood": "squared_error"} | {part: one}
            uw.fit(tiny(uw.methods.beta_vae(0.1, **arguments), steps=1), paths[-1])
    code = f"import untwine\nfor path in {paths!r}: assert len(untwine.load(path)) == 1"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
