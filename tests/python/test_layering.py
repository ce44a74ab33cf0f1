"""Who may use whom: the crates and the modules of the package, compared with the picture below."""

from __future__ import annotations

import ast
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "python" / "runvil"

CRATES = {
    "runvil-core": set(),
    "runvil-document": set(),
    "runvil-lua": {"runvil-core"},
    "runvil-engine": {"runvil-core", "runvil-document", "runvil-lua"},
    "runvil-client": {"runvil-core"},
    "runvil-python": {"runvil-client", "runvil-core", "runvil-document", "runvil-engine", "runvil-lua"},
}
"""Which sibling crates each crate may use."""

FENCED = {
    "mlua": {"runvil-lua"},
    "reqwest": {"runvil-client"},
    "tokio": {"runvil-client", "runvil-python"},
    "pyo3": {"runvil-python"},
}
"""Third-party crates that only some of ours may use."""

LAYERS = [
    {"_native", "errors", "estimators", "limits", "texts", "threads"},
    {"broker", "host", "reply", "schema", "prompt"},
    {"asking", "compactors", "conversation", "http", "jsonl", "looping", "model", "packs", "replies", "harness"},
    {"activation", "config", "effects", "record", "requests_log", "run_log", "scripted", "timeline"},
    {"plan"},
    {"runs"},
    {"cli"},
]
"""The modules of the package from the bottom up: each may use its own layer and those below."""


def test_crates_use_only_what_the_picture_shows() -> None:
    command = ["cargo", "metadata", "--no-deps", "--offline", "--format-version", "1"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, encoding="utf-8")
    packages = {package["name"]: package for package in json.loads(found.stdout)["packages"]}
    assert packages.keys() == CRATES.keys()
    for name, package in packages.items():
        used = {dependency["name"] for dependency in package["dependencies"] if dependency["kind"] != "dev"}
        siblings = {other for other in used if other.startswith("runvil-")}
        assert siblings <= CRATES[name], f"{name} uses {sorted(siblings - CRATES[name])}"
        for library, allowed in FENCED.items():
            assert library not in used or name in allowed, f"{name} uses {library}"


def test_modules_use_only_layers_below() -> None:
    rank = {module: depth for depth, layer in enumerate(LAYERS) for module in layer}
    seen = set()
    for file in PACKAGE.rglob("*.py"):
        module = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if module in ("__init__", "__main__"):
            continue
        seen.add(module)
        for used in _imported(file):
            assert rank[used] <= rank[module], f"{file.relative_to(PACKAGE)} imports runvil.{used}"
    assert seen == rank.keys() - {"_native"}


def _imported(file: Path) -> set[str]:
    """The modules of the package that a file imports when it runs; imports for type checking do not count."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    typing_only = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and _is_type_checking(node)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node not in typing_only and node.module is not None:
            if node.module == "runvil":
                found |= {alias.name for alias in node.names if alias.name != "__version__"}
            elif node.module.startswith("runvil."):
                found.add(node.module.split(".")[1])
    return found


def _is_type_checking(node: ast.If) -> bool:
    return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
