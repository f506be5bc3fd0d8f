"""Highlighting on demand gives what a query of the whole tree gives, whichever rows are asked for first."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style
from textual._text_area_theme import TextAreaTheme
from textual.widgets import TextArea
from tree_sitter import QueryCursor

from workbench.tui.widgets.editor_document import EditorDocument
from workbench.tui.widgets.editor_highlight import CHUNK, Grammar, Highlights, Span, editor_theme, grammar

WORKFLOW = """\
const evidence = await agent({stepId: 'evidence', agentRef: 'lead_agent', task: args.product});
/* a comment
   over three
   lines */
const f =
  // far away
  (x, {FOO, bar = `nested ${'a' + `b ${x} c`} end`}) => x ** 2 ?? /re[a-z]+/giu.test("s\\n");
async function* go() { for await (const PI of [1, 2n, 0xff]) yield* other(PI, ...args.rest); }
object.property.method = function () { return this.x?.y ?? null; };
const text = `first
second ${round +
  1} third
${evidence.output} last`;
return {total, async run() { try { throw new Error('x') } catch { log("caught") } }};
"""
BROKEN = "const a = {b: [1, 2\nawait agent({stepId: `x\n'unclosed\nfoo(\n" * 3
UNICODE = "const größe = '日本語'; // 🎉 \u202e\nlet é = `ü${é}ß\nö${größe}`;\n" * 30
JSON = '{"a": [1, -2.5e3, true, null],\n "b\\u0041": {"c": "d\\n"},\n "broken": \n' * 20

SCRIPTS = {
    "workflow": WORKFLOW,
    "long": WORKFLOW * 15,
    "one template over 200 lines": "const a = `\n" + "line ${x}\n" * 200 + "`;\n" + WORKFLOW,
    "broken": BROKEN * 10,
    "unicode": UNICODE,
    "empty": "",
}


def _queries() -> dict[str, Grammar]:
    language = grammar("javascript").language
    return {
        "ours": grammar("javascript"),
        "textual's": Grammar(language, TextArea._get_builtin_highlight_query("javascript")),
    }


def _whole(document: EditorDocument, of: Grammar) -> dict[int, list[Span]]:
    """Every row's highlights from one query of the whole tree, in pattern order."""
    assert document.tree is not None
    rows: dict[int, list[Span]] = {row: [] for row in range(document.line_count)}
    captures = QueryCursor(of.query).captures(document.tree.root_node)
    for name in sorted(captures, key=of.order.__getitem__):
        for node in captures[name]:
            for row in range(node.start_point[0], node.end_point[0] + 1):
                start = node.start_point[1] if row == node.start_point[0] else 0
                end = node.end_point[1] if row == node.end_point[0] else None
                if start != end:
                    rows[row].append((start, end, name))
    return rows


