"""`service-record export`: the same entries in another form, and what was left out of them."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.export import FORMS
from service_record.record.entry import Entry, Phase
from service_record.record.layout import read_entries
from tests.builders import array, entry, failed_run, our_array, upstream_entry, write_array, write_lines
from tests.command_line import service_record
from tests.pages import parse_page
from tests.strategies import RECORD_BYTES, entries

UNKNOWN = {"ours": {"deep": [1, {"a": None}]}, "zero": -0.0, "\u202e": "\x7f\x9b"}
LONG = entry(Phase.STAGE_END, 2, stage="s" * 300, command="c" * 300, error_message="m" * 9000, extra=UNKNOWN)
RUN = [*failed_run(), LONG]
FIRST_FIELDS = ["timestamp", "stage", "phase", "result", "errorLine"]

forms = pytest.mark.parametrize("form", FORMS)


def exported(form: str, *written: Entry) -> bytes:
    return b"".join(FORMS[form](written))


def read(content: bytes) -> list[object]:
    return list(read_entries(io.BytesIO(content)))


def test_array_is_plain_json_in_upstream_order(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run())
    answer = service_record("export", "--to", "array", "--from", path)
    assert (answer.status, answer.err) == (0, "")
    assert json.loads(answer.out) == [written.to_json() for written in failed_run()]
    assert list(json.loads(answer.out)[-2])[:5] == FIRST_FIELDS


LEAKING = "401 with X-Secret-Key: aB3dE9fG5iJkLmNoP"


@pytest.mark.parametrize("form", ["jsonl", "array", "chrome-trace", "otlp"])
def test_redacted_export_has_no_secrets(tmp_path: Path, form: str) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run(error_message=LEAKING))
    plain = service_record("export", "--to", form, "--from", path)
    answer = service_record("export", "--redact", "--to", form, "--from", path)
    assert (answer.status, answer.err) == (0, "")
    assert "aB3dE9fG5iJ" in plain.out
    assert "aB3dE9fG5iJ" not in answer.out
    documents = answer.out.splitlines() if form == "jsonl" else [answer.out]
    assert all(json.loads(document) for document in documents)


@pytest.mark.parametrize("verb", ["analyze", "timeline"])
def test_redacted_page_has_no_secrets(tmp_path: Path, verb: str) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run(error_message=LEAKING))
    answer = service_record(verb, "--output", "html", "--from", path)
    assert "401 with" in answer.out
    assert "aB3dE9fG5iJ" not in answer.out
    assert "&lt;redacted:token&gt;" in answer.out


SECRETS = {
    "Authorization: Bearer aB3dE9fG5iJkLmNoP": "Authorization: Bearer <redacted:authorization>",
    'login failed: password="hunter2secret"': "login failed: password=<redacted:password>",
    "postgres://user:hunter2secret@db/x": "postgres://user:<redacted:url-password>@db/x",
    "the API answers 401\npassword: hunter2secret": "the API answers 401\npassword: <redacted:password>",
}


@pytest.mark.parametrize("message", SECRETS)
def test_redaction_and_markup_do_not_interfere(tmp_path: Path, message: str) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run(error_message=message))
    answer = service_record("timeline", "--output", "html", "--from", path)
    assert SECRETS[message] in parse_page(answer.out).texts("pre")


def test_each_line_is_one_entry() -> None:
    lines = exported("jsonl", *RUN).splitlines()
    assert [json.loads(line) for line in lines] == [written.to_json() for written in RUN]


@pytest.mark.parametrize(("form", "expected"), [("array", b"[]\n"), ("jsonl", b"")])
def test_empty_record_is_exported_empty(form: str, expected: bytes) -> None:
    assert exported(form) == expected


@forms
def test_messages_and_unknown_fields_are_kept(form: str) -> None:
    assert read(exported(form, *RUN)) == RUN


@forms
@given(st.lists(entries(), max_size=4))
def test_exported_entries_read_back_equal(form: str, written: list[Entry]) -> None:
    known = read(array(*written))  # what a file cannot hold, such as lone surrogates, is gone from here on
    once = exported(form, *known)  # type: ignore[arg-type]
    assert read(once) == known
    for other in FORMS:
        there = exported(other, *read(once))  # type: ignore[arg-type]
        assert exported(form, *read(there)) == once  # type: ignore[arg-type]


@forms
@given(RECORD_BYTES)
def test_any_readable_entry_can_be_exported(form: str, content: bytes) -> None:
    whole = [piece for piece in read(content) if isinstance(piece, Entry)]
    again = exported(form, *whole)
    assert read(again) == whole
    assert form == "jsonl" or isinstance(json.loads(again), list)


@forms
def test_control_characters_are_escaped(form: str) -> None:
    hostile = "\x1b[2J\x7f\x85\x9b\u202e"
    content = exported(form, entry(error_message=hostile, extra={hostile: hostile}))
    assert [character for character in hostile[:1] + hostile[4:] if character in content.decode()] == []


def test_round_trip_gives_the_same_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "job.json", *failed_run())
    as_array = service_record("export", "--to", "array", "--from", path).out
    back = service_record("export", "--to", "jsonl", "--from", "-", stdin=as_array.encode()).out
    assert back.encode() == path.read_bytes()


def test_parked_entries_are_moved_into_the_array(tmp_path: Path) -> None:
    start, *others = failed_run()
    content = our_array(start, appended=others)
    (tmp_path / "job.json").write_bytes(content)
    answer = service_record("export", "--to", "array", "--from", tmp_path / "job.json")
    assert (answer.status, answer.err) == (0, "")
    assert json.loads(answer.out) == [one.to_json() for one in failed_run()]
    shown = service_record("show", "--from", "-", stdin=content).out
    assert shown == service_record("show", "--from", "-", stdin=array(*failed_run())).out
    assert "failed in stage second" in shown


def test_each_service_has_its_file(tmp_path: Path) -> None:
    write_lines(tmp_path / "one.json", entry())
    write_array(tmp_path / "kube.let.json", upstream_entry())
    out = tmp_path / "new" / "out"
    answer = service_record("export", "--to", "array", "--from", tmp_path, "--directory", out)
    assert (answer.status, answer.out, answer.err) == (0, "", "")
    assert {path.name: json.loads(path.read_bytes()) for path in out.iterdir()} == {
        "one.json": [entry().to_json()],
        "kube_let.json": [upstream_entry().to_json()],
    }
    assert (out / "one.json").stat().st_mode & 0o007 == 0


def test_only_named_services_are_exported(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        write_lines(tmp_path / f"{name}.json", entry(extra={"name": name}))
    answer = service_record("export", "--to", "jsonl", "two", "--from", tmp_path)
    assert json.loads(answer.out)["name"] == "two"
    answer = service_record("export", "one", "two", "--to", "jsonl", "--from", tmp_path)
    assert (answer.status, answer.out) == (2, "")
    assert "give --directory; there are: one, two" in answer.err


def test_service_name_cannot_leave_the_directory(tmp_path: Path) -> None:
    stream = entry(extra={"service": "../../escaped"}).to_line()
    out = tmp_path / "a" / "b"
    answer = service_record("export", "--to", "jsonl", "--from", "-", "--directory", out, stdin=stream)
    assert answer.status == 0
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.json")] == [Path("a/b/escaped.json")]


@pytest.mark.parametrize("names", [("a.b", "a_b"), ("job", "taken")], ids=["same-name", "taken"])
def test_one_failed_file_prevents_all(tmp_path: Path, names: tuple[str, str]) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    for name in names:
        write_lines(source / f"{name}.json", entry())
    (out / "taken.json").write_text("precious")
    answer = service_record("export", "--to", "array", "--from", source, "--directory", out)
    assert (answer.status, answer.out) == (2, "")
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [("taken.json", "precious")]


def test_records_directory_is_refused_as_target(tmp_path: Path) -> None:
    (tmp_path / "live").mkdir()
    path = write_lines(tmp_path / "job.json", entry())
    arguments = "export", "--to", "jsonl", "--from", path, "--directory", tmp_path / "live"
    answer = service_record(*arguments, SERVICE_RECORDS_DIR=str(tmp_path / "live"))
    assert answer.status == 2
    assert "would be a record of this host" in answer.err
    assert list((tmp_path / "live").iterdir()) == []


@forms
def test_damaged_pieces_are_left_out_and_named(tmp_path: Path, form: str) -> None:
    path = write_lines(tmp_path / "job.json", entry(), b"{torn\x1b\n", entry(at=1), b"\0\0\0\n")
    answer = service_record("export", "--to", form, "--from", path)
    assert answer.status == 4
    assert read(answer.out.encode()) == [entry(), entry(at=1)]
    assert answer.err == "job: 2 damaged pieces left out: line 2 (a damaged entry), line 4 (3 NUL bytes)\n"


def test_much_damage_is_one_line(tmp_path: Path) -> None:
    damage = [piece for _ in range(12) for piece in (b"oops\n", entry())]
    answer = service_record("export", "--to", "jsonl", "--from", write_lines(tmp_path / "job.json", *damage))
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("job: 12 damaged pieces left out: line 1 (not an entry), line 3 ")
    assert answer.err.endswith("line 19 (not an entry), and 2 more\n")
