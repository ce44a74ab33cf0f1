"""The page of `runvil log --html` in a headless Chromium: what it shows, and that it fetches and runs nothing.

The browser reaches everything through a proxy of ours, which serves the page and keeps a list of what was asked for.
"""

from __future__ import annotations

import http.server
import shutil
import subprocess
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from log_lines import PARAMETERS, TOOL_RUN, Line, answer, chat, event, user
from runvil.timeline import Timeline, write_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

PAGE = "http://page.test/run.html"
BROWSERS_OWN = ".google.com"
"""What Chromium asks for by itself, whatever the page; no flag stops all of it."""
HOSTILE = (
    "</pre></details></style><script>document.title='owned';console.error('ran')</script>"
    "<img src='http://elsewhere.test/x.png' onerror='console.error(1)'><link rel=stylesheet href='http://elsewhere.test/x'>"
    "<style>@import 'http://elsewhere.test/y'</style><iframe src='http://elsewhere.test/z'></iframe>"
)
HOSTILE_RUN = [
    PARAMETERS | {"name": HOSTILE, "prompt": HOSTILE, "args": HOSTILE, "models": {HOSTILE: {"model": HOSTILE}}},
    event("section_started", HOSTILE),
    event("lua", HOSTILE, message=HOSTILE),
    chat(0, [user(HOSTILE)], section=HOSTILE, model=HOSTILE),
    answer("round", "reply", round=0, text=HOSTILE, reasoning=HOSTILE, model=HOSTILE),
    event("model_turn_completed", HOSTILE, turn=1, round=0, finish_reason=HOSTILE),
    event("tool_result", HOSTILE, turn=1, tool_call_id=HOSTILE, alias=HOSTILE, content=HOSTILE),
    event(HOSTILE, HOSTILE, message=HOSTILE, more={HOSTILE: HOSTILE}),
]


@dataclass
class Browser:
    """A headless Chromium behind the proxy."""

    command: list[str]
    served: dict[str, bytes] = field(default_factory=dict)
    asked_for: list[str] = field(default_factory=list)

    def dom(self, page: bytes) -> tuple[str, str]:
        """The page's document as the browser made it, and what the browser's console said."""
        ended = self._run(page, "--dump-dom", "--enable-logging=stderr")
        return ended.stdout, "\n".join(line for line in ended.stderr.splitlines() if "CONSOLE" in line)

    def screenshot(self, page: bytes, file: Path, *flags: str) -> bytes:
        """A picture of the page."""
        self._run(page, f"--screenshot={file}", "--hide-scrollbars", *flags)
        return file.read_bytes()

    def _run(self, page: bytes, *flags: str) -> subprocess.CompletedProcess[str]:
        self.served[PAGE] = page
        command = [*self.command, *flags, PAGE]
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=50, check=True)

    def note(self, url: str) -> None:
        """Notes a request: a URL, or the host and port of an encrypted one."""
        host = urlsplit(url if "//" in url else f"//{url}").hostname or ""
        if not host.endswith(BROWSERS_OWN):
            self.asked_for.append(url)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next((found for name in names if (found := shutil.which(name))), None)
    assert program is not None, f"none of {', '.join(names)} is on the PATH"
    browser = Browser([])

    class Proxy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            browser.note(self.path)
            body = browser.served.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(body or b"")

        def do_CONNECT(self) -> None:
            browser.note(self.path)
            self.send_error(403)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        browser.command = [
            program,
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps"),
            f"--user-data-dir={tmp_path / 'profile'}",
            f"--proxy-server=http://127.0.0.1:{proxy.server_port}",
        ]
        try:
            yield browser
        finally:
            proxy.shutdown()
            thread.join()


@pytest.fixture
def page(tmp_path: Path) -> Callable[[Sequence[Line]], bytes]:
    def make(lines: Sequence[Line]) -> bytes:
        file = tmp_path / "run.html"
        write_page(Timeline(enumerate(lines, start=1)), file)
        return file.read_bytes()

    return make


def test_the_proxy_sees_requests_and_the_console_scripts(browser: Browser) -> None:
    document, console = browser.dom(HOSTILE.encode())
    assert "<img" in document
    assert "ran" in console
    assert "http://elsewhere.test/x.png" in browser.asked_for


def test_the_page_shows_the_run_and_fetches_nothing(browser: Browser, page: Callable[[Sequence[Line]], bytes]) -> None:
    document, console = browser.dom(page(TOOL_RUN))
    assert (browser.asked_for, console) == ([PAGE], "")
    assert "<title>tooled · completed · run log</title>" in document
    for words in ("find it", "web/search", '{"query": "hi"}', "three", "I should search.", "1.50 s", "2,100 prompt"):
        assert words in document
    assert '<details class="section" open="">' in document
    assert document.count("</summary>") == document.count("</details>") > 3


def test_hostile_texts_do_nothing(browser: Browser, page: Callable[[Sequence[Line]], bytes]) -> None:
    document, console = browser.dom(page(HOSTILE_RUN))
    assert (browser.asked_for, console) == ([PAGE], "")
    assert document.count("&lt;script&gt;") > 10
    for tag in ("<script", "<img", "<iframe", "<link"):
        assert tag not in document


def test_the_page_is_drawn_in_light_and_in_dark(
    browser: Browser, page: Callable[[Sequence[Line]], bytes], tmp_path: Path
) -> None:
    source = page(TOOL_RUN)
    blank = browser.screenshot(b"<!doctype html>", tmp_path / "blank.png")
    light = browser.screenshot(source, tmp_path / "light.png")
    dark = browser.screenshot(source, tmp_path / "dark.png", "--blink-settings=preferredColorScheme=0")
    assert min(len(light), len(dark)) > 4 * len(blank)
    assert light != dark
