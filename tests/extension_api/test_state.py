"""ExtensionData under one thread and under many, and the bridge from a runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from extension_api import EXTENSION_TASK_STORE_KEY, ExtensionData, task_store_from_runtime


class Counter:
    def __init__(self) -> None:
        self.n = 0


class SubCounter(Counter):
    pass


def in_threads(count: int, work: Callable[[int], None]) -> None:
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run(index: int) -> None:
        try:
            barrier.wait(timeout=60)
            work(index)
        except BaseException as error:  # noqa: BLE001 - reported below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    assert not any(thread.is_alive() for thread in threads)


def test_a_value_is_kept_under_its_exact_type() -> None:
    store = ExtensionData("app")
    value = SubCounter()
    store.set(value)
    assert store.get(SubCounter) is value
    assert store.get(Counter) is None


def test_set_replaces_and_remove_returns() -> None:
    store = ExtensionData("app")
    first, second = Counter(), Counter()
    store.set(first)
    store.set(second)
    assert store.get(Counter) is second
    assert store.remove(Counter) is second
    assert store.remove(Counter) is None
    assert store.get(Counter) is None


def test_false_and_empty_values_are_values() -> None:
    store = ExtensionData("app")
    store.set(0)
    store.set("")
    assert store.get(int) == 0
    assert store.get_or_init(str, lambda: "other") == ""


def test_none_is_a_value_of_its_own_type() -> None:
    store = ExtensionData("app")
    store.set(None)
    calls: list[int] = []
    store.get_or_init(type(None), lambda: calls.append(1))
    assert calls == []


def test_get_or_init_makes_the_value_once() -> None:
    store = ExtensionData("app")
    made = store.get_or_init(Counter, Counter)
    assert store.get_or_init(Counter, Counter) is made
    assert store.get(Counter) is made


def test_a_failing_init_stores_nothing() -> None:
    store = ExtensionData("app")

    def fail() -> Counter:
        raise LookupError("no")

    with pytest.raises(LookupError):
        store.get_or_init(Counter, fail)
    assert store.get(Counter) is None
    assert isinstance(store.get_or_init(Counter, Counter), Counter)


def test_init_may_use_the_store_itself() -> None:
    store = ExtensionData("app")

    def init() -> Counter:
        store.get_or_init(int, lambda: 7)
        return Counter()

    store.get_or_init(Counter, init)
    assert store.get(int) == 7


def test_init_that_stores_its_own_type_does_not_lose_that_value() -> None:
    store = ExtensionData("app")
    inner = Counter()

    def init() -> Counter:
        store.set(inner)
        return Counter()

    assert store.get_or_init(Counter, init) is inner


def test_many_threads_share_one_initialization() -> None:
    store = ExtensionData("app")
    made: list[Counter] = []
    seen: list[Counter] = []

    def init() -> Counter:
        counter = Counter()
        made.append(counter)
        return counter

    in_threads(16, lambda _: seen.append(store.get_or_init(Counter, init)))
    assert len(made) == 1
    assert all(counter is made[0] for counter in seen)


def test_init_runs_under_the_lock() -> None:
    store = ExtensionData("app")
    inside, release, read = threading.Event(), threading.Event(), threading.Event()

    def init() -> Counter:
        inside.set()
        assert release.wait(timeout=60)
        return Counter()

    def reader() -> None:
        inside.wait(timeout=60)
        store.get(int)
        read.set()

    threads = [
        threading.Thread(target=lambda: store.get_or_init(Counter, init)),
        threading.Thread(target=reader),
    ]
    for thread in threads:
        thread.start()
    assert inside.wait(timeout=60)
    # The reader cannot get through while init holds the lock.
    assert not read.wait(timeout=0.05)
    release.set()
    for thread in threads:
        thread.join(timeout=60)
    assert read.is_set()


def test_removing_gives_the_value_to_exactly_one_thread() -> None:
    store = ExtensionData("app")
    store.set(Counter())
    got: list[Counter] = []

    def take(_: int) -> None:
        value = store.remove(Counter)
        if value is not None:
            got.append(value)

    in_threads(16, take)
    assert len(got) == 1


def test_writers_of_many_types_do_not_disturb_each_other() -> None:
    store = ExtensionData("app")
    types: list[type[Any]] = [type(f"T{index}", (), {}) for index in range(8)]

    def work(index: int) -> None:
        for _ in range(200):
            value = types[index]()
            store.set(value)
            assert store.get(types[index]) is value
            assert store.remove(types[index]) is value

    in_threads(8, work)


def test_the_scope_id_cannot_be_assigned() -> None:
    with pytest.raises(AttributeError):
        ExtensionData("app").scope_id = "other"  # type: ignore[misc]


class TestTaskStoreFromRuntime:
    def test_the_store_of_the_live_task(self) -> None:
        store = ExtensionData("task-1")
        assert task_store_from_runtime(SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: store})) is store

    @pytest.mark.parametrize(
        "runtime",
        [
            None,
            object(),
            SimpleNamespace(context=None),
            SimpleNamespace(context={}),
            SimpleNamespace(context=[EXTENSION_TASK_STORE_KEY]),
            SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: None}),
            SimpleNamespace(context={EXTENSION_TASK_STORE_KEY: {"a": 1}}),
            {EXTENSION_TASK_STORE_KEY: ExtensionData("x")},
        ],
    )
    def test_none_where_no_task_is_live(self, runtime: object) -> None:
        assert task_store_from_runtime(runtime) is None
