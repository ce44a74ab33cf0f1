"""`runvil log`: the timeline of a run log, as text and as a page."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from conftest import clean_environment, document
from log_lines import PARAMETERS, TOOL_RUN, Line, answer, chat, event, replied, user
from log_views import Page, entries_of, page_of, shown
from runvil.timeline import Round, SectionClosed, SectionOpened, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., subprocess.CompletedProcess[str]]


def test_a_real_run_as_text_and_as_a_page(runvil_command: Command, tmp_path: Path) -> None:
    lua = (
        "models.use('writer')\nlog('starting')\nmessages:user('one')\nmodels.loop()\n"
        "messages:user('two')\nmodels.loop()\nreturn messages[#messages].content"
    )
    (tmp_path / "p.md").write_text(document(lua), encoding="utf-8")
    replies = [
        {"text": "first", "reasoning": "let me think", "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        {"text": "second", "finish_reason": "length", "usage": {"prompt_tokens": 9}},
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, replies)), encoding="utf-8")
    assert runvil_command("run", "p.md", "--replies", "r.jsonl", "--log", "run.jsonl").returncode == 0
    ended = runvil_command("log", "run.jsonl", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    lines = ended.stdout.splitlines()
    timeline = [
        re.sub(r" (· )?[\d.]+ m?s$", "", line) for line in lines[lines.index("## Only") : lines.index("completed") - 1]
    ]
    assert timeline == [
        "## Only",
        "  log: starting",
        "  → round 0 chat writer · 1 message · estimate 4, count 4, reserve 1,024, window 8,192",
        "    1 user: one",
        "  ← turn 1 5 prompt + 2 completion tokens",
        "    thinking: let me think",
        "    reply: first",
        "  → round 1 chat writer · 3 messages, new from 2 on · estimate 14, count 11, reserve 1,024, window 8,192",
        "    2 assistant, as above",
        "    3 user: two",
        "  ← turn 2 length · 9 prompt tokens",
        "    reply: second",
        "    the reply is cut short by the model's limit",
    ]
    assert "usage: 14 prompt + 2 completion tokens" in lines
    ended = runvil_command("log", "run.jsonl", "--html", "out.html")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "wrote out.html\n")
    page = Page((tmp_path / "out.html").read_text(encoding="utf-8"))
    for words in ("starting", "let me think", "second", "cut short", "3 messages as last sent, and the reply"):
        assert words in page.words


def test_a_failed_run_names_the_command_to_look_at_its_log(runvil_command: Command, tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text(document("error('boom')"), encoding="utf-8")
    ended = runvil_command("run", "p.md", "--replies", "/dev/null", "--log", "my run.jsonl")
    assert ended.returncode == 1
    assert ended.stderr.endswith("to see what happened: runvil log 'my run.jsonl'\n")
    assert "runvil log" not in runvil_command("run", "p.md", "--replies", "/dev/null").stderr
    lines = runvil_command("log", "my run.jsonl").stdout.splitlines()
    assert "  the Lua block failed" in lines
    assert "## Only ends early" in lines
    assert "failed" in lines


def test_tool_calls_have_their_arguments_results_and_durations(log: Callable[..., Path]) -> None:
    file = log(TOOL_RUN)
    calls = [entry for entry in entries_of(file) if isinstance(entry, ToolCall)]
    assert [(call.tool, call.status, call.arguments, call.seconds) for call in calls] == [
        ("web/search", "succeeded", {"query": "hi"}, 0.25),
        ("web/broken", "failed", "not json", 0.004),
    ]
    lines = shown(file)
    assert lines[lines.index("## Search") :] == [
        "## Search",
        "  → round 0 chat writer (small) · 1 message · estimate 12",
        "    1 user: find it",
        "  ← turn 1 tool_calls · by served · 1,000 prompt + 7 completion tokens · 1.50 s",
        "    thinking: I should search.",
        '    calls web_search call_1: {"query": "hi"}',
        "    calls web_broken call_2: not json",
        "  tool web/search succeeded · call_1 · 250 ms",
        '    arguments: {"query": "hi"}',
        "    result (untrusted): three",
        "  tool web/broken failed · call_2 · 4 ms",
        "    arguments: not json",
        "    result (untrusted): boom",
        "  → round 1 chat writer (small) · 4 messages, new from 2 on",
        "    2 assistant, as above",
        "    3 tool call_1, as above",
        "    4 tool call_2, as above",
        "  ← turn 2 stop · 1,100 prompt + 3 completion tokens (900 cached)",
        "    reply: found",
        "",
        "completed",
        "rounds: 2 requests, 2 replies",
        "tool calls: 2, 1 failed",
        "usage: 2,100 prompt + 10 completion tokens (900 cached)",
        "model time: 1.50 s",
        "tool time: 254 ms",
        f"log: {len(TOOL_RUN)} lines",
    ]
    source, page = page_of(file)
    for words in (
        "web/search",
        '{"query": "hi"}',
        "I should search.",
        "1.50 s",
        "250 ms",
        "2,100 prompt",
        "estimate 12",
    ):
        assert words in page.words
    assert source.count("<rect ") == 3
    assert "scaleX(66.66" in source


def test_calls_of_scripts_and_calls_without_an_outcome(log: Callable[..., Path]) -> None:
    file = log(
        [
            *TOOL_RUN[:3],
            answer("tool_call", "tool_output", tool="web/search", text="three", arguments={"query": "x"}),
            event("tool_call_succeeded"),
            event("tool_result", turn=0, tool_call_id="", alias="web/search", content="three", trusted=True),
            answer("tool_call", "tool_failure", tool="web/broken", message="boom"),
            event("tool_call_failed"),
            event("lua", message="between"),
            *TOOL_RUN[3:9],
        ]
    )
    calls = [entry for entry in entries_of(file) if isinstance(entry, ToolCall)]
    assert [(call.tool, call.status, call.arguments, call.content) for call in calls] == [
        ("web/search", "succeeded", {"query": "x"}, "three"),
        ("web/broken", "failed", None, "boom"),
        ("web_search", "unanswered", {"query": "hi"}, None),
        ("web_broken", "unanswered", "not json", None),
    ]


def test_sections_nest_as_they_call_each_other(log: Callable[..., Path]) -> None:
    file = log(
        [
            *TOOL_RUN[:2],
            event("lua_chunk_started", "Tooled"),
            event("lua", "Tooled", message="in the H1 pass"),
            event("lua_teardown_succeeded", "Tooled"),
            event("section_started", "Outer"),
            event("section_started", "Failing"),
            event("lua_chunk_failed", "Failing"),
            event("lua_teardown_succeeded", "Failing"),
            event("section_started", "Outer"),
            event("section_finished", "Outer"),
            event("lua", "Outer", message="back"),
            event("section_finished", "Outer"),
            event("run_succeeded", "Tooled"),
        ]
    )
    bounds = [entry for entry in entries_of(file) if isinstance(entry, SectionOpened | SectionClosed)]
    assert [
        (type(bound).__name__[7:], bound.name, bound.depth, getattr(bound, "finished", None)) for bound in bounds
    ] == [
        ("Opened", "Tooled", 0, None),
        ("Closed", "Tooled", 0, True),
        ("Opened", "Outer", 0, None),
        ("Opened", "Failing", 1, None),
        ("Closed", "Failing", 1, False),
        ("Opened", "Outer", 1, None),
        ("Closed", "Outer", 1, True),
        ("Closed", "Outer", 0, True),
    ]
    page_of(file)


def test_rounds_of_concurrent_tasks_find_their_answers_and_lists(log: Callable[..., Path]) -> None:
    tasks = ("0.0", "0.1")
    lines = [
        *TOOL_RUN[:2],
        event("section_started", "Main"),
        *(event("section_started", "Worker", task) for task in tasks),
        *(event("tool_scope_validation_succeeded", "Worker", task) for task in tasks),
        *(chat(number, [user(f"from {task}")], section="Worker") for number, task in enumerate(tasks)),
    ]
    for number in (1, 0):
        first, *events = replied(number, 2 - number, f"to {tasks[number]}", "Worker")
        lines += [first, *(line | {"task": tasks[number]} for line in events)]
    lines += [event("section_finished", "Worker", task) for task in tasks]
    file = log([*lines, event("section_finished", "Main"), event("run_succeeded", "Tooled")])
    entries = entries_of(file)
    rounds = [entry for entry in entries if isinstance(entry, Round)]
    assert [(entry.task, entry.messages, entry.text) for entry in rounds] == [
        ("0.1", [user("from 0.1")], "to 0.1"),
        ("0.0", [user("from 0.0")], "to 0.0"),
    ]
    closed = [entry for entry in entries if isinstance(entry, SectionClosed)]
    assert [(entry.task, entry.conversation.messages) for entry in closed] == [
        ("0.0", [user("from 0.0")]),
        ("0.1", [user("from 0.1")]),
        ("0", []),
    ]
    assert "task 0.1" in page_of(file)[1].words


def test_a_list_is_put_together_from_what_each_request_adds(log: Callable[..., Path]) -> None:
    def sent(number: int, first: int, *texts: str) -> list[Line]:
        return [chat(number, map(user, texts), first), *replied(number, number + 1, "r")]

    requests = [*sent(0, 1, "a", "b", "c"), *sent(1, 4), *sent(2, 2, "summary"), *sent(3, 3, "d")]
    file = log([*TOOL_RUN[:3], *requests, event("section_finished")])
    entries = entries_of(file)
    assert [entry.replaced for entry in entries if isinstance(entry, Round)] == [0, 0, 2, 0]
    (closed,) = (entry for entry in entries if isinstance(entry, SectionClosed))
    assert closed.conversation.messages == [user("a"), user("summary"), user("d")]
    assert any(line.endswith("3 messages, all as before") for line in shown(file))
    gap = log([*TOOL_RUN[:3], chat(4, [user("later")], 10**12), event("section_finished")])
    assert "999,999,999,999 messages that the log does not hold" in page_of(gap)[1].words


def test_failures_refusals_and_compactions(log: Callable[..., Path]) -> None:
    file = log(
        [
            *TOOL_RUN[:3],
            event("model_turn_failed", origin="chat"),
            event("compaction_started", reason="precheck", records=12, estimate=4000),
            event("compaction_accepted", records_before=12, estimate_before=4000, records=3, estimate=300),
            chat(0, [user("x")]),
            answer("round", "model_failure", round=0, failure="RateLimited", status=429, note=None, seconds=0.5),
            event("model_turn_failed", round=0, origin="chat"),
            event("brand_new_kind", colour="red", shade={"of": "red"}),
            chat(1, [user("x")]),
            answer("round", "dropped", round=1),
            event("run_failed", "Tooled"),
        ]
    )
    rounds = [entry for entry in entries_of(file) if isinstance(entry, Round)]
    assert [entry.status for entry in rounds] == ["refused", "failed", "dropped"]
    lines = shown(file)
    assert "  compaction started · reason precheck · records 12 · estimate 4,000" in lines
    assert "  compaction accepted · records 12 → 3 · estimate 4,000 → 300" in lines
    assert "  brand new kind · colour red" in lines
    assert '    shade: {"of": "red"}' in lines
    assert any("(status 429)" in line for line in lines)
    assert "rounds: 2 requests, 0 replies, 1 failed, 1 refused" in lines
    assert "compactions: 1" in lines
    assert "failed" in lines
    page = page_of(file)[1]
    for words in ("refused before it was sent", "compaction accepted", "records 12 → 3", "given up", "brand new kind"):
        assert words in page.words


def test_a_cancelled_run_gives_its_requests_up(log: Callable[..., Path]) -> None:
    ended = [event("run_failed", "Tooled"), answer("round", "dropped", round=0)]
    lines = shown(log([*TOOL_RUN[:5], *ended]))
    assert "  ← given up " in lines
    assert any("a cancelled run ends like this too" in line for line in lines)


def test_an_outcome_line_tells_the_error_and_its_place(log: Callable[..., Path]) -> None:
    error = {"kind": "Lua", "message": "it broke", "location": {"path": "tooled.md", "line": 5}}
    outcome = {"kind": "outcome", "execution": "e", "outcome": "failed", "error": error, "turns": 0, "usage": {}}
    file = log([PARAMETERS, event("run_failed", "Tooled"), outcome])
    lines = shown(file)
    assert lines[lines.index("failed") + 1 :][:2] == ["error[Lua]: it broke", "  --> tooled.md:5"]
    source, page = page_of(file)
    assert "error[Lua]: it broke" in page.words
    assert "tooled.md:5" in page.words
    assert re.search(r'class="here"><b> +5</b>  # Tooled\n', source)


def test_a_run_that_is_still_going_on(log: Callable[..., Path]) -> None:
    file = log(TOOL_RUN[:5], tail='{"kind":"answ')
    lines = shown(file)
    assert "  ← no answer in the log " in lines
    assert "  line 6 is cut off: the file ends in the middle of it; skipped" in lines
    assert "unfinished: the log ends before the run does" in lines
    assert "still going on, or it was stopped" in page_of(file)[1].words
    answered = shown(log(TOOL_RUN[:6]))
    assert any("the log ends before the reply is used" in line for line in answered)
    assert '    calls web_search call_1: {"query": "hi"}' in answered


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_a_terminal_gets_colours_and_wrapped_lines(log: Callable[..., Path]) -> None:
    import pty

    file = log([*TOOL_RUN[:3], chat(0, [user("word " * 40 + "\x1b[31m")])])
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "runvil", "log", str(file)]
    environment = clean_environment(TERM="xterm-256color", COLUMNS="40")
    with subprocess.Popen(command, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while read := os.read(ours, 65536):
                shown += read
        assert process.wait(20) == 0
    os.close(ours)
    text = shown.decode()
    assert "\x1b[1m## Search\x1b[0m" in text
    plain = re.sub("\x1b\\[[0-9;]*m", "", text).replace("\r", "")
    assert "\\x1b[31m" in plain
    assert max(map(len, plain.splitlines())) <= 40


def test_lines_that_cannot_be_read_are_named_and_skipped(runvil_command: Command, log: Callable[..., Path]) -> None:
    file = log(["", *TOOL_RUN[:3], "{broken", "[1]", *TOOL_RUN[3:]])
    ended = runvil_command("log", file)
    assert ended.returncode == 0
    assert "  line 5 is not JSON; skipped\n  line 6 is no JSON object; skipped\n" in ended.stdout
    assert "2 skipped" in ended.stdout
    ended = runvil_command("log", log(["{broken", *TOOL_RUN[1:]]))
    assert ended.returncode == 0
    assert "its first line is missing" in ended.stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "it is empty"),
        ("hello\n", "line 1 is not JSON"),
        ("x\n" * 100, "line 1 is not JSON"),
        ('{"text": "pong"}\n', "line 1 has no kind and no execution"),
        ("3\n", "line 1 is no JSON object"),
        ("[" * 100_000 + "\n", "line 1 is not JSON"),
    ],
)
def test_another_file_is_bad_usage(runvil_command: Command, tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "other").write_text(content, encoding="utf-8")
    said = f"runvil: other is no run log: {words}; `runvil run PROMPT --log FILE` writes one\n"
    for arguments in (["log", "other"], ["log", "other", "--html", "out.html"]):
        ended = runvil_command(*arguments)
        assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", said)
    assert not (tmp_path / "out.html").exists()


def test_bad_usage_of_the_command(runvil_command: Command, log: Callable[..., Path]) -> None:
    ended = runvil_command("log", "gone.jsonl")
    assert (ended.returncode, ended.stderr) == (2, "runvil: gone.jsonl: No such file or directory\n")
    file = log(TOOL_RUN)
    before = file.read_bytes()
    ended = runvil_command("log", file, "--html", file)
    assert ended.returncode == 2
    assert "is the log itself; name another file" in ended.stderr
    assert file.read_bytes() == before
    ended = runvil_command("log", file, "--html", "no/such/folder.html")
    assert (ended.returncode, ended.stderr) == (2, "runvil: no/such/folder.html: No such file or directory\n")


def test_long_texts_are_cut_unless_asked_for(log: Callable[..., Path]) -> None:
    file = log([*TOOL_RUN[:3], chat(0, [user("x" * 1000)]), *replied(0, 1, "\n".join(map(str, range(100))))])
    cut, full = "\n".join(shown(file)), "\n".join(shown(file, full=True))
    assert "… 400 more characters; --full shows them" in cut
    assert "x" * 601 not in cut
    assert "\n7" in cut
    assert "\n8" not in cut
    assert "x" * 1000 in full
    assert "\n99" in full
    assert "more characters" not in full
