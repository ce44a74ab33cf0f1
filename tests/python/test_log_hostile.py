"""`runvil log` on logs whose texts and fields hold anything, and on long ones."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as some

from log_lines import PARAMETERS, TOOL_RUN, answer, chat, event, replied, user, wrapped
from log_views import Page, page_of, shown
from runvil.cli.timeline_text import TimelineText
from runvil.timeline import SectionClosed, SectionOpened, Timeline, write_page

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Command = Callable[..., subprocess.CompletedProcess[str]]


HOSTILE = "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>\"'><b title='&amp;\x1b[31m\u202e"


def test_hostile_texts_stay_text(log: Callable[..., Path]) -> None:
    hostile_call = {"id": HOSTILE, "name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    hostile_message = {"role": HOSTILE, "content": HOSTILE, "tool_calls": [hostile_call]}
    error = {"kind": HOSTILE, "message": HOSTILE, "location": {"path": HOSTILE, "line": 1}}
    plain = log(TOOL_RUN)
    expected = page_of(plain)[1].tags | {"section", "ol"}
    names = ("runvil", "name", "path", "prompt", "args")
    file = log(
        [
            PARAMETERS | dict.fromkeys(names, HOSTILE) | {"models": {HOSTILE: {"model": HOSTILE}}, HOSTILE: HOSTILE},
            event("run_started", HOSTILE),
            event("section_started", HOSTILE),
            event("section_started", HOSTILE, HOSTILE),
            chat(0, [hostile_message], section=HOSTILE, model=HOSTILE),
            answer("round", "reply", round=0, text=HOSTILE, model=HOSTILE, reasoning=HOSTILE, usage={HOSTILE: 1}),
            event("request", HOSTILE, round=0, body={HOSTILE: HOSTILE}),
            event("model_turn_completed", HOSTILE, turn=1, round=0, message=HOSTILE, finish_reason=HOSTILE),
            event("model_metadata_degraded", HOSTILE, round=0, message=HOSTILE),
            event("assistant_tool_calls", HOSTILE, turn=1, round=0, calls=[hostile_call]),
            event("tool_result", HOSTILE, turn=1, tool_call_id=HOSTILE, alias=HOSTILE, content=wrapped(HOSTILE)),
            event(HOSTILE, HOSTILE, message=HOSTILE, **{HOSTILE: HOSTILE}),
            answer(HOSTILE, HOSTILE, **{HOSTILE: HOSTILE}),
            event("run_failed", HOSTILE),
            {"kind": "outcome", "execution": "e", "outcome": "failed", "error": error, "result": HOSTILE},
        ]
    )
    source, page = page_of(file)
    assert page.tags <= expected | {"summary", "details", "h2", "dl", "dt", "dd", "div", "p", "b"}
    assert not page.tags & {"script", "img", "iframe", "link", "object", "a", "form", "base"}
    assert {name for name, _ in page.attributes} <= {
        *("charset", "lang", "class", "dir", "open", "http-equiv", "content", "name"),
        *("viewbox", "preserveaspectratio", "aria-hidden", "width", "height"),
    }
    assert "<script" not in source
    assert page.words.count("<script>alert(1)</script>") > 20
    text = "\n".join(shown(file))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[31m" in text


def test_the_page_allows_no_request_and_no_script(log: Callable[..., Path]) -> None:
    import base64
    import hashlib

    source, page = page_of(log(TOOL_RUN))
    (policy,) = (value for name, value in page.attributes if name == "content" and value and "default-src" in value)
    style = re.search(r"<style>(.*?)</style>", source, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert not re.search(r"url\(|@import|https?://|style=", source)


def test_lone_surrogates_and_nul_are_no_obstacle(runvil_command: Command, log: Callable[..., Path]) -> None:
    file = log([*TOOL_RUN[:3], chat(0, [user("\ud800 \x00 é")])])
    ended = runvil_command("log", file)
    assert ended.returncode == 0
    assert "1 user: \\ud800 \\x00 é" in ended.stdout
    assert runvil_command("log", file, "--html", "out.html").returncode == 0


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(some.data())
def test_whatever_the_fields_hold_the_log_can_be_shown(data: some.DataObject) -> None:
    lines = list(enumerate((dict(line) for line in TOOL_RUN), start=1))
    for _ in range(data.draw(some.integers(1, 6))):
        _, line = lines[data.draw(some.integers(0, len(lines) - 1))]
        line[data.draw(some.sampled_from(sorted(line)))] = data.draw(values)
    lines = data.draw(some.permutations(lines)) if data.draw(some.booleans()) else lines
    timeline, text = Timeline(iter(lines)), TimelineText(full=True)
    entries = list(timeline)
    for entry in entries:
        list(text.lines_of(entry, timeline.summary))
    list(text.end(timeline.summary))
    with tempfile.TemporaryDirectory() as folder:
        write_page(Timeline(iter(lines)), Path(folder, "out.html"))
        Page(Path(folder, "out.html").read_text(encoding="utf-8"))
    depth = 0
    for entry in entries:
        if isinstance(entry, SectionOpened | SectionClosed) and entry.contains:
            depth += 1 if isinstance(entry, SectionOpened) else -1
            assert depth >= 0
    assert depth == 0


def test_work_grows_with_the_log_and_no_faster(log: Callable[..., Path]) -> None:
    def steps(rounds: int) -> int:
        lines: list[Any] = [*TOOL_RUN[:3]]
        for number in range(rounds):
            lines += [chat(number, [user("next")], 2 * number + 1), *replied(number, number + 1, "r")]
            lines += [answer("tool_call", "tool_failure", tool="t", message="m")]
        file, count = log(lines), 0

        def trace(_frame: Any, what: str, _argument: Any) -> None:
            nonlocal count
            count += what in ("call", "c_call")

        sys.setprofile(trace)
        try:
            shown(file)
        finally:
            sys.setprofile(None)
        return count

    assert steps(400) < 4.5 * steps(100)
