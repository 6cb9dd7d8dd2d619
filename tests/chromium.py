"""Control a headless Chromium on one page through pipes, without driver, package or network."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
    *("--hide-scrollbars", "--window-size=1300,900"),
)

MOVE_PIPES = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(one), fcntl.F_DUPFD, 20) for one in sys.argv[1:3]]
for number, end in zip((3, 4), ends):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from 3 and writes to 4."""


class Page:
    """An open page: what it logs and requests is kept in `problems` and `requests`."""

    def __init__(self, write: int, read: int) -> None:
        self.write, self.read = write, read
        self.rest, self.number, self.session = b"", 0, ""
        self.problems: list[str] = []
        self.requests: list[str] = []

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self.number:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result
            self._note(found)

    def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while True:
            found = self._next()
            self._note(found)
            if found.get("method") == method:
                return

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited if it is a promise."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def drag(self, selector: str, begin: float, end: float) -> None:
        """Drag with the mouse in an element, between two fractions of its width."""
        self.run(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        box = self.run(
            f"(b => [b.x, b.y, b.width, b.height])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        y = box[1] + box[3] / 2
        steps = [(kind, box[0] + share * box[2]) for kind, share in (
            ("mouseMoved", begin), ("mousePressed", begin), ("mouseMoved", (begin + end) / 2),
            ("mouseMoved", end), ("mouseReleased", end))]  # fmt: skip
        for kind, x in steps:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1,
                      buttons=1)  # fmt: skip

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            got = os.read(self.read, 1 << 20)
            assert got, "Chromium has ended"
            self.rest += got
        text, _, self.rest = self.rest.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        method, values = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(values["exceptionDetails"])[:2000])
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            self.problems.append(values["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] == "error":
            self.problems.append(json.dumps(values["args"])[:2000])


def chromium() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def open_page(file: Path, folder: Path) -> Iterator[Page]:
    """Open a file; the profile is in `folder`. Skips the test without Chromium."""
    program = chromium()
    if program is None:
        pytest.skip("no Chromium: the page is not opened (apt-get install chromium)")
    theirs_read, write = os.pipe()
    read, theirs_write = os.pipe()

    process = subprocess.Popen(
        [sys.executable, "-c", MOVE_PIPES, str(theirs_read), str(theirs_write), program, *FLAGS,
         f"--user-data-dir={folder}", "about:blank"],
        pass_fds=(theirs_read, theirs_write), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(theirs_read)
    os.close(theirs_write)
    try:
        page = Page(write, read)
        targets = page.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        session = page.call("Target.attachToTarget", targetId=target, flatten=True)
        page.session = session["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        page.call("Page.navigate", url=file.resolve().as_uri())
        page.wait_for("Page.loadEventFired")
        page.run("new Promise(done => setTimeout(done, 300))")
        yield page
    finally:
        with suppress(OSError):
            os.write(write, b'{"id": 0, "method": "Browser.close"}\0')
        try:
            process.wait(20)  # killed, it would leave children that write to the profile
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for one in (write, read):
            with suppress(OSError):
                os.close(one)
