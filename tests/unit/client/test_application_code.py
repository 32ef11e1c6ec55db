from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable
from contextvars import ContextVar

import pytest

from pocketmq.client.application_code import ApplicationFunction, Raised, is_coroutine_function


class CallableObject:
    async def __call__(self, value: int) -> int:
        return value + 1


async def add_one(value: int) -> int:
    return value + 1


def gives_a_coroutine(value: int) -> Awaitable[int]:
    return add_one(value)


def test_what_is_a_coroutine_function() -> None:
    assert is_coroutine_function(add_one)
    assert is_coroutine_function(CallableObject())
    assert is_coroutine_function(functools.partial(add_one, 1))
    assert not is_coroutine_function(gives_a_coroutine)
    assert not is_coroutine_function(abs)


async def test_all_kinds_give_their_results() -> None:
    for function in (add_one, CallableObject(), lambda v: v + 1, gives_a_coroutine):
        called = ApplicationFunction(function, 1)
        assert await called.call(1) == 2
        called.close()


async def test_a_thread_sees_the_context_variables_of_its_caller() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nothing")
    called = ApplicationFunction(variable.get, 1)
    for value in ("one", "two"):
        variable.set(value)
        assert await called.call() == value
    called.close()


async def test_an_exception_is_a_result_too() -> None:
    error = ValueError("no")

    async def later() -> None:
        raise error

    def now() -> None:
        raise error

    for function in (later, now):
        called = ApplicationFunction(function, 1)
        assert await called.call() == Raised(error)
        called.close()


@pytest.mark.parametrize("error", [StopIteration, GeneratorExit])
async def test_what_cannot_be_awaited_is_an_exception_as_well(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    called = ApplicationFunction(fail, 1)
    raised = await called.call()
    assert isinstance(raised, Raised)
    assert isinstance(raised.error.__cause__, error)
    called.close()


async def test_plain_functions_share_so_many_threads() -> None:
    barrier = threading.Barrier(3)
    called = ApplicationFunction(barrier.wait, 3)
    assert sorted(await asyncio.gather(*(called.call() for _ in range(3)))) == [0, 1, 2]
    called.close()
