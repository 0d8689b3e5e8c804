"""The pages for people: the one-screen table and the wide form."""

import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from service_record.display.table import table, wide
from service_record.display.text import ASCII, Clock, Line, View, cell_len, render_lines
from service_record.history import History, ServiceHistory, build_history
from service_record.history.outcome import repeats
from service_record.history.results import Liveness
from service_record.record.entry import Entry, Malformed, Phase, Result
from tests.builders import START, entry, failed_run, upstream_entry

VIEW = View(width=80, now=START + timedelta(hours=1))
STACK = ("123 bootstrap /usr/local/bin/bootkube.sh", "456 main /usr/local/bin/bootkube.sh")


def attempt(number: int, entries: Iterable[Entry]) -> list[Entry]:
    return [replace(one, pid=number, invocation_id=f"{number:032x}") for one in entries]


def bootkube(at: float = 0) -> list[Entry]:
    return failed_run(
        "cvo-bootstrap",
        at,
        error_line=STACK[0],
        stack=STACK,
        command="podman run --quiet",
        error_message="Error: no such image\nunable to pull \x1b[31mred\x1b[0m\nExited",
    )


def history(**records: Sequence[Entry | Malformed]) -> History:
    return build_history((name.replace("_", "-"), pieces) for name, pieces in records.items())


def text(found: History, view: View = VIEW) -> str:
    return "".join(render_lines(table(found, "/var/log/openshift", view), color=False))


SCREEN = """\
3 services: 1 failed, 1 running, 1 succeeded
/var/log/openshift, 1 boot

✗ bootkube failed in stage cvo-bootstrap
  attempt 2, exit 1 after 10.0s, 2026-11-21 01:06:20Z
  at       /usr/local/bin/bootkube.sh:123 in bootstrap
           podman run --quiet
  from     /usr/local/bin/bootkube.sh:456 in main
  message  │ Error: no such image
           │ unable to pull \\x1b[31mred\\x1b[0m
           │ Exited
  stages   ✗ cvo-bootstrap 9.0s
  repeated 2 times, first 2026-11-21 01:05:20Z

● approve-csr running in stage wait  started 2026-11-21 01:05:10Z
✓ crio-configure succeeded  after 3.2s, 2026-11-21 01:05:13Z
"""


def test_one_screen_answers_what_failed_where_and_why() -> None:
    found = history(
        approve_csr=[entry(), entry(Phase.STAGE_START, 1, stage="wait")],
        bootkube=[*attempt(1, bootkube()), *attempt(2, bootkube(60))],
        crio_configure=[entry(), entry(Phase.SERVICE_END, 3.2)],
    )
    assert text(found) == SCREEN
    documented = Path(__file__).parents[2].joinpath("docs/show.md").read_text()
    assert textwrap.indent(SCREEN, "    ") in documented


def test_nothing_selected_is_said() -> None:
    assert text(History(())).startswith("no run matches\n")


def test_ten_thousand_identical_attempts_take_one_screen() -> None:
    entries = [one for n in range(10_000) for one in attempt(n, failed_run(at=n * 20))]
    page = text(history(job=entries))
    assert "repeated 10000 times, first 2026-11-21 01:05:20Z" in page
    assert page.count("\n") < 24


def test_running_service_shows_its_last_failure() -> None:
    page = text(history(job=[*attempt(1, bootkube()), *attempt(2, [entry(at=60)])]))
    assert "● job running\n  attempt 2, started 2026-11-21 01:06:10Z\n" in page
    assert "before   failed in stage cvo-bootstrap, exit 1 after 10.0s" in page
    assert "bootkube.sh:123" in page


def test_service_that_succeeded_at_last_is_short() -> None:
    last = attempt(3, [entry(at=60), entry(Phase.SERVICE_END, 61)])
    page = text(history(job=[*attempt(1, bootkube()), *attempt(2, bootkube(20)), *last]))
    assert "✓ job succeeded  attempt 3, after 1.0s, 2026-11-21 01:06:11Z\n" in page
    assert "earlier  2 runs failed in stage cvo-bootstrap, first 2026-11-21 01:05:20Z" in page
    assert "message" not in page


def test_child_program_does_not_replace_its_service() -> None:
    started = [entry(at=1, pid=9), entry(Phase.SERVICE_END, 2, pid=9)]
    failed = history(job=[entry(), *started, entry(Phase.SERVICE_END, 5, result=Result.FAILURE, exit_code=1)])
    assert "✗ job failed\n  exit 1 after 5.0s" in text(failed)
    assert "● job running  started" in text(history(job=[entry(), *started]))
    assert "pid 9" in "".join(render_lines(wide(failed, "here", VIEW), color=False))


