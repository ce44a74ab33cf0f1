"""Asking a broker, and passing on the text it streams."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from runvil import _native
from runvil.errors import ModelError
from runvil.host import Fragment
from runvil.reply import Reply
from runvil.texts import escaped, is_unicode
from runvil.threads import call_user_code, cancellings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from runvil.broker import Request


async def ask(
    broker: Any, request: Request, live: LiveText | None
) -> tuple[tuple[str, Mapping[str, Any]], ModelError | None, BaseException | None]:
    """Asks a broker: the answer in the engine's form, the failure if it is one, and the exception behind it."""
    try:
        if broker is None:
            raise ModelError("Unavailable", note="no broker serves model ids that the prompt names")
        reply = await call_user_code(broker.complete, request, live)
        if not isinstance(reply, Reply):
            raise TypeError(f"a broker's complete must return a runvil.Reply, got {type(reply).__name__}")
        if live is not None and live.malformed is not None:  # and the broker took no notice
            raise live.malformed
    except ModelError as error:
        return _failed(error, error)
    except Exception as error:  # noqa: BLE001 - a broker may raise anything; the caller finds it as the cause
        return _failed(ModelError("Transport"), error)
    try:
        answer = reply.to_answer()
        _native.check_reply(answer)
    except Exception as error:  # noqa: BLE001 - a broker may have put anything into its reply
        return _failed(ModelError("MalformedResponse", note=str(error)), error)
    return ("reply", answer), None, None


def _failed(
    failure: ModelError, cause: BaseException
) -> tuple[tuple[str, Mapping[str, Any]], ModelError, BaseException]:
    detail, note = (None if text is None else escaped(text) for text in (failure.detail, failure.note))
    failure = ModelError(failure.kind, failure.status, detail, note, failure.used, failure.limit)
    return ("model_failure", _fields(failure)), failure, cause


def _fields(error: ModelError) -> dict[str, Any]:
    return {
        "kind": error.kind,
        "status": error.status,
        "note": error.note,
        "detail": error.detail,
        "used": error.used,
        "limit": error.limit,
    }


class Live:
    """Passes on what a broker reports, from any thread. It is delivered in order, on the loop's thread.

    Attributes:
        failure: What the receiver raised, which stops the request.
    """

    def __init__(self, receive: Callable[[Any], object]) -> None:
        self.failure: Exception | None = None
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._cancellings = cancellings()
        self._thread = threading.get_ident()

    def __call__(self, report: Any) -> None:
        """Delivers a report."""
        if threading.get_ident() == self._thread:
            self._deliver(report)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens
            self._loop.call_soon_threadsafe(self._deliver, report)

    def _deliver(self, report: Any) -> None:
        if self.failure is not None or self._task is None or self._task.cancelled():
            return
        if self._task.cancelling() > self._cancellings:
            return
        try:
            self._receive(report)
        except Exception as error:  # noqa: BLE001 - a hook may raise anything; the round raises it
            self.failure = error
            self._task.cancel()


class LiveText(Live):
    """What a broker calls with pieces of a reply's text.

    Attributes:
        malformed: The failure of a broker that gave a piece which is no text; the reply counts for nothing then.
    """

    def __init__(self, receive: Callable[[Fragment], object], request: Request) -> None:
        super().__init__(receive)
        self._section, self._round = request.section, request.round
        self.malformed: ModelError | None = None

    def __call__(self, text: Any) -> None:
        """Delivers a piece.

        Raises:
            ModelError: It is no text.
        """
        if not isinstance(text, str) or not is_unicode(text):
            what = "holds text with a lone surrogate" if isinstance(text, str) else f"is a {type(text).__name__}"
            self.malformed = ModelError("MalformedResponse", note=f"a fragment of the reply {what}")
            raise self.malformed
        super().__call__(Fragment(self._section, self._round, text))
