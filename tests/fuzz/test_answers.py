"""Servers that answer anything: what asks them ends well, asks no more for it, and throws nothing away."""

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
from tests.fuzz.command import Watched, bounded, service_record
from tests.fuzz.corpus import with_seeds
from tests.fuzz.places import around
from tests.fuzz.raw_answers import answers
from tests.fuzz.raw_server import RawServer
from tests.reporter_builders import ID

TOKEN: Final = "canary-9f31c2-of-the-answers"
AT_ONCE: Final = RetryPolicy(
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
HELD: Final = {
    "host": "web1",
    "services": [{"service": "bootkube", "bytes": 10, "received_at": 1795223200.5}],
    "files": [{"service": "bootkube", "file": "64-abc", "offset": 10}],
    "bundle": None,
}
BUNDLE: Final = {**HELD, "services": [], "bundle": 4}
OF_SERVICE = answers("answers/assisted", [VIEW], [], {"code": 409, "message": f"no {TOKEN}"})
OF_HOSTS = answers("answers/hosts", HOSTS, {"title": "Forbidden", "status": 403, "detail": "no"})
OF_RECORDS = answers("answers/records", HELD, BUNDLE, {"detail": "elsewhere", "files": HELD["files"]})

server = RawServer()
server.__enter__()  # for the life of the process: a thread that waits
MOST: Final = 40
"""Requests of one command to a collector; a good one needs two or three."""


@contextmanager
def saying(test: str, *said: bytes) -> Iterator[str]:
    """A server that answers so, each time; its URL."""
    server.says(*said)
    with bounded(test):
        yield server.url
        assert len(server.asked) <= MOST, "it is flooded"


def service() -> AssistedService:
    found = AssistedServiceSettings(url=server.url, cluster_id=ID, infra_env_id=ID, host_id=ID, token=TOKEN)
    return AssistedService(found, retry_policy=AT_ONCE)


def check(outcome: View) -> None:
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


@with_seeds("answers/assisted", "said")
@settings(max_examples=50)
@given(OF_SERVICE)
def test_reporter_calls_survive_any_answer(said: bytes) -> None:
    with saying("answers: to a call of the reporter", said), service() as asked:
        check(asked.host())
        assert len(server.asked) <= AT_ONCE.tries
        for outcome in (
            asked.report_stage("Rebooting", "words"),
            asked.upload(b"x" * 999, "host"),
            asked.complete_logs(),
        ):
            check(outcome)
            assert outcome.sent <= 999 * AT_ONCE.upload_tries
        assert len(server.asked) <= 3 * AT_ONCE.tries + AT_ONCE.upload_tries


class OverTheWire(Answering):
    """The assisted-service of a simulated round, whose answers come from a server."""

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


SAYS_SO: Final = (b" 401 ", b" 403 ", b" 404 ")


@settings(max_examples=25)
@given(st.lists(OF_SERVICE, min_size=1, max_size=4))
def test_odd_answer_stops_no_later_round(said: list[bytes]) -> None:
    chosen = reporter_settings(uploads=4, uploads_per_boot=4)
    with saying("answers: to rounds of the reporter", *said), service() as asked:
        told = OverTheWire()
        told.service = asked
        state, plan = whole_round(chosen, ReporterState(), failing(1, 60.0), told, 999)
        if plan.stop is not None:
            view = told.view
            assert isinstance(view, HostView | NoHost | Refused)
            is_refused = any(status in one.partition(b"\r\n")[0] for one in said for status in SAYS_SO)
            assert is_refused or not isinstance(view, Refused)
        elif not told.uploads:
            assert state.bundle is not None, "the bundle is kept for a later round"
        assert len(server.asked) <= 30


def check_answer(answer: Watched, allowed: set[int]) -> None:
    """A documented status, and few lines that are safe to print."""
    assert answer.status in allowed, answer.err
    assert len(answer.err) < 20_000
    for line in answer.err.splitlines():
        assert visible(line) == line
        assert line.startswith(("Error: ", "Warning: ", "Note: ", "Waiting: ")) or " bytes sent" in line, line


def asking(directory: Path, *arguments: str) -> Watched:
    token = directory / "token"
    token.write_text(TOKEN)
    answer = service_record(
        *arguments,
        stdin=b"", encoding="utf-8", scratch=directory / "scratch", SERVICE_RECORD_TOKEN_FILE=str(token),
    )  # fmt: skip
    assert TOKEN not in answer.err
    return answer


def collector(url: str) -> str:
    return f"collector+{url}/web1"


FORMS = st.sampled_from(["table", "wide", "json", "jsonl", "yaml", "html"])


@with_seeds("answers/hosts", "said", form="wide")
@settings(max_examples=40)
@given(OF_HOSTS, FORMS)
def test_hosts_lists_or_reports_one_error(said: bytes, form: str) -> None:
    with saying("answers: to hosts", said) as url, around() as directory:
        answer = asking(directory, "hosts", "--from", url, "-o", form)
        check_answer(answer, {0, 3})


@with_seeds("answers/records", "first", second=b"", verb="show")
@settings(max_examples=25)
@given(OF_RECORDS, OF_RECORDS, st.sampled_from(["show", "export", "analyze"]))
def test_reading_succeeds_or_reports_one_error(first: bytes, second: bytes, verb: str) -> None:
    more = ("--to", "jsonl") if verb == "export" else ()
    with saying("answers: to readers", first, second) as url, around() as directory:
        answer = asking(directory, verb, *more, "--from", collector(url))
        assert answer.status in ({0, 1, 3, 4} if verb != "show" else {0, 3}), answer.err
        assert "Traceback" not in answer.err


@with_seeds("answers/records", "first", second=b"")
@settings(max_examples=25)
@given(OF_RECORDS, OF_RECORDS)
def test_ship_succeeds_or_reports_the_failure(first: bytes, second: bytes) -> None:
    with saying("answers: to ship", first, second) as url, around() as directory:
        (directory / "records").mkdir()
        record = write_lines(directory / "records" / "bootkube.json", *failed_run())
        before = record.read_bytes()
        answer = asking(directory, "ship", "--to", collector(url), "--from", str(directory / "records"))
        check_answer(answer, {0, 75})
        assert answer.status == 75 or any(b"POST " in asked for asked in server.asked)
        assert record.read_bytes() == before


@with_seeds("answers/records", "first", second=b"")
@settings(max_examples=25)
@given(OF_RECORDS, OF_RECORDS)
def test_round_continues_after_any_collector_answer(first: bytes, second: bytes) -> None:
    with saying("answers: to records of a round", first, second) as url, around() as directory:
        places = Places(directory / "host")
        places.records.mkdir(parents=True)
        write_lines(places.records / "bootkube.json", *failed_run())
        chosen = Settings(records_to=(f"collector+{url}/web1",), collector_token=TOKEN)
        with (directory / "said").open("w+") as told:
            send_records(places, {}, chosen, Log(told.fileno(), is_journal=False))
            told.seek(0)
            (line,) = told.read().splitlines()
        assert TOKEN not in line
