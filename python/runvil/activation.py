"""Activating packs: what a pack does before a run that uses it begins."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from runvil.packs import Pack
from runvil.threads import call_user_code, cancellings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from runvil.prompt import Prompt

_log = logging.getLogger("runvil")


def needs_activation(prompt: Prompt, packs: Sequence[Pack]) -> bool:
    """Whether a pack that the prompt uses has an `activate` of its own."""
    used = {name for name, _, _ in prompt.uses}
    return any(pack.name in used and type(pack).activate is not Pack.activate for pack in packs)


async def activate(prompt: Prompt, packs: Sequence[Pack]) -> list[Pack]:
    """Activates the packs that the prompt uses, in its order; gives the packs without those that failed.

    A pack that the prompt names more than once is activated once, for its first entry. For the run a pack that failed
    is one that the application does not have.
    """
    by_name = {pack.name: pack for pack in packs}
    failed = set()
    for name, optional, config in prompt.uses:
        pack = by_name.pop(name, None)
        if pack is None or type(pack).activate is Pack.activate:
            continue
        try:
            await call_user_code(pack.activate, config)
        except (Exception, asyncio.CancelledError) as error:
            if cancellings():  # the run is cancelled, and not something inside the pack
                raise
            failed.add(name)
            what = "goes on without it" if optional else "needs it"
            _log.warning("pack %s failed to activate (%s); the run %s", name, type(error).__name__, what)
    return [pack for pack in packs if pack.name not in failed]
