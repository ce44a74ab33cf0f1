"""The command line, as a process: exit codes, what goes to stdout and what to stderr, and the files it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import runvil
from conftest import CHAT, HERE, document, json_lines

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Command = Callable[..., subprocess.CompletedProcess[str]]

EXAMPLES = HERE.parent.parent / "examples"


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    file = tmp_path / "chat.md"
    file.write_text(document(CHAT, section="Chat"), encoding="utf-8")
    return file


@pytest.fixture
def replies(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: object) -> Path:
        file = tmp_path / "replies.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return file

    return write


def test_version(runvil_command: Command) -> None:
    ended = runvil_command("--version")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"runvil {runvil.__version__}\n", "")


def test_stdout_holds_the_result_and_one_newline(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path]
) -> None:
    file = replies({"text": "pöng\n", "fragments": ["pö", "ng\n"]})
    ended = runvil_command("run", prompt, "--replies", file)
    assert (ended.returncode, ended.stdout) == (0, "pöng\n\n")
    assert "pöng" in ended.stderr
    quiet = runvil_command("run", prompt, "--replies", file, "--quiet", PYTHONIOENCODING="ascii")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "pöng\n\n", "")


def test_json_is_one_object_with_turns_and_usage(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path]
) -> None:
    file = replies({"text": "pong", "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
    ended = runvil_command("run", prompt, "--replies", file, "--json")
    assert ended.returncode == 0
    assert ended.stdout.count("\n") == 1
    assert json.loads(ended.stdout) == {
        "outcome": "completed",
        "result": "pong",
        "turns": 1,
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }


def test_a_failed_run_exits_1_and_names_kind_and_place(runvil_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "bad.md"
    file.write_text(document("error('boom')"), encoding="utf-8")
    ended = runvil_command("run", file, "--replies", "/dev/null")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "error[Lua]: " in ended.stderr
    assert "boom" in ended.stderr
    as_json = json.loads(runvil_command("run", file, "--replies", "/dev/null", "--json", "--quiet").stdout)
    assert as_json["outcome"] == "failed"
    assert as_json["error"]["kind"] == "Lua"
    assert (as_json["turns"], as_json["usage"]) == (0, {})


def test_running_out_of_replies_is_a_failed_run(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path]
) -> None:
    ended = runvil_command("run", prompt, "--replies", replies(), "--json")
    error = json.loads(ended.stdout)["error"]
    assert (ended.returncode, error["kind"]) == (1, "Completion")
    assert "the scripted replies have no answer for request 0 of role writer" in error["message"]
    assert f"error[Completion]: {error['message']}" in ended.stderr


def test_the_providers_words_stay_out_of_every_output(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    file = replies({"error": {"status": 418, "body": "THEIR WORDS"}})
    ended = runvil_command("run", prompt, "--replies", file, "--json", "--log", log)
    assert ended.returncode == 1
    assert "the model backend rejected the request (status 418)" in ended.stderr
    assert "THEIR WORDS" not in ended.stdout + ended.stderr + log.read_text(encoding="utf-8")
    (answer,) = (line for line in json_lines(log) if line["kind"] == "answer")
    assert (answer["answer"], answer["failure"], answer["status"]) == ("model_failure", "Rejected", 418)


def test_a_prompt_that_does_not_parse(runvil_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "bad.md"
    file.write_text("---\nname: x\ndescription: y\nrunvil: 0\ncolour: red\n---\n\n# X\n", encoding="utf-8")
    ended = runvil_command("run", file, "--replies", "/dev/null", "--json")
    assert ended.returncode == 1
    assert "error[Parse/Frontmatter]: invalid frontmatter: " in ended.stderr
    assert f"{file}:5:" in ended.stderr
    error = json.loads(ended.stdout)["error"]
    assert (error["kind"], error["parse_kind"]) == ("Parse", "Frontmatter")
    assert (error["location"]["path"], error["location"]["line"]) == (str(file), 5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["run"], "the following arguments are required: PROMPT"),
        (["fly"], "invalid choice: 'fly'"),
        (["run", "gone.md"], "gone.md: No such file or directory"),
        (["run", "gone"], "gone: there is no such file and no such shipped prompt; shipped: first-chat"),
        (["run", "first-chat", "--max-rounds", "0"], "must be a whole number between 1 and 4294967295, got '0'"),
        (["run", "first-chat", "--seed", "x"], "must be a whole number between 0 and 18446744073709551615, got 'x'"),
        (["run", "first-chat", "--replies", "gone.jsonl"], "gone.jsonl: No such file or directory"),
        (["run", "first-chat", "--config", "gone.toml"], "gone.toml: No such file or directory"),
        (["run", "first-chat", "--model", "editor=x"], "declares no model role 'editor'; declared roles: writer"),
        (["run", "first-chat", "--model", "some-model"], 'model "some-model" has no provider'),
        (["run", "first-chat", "--replies", "/dev/null", "--log", "no/such/folder"], "no/such/folder: No such file"),
        (["check", "gone.md"], "gone.md: No such file or directory"),
        (["models", "--config", "gone.toml"], "gone.toml: No such file or directory"),
    ],
)
def test_bad_usage_exits_2(runvil_command: Command, arguments: list[str], words: str) -> None:
    ended = runvil_command(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert words in ended.stderr


def test_a_bad_config_and_bad_replies_exit_2(
    runvil_command: Command, tmp_path: Path, replies: Callable[..., Path]
) -> None:
    (tmp_path / "runvil.toml").write_text("colour = 1\n", encoding="utf-8")
    ended = runvil_command("run", "first-chat", "--replies", "/dev/null")
    assert (ended.returncode, ended.stderr) == (
        2,
        "runvil: runvil.toml:1: colour is unknown; known keys: default_provider, providers, models, roles, limits\n",
    )
    (tmp_path / "runvil.toml").unlink()
    ended = runvil_command("run", "first-chat", "--replies", replies({"txt": 1}))
    assert ended.returncode == 2
    assert 'replies.jsonl:1: the line has the unknown key "txt"' in ended.stderr


def test_the_requests_file_holds_what_is_sent(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path], tmp_path: Path
) -> None:
    requests = tmp_path / "requests.jsonl"
    ended = runvil_command("run", prompt, "--replies", replies({"text": "pong"}), "--requests", requests)
    assert ended.returncode == 0
    (line,) = json_lines(requests)
    assert list(line) == [
        "round",
        "origin",
        "section",
        "model",
        "role",
        "handle",
        "messages",
        "tools",
        "options",
        "estimate",
        "count",
        "reserve",
        "window",
    ]
    assert line["messages"] == [{"role": "user", "content": "hello"}]
    assert (line["round"], line["origin"], line["section"]) == (0, "chat", "Chat")
    assert (line["model"], line["role"], line["handle"], line["window"]) == ("writer", "writer", None, 8192)
    assert (line["tools"], line["options"]) == ([], {})
    assert line["estimate"] == line["count"]


def test_the_log_begins_with_what_the_run_started_from(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path], tmp_path: Path
) -> None:
    log = tmp_path / "run.jsonl"
    runvil_command("run", prompt, "--replies", replies({"text": "pong"}), "--log", log, "--seed", "7", "--args", "a")
    lines = json_lines(log)
    first, kinds = lines[0], [line["kind"] for line in lines]
    assert (first["kind"], first["seed"], first["args"]) == ("run_parameters", 7, "a")
    assert first["prompt"] == prompt.read_text(encoding="utf-8")
    assert first["limits"]["rounds"] == 24
    assert first["models"]["writer"]["id"] == "writer"
    assert kinds.index("parse_started") == 1
    assert kinds.index("parse_succeeded") < kinds.index("run_started") < kinds.index("chat")
    assert kinds[-1] == "run_succeeded"
    assert kinds.index("chat") < kinds.index("answer") < kinds.index("model_turn_completed")
    chat, answer = lines[kinds.index("chat")], lines[kinds.index("answer")]
    assert (chat["from"], chat["messages"]) == (1, [{"role": "user", "content": "hello"}])
    assert (answer["answer"], answer["text"]) == ("reply", "pong")
    assert {line["execution"] for line in lines} == {first["execution"]}


def test_the_log_holds_only_what_each_request_adds(
    runvil_command: Command, replies: Callable[..., Path], tmp_path: Path
) -> None:
    # LOG-11
    lua = "models.use('writer')\nfor _, text in ipairs({'one', 'two'}) do messages:user(text) models.loop() end"
    prompt, log = tmp_path / "twice.md", tmp_path / "run.jsonl"
    prompt.write_text(document(lua), encoding="utf-8")
    runvil_command("run", prompt, "--replies", replies({"text": "a"}, {"text": "b"}), "--log", log)
    first, second = (line for line in json_lines(log) if line["kind"] == "chat")
    assert (first["from"], first["messages"]) == (1, [{"role": "user", "content": "one"}])
    assert second["from"] == 2
    assert second["messages"] == [{"role": "assistant", "content": "a"}, {"role": "user", "content": "two"}]


def test_a_dry_run_prints_the_first_request_and_sends_nothing(
    runvil_command: Command, prompt: Path, tmp_path: Path
) -> None:
    requests = tmp_path / "requests.jsonl"
    ended = runvil_command(
        "run", prompt, "--dry-run", "--requests", requests, "--model", "x", OPENAI_BASE_URL="http://127.0.0.1:1/v1"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert json.loads(ended.stdout)["messages"] == [{"role": "user", "content": "hello"}]
    assert not requests.exists()


def test_a_dry_run_without_a_request_says_so(runvil_command: Command, tmp_path: Path) -> None:
    file = tmp_path / "silent.md"
    file.write_text(document("return 'x'", roles=""), encoding="utf-8")
    ended = runvil_command("run", file, "--dry-run")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "the run ends without a model request\n")


def test_a_recorded_run_can_be_replayed(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path], tmp_path: Path
) -> None:
    recorded = tmp_path / "recorded.jsonl"
    line = {"text": "pong", "finish_reason": "stop", "usage": {"prompt_tokens": 5}, "model": "served"}
    runvil_command("run", prompt, "--replies", replies(line), "--record", recorded)
    assert json_lines(recorded) == [line]
    assert runvil_command("run", prompt, "--replies", recorded).stdout == "pong\n"


def test_catalog_windows_and_caps_count_with_scripted_replies_too(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "runvil.toml").write_text("[models.small]\ncontext = 4096\nmax_tokens = 20\n", encoding="utf-8")
    requests = tmp_path / "requests.jsonl"
    ended = runvil_command("run", prompt, "--replies", replies({"text": "pong"}), "--requests", requests)
    assert ended.returncode == 0
    (line,) = json_lines(requests)
    assert (line["model"], line["window"], line["options"]) == ("small", 4096, {"max_tokens": 20})


def test_check_reports_every_problem_with_its_place(runvil_command: Command, prompt: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.md"
    bad.write_text(document("return ("), encoding="utf-8")
    assert runvil_command("check", prompt, "first-chat").returncode == 0
    ended = runvil_command("check", prompt, bad)
    assert ended.returncode == 1
    assert ended.stdout.startswith(f"{bad}:")
    assert ": Lua: " in ended.stdout
    as_json = json.loads(runvil_command("check", prompt, bad, "--json").stdout)
    assert as_json["checked"] == 2
    assert [(problem["path"], problem["kind"]) for problem in as_json["problems"]] == [(str(bad), "Lua")]


def test_models_shows_the_catalog_the_roles_and_whether_keys_are_present(
    runvil_command: Command, tmp_path: Path
) -> None:
    (tmp_path / "runvil.toml").write_text(
        '[providers.p]\nbase_url = "http://h/v1"\napi_key_env = "P_KEY"\n'
        '[models.small]\nid = "qwen"\ncontext = 4096\n[roles]\nwriter = "small"\n',
        encoding="utf-8",
    )
    shown = runvil_command("models", P_KEY="sk-secret")
    assert shown.returncode == 0
    assert "sk-secret" not in shown.stdout + shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["p", "(default)", "http://h/v1", "yes"] in rows
    assert ["small", "p", "qwen", "4096", "-", "never"] in rows
    assert ["writer", "small", "p", "yes"] in rows
    assert ["writer", "small", "p", "no"] in [line.split() for line in runvil_command("models").stdout.splitlines()]


def test_init_writes_what_runs_and_never_overwrites(runvil_command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "new"
    ended = runvil_command("init", folder)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert sorted(file.name for file in folder.iterdir()) == [
        "first-chat.md",
        "first-chat.replies.jsonl",
        "runvil.toml",
    ]
    ran = runvil_command("run", folder / "first-chat.md", "--replies", folder / "first-chat.replies.jsonl")
    assert (ran.returncode, ran.stdout) == (0, "Hello! It is good to meet you.\n")
    (folder / "first-chat.md").write_text("mine", encoding="utf-8")
    again = runvil_command("init", folder)
    assert again.returncode == 2
    assert "is there already; nothing was written" in again.stderr
    assert (folder / "first-chat.md").read_text(encoding="utf-8") == "mine"


def test_the_examples_are_what_init_writes(runvil_command: Command, tmp_path: Path) -> None:
    runvil_command("init", tmp_path / "new")
    for file in (tmp_path / "new").iterdir():
        assert (EXAMPLES / file.name).read_bytes() == file.read_bytes()


def test_a_role_that_nothing_binds_is_pointed_out(runvil_command: Command, prompt: Path) -> None:
    ended = runvil_command("run", prompt)
    assert ended.returncode == 1
    assert "note: nothing binds writer: pass --model MODEL, or add it to [roles] in runvil.toml" in ended.stderr
    assert 'models.use label "writer" is not a bound model role' in ended.stderr


def test_a_reader_that_goes_away_is_no_traceback(
    runvil_command: Command, prompt: Path, replies: Callable[..., Path]
) -> None:
    import subprocess
    import sys

    replies({"text": "x" * 200_000})
    command = [sys.executable, "-m", "runvil", "run", str(prompt), "--replies", "replies.jsonl", "--quiet"]
    with subprocess.Popen(command, cwd=prompt.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) == 1
