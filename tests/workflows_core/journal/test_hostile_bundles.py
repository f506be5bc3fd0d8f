"""Files that only claim to be bundles are refused in words, quickly and within little memory."""

from __future__ import annotations

import io
import json
import random
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from workflows_core.journal.archive import FILE_BYTES
from workflows_core.journal.bundle import BundleRefused, open_bundle, write
from workflows_core.jsontext import sha256

from .runs import CAPTURED, bundle, changed, comparable, members, zipped


@pytest.fixture(scope="module")
def whole() -> bytes:
    import asyncio

    return write(asyncio.run(bundle()))


def _bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as container:
        with container.open(zipfile.ZipInfo("frames.jsonl"), "w", force_zip64=False) as member:
            for _ in range(40):
                member.write(b"\0" * 1024 * 1024)
        container.writestr("manifest.json", b"{}")
    return file.getvalue()


def _lying_bomb(data: bytes) -> bytes:
    """A member whose headers state few bytes and which unpacks to many."""
    parts = members(data)
    parts["script.js"] = b" " * 60_000_000
    made = bytearray(zipped(list(parts.items())))
    size = struct.pack("<I", 60_000_000)
    while (at := made.find(size)) >= 0:
        made[at : at + 4] = struct.pack("<I", 40)
    return bytes(made)


def _many_entries() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as container:
        for index in range(5_000):
            container.writestr(f"m{index}", b"")
    return file.getvalue()


def _duplicate(data: bytes) -> bytes:
    parts = [*members(data).items()]
    with pytest.warns(UserWarning, match="Duplicate"):
        return zipped([*parts, ("script.js", b"return 2;")])


def _named(data: bytes, name: str) -> bytes:
    return zipped([*members(data).items(), (name, b"x")])


def _nul(data: bytes) -> bytes:
    return _named(data, "script.js_.png").replace(b"script.js_.png", b"script.js\0.png")


def _with(data: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(members(data)["record.json"]), **fields}).encode()


def _called(data: bytes, run_id: str) -> bytes:
    return changed(data, manifest={"run_id": run_id}, record__json=_with(data, run_id=run_id))


def _encrypted(data: bytes) -> bytes:
    made = bytearray(data)
    at = made.rfind(b"PK\x01\x02")
    made[at + 8] |= 1
    return bytes(made)


