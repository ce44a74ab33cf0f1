"""Plain functions beside an event loop, and tasks that end."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger("runvil")

PATIENCE = 5.0
"""Seconds that cancelled work may take before the log names it."""
PATIENCE_AFTER = 60.0
"""Seconds from then on between one mention and the next."""

_Result = TypeVar("_Result")


async def in_thread(function: Callable[..., _Result], *args: Any) -> _Result:
    """Calls a plain function on a thread of its own.

    The thread is a daemon: when the caller is cancelled nobody waits for it any more, not even the interpreter at its
    exit, so a function that hangs cannot keep the program alive.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_Result] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(function, *args)
        except StopIteration as stop:  # which a future refuses to carry
            error = RuntimeError(f"{getattr(function, '__name__', 'function')} raised StopIteration")
            error.__cause__ = stop
        except BaseException as raised:  # noqa: BLE001 - it is raised again in the caller
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=f"runvil {getattr(function, '__name__', 'call')}", daemon=True).start()
    return await future


async def call_user_code(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of the application: awaits an async one, runs a plain one on a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(*args)
    result = await in_thread(function, *args)
    return await result if inspect.isawaitable(result) else result


def cancellings() -> int:
    """How often the current task was asked to cancel: a CancelledError may as well come from within its work.

    Compare it with what it was before that work: a task that has caught a CancelledError and gone on keeps its count.
    """
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def ended(tasks: Mapping[asyncio.Task[Any], str]) -> None:
    """Waits until tasks that were cancelled have ended, however long that takes; `tasks` tells what each is.

    As in `asyncio.TaskGroup`, cancelling the waiting task does not cut the wait short: no work is left behind. Work
    that takes no notice of its cancellation is named in the log after a while, and then every minute.
    """
    waiting = set(tasks)
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE
    while waiting:
        try:
            _, waiting = await asyncio.wait(waiting, timeout=max(0, until - loop.time()))
        except asyncio.CancelledError:
            waiting = {task for task in waiting if not task.done()}
            continue
        if waiting and loop.time() >= until:
            names = ", ".join(sorted({tasks[task] for task in waiting}))
            _log.warning("waiting for what was cancelled and has not ended: %s", names)
            until = loop.time() + PATIENCE_AFTER


_step_workers: ThreadPoolExecutor | None = None


def step_workers() -> ThreadPoolExecutor:
    """The threads that step busy runs: enough of them that a few busy Lua blocks hold up nobody else."""
    global _step_workers
    if _step_workers is None:
        _step_workers = ThreadPoolExecutor(max_workers=max(4, os.cpu_count() or 1), thread_name_prefix="runvil step")
    return _step_workers


def _forget_workers() -> None:
    global _step_workers
    _step_workers = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
