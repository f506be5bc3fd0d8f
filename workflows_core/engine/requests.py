"""Launch requests: what a caller gives, validated, and the identity that a repeated request must match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from extension_api.hashing import canonical_hash

from .. import jsontext, limits
from ..errors import LimitExceeded, NotPermitted, UsageError
from ..limits import Limits
from ..script.source import prove_function_body, script_bytes, script_hash

REQUEST_ID = re.compile(rf"[A-Za-z0-9_.:-]{{1,{limits.REQUEST_ID_LENGTH}}}")


class LaunchRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One launch. ``args`` is a JSON object; ``options`` are the host's launch options, kept with the run.

    The same ``request_id`` of the same owner names the same run: a repeat returns it, and one that differs in
    script, args, agents, options or limits conflicts. ``options["label"]`` is for people and not compared.
    """

    script: str
    args: Any
    name: str
    request_id: str
    options: Mapping[str, Any]
    parent_run_id: str | None = None
    #: ``NAME@HASH`` of a saved version. Its script is launched then, and ``script`` must be empty.
    definition: str | None = None


class LaunchOutcome(msgspec.Struct, frozen=True):
    """The run of a request. ``existing`` says that the request had been launched before."""

    run_id: str
    existing: bool


class Kept(msgspec.Struct, frozen=True):
    """A run that a command for many left as it was, and why."""

    run_id: str
    message: str


class Outcome(msgspec.Struct, frozen=True):
    """What became of a command. ``status`` is ``applied``, or ``recorded`` where its effect comes later."""

    status: str
    message: str
    run_ids: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A launch request that passed every check, with its hashes."""

    script: str
    args: Any
    args_json: bytes
    script_hash: str
    args_hash: str
    options_hash: str
    identity_hash: str


def prepare(request: LaunchRequest, *, agents: tuple[str, ...], run_limits: Limits) -> Prepared:
    """Check a launch request; raise UsageError, LimitExceeded or ScriptRefused in words."""
    if REQUEST_ID.fullmatch(request.request_id) is None:
        raise UsageError(
            f"a request id has 1 to {limits.REQUEST_ID_LENGTH} letters, digits or any of _ . : -",
            code="bad_request_id",
        )
    if not request.name or len(request.name) > limits.NAME_LENGTH:
        raise UsageError(f"a run's name has 1 to {limits.NAME_LENGTH} characters", code="bad_name")
    try:
        request.name.encode("utf-8")
        size = script_bytes(request.script)
    except UnicodeEncodeError:
        raise UsageError("the script or its name holds a lone surrogate, which is not text") from None
    if size > limits.SCRIPT_BYTES:
        raise LimitExceeded(
            f"the script takes {size:,} bytes as JSON; admitted are {limits.SCRIPT_BYTES:,}. "
            "Shorten it, or move material into args or files",
            code="script_too_large",
        )
    prove_function_body(request.script)
    if not isinstance(request.args, dict):
        raise UsageError('args must be a JSON object, for example {"product": "soap"}', code="bad_args")
    try:
        args_json = jsontext.encode(request.args, "args")
        jsontext.parse(args_json, "args")
        options_json = jsontext.encode(dict(request.options), "the launch options")
    except jsontext.JsonRefused as error:
        raise UsageError(str(error), code="bad_args") from None
    if len(args_json) > limits.ARGS_BYTES:
        raise LimitExceeded(
            f"args take {len(args_json):,} bytes; admitted are {limits.ARGS_BYTES:,}", code="args_too_large"
        )
    hashed_script = script_hash(request.script)
    hashed_args = jsontext.sha256(args_json)
    identity = {
        "script": hashed_script,
        "args": hashed_args,
        "agents": sorted(agents),
        "limits": msgspec.structs.asdict(run_limits),
        "options": {key: value for key, value in request.options.items() if key != "label"},
        "parent": request.parent_run_id,
        "definition": request.definition,
    }
    return Prepared(
        script=request.script,
        args=request.args,
        args_json=args_json,
        script_hash=hashed_script,
        args_hash=hashed_args,
        options_hash=jsontext.sha256(options_json),
        identity_hash=canonical_hash(identity),
    )


def same_owner(owner: str, user_id: str, is_admin: bool) -> None:
    """Raise NotPermitted unless the caller may act on a run of ``owner``."""
    if owner != user_id and not is_admin:
        raise NotPermitted(f"this run belongs to {owner}; only its owner or an administrator may do that")
