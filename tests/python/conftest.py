"""What several test files share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

import runvil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HERE = Path(__file__).parent

# A busy machine is no reason to fail: what takes too long is stopped by the tests' own timeout.
hypothesis.settings.register_profile("runvil", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("runvil")


def document(lua: str, *, roles: str = "writer", name: str = "test", section: str = "Only") -> str:
    """A prompt of one section with one Lua block."""
    declared = "models:\n" + "".join(f"  {role}: {{}}\n" for role in roles.split()) if roles else ""
    head = f"---\nname: {name}\ndescription: A test.\nrunvil: 0\n{declared}---\n\n# Test\n\n"
    return f"{head}## {section}\n\n```lua\n{lua}\n```\n"


CHAT = "models.use('writer')\nmessages:user('hello')\nmodels.loop()\nreturn messages[#messages].content"


def chat_prompt() -> runvil.Prompt:
    """A prompt that says hello to role `writer` and returns the reply."""
    return runvil.Prompt.parse(document(CHAT))


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def clean_environment(**variables: str) -> dict[str, str]:
    """The environment without what configures Runvil or finds the user's own files."""
    dropped = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "XDG_CONFIG_HOME", "HOME", "APPDATA")
    return {name: value for name, value in os.environ.items() if name not in dropped} | variables


@pytest.fixture
def runvil_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command line in an empty folder and returns how it ended."""

    def call(*arguments: str | Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "runvil", *map(str, arguments)],
            cwd=tmp_path,
            env=clean_environment(**variables),
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=30,
            check=False,
        )

    return call


@dataclass
class Server:
    """A running server of `openai_server.py`."""

    base_url: str
    requests_file: Path
    process: subprocess.Popen[str]

    def requests(self) -> list[dict[str, Any]]:
        """What it has received."""
        return json_lines(self.requests_file) if self.requests_file.exists() else []


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """An OpenAI-compatible server in a process of its own."""
    requests_file = tmp_path / "received.jsonl"
    process = subprocess.Popen(
        [sys.executable, str(HERE / "openai_server.py"), str(requests_file)], stdout=subprocess.PIPE, encoding="utf-8"
    )
    with process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            yield Server(f"http://127.0.0.1:{port}/v1", requests_file, process)
        finally:
            process.kill()


@pytest.fixture
def log(tmp_path: Path) -> Callable[..., Path]:
    """Writes the lines of a run log to a file."""

    def write(lines: Iterable[Any], tail: str = "") -> Path:
        file = tmp_path / "run.jsonl"
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        file.write_text(text + tail, encoding="utf-8", errors="surrogatepass")
        return file

    return write
