"""The page in a real browser: sliders move, pictures change, and nothing complains."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from webdriver import BROWSER, DRIVER, Browser, eventually

pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER),
    reason="no browser: Debian has one in chromium and chromium-driver",
)
STAGES = "[...document.querySelectorAll('.stage')]"
READY = f"document.querySelector('.stage') && {STAGES}.every(s => !s.ariaBusy && s.querySelector('.changes img').src)"
FIRST = ".list:first-child .latent:first-child input[type=range]"
ARROW_RIGHT, PAGE_UP, HOME, DELETE, SHIFT = "\ue014", "\ue00e", "\ue011", "\ue017", "\ue008"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


@pytest.fixture
def page(chromium: Browser, client: Any) -> Iterator[Browser]:
    """The page with one model; afterwards nothing may have been complained of."""
    chromium.open("about:blank")
    chromium.open(f"http://127.0.0.1:{client.port}/#run=beta&seed=seed-0")
    chromium.wait(READY)
    yield chromium
    assert chromium.complaints() == []


def picture(browser: Browser, which: str = ".decoded") -> str:
    return browser.run("return document.querySelector(arguments[0] + ' img').src", which)


def code(browser: Browser, field: str = "code") -> list[float]:
    """The code in the page's address, once that has followed the last change."""
    browser.wait("new Promise(done => setTimeout(() => done(true), 200))")
    text = browser.run("return new URLSearchParams(location.hash.slice(1)).get(arguments[0])", field)
    return [float(number) for number in text.split(",")]


def latent(browser: Browser, side: str = "first") -> int:
    """The number of the latent in the first row of a list."""
    name = browser.run(f"return document.querySelector('.list:{side}-child .latent b').textContent")
    return int(name.removeprefix("z"))


def drag(browser: Browser, selector: str, share: float) -> None:
    """Move a slider to a share of its range, as a finger does."""
    browser.run(
        "const s = document.querySelector(arguments[0]);"
        "s.value = Number(s.min) + arguments[1] * (s.max - s.min); s.dispatchEvent(new Event('input'))",
        *(selector, share),
    )


def changed(browser: Browser, before: str, which: str = ".decoded") -> str:
    return eventually(lambda: picture(browser, which) != before and picture(browser, which), "another picture")


def test_moving_a_slider_changes_the_picture(page: Browser, client: Any):
    before, column = picture(page), picture(page, ".changes")
    drag(page, FIRST, 0.95)
    assert changed(page, before) and changed(page, column, ".changes")
    # What is shown is what the server decodes from the code in the address.
    shown = eventually(lambda: picture(page) == client.ask("decode", code=code(page))["picture"], "the last picture")
    assert shown
    page.click("#reset")
    eventually(lambda: picture(page) == before, "the first picture again")


def test_the_last_of_many_moves_is_shown(page: Browser, client: Any):
    page.run(
        "const s = document.querySelector(arguments[0]); for (let i = 0; i <= 200; i++) {"
        "s.value = Number(s.min) + (i / 200) * (s.max - s.min); s.dispatchEvent(new Event('input')) }",
        FIRST,
    )
    last = client.ask("decode", code=code(page))["picture"]
    eventually(lambda: picture(page) == last, "the last picture")


def test_keys_move_a_focused_slider(page: Browser):
    start = code(page)
    at = latent(page)
    about = page.run(f"const s = document.querySelector({FIRST!r}); return [Number(s.min), Number(s.max)]")
    span = about[1] - about[0]
    page.type(FIRST, ARROW_RIGHT * 3)
    assert code(page)[at] == pytest.approx(start[at] + 0.03 * span)
    page.type(FIRST, SHIFT + ARROW_RIGHT)
    assert code(page)[at] == pytest.approx(start[at] + 0.031 * span)
    page.type(FIRST, HOME)
    assert code(page)[at] == pytest.approx(about[0])
    page.type(FIRST, PAGE_UP)
    assert code(page)[at] == pytest.approx(about[0] + 0.1 * span)
    page.type(FIRST, DELETE)
    assert code(page) == start


def test_every_control_has_a_name(page: Browser):
    nameless = page.run(
        "return [...document.querySelectorAll('input, select, button')].filter(e => "
        "!(e.ariaLabel || e.labels?.length || e.textContent.trim())).map(e => e.outerHTML)"
    )
    assert nameless == []
    label = page.run(f"return document.querySelector({FIRST!r}).ariaLabel")
    assert label.startswith(f"latent {latent(page)}, ") and "KL" in label and "nats" in label
    assert page.run("return [...document.images].every(image => image.hasAttribute('alt'))")


def test_a_number_may_be_typed_and_lie_outside_of_the_range(page: Browser):
    at = latent(page)
    page.run(
        "const n = document.querySelector('.latent input[type=number]'); n.value = '7.125';"
        "n.dispatchEvent(new Event('change'))"
    )
    assert code(page)[at] == 7.125
    assert float(page.run(f"return document.querySelector({FIRST!r}).value")) == 7.125


def test_examples_and_factors_are_starts(page: Browser, client: Any):
    original = picture(page, ".original")
    page.click("#next")
    assert changed(page, original, ".original") == client.ask("start", example=1)["picture"]
    factors = client.ask("start", example=1)["factors"]
    shown = "[...document.querySelectorAll('#factors input')].map(e => Number(e.value))"
    eventually(lambda: page.run(f"return {shown}") == factors, "the factors of the example")
    wanted = [15, *factors[1:]]
    drag(page, "#factor-0", 1.0)
    eventually(lambda: picture(page, ".original") == client.ask("start", factors=wanted)["picture"], "the state")
    np.testing.assert_allclose(code(page), client.ask("start", factors=wanted)["code"], atol=1e-6)
    page.click("#zero")
    eventually(lambda: code(page) == [0, 0, 0, 0], "zeros")


