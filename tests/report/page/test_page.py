"""The page about runs: valid, self-contained, bounded, and true to what the models compute."""

import base64
import io
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from webdriver import BROWSER, DRIVER, Browser

import untwine as uw
from untwine.files import sealed
from untwine.report.page import pictures
from untwine.report.page.contents import PIXELS, STEPS, Contents
from untwine.report.page.writing import SECTIONS, write_report
from untwine.report.runs.looks import Looks
from untwine.report.runs.opened import opened
from untwine.train.member import identity

EMPTY = {"meta", "link", "input", "img", "br"}


class Tree(HTMLParser):
    """Checks that elements end in the order in which they begin, and gathers elements and texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))  # of an SVG

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def sections(self) -> list[str | None]:
        return [attributes.get("id") for tag, attributes in self.elements if tag == "section"]


def parsed(page: Path) -> Tree:
    tree = Tree()
    tree.feed(page.read_text(encoding="utf-8"))
    tree.close()
    assert tree.open == []
    return tree


@pytest.fixture(scope="module")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the folder with two runs."""
    return write_report(runs, tmp_path_factory.mktemp("page") / "report.html", device="cpu")


def images_of(text: str) -> list[np.ndarray]:
    """All images within data addresses, in the order of the page."""
    found = re.findall(r"data:image/(?:png|jpeg);base64,([A-Za-z0-9+/=]+)", text)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(content)))) for content in found]


def test_the_page_is_well_formed_complete_and_needs_no_network(page: Path):
    tree, text = parsed(page), page.read_text(encoding="utf-8")
    assert tree.sections == [section.name for section in SECTIONS]
    assert not re.search(r"https?://|//[a-z]+\.", text.replace("// ", ""))
    for tag, attributes in tree.elements:
        for key in ("src", "href", "action", "data"):
            if attributes.get(key):
                assert str(attributes[key]).startswith(("data:", "#")), (tag, attributes[key])
    assert all(address.startswith(("data:", "#")) for address in re.findall(r"url\(([^)]*)\)", text))
    assert "@import" not in text
    assert page.stat().st_size < 15e6


def test_every_case_of_a_sweep_is_told_apart(page: Path):
    text = parsed(page).text
    for label in ("jl1", "sweep · beta=0.1", "sweep · beta=4"):
        assert label in text
    assert "The weight of kl changes until step 20, but training ends at 10" in text
    assert "There are 2 models: too few for intervals" in text
    assert "Welch's t-test" in text


def test_scores_on_the_page_are_the_stored_ones(page: Path, runs: Path):
    entry = json.loads((runs / "jl1" / "scores.json").read_text())["scores"][0]
    values = [member["value"] for member in entry["members"].values()]
    error = np.std(values, ddof=1) / len(values) ** 0.5
    text = parsed(page).text
    assert f"{np.mean(values):.3g} ± {2 * error:.2g}" in text


def test_sections_that_do_not_apply_are_left_out(unlabelled: Path, vectors: Path, tmp_path: Path):
    factors = {"information", "distances"}
    seen = {"traversals", "reconstructions", "columns"}
    coloured = parsed(write_report(unlabelled, tmp_path / "a.html"))
    assert set(coloured.sections) == {section.name for section in SECTIONS} - factors
    plain = parsed(write_report(vectors, tmp_path / "b.html"))
    assert not set(plain.sections) & (seen | {"distances"}) and "information" in plain.sections
    for tree in (coloured, plain):
        assert "Nothing was scored yet. untwine evaluate" in tree.text
        assert "--watch delta-kl" in tree.text


def test_a_page_goes_into_the_folder_of_a_single_run(vectors: Path, tmp_path: Path):
    """Also one whose name is hostile: what a user names is never HTML."""
    name = "<img src=x onerror=alert(1)>&\"'$x$"
    folder = shutil.copytree(vectors, tmp_path / name)
    page = write_report(folder)
    assert page == folder / "report.html"
    uw.resume(folder, "cpu")  # the folder is still that of a run
    tree = parsed(page)
    assert not [1 for tag, attributes in tree.elements if tag == "img" or "onerror" in attributes]
    assert name in tree.text


