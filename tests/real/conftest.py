"""Starts the real servers, each from an environment of its own that `make test-real` installs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
ENVIRONMENTS = Path(os.environ.get("RUNVIL_REAL", HERE.parent.parent / ".venv-real"))
PATIENCE = 120.0
"""Seconds that a server may take to start."""


@contextmanager
def started(command: list[str | Path], log: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is stopped at the end. What it writes to stderr is in the log."""
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [str(part) for part in command],
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
            env=os.environ | variables,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str], log: Path) -> str:
    """What a server prints when it is ready, a line that is an address or a port."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("http") or line.strip().isdecimal():
            return line.strip()
    raise AssertionError(f"the server did not start: {log.read_text(encoding='utf-8')[-2000:]}")


def python(environment: str) -> Path:
    """The interpreter of an environment."""
    found = ENVIRONMENTS / environment / "bin" / "python"
    if not found.exists():
        pytest.fail(f"{found} is missing: run `make test-real`")
    return found


@pytest.fixture(scope="session")
def litellm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of a LiteLLM proxy with the scripted server behind it."""
    folder = tmp_path_factory.mktemp("litellm")
    with started([sys.executable, HERE / "upstream.py"], folder / "upstream.log") as upstream:
        port = first_line(upstream, folder / "upstream.log")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            own_port = free.getsockname()[1]
        command: list[str | Path] = [
            python("litellm").with_name("litellm"),
            "--config",
            HERE / "litellm.yaml",
            "--host",
            "127.0.0.1",
        ]
        log = folder / "proxy.log"
        variables = {"UPSTREAM_URL": f"http://127.0.0.1:{port}/v1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        # Its own output would fill the pipe in time.
        with started(["sh", "-c", 'exec "$@" >/dev/null', "sh", *command, "--port", str(own_port)], log, **variables):
            _wait_for(f"http://127.0.0.1:{own_port}/health/liveliness", log)
            yield f"http://127.0.0.1:{own_port}/v1"


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a llama.cpp server with a small model."""
    log = tmp_path_factory.mktemp("llama") / "server.log"
    model = ENVIRONMENTS / "gemma-3-270m-q4_k_m.gguf"
    with started([python("llama"), HERE / "llama_server.py", model], log) as process:
        yield first_line(process, log)


def _wait_for(url: str, log: Path) -> None:
    began = time.monotonic()
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            if time.monotonic() - began > PATIENCE:
                pytest.fail(f"the server did not start: {log.read_text(encoding='utf-8')[-2000:]}")
            time.sleep(0.2)