def test_uploads(page: Browser, client: Any, tmp_path: Path):
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)).save(file, "PNG")
    (tmp_path / "own.png").write_bytes(file.getvalue())
    before = picture(page, ".original")
    page.type("#file", str(tmp_path / "own.png"))
    assert changed(page, before, ".original") == client.upload(file.getvalue())["picture"]
    np.testing.assert_allclose(code(page), client.upload(file.getvalue())["code"], atol=1e-6)
    (tmp_path / "broken.png").write_bytes(file.getvalue()[:200])
    page.type("#file", str(tmp_path / "broken.png"))
    message = page.wait("document.querySelector('.stage .message:not([hidden])')?.textContent")
    assert message.startswith("this picture is broken")
    page.click("#next")  # and the page goes on
    page.wait("document.querySelector('.stage .message').hidden")


def test_two_models_tied_and_free(page: Browser):
    page.click("#compare")
    page.wait(f"document.querySelectorAll('.stage').length === 2 && {READY}")
    first, second = code(page), code(page, "code2")
    mine, theirs = latent(page), latent(page, "last")
    page.type(FIRST, ARROW_RIGHT)
    assert code(page)[mine] > first[mine] and code(page, "code2")[theirs] > second[theirs]
    page.click("#tie")
    moved = code(page, "code2")
    page.type(FIRST, ARROW_RIGHT)
    assert code(page, "code2") == moved
    page.click("#reset")
    eventually(lambda: (code(page), code(page, "code2")) == (first, second), "both starts")
    page.run(
        "const s = document.querySelector('.stage:last-child .run'); s.value = 'vectors';"
        "s.dispatchEvent(new Event('change'))"
    )
    page.wait("document.querySelector('.stage:last-child .decoded img').src.startsWith('data:image/svg')")


def shown(browser: Browser, client: Any) -> list[Any]:
    """What two models show, once all of it belongs to the codes in the address."""

    def settled() -> list[Any]:
        seen = browser.run(
            "return [...document.querySelectorAll('.stage')].map((stage, i) => [stage.querySelector('.run').value,"
            "stage.querySelector('.member').value, stage.querySelector('.decoded img').src,"
            "[...document.querySelectorAll('.list')[i].querySelectorAll('.latent')].map(row => "
            "[Number(row.querySelector('b').textContent.slice(1)), row.querySelector('.column').src])])"
        )
        for (run, member, picture, columns), field in zip(seen, ("code", "code2"), strict=True):
            model = {"run": run, "member": member, "code": code(browser, field)}
            expected = client.ask("columns", **model)["columns"]
            if picture != client.ask("decode", **model)["picture"] or dict(columns) != dict(enumerate(expected)):
                return []
        return seen

    return eventually(settled, "pictures of the present codes")


def test_a_link_restores_everything(page: Browser, client: Any):
    page.click("#compare")
    page.wait(f"document.querySelectorAll('.stage').length === 2 && {READY}")
    page.click("#tie")
    page.click("#next")
    started = client.ask("start", example=1)["picture"]
    for side in ("first", "last"):
        eventually(lambda side=side: picture(page, f".stage:{side}-child .original") == started, "the next example")
    for row, share in ((1, 0.123), (2, 0.77)):
        drag(page, f".list:last-child .latent:nth-child({row}) input[type=range]", share)
    before, link = shown(page, client), page.run("return location.hash")
    page.open("about:blank")
    page.open(f"http://127.0.0.1:{client.port}/{link}")
    page.wait(f"document.querySelectorAll('.stage').length === 2 && {READY}")
    assert shown(page, client) == before
    assert page.run("return [location.hash, tie.ariaPressed, example.value]") == [link, "false", "1"]


def test_links_to_what_is_not_there(page: Browser, client: Any):
    page.run("location.hash = '#run=gone&seed=seed-0&code=1,2,3,4&example=3'")
    assert "There is no run “gone” here" in page.wait("!notice.hidden && notice.textContent")
    page.run("location.hash = '#run=beta&seed=seed-9'")
    assert "no finished model “seed-9”" in eventually(
        lambda: "seed-9" in (said := page.run("return notice.textContent")) and said, "a message"
    )
    page.run("location.hash = '#run=beta&seed=seed-1&code=1,2&example=100000'")
    eventually(lambda: "there is no example 100000" in page.run("return stages.textContent"), "a message")


def test_models_that_cannot_be_loaded(page: Browser):
    page.run("location.hash = '#run=lost&seed=seed-0'")
    message = "document.querySelector('.stage .message:not([hidden])')?.textContent"
    assert page.wait(message).startswith("the weights of seed-0 cannot be used")
    page.run("location.hash = '#run=beta&seed=seed-1'")
    page.wait(f"!({message}) && !document.querySelector('.pictures').hidden")


def test_page_fits_a_phone_in_light_and_dark(page: Browser):
    page.click("#compare")
    page.wait(READY)
    grounds = set()
    for scheme in ("light", "dark"):
        page.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for width in (360, 390, 800, 1400):
            page.devtools(
                "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
            )
            assert page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            wide = "[...document.querySelectorAll('.latent')].filter(row => row.scrollWidth > row.clientWidth)"
            assert page.run(f"return {wide}.length") == 0
        grounds.add(page.run("return getComputedStyle(document.body).backgroundColor"))
    assert len(grounds) == 2
    page.devtools("Emulation.clearDeviceMetricsOverride")
    page.devtools("Emulation.setEmulatedMedia", features=[])
