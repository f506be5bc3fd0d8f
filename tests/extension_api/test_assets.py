"""Packaged browser assets: every rule of the manifest, the paths, the links, the sizes and the types."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extension_api import BrowserAssets, PluginContribution
from extension_api.assets import (
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    MEDIA_TYPES,
    load_assets,
    parse_manifest,
)
from extension_api.invalid import InvalidContribution
from extension_api.testing import FakeRegistry

GOOD: dict[str, Any] = {
    "schema_version": 1,
    "entry": "static/index.mjs",
    "files": ["static/index.mjs", "static/styles.css", "logo-1_a.svg"],
}


def write(root: Path, manifest: object = GOOD, name: str = "ui_manifest.json") -> BrowserAssets:
    (root / "static").mkdir(exist_ok=True)
    (root / "static" / "index.mjs").write_text("export default 1;", encoding="utf-8")
    (root / "static" / "styles.css").write_text("body {}", encoding="utf-8")
    (root / "logo-1_a.svg").write_text("<svg/>", encoding="utf-8")
    text = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    (root / name).write_bytes(text)
    return BrowserAssets("my-module", root, name)


def refused(assets: BrowserAssets) -> InvalidContribution:
    with pytest.raises(InvalidContribution) as raised:
        load_assets(assets)
    message = str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert message.isascii()
    assert message.isprintable()
    assert len(message) < 400
    return raised.value


def changed(**changes: object) -> dict[str, object]:
    return {**GOOD, **changes}


def listed(*paths: object) -> dict[str, object]:
    return changed(files=["static/index.mjs", *paths])


# name of the case: manifest, rule, a part of the reason
BAD_MANIFESTS: dict[str, tuple[object, str, str]] = {
    "empty file": (b"", "assets.manifest", "not JSON"),
    "not JSON": (b"{", "assets.manifest", "not JSON"),
    "trailing text": (json.dumps(GOOD).encode() + b"x", "assets.manifest", "not JSON"),
    "not UTF-8": (b'{"entry": "\xff"}', "assets.manifest", "not UTF-8"),
    "byte order mark": (b"\xef\xbb\xbf" + json.dumps(GOOD).encode(), "assets.manifest", "not JSON"),
    "NaN": (b'{"schema_version": NaN}', "assets.manifest", "NaN"),
    "nested too deeply": (b"[" * 20_000, "assets.manifest", "not JSON"),
    "a list": ([GOOD], "assets.manifest", "JSON object"),
    "null": (None, "assets.manifest", "JSON object"),
    "a string": ("manifest", "assets.manifest", "JSON object"),
    "missing key": ({k: GOOD[k] for k in ("entry", "files")}, "assets.keys", "missing: schema_version"),
    "surplus key": (changed(integrity="x"), "assets.keys", "integrity"),
    "empty object": ({}, "assets.keys", "missing: entry, files, schema_version"),
    "repeated key": (
        b'{"schema_version": 1, "schema_version": 1, "entry": "a.js", "files": ["a.js"]}',
        "assets.keys",
        "repeats",
    ),
    "schema 2": (changed(schema_version=2), "assets.schema_version", "not 2"),
    "schema 0": (changed(schema_version=0), "assets.schema_version", "not 0"),
    "schema as a string": (changed(schema_version="1"), "assets.schema_version", "'1'"),
    "schema true": (changed(schema_version=True), "assets.schema_version", "not True"),
    "schema 1.0": (changed(schema_version=1.0), "assets.schema_version", "not 1.0"),
    "schema null": (changed(schema_version=None), "assets.schema_version", "not None"),
    "files is an object": (changed(files={"a.js": 1}), "assets.files", "list"),
    "files is a string": (changed(files="static/index.mjs"), "assets.files", "list"),
    "no files": (changed(files=[]), "assets.count", "not 0"),
    "257 files": (changed(files=[f"f{n}.js" for n in range(257)]), "assets.count", "not 257"),
    "a file twice": (listed("a.js", "a.js"), "assets.unique", "a.js is listed twice"),
    "a number as a path": (listed(7), "assets.path", "not 7"),
    "null as a path": (listed(None), "assets.path", "not None"),
    "an empty path": (listed(""), "assets.path", "segments"),
    "an absolute path": (listed("/etc/passwd.js"), "assets.path", "passwd"),
    "a parent folder": (listed("../up.js"), "assets.path", "up.js"),
    "a parent folder inside": (listed("static/../../up.js"), "assets.path", "up.js"),
    "the folder itself": (listed("./a.js"), "assets.path", "a.js"),
    "a doubled separator": (listed("static//a.js"), "assets.path", "a.js"),
    "a trailing separator": (listed("static/a.js/"), "assets.path", "a.js"),
    "a hidden file": (listed("static/.a.js"), "assets.path", "a.js"),
    "a backslash": (listed("static\\a.js"), "assets.path", "a.js"),
    "a space": (listed("a b.js"), "assets.path", "a b.js"),
    "a letter outside ASCII": (listed("ä.js"), "assets.path", "xe4.js"),
    "a control character": (listed("a\u001b[31m.js"), "assets.path", "x1b"),
    "a NUL": (listed("a\u0000.js"), "assets.path", "x00"),
    "a line end": (listed("a.js\n"), "assets.path", "a.js"),
    "a percent sign": (listed("a%2e.js"), "assets.path", "a%2e.js"),
    "a colon": (listed("C:/a.js"), "assets.path", "C:/a.js"),
    "a type that is not accepted": (listed("a.html"), "assets.type", "a.html"),
    "no type": (listed("LICENSE"), "assets.type", "LICENSE"),
    "a type in the middle": (listed("a.js.exe"), "assets.type", "a.js.exe"),
    "entry is not listed": (changed(entry="other.js"), "assets.entry", "one of the listed files"),
    "entry is a number": (changed(entry=1), "assets.entry", "one of the listed files"),
    "entry is a list": (changed(entry=["static/index.mjs"]), "assets.entry", "one of the listed files"),
    "entry is a style sheet": (changed(entry="static/styles.css"), "assets.entry", ".js or .mjs"),
    "a file that is not there": (listed("static/missing.js"), "assets.missing", "static/missing.js"),
    "a folder that is not there": (listed("missing/a.js"), "assets.missing", "missing/a.js"),
    "a file used as a folder": (listed("logo-1_a.svg/a.js"), "assets.missing", "logo-1_a.svg/a.js"),
    "a name that is too long": (listed("a" * 300 + ".js"), "assets.missing", "ENAMETOOLONG"),
}  # fmt: skip


def test_there_are_at_least_forty_bad_variants() -> None:
    assert len(BAD_MANIFESTS) + len(BAD_FILES) + len(BAD_ROOTS) >= 40


@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_a_bad_manifest_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    manifest, rule, reason = BAD_MANIFESTS[case]
    error = refused(write(tmp_path, manifest))
    assert error.rule == rule
    assert reason in str(error)


def link_to_a_file(root: Path) -> None:
    (root / "real.js").write_text("1", encoding="utf-8")
    (root / "a.js").symlink_to("real.js")


def link_to_nothing(root: Path) -> None:
    (root / "a.js").symlink_to("nowhere.js")


def a_folder(root: Path) -> None:
    (root / "a.js").mkdir()


def a_fifo(root: Path) -> None:
    os.mkfifo(root / "a.js")


def a_socket(root: Path) -> None:
    # The path of a socket is short, so it is bound relative to the folder.
    before = Path.cwd()
    os.chdir(root)
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("a.js")
    finally:
        os.chdir(before)


def too_large(root: Path) -> None:
    with (root / "a.js").open("wb") as file:
        file.truncate(MAX_FILE_BYTES + 1)


BAD_FILES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link to a file": (link_to_a_file, "assets.symlink"),
    "a link to nothing": (link_to_nothing, "assets.symlink"),
    "a folder": (a_folder, "assets.regular"),
    "a FIFO": (a_fifo, "assets.regular"),
    "a socket": (a_socket, "assets.missing"),
    "4 MiB and one byte": (too_large, "assets.file_size"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    prepare, rule = BAD_FILES[case]
    assets = write(tmp_path, listed("a.js"))
    prepare(tmp_path)
    error = refused(assets)
    assert error.rule == rule
    assert "a.js" in str(error)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.js").write_text("1", encoding="utf-8")
    root = tmp_path / "root"
    root.mkdir()
    (root / "dist").symlink_to(tmp_path / "outside")
    error = refused(write(root, listed("dist/a.js")))
    assert error.rule == "assets.symlink"
    assert "dist/a.js" in str(error)


def test_a_link_deeper_in_the_path_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one" / "real").mkdir(parents=True)
    (tmp_path / "one" / "real" / "a.js").write_text("1", encoding="utf-8")
    (tmp_path / "one" / "two").symlink_to("real")
    assert refused(write(tmp_path, listed("one/two/a.js"))).rule == "assets.symlink"


BAD_ROOTS: dict[str, Callable[[Path], object]] = {
    "a link": lambda root: root.parent / "link",
    "a link with a separator": lambda root: f"{root.parent / 'link'}/",
    "a file": lambda root: root / "ui_manifest.json",
    "not there": lambda root: root / "missing",
    "empty": lambda root: "",
    "a NUL": lambda root: f"{root}\0",
    "bytes": lambda root: os.fsencode(root),
    "None": lambda root: None,
}


@pytest.mark.parametrize("case", BAD_ROOTS)
def test_a_bad_root_is_refused_with_the_reason(case: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    write(root)
    (tmp_path / "link").symlink_to(root)
    chosen: Any = BAD_ROOTS[case](root)
    error = refused(BrowserAssets("m", chosen))
    assert error.rule == "assets.root"
    if "link" in case:
        assert "symbolic link" in str(error)


@pytest.mark.parametrize("manifest", ["", "/abs.json", "../up.json", ".hidden.json", "a\n", None, 1])
def test_the_manifest_has_a_path_of_the_same_grammar(manifest: Any, tmp_path: Path) -> None:
    write(tmp_path)
    error = refused(BrowserAssets("m", tmp_path, manifest))
    assert (error.rule, "the manifest's path" in str(error)) == ("assets.path", True)


def test_a_manifest_that_is_a_link_is_refused(tmp_path: Path) -> None:
    write(tmp_path, name="real.json")
    (tmp_path / "ui_manifest.json").symlink_to("real.json")
    assert refused(BrowserAssets("m", tmp_path)).rule == "assets.symlink"


def test_a_manifest_that_is_missing_is_refused(tmp_path: Path) -> None:
    assert refused(BrowserAssets("m", tmp_path)).rule == "assets.missing"


@pytest.mark.parametrize(("size", "fits"), [(MAX_MANIFEST_BYTES, True), (MAX_MANIFEST_BYTES + 1, False)])
def test_the_size_of_the_manifest(size: int, fits: bool, tmp_path: Path) -> None:
    assets = write(tmp_path, json.dumps(GOOD).encode().ljust(size))
    if fits:
        assert load_assets(assets).entry == "static/index.mjs"
    else:
        assert refused(assets).rule == "assets.manifest_size"


def sparse(root: Path, name: str, size: int) -> None:
    with (root / name).open("wb") as file:
        file.truncate(size)


def test_the_size_of_all_files(tmp_path: Path) -> None:
    names = [f"f{n}.wasm" for n in range(4)]
    (tmp_path / "a.js").write_bytes(b"")
    for name in names:
        sparse(tmp_path, name, MAX_FILE_BYTES)
    manifest = {"schema_version": 1, "entry": "a.js", "files": [*names, "a.js"]}
    (tmp_path / "ui_manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    snapshot = load_assets(BrowserAssets("m", tmp_path))
    assert sum(map(len, snapshot.files.values())) == 16 * 1024 * 1024
    (tmp_path / "a.js").write_bytes(b"1")
    error = refused(BrowserAssets("m", tmp_path))
    assert (error.rule, "a.js" in str(error)) == ("assets.total_size", True)


@pytest.mark.parametrize("as_text", [True, False])
def test_a_good_manifest_gives_the_bytes_of_exactly_the_listed_files(as_text: bool, tmp_path: Path) -> None:
    assets = write(tmp_path)
    (tmp_path / "unlisted.js").write_text("secret", encoding="utf-8")
    root: Any = str(tmp_path) if as_text else tmp_path
    snapshot = load_assets(BrowserAssets(assets.module, root))
    assert dict(snapshot.files) == {
        "static/index.mjs": b"export default 1;",
        "static/styles.css": b"body {}",
        "logo-1_a.svg": b"<svg/>",
    }
    assert (snapshot.module, snapshot.entry) == ("my-module", "static/index.mjs")
    with pytest.raises(TypeError):
        snapshot.files["x"] = b""  # type: ignore[index]
    assert snapshot.media_type("static/styles.css") == "text/css"
    with pytest.raises(KeyError):
        snapshot.media_type("unlisted.js")


def test_a_manifest_in_a_folder_lists_paths_from_the_root(tmp_path: Path) -> None:
    (tmp_path / "dist").mkdir()
    write(tmp_path)
    (tmp_path / "dist" / "m.json").write_text(json.dumps(GOOD), encoding="utf-8")
    assert load_assets(BrowserAssets("m", tmp_path, "dist/m.json")).entry == "static/index.mjs"


def test_the_files_are_not_read_again(tmp_path: Path) -> None:
    snapshot = load_assets(write(tmp_path))
    (tmp_path / "static" / "index.mjs").write_text("changed", encoding="utf-8")
    assert snapshot.files["static/index.mjs"] == b"export default 1;"


def test_a_root_below_a_link_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "real" / "package").mkdir(parents=True)
    (tmp_path / "env").symlink_to("real")
    write(tmp_path / "real" / "package")
    assert load_assets(BrowserAssets("m", tmp_path / "env" / "package")).entry == "static/index.mjs"


class TestRevision:
    def test_it_is_the_same_for_the_same_content(self, tmp_path: Path) -> None:
        one, other = tmp_path / "one", tmp_path / "other"
        one.mkdir()
        other.mkdir()
        revision = load_assets(write(one)).revision
        assert re.fullmatch(r"[0-9a-f]{64}", revision)
        assert load_assets(write(other)).revision == revision

    def test_content_manifest_and_path_each_change_it(self, tmp_path: Path) -> None:
        seen = {load_assets(write(tmp_path)).revision}
        (tmp_path / "logo-1_a.svg").write_text("<svg />", encoding="utf-8")
        seen.add(load_assets(BrowserAssets("m", tmp_path)).revision)
        (tmp_path / "ui_manifest.json").write_text(json.dumps(GOOD, indent=1), encoding="utf-8")
        seen.add(load_assets(BrowserAssets("m", tmp_path)).revision)
        (tmp_path / "logo-1_a.svg").rename(tmp_path / "logo.svg")
        renamed = changed(files=["static/index.mjs", "static/styles.css", "logo.svg"])
        (tmp_path / "ui_manifest.json").write_text(json.dumps(renamed, indent=1), encoding="utf-8")
        seen.add(load_assets(BrowserAssets("m", tmp_path)).revision)
        assert len(seen) == 4

    def test_content_that_moves_between_neighbours_changes_it(self, tmp_path: Path) -> None:
        manifest = {"schema_version": 1, "entry": "a.js", "files": ["a.js", "b.js"]}
        (tmp_path / "ui_manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        seen = set()
        for first, second in (("1b.js2", ""), ("1", "2b.js"), ("", "1b.js2b.js")):
            (tmp_path / "a.js").write_text(first, encoding="utf-8")
            (tmp_path / "b.js").write_text(second, encoding="utf-8")
            seen.add(load_assets(BrowserAssets("m", tmp_path)).revision)
        assert len(seen) == 3


def test_the_accepted_types_are_exactly_the_documented_ones() -> None:
    assert set(MEDIA_TYPES) == {
        ".js", ".mjs", ".css", ".json", ".map", ".wasm", ".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg",
        ".ico", ".woff", ".woff2", ".ttf", ".otf",
    }  # fmt: skip


@pytest.mark.parametrize("ending", MEDIA_TYPES)
def test_every_accepted_type_loads(ending: str, tmp_path: Path) -> None:
    name = f"other{ending}"
    (tmp_path / name).write_bytes(b"x")
    assert name in load_assets(write(tmp_path, listed(name))).files


def test_256_files_are_accepted() -> None:
    paths = [f"f{n}.js" for n in range(256)]
    entry, files = parse_manifest(json.dumps(changed(entry="f0.js", files=paths)).encode())
    assert (entry, list(files)) == ("f0.js", paths)


@given(st.text(alphabet="aZ0_-./\\ä \n", max_size=12))
@settings(max_examples=200, deadline=None)
def test_the_path_grammar(path: str) -> None:
    path += ".js"
    segments = path.split("/")
    valid = all(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", segment) for segment in segments)
    manifest = json.dumps({"schema_version": 1, "entry": path, "files": [path]}).encode()
    if valid:
        assert parse_manifest(manifest) == (path, (path,))
    else:
        with pytest.raises(InvalidContribution):
            parse_manifest(manifest)


@given(st.binary(max_size=60))
@settings(max_examples=100, deadline=None)
def test_no_manifest_ends_in_another_error(manifest: bytes) -> None:
    with pytest.raises(InvalidContribution):
        parse_manifest(manifest)


def test_no_file_stays_open(tmp_path: Path) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("the system does not list open files")
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    assets, broken = write(good), [write(bad, listed("static/missing.js"))]
    for name, (prepare, _) in enumerate(BAD_FILES.values()):
        (root := bad / str(name)).mkdir()
        broken.append(write(root, listed("a.js")))
        prepare(root)
    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        load_assets(assets)
        for each in broken:
            refused(each)
    assert len(set(os.listdir("/proc/self/fd"))) == len(before)  # noqa: PTH208


def test_a_refusal_reaches_the_install_function(tmp_path: Path) -> None:
    assets = write(tmp_path, changed(schema_version=True))
    with pytest.raises(InvalidContribution) as raised:
        FakeRegistry().plugin(PluginContribution("a", "A", frontend=assets))
    assert raised.value.rule == "assets.schema_version"