def test_failures_come_first_earliest_on_top() -> None:
    fine = [entry(), entry(Phase.SERVICE_END, 1)]
    page = text(
        history(a_fine=fine, b_later=failed_run(at=90), c_first=failed_run(at=10), d_running=[entry()])
    )
    positions = [page.index(name) for name in ("c-first", "b-later", "d-running", "a-fine")]
    assert positions == sorted(positions)


def test_running_and_interrupted_differ_in_word_and_glyph() -> None:
    liveness = Liveness("c1" * 16, is_at_home=True)
    entries = [entry(), entry(Phase.STAGE_START, 5, stage="pull")]
    page = text(build_history([("job", entries)], liveness))
    assert "1 service: 1 interrupted" in page
    assert "▲ job interrupted in stage pull\n  last entry 2026-11-21 01:05:15Z\n" in page


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"exit_code": 3}, "exit 3 after 5.0s"),
        ({"signal": "KILL", "service_result": "oom-kill"}, "killed by SIGKILL (oom-kill) after 5.0s"),
        ({"signal": "TERM", "service_result": "success"}, "stopped by SIGTERM after 5.0s"),
        (
            {"signal": "TERM", "service_result": "success", "stop_request": "restart"},
            "stopped by systemd for a restart (SIGTERM) after 5.0s",
        ),
        (
            {"exit_code": 143, "service_result": "exit-code", "stop_request": "stop"},
            "stopped by systemd (exit 143) after 5.0s",
        ),
        (
            {"exit_code": 0, "service_result": "exit-code"},
            "exit 0, but systemd's result is exit-code after 5.0s",
        ),
        ({"signal": "unknown", "exit_code": 143}, "stopped or killed by a signal after 5.0s"),
        ({"service_result": "timeout"}, "(timeout) after 5.0s"),
        ({}, "  failed after 5.0s"),
    ],
    ids=[
        *("exit", "out of memory", "stopped", "restarted", "stopped with a status", "of another command"),
        *("unknown signal", "timeout", "nothing known"),
    ],
)
def test_how_a_service_died_is_said(fields: dict[str, object], expected: str) -> None:
    page = text(history(job=[entry(), entry(Phase.SERVICE_END, 5, result=Result.FAILURE, **fields)]))
    assert f"{expected}, 2026-11-21 01:05:15Z" in page


def test_end_without_a_result_is_shown_as_unknown() -> None:
    page = text(history(job=[entry(), entry(Phase.SERVICE_END, 5, result=None)]))

    assert "ended with an unknown result after 5.0s, 2026-11-21 01:05:15Z" in page


def test_approximate_and_unknown_lines_are_marked() -> None:
    near = failed_run(error_line_approximate=True)
    assert "at       near /usr/local/bin/job.sh:12 in main" in text(history(job=near))
    guessed = [
        replace(one, pid=None, uptime=None, boot_id=None) for one in failed_run(error_line="1 f job.sh")
    ]
    assert "at       job.sh in f, line unknown" in text(history(job=guessed))


def test_repeated_stages_are_shown_once() -> None:
    tries = [
        one
        for at in range(0, 40, 2)
        for one in (
            entry(Phase.STAGE_START, at, stage="pull"),
            entry(Phase.STAGE_END, at + 1, stage="pull", result=Result.FAILURE),
        )
    ]
    page = text(history(job=[entry(), *tries, entry(Phase.SERVICE_END, 50, result=Result.FAILURE)]))
    assert "stages   ✗ pull 1.0s ×20\n" in page  # noqa: RUF001


def test_of_many_stages_the_last_are_shown() -> None:
    stages = [
        entry(phase, at, stage=f"s{at}") for at in range(18) for phase in (Phase.STAGE_START, Phase.STAGE_END)
    ]
    page = text(history(job=[entry(), *stages, entry(Phase.SERVICE_END, 50, result=Result.FAILURE)]))
    assert "stages   12 before  ✓ s12" in page
    assert "✓ s17" in page


def test_damaged_pieces_are_counted() -> None:
    damage = [Malformed(line, f'{{"torn\x1b[2J{line}', "a damaged entry") for line in range(1, 6)]
    page = text(history(job=[*damage, entry()]))
    assert "1 boot, 5 damaged pieces" in page
    assert '! job record: 5 damaged pieces\n  line 1: a damaged entry: {"torn\\x1b[2J1' in page
    assert "line 4" not in page
    assert "and 2 more, shown by --output wide" in page
    everything = "".join(render_lines(wide(history(job=damage), "here", VIEW), color=False))
    assert 'line 5: a damaged entry: {"torn\\x1b[2J5' in everything


