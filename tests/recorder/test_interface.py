"""Decorators, attributes, the log handler and the fixture for pytest."""

import asyncio
import json
import logging
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Generator
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from pathlib import Path

import pytest

import service_record
from service_record import RecentLinesHandler
from service_record.history import build_history
from service_record.record.line import MAX_LINE_BYTES
from service_record.recorder.pytest_plugin import RecordedServices, service_records
from tests.programs import environment, read_entries, run_program, summarize_entries

__all__ = ["service_records"]  # a fixture, found by its name
SERVICE = Path(sys.executable).with_name("service-record")


def test_decorated_function_is_recorded_at_each_call(service_records: RecordedServices) -> None:
    @service_record.stage("double", by=2)
    def double(number: int, /, *, times: int = 1) -> int:
        """Return a multiple."""
        return number * 2 * times

    @service_record.service("job")
    def main() -> int:
        return double(3, times=2) + double(1)

    assert main() == 14
    assert double.__doc__ == "Return a multiple."
    entries = service_records.entries("job")
    stages = ["stage start double", "stage end double success"]
    assert summarize_entries(entries) == ["service start", *stages, *stages, "service end success"]
    assert entries[1].attributes == {"by": 2}


def test_failure_of_a_decorated_function_has_its_own_line(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        @service_record.stage("first")
        def fail():
            raise OSError("no disk")
        @service_record.service()
        def main():
            fail()
        main()
        """,
    )
    end = read_entries(tmp_path)[-1]
    file = tmp_path / "job.py"

    assert done.stderr.splitlines()[-1] == "OSError: no disk"
    assert end.error_line == f"4 fail {file}"
    assert end.stack == (f"4 fail {file}", f"7 main {file}", f"8 main {file}")


def test_decorated_function_records_its_recursion(service_records: RecordedServices) -> None:
    @service_record.stage("descend")
    def descend(depth: int) -> None:
        if depth:
            descend(depth - 1)

    with service_record.service("job"):
        descend(2)
    starts = [entry for entry in service_records.entries("job") if entry.phase == "stage start"]

    assert [entry.parent for entry in starts] == [None, starts[0].stage_id, starts[1].stage_id]


def test_decorated_coroutine_and_async_with(service_records: RecordedServices) -> None:
    @service_record.stage("wait")
    async def wait(name: str) -> str:
        await asyncio.sleep(0.001)
        return name

    async def serve() -> list[str]:
        async with service_record.service("job"), service_record.stage("outer"):
            return list(await asyncio.gather(wait("first"), wait("second")))

    assert iscoroutinefunction(wait)
    assert asyncio.run(serve()) == ["first", "second"]
    starts = [entry for entry in service_records.entries("job") if entry.phase == "stage start"]
    assert [entry.stage for entry in starts] == ["outer", "wait", "wait"]
    assert {entry.parent for entry in starts[1:]} == {starts[0].stage_id}


def test_decorated_generator_takes_values_and_exceptions(service_records: RecordedServices) -> None:
    @service_record.stage("echo")
    def echo() -> Generator[object, object, str]:
        received: object = "ready"
        while received != "end":
            try:
                received = yield received
            except ValueError as error:
                received = str(error)
        return "done"

    assert isgeneratorfunction(echo)
    with service_record.service("job"):
        generator = echo()
        assert next(generator) == "ready"
        assert generator.send("hello") == "hello"
        assert generator.throw(ValueError("caught")) == "caught"
        with pytest.raises(StopIteration, match="done"):
            generator.send("end")
    assert summarize_entries(service_records.entries("job"))[1:3] == [
        "stage start echo",
        "stage end echo success",
    ]


def test_decorated_async_generator_takes_values_and_exceptions(service_records: RecordedServices) -> None:
    cleaned_up = []

    @service_record.stage("echo")
    async def echo(limit: int) -> AsyncIterator[object]:
        received: object = "ready"
        try:
            for _ in range(limit):
                try:
                    received = yield received
                except ValueError as error:
                    received = str(error)
        finally:
            await asyncio.sleep(0)
            cleaned_up.append(limit)

    async def use() -> None:
        with service_record.service("job"):
            generator = echo(3)
            assert await anext(generator) == "ready"
            assert await generator.asend("hello") == "hello"  # type: ignore[attr-defined]  # a generator
            assert await generator.athrow(ValueError("caught")) == "caught"  # type: ignore[attr-defined]
            assert [each async for each in generator] == []
            assert [each async for each in echo(2)] == ["ready", None]
            closed = echo(9)
            await anext(closed)
            await closed.aclose()  # type: ignore[attr-defined]
            failing = echo(1)
            await anext(failing)
            with pytest.raises(KeyError):
                await failing.athrow(KeyError)  # type: ignore[attr-defined]

    assert isasyncgenfunction(echo)
    asyncio.run(use())
    assert cleaned_up == [3, 2, 9, 1]
    ends = [entry for entry in service_records.entries("job") if entry.phase == "stage end"]
    assert [(end.result, end.stop_request) for end in ends] == [
        *(("success", None), ("success", None), ("failure", "cancel"), ("failure", None))
    ]


def test_stage_joins_the_service_that_it_is_entered_in(service_records: RecordedServices) -> None:
    stage = service_record.stage("pull")
    for name in ("first", "second"):
        with service_record.service(name), stage:
            pass

    expected = ["service start", "stage start pull", "stage end pull success", "service end success"]
    assert [summarize_entries(service_records.entries(name)) for name in ("first", "second")] == [
        expected,
        expected,
    ]


def test_attributes_are_on_the_start_and_the_end(service_records: RecordedServices) -> None:
    with service_record.service("job") as job, service_record.stage("pull", image="quay.io/x") as pull:
        pull.set("layers", 7).set("image", "quay.io/y").set("ratio", 0.5)
        job.set("host", "master-0")
    entries = service_records.entries("job")

    assert entries[1].attributes == {"image": "quay.io/x"}
    assert entries[2].attributes == {"image": "quay.io/y", "layers": 7, "ratio": 0.5}
    run = build_history([("job", entries)]).services[0].runs[0]
    assert dict(run.stages[0].attributes) == entries[2].attributes
    assert dict(run.attributes) == {"host": "master-0"}


def test_attributes_do_not_reach_the_next_execution(service_records: RecordedServices) -> None:
    stage = service_record.stage("pull", image="quay.io/x").set("registry", "quay.io")
    with service_record.service("job"):
        with stage:
            stage.set("layers", 7)
        with stage:
            pass
    given = {"image": "quay.io/x", "registry": "quay.io"}

    assert [entry.attributes for entry in service_records.entries("job")[1:-1]] == [
        *(given, given | {"layers": 7}, given, given)
    ]


def test_stages_left_out_of_order_do_not_hang(service_records: RecordedServices) -> None:
    with service_record.service("job"):
        first, second = service_record.stage("first"), service_record.stage("second")
        first.__enter__()  # in no order that `with` allows
        second.__enter__()
        first.__exit__(None, None, None)
        first.__enter__()
        first.__exit__(None, None, None)
        second.__exit__(None, None, None)
        with service_record.stage("third"):
            pass
    entries = service_records.entries("job")

    assert [(entry.stage, entry.parent) for entry in entries[-3:-1]] == [("third", None), ("third", None)]


def test_invalid_attribute_does_not_lose_the_entry(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
        with service_record.service(), service_record.stage("pull", path=object()) as pull:
            pull.set("big", 2**70).set("none", None).set("nan", float("nan")).set("kept", True)
        """,
    )
    end = read_entries(tmp_path)[2]

    assert done.returncode == 0
    assert end.attributes == {"big": str(2**70), "nan": "nan", "kept": True}
    assert [line.split()[2] for line in done.stderr.splitlines()] == ["'path'", "'none'"]


