"""A headless Chromium, driven through chromedriver by the plain WebDriver protocol."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
ARGUMENTS += ["--disable-component-update", "--disable-sync"]
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of an element, fixed by the protocol


class Browser:
    """A session."""

    def __init__(self, address: str):
        self.address = address

    def send(self, method: str, path: str, **body: Any) -> Any:
        answer = requests.request(method, f"{self.address}{path}", json=body if method == "POST" else None, timeout=60)
        value = answer.json()["value"]
        assert answer.ok, value
        return value

    def open(self, page: Path) -> None:
        self.send("POST", "/url", url=page.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        return self.send("POST", "/execute/sync", script=script, args=list(arguments))

    def find(self, selector: str) -> str:
        return self.send("POST", "/element", using="css selector", value=selector)[ELEMENT]

    def keys(self, element: str, text: str) -> None:
        self.send("POST", f"/element/{element}/value", text=text)

    def picture(self, element: str) -> str:
        """The element as it looks. On a busy machine the browser may not draw in the time that its driver waits."""
        for _ in range(5):
            answer = requests.get(f"{self.address}/element/{element}/screenshot", timeout=60)
            if answer.ok or answer.json()["value"]["error"] != "timeout":
                break
        assert answer.ok, answer.json()["value"]
        return answer.json()["value"]

    def errors(self) -> list[str]:
        return [line["message"] for line in self.send("POST", "/se/log", type="browser") if line["level"] != "INFO"]


@contextmanager
def chromium(folder: Path) -> Iterator[Browser]:
    """A browser that keeps its files in a folder; the test is skipped where there is none."""
    driver, program = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
    if driver is None or program is None:
        pytest.skip("there is no Chromium with its chromedriver")
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = next(found[1] for line in process.stdout if (found := re.search(r"successfully on port (\d+)", line)))
        options = {"binary": program, "args": [*ARGUMENTS, f"--user-data-dir={folder}"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        address = f"http://127.0.0.1:{port}/session"
        answer = requests.post(address, json={"capabilities": {"alwaysMatch": wanted}}, timeout=60).json()
        browser = Browser(f"{address}/{answer['value']['sessionId']}")
        try:
            yield browser
        finally:
            browser.send("DELETE", "")  # else it would run on without its driver
    finally:
        process.terminate()
        process.wait(10)