@pytest.mark.parametrize("form", [table, wide], ids=["table", "wide"])
def test_what_speaks_against_a_record_is_said(form: Callable[[History, str, View], Iterable[Line]]) -> None:
    late = ServiceHistory("late", (), (Malformed(1, "x", "not an entry"),), timedelta(hours=-9, minutes=-30))
    whole = History((ServiceHistory("none"), late, ServiceHistory("new", is_unfinished=True)))
    page = "".join(render_lines(form(whole, "here", VIEW), color=False))
    assert "! none record\n  no entry in it\n\n" in page
    assert "! late record: 1 damaged piece\n  times seem to be those of UTC-09:30, although labelled" in page
    assert "  new.json.tmp lies beside it, from a write that did not end\n" in page


def test_local_times_are_reported_once() -> None:
    local = [ServiceHistory(name, utc_offset=timedelta(hours=2)) for name in ("one", "two", "three")]
    page = text(History(tuple(local)))
    assert page.count("times seem") == 1
    assert (
        "! 3 records\n  times seem to be those of UTC+02:00, although labelled UTC: one, two, three\n" in page
    )


def test_end_of_a_long_message_line_is_shown() -> None:
    message = f"Error: {'initializing source: ' * 20}no such host"
    page = text(history(job=failed_run("pull", error_message=message)))
    assert "message  │ Error: initializing" in page
    assert "no such host" in " ".join(page.replace("│", "").split())


@pytest.mark.parametrize(("took", "duration"), [(0, "<1s"), (1, "1s"), (59, "59s"), (90, "1m 30s")])
def test_durations_in_whole_seconds_have_no_fractions(took: int, duration: str) -> None:
    stages = [
        upstream_entry(Phase.STAGE_START, stage="pull"),
        upstream_entry(Phase.STAGE_END, took, stage="pull"),
    ]
    page = text(history(job=[upstream_entry(), *stages, upstream_entry(Phase.SERVICE_END, took)]))
    assert f"after {duration}, " in page
    everything = "".join(render_lines(wide(history(job=stages), "here", VIEW), color=False))
    assert f" {duration}  2026-11-21 01:05:10Z" in everything


def test_what_could_not_be_written_is_said() -> None:
    assert "2 entries lost" in text(history(job=[entry(), entry(Phase.SERVICE_END, 1, dropped=2)]))


def hostile() -> History:
    evil = "\x1b]0;owned\x07\u202e完了" * 20
    broken = failed_run(evil, error_line=f"1 {evil} /{evil}", command=evil, error_message=f"{evil}\n{evil}")
    return build_history([(evil, [*broken, Malformed(9, evil, evil)])])


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("form", [table, wide], ids=["table", "wide"])
def test_lines_fit_the_page_and_are_harmless(
    form: Callable[[History, str, View], Iterable[Line]], width: int
) -> None:
    lines = list(render_lines(form(hostile(), "\x1b[2J", replace(VIEW, width=width)), color=False))
    assert [line for line in lines if cell_len(line.rstrip("\n")) > width] == []
    assert not any(character in "".join(lines) for character in "\x1b\x07\u202e")


def test_ascii_pages_have_no_other_characters() -> None:
    view = replace(VIEW, glyphs=ASCII)
    page = text(history(job=[*attempt(1, bootkube()), *attempt(2, bootkube(60))]), view)
    assert page.isascii()
    assert "x job failed in stage cvo-bootstrap" in page


def test_relative_times_count_from_now() -> None:
    page = text(history(job=bootkube()), replace(VIEW, clock=Clock.RELATIVE))
    assert "exit 1 after 10.0s, 59m 50s ago" in page


def test_wide_form_has_all_facts_of_all_runs() -> None:
    commands = [
        entry(Phase.PRE_COMMAND_START, 0, pre_command="pause"),
        entry(Phase.PRE_COMMAND_END, 2, pre_command="pause"),
    ]
    found = history(job=[*attempt(1, [*commands, *bootkube(5)]), *attempt(2, bootkube(60))])
    page = "".join(render_lines(wide(found, "here", VIEW), color=False))
    assert page.count("✗ job failed in stage cvo-bootstrap") == 2
    assert "  ✓ pre-command pause                          2.0s  2026-11-21 01:05:10Z\n" in page
    assert "  ✗ stage cvo-bootstrap                        9.0s  2026-11-21 01:05:16Z\n" in page
    for expected in (f"boot {'b0' * 16}", f"invocation {2:032x}", "pid 2", "recorder bash/0.1.0"):
        assert expected in page


def test_runs_with_the_same_end_are_repeats() -> None:
    ends = [failed_run("a"), failed_run("b"), failed_run("a"), failed_run("a", exit_code=2)]
    runs = history(job=[one for n, run in enumerate(ends) for one in attempt(n, run)]).services[0].runs
    found = [(repeat.first.attempt, repeat.last.attempt, repeat.count) for repeat in repeats(runs)]
    assert found == [(2, 2, 1), (1, 3, 2), (4, 4, 1)]
