"""Generated runs: replay is the same every time, any changed byte is found, and nothing is touched on the way."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.workflows_core.script.scripts import generated
from workflows_core.errors import ScriptRefused
from workflows_core.journal.bundle import write
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.frames import Frame, FrameKind
from workflows_core.journal.verify import verify
from workflows_core.jsontext import encode, parse

from .recording import rechained, record
from .runs import bundle, members


async def recorded(first_seed: int, count: int) -> AsyncIterator[tuple[str, list[Frame]]]:
    """``count`` generated scripts that ask for something, with their journals."""
    seed = first_seed
    while count:
        script = generated(seed)
        seed += 1
        try:
            frames = await record(script, order=lambda waiting: waiting[-1:])
        except ScriptRefused:
            continue
        if len(frames) > 2:
            count -= 1
            yield script, frames


async def replays_alike(script: str, frames: list[Frame], times: int) -> None:
    """Replayed so many times without probes and with them, no frame differs."""
    first = await verify(script, frames)
    assert first.verdict == "complete"
    for _ in range(times - 1):
        assert await verify(script, frames) == first
    debugger = await Debugger.open(script, frames)
    try:
        assert (debugger.level, debugger.diverged) == ("statements", None)
        for _ in range(times - 1):
            assert await debugger._survey() is None
    finally:
        await debugger.close()


async def is_sensitive(script: str, frames: list[Frame], rng: random.Random, requests: int) -> None:
    """One byte of each frame is changed: always found. So it is with a new chain, in ``requests`` of the request
    frames, by execution; also where the changed frame is well formed.
    """
    for frame in frames:
        broken = [*frames]
        broken[frame.number] = msgspec.structs.replace(frame, body=flipped(frame.body, rng))
        assert (await verify(script, broken)).verdict == "incompatible"
    asked = [frame for frame in frames if frame.kind is FrameKind.REQUEST]
    for frame in rng.sample(asked, min(requests, len(asked))):
        found = await verify(script, rechained(frames, {frame.number: flipped(frame.body, rng)}))
        assert found.verdict in ("diverged", "incompatible")
        assert found.divergence is None or found.divergence.frame == frame.number
        altered = parse(frame.body)
        call = rng.choice(altered["calls"])
        key = rng.choice([key for key in call if key not in ("op", "id")])
        call[key] = "altered" if isinstance(call[key], str) else ["altered"]
        found = await verify(script, rechained(frames, {frame.number: encode(altered)}))
        assert found.verdict == "diverged"
        assert found.divergence is not None and found.divergence.frame == frame.number


def flipped(body: bytes, rng: random.Random) -> bytes:
    changed = bytearray(body)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(7)
    return bytes(changed)


async def test_generated_runs_replay_alike_and_notice_every_change() -> None:
    rng = random.Random(11)
    async for script, frames in recorded(500, 8):
        await replays_alike(script, frames, 2)
        await is_sensitive(script, frames, rng, 1)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
async def test_two_thousand_scripts_replay_alike_five_times(part: int) -> None:
    async for script, frames in recorded(part * 100_000, 100):
        await replays_alike(script, frames, 5)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
async def test_five_hundred_journals_notice_every_change(part: int) -> None:
    rng = random.Random(part)
    async for script, frames in recorded(10_000_000 + part * 100_000, 50):
        await is_sensitive(script, frames, rng, len(frames))


WATCHED = """
import asyncio, sys, tempfile
from pathlib import Path
from workflows_core.journal.bundle import open_bundle
from workflows_core.journal.debugger import Debugger
from workflows_core.journal.verify import verify_bundle
tempfile.gettempdir()  # finding it tries a file
touched = []
def watch(event, values):
    if event in ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "sqlite3.connect"):
        touched.append((event, str(values)))
    if event == "open" and isinstance(values[1], str) and set(values[1]) & set("wax+"):
        touched.append((event, str(values)))
    if event in ("os.rename", "os.remove", "os.truncate", "shutil.copyfile"):
        touched.append((event, str(values)))
sys.addaudithook(watch)
async def main():
    bundle = open_bundle(Path(sys.argv[1]))
    verdict = await verify_bundle(bundle)
    debugger = await Debugger.open(bundle.script, bundle.frames)
    await debugger.go_to_frame(3)
    await debugger.watch(["evidence.output"])
    await debugger.close()
    print(verdict.verdict, touched)
asyncio.run(main())
"""


def test_i09_replay_touches_no_network_no_store_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "run.wfrun"
    path.write_bytes(write(asyncio.run(bundle())))
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, str(path)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "complete []"
    assert [file.name for file in tmp_path.iterdir()] == ["run.wfrun"]


async def test_i09_replay_stops_at_the_first_difference_before_anything_else_is_asked() -> None:
    script = """
    const one = await agent({stepId: 'one', agentRef: 'lead_agent', task: 1});
    const two = await agent({stepId: 'two', agentRef: 'lead_agent', task: one.output});
    return await agent({stepId: 'three', agentRef: 'lead_agent', task: two.output});
    """
    frames = await record(script)
    body = parse(frames[3].body)
    body["calls"][0]["task"] = 2
    verdict = await verify(script, rechained(frames, {3: encode(body)}))
    assert verdict.divergence is not None
    assert (verdict.divergence.frame, verdict.divergence.agreed) == (3, 2)
    assert parse(encode(verdict.divergence.now))["calls"][0]["step_id"] == "two"


async def test_i14_no_credential_of_the_environment_is_in_a_bundle(monkeypatch: pytest.MonkeyPatch) -> None:
    planted = "sk-planted-7f3a9c"
    monkeypatch.setenv("OPENAI_API_KEY", planted)
    script = """
    const reached = Object.getOwnPropertyNames(globalThis).join(' ');
    const one = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: reached});
    return {text: one.output, error: (() => { try { return process.env; } catch (e) { return e.message; } })()};
    """
    data = write(await bundle(script, {}))
    assert planted.encode() not in b"".join(members(data).values())
