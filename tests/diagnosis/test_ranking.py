"""The rank of log lines without any rule: which of two lines is shown first, and which may be the likely cause."""
# ruff: noqa: E501  # lines stand as programs print them

from datetime import timedelta

import pytest

from service_record.diagnosis.connections import FailureContext
from service_record.diagnosis.evidence.error_lines import (
    LineWeight,
    NotableLine,
    NotableLines,
    line_template,
    telling_line,
)
from service_record.diagnosis.evidence.log_lines import KERNEL, Era, LogLine, LogStream, log_line
from service_record.diagnosis.findings import KnownCause
from service_record.diagnosis.ranking import (
    choose_best,
    choose_lines,
    find_likely_cause,
    rank_lines,
)
from tests.builders import START, timestamp

JOB = FailureContext("job", START, START + timedelta(seconds=10))


def notable(text: str, at: float = 5, kind: str = "journal", count: int = 1) -> NotableLine:
    """Return a line as the reader of files collects it, logged so many seconds after the run began."""
    line = log_line(LogStream("journal.log", kind), 7, f"{timestamp(at)} host {text}".encode(), Era())
    return NotableLine(line, count, line_template(f"{line.name}: {line.text}"), line.time)


def ranked(*lines: NotableLine, known: frozenset[str] = frozenset()) -> list[str]:
    return [one.text for one in rank_lines(lines, [JOB], known)]


DISK = "Error: cannot open /dev/sdb: No such device"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # The failed service before another program.
        (notable(f"job[7]: {DISK}"), notable(f"other[8]: {DISK} or address")),
        # A line that names the failed service before one that does not.
        (notable("x[7]: cannot start job: no such file"), notable("y[7]: cannot start it: no such file")),
        # The time of the failure before hours earlier, and before later.
        (notable(f"x[7]: job: {DISK}"), notable(f"y[8]: job: {DISK} or address", at=-7200)),
        (notable(f"x[7]: job: {DISK}"), notable(f"y[8]: job: {DISK} or address", at=600)),
        # A line of another daemon that something connects with the failure before a nearer one without that.
        (notable(f"x[7]: job: {DISK}", at=1), notable(f"y[8]: {DISK} or address", at=9)),
        # An error before a warning, and that before information.
        (notable(f"x[7]: level=error msg={DISK!r}"), notable(f"x[7]: level=warning msg={DISK!r}")),
        (notable(f"x[7]: level=warning msg={DISK!r}"), notable(f"x[7]: level=info msg={DISK!r}")),
        # What went wrong before what was waited for.
        (notable(f"x[7]: {DISK}"), notable("x[7]: Error: timed out waiting for the condition")),
        # A crash of the kernel before any error of a program.
        (
            notable("kernel: BUG: unable to handle page fault for address: ffffa1", kind=KERNEL),
            notable(f"x[8]: {DISK}"),
        ),
        # What was logged again and again before what was logged once.
        (notable(f"x[7]: {DISK}", count=9), notable(f"y[7]: {DISK} or address")),
        # The first error of a program before its next.
        (notable(f"x[7]: {DISK}", at=4), notable(f"x[7]: {DISK} or address", at=6)),
        # Lines of healthy hosts come last.
        (
            notable("x[7]: cannot find option c"),
            notable("kernel: ACPI Error: AE_NOT_FOUND, while evaluating", kind=KERNEL),
        ),
    ],
)
def test_more_specific_line_is_ranked_first(first: NotableLine, second: NotableLine) -> None:
    expected = [first.line.text.strip(), second.line.text.strip()]
    assert ranked(first, second) == expected
    assert ranked(second, first) == expected


def test_line_of_healthy_hosts_is_ranked_last() -> None:
    usual, new = (
        notable("x[7]: Error: cannot read file 12"),
        notable("y[7]: refused to read file 12", at=-900),
    )
    assert ranked(usual, new) == [usual.line.text, new.line.text]
    assert ranked(usual, new, known=frozenset({usual.template})) == [new.line.text, usual.line.text]


