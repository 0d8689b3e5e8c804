"""Give clients any server answer: they report it in one line, send few requests and keep their data."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.simulated import Answering, failing, whole_round
from bench.simulated import settings as reporter_settings
from service_record.http.answers import Answered, Outcome, RetryPolicy, Unreachable
from service_record.record.visible import visible
from service_record.reporter.assisted_service import AssistedService
from service_record.reporter.host_view import HostView, NoHost, Refused, View
from service_record.reporter.log import Log
from service_record.reporter.paths import Places
from service_record.reporter.policy.round_context import Shipment, StageReport
from service_record.reporter.round import send_records
from service_record.reporter.settings import AssistedServiceSettings, Settings
from service_record.reporter.state import ReporterState
from tests.builders import failed_run, write_lines
from tests.fuzz.command import CommandResult, limit_time, service_record
from tests.fuzz.corpus import with_corpus
from tests.fuzz.places import create_directory
from tests.fuzz.raw_answers import draw_answers
from tests.fuzz.raw_server import RawServer
from tests.reporter_builders import ID

TOKEN: Final = "canary-9f31c2-of-the-answers"
NO_WAIT: Final = RetryPolicy(
    connect=5, read=5, write=5, total=8, upload_total=8, budget=0.05, first_wait=0, longest_wait=0, jitter=0
)
VIEW: Final = {
    "id": ID,
    "kind": "Host",
    "status": "installing-in-progress",
    "role": "master",
    "bootstrap": False,
    "progress": {"current_stage": "Rebooting", "progress_info": "", "stage_timed_out": False},
    "logs_info": "",
}
HOST: Final = {
    "name": "web1", "verdict": "stuck", "group": "dc1", "release": "4.20", "build": 2, "action": "install",
    "percentage": 40.0, "message": "Disk setup", "started_at": 1795223110.0, "updated_at": 1795223120.0,
    "ended_at": None, "reason": "nothing for 20 m", "verdict_since": 1795223110.0, "revision": 3,
}  # fmt: skip
HOSTS: Final = {"hosts": [HOST], "counts": {"stuck": 1}, "total": 1, "now": 1795223200.5}
STORED: Final = {
    "host": "web1",
    "services": [{"service": "bootkube", "bytes": 10, "received_at": 1795223200.5}],
    "files": [{"service": "bootkube", "file": "64-abc", "offset": 10}],
    "bundle": None,
}
BUNDLE: Final = {**STORED, "services": [], "bundle": 4}
SERVICE_ANSWERS = draw_answers("answers/assisted", [VIEW], [], {"code": 409, "message": f"no {TOKEN}"})
HOSTS_ANSWERS = draw_answers("answers/hosts", HOSTS, {"title": "Forbidden", "status": 403, "detail": "no"})
RECORDS_ANSWERS = draw_answers(
    "answers/records", STORED, BUNDLE, {"detail": "elsewhere", "files": STORED["files"]}
)

server = RawServer()
server.__enter__()  # until the process ends; its thread only waits
MAX_REQUESTS: Final = 40
"""Maximum number of requests of one command; a valid answer needs two or three."""


@contextmanager
def serve_answers(test: str, *answers: bytes) -> Iterator[str]:
    """Have the server give these answers during the block; return its URL."""
    server.set_answers(*answers)
    with limit_time(test):
        yield server.url
        assert len(server.request_lines) <= MAX_REQUESTS, "too many requests"


def open_service() -> AssistedService:
    service_settings = AssistedServiceSettings(
        url=server.url, cluster_id=ID, infra_env_id=ID, host_id=ID, token=TOKEN
    )
    return AssistedService(service_settings, retry_policy=NO_WAIT)


def check_outcome(outcome: View) -> None:
    """Check that the message is one printable line without the token."""
    match outcome:
        case Answered() | Refused():
            text = outcome.text
        case Unreachable() | NoHost():
            text = outcome.reason
        case HostView():
            text = ""
    assert "\n" not in text
    assert visible(text) == text
    assert len(text) <= 2300
    assert TOKEN not in text


@with_corpus("answers/assisted", "answer")
@settings(max_examples=50)
@given(SERVICE_ANSWERS)
def test_reporter_calls_survive_any_answer(answer: bytes) -> None:
    with serve_answers("answers: to a call of the reporter", answer), open_service() as client:
        check_outcome(client.host())
        assert len(server.request_lines) <= NO_WAIT.tries
        for outcome in (
            client.report_stage("Rebooting", "words"),
            client.upload(b"x" * 999, "host"),
            client.complete_logs(),
        ):
            check_outcome(outcome)
            assert outcome.sent <= 999 * NO_WAIT.upload_tries
        assert len(server.request_lines) <= 3 * NO_WAIT.tries + NO_WAIT.upload_tries


class NetworkAnswers(Answering):
    """The assisted-service of a simulated round, with answers from a real server."""

    service: AssistedService

    def get(self) -> View:
        self.view = self.service.host()
        return self.view

    def put(self, report: StageReport) -> Outcome:
        return self.service.report_stage(report.stage, report.info)

    def upload(self, shipment: Shipment, size: int) -> Outcome:
        outcome = self.service.upload(b"x" * size, shipment.kind)
        if isinstance(outcome, Answered) and outcome.good:
            self.uploads.append(shipment)
        return outcome


REFUSALS: Final = (b" 401 ", b" 403 ", b" 404 ")


@settings(max_examples=25)
@given(st.lists(SERVICE_ANSWERS, min_size=1, max_size=4))
def test_odd_answer_stops_no_later_round(answers: list[bytes]) -> None:
    settings_of_round = reporter_settings(uploads=4, uploads_per_boot=4)
    with serve_answers("answers: to rounds of the reporter", *answers), open_service() as client:
        answering = NetworkAnswers()
        answering.service = client
        state, plan = whole_round(settings_of_round, ReporterState(), failing(1, 60.0), answering, 999)
        if plan.stop is not None:
            view = answering.view
            assert isinstance(view, HostView | NoHost | Refused)
            is_refused = any(status in each.partition(b"\r\n")[0] for each in answers for status in REFUSALS)
            assert is_refused or not isinstance(view, Refused)
        elif not answering.uploads:
            assert state.bundle is not None, "the bundle was not kept for a later round"
        assert len(server.request_lines) <= 30


def check_answer(result: CommandResult, allowed: set[int]) -> None:
    """Check for a documented status and for few lines that are safe to print."""
    assert result.status in allowed, result.err
    assert len(result.err) < 20_000
    for line in result.err.splitlines():
        assert visible(line) == line
        assert line.startswith(("Error: ", "Warning: ", "Note: ", "Waiting: ")) or " bytes sent" in line, line


def run_client(directory: Path, *arguments: str) -> CommandResult:
    token = directory / "token"
    token.write_text(TOKEN)
    result = service_record(
        *arguments,
        stdin=b"", encoding="utf-8", scratch=directory / "scratch", SERVICE_RECORD_TOKEN_FILE=str(token),
    )  # fmt: skip
    assert TOKEN not in result.err
    return result


def collector_url(url: str) -> str:
    return f"collector+{url}/web1"


FORMATS = st.sampled_from(["table", "wide", "json", "jsonl", "yaml", "html"])


@with_corpus("answers/hosts", "answer", output_format="wide")
@settings(max_examples=40)
@given(HOSTS_ANSWERS, FORMATS)
def test_hosts_lists_or_reports_one_error(answer: bytes, output_format: str) -> None:
    with serve_answers("answers: to hosts", answer) as url, create_directory() as directory:
        result = run_client(directory, "hosts", "--from", url, "-o", output_format)
        check_answer(result, {0, 3})


@with_corpus("answers/records", "first", second=b"", verb="show")
@settings(max_examples=25)
@given(RECORDS_ANSWERS, RECORDS_ANSWERS, st.sampled_from(["show", "export", "analyze"]))
def test_reading_succeeds_or_reports_one_error(first: bytes, second: bytes, verb: str) -> None:
    more = ("--to", "jsonl") if verb == "export" else ()
    with serve_answers("answers: to readers", first, second) as url, create_directory() as directory:
        result = run_client(directory, verb, *more, "--from", collector_url(url))
        assert result.status in ({0, 1, 3, 4} if verb != "show" else {0, 3}), result.err
        assert "Traceback" not in result.err


@with_corpus("answers/records", "first", second=b"")
@settings(max_examples=25)
@given(RECORDS_ANSWERS, RECORDS_ANSWERS)
def test_ship_succeeds_or_reports_the_failure(first: bytes, second: bytes) -> None:
    with serve_answers("answers: to ship", first, second) as url, create_directory() as directory:
        (directory / "records").mkdir()
        record = write_lines(directory / "records" / "bootkube.json", *failed_run())
        before = record.read_bytes()
        result = run_client(
            directory, "ship", "--to", collector_url(url), "--from", str(directory / "records")
        )
        check_answer(result, {0, 75})
        assert result.status == 75 or any(b"POST " in line for line in server.request_lines)
        assert record.read_bytes() == before


@with_corpus("answers/records", "first", second=b"")
@settings(max_examples=25)
@given(RECORDS_ANSWERS, RECORDS_ANSWERS)
def test_round_continues_after_any_collector_answer(first: bytes, second: bytes) -> None:
    with (
        serve_answers("answers: to records of a round", first, second) as url,
        create_directory() as directory,
    ):
        places = Places(directory / "host")
        places.records.mkdir(parents=True)
        write_lines(places.records / "bootkube.json", *failed_run())
        settings_of_round = Settings(records_to=(f"collector+{url}/web1",), collector_token=TOKEN)
        with (directory / "log").open("w+") as log:
            send_records(places, {}, settings_of_round, Log(log.fileno(), is_journal=False))
            log.seek(0)
            (line,) = log.read().splitlines()
        assert TOKEN not in line
