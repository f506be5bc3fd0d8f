"""What a script can call, and which names it has: the tables behind the checks, the help and completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


class ApiFunction(msgspec.Struct, frozen=True):
    """One function of the script API. ``step`` is the kind of step that it makes, where it makes one."""

    name: str
    properties: tuple[str, ...]
    required: tuple[str, ...]
    promise: bool
    step: str | None
    result: tuple[str, ...]
    summary: str


API: Final[Mapping[str, ApiFunction]] = {
    function.name: function
    for function in (
        ApiFunction(
            "agent",
            ("stepId", "agentRef", "task", "artifacts"),
            ("stepId", "agentRef", "task"),
            True,
            "agent",
            ("output", "threadId", "runId", "status", "artifactVersion"),
            "ask an Agent; resolves to its output",
        ),
        ApiFunction(
            "parallel", (), (), True, None, (), "run functions side by side; resolves in their order"
        ),
        ApiFunction("log", (), (), False, None, (), "add one message to the run's log"),
        ApiFunction(
            "pause", ("stepId",), ("stepId",), True, "pause", ("status",), "wait until a person resumes"
        ),
        ApiFunction(
            "humanCheckpoint",
            ("stepId", "sourceStepId", "artifactVersion"),
            ("stepId", "sourceStepId", "artifactVersion"),
            True,
            "checkpoint",
            ("status", "artifactVersion"),
            "wait until a person approves one exact version",
        ),
        ApiFunction(
            "captureArtifact",
            ("stepId", "sourceStepId", "path"),
            ("stepId", "sourceStepId", "path"),
            True,
            "capture",
            ("artifactVersion", "sha256", "size", "mediaType"),
            "keep the bytes of a file that a completed step made",
        ),
        ApiFunction(
            "readArtifact",
            ("artifactVersion", "offset"),
            ("artifactVersion",),
            True,
            None,
            (),
            "read up to 16 KiB of a version, in base64",
        ),
    )
}

#: Functions at which a run waits for a person.
WAITS: Final = frozenset({"pause", "humanCheckpoint"})
#: Properties that name steps.
STEP_PROPERTIES: Final = frozenset({"stepId", "sourceStepId"})

#: Names a script has besides the API and ``args``: exactly what the worker leaves on the global object.
GLOBALS: Final = frozenset(
    """
    Object Function Error EvalError RangeError ReferenceError SyntaxError TypeError URIError InternalError
    AggregateError Iterator Array parseInt parseFloat isNaN isFinite queueMicrotask decodeURI decodeURIComponent
    encodeURI encodeURIComponent escape unescape Infinity NaN undefined eval Number Boolean String Math Reflect
    Symbol globalThis BigInt RegExp JSON Proxy Map Set WeakMap WeakSet ArrayBuffer Int8Array Uint8Array
    Uint8ClampedArray Int16Array Uint16Array Int32Array Uint32Array BigInt64Array BigUint64Array Float16Array
    Float32Array Float64Array DataView Promise btoa atob
    """.split()  # noqa: SIM905 - a table of names reads better as text
)

#: Names that people try and a script does not have, each with what to use instead.
INSTEAD: Final[Mapping[str, str]] = {
    "Date": "pass the time in args, so that a replay sees the same one",
    "performance": "pass times in args; a script has no clock",
    "Math.random": "pass random values in args, so that a replay sees the same ones",
    "crypto": "pass random values in args, so that a replay sees the same ones",
    "console": "use log(message)",
    "print": "use log(message)",
    "alert": "use log(message)",
    "prompt": "use pause() or humanCheckpoint() to wait for a person",
    "confirm": "use humanCheckpoint() to let a person approve",
    "setTimeout": "a script has no timers; await agent(), parallel() or pause() instead",
    "setInterval": "a script has no timers; use a loop around await agent() instead",
    "setImmediate": "a script has no timers; use queueMicrotask() or await instead",
    "clearTimeout": "a script has no timers, so there is nothing to clear",
    "clearInterval": "a script has no timers, so there is nothing to clear",
    "fetch": "a script has no network; let an Agent fetch it and return the result",
    "XMLHttpRequest": "a script has no network; let an Agent fetch it and return the result",
    "WebSocket": "a script has no network; let an Agent talk to the service",
    "URL": "a script has no URL class; build the text by hand or let an Agent do it",
    "URLSearchParams": "a script has no URL class; use encodeURIComponent()",
    "process": "a script has no process or environment; pass what it needs in args",
    "Deno": "a script has no process or files; pass what it needs in args",
    "Bun": "a script has no process or files; pass what it needs in args",
    "__dirname": "a script has no files; use captureArtifact() for what an Agent wrote",
    "__filename": "a script has no files; use captureArtifact() for what an Agent wrote",
    "Buffer": "use Uint8Array, or atob() and btoa() for base64",
    "TextEncoder": "use encodeURIComponent() or charCodeAt()",
    "TextDecoder": "use decodeURIComponent() or String.fromCharCode()",
    "structuredClone": "use JSON.parse(JSON.stringify(value))",
    "window": "use globalThis; a script has no page",
    "document": "a script has no page",
    "global": "use globalThis",
    "self": "use globalThis",
    "navigator": "a script does not know the machine it runs on",
    "Intl": "a script has no locale data; format by hand",
    "WebAssembly": "a script runs JavaScript only",
    "WeakRef": "a script cannot watch the garbage collector; keep a plain reference",
    "FinalizationRegistry": "a script cannot watch the garbage collector",
    "Atomics": "a script has one thread; use plain variables",
    "SharedArrayBuffer": "a script has one thread; use ArrayBuffer",
    "Worker": "use parallel() to run Agents side by side",
    "arguments": "the script has no arguments object; use args",
}
