"""Libraries beside a prompt: what is read and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import runvil
from runvil.effects import overrides
from runvil.host import read_library

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def prompt_path(tmp_path: Path) -> Path:
    folder = tmp_path / "prompts"
    (folder / "lib").mkdir(parents=True)
    (folder / "util.lua").write_text("return 1", encoding="utf-8")
    (folder / "lib" / "deep.lua").write_text("return 2", encoding="utf-8")
    (tmp_path / "outside.lua").write_text("return 3", encoding="utf-8")
    return folder / "chat.md"


def test_a_library_is_the_file_of_its_name_beside_the_prompt(prompt_path: Path) -> None:
    assert read_library("util", prompt_path) == (b"return 1", "util.lua")
    assert read_library("lib/deep", prompt_path) == (b"return 2", "lib/deep.lua")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone", r"there is no file gone\.lua beside the prompt"),
        ("../outside", "a library name is segments of letters"),
        ("lib/../../outside", "a library name is segments of letters"),
        ("/etc/passwd", "a library name is segments of letters"),
        ("", "a library name is segments of letters"),
        ("lib//deep", "a library name is segments of letters"),
        ("a\\b", "a library name is segments of letters"),
    ],
)
def test_nothing_else_is_read(prompt_path: Path, name: str, words: str) -> None:
    with pytest.raises(LookupError, match=words):
        read_library(name, prompt_path)


def test_links_are_not_followed(prompt_path: Path) -> None:
    folder = prompt_path.parent
    (folder / "link.lua").symlink_to(folder.parent / "outside.lua")
    (folder / "inner").symlink_to(folder / "lib")
    for name in ("link", "inner/deep"):
        with pytest.raises(LookupError, match="is a link, which is not followed"):
            read_library(name, prompt_path)


def test_a_folder_that_is_reached_through_a_link_is_fine(prompt_path: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(prompt_path.parent)
    assert read_library("util", tmp_path / "alias" / "chat.md") == (b"return 1", "util.lua")


def test_a_prompt_from_text_has_no_libraries() -> None:
    with pytest.raises(LookupError, match="the prompt was not loaded from a file"):
        read_library("util", None)


def test_a_hook_nobody_overrides_is_not_called() -> None:
    class App(runvil.Host):
        def on_event(self, event: runvil.Event) -> None: ...

    assert overrides(App(), "on_event")
    assert not overrides(App(), "on_fragment")
    assert not overrides(runvil.Host(), "user_input")
