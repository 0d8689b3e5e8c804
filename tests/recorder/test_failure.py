"""Failures described from exceptions."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from service_record import Failure
from service_record.recorder.failure import MAX_FRAMES, describe_exception, is_own_code
from tests.builders import require

THIS_FILE = str(Path(__file__))


def raised(action: Callable[[], object]) -> BaseException:
    try:
        action()
    except BaseException as error:  # noqa: BLE001  # SystemExit and KeyboardInterrupt are what is tested
        return error
    raise AssertionError("nothing was raised")


def failure_from(action: Callable[[], object]) -> Failure:
    return require(describe_exception(raised(action)))


def refuse() -> None:
    raise ConnectionRefusedError("port 6443")  # the line that fails


def give_up() -> None:
    try:
        refuse()
    except OSError as error:
        raise RuntimeError("the API did not come up") from error


def descend(depth: int) -> None:
    if depth == 0:
        refuse()
    descend(depth - 1)


def test_line_and_command_are_of_the_innermost_frame() -> None:
    failure = failure_from(refuse)
    line = refuse.__code__.co_firstlineno + 1

    assert failure.error_line == f"{line} refuse {THIS_FILE}"
    assert failure.command == 'raise ConnectionRefusedError("port 6443")  # the line that fails'
    assert failure.message == "ConnectionRefusedError: port 6443"


def test_stack_includes_callers_of_the_block() -> None:
    functions = [frame.split()[1] for frame in failure_from(refuse).stack]

    expected = test_stack_includes_callers_of_the_block.__name__
    assert functions[:4] == ["refuse", "raised", "failure_from", expected]


def test_deep_stack_keeps_its_innermost_frames() -> None:
    failure = failure_from(lambda: descend(100))

    assert len(failure.stack) == MAX_FRAMES
    assert failure.stack[0].split()[1] == "refuse"


def test_causes_precede_their_consequences() -> None:
    message = failure_from(give_up).message

    assert message == "ConnectionRefusedError: port 6443\nRuntimeError: the API did not come up"


def test_group_is_described_by_its_first_exception() -> None:
    def fail_together() -> None:
        raise BaseExceptionGroup("both nodes", [raised(refuse), ValueError("second")])

    failure = failure_from(fail_together)

    assert require(failure.error_line).split()[1] == "refuse"
    assert (
        failure.message == "ConnectionRefusedError: port 6443\nExceptionGroup: both nodes (2 sub-exceptions)"
    )


def test_group_of_exceptions_never_raised_has_its_own_line() -> None:
    def fail_together() -> None:
        raise ExceptionGroup("both nodes", [ValueError("first"), ExceptionGroup("", [KeyError("second")])])

    failure = failure_from(fail_together)

    assert require(failure.error_line).split()[1] == "fail_together"
    assert require(failure.message).startswith("ValueError: first")


def test_group_has_the_line_of_its_first_raised_exception() -> None:
    def fail_together() -> None:
        raise BaseExceptionGroup("both nodes", [ValueError("never raised"), raised(refuse)])

    assert require(failure_from(fail_together).error_line).split()[1] == "refuse"


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [(3, 3), (-1, 255), (True, 1), ("no disk", 1), (2.5, 1), (2**32 + 3, 3), (2**63, 255), (-(2**70), 255)],
    ids=["number", "negative", "true", "text", "anything-else", "33-bits", "64-bits", "71-bits"],
)
def test_system_exit_has_the_exit_status_of_the_process(code: object, exit_code: int) -> None:
    assert failure_from(lambda: sys.exit(code)).exit_code == exit_code  # type: ignore[arg-type]


@pytest.mark.parametrize("code", [None, 0, 256], ids=["none", "zero", "eight-bits-of-zero"])
def test_system_exit_with_status_zero_is_not_a_failure(code: int | None) -> None:
    assert describe_exception(raised(lambda: sys.exit(code))) is None


def test_keyboard_interrupt_has_the_signal_int() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    failure = failure_from(interrupt)

    assert (failure.signal, failure.exit_code, failure.message) == ("INT", None, "KeyboardInterrupt")


def test_exception_whose_text_fails_is_described() -> None:
    class Mute(Exception):  # noqa: N818
        def __str__(self) -> str:
            raise ValueError

    def fail() -> None:
        raise Mute

    failure = failure_from(fail)

    assert failure.error_line is not None
    assert require(failure.message).endswith("Mute: <its text cannot be shown>")


def test_long_text_keeps_its_type_and_its_end() -> None:
    def fail() -> None:
        raise ValueError("x" * 100_000 + "the end")

    message = failure_from(fail).message

    assert message is not None
    assert message.startswith("ValueError: \u2026xxx")
    assert message.endswith("the end")
    assert len(message) < 3000


def run_missing_program() -> None:
    subprocess.run(["/no/such/program"], check=True)


def test_line_is_in_own_code_below_a_library() -> None:
    failure = failure_from(run_missing_program)
    line = run_missing_program.__code__.co_firstlineno + 1

    assert failure.error_line == f"{line} run_missing_program {THIS_FILE}"
    assert failure.command == 'subprocess.run(["/no/such/program"], check=True)'
    assert "subprocess.py" in failure.stack[0]
    assert failure.error_line in failure.stack


def test_deep_library_leaves_room_for_callers(tmp_path: Path) -> None:
    library = tmp_path / "site-packages" / "deep.py"
    library.parent.mkdir()
    library.write_text("def descend(depth):\n    return descend(depth - 1) if depth else 1 / 0\n")
    deep = runpy.run_path(str(library))["descend"]
    failure = failure_from(lambda: deep(100))

    assert failure.error_line is not None
    assert failure.error_line.endswith(f"<lambda> {THIS_FILE}")
    assert len(failure.stack) == MAX_FRAMES
    assert failure.stack.index(failure.error_line) < MAX_FRAMES - 2


@pytest.mark.parametrize(
    ("file", "home", "expected"),
    [
        ("/usr/local/bin/job", None, True),
        ("/opt/job/steps.py", "/opt/job/main.py", True),
        (subprocess.__file__, "/opt/job/main.py", False),
        ("/usr/lib/python3/dist-packages/requests/api.py", "/opt/job/main.py", False),
        (
            "/v/lib/python3.11/site-packages/requests/api.py",
            "/v/lib/python3.11/site-packages/job/a.py",
            False,
        ),
        ("/v/lib/python3.11/site-packages/job/b.py", "/v/lib/python3.11/site-packages/job/a.py", True),
        (subprocess.__file__, subprocess.__file__, False),
        ("<string>", None, True),
    ],
)
def test_own_code_is_outside_of_libraries(file: str, home: str | None, expected: bool) -> None:
    assert is_own_code(file, home) is expected