def test_an_ensemble_in_memory_has_a_page(unlabelled: Path, tmp_path: Path):
    ensemble = uw.load(unlabelled, "cpu")
    ensemble.record = None
    text = parsed(write_report(ensemble, tmp_path / "page.html")).text
    assert "vae was trained in memory" in text


# --- runs that are not whole ----------------------------------------------------------------------------


def edited(folder: Path, states: dict[str, dict[str, object]]) -> None:
    """Change the states of a run's members."""
    content = json.loads((folder / "run.json").read_text())
    for entry in content["members"]:
        entry |= states.get(entry["name"], {})
    (folder / "run.json").write_text(json.dumps(sealed(content)))


def test_unfinished_diverged_and_damaged_members_get_cautions(vectors: Path, tmp_path: Path):
    folder = shutil.copytree(vectors, tmp_path / "run")
    edited(folder, {"seed-1": {"state": "training"}, "seed-2": {"state": "diverged", "steps": 7}})
    (folder / "members" / "seed-3.safetensors").write_bytes(b"broken")
    (folder / "scores.json").write_text("{")
    with (folder / "log.jsonl").open("a") as log:
        log.write('{"pack": 0, "step": 11, "mem')
    text = parsed(write_report(folder, tmp_path / "page.html")).text
    assert "Not trained to the end: seed-1 (1 of 4 models). The log ends at step 10 of 10." in text
    assert "untwine train --resume" in text
    assert "Diverged, and left out of what is shown: seed-2 at step 7 (1 of 4 models)." in text
    assert "The weights of seed-3 cannot be used" in text and "scores.json cannot be used" in text


def test_runs_without_any_finished_model_have_curves(vectors: Path, tmp_path: Path):
    folder = shutil.copytree(vectors, tmp_path / "run")
    edited(folder, {f"seed-{i}": {"state": "training"} for i in range(4)})
    tree = parsed(write_report(folder, tmp_path / "page.html"))
    assert "curves" in tree.sections and "latents" not in tree.sections


def test_data_that_is_gone_is_said(unlabelled: Path, tmp_path: Path):
    folder = shutil.copytree(unlabelled, tmp_path / "run")
    content = json.loads((folder / "run.json").read_text())
    for spec in (content["run"], *(entry["spec"] for entry in content["members"])):
        spec["dataset"]["source"] = str(tmp_path / "gone.npy")
    for entry in content["members"]:
        entry["id"] = identity(entry["spec"], entry["seed"], entry["data_seed"])
    (folder / "run.json").write_text(json.dumps(sealed(content)))
    assert "The data is not there" in parsed(write_report(folder, tmp_path / "page.html")).text


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_a_folder_without_runs_is_refused(tmp_path: Path, place: str):
    with pytest.raises(uw.UntwineError, match=r"no folder|holds no run"):
        write_report(tmp_path / place, tmp_path / "page.html")


# --- pixels ---------------------------------------------------------------------------------------------


def test_a_sheet_holds_every_tile_in_its_place():
    tiles = np.kron(np.arange(6).reshape(2, 3, 1, 1, 1), np.ones((1, 1, 1, 4, 5))) / 6
    (pixels,) = images_of(pictures.sheet(tiles))
    for row, column in np.ndindex(2, 3):
        place = pixels[4 * row : 4 * row + 4, 5 * column : 5 * column + 5]
        assert (place == round(255 * (3 * row + column) / 6)).all()


def test_sheets_are_bounded_even_of_noise():
    noise = np.random.default_rng(0).random((2, 4, 3, 200, 150))
    address = pictures.sheet(noise)
    (pixels,) = images_of(address)
    assert pixels.shape == (2 * 96, 4 * 72, 3)
    assert len(address) * 3 / 4 < 1.2 * pictures.MOST_BYTES * pixels.shape[0] * pixels.shape[1]
    assert PIXELS * pictures.MOST_BYTES * 4 / 3 < 12e6


