"""Frames: packing, splitting, and lengths that are checked before anything is read."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workflows_core import limits
from workflows_core.worker import child, launch, protocol


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(sorted({*b"PQEI"})), st.binary(max_size=40)), max_size=8), st.data()
)
def test_frames_come_back_however_the_bytes_are_cut(
    frames: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(protocol.pack(kind, payload) for kind, payload in frames)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    buffer = bytearray()
    seen: list[tuple[int, bytes]] = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer += stream[start:end]
        seen += protocol.split(buffer)
    assert seen == frames
    assert not buffer


def test_a_frame_is_one_kind_byte_four_length_bytes_and_the_payload() -> None:
    assert protocol.pack(protocol.REQUEST, b"{}") == b"Q\x00\x00\x00\x02{}"


def test_a_length_over_the_limit_is_refused_before_the_payload_arrives() -> None:
    buffer = bytearray(b"Q" + (protocol.FRAME_BYTES + 1).to_bytes(4, "big"))
    with pytest.raises(protocol.FrameRefused, match=str(protocol.FRAME_BYTES + 1)):
        protocol.split(buffer)


def test_set_up_frames_have_a_bound_of_their_own() -> None:
    header = bytes((protocol.SCRIPT,)) + (protocol.FRAME_BYTES + 1).to_bytes(4, "big")
    assert protocol.length_of(header) == protocol.FRAME_BYTES + 1
    with pytest.raises(protocol.FrameRefused):
        protocol.length_of(bytes((protocol.SCRIPT,)) + (protocol.SETUP_BYTES + 1).to_bytes(4, "big"))


def test_the_frame_limit_is_the_one_of_the_table() -> None:
    assert protocol.FRAME_BYTES == limits.FRAME_BYTES


def test_the_child_imports_nothing_that_has_to_be_found_on_disk_but_resource() -> None:
    names = set()
    for part in launch.CHILD_PARTS:
        tree = ast.parse((Path(launch.__file__).parent / part).read_text())
        for node in tree.body:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module or "")
    frozen = {"_frozen_importlib", "_frozen_importlib_external"}
    assert names - frozen - set(sys.builtin_module_names) <= {"resource"}
    assert names == {"_imp", "_signal", "posix", "resource", "time"} | frozen


def test_every_fault_that_the_child_can_report_has_a_sentence() -> None:
    assert all(text.endswith(".") for text in child.SENTENCES.values())