def test_entry_with_many_attributes_keeps_its_limit(service_records: RecordedServices) -> None:
    with service_record.service("job"), service_record.stage("pull") as pull:
        for number in range(100):
            pull.set(f"key {number}", "x" * 100)
    line = (service_records.directory / "job.json").read_bytes().splitlines()[-2]
    end = service_records.entries("job")[2]

    assert 3900 < len(line) <= MAX_LINE_BYTES
    assert end.truncated
    assert (end.attributes or {})["key 0"] == "x" * 100


def test_readers_and_traces_show_attributes(service_records: RecordedServices) -> None:
    with service_record.service("job"), service_record.stage("pull", image="quay.io/x", layers=7, part=0.5):
        pass

    def run(*arguments: str) -> str:
        command = [str(SERVICE), *arguments, "--from", str(service_records.directory)]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout

    attributes = {"image": "quay.io/x", "layers": 7, "part": 0.5}
    shown = json.loads(run("show", "-o", "json"))
    assert shown["services"][0]["runs"][0]["stages"][0]["attributes"] == attributes
    assert "image=quay.io/x" in run("show", "-o", "wide")
    chrome = json.loads(run("export", "--to", "chrome-trace"))
    assert attributes in [event["args"].get("attributes") for event in chrome["traceEvents"]]
    spans = json.loads(run("export", "--to", "otlp"))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    values = {each["key"]: each["value"] for each in spans[1]["attributes"]}
    assert values["image"] == {"stringValue": "quay.io/x"}
    assert values["layers"] == {"intValue": "7"}
    assert values["part"] == {"doubleValue": 0.5}


