"""A browser for tests: the few commands of the WebDriver protocol that they need, over chromedriver."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

DRIVER = shutil.which("chromedriver")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the protocol's name of an element's id
_FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
]


class Browser:
    """A headless Chromium with a fresh profile."""

    def __init__(self, width: int = 1400, height: int = 1000):
        assert DRIVER and BROWSER
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout
        port = next(
            found[1] for line in self.driver.stdout if (found := re.search(r"successfully on port (\d+)", line))
        )
        self.base = f"http://127.0.0.1:{port}/session"
        arguments = [*_FLAGS, f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}"]
        chrome = {"binary": BROWSER, "args": arguments}
        wanted = {"goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}, "browserName": "chrome"}
        session = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.base += f"/{session['sessionId']}"

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._call("DELETE", "")
        self.driver.terminate()
        self.driver.wait(10)
        self.folder.cleanup()

    def open(self, address: str) -> None:
        self._call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a script returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition: str, seconds: float = 30) -> Any:
        """The value of an expression once it is true."""
        return eventually(lambda: self.run(f"return {condition}"), condition, seconds)

    def type(self, selector: str, keys: str) -> None:
        """Type into an element; for a file's input, the path of the file."""
        element = self._call("POST", "/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self._call("POST", f"/element/{element}/value", {"text": keys})

    def click(self, selector: str) -> None:
        element = self._call("POST", "/element", {"using": "css selector", "value": selector})[_ELEMENT]
        self._call("POST", f"/element/{element}/click", {})

    def resize(self, width: int, height: int) -> None:
        self._call("POST", "/window/rect", {"width": width, "height": height})

    def devtools(self, command: str, **arguments: Any) -> Any:
        return self._call("POST", "/goog/cdp/execute", {"cmd": command, "params": arguments})

    def complaints(self) -> list[str]:
        """What the browser's console has had to complain of since the last call."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def picture(self, file: Path) -> None:
        """Write a picture of the page."""
        file.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None


def eventually(value: Callable[[], Any], what: str, seconds: float = 30) -> Any:
    """The value of a function as soon as it is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := value():
            return found
        time.sleep(0.02)
    raise AssertionError(f"after {seconds:g} s still not: {what}")