HOSTILE: dict[str, tuple[Any, str]] = {
    "nothing": (lambda d: b"", "too short"),
    "text": (lambda d: b"hello there, this is no bundle at all", "does not end as one"),
    "an empty zip": (lambda d: zipped([]), "lists 0 members"),
    "an ordinary zip": (lambda d: zipped([("a.txt", b"x")]), "no member of a bundle"),
    "a comment behind it": (lambda d: d[:-2] + b"\x02\x00hi", "does not end as one"),
    "something in front": (lambda d: b"#!/bin/sh\n" + d, "does not fit|damaged"),
    "bomb": (lambda d: _bomb(), "unpacks to"),
    "bomb with lying headers": (_lying_bomb, "damaged|unpacks to more"),
    "very many members": (lambda d: _many_entries(), "lists 5000 members"),
    "duplicate member": (_duplicate, "script.js twice"),
    "encrypted member": (_encrypted, "packed or encrypted"),
    "another packing": (lambda d: zipped([*members(d).items()], zipfile.ZIP_BZIP2), "packed or encrypted"),
    "unlisted member": (lambda d: zipped([*members(d).items(), ("captures/" + "0" * 64, b"")]), "does not list"),
    "path upwards": (lambda d: _named(d, "../../etc/passwd"), "no member of a bundle"),
    "absolute path": (lambda d: _named(d, "/etc/passwd"), "no member of a bundle"),
    "path with a NUL": (_nul, "no member of a bundle"),
    "path with backslashes": (lambda d: _named(d, "..\\script.js"), "no member of a bundle"),
    "path in captures": (lambda d: _named(d, "captures/../script.js"), "no member of a bundle"),
    "folder": (lambda d: _named(d, "captures/"), "no member of a bundle"),
    "no manifest": (
        lambda d: zipped([(n, b) for n, b in members(d).items() if n != "manifest.json"]),
        "has no manifest",
    ),
    "manifest is no JSON": (lambda d: zipped([("manifest.json", b"{")]), "not valid JSON"),
    "manifest is a list": (lambda d: zipped([("manifest.json", b"[]")]), "not that of a workflow run"),
    "manifest nested deeply": (lambda d: zipped([("manifest.json", b"[" * 9_000)]), "nested deeper"),
    "another kind": (lambda d: changed(d, manifest={"kind": "recipe"}), "not that of a workflow run"),
    "unknown version": (lambda d: changed(d, manifest={"format": 2}), "format '2'.*knows 1"),
    "version that is no number": (lambda d: changed(d, manifest={"format": True}), "format"),
    "wrong hash of the manifest": (lambda d: changed(d, manifest={"hash": "0" * 64}), "hash that it states"),
    "no hash of the manifest": (lambda d: changed(d, manifest={"hash": None}), "hash that it states"),
    "members of another form": (lambda d: changed(d, manifest={"members": []}), "another form"),
    "a member listed by a path": (
        lambda d: changed(d, manifest={"members": {"../x": {"bytes": 0, "sha256": ""}}}),
        "no member of a bundle",
    ),
    "wrong run": (lambda d: changed(d, manifest={"run_id": "wr_other"}), "name different runs"),
    "a run id that is code": (lambda d: _called(d, 'wr_1"""\nprint(1)\n"""'), "is not the id of a run"),
    "a run id that is a path": (lambda d: _called(d, "../../x"), "is not the id of a run"),
    "a parent whose id is none": (
        lambda d: changed(d, record__json=_with(d, parent_run_id="wr_1\n- reply: 1")), "is not the id of a run"
    ),
    "lacks the frames": (lambda d: changed(d, frames__jsonl=None), "lacks frames.jsonl"),
    "record is a list": (lambda d: changed(d, record__json=b"[]"), "not a JSON object"),
    "record without fields": (lambda d: changed(d, record__json=b'{"state":"completed"}'), "cannot be understood"),
    "record with a time out of range": (
        lambda d: changed(d, record__json=members(d)["record.json"].replace(b'"since":2000', b'"since":1e300')),
        "is not a time",
    ),
    "script over the engine's limit": (lambda d: changed(d, script__js=b"{" * 16_001), "script.js .*at most 16,000"),
    "script that is no text": (lambda d: changed(d, script__js=b"\xff\xfe"), "not UTF-8"),
    "frames that are none": (lambda d: changed(d, frames__jsonl=b"[1]\n"), "line 1 of its frames"),
    "a frame without a hash": (
        lambda d: changed(d, frames__jsonl=b'{"number":0,"kind":"start","at":1,"hash":"xy","body":""}\n'),
        "line 1 of its frames",
    ),
    "very many frames": (lambda d: changed(d, frames__jsonl=b"\n" * 50_000), "more lines"),
    "a journal over its bound": (
        lambda d: changed(d, frames__jsonl=_frame_line("x" * 1_000_000) * 5),
        "larger than the",
    ),
    "a side that is none": (
        lambda d: changed(d, frames__jsonl=_frame_line("{}", '{"positions":7}')),
        "beside a frame",
    ),
    "a side that grows when parsed": (
        lambda d: changed(d, frames__jsonl=_frame_line("{}", '{"positions":[' + "[1,1]," * 210_000 + "null]}")),
        "nested in more parts",
    ),
    "a record that grows when parsed": (
        lambda d: changed(d, decisions__json=b"[" + b"[]," * 300_000 + b"[]]"),
        "nested in more parts",
    ),
    "decisions that are none": (lambda d: changed(d, decisions__json=b'[{"a":1}]'), "cannot be understood"),
}  # fmt: skip


def _frame_line(body: str, side: str = "{}") -> bytes:
    line = {"number": 0, "kind": "start", "at": 1, "hash": "00" * 32, "body": body, "side": json.loads(side)}
    return json.dumps(line).encode() + b"\n"


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_bundle_is_refused_in_words(kind: str, whole: bytes, tmp_path: Path) -> None:
    make, words = HOSTILE[kind]
    data = make(whole)
    path = tmp_path / "hostile.wfrun"
    path.write_bytes(data)
    for source in (data, path):
        begin = time.process_time()
        with pytest.raises(BundleRefused, match=words):
            opened = open_bundle(source)
            opened.read_options()
        assert time.process_time() - begin < 10
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_of_another_size_than_a_bundle(tmp_path: Path) -> None:
    path = tmp_path / "large.wfrun"
    with path.open("wb") as file:
        file.truncate(FILE_BYTES + 1)
    with pytest.raises(BundleRefused, match="at most"):
        open_bundle(path)
    with pytest.raises(BundleRefused, match="cannot be read"):
        open_bundle(tmp_path)
    with pytest.raises(BundleRefused, match="cannot be read"):
        open_bundle(tmp_path / "missing.wfrun")


