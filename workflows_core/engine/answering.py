"""Settling a control row in the transaction of its effect.

A control that another process posted is applied and then settled. Where the owner dies between the two, the next
owner applies it again; a command whose repetition would not find its own effect settles the row together with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from ..store.base import WorkflowStore
from .requests import Outcome

_APPLYING: ContextVar[int | None] = ContextVar("_APPLYING", default=None)


@contextmanager
def applying(row_id: int) -> Iterator[None]:
    """Commands called inside answer the control row ``row_id``."""
    token = _APPLYING.set(row_id)
    try:
        yield
    finally:
        _APPLYING.reset(token)


def control() -> int | None:
    """The control row that is being applied, where there is one."""
    return _APPLYING.get()


@contextmanager
def answered(store: WorkflowStore, outcome: Outcome) -> Iterator[None]:
    """The commit inside also settles the control that is being applied, where there is one, with ``outcome``.

    Nothing inside may await: the next commit of the store is the one.
    """
    row_id = _APPLYING.get()
    if row_id is None:
        yield
        return
    with store.settling(row_id, msgspec.to_builtins(outcome)):
        yield
