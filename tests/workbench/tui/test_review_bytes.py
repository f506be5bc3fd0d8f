"""Exact bytes as rows: every byte in exactly one row, nothing cut off, nothing hidden, nothing that acts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workbench.tui.fakes import FakeClient
from tests.workbench.tui.hostile import PAYLOADS, SAMPLE
from tests.workbench.tui.review_support import (
    application,
    approved_before,
    artifact,
    at_checkpoint,
    at_pause,
    client_of,
    detail,
    receipt,
    shown,
    unsettled,
)
from tests.workbench.tui.test_hostile import assert_nothing_acts
from workbench.inert import acts, cells, inert
from workbench.review import decided
from workbench.tui.app import WorkbenchApp
from workbench.tui.screens.review_dialogs import TextDialog
from workbench.tui.widgets.byte_rows import ByteRows, HexBytes, MarkdownBytes, TextBytes, breaks, visible
from workbench.tui.widgets.json_bytes import JsonBytes, JsonTokens, NotJson
from workbench.tui.widgets.review_rows import DecidedRows, compared_rows, lines_of, side_by_side
from workflows_core.model import LogLine

TEXTS = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text(alphabet=" ab\n\tжé漢\u0301\u202e", max_size=300).map(str.encode),
    st.lists(st.sampled_from(PAYLOADS), max_size=12).map(
        lambda parts: "\n".join(parts).encode("utf-8", "surrogatepass")
    ),
)
WIDTHS = st.integers(20, 110)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=25,
)


def drawn_text(rows: ByteRows, index: int, width: int) -> str:
    return "".join(span.text for span in rows.line(index, width))


def check(rows: ByteRows, width: int) -> None:
    """The rows tile the bytes, fit, act on nothing, and are found again by their bytes."""
    position = 0
    for index in range(len(rows)):
        start, end = rows.span(index)
        assert start == position and end >= start
        position = end
        text = drawn_text(rows, index, width)
        assert not acts(text)
        assert cells(text) <= width, (text, width)
        if end > start:
            assert rows.span(rows.row_at(start))[0] == start
    assert position == len(rows.data)


class TestTiles:
    @given(TEXTS, WIDTHS)
    @settings(max_examples=150, deadline=None)
    @pytest.mark.parametrize("layout", [TextBytes, MarkdownBytes, HexBytes])
    def test_every_byte_is_in_one_row_that_fits(
        self, layout: type[ByteRows], data: bytes, width: int
    ) -> None:
        check(layout(data, width), width)

    @given(JSON, WIDTHS, st.sampled_from([None, 1, "\t"]), st.booleans())
    @settings(max_examples=150, deadline=None)
    def test_json_trees_too(self, value: Any, width: int, indent: Any, escaped: bool) -> None:
        data = json.dumps(value, indent=indent, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
        try:
            tokens = JsonTokens(data)
        except NotJson:
            assert not escaped  # A lone surrogate that is not escaped is no UTF-8.
            return
        check(JsonBytes(tokens, width), width)

    @given(JSON, st.data())
    @settings(max_examples=80, deadline=None)
    def test_what_is_folded_is_in_no_row(self, value: Any, data: st.DataObject) -> None:
        document = json.dumps(value).encode()
        tokens = JsonTokens(document)
        opening = [line for line in range(len(tokens)) if tokens.closes[line] >= 0]
        folded = set(data.draw(st.lists(st.sampled_from(opening), max_size=3))) if opening else set()
        rows = JsonBytes(tokens, 60, folded)
        covered = {n for index in range(len(rows)) for n in range(*rows.span(index))}
        hidden = {n for line in folded for n in range(tokens.end(line), tokens.end(int(tokens.closes[line])))}
        assert covered == set(range(len(document))) - hidden
        for offset in hidden:
            assert rows.folds(offset)
            assert not acts(drawn_text(rows, rows.row_at(offset), 60))
        assert all(not rows.folds(offset) for offset in covered)

    @given(TEXTS, WIDTHS)
    @settings(max_examples=100, deadline=None)
    def test_breaking_goes_on_to_the_end(self, data: bytes, width: int) -> None:
        ends = list(breaks(data, 0, len(data), width))
        assert ends == sorted(ends) and ends[-1] == len(data)


class TestVisible:
    @pytest.mark.parametrize("payload", PAYLOADS)
    def test_i13_a_payload_is_seen_and_does_nothing(self, payload: str) -> None:
        data = payload.encode("utf-8", "surrogatepass")
        for layout in (TextBytes, MarkdownBytes, HexBytes):
            rows = layout(data, 80)
            text = "".join(drawn_text(rows, index, 80) for index in range(len(rows)))
            assert not acts(text)
            assert text.strip()
        document = json.dumps({payload: [payload]}).encode()
        tree = JsonBytes(JsonTokens(document), 80)
        assert not acts("".join(drawn_text(tree, index, 80) for index in range(len(tree))))

    @pytest.mark.parametrize(
        ("text", "seen"),
        [
            ("a\u202eb", "a\\u{202E}b"),
            ("a\u00a0b", "a\\u{00A0}b"),
            ("a\u2003b\u3000", "a\\u{2003}b\\u{3000}"),
            ("a\u2800b", "a\\u{2800}b"),
            ("a\tb\r", "a␉b␍"),
            ("a\u200bb", "a\\u{200B}b"),
            ("e\u0301", "e\u0301"),
            ("e\u0301\u0302\u0303\u0304", "e\u0301\u0302\\u{0303}\\u{0304}"),
            ("\udcff", "\\xFF"),
        ],
    )
    def test_what_hides_is_drawn_in_another_tone(self, text: str, seen: str) -> None:
        spans = visible(text)
        assert "".join(span.text for span in spans) == seen
        assert all(
            span.tone == "waiting" for span in spans if span.text.startswith(("\\u{", "\\x", "␉", "␍"))
        )

    def test_the_same_symbols_as_plain_text_look_different(self) -> None:
        assert [span.tone for span in visible("\\u{202E}")] == [""]
        assert [span.tone for span in visible("\u202e")] == ["waiting"]

    def test_spaces_at_the_end_of_a_line_are_drawn(self) -> None:
        rows = TextBytes(b"a  \nb", 40)
        assert drawn_text(rows, 0, 40).endswith("a··")
        assert rows.line(0, 40)[-1].tone == "waiting"

    def test_bytes_that_are_no_text(self) -> None:
        assert drawn_text(TextBytes(b"a\xff\xfeb", 40), 0, 40).endswith("a\\xFF\\xFEb")


class TestJson:
    def test_the_tree_keeps_every_token_as_it_is_written(self) -> None:
        data = b'{"b":1.50,"a":{"x":[],"y":[true,{}]},"s":"\\u202e\\n\\\\n end","b":2}'
        rows = JsonBytes(JsonTokens(data), 60)
        assert [drawn_text(rows, index, 60) for index in range(len(rows))] == [
            "▾ {",
            '    "b":1.50,',
            '  ▾ "a":{',
            '      "x":[],',
            '    ▾ "y":[',
            "        true,",
            "        {}",
            "      ]",
            "    },",
            '    "s":"\\u202e\\n',
            '      \\\\n end",',
            '    "b":2',
            "  }",
        ]

    @pytest.mark.parametrize(
        "data", [b"", b"{", b"NaN", b"[1,]", b"\xff", b"[" * 100_000 + b"]" * 100_000, b"\xef\xbb\xbf1"]
    )
    def test_what_is_no_json_is_refused(self, data: bytes) -> None:
        with pytest.raises(NotJson):
            JsonTokens(data)

    def test_a_very_deep_document_stays_in_the_width(self) -> None:
        data = b"[" * 300 + b'"' + b"x" * 200 + b'"' + b"]" * 300
        check(JsonBytes(JsonTokens(data), 60), 60)


class TestComparing:
    @given(st.lists(st.sampled_from("abcd"), max_size=20), st.lists(st.sampled_from("abcd"), max_size=20))
    @settings(max_examples=150, deadline=None)
    def test_both_versions_are_there_whole_and_in_order(self, old: list[str], new: list[str]) -> None:
        pairs = side_by_side(old, new)
        assert [pair.old for pair in pairs if pair.old] == [(n + 1, line) for n, line in enumerate(old)]
        assert [pair.new for pair in pairs if pair.new] == [(n + 1, line) for n, line in enumerate(new)]
        for pair in pairs:
            same = pair.old is not None and pair.new is not None and pair.old[1] == pair.new[1]
            assert not pair.same or same
        if old == new:
            assert all(pair.same for pair in pairs)

    @given(TEXTS, TEXTS, WIDTHS)
    @settings(max_examples=60, deadline=None)
    def test_nothing_acts_and_nothing_is_cut_off(self, old: bytes, new: bytes, width: int) -> None:
        pairs = side_by_side(
            lines_of(artifact(old, "text/plain")), lines_of(artifact(new, "application/json"))
        )
        width = max(48, width)
        rows = compared_rows(pairs, width, ("approved", "this"))
        for index in range(len(rows)):
            text = "".join(span.text for span in rows.line(index, width))
            assert not acts(text)
            assert cells(text) <= width

    def test_very_different_long_texts_end(self) -> None:
        old, new = [f"a{n}" for n in range(9_000)], [f"b{n}" for n in range(9_000)]
        assert len(side_by_side(old, new)) == 9_000


MakeApp = Callable[..., WorkbenchApp]
TALL = (150, 110)


def hostile_client(payloads: Sequence[str] = SAMPLE) -> FakeClient:
    """Every text of the screen that comes from outside is hostile."""
    everything = "\n".join(payloads)
    body = everything.encode("utf-8", "surrogatepass")
    exact = artifact(body, "text/\x1b[2Jplain", path="".join(payloads[:3]), step_id="\x1b[31mevidence")
    document = artifact(
        json.dumps({text: text for text in payloads if not _lone(text)}, ensure_ascii=False).encode()
    )
    loud = "evil \x1b]0;x\x07\u202e[red]"
    old = artifact(everything[::-1].encode("utf-8", "replace"), "text/plain")
    decision = receipt(
        "wr_0000000000000017",
        old,
        reason=everything,
        actor=dict.fromkeys(("user_id", "session_id", "mode", "description"), everything),
        review={"coverage": 1.0, "bytes": 3, "renderer": everything, "viewed_outside": everything},
    )
    pause = at_pause(name=loud)
    script = "".join(
        f"await agent({{stepId: {json.dumps(text)}, agentRef: 'a', task: 1}});\n" for text in payloads[:8]
    )
    return client_of(
        (at_checkpoint("wr_1", exact, name=loud, script="\n\n" + script), exact),
        (at_checkpoint("wr_2", document, name=loud), document),
        (at_pause("wr_3", name=loud, log=tuple(LogLine(1, text, 1, 1, 0) for text in payloads)), None),
        (unsettled("wr_4", name=loud, steps=tuple(_uncertain(text) for text in payloads)), None),
        (
            approved_before(exact=old).__class__(**_fields(approved_before(exact=old), receipts=(decision,))),
            old,
        ),
        (pause, None),
    )


def _lone(text: str) -> bool:
    """Whether a text has no form in UTF-8."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def _fields(view: Any, **changes: Any) -> dict[str, Any]:
    return {name: getattr(view, name) for name in view.__struct_fields__} | changes