def test_flood_of_one_program_leaves_room_for_others() -> None:
    flood = [notable(f"loud[7]: Error: {word} is not valid") for word in ("this", "that", "it", "all")]
    same = [notable(f"loud[7]: Error: this is not valid, port {port}") for port in (80, 81)]
    quiet = notable("quiet[8]: read-only file system: cannot write", at=-900)
    shown = [one.text for one in choose_best(rank_lines([*same, *flood, quiet], [JOB]))]
    assert quiet.line.text in shown
    assert len(shown) == 3


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"job[7]: {DISK}", "own-error"),
        (f"other[8]: Error: job: {DISK}", "error-elsewhere"),
        ("other[8]: something failed", None),
        (f"other[8]: Error: {DISK}", None),
        ("job[7]: Error: timed out waiting for the condition", None),
        ("job[7]: exit status 12", None),
        ("kernel: ACPI Error: AE_NOT_FOUND, while evaluating", None),
    ],
)
def test_only_an_error_line_is_the_likely_cause(line: str, name: str | None) -> None:
    cause = find_likely_cause(JOB, None, None, (), rank_lines([notable(line)], [JOB]))
    assert (cause.name if cause is not None else None) == name


def test_unexplained_error_is_shown_beside_the_cause() -> None:
    fatal = notable("ovnkube-node: Error: cannot find the default gateway of '/etc/x'", kind="containers")
    warning = notable("ovnkube-node: level=warning msg='cannot find x'", kind="containers", at=6)
    known = KnownCause(name="a", says="a", line="known")
    shown = choose_lines(rank_lines([fatal, warning]), known, None, has_failed=False)
    assert [one.text for one in shown] == [fatal.line.text]
    assert not choose_lines(rank_lines([fatal, warning]), known, None, has_failed=True)


def test_lines_that_differ_in_identifiers_are_of_one_kind() -> None:
    lines = NotableLines()
    stream = LogStream("x.log", "journal")
    for number, name in enumerate(("a1b2", "77", "0xFF", "deadbeef01"), start=1):
        lines.add(stream, number, f"job[{number}]: error: no volume {name.lower()}".encode())
    lines.add(stream, 9, b"job[1]: error: no network 7")
    found = lines.lines(lambda stream, number, raw: log_line(stream, number, raw, Era()))
    assert [(one.line.place.line, one.count) for one in found] == [(4, 4), (9, 1)]


@pytest.mark.parametrize(
    ("lines", "telling"),
    [
        (
            "*** FATAL CONFIG FILE ERROR (Redis 6.2) ***\nReading the configuration file, at line 3\n>>> 'foo'\nBad directive",
            "Bad directive",
        ),
        ("=== ERROR ===\nthe mirror is empty\nsee above", "the mirror is empty"),
        (
            'configuration error in line 30 of /etc/x.conf:\n"ports" option set for the second time\nfile x not used',
            '"ports" option set for the second time',
        ),
        ("Error: it did not load\nCaused by:\n    the key is empty\n    -h, --help", "the key is empty"),
        ("*** Starting uWSGI (64bit) ***\nerror: no application\ngoodbye", "error: no application"),
        (
            "fatal: 0.0.0.0:smtps: Servname not supported\nfatal: daemon initialization failure\nfatal: mail system startup failed",
            "fatal: 0.0.0.0:smtps: Servname not supported",
        ),
    ],
    ids=["banner", "banner-only", "colon", "caused-by", "greeting", "wrappers"],
)
def test_line_below_a_heading_tells_the_reason(lines: str, telling: str) -> None:
    assert telling_line(lines) == telling


def test_heading_counts_within_its_program() -> None:
    def own(text: str) -> LogLine:
        return notable(text).line

    lines = (
        own("b[8]: it went well"),
        own("a[7]: Bad directive"),
        own("b[8]: fine"),
        own("a[7]: *** FATAL ERROR ***"),
    )
    failure = FailureContext("a", lines=lines)
    assert failure.weigh("Bad directive") is LineWeight.LABELLED
    assert failure.weigh("fine") is LineWeight.PLAIN
