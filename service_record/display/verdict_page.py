"""The diagnosis on one page: the verdict and its cause in the first line, the evidence, and what to do."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from service_record.diagnosis.findings import Diagnosis, KnownCause, Trouble, host_commands, next_commands
from service_record.display.phrases import (
    LABEL_WIDTH,
    details,
    glyph,
    ink,
    label_lines,
    location_text,
    name,
    rank_label,
    run_summary,
    summary,
)
from service_record.display.sentences import (
    LOOKS,
    budget_sentence,
    continued_sentence,
    findings,
    since_lines,
    trouble_sentence,
    verdict_sentence,
)
from service_record.display.table import stage_lines
from service_record.display.text import (
    BLANK,
    Ink,
    Line,
    View,
    count,
    cut,
    cut_around,
    cut_within,
    moment,
    render_lines,
    wrap,
    wrap_lines,
)
from service_record.history import History
from service_record.history.results import Handled
from service_record.record.visible import visible

_INDENT: Final = 2
_TEXT_WIDTH: Final = 100
_MAX_ROWS: Final = 3
"""The limit of rows for the verdict: the message of a service can be very long."""
_MAX_LISTED: Final = 6
_MAX_HANDLED: Final = 3
_MAX_BRIEF_COMMANDS: Final = 3


def analysis(
    diagnosis: Diagnosis, history: History, source: str, view: View, *, whole: bool = False
) -> Iterator[Line]:
    """Yield the lines of `analyze`; with `whole`, every trouble in full and nothing cut."""
    yield from _verdict(diagnosis, view, None if whole else _MAX_ROWS)
    yield from summary(history, source, view)
    if diagnosis.root is not None:
        yield BLANK
        yield from _detail_lines(
            diagnosis.root, view, whole=whole, stands_out=_stands_out(diagnosis, view, whole=whole)
        )
    elif diagnosis.host is not None:
        yield BLANK
        yield from _cause(diagnosis.host.cause, view, whole=whole)
        yield from _stands_out(diagnosis, view, whole=whole)
        yield from _commands(diagnosis.host.cause.commands)
    elif diagnosis.stands_out:
        yield BLANK
        yield from _stands_out(diagnosis, view, whole=whole)
    if diagnosis.handled:
        yield BLANK
        yield from _handled_lines(diagnosis.handled, view, whole=whole)
    limit = None if whole else _MAX_LISTED
    sentences = {**findings(diagnosis), "looked": list(_search_sentence(diagnosis))}
    lists = [line for label, texts in sentences.items() for line in _list(label, texts, view, limit)]
    if lists:
        yield BLANK
        yield from lists
    if diagnosis.root is None:
        shown = len(diagnosis.host.cause.commands) if diagnosis.host is not None else 0
        yield from _commands(host_commands(diagnosis)[shown:][:limit])
    if whole:
        for trouble in (*diagnosis.followers, *diagnosis.others):
            yield BLANK
            yield from wrap_lines(trouble_sentence(trouble), Ink.STRONG, view)
            yield from _detail_lines(trouble, view, whole=True)


def brief_analysis(diagnosis: Diagnosis, history: History, view: View, in_full: str) -> Iterator[Line]:
    """Yield the verdict, up to three lines of evidence and the next commands, `in_full` as the last."""
    yield from _verdict(diagnosis, view, _MAX_ROWS)
    if history.services:
        yield next(iter(summary(history, "", view)))
    root, commands = diagnosis.root, host_commands(diagnosis)
    facts = {}
    if root is not None:
        commands = next_commands(root)
        facts["run"] = ", ".join(filter(None, (name(root.service), run_summary(root.run, view))))
        if root.facts.location is not None:
            facts["at"] = location_text(root.facts.location)
        elif root.telling is not None:
            facts["line"] = root.telling.line
    elif diagnosis.host is not None and diagnosis.host.cause.line is not None:
        facts["line"] = diagnosis.host.cause.line
    for label, text in facts.items():
        room = max(view.width - _INDENT - LABEL_WIDTH, 20)
        yield from label_lines(label, [(cut(visible(text), room, view.glyphs.cut), Ink.PLAIN)], view, _INDENT)
    yield from _commands([*commands[:_MAX_BRIEF_COMMANDS], in_full])


def analysis_text(diagnosis: Diagnosis, history: History, source: str, at: datetime) -> str:
    """Return the page of `analyze` as plain text, for a bundle made at the time `at`."""
    view = View(width=_TEXT_WIDTH, now=at)
    return "".join(render_lines(analysis(diagnosis, history, source, view), color=False))


def _verdict(diagnosis: Diagnosis, view: View, limit: int | None) -> Iterator[Line]:
    """Yield the sentence of the verdict, in at most `limit` rows."""
    look = LOOKS[diagnosis.verdict]
    room = view.width - _INDENT
    sentence = verdict_sentence(diagnosis)
    rows = wrap(sentence if limit is None else cut(sentence, room * limit, view.glyphs.cut), room)
    for number, row in enumerate(rows):
        lead = f"{glyph(look, view.glyphs)} " if number == 0 else " " * _INDENT
        yield (lead, ink(look)), (row, ink(look))


def _stands_out(diagnosis: Diagnosis, view: View, *, whole: bool) -> Iterator[Line]:
    """Yield the log lines to read first, with their places."""
    texts = []
    for told in diagnosis.stands_out:
        times = f" ({told.count} times)" if told.count > 1 else ""
        line = f"{told.by}: {told.line}" if told.by else told.line
        text = visible(line) if whole else cut_within(visible(line), view.width * 2, view.glyphs.cut)
        texts.append(f"{visible(told.place)}{times}: {text}")
    found = diagnosis.root or diagnosis.host
    cause = found.cause if found is not None else None
    label = "more" if cause is not None and cause.is_cause else "see"
    yield from _list_lines(label, texts, view)


def _detail_lines(
    trouble: Trouble, view: View, *, whole: bool, stands_out: Iterable[Line] = ()
) -> Iterator[Line]:
    """Yield a trouble with all its evidence, and what to do next."""
    run = trouble.run
    yield from _list_lines(
        "run", [", ".join(filter(None, (name(trouble.service), run_summary(run, view))))], view
    )
    yield from _list_lines("since", since_lines(trouble, view), view)
    if trouble.overrun is not None:
        yield from _list_lines("budget", [budget_sentence(trouble.overrun.budget)], view)
    yield from _cause(trouble.cause, view, whole=whole)
    if trouble.telling is not None:
        yield from _list_lines(
            "line", [_quote_line(trouble.telling.line, trouble.telling.place, view, whole=whole)], view
        )
    yield from stands_out
    yield from details(trouble.facts, view, _INDENT, whole=whole)
    yield from stage_lines(run.stages, view, _INDENT)
    yield from _commands(next_commands(trouble))


def _handled_lines(failures: Sequence[Handled], view: View, *, whole: bool) -> Iterator[Line]:
    """Yield the failures that services continued after, with their recorded facts."""
    limit = None if whole else _MAX_HANDLED
    for handled in failures[:limit]:
        at = handled.stage.ended or handled.stage.started
        text = f"{continued_sentence(handled)}, {moment(at, view.clock, view.now)}"
        yield from _list_lines("handled", [text], view)
        yield from details(handled.stage.facts, view, _INDENT, whole=whole)
    rest = len(failures[limit:]) if limit is not None else 0
    if rest:
        yield from _list_lines("", [f"and {count(rest, 'service')} more, shown by --output wide"], view)


def _commands(commands: Iterable[str]) -> Iterator[Line]:
    """Yield a line for each command. It is never wrapped, because users copy and paste it."""
    label = "next"
    for command in commands:
        lead = (" " * _INDENT, Ink.PLAIN), (label.ljust(LABEL_WIDTH), Ink.FAINT)
        yield *lead, (visible(command), Ink.PLAIN)
        label = ""


def _cause(cause: KnownCause | None, view: View, *, whole: bool) -> Iterator[Line]:
    if cause is None:
        return
    texts = [(f"{visible(cause.says)} ({visible(cause.name)})", Ink.STRONG)]
    if cause.explains is not None:
        texts.append((visible(cause.explains.strip()), Ink.PLAIN))
    if cause.line is not None:
        text = _quote_line(cause.line, cause.place, view, whole=whole, part=cause.found or "")
        texts.append((f"known by: {text}", Ink.FAINT))
    yield from label_lines(rank_label(cause.rank), texts, view, _INDENT)


def _quote_line(line: str, place: str | None, view: View, *, whole: bool, part: str = "") -> str:
    """Return a log line with its file and line number. If it is cut, `part` stays visible."""
    text = visible(line)
    text = text if whole else cut_around(text, visible(part), view.width * 2, view.glyphs.cut)
    return text if place is None else f"{visible(place)}: {text}"


def _search_sentence(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield how much was read besides the records, if none of it names a cause."""
    looked, root = diagnosis.looked, diagnosis.root
    if looked.files and root is not None and not (root.cause is not None and root.cause.is_cause):
        files = f"{count(looked.lines, 'line')} in {count(looked.files, 'file')}"
        kinds = f" ({', '.join(sorted(looked.kinds))})" if looked.kinds else ""
        yield f"{files}{kinds}: no rule names a cause"


