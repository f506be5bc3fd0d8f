"""Servers that behave as an OpenAI-compatible server and as a DeerFlow Gateway do, traps included.

What they were asked stands in plain lists; faults are set by name before they are to happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs

from .http_server import DROP, Request, Response, Server

__all__ = [
    "DROP",
    "CompletionServer",
    "GatewayServer",
    "Request",
    "Response",
    "completion",
    "echo",
    "human",
    "message",
    "said",
]


class CompletionServer(Server):
    """``POST /v1/chat/completions``. ``replies`` are given first, one a call; then the task is echoed."""

    def __init__(self, key: str | None = None) -> None:
        super().__init__()
        self.key = key
        self.calls: list[dict[str, Any]] = []
        self.replies: list[Response | Callable[[], Awaitable[Response]]] = []

    async def answer(self, request: Request) -> Response:
        if (request.method, request.path) != ("POST", "/v1/chat/completions"):
            return Response(404, {"error": {"message": "no such route"}})
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            given = request.headers.get("authorization", "")
            return Response(401, {"error": {"message": f"Incorrect API key provided: {given}"}})
        body = request.json()
        self.calls.append(body)
        if self.replies:
            reply = self.replies.pop(0)
            return reply if isinstance(reply, Response) else await reply()
        return completion(body["messages"][-1]["content"])


def completion(content: Any, reason: str = "stop", **message: Any) -> Response:
    said = {"role": "assistant", "content": content, **message}
    return Response(200, {"choices": [{"index": 0, "message": said, "finish_reason": reason}]})


_BODY_KEYS = {
    "assistant_id", "input", "metadata", "config", "context", "multitask_strategy", "on_disconnect",
}  # fmt: skip


class GatewayServer(Server):
    """A Gateway, traps included.

    ``accounts`` maps users to passwords; without any, authentication is disabled. A run ends after ``looks`` looks
    at it, or when ``release`` is called where ``held`` is set. ``outcome`` says how: a function of the task that
    returns ``(status, messages behind the reminder and the task)``.
    """

    def __init__(self, **accounts: str) -> None:
        super().__init__()
        self.accounts = accounts
        self.sessions: dict[str, str] = {}
        self.failures = 0
        self.threads: dict[str, dict[str, Any]] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, bytes] = {}
        #: Bodies of the requests for a run that arrived, whether or not they were answered.
        self.posts: list[dict[str, Any]] = []
        self.looks = 1
        self.held = False
        self.page = 200
        self.faults: dict[str, list[str | int]] = {}
        self.outcome: Callable[[str], tuple[str, list[dict[str, Any]]]] = echo

    # What tests set and read

    def fault(self, what: str, *kinds: str | int) -> None:
        """The next requests of a kind fail so: a status, ``drop``, ``hang``, or the same with ``after_`` before.

        ``pass`` lets one through, ``slow`` answers once ``held`` is no more.
        """
        self.faults.setdefault(what, []).extend(kinds)

    def release(self) -> None:
        """Let held runs end."""
        self.held = False

    def of_step(self, step: str) -> list[dict[str, Any]]:
        return [body for body in self.posts if body["metadata"]["workflow_step"] == step]

    def add_run(self, thread: str, status: str = "success", **metadata: Any) -> str:
        """A run that is there already."""
        run_id = f"run-{len(self.runs) + 1}"
        self.runs[run_id] = {
            "run_id": run_id,
            "thread_id": thread,
            "status": status,
            "metadata": metadata,
            "looks": 0,
            "task": "",
        }
        self.messages[run_id] = []
        return run_id

    # Routes

    async def answer(self, request: Request) -> Response:
        path = request.path.removeprefix("/api")
        if path == "/v1/auth/login/local":
            return self._log_in(request)
        refused = self._refused(request)
        if refused is not None:
            return refused
        parts = path.strip("/").split("/")
        if parts[0] != "threads":
            return Response(404, {"detail": "Not Found"})
        if len(parts) == 1:
            return await self._faulty("thread", lambda: self._make_thread(request))
        thread = parts[1]
        if parts[2:3] == ["artifacts"]:
            return await self._faulty("artifact", lambda: self._artifact("/".join(parts[3:])))
        if parts[2:] == ["runs"] and request.method == "POST":
            return await self._faulty("post", lambda: self._make_run(thread, request))
        if parts[2:] == ["runs"]:
            return await self._faulty("list", lambda: self._list(thread))
        run = self.runs.get(parts[3])
        if run is None or run["thread_id"] != thread:
            return Response(404, {"detail": f"Run {parts[3]} not found"})
        if parts[4:] == ["cancel"]:
            return await self._faulty("cancel", lambda: self._cancel(run, request))
        if parts[4:] == ["messages"]:
            return await self._faulty("messages", lambda: self._page(run, request))
        return await self._faulty("look", lambda: self._look(run))

    async def _faulty(self, what: str, answer: Callable[[], Response]) -> Response:
        waiting = self.faults.get(what)
        if not waiting:
            return answer()
        kind = waiting.pop(0)
        if kind == "pass":
            return answer()
        if isinstance(kind, str) and kind.startswith("after_"):
            answer()
            kind = kind.removeprefix("after_")
            kind = int(kind) if kind.isdigit() else kind
        elif what == "post" and kind != "slow":
            self.posts.append({"metadata": {"workflow_step": "refused"}})
        if kind == "drop":
            return DROP
        if kind == "hang":
            return await self.hang()
        if kind == "slow":
            while self.held:
                await asyncio.sleep(0.005)
            return answer()
        headers = (("Retry-After", "7"),) if kind == 429 else ()
        return Response(int(kind), {"detail": f"because of {kind}"}, headers)

    def _log_in(self, request: Request) -> Response:
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        if self.failures >= 5:
            return Response(429, {"detail": "too many failures"})
        if self.accounts.get(form.get("username", "")) != form.get("password"):
            self.failures += 1
            return Response(401, {"detail": f"wrong password {form.get('password')}"})
        number = len(self.sessions) + 1
        token, csrf = f"session-token-{number}", f"csrf-token-{number}"
        self.sessions[token] = csrf
        cookies = (
            ("Set-Cookie", f"access_token={token}; Path=/; HttpOnly"),
            ("Set-Cookie", f"csrf_token={csrf}; Path=/"),
        )
        return Response(200, {"expires_in": 3600}, cookies)

    def _refused(self, request: Request) -> Response | None:
        if not self.accounts:
            return None
        csrf = self.sessions.get(request.cookie("access_token") or "")
        if csrf is None:
            return Response(401, {"detail": "Not authenticated"})
        if request.method != "GET" and request.headers.get("x-csrf-token") != csrf:
            return Response(403, {"detail": "CSRF token missing"})
        return None

    def _make_thread(self, request: Request) -> Response:
        body = request.json()
        if {"step", "parents"} & set(body.get("metadata", {})):
            return Response(500, {"detail": "broken thread"})
        return Response(200, self.threads.setdefault(body["thread_id"], body))

    def _make_run(self, thread: str, request: Request) -> Response:
        body = request.json()
        self.posts.append(body)
        if set(body) - _BODY_KEYS:
            return Response(422, {"detail": [{"msg": "Extra inputs are not permitted"}]})
        active = [run for run in self._of(thread) if run["status"] in ("pending", "running")]
        if active:
            return Response(409, {"detail": "Thread has an active run"})
        assert body["multitask_strategy"] == "reject" and body["on_disconnect"] == "continue"
        run_id = self.add_run(thread, "pending", **body["metadata"])
        run = self.runs[run_id]
        run["task"] = body["input"]["messages"][0]["content"]
        run["assistant"] = body["assistant_id"]
        return Response(200, _shown(run))

    def _list(self, thread: str) -> Response:
        if thread not in self.threads:
            return Response(404, {"detail": "Thread not found"})
        return Response(200, [_shown(run) for run in self._of(thread)])

    def _look(self, run: dict[str, Any]) -> Response:
        if run["status"] in ("pending", "running"):
            run["status"] = "running"
            run["looks"] += 1
            if not self.held and run["looks"] >= self.looks:
                self._end(run)
        return Response(200, _shown(run))

    def _end(self, run: dict[str, Any]) -> None:
        if run["assistant"] == "nobody":
            run["status"] = "error"
            behind: list[dict[str, Any]] = []
        else:
            run["status"], behind = self.outcome(run["task"])
        told = [reminder(), human(run["task"], "m1__user"), *behind]
        self.messages[run["run_id"]] = [
            {**event, "run_id": run["run_id"], "seq": number} for number, event in enumerate(told, 1)
        ]

    def _cancel(self, run: dict[str, Any], request: Request) -> Response:
        assert request.query == {"wait": "true", "action": "interrupt"}
        if run["status"] == "interrupted":
            return Response(202)
        if run["status"] not in ("pending", "running"):
            return Response(409, {"detail": "not cancellable"})
        run["status"] = "interrupted"
        return Response(204)

    def _page(self, run: dict[str, Any], request: Request) -> Response:
        events = self.messages[run["run_id"]]
        limit = min(int(request.query.get("limit", "50")), self.page)
        before, after = request.query.get("before_seq"), request.query.get("after_seq")
        if after is not None:
            found = [event for event in events if event["seq"] > int(after)]
            return Response(200, {"data": found[:limit], "has_more": len(found) > limit})
        if before is not None:
            events = [event for event in events if event["seq"] < int(before)]
        return Response(200, {"data": events[-limit:], "has_more": len(events) > limit})

    def _artifact(self, path: str) -> Response:
        data = self.files.get(path)
        return Response(404, {"detail": "Artifact not found"}) if data is None else Response(200, data=data)

    def _of(self, thread: str) -> list[dict[str, Any]]:
        return [run for run in self.runs.values() if run["thread_id"] == thread]


def _shown(run: dict[str, Any]) -> dict[str, Any]:
    return {key: run[key] for key in ("run_id", "thread_id", "status", "metadata")}


def message(kind: str, content: Any, identity: str | None = None, **more: Any) -> dict[str, Any]:
    names = {"human": "llm.human.input", "ai": "llm.ai.response", "tool": "llm.tool.result"}
    metadata = {"caller": more.pop("caller", "lead_agent")}
    body = {"type": kind, "content": content, "id": identity, **more}
    return {"event_type": names[kind], "content": body, "metadata": metadata}


def reminder(text: str = "<system-reminder>Today is Monday</system-reminder>") -> dict[str, Any]:
    """It takes the id of the message that it was put before."""
    return message("human", text, "m1", additional_kwargs={"hide_from_ui": True})


def human(text: str, identity: str) -> dict[str, Any]:
    return message("human", text, identity)


def echo(task: str) -> tuple[str, list[dict[str, Any]]]:
    return "success", [
        message("ai", "", "a1", tool_calls=[{"name": "search", "args": {}, "id": "t1"}]),
        message("tool", "found", "t1"),
        message("ai", task, "a2"),
        message("ai", "A title", "a3", caller="middleware:title"),
    ]


def said(text: Any, status: str = "success") -> Callable[[str], tuple[str, list[dict[str, Any]]]]:
    return lambda task: (status, [message("ai", text, "a1")])
