"""Browser for tests: headless Chromium controlled through chromedriver over plain HTTP.

It needs only Debian's packages `chromium` and `chromium-driver`; without them the
tests are skipped.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.programs import find_program

CHROMIUM = find_program("chromium", "google-chrome", "chrome")
DRIVER = find_program("chromedriver")
MISSING = (
    "Chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"
)
AXE_HOMES = (
    os.environ.get("NEXUSFORM_AXE", ""),
    str(Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"),
    "/usr/lib/node_modules/axe-core/axe.min.js",
    "/usr/local/lib/node_modules/axe-core/axe.min.js",
)
AXE = next((Path(home) for home in AXE_HOMES if home and Path(home).is_file()), None)
AXE_MISSING = (
    "axe-core is not installed (npm install --no-save axe-core, or NEXUSFORM_AXE=/path/axe.min.js)"
)
_KEY = "element-6066-11e4-a52e-4f735466cecf"
_KEYS = {"ArrowDown": "\ue015", "ArrowRight": "\ue014", "ArrowLeft": "\ue012", "Tab": "\ue004"}
KEYS = _KEYS | {"Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010"}


class Browser:
    """One browser window."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        assert DRIVER is not None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._base = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait_for_driver()
        options = {
            "binary": CHROMIUM,
            "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
        }
        asked = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": asked}})
        self._session = f"/session/{answer['sessionId']}"

    def _wait_for_driver(self) -> None:
        for _ in range(200):
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        raise AssertionError("chromedriver did not start")

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as problem:
            with problem:
                raise AssertionError(json.load(problem)["value"]["message"]) from None

    def close(self) -> None:
        """End the session and the driver."""
        try:
            self._call("DELETE", self._session)
        finally:
            self._process.terminate()
            self._process.wait(10)

    # --- actions of tests ---

    def open(self, page: Path, width: int = 1280, height: int = 900) -> None:
        """Open a file at a width, without state of the previous page."""
        self.visit(page.as_uri(), width, height)

    def visit(self, address: str, width: int = 1280, height: int = 900) -> None:
        """Open an address at a width."""
        self._call(
            "POST",
            f"{self._session}/goog/cdp/execute",
            {
                "cmd": "Emulation.setDeviceMetricsOverride",
                "params": {
                    "width": width,
                    "height": height,
                    "deviceScaleFactor": 1,
                    "mobile": False,
                },
            },
        )
        self.console()
        self._call("POST", f"{self._session}/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run a script (`return ...`) in the page."""
        body = {"script": script, "args": list(arguments)}
        return self._call("POST", f"{self._session}/execute/sync", body)

    def wait_for(self, condition: str, *arguments: Any) -> None:
        """Wait until an expression is true."""
        for _ in range(100):
            if self.run(f"return Boolean({condition})", *arguments):
                return
            time.sleep(0.05)
        raise AssertionError(f"never true: {condition}")

    def text(self, selector: str) -> str:
        """Return the visible text of an element."""
        return str(self.run("return document.querySelector(arguments[0]).innerText", selector))

    def count(self, selector: str) -> int:
        """Return the number of matching elements."""
        return int(self.run("return document.querySelectorAll(arguments[0]).length", selector))

    def click(self, selector: str) -> None:
        """Click the middle of an element like a user, after scrolling it into view."""
        self._call("POST", f"{self._session}/element/{self._find(selector)}/click", {})

    def hover(self, selector: str) -> None:
        """Move the pointer over an element."""
        self.run("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", selector)
        move = {
            "type": "pointerMove",
            "origin": {_KEY: self._find(selector)},
            "x": 0,
            "y": 0,
            "duration": 0,
        }
        moves = [{"type": "pointer", "id": "mouse", "actions": [move]}]
        self._call("POST", f"{self._session}/actions", {"actions": moves})

    def choose(self, selector: str, value: str) -> None:
        """Select an option of a select element."""
        script = "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        script += "s.dispatchEvent(new Event('change'))"
        self.run(script, selector, value)

    def type(self, selector: str, text: str) -> None:
        """Type into an input field."""
        self._call("POST", f"{self._session}/element/{self._find(selector)}/value", {"text": text})

    def press(self, key: str) -> None:
        """Press a key in the focused element."""
        value = KEYS.get(key, key)
        strokes = [{"type": "keyDown", "value": value}, {"type": "keyUp", "value": value}]
        self._call(
            "POST",
            f"{self._session}/actions",
            {"actions": [{"type": "key", "id": "keys", "actions": strokes}]},
        )

    def console(self) -> list[str]:
        """Return errors and warnings logged by the page since the last call."""
        entries = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Save a screenshot of the page."""
        asked = {"cmd": "Page.captureScreenshot", "params": {"captureBeyondViewport": whole}}
        if whole:
            size = self.run(
                "return [document.documentElement.scrollWidth, "
                "document.documentElement.scrollHeight]"
            )
            asked["params"] |= {
                "clip": {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 6000), "scale": 1}
            }
        answer = self._call("POST", f"{self._session}/goog/cdp/execute", asked)
        file.write_bytes(base64.b64decode(answer["data"]))

    def sheets(self) -> int:
        """Return the number of printed pages."""
        asked = {
            "cmd": "Page.printToPDF",
            "params": {"preferCSSPageSize": True, "printBackground": True},
        }
        answer = self._call("POST", f"{self._session}/goog/cdp/execute", asked)
        return len(re.findall(rb"/Type /Page\b", base64.b64decode(answer["data"])))

    def wear(self, scheme: str) -> None:
        """Set the preferred colour scheme of the system to `light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        asked = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [feature]}}
        self._call("POST", f"{self._session}/goog/cdp/execute", asked)

    def violations(self) -> list[str]:
        """Return the serious and critical findings of axe-core, and those about landmarks.

        They include the size of targets (WCAG 2.5.8).
        """
        assert AXE is not None
        self.run(AXE.read_text(encoding="utf-8") + "; return true")
        script = "const done = arguments[arguments.length - 1];"
        script += "const rules = {'target-size': {enabled: true}};"
        script += "axe.run({rules}).then(done, e => done({error: String(e)}))"
        found = self._call("POST", f"{self._session}/execute/async", {"script": script, "args": []})
        assert "error" not in found, found
        return [
            f"{v['id']}: {v['help']} at {[n['target'] for n in v['nodes'][:5]]}: {v['nodes'][0]}"
            for v in found["violations"]
            if v["impact"] in ("serious", "critical") or v["id"].startswith(("landmark-", "region"))
        ]

    def _find(self, selector: str) -> str:
        body = {"using": "css selector", "value": selector}
        return str(self._call("POST", f"{self._session}/element", body)[_KEY])
