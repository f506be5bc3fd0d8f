"""Generated scripts: every statement form, in every layout that JavaScript allows, ending by itself."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial

_MARK = "note"


class Generator:
    """Writes one script from a seed. It tells what it computes with ``note`` and asks Agents on its way."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.names: list[list[str]] = [["a", "b", "c"]]
        self.count = 0
        self.calls = 0
        self.labels: list[tuple[str, bool]] = []
        self.loops = 0
        self.is_async = True

    def script(self) -> str:
        head = self.rng.choice(
            ["", "'use strict'\n", '"use strict";', "'a'; 'directive'\n", "/* c */ 'use strict' // d\n"]
        )
        body = self.lines(self.rng.randint(4, 9), 3)
        return (
            f"{head}const out = []\nconst note = (...v) => {{ for (const x of v) out.push(x); return v[0] }}\n"
            f"let a = 1, b = [3, 1, 2], c = {{x: 1, y: {{z: 2}}}}\n{body}\nreturn out"
        )

    # -- layout

    def gap(self) -> str:
        return self.rng.choice([" ", " ", " ", "  ", "\n", " /* g */ ", " // g\n", "\n\n\t", " /* g\n */ "])

    def end(self) -> str:
        return self.rng.choice([";", ";", ";", "\n", " // e\n", "; /* e */", "\n/* e */\n", ";;"])

    def fresh(self) -> str:
        self.count += 1
        return self.rng.choice(["v", "e", "of", "get", "async", "π", "$x_", "let_", "P"]) + str(self.count)

    def name(self) -> str:
        return self.rng.choice([name for scope in self.names for name in scope])

    def lines(self, number: int, depth: int) -> str:
        return "".join(self.statement(depth) for _ in range(number))

    def block(self, depth: int, *declared: str) -> str:
        self.names.append([*declared])
        text = self.lines(self.rng.randint(0, 3), depth - 1)
        self.names.pop()
        return "{" + self.gap() + text + "}"

    def body(self, depth: int, *declared: str) -> str:
        """A body that may lack its braces."""
        if depth > 0 and self.rng.random() < 0.5:
            return self.block(depth, *declared)
        self.names.append([*declared])
        text = self.simple(depth)
        self.names.pop()
        return text

    def branch(self, depth: int) -> str:
        """A body before an ``else``, which a second semicolon would cut off."""
        return re.sub(r";;\s*$", ";", self.body(depth))

    # -- expressions

    def value(self, depth: int = 2) -> str:
        rng = self.rng
        if depth <= 0:
            return rng.choice(
                [self.name(), str(rng.randint(0, 9)), "'s'", "`t`", "true", "null", "/r[/]/g.source"]
            )
        inner = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: self.name(),
            lambda: f"({self.value(inner)}, {self.value(inner)})",
            lambda: f"{self.value(inner)} ? {self.value(inner)} : {self.value(inner)}",
            lambda: f"[{self.value(inner)},, ...[{self.value(inner)}]]",
            lambda: (
                f"({{k: {self.value(inner)}, ['d' + 1]: 2, m() {{ return this.k }}, get g() {{ return {self.plain(inner)} }}}}).g"
            ),
            lambda: f"`x${{{self.value(inner)}}}y${{(() => {{ return {self.plain(inner)} }})()}}`",
            lambda: f"(p => p)({self.value(inner)})",
            lambda: f"((p = {self.plain(inner)}, {{q}} = {{q: 2}}, ...r) =>{self.gap()}({{p, q, r}}))()",
            lambda: f"(x => y =>{self.gap()}[x, y])({self.value(inner)})(1)",
            lambda: "(function f(n) { if (n > 2) return n; else return f(n + 1) })(0)",
            lambda: f"c?.y?.z ?? {self.value(inner)}",
            lambda: f"typeof {self.name()}",
            lambda: f"[3, 1, 2].map((n, i) => n * i){self.gap()}.length",
            lambda: f"String.raw`r${{{self.value(inner)}}}`",
            lambda: (
                f"[...(function* () {{ yield 1; const got = yield* [{self.plain(inner)}]; return 3 }})()].length"
            ),
            lambda: (
                "new (class { #h = 1; s = () => this.#h; static t = 2; get g() { return this.s() } })().g"
            ),
        ]
        if self.is_async:
            forms += [
                lambda: f"(await (async () => {self.value(inner)})())",
                lambda: f"await {self.value(0)}",
            ]
        return "(" + rng.choice(forms)() + ")"

    def plain(self, depth: int) -> str:
        """An expression for the inside of a function that may not await."""
        kept, self.is_async = self.is_async, False
        text = self.value(depth)
        self.is_async = kept
        return text

    def ask(self) -> str:
        self.calls += 1
        if self.calls > 6:
            return f"log('s{self.calls}')" if self.calls < 16 else "0"
        # A loop may come here again: the duplicate is refused by the worker, and caught here.
        step = f"agent({{stepId: 's{self.calls}', agentRef: 'lead_agent', task: {{n: out.length, v: {self.value(1)} ?? null}}}})"
        return f"(await (async () => {{ try {{ return (await {step}).output.n }} catch (e) {{ return e.code }} }})())"

    # -- statements

    def simple(self, depth: int) -> str:
        rng = self.rng
        forms: list[Callable[[], str]] = [
            lambda: f"{_MARK}({self.value()}){self.end()}",
            lambda: f"{_MARK}({self.value()}), a++{self.end()}",
            lambda: f"a = {self.value()}{self.end()}",
            lambda: f"b{self.gap()}={self.gap()}[{self.value()}]{self.end()}",
            lambda: "'not a directive'" + self.end(),
            lambda: ";",
        ]
        if self.is_async:
            forms += [lambda: f"{_MARK}({self.ask()}){self.end()}"] * 2
        if self.loops:
            forms += [lambda: f"continue{self.end()}", lambda: f"break{self.end()}"]
        for label, in_loop in self.labels:
            forms.append(partial(self.jump, "break", label))
            if in_loop:
                forms.append(partial(self.jump, "continue", label))
        if depth > 0:
            forms += [lambda: self.compound(depth - 1)] * 3
        return rng.choice(forms)()

    def jump(self, word: str, label: str) -> str:
        return f"{word} {label}{self.end()}"

    def statement(self, depth: int) -> str:
        rng = self.rng
        if rng.random() < 0.35:
            return self.declaration(depth)
        return self.gap().replace(" ", "", 1) + self.simple(depth)

    def declaration(self, depth: int) -> str:
        rng, name = self.rng, self.fresh()
        other = self.fresh()
        before = self.value()
        self.names[-1].append(name)
        choice = rng.randrange(7)
        if choice == 0:
            return f"let {name}{self.end()}{name} = {before}{self.end()}"
        if choice == 1:
            return f"const {{x: {name} = {before}, ...{other}}} = c, [{self.fresh()}, ,{self.fresh()} = 2] = [1, 2]{self.end()}"
        if choice == 2:
            return f"var {name} = {before}, {other} = () => {name}{self.end()}"
        if choice == 3:
            inner = self.function(depth, "n")
            return f"function {name}(n){self.gap()}{inner}\n{_MARK}(typeof {name}({before})){self.end()}"
        if choice == 4:
            return (
                f"class {name} {{ static {{ {_MARK}(1) }} constructor(v) {{ this.v = v }} "
                f"get w() {{ return this.v }} static async *g() {{ yield 1 }} }}\n"
                f"class {other} extends {name} {{ constructor() {{ {_MARK}('d'); super(2); {_MARK}(this.w) }} }}\n"
                f"{_MARK}(new {other}().v){self.end()}"
            )
        if choice == 5:
            return f"let {name} = function* () {{ for (const i of [1, 2]) yield i; if (a) return 4; else yield 5 }}{self.end()}{_MARK}([...{name}()].length){self.end()}"
        return f"const {name} = {before}{self.end()}"

    def function(self, depth: int, *parameters: str) -> str:
        kept = self.is_async, self.loops, self.labels
        self.is_async, self.loops, self.labels = False, 0, []
        text = "{ if (out.length > 400) return 0; " + self.block(min(depth, 1), *parameters) + " return n }"
        self.is_async, self.loops, self.labels = kept
        return text

    def looped(self, depth: int, *declared: str) -> str:
        self.loops += 1
        text = self.body(depth, *declared)
        self.loops -= 1
        return text

    def compound(self, depth: int) -> str:
        rng, name, gap = self.rng, self.fresh(), self.gap
        choice = rng.randrange(12)
        if choice == 0:
            text = f"if ({self.value()}){gap()}{self.branch(depth)}"
            return text + (f"\nelse{gap()}{self.body(depth)}" if rng.random() < 0.6 else "")
        if choice == 1:
            return f"if ({self.value()}) {{ {_MARK}(1) }} else if ({self.value()}){gap()}{self.branch(depth)}\nelse {{}}\n"
        if choice == 2:
            return f"for (let {name} = 0; {name} < 3; {name}++){gap()}{self.looped(depth, name)}"
        if choice == 3:
            return f"for (const {name} of [1, 2]){gap()}{self.looped(depth, name)}"
        if choice == 4:
            return f"for (var {name} in {{x: 1, y: 2}}){gap()}{self.looped(depth, name)}"
        if choice == 5:
            self.loops += 1
            inner = self.block(depth)
            self.loops -= 1
            return f"for (let {name} = 0; {name}++ < 2;){gap()}do {{ {_MARK}({name}); if ({name}) break; {inner[1:]} while (false)\n"
        if choice == 6:
            inner = self.value()
            return f"{{ let {name} = 2{self.end()}do{gap()}{_MARK}({name}, {inner}); while (--{name} > 0)\n}}"
        if choice == 7:
            return f"{{ let {name} = 2; while ({name}-- > 0){gap()}{self.looped(depth, name)}\n}}"
        if choice == 8:
            return (
                f"try{gap()}{self.block(depth)}{gap()}catch ({name}){gap()}{self.block(depth, name)}"
                if rng.random() < 0.5
                else f"try {{ if (a) throw {self.value()}; {_MARK}(0) }} catch {self.block(depth)} finally {self.block(depth)}"
            )
        if choice == 9:
            kept, self.loops = self.loops, 0
            text = (
                f"switch ({self.value()}) {{ case {self.value(1)}:{gap()}{self.lines(1, depth)} case 1: {{ {_MARK}(2) }} break\n"
                f"default: {_MARK}(3){self.end()} case 'x': {self.lines(1, depth)}}}"
            )
            self.loops = kept
            return text
        if choice == 10:
            label = f"L{self.count}"
            self.labels.append((label, True))
            text = f"{label}:{gap()}for (const {name} of [1, 2, 3]){gap()}{self.looped(depth, name)}"
            self.labels.pop()
            return text
        label = f"B{self.count}"
        self.labels.append((label, False))
        text = f"{label}:{gap()}{self.block(depth)}\n"
        self.labels.pop()
        return text


def generated(seed: int) -> str:
    """The script of a seed; the same on every machine."""
    return Generator(seed).script()
