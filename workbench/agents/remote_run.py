"""One child run at a remote Gateway, from the question to its answer.

The rules that this follows are told in ``deerflow``: look before asking, ask once, and call uncertain what cannot
be known. A question, a look and an answer are one request each; looks are repeated, questions are not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

from extension_api.agent_runs import AgentRunStatus

from ..inert import shorten
from .attribution import attribute, child_message, question_of
from .base import Answer, Call, ChildRef
from .gateway import Gateway, LoginRefused
from .http import HttpFailed, Reply, TooLarge
from .messages import messages_of
from .settings import DEERFLOW_SECONDS

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two looks at a run: the first, and the longest, each one half as long again as the last.
FIRST_LOOK: Final = 0.25
LONGEST_LOOK: Final = 5.0
#: Pauses before each look at the thread after a request without an answer.
_LOOKS_FOR_LOST: Final = (0.0, 0.5, 2.0)
_LOOKS_FOR_MESSAGES: Final = 5
#: How long the Gateway may take to say that a run has stopped, before it is looked at and asked again.
_STOP_SECONDS: Final = 5.0
#: How long a request that is under way may go on when this process is closed.
_LAST_SECONDS: Final = 3.0


class _Ended(Exception):
    """How an execution ends, known before its remote run says so."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error_message)
        self.answer = answer