def test_redaction_masks_values_of_attributes(service_records: RecordedServices, tmp_path: Path) -> None:
    with (
        service_record.service("job"),
        service_record.stage("pull", url="https://core:Hunter2secretX@quay.io/x"),
    ):
        pass
    bundle, unpacked = str(tmp_path / "bundle.tar.gz"), tmp_path / "unpacked"
    shutil.copytree(service_records.directory, unpacked / "bootstrap" / "services")
    redact = [str(SERVICE), "bundle", "--redact", str(unpacked), "--output", bundle]
    subprocess.run(redact, check=True, stdout=subprocess.DEVNULL)
    show = [str(SERVICE), "show", "-o", "json", "--from", bundle]
    shown = subprocess.run(show, check=True, stdout=subprocess.PIPE, text=True).stdout

    assert "quay.io" in shown
    assert "Hunter2secretX" not in shown


def test_handler_keeps_the_last_lines_as_the_message(service_records: RecordedServices) -> None:
    log, handler = logging.getLogger("test"), RecentLinesHandler(capacity=2)
    log.addHandler(handler)
    try:
        run = service_record.start_service("job")
        for line in ("forgotten", "pulling", "refused"):
            log.error("%s x", line)
        run.end(OSError("no disk"))
    finally:
        log.removeHandler(handler)
        handler.close()

    assert service_records.entries("job")[-1].error_message == "pulling x\nrefused x\nOSError: no disk"


def test_closed_handler_is_forgotten(service_records: RecordedServices) -> None:
    log, handler = logging.getLogger("test"), RecentLinesHandler()
    log.addHandler(handler)
    log.error("refused")
    log.removeHandler(handler)
    handler.close()
    service_record.start_service("job").end("no disk")

    assert service_records.entries("job")[-1].error_message == "no disk"


@pytest.mark.slow
def test_fixture_for_pytest_is_found_by_its_plugin(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import service_record\n"
        "def test_it(service_records):\n"
        "    with service_record.service('job'): pass\n"
        "    assert service_records.services() == ['job']\n"
        "    assert service_records.entries('job')[1].phase == 'service end'\n"
        "    assert service_records.entries('other') == []\n"
        "def test_that_other(service_records):\n"
        "    assert service_records.services() == []\n"
    )
    plugin = ["-p", "service_record.recorder.pytest_plugin"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "test_it.py"],
        cwd=tmp_path,
        env=environment(tmp_path, SERVICE_RECORDS_LAYOUT="array", PYTEST_DISABLE_PLUGIN_AUTOLOAD="1"),
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "records").exists()


def test_fixture_reports_a_damaged_record(service_records: RecordedServices) -> None:
    service_record.start_service("job").end()
    with (service_records.directory / "job.json").open("a") as record:
        record.write("{torn\n")

    with pytest.raises(ValueError, match="line 3: a damaged entry"):
        service_records.entries("job")
