"""Texts that can be sent: UTF-8, and compact JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def to_json(value: Any) -> str:
    """A value as compact JSON text. It may hold any mapping, not only dicts.

    Raises:
        TypeError: It holds something that has no JSON form.
        ValueError: It holds NaN or an infinity, or itself.
    """
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no JSON form")


def is_unicode(text: str) -> bool:
    """Whether a text can be sent: a str of Python may hold halves of surrogate pairs, as undecodable file names do."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """A text with escapes for halves of surrogate pairs, which no UTF-8 can hold."""
    return text if is_unicode(text) else text.encode(errors="backslashreplace").decode()