@pytest.mark.parametrize("cuts", [60, pytest.param(200, marks=pytest.mark.soak)])
def test_every_cut_and_every_changed_byte_is_noticed(whole: bytes, cuts: int) -> None:
    rng = random.Random(7)
    for _ in range(cuts):
        begin = time.process_time()
        with pytest.raises(BundleRefused):
            open_bundle(whole[: rng.randrange(len(whole))])
        assert time.process_time() - begin < 10
    noticed = 0
    for _ in range(2 * cuts):
        data = bytearray(whole)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            opened = open_bundle(bytes(data))
        except BundleRefused:
            noticed += 1
        else:  # a byte that means nothing: a time, an attribute
            assert comparable(opened) == comparable(open_bundle(whole))
    assert noticed > 1.5 * cuts


def test_a_file_that_changes_while_it_is_open(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.wfrun"
    path.write_bytes(whole)
    opened = open_bundle(path)
    path.write_bytes(zipped([(f"captures/{sha256(CAPTURED)}", b"other")]))
    with pytest.raises(BundleRefused, match="changed while"):
        opened.read_capture(sha256(CAPTURED))


MEMORY = """
import resource, sys, time
from pathlib import Path
from workflows_core.journal.bundle import BundleRefused, open_bundle
import workflows_core.journal.opening
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before, slowest = peak(), 0
for name in sys.argv[1:]:
    begin = time.process_time()
    try:
        opened = open_bundle(Path(name))
        opened.read_options()
        [opened.read_capture(info.version) for info in opened.captures]
    except BundleRefused as error:
        assert str(error)
    slowest = max(slowest, time.process_time() - begin)
print(peak() - before, slowest)
"""


def is_modest(paths: list[Path]) -> None:
    """Whatever the files hold, each is opened or refused in words, within a second and 64 MiB, and stays as it is."""
    before = {path: path.read_bytes() for path in sorted(paths[0].parent.iterdir())}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    peak, slowest = done.stdout.split()
    assert int(peak) < 64 * 1024
    assert float(slowest) < 10
    assert {path: path.read_bytes() for path in sorted(paths[0].parent.iterdir())} == before


def mixture(whole: bytes, rng: random.Random) -> bytes:
    """Something hostile, with more done to it: cut, changed, or two of them one behind the other."""
    data = bytearray(HOSTILE[rng.choice(sorted(HOSTILE))][0](whole))
    what = rng.randrange(4)
    if what == 0:
        del data[rng.randrange(len(data) + 1) :]
    elif what == 1:
        data += HOSTILE[rng.choice(sorted(HOSTILE))][0](whole)
    for _ in range(rng.randrange(1, 20) if what > 1 and data else 0):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts KiB on Linux")
@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.soak)])
def test_mixtures_of_hostile_bundles(whole: bytes, tmp_path: Path, count: int) -> None:
    rng = random.Random(count)
    paths = [tmp_path / f"{number}.wfrun" for number in range(count)]
    for path in paths:
        path.write_bytes(mixture(whole, rng))
    is_modest(paths)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts KiB on Linux")
def test_hostile_bundles_stay_within_64_mib(whole: bytes, tmp_path: Path) -> None:
    biggest = {
        "bomb", "bomb with lying headers", "a side that grows when parsed", "a record that grows when parsed",
        "very many members", "a journal over its bound",
    }  # fmt: skip
    for index, kind in enumerate(sorted(biggest)):
        (tmp_path / f"{index}.wfrun").write_bytes(HOSTILE[kind][0](whole))
    frames = b"".join(_frame_line("[" + "[]," * 10_000 + "[]]") for _ in range(130))
    (tmp_path / "full.wfrun").write_bytes(changed(whole, frames__jsonl=frames))
    is_modest(sorted(tmp_path.iterdir()))


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss counts KiB on Linux")
def test_every_hostile_bundle_stays_within_64_mib(whole: bytes, tmp_path: Path) -> None:
    for index, kind in enumerate(sorted(HOSTILE)):
        (tmp_path / f"{index}.wfrun").write_bytes(HOSTILE[kind][0](whole))
    is_modest(sorted(tmp_path.iterdir()))
