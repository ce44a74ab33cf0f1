"""Reading a conversation back, views, equality and copies; the names of the cases are those of the specification."""

from __future__ import annotations

import copy
import pickle
from functools import partial
from typing import Any

import pytest

import runvil
from numbered_records import conversation, record, refused, texts


def test_positions_slices_and_walks() -> None:  # ITR-01, ITR-02, ITR-03
    conv = conversation("u1 a1 u2 a2")
    assert [conv[index].content for index in (0, 3, -1, -4)] == ["u1", "a2", "a2", "u1"]
    for index in (4, -5, 2**63, -(2**70)):
        with pytest.raises(IndexError):
            conv[index]
    for key in ("0", 1.0, None):
        with pytest.raises(TypeError):
            conv[key]  # type: ignore[call-overload]
    names = ["u1", "a1", "u2", "a2"]
    for cut in (slice(1, 3), slice(None), slice(None, None, -1), slice(3, 0, -2), slice(10, 20), slice(-2, None)):
        assert [view.content for view in conv[cut]] == names[cut]
    assert [view.content for view in reversed(conv)] == names[::-1]
    passes = 0
    for view in conv:
        passes += 1
        conv.user(view.content)
    assert (passes, len(conv)) == (4, 8)
    assert list(runvil.Conversation()) == []
    assert conv[0] in conv
    assert conv.roles()[:4] == ["user", "assistant", "user", "assistant"]
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "u"}},
        {"type": "text", "text": "b"},
    ]
    assert runvil.Conversation().user(parts).texts() == ["ab"]


def test_views_only_read() -> None:
    calls = [{"id": "c1", "name": "w", "arguments": {"q": ["hi"]}}]
    conv = runvil.Conversation().assistant([{"type": "text", "text": "t"}], calls, {"k": {"n": 1}})
    view: Any = conv[0]
    for field in ("content", "tool_calls", "meta"):
        assert getattr(view, field) is not getattr(view, field)  # VEW-04
    view.tool_calls[0]["arguments"]["q"].append("changed")  # VEW-05
    view.content[0]["text"] = "changed"  # VEW-06
    view.meta["k"]["n"] = 2  # MET-24
    assert view.tool_calls == calls
    assert view.content == [{"type": "text", "text": "t"}]
    assert view.meta == {"k": {"n": 1}}
    for field in ("role", "content", "tool_calls", "tool_call_id", "meta", "extra"):  # VEW-07, VEW-08
        for work in (partial(setattr, view, field, None), partial(delattr, view, field)):
            with pytest.raises(AttributeError) as caught:
                work()
            assert str(caught.value) == (
                "records read from messages are read-only; rewrite history with models.compact(compactor, reason)"
            )
    with pytest.raises(AttributeError):
        _ = view.extra  # VEW-03
    with pytest.raises(TypeError):
        conv[0] = view  # type: ignore[index]


def test_views_are_equal_by_value() -> None:
    conv = runvil.Conversation().user("a", {"k": 1}).user("a", {"k": 1}).user("a").assistant("a")
    assert conv[0] == conv[0] == conv[1]
    assert hash(conv[0]) == hash(conv[1])
    assert len({*conv}) == 3
    assert conv[0] != conv[0].to_dict()  # type: ignore[comparison-overlap]


def test_no_repr_shows_text() -> None:  # LST-40
    secret = "SECRET"
    calls = [{"id": secret, "name": secret, "arguments": {secret: secret}}]
    conv = runvil.Conversation().system(secret).assistant(secret, calls, secret).tool(secret, secret)
    request = conv.compose()
    shown = [conv, *conv, iter(conv), request, request.body_view(model=secret), request.precheck(context=1)]
    assert secret not in "".join(map(repr, shown)) + "".join(map(str, shown))
    assert repr(conv) == "<Conversation of 3 records>"
    assert repr(conv[0]) == "<Record system>"


def test_equality_and_hashing() -> None:
    conv = conversation("u1 a1")
    assert conv == conversation("u1 a1")
    assert conv != conversation("u1") != conversation("u2")
    assert conv != runvil.Conversation().user("u1").assistant("a1", None, 1)
    assert conv != [record("u1"), record("a1")]  # type: ignore[comparison-overlap]
    assert not runvil.Conversation()
    with pytest.raises(TypeError):
        hash(conv)


class Named(runvil.Conversation):
    """A conversation of an application's own."""

    def __init__(self, name: str) -> None:
        self.name = name


def test_copies_are_forks() -> None:
    conv = Named("mine")
    conv.extend([record("u1"), record("a1")])
    for fork in (conv.copy(), copy.copy(conv), copy.deepcopy(conv), pickle.loads(pickle.dumps(conv))):
        assert type(fork) is Named
        assert fork == conv
        fork.user("u2")
        assert texts(conv) == "u1 a1"
        fork.compose()
        conv.compose()
    assert copy.copy(conv).name == copy.deepcopy(conv).name == pickle.loads(pickle.dumps(conv)).name == "mine"
    with pytest.raises(TypeError, match="takes no arguments"):
        runvil.Conversation([record("u1")])
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(conversation("s1 u1"), protocol)) == conversation("s1 u1")


def test_errors_can_be_pickled() -> None:
    error = refused(lambda: runvil.Conversation().user([{"type": "video"}]))
    back = pickle.loads(pickle.dumps(error))
    assert vars(back) == vars(error)
    assert str(back) == str(error)
