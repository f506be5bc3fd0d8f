"""Demand 12: only regular files inside the child's folder, opened without following links, whole or not at all."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.agents.base import FileRefused
from workbench.agents.folder import read_inside, remove

SECRET = b"a secret outside"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(SECRET)
    folder = tmp_path / "child"
    (folder / "sub").mkdir(parents=True)
    (folder / "report.md").write_bytes(b"# Report")
    (folder / "sub" / "deep.txt").write_bytes(b"deep")
    return folder


def test_regular_files_inside_are_read(folder: Path) -> None:
    assert read_inside(folder, "report.md", max_bytes=100) == b"# Report"
    assert read_inside(folder, "sub/deep.txt", max_bytes=4) == b"deep"


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/passwd",
        "../secret",
        "sub/../../secret",
        "./report.md",
        "sub//deep.txt",
        "a\0b",
        "x" * 2000,
        "..",
    ],
)
def test_paths_that_lead_out_are_refused(folder: Path, path: str) -> None:
    with pytest.raises(FileRefused) as caught:
        read_inside(folder, path, max_bytes=100)
    assert caught.value.code == "bad_path"


def symlink(folder: Path) -> str:
    (folder / "link").symlink_to(folder.parent / "secret")
    return "link"


def folder_link(folder: Path) -> str:
    (folder / "up").symlink_to(folder.parent)
    return "up/secret"


def hard_link(folder: Path) -> str:
    os.link(folder.parent / "secret", folder / "hard")
    return "hard"


def fifo(folder: Path) -> str:
    os.mkfifo(folder / "fifo")
    return "fifo"


def unix_socket(folder: Path) -> str:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(folder / "sock"))
    return "sock"


def a_folder(folder: Path) -> str:
    return "sub"


def proc_link(folder: Path) -> str:
    (folder / "proc").symlink_to("/proc/self")
    return "proc/environ"


@pytest.mark.parametrize("make", [symlink, folder_link, hard_link, fifo, unix_socket, a_folder, proc_link])
def test_what_is_no_file_of_the_childs_own_is_refused(folder: Path, make: Callable[[Path], str]) -> None:
    path = make(folder)
    with pytest.raises(FileRefused) as caught:
        read_inside(folder, path, max_bytes=100)
    assert caught.value.code == "not_a_file"


def test_a_folder_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(folder)
    with pytest.raises(FileRefused):
        read_inside(tmp_path / "alias", "report.md", max_bytes=100)


def test_what_is_missing_or_too_large_is_said(folder: Path) -> None:
    with pytest.raises(FileRefused, match="left no file none") as missing:
        read_inside(folder, "none", max_bytes=100)
    with pytest.raises(FileRefused, match="8 bytes; admitted are 7") as large:
        read_inside(folder, "report.md", max_bytes=7)
    assert (missing.value.code, large.value.code) == ("file_not_found", "file_too_large")


def test_what_agents_call_their_folder_is_the_folder(folder: Path) -> None:
    assert read_inside(folder, "/mnt/user-data/sub/deep.txt", max_bytes=100) == b"deep"
    for path in ("/mnt/user-data/", "/mnt/user-data//etc/passwd", "/mnt/user-data/../secret"):
        with pytest.raises(FileRefused):
            read_inside(folder, path, max_bytes=100)


def test_a_folder_is_removed_with_what_the_child_made_unreachable(folder: Path, tmp_path: Path) -> None:
    (folder / "out").symlink_to(tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"kept")
    inner = folder / "sub" / "inner"
    inner.mkdir()
    (inner / "file").write_bytes(b"")
    for closed in (inner, folder / "sub"):
        closed.chmod(0)
    remove(folder)
    assert not folder.exists()
    assert (tmp_path / "kept" / "file").read_bytes() == b"kept"
    remove(folder)
    (tmp_path / "alias").symlink_to(tmp_path / "kept")
    remove(tmp_path / "alias")
    assert (tmp_path / "kept" / "file").exists() and not (tmp_path / "alias").is_symlink()


def test_a_swap_while_it_is_read_never_yields_other_bytes(folder: Path) -> None:
    """A thousand rounds in which the name changes between a file, a link to the secret, and a folder."""
    stop = threading.Event()
    target = folder / "swapped"
    inside = b"inside" * 2000

    def swap() -> None:
        spare = folder / "spare"
        while not stop.is_set():
            for make in (
                lambda: spare.write_bytes(inside),
                lambda: spare.symlink_to(folder.parent / "secret"),
                lambda: os.link(folder.parent / "secret", spare),
            ):
                spare.unlink(missing_ok=True)
                make()
                spare.replace(target)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(1000):
            try:
                data = read_inside(folder, "swapped", max_bytes=100_000)
            except FileRefused:
                continue
            assert data == inside
    finally:
        stop.set()
        thread.join()
    target.unlink()
    target.write_bytes(inside)
    assert read_inside(folder, "swapped", max_bytes=100_000) == inside


def test_a_growing_file_is_whole_or_refused(folder: Path) -> None:
    stop = threading.Event()
    path = folder / "growing"
    path.write_bytes(b"")

    def grow() -> None:
        with path.open("ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 5_000_000:
                file.write(b"x" * 997)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(200):
            try:
                data = read_inside(folder, "growing", max_bytes=2_000_000)
            except FileRefused as error:
                assert error.code in ("file_changed", "file_too_large")
                continue
            # As it stood at one moment: a write that crosses a page can be seen in parts.
            assert data == b"x" * len(data)
    finally:
        stop.set()
        thread.join()