class RemoteRun:
    """One child run. ``stop`` is set by whoever wants it to end; ``pace`` multiplies all pauses."""

    def __init__(self, gateway: Gateway, child: ChildRef, stop: asyncio.Event, pace: float) -> None:
        self._gateway = gateway
        self._child = child
        self._stop = stop
        self._pace = pace
        self._seconds = seconds_of(child.settings)
        self._runs = f"/threads/{quote(child.thread_id, safe='')}/runs"
        self._sent = child_message(child.input or {})

    async def run(self, call: Call | None) -> Answer:
        try:
            run_id = await (self._found() if call is None else self._asked(call))
            return await self._followed(run_id)
        except _Ended as end:
            return end.answer

    # Asking

    async def _asked(self, call: Call) -> str:
        """The id of the run that answers the call: one that is there, or a new one."""
        await self._certain(
            "POST",
            "/threads",
            {"thread_id": self._child.thread_id, "metadata": _metadata(self._child)},
        )
        known = await self._certain("GET", self._runs, None)
        there = self._ours(known, asking=True)
        if there is not None:
            return there
        if self._stop.is_set():
            raise _Ended(
                _answer(AgentRunStatus.INTERRUPTED, "interrupted", "it was stopped before it was asked")
            )
        # The request reaches its end also while this process is being closed: what was sent should be known.
        posting = asyncio.ensure_future(self._post(call))
        try:
            return await asyncio.shield(posting)
        except asyncio.CancelledError:
            _, late = await asyncio.wait({posting}, timeout=_LAST_SECONDS)
            if late:
                posting.cancel()
                await asyncio.wait(late)
            if not posting.cancelled():
                posting.exception()  # whatever it came to, the next look at the thread tells
            raise

    async def _certain(self, method: str, path: str, body: Any) -> Reply:
        """A request before anything was asked: whatever fails, nothing was started."""
        try:
            reply = await self._gateway.ask(method, path, body=body, seconds=self._seconds)
        except (HttpFailed, LoginRefused) as error:
            raise _Ended(_error("gateway_unreachable", f"nothing was started: {error}")) from None
        if not 200 <= reply.status < 300:
            words = self._gateway.words(reply)
            raise _Ended(_error("gateway_refused", f"nothing was started: {words}"))
        return reply

    async def _post(self, call: Call) -> str:
        settings = call.settings
        body: dict[str, Any] = {
            "assistant_id": assistant_of(settings),
            "input": {"messages": [{"role": "user", "content": self._sent}]},
            "metadata": _metadata(self._child),
            "multitask_strategy": "reject",
            "on_disconnect": "continue",
        }
        body |= {key: settings[key] for key in ("config", "context") if key in settings}
        try:
            reply = await self._gateway.ask("POST", self._runs, body=body, seconds=self._seconds)
        except LoginRefused as error:
            raise _Ended(_error("gateway_refused", f"nothing was started: {error}")) from None
        except HttpFailed as error:
            if not error.sent:
                raise _Ended(_error("gateway_unreachable", f"nothing was started: {error}")) from None
            return await self._lost(str(error))
        if 200 <= reply.status < 300:
            run_id = _text(_object(reply), "run_id")
            return run_id if run_id else await self._lost("the Gateway's answer names no run")
        words = self._gateway.words(reply)
        if reply.status == 409 or reply.status >= 500:
            return await self._lost(words, busy=reply.status == 409)
        raise _Ended(_error("gateway_refused", f"nothing was started: {words}"))

    async def _lost(self, why: str, *, busy: bool = False) -> str:
        """Our run on the thread after a request that may have made one; it is not asked for again.

        ``busy``: the Gateway has refused because the thread has an active run, so this request made none.
        """
        for pause in _LOOKS_FOR_LOST:
            await asyncio.sleep(pause * self._pace)
            try:
                known = await self._gateway.ask("GET", self._runs, seconds=self._seconds)
            except (HttpFailed, LoginRefused):
                continue
            run_id = self._ours(known, asking=False)
            if run_id is not None:
                return run_id
        if busy:
            raise _Ended(_error("thread_busy", f"nothing was started: {why}"))
        raise _Ended(
            _uncertain(f"a run was asked for, and {why}. Its thread shows none, which proves nothing")
        )

    async def _found(self) -> str:
        """Our run on the thread, for an execution of an earlier process."""
        pause = FIRST_LOOK
        while True:
            try:
                reply = await self._gateway.ask("GET", self._runs, seconds=self._seconds)
            except LoginRefused as error:
                raise _Ended(_uncertain(str(error))) from None
            except HttpFailed as error:
                logger.warning("looking for child run %s: %s", self._child.child_run_id, error)
            else:
                if not _passing(reply):
                    run_id = self._ours(reply, asking=False)
                    if run_id is not None:
                        return run_id
                    raise _Ended(
                        _uncertain(
                            "its thread shows no run, which proves nothing: the request may be under way"
                        )
                    )
            pause = await self._pause(pause)

    def _ours(self, reply: Reply, *, asking: bool) -> str | None:
        """The id of our run among the thread's runs. ``asking``: a stranger's run on the thread refuses.

        Raises _Ended where that cannot be told.
        """
        runs = _list(reply) if 200 <= reply.status < 300 else ([] if reply.status == 404 else None)
        if runs is None:
            if asking:
                raise _Ended(
                    _error("gateway_refused", "nothing was started: the Gateway's list of runs is no list")
                )
            return None
        wanted = _metadata(self._child)
        step = {key: value for key, value in wanted.items() if key != "child_run"}
        ours = [run for run in runs if _covers(_object_of(run.get("metadata")), step)]
        exact = [run for run in ours if _covers(_object_of(run.get("metadata")), wanted)]
        found = exact or ours
        if len(found) == 1:
            run_id = found[0].get("run_id")
            return run_id if isinstance(run_id, str) and run_id else None
        if found:
            raise _Ended(
                _uncertain(f"the thread has {len(found)} runs of this step, and one was to be asked for")
            )
        if runs and asking:
            raise _Ended(
                _error("thread_taken", "nothing was started: the thread has a run that is not this step's")
            )
        return None

    # Following

    async def _followed(self, run_id: str) -> Answer:
        """Look at a run until it has ended, and ask it to stop where that is wanted."""
        path = f"{self._runs}/{quote(run_id, safe='')}"
        pause = FIRST_LOOK
        stopping = accepted = False
        while True:
            if self._stop.is_set() and not accepted:
                if not stopping:
                    stopping, pause = True, FIRST_LOOK
                accepted = await self._cancelled(path)
            try:
                reply = await self._gateway.ask("GET", path, seconds=self._seconds)
            except LoginRefused as error:
                return _uncertain(str(error))
            except HttpFailed as error:
                logger.warning("looking at child run %s: %s", self._child.child_run_id, error)
            else:
                if 200 <= reply.status < 300:
                    run = _object(reply)
                    status = _text(run, "status")
                    if status not in ("pending", "running"):
                        return await self._ended(run_id, run, status)
                elif not _passing(reply):
                    return _uncertain(f"the run cannot be looked at any more: {self._gateway.words(reply)}")
            pause = await self._pause(pause)

    async def _cancelled(self, path: str) -> bool:
        """Ask the run to stop; True where the Gateway has taken that in."""
        try:
            reply = await self._gateway.ask(
                "POST",
                f"{path}/cancel",
                params={"wait": "true", "action": "interrupt"},
                seconds=min(self._seconds, _STOP_SECONDS),
            )
        except (HttpFailed, LoginRefused) as error:
            logger.warning("stopping child run %s: %s", self._child.child_run_id, error)
            return False
        return 200 <= reply.status < 300

    async def _pause(self, seconds: float) -> float:
        """Wait, at most until somebody asks the run to stop; the length of the next pause."""
        if not self._stop.is_set():
            try:
                async with asyncio.timeout(seconds * self._pace):
                    await self._stop.wait()
            except TimeoutError:
                pass
        else:
            await asyncio.sleep(seconds * self._pace)
        return min(seconds * 1.5, LONGEST_LOOK)

    async def _ended(self, run_id: str, run: Mapping[str, Any], status: str) -> Answer:
        if status in ("error", "timeout"):
            found = _text(run, "error") or _text(run, "stop_reason")
            said = f": {shorten(self._gateway.scrub(found), 200)}" if found else ""
            code, kind = (
                ("agent_failed", AgentRunStatus.ERROR)
                if status == "error"
                else ("agent_timeout", AgentRunStatus.TIMEOUT)
            )
            return _answer(kind, code, f"the remote run ended as {status}{said}")
        if status not in ("success", "interrupted"):
            return _uncertain(
                f"the remote run ended as {shorten(status, 40)!r}, which this workbench does not know"
            )
        if status == "interrupted" and self._stop.is_set():
            return _answer(AgentRunStatus.INTERRUPTED, "interrupted", "it was interrupted")
        try:
            events = await self._retried(
                lambda: messages_of(self._gateway, f"{self._runs}/{quote(run_id, safe='')}", self._seconds)
            )
        except (HttpFailed, LoginRefused, ValueError) as error:
            return _uncertain(f"the remote run ended as {status}, and its messages cannot be read: {error}")
        if status == "interrupted":
            question = question_of(events, run_id)
            if question is None:
                return _answer(
                    AgentRunStatus.INTERRUPTED, "interrupted", "somebody interrupted it at the Gateway"
                )
            return _answer(AgentRunStatus.WAITING_INPUT, "waiting_input", self._gateway.scrub(question))
        answer = attribute(events, self._sent, run_id)
        if self._gateway.holds_secret(answer.output) or self._gateway.holds_secret(answer.error_message):
            return _error(
                "secret_in_answer", "the answer holds the password it was asked with, so it was not kept"
            )
        return answer

    async def _retried(self, read: Callable[[], Awaitable[T]]) -> T:
        """The result of a reading that changes nothing, tried a few times."""
        pause = FIRST_LOOK
        for _ in range(_LOOKS_FOR_MESSAGES - 1):
            try:
                return await read()
            except TooLarge:
                raise
            except HttpFailed:
                pause = await self._pause(pause)
        return await read()


