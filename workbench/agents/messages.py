"""All messages of one remote run, page by page, within bounds."""

from __future__ import annotations

from typing import Any, Final

from .gateway import Gateway
from .http import HttpFailed

PAGE: Final = 200
#: More messages than any run of an Agent that is followed here makes; a longer one is refused, not cut off.
PAGES: Final = 50


async def messages_of(gateway: Gateway, path: str, seconds: float) -> list[Any]:
    """The message events of the run at ``path``. Raises HttpFailed, LoginRefused, and ValueError in words.

    A page without a cursor may be the first or the last one, so both directions are read to their ends.
    """
    events, more = await _page(gateway, path, seconds, {})
    if not more:
        return events
    for cursor, end in (("before_seq", min), ("after_seq", max)):
        for _ in range(PAGES):
            edge = end(_numbers(events), default=None)
            if edge is None:
                break
            page, more = await _page(gateway, path, seconds, {cursor: str(edge)})
            known = set(_numbers(events))
            fresh = [event for event in page if not known.issuperset(_numbers([event]))]
            events += fresh
            if not more or not fresh:
                break
        else:
            raise ValueError(f"it has more than {PAGE * PAGES:,} messages")
    return events


async def _page(
    gateway: Gateway, path: str, seconds: float, cursor: dict[str, str]
) -> tuple[list[Any], bool]:
    reply = await gateway.ask(
        "GET", f"{path}/messages", params={"limit": str(PAGE), **cursor}, seconds=seconds
    )
    if reply.status == 429 or reply.status >= 500:
        raise HttpFailed(gateway.words(reply), sent=True)
    if reply.status != 200:
        raise ValueError(gateway.words(reply))
    value = reply.json()
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise ValueError("the Gateway's list of messages is none")
    return value["data"], value.get("has_more") is True


def _numbers(events: list[Any]) -> list[int]:
    numbers = [event.get("seq") for event in events if isinstance(event, dict)]
    return [number for number in numbers if isinstance(number, int) and not isinstance(number, bool)]