def other_host_sentences(hosts: Iterable[tuple[str, Diagnosis]]) -> Iterator[str]:
    """Yield the name and the verdict of each other host in the source."""
    return (visible(f"{source}: {verdict_sentence(diagnosis)}") for source, diagnosis in hosts)


def other_host_lines(hosts: Iterable[tuple[str, Diagnosis]], view: View) -> Iterator[Line]:
    """Yield one line for each other host in the source: its name and its verdict."""
    texts = list(other_host_sentences(hosts))
    if texts:
        yield BLANK
        yield from _list_lines("others", texts, view)


def weighed_lines(diagnosis: Diagnosis, view: View) -> Iterator[Line]:
    """Yield the lines of `--explain`: the rules that match, with the line, and why most are not named."""
    if not any(diagnosis.weighed.values()):
        yield BLANK
        yield from _list_lines("rules", ["no rule fits anything here"], view)
    for service, weighed in diagnosis.weighed.items():
        if weighed:
            yield BLANK
            yield from _list_lines("rules", [f"of {name(service) if service else 'the host'}"], view)
        for one in weighed:
            result = "named" if one.is_named else f"not named: {visible(one.lost or '')}"
            texts = [(f"{visible(one.rule)} ({one.rank}): {result}", Ink.PLAIN)]
            if one.line is not None:
                texts.append((_quote_line(one.line, one.place, view, whole=True), Ink.FAINT))
            yield from label_lines("", texts, view, _INDENT)


def _list(label: str, texts: Sequence[str], view: View, limit: int | None) -> Iterator[Line]:
    if limit is not None and len(texts) > limit:
        texts = [*texts[:limit], f"and {len(texts) - limit} more, shown by --output wide"]
    if limit is not None:
        texts = [cut(text, view.width * 2, view.glyphs.cut) for text in texts]
    yield from _list_lines(label, texts, view)


def _list_lines(label: str, texts: Iterable[str], view: View) -> Iterator[Line]:
    yield from label_lines(label, ((text, Ink.PLAIN) for text in texts), view, _INDENT)
