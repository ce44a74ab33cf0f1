"""Runs every conformance file through the Python API. The format is described in tests/conformance/README.md."""

from __future__ import annotations

import json
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import runvil

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parent.parent / "conformance"
Table = dict[str, Any]


def _cases() -> Iterator[Any]:
    for file in sorted(FOLDER.glob("*.toml")):
        for case in tomllib.loads(file.read_text(encoding="utf-8"))["case"]:
            yield pytest.param(case, id=f"{file.stem}: {case['name']}")


def _document(case: Table) -> str:
    if "prompt" in case:
        return str(case["prompt"])
    lua = case.get("lua", "")
    if "raises" in case:
        lua = (
            f"{case.get('before', '')}\nlocal before_count = #messages\nlocal ok, err = pcall(function()\n{lua}\nend)\n"
            "if ok then return 'did not raise' end\n"
            "local grown = tostring(#messages - before_count)\n"
            "return table.concat({ type(err), tostring(err.kind), grown, tostring(err) }, '|')"
        )
    prose = f"{case['prose']}\n\n" if "prose" in case else ""
    return (
        "---\nname: case\ndescription: A conformance case.\nrunvil: 0\nmodels:\n  writer: {}\n  reviewer: {}\n---\n\n"
        f"# Case\n\n## Only\n\n{prose}```lua\n{lua}\n```\n"
    )


class _World(runvil.Host):
    """Answers from the case and keeps what the run shows."""

    def __init__(self, case: Table, broker: runvil.ScriptedBroker) -> None:
        self._libraries: Table = case.get("libraries", {})
        self._broker = broker
        self._ui = case.get("ui")
        self.events: list[Table] = []

    def ui(self) -> Any:
        return self._ui

    def on_event(self, event: runvil.Event) -> None:
        self.events.append(event.to_dict())

    def load_library(self, name: str) -> str | None:
        return self._libraries.get(name)

    def user_input(self) -> str | None:
        return self._broker.user_input()


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right and isinstance(left, bool) == isinstance(right, bool))


def _is_part(expected: Table, found: Table) -> bool:
    return all(key in found and _same(value, found[key]) for key, value in expected.items())


def _parts(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _check_text(expected: Table, kind: str, message: str) -> None:
    assert expected["kind"] == kind, message
    if "message" in expected:
        assert message == expected["message"]
    for part in _parts(expected.get("contains", [])):
        assert part in message


@pytest.mark.parametrize("case", list(_cases()))
def test_case(case: Table, tmp_path: Path) -> None:
    source = _document(case)
    if "parse" in case:
        with pytest.raises(runvil.ParseError) as caught:
            runvil.Prompt.parse(source)
        problems = caught.value.problems
        assert len(problems) == len(case["parse"]), problems
        assert caught.value.message == problems[0].message
        for problem, expected in zip(problems, case["parse"], strict=True):
            _check_text(expected, problem.kind, problem.message)
            assert expected.get("line", problem.line) == problem.line
            assert expected.get("column", problem.column) == problem.column
        return
    prompt = runvil.Prompt.parse(source)
    broker = runvil.ScriptedBroker.parse(case.get("replies", ""))
    given = case.get("models")
    models = {}
    for role in prompt.roles:
        if given is not None and role.label not in given:
            continue
        settings = dict((given or {}).get(role.label, {}))
        name = settings.pop("model", role.label)
        models[role.label] = runvil.Model(name, **{"context": 8192, **settings}, broker=broker)
    world = _World(case, broker)
    requests = tmp_path / "requests.jsonl"
    limits = {key: case[key] for key in ("rounds", "memory_bytes", "log_events") if key in case}
    options: Table = {}
    if case.get("raw_models"):
        options["broker"] = broker
    error: runvil.RunError | None = None
    text: str | None = None
    try:
        text = runvil.run(
            prompt,
            case.get("args", ""),
            models=models,
            packs=[*broker.packs, *(runvil.Pack(name, []) for name in case.get("packs", []))],
            host=world,
            limits=runvil.Limits(**limits),
            seed=case.get("seed", 0),
            started_at=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=case.get("started_at", 0)),
            execution="case",
            requests=requests,
            debug=case.get("debug", False),
            **options,
        ).text
    except runvil.RunError as failure:
        error = failure
    if error is None:
        assert "error" not in case, text
        assert text is not None
        expected_text = case.get("result")
        if "raises" in case:
            expected_text = f"table|{case.get('raises_kind', 'lua')}|0|{case['raises']}"
        if expected_text is not None:
            assert text == expected_text
        for part in _parts(case.get("result_contains", [])):
            assert part in text
    else:
        assert "error" in case, error
        expected = case["error"]
        _check_text(expected, error.kind, error.message)
        for key in ("reason", "finish_reason", "name"):
            assert expected.get(key, getattr(error, key)) == getattr(error, key)
        if "line" in expected:
            assert error.location is not None
            assert error.location.line == expected["line"]
    sent = [json.loads(line) for line in requests.read_text(encoding="utf-8").splitlines()]
    if "requests" in case:
        assert len(sent) == len(case["requests"]), sent
        for found, part in zip(sent, case["requests"], strict=True):
            assert _is_part(part, found), found
    events = iter(world.events)
    for part in case.get("events", []):
        assert any(_is_part(part, event) for event in events), (part, world.events)
    assert not {event["kind"] for event in world.events} & set(case.get("no_events", []))
