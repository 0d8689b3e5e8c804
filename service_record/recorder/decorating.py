"""Record each call of a decorated function. Loaded only by services that use decorators."""

from __future__ import annotations

from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator
    from contextlib import AbstractContextManager
    from typing import Any, TypeVar

    Function = TypeVar("Function", bound=Callable[..., Any])


def decorate(  # noqa: C901  # one wrapper for each kind of function
    make_recording: Callable[[], AbstractContextManager[object]], function: Function
) -> Function:
    """Return a function that does what `function` does, and records each call with a recording of its own."""
    from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction

    def record_call(*arguments: Any, **named: Any) -> Any:
        with make_recording():
            return function(*arguments, **named)

    async def record_coroutine(*arguments: Any, **named: Any) -> Any:
        with make_recording():
            return await function(*arguments, **named)

    def record_generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
        with make_recording():
            return (yield from function(*arguments, **named))

    async def record_async_generator(*arguments: Any, **named: Any) -> AsyncIterator[Any]:
        with make_recording():
            generator = function(*arguments, **named)
            try:
                # An asynchronous generator has no `yield from`: values and exceptions are passed on by hand.
                value = await _next_value(anext(generator))
                while value is not _EXHAUSTED:
                    try:
                        sent = yield value
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001  # whatever was thrown in is the function's
                        value = await _next_value(generator.athrow(error))
                    else:
                        value = await _next_value(generator.asend(sent))
            finally:
                await generator.aclose()

    recorded: Any = record_call
    if iscoroutinefunction(function):
        recorded = record_coroutine
    elif isgeneratorfunction(function):
        recorded = record_generator
    elif isasyncgenfunction(function):
        recorded = record_async_generator
    wrapped: Any = wraps(function)(recorded)
    return wrapped  # type: ignore[no-any-return]  # it is typed as the function itself


_EXHAUSTED = object()


async def _next_value(step: Any) -> Any:
    try:
        return await step
    except StopAsyncIteration:
        return _EXHAUSTED