def _metadata(child: ChildRef) -> dict[str, Any]:
    """What the remote thread and run are found again by. Plain keys such as ``step`` break a thread."""
    return {
        "workflow_run": child.run_id,
        "workflow_step": child.step_id,
        "workflow_attempt": child.attempt,
        "child_run": child.child_run_id,
    }


def _covers(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(metadata.get(key) == value for key, value in wanted.items())


def _passing(reply: Reply) -> bool:
    """Whether the same look may succeed later."""
    return reply.status == 429 or reply.status >= 500


def assistant_of(settings: Mapping[str, Any]) -> str:
    return str(settings.get("assistant", "lead_agent"))


def seconds_of(settings: Mapping[str, Any]) -> float:
    return float(settings.get("timeout_seconds", DEERFLOW_SECONDS[2]))


def _object(reply: Reply) -> Mapping[str, Any]:
    try:
        return _object_of(reply.json())
    except ValueError:
        return {}


def _object_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(reply: Reply) -> list[Mapping[str, Any]] | None:
    try:
        value = reply.json()
    except ValueError:
        return None
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else None


def _text(value: Mapping[str, Any], key: str) -> str:
    found = value.get(key)
    return found if isinstance(found, str) else ""


def _answer(status: AgentRunStatus, code: str, message: str) -> Answer:
    return Answer(status, error_code=code, error_message=message)


def _error(code: str, message: str) -> Answer:
    return _answer(AgentRunStatus.ERROR, code, message)


def _uncertain(message: str) -> Answer:
    return _answer(AgentRunStatus.UNKNOWN, "uncertain", message)