def test_traversal_sheets_are_what_the_model_decodes(runs: Path, page: Path):
    """The first sheet of the page is decoded again: a loop over codes, through the plain module of one member."""
    looks = Contents([opened(runs / "jl1", "cpu")]).looked_at[0].looks
    ensemble = uw.load(runs / "jl1", "cpu")
    model = ensemble.member(0)
    example = torch.from_numpy(looks.examples[:1] / 255).float()
    with torch.no_grad():
        base = model.posterior(example).mean[0]
    text = page.read_text(encoding="utf-8")
    address = re.search(r"--start-0: url\(([^)]*)\)", text)
    assert address is not None
    (sheet,) = images_of(address[1])
    order, ranges = looks.useful[0][0], looks.ranges[0]
    for row, latent in enumerate(order):
        for step in (0, STEPS // 2, STEPS - 1):
            code = base.clone()
            low, high = ranges[latent]
            code[int(latent)] = low + (high - low) * step / (STEPS - 1)
            with torch.no_grad():
                image = model.decode(code[None])[0, 0].numpy() * 255
            place = sheet[16 * row : 16 * row + 16, 16 * step : 16 * step + 16].astype(float)
            assert np.abs(place - image).mean() < 3  # JPEG


def test_charts_follow_the_colours_of_the_page(page: Path):
    text = page.read_text(encoding="utf-8")
    drawn = text[text.index("<svg") : text.index("</svg>")]
    assert "currentColor" in drawn and "font-family" not in drawn
    assert not re.search(r"#([0-9a-f]{2})\1\1\b(?<!#ffffff)(?<!#010101)", drawn)


# --- in a browser ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not (BROWSER and DRIVER), reason="no browser: Debian has one in chromium and chromium-driver")
def test_a_browser_scrubs_without_errors(page: Path):
    with Browser() as browser:
        browser.open(page.resolve().as_uri())
        place = "return document.querySelector('.card .tile').style.backgroundPosition"
        before = browser.run(place)
        browser.type(".card input", "\ue012" * 5)  # the arrow to the left
        assert browser.run("return document.querySelector('.card input').value") == "0"
        assert browser.run(place).startswith("0%") and browser.run(place) != before
        browser.run(
            "const all = document.querySelector('.all'); all.value = 10; all.dispatchEvent(new Event('input'));"
            "const model = document.querySelector('.model'); model.value = 1; model.dispatchEvent(new Event('change'));"
            "const start = document.querySelector('.start'); start.value = 2; start.dispatchEvent(new Event('change'))"
        )
        assert browser.run(place).startswith("100%")
        models = "return [...document.querySelector('.case').querySelectorAll('.cards')].map(c => c.hidden)"
        assert browser.run(models)[:2] == [True, False]
        shown = "return getComputedStyle(document.querySelector('.case .cards:not([hidden]) .tile')).backgroundImage"
        sheet = "return document.querySelector('.case .cards:not([hidden])').style.getPropertyValue('--start-2')"
        assert browser.run(shown).strip('url(")') == browser.run(sheet).strip('url(")') != ""
        decoded = (  # what the tile shows a part of is a picture with several shades
            "const image = new Image(); image.src = arguments[0]; return image.decode().then(() => {"
            "const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;"
            "const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);"
            "return new Set(context.getImageData(0, 0, image.width, image.height).data).size})"
        )
        assert browser.run(decoded, browser.run(shown).strip('url(")')) > 3
        browser.resize(500, 900)
        across = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]")
        assert across[0] <= across[1]  # nothing sticks out on a narrow window
        assert browser.complaints() == []


def test_a_section_that_fails_says_so_and_leaves_the_others(
    vectors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(self: Looks) -> None:
        raise uw.UntwineError("codes hold a NaN")

    monkeypatch.setattr(Looks, "useful", property(broken))
    tree = parsed(write_report(vectors, tmp_path / "page.html"))
    assert "This cannot be shown: codes hold a NaN" in tree.text and "curves" in tree.sections