def _uncertain(step_id: str) -> Any:
    step = unsettled().steps[0]
    return step.__class__(**_fields(step, step_id=step_id))


async def test_i13_the_whole_screen_with_hostile_text(make_app: MakeApp) -> None:
    app = application(make_app, hostile_client())
    async with app.run_test(size=TALL, notifications=True) as pilot:
        tabs = set()
        await shown(pilot, "home")
        for _ in app.book.waiting:
            await shown(pilot)
            for number in range(1, len(detail(app).tabs()) + 1):
                await shown(pilot, str(number))
                text = assert_nothing_acts(app)
                subject = detail(app).subject
                if subject is not None and detail(app).tab == "text" and subject.id.startswith("wr_1"):
                    assert [p for p in SAMPLE[:20] if inert(p)[:12] not in text] == []
                tabs.add(detail(app).tab)
            await shown(pilot, "down")
        await shown(pilot, "s")
        for digit in "123456":
            await shown(pilot, digit)
            assert_nothing_acts(app)
            tabs.add(detail(app).tab)
        assert tabs == {"tree", "markdown", "text", "hex", "compare", "receipt", "about"}
        await shown(pilot, "1")
        await pilot.press("E")
        await pilot.pause()
        assert isinstance(app.screen, TextDialog)
        assert_nothing_acts(app)
        app.screen.field.value = "".join(SAMPLE)
        await pilot.press("tab", "tab", "enter")
        await pilot.pause()
        assert_nothing_acts(app)


def test_i13_lists_of_decisions() -> None:
    view = hostile_client().views["wr_0000000000000017"]
    rows = DecidedRows(decided([view]), 0)
    assert not acts("".join(span.text for span in rows.line(0, 60)))
