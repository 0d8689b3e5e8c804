"""Give any settings: each invalid one is reported in one line with its place, and the valid ones are used."""

import re
from contextlib import redirect_stderr
from io import BytesIO, StringIO
from pathlib import Path
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

import service_record as recorder
from service_record.collector.domain.definitions import parse
from service_record.http.address import is_collector
from service_record.http.answers import Unreachable
from service_record.record.config_file import ConfigError
from service_record.record.entry import Entry
from service_record.record.layout import read_entries
from service_record.record.visible import UNSEEN
from service_record.reporter.log import open_log
from service_record.reporter.paths import Places
from service_record.reporter.policy.round_context import Shipment
from service_record.reporter.round import send_records
from service_record.reporter.settings import read_settings
from service_record.reporter.shipping import Clients
from tests.fuzz.command import CommandResult, limit_time, service_record, set_environment
from tests.fuzz.corpus import with_corpus
from tests.fuzz.loopback import block_network
from tests.fuzz.odd_settings import (
    COLLECTOR_URLS,
    RECORDER_VARIABLES,
    REPORTER_FILES,
    REPORTER_VARIABLES,
    STEP_FILES,
    parse_variables,
)
from tests.fuzz.places import change_directory, create_directory
from tests.fuzz.raw_answers import format_answer
from tests.fuzz.raw_server import RawServer
from tests.reporter_builders import ID, SERVICE

TOKENS = (
    st.just(b"raw-token") | st.binary(max_size=40) | st.sampled_from([b"{", b"{" * 5000, b'{"auths": 1}'])
)
ONE_IN_EIGHT = st.integers(0, 7).map(lambda number: number == 0)
_CONTROL_CHARACTERS: Final = re.compile(f"{UNSEEN}|[\x00-\x1f]")
_PLACE: Final = re.compile(r"(.+):(\d+): .*\S|environment:\w+: .*\S")
_VIEW: Final = {"id": ID, "status": "installing-in-progress", "progress": {"current_stage": "Rebooting"}}


def create_host(root: Path, file: bytes, credential: bytes, token: bytes) -> Places:
    places = Places(root)
    places.settings_file.parent.mkdir(parents=True)
    places.settings_file.write_bytes(file)
    places.credential_file.write_bytes(token)
    (root / "credentials").mkdir()
    (root / "credentials" / "reporter.toml").write_bytes(credential)
    return places


def check_lines(faults: tuple[str, ...], root: Path) -> None:
    """Check that each fault is one printable line that names its place."""
    for fault in faults:
        assert not _CONTROL_CHARACTERS.search(fault), fault
        assert fault.encode()
        place = _PLACE.fullmatch(fault)
        assert place, fault
        if place[1] is not None and Path(place[1]).is_relative_to(root):
            assert 1 <= int(place[2]) <= Path(place[1]).read_bytes().count(b"\n") + 1


@with_corpus("settings", "file", credential=b"", token=b"x", variables={}, is_used=True)
@with_corpus("settings", "credential", file=SERVICE.encode(), token=b"x", variables={}, is_used=True)
@given(REPORTER_FILES, st.just(b"") | REPORTER_FILES, TOKENS, REPORTER_VARIABLES, ONE_IN_EIGHT)
def test_bad_settings_are_one_line_each(
    file: bytes, credential: bytes, token: bytes, variables: dict[str, str], is_used: bool
) -> None:
    with limit_time("settings: of the reporter"), create_directory() as directory, block_network():
        places = create_host(directory / "host", file, credential, token)
        environ = {"CREDENTIALS_DIRECTORY": str(directory / "host" / "credentials"), **variables}
        reporter_settings = read_settings(places, environ)
        check_lines(reporter_settings.faults, directory / "host")
        if not is_used:  # reading the trusted certificates takes longer than everything else
            return
        send_records(places, environ, reporter_settings, open_log(environ))
        if reporter_settings.service is not None:
            with Clients(reporter_settings).service():
                pass
        for place in reporter_settings.ship_to:
            if not place.startswith("/"):
                shipment = Shipment(kind="x", most=1, fingerprint="f", to=place)
                outcome = Clients(reporter_settings).ship(shipment, directory / "gone", 1.0, is_known=False)
                assert isinstance(outcome, Unreachable)


def check_answer(answer: CommandResult, allowed: set[int]) -> None:
    """Check for a documented status and for lines that are safe to print, without a traceback."""
    assert answer.status in allowed, answer.err
    assert "Traceback" not in answer.err
    assert not _CONTROL_CHARACTERS.search(answer.err.replace("\n", "")), answer.err