@pytest.mark.parametrize("query", ["ours", "textual's"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_line_equals_the_full_query_whatever_is_asked_first(name: str, query: str) -> None:
    of = _queries()[query]
    document = EditorDocument(SCRIPTS[name], of.language)
    whole = _whole(document, of)
    order = list(whole)
    random.Random(name).shuffle(order)
    lazy = Highlights(document, of)
    for row in order:
        assert sorted(lazy[row], key=repr) == sorted(whole[row], key=repr), row
        assert _painted(document[row], lazy[row]) == _painted(document[row], whole[row]), row


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_line_holds_what_textual_finds(name: str) -> None:
    """The stock editor's own map, line by line: the same highlights, in an order that depends on the rest."""
    stock = TextArea(SCRIPTS[name])
    document = EditorDocument(SCRIPTS[name], grammar("javascript").language)
    of = _queries()["textual's"]
    stock.document, stock._highlight_query = document, of.query
    document.query_syntax_tree = lambda query: QueryCursor(query).captures(document.tree.root_node)  # type: ignore
    stock._build_highlight_map()
    lazy = Highlights(document, of)
    for row in range(document.line_count):
        found = [span for span in stock._highlights.get(row, ()) if span[0] != span[1]]
        assert sorted(lazy[row], key=repr) == sorted(found, key=repr), row


def test_json_highlights_equal_the_full_query() -> None:
    of = grammar("json")
    document = EditorDocument(JSON, of.language)
    whole = _whole(document, of)
    lazy = Highlights(document, of)
    for row, spans in whole.items():
        assert sorted(lazy[row], key=repr) == sorted(spans, key=repr), row


PIECES = [
    "`",
    "${",
    "}",
    "{",
    "'",
    '"',
    "/*",
    "*/",
    "//",
    "\n",
    "\n\n",
    " ",
    "x",
    "=>",
    "(",
    ")",
    "agent",
    "1",
    ": ",
    ",",
]


@given(
    st.sampled_from(["workflow", "broken", "unicode", "json"]),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 40), st.sampled_from(PIECES)), max_size=8),
    st.data(),
)
@settings(max_examples=120, deadline=None)
def test_after_edits_every_row_equals_the_full_query_although_few_are_queried_again(
    name: str, edits: list[tuple[int, int, str]], data: st.DataObject
) -> None:
    of = grammar("json" if name == "json" else "javascript")
    document = EditorDocument(JSON[:900] if name == "json" else SCRIPTS[name][:1_500], of.language)
    lazy = Highlights(document, of)
    document.on_replaced = lambda edit: lazy.follow(edit.start[0], edit.end[0], edit.new_end[0], edit.changed)
    for at, length, piece in edits:
        for row in data.draw(st.lists(st.integers(0, document.line_count - 1), max_size=3)):
            assert lazy[row] is not None
        row = at % document.line_count
        column = at % (len(document[row]) + 1)
        end = (row + length - 29, 1) if length >= 30 else (row, column + length)
        document.replace_range((row, column), end, piece)
    for row, spans in _whole(document, of).items():
        assert _painted(document[row], lazy[row]) == _painted(document[row], spans), row


def test_a_letter_in_a_line_asks_again_for_that_line_only() -> None:
    of = grammar("javascript")
    document = EditorDocument(WORKFLOW * 5, of.language)
    lazy = Highlights(document, of)
    document.on_replaced = lambda edit: lazy.follow(edit.start[0], edit.end[0], edit.new_end[0], edit.changed)
    assert lazy[0] and lazy[40] is not None
    filled = set(lazy._rows)
    document.replace_range((0, 7), (0, 7), "x")
    assert filled - set(lazy._rows) == {0}
    document.replace_range((0, 0), (0, 0), "\n")
    assert filled - {max(filled)} <= {*lazy._rows, 0, 1}


def test_only_the_rows_asked_for_are_queried() -> None:
    of = grammar("javascript")
    document = EditorDocument("const a = 1;\n" * 1_000, of.language)
    lazy = Highlights(document, of)
    assert lazy[700]
    assert set(lazy._rows) == set(range(700 - 700 % CHUNK, 700 - 700 % CHUNK + CHUNK))
    assert len(lazy) == document.line_count
    assert lazy[document.line_count + 5] == ()


def test_a_plain_text_has_no_highlights() -> None:
    assert Highlights(EditorDocument("const a = 1;"), None)[0] == ()


def test_code_in_a_template_is_not_shown_as_a_string() -> None:
    line = "log(`a ${b + 'c'} d`)"
    document = EditorDocument(line, grammar("javascript").language)
    painted = _painted(line, Highlights(document, grammar("javascript"))[0])
    assert [painted[line.index(char)] for char in ("a", "b", "c", "d", "$", "l")] == [
        "string",
        "",
        "string",
        "string",
        "keyword",
        "api",
    ]


@pytest.mark.parametrize(("dark", "ansi"), [(True, False), (False, False), (True, True)])
def test_every_capture_has_a_colour_in_every_theme(dark: bool, ansi: bool) -> None:
    theme: TextAreaTheme = editor_theme(dark, ansi)
    for name in (*grammar("javascript").order, *grammar("json").order):
        assert isinstance(theme.syntax_styles[name], Style)


def _painted(line: str, spans: list[Span] | tuple[Span, ...]) -> list[str]:
    """The capture that wins at each byte."""
    cells = [""] * (len(line.encode()) + 1)
    for start, end, name in spans:
        for at in range(start, len(cells) if end is None else end):
            cells[at] = name
    return cells