@settings(max_examples=12)
@given(REPORTER_FILES, REPORTER_VARIABLES)
def test_dry_run_succeeds_with_any_settings(file: bytes, variables: dict[str, str]) -> None:
    with RawServer([format_answer([_VIEW])]) as server, create_directory() as directory, block_network():
        places = create_host(directory / "host", file, b"", b"raw-token")
        ids = {"CLUSTER_ID": ID, "INFRA_ENV_ID": ID, "HOST_ID": ID, "ASSISTED_SERVICE_URL": server.url}
        all_variables = {**variables, **ids, "CREDENTIALS_DIRECTORY": ""}
        with limit_time("settings: rehearsals by them"):
            answer = service_record(
                *("report", "--dry-run", "--root", str(places.root)),
                stdin=b"", encoding="utf-8", scratch=directory / "scratch", **all_variables,
            )  # fmt: skip
        check_answer(answer, {0})
        assert b"service: " in answer.out
        assert not _CONTROL_CHARACTERS.search(answer.out.decode().replace("\n", ""))
        assert places.settings_file.read_bytes() == file


@settings(max_examples=20)
@with_corpus("settings", "file")
@given(REPORTER_FILES)
def test_ignition_settings_pass_or_are_one_error(file: bytes) -> None:
    with limit_time("settings: given to ignition"), create_directory() as directory:
        settings_file = directory / "given.toml"
        settings_file.write_bytes(file)
        answer = service_record(
            *("ignition", "--role", "worker", "--settings", str(settings_file)),
            stdin=b"", encoding="utf-8", scratch=directory / "scratch",
        )  # fmt: skip
        check_answer(answer, {0, 2, 3})


@settings(max_examples=40)
@given(
    st.sampled_from([["hosts"], ["show"], ["ship", "--to"], ["ship"]]),
    COLLECTOR_URLS,
    TOKENS,
    st.just(b"") | st.binary(max_size=40) | st.just(b"-----BEGIN CERTIFICATE-----\nx\n"),
    st.booleans(),
)
def test_bad_client_settings_are_one_error(
    verb: list[str], url: str, token: bytes, bundle: bytes, is_variable: bool
) -> None:
    with limit_time("settings: of a collector's clients"), create_directory() as directory, block_network():
        (directory / "token").write_bytes(token)
        (directory / "bundle").write_bytes(bundle)
        variables = {"SERVICE_RECORD_TOKEN_FILE": str(directory / "token")}
        if bundle:
            variables["SERVICE_RECORD_CA_BUNDLE"] = str(directory / "bundle")
        if is_variable and verb != ["show"]:
            variables["SERVICE_RECORD_COLLECTOR"] = url
            arguments = verb[:1]
        else:
            place = url if verb != ["show"] or is_collector(url) else f"collector://{url}"
            arguments = [verb[0], "--to" if verb[0] == "ship" else "--from", place]
        answer = service_record(
            *arguments, stdin=b"", encoding="utf-8", scratch=directory / "scratch", **variables
        )
        check_answer(answer, {2, 3, 75} if verb[0] == "ship" else {2, 3})
        assert answer.err.splitlines()[-1].startswith("Error: ")


@with_corpus("variables", "variables")
@given(RECORDER_VARIABLES)
def test_any_environment_is_recorded_silently(variables: bytes) -> None:
    with limit_time("settings: of recording"), create_directory() as directory, change_directory(directory):
        environment = parse_variables(variables)
        home = environment.get("SERVICE_RECORDS_DIR", "")
        if not home or home.startswith("/"):
            environment["SERVICE_RECORDS_DIR"] = str(directory / "records")
        with set_environment(environment), redirect_stderr(StringIO()) as output:
            with recorder.service(), recorder.stage("pull"):
                is_done = True
            with recorder.service("named"):
                pass
        assert is_done
        assert output.getvalue() == ""
        if environment["SERVICE_RECORDS_DIR"] == str(directory / "records"):
            for record in (directory / "records").glob("*.json"):
                pieces = list(read_entries(BytesIO(record.read_bytes())))
                assert all(isinstance(piece, Entry) for piece in pieces)
            assert (directory / "records" / "named.json").exists()


@with_corpus("steps", "file")
@given(STEP_FILES)
def test_bad_step_definitions_are_refused_with_line(file: bytes) -> None:
    with limit_time("settings: definitions of steps"):
        text = file.decode(errors="replace")
        error = find_error(text)
        if error is not None:
            assert 1 <= error.line <= text.count("\n") + 1
            assert re.fullmatch(".+", str(error))


def find_error(text: str) -> ConfigError | None:
    try:
        parse(text)
    except ConfigError as error:
        return error
    return None
