"""Choose the likely cause of a failure for which no rule is certain. Pure.

Candidates are the error line of the service, the causes of rules with doubtful evidence, and the line that
stands out most. The candidate with the highest score is shown as `points to`, if it reaches a minimum.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.evidence.log_lines import is_own_line
from service_record.diagnosis.findings import QuotedLine
from service_record.diagnosis.fitting import (
    ABOUT_ANOTHER_UNIT,
    HAS_PASSED,
    MAY_HAVE_PASSED,
    OF_UNNAMED_UNIT,
)
from service_record.diagnosis.stands_out import (
    NEAR_IN_TIME,
    StandingOut,
    choose_shown,
    is_healthy_line,
    is_shallow,
    score_text,
)
from service_record.diagnosis.trouble_facts import OTHER_ERROR, OWN_ERROR, POINTS_TO, KnownCause

LEAST_POINTER: Final = 4.5
"""A likely cause scores more than this. A labelled error without any relation to the failure scores 4."""
LEAST_IN_FRAGMENT: Final = 3.4
"""The least score of a line that a rule knows, in a fragment of a log. A known warning scores 3.5."""
LEAST_ELSEWHERE: Final = 6.0
"""The least score of another program's line. An unrelated error close to the failure in time scores 5.5."""
_OWN_LINE_SCORE: Final = 4.5
"""The score for the writer and the time of an own line, as in `stands_out`."""
_RULE_BONUS: Final = 1.5
"""Added to the score of a line that a rule knows."""
_DOUBT_SCORES: Final = {HAS_PASSED: -2.0, ABOUT_ANOTHER_UNIT: -2.0}
"""Added in place of the bonus if the line is unlikely to belong to the failure. `unless` of a rule lowers no
score: a lost lease of one interface is still likely beside the address of another."""
_FACT_SCORE: Final = 5.0
_UNNAMED_UNIT_SCORE: Final = 5.0
"""The least score of a known line from the time of the run, if the log does not name its unit."""
LEAST_IN_FRAGMENT_SHOWN: Final = -2.0
"""A line that only reports the failure of a part scores more than this; a line of healthy hosts, less."""
LEAST_UNEXPLAINED: Final = 6.5
"""The least score of an error line that is listed in addition to a certain cause."""


def likely_cause(
    service: str,
    telling: QuotedLine | None,
    known: KnownCause | None,
    doubtful: Sequence[KnownCause],
    ranked: Sequence[StandingOut],
    *,
    is_fragment: bool = False,
) -> KnownCause | None:
    """Return the most likely cause of a failure; None if no candidate scores enough.

    `telling` is the telling line of the service. `known` is the symptom, form of death or contributing
    cause that a rule found.
    In a fragment of a log, in which no service is known to have failed, only rules count.
    """
    best_score, best = LEAST_IN_FRAGMENT if is_fragment else LEAST_POINTER, None
    known_line = known.line if known is not None else None
    for score, cause in _score_candidates(service, telling, doubtful, ranked):
        counts = cause.is_of_rule or not (is_fragment or cause.line == known_line)
        if score > best_score and counts:
            best_score, best = score, cause
    if best is None or known is None:
        return best
    shows = (
        "It may contribute that"
        if known.rank == "contributing"
        else "The service itself shows a symptom only:"
    )
    context = f"{shows} {known.says}."
    return replace(best, explains=f"{context} {best.explains or ''}".strip())


def _score_candidates(
    service: str, telling: QuotedLine | None, doubtful: Sequence[KnownCause], ranked: Sequence[StandingOut]
) -> Iterator[tuple[float, KnownCause]]:
    scores = {one.text: one.score for one in ranked}
    if telling is not None and not is_shallow(telling.line):
        score = scores.get(telling.line.strip(), score_text(telling.line) + _OWN_LINE_SCORE)
        yield score, _unknown_line_cause(OWN_ERROR, telling.line, telling.place or None, "")
    for cause in doubtful:
        if cause.line is None:
            continue
        bonus = _DOUBT_SCORES.get(cause.doubt or "", _RULE_BONUS)
        if cause.place is not None and cause.of is None:
            yield _FACT_SCORE + min(bonus, 0.0), cause
            continue
        score = scores.get(cause.line.strip(), score_text(cause.line))
        if cause.doubt == OF_UNNAMED_UNIT:
            yield max(score + _RULE_BONUS, _UNNAMED_UNIT_SCORE), cause
        elif cause.doubt != MAY_HAVE_PASSED or score >= LEAST_ELSEWHERE:
            yield score + bonus, cause
    for one in ranked:
        if is_shallow(one.text) or is_healthy_line(one.line):
            continue
        name = OWN_ERROR if is_own_line(one.line, service) else OTHER_ERROR
        by = "" if name == OWN_ERROR else one.line.name
        if name == OWN_ERROR or one.score >= LEAST_ELSEWHERE:
            yield one.score, _unknown_line_cause(name, one.text, str(one.line.place), by)
        break


def _unknown_line_cause(name: str, line: str, place: str | None, by: str) -> KnownCause:
    where = f" of {by}" if by else ""
    return KnownCause(
        name=name,
        says=f"{by}: {line}" if by else line,
        explains=f"No rule knows this line{where}. It stands out most; read the lines around it.",
        rank=POINTS_TO,
        doubt="no rule knows the line",
        line=line,
        place=place,
        of=by or None,
    )


def lines_to_show(
    ranked: Sequence[StandingOut],
    cause: KnownCause | None,
    telling: QuotedLine | None,
    *,
    explained: Collection[str] = (),
    has_failed: bool,
    is_fragment: bool = False,
) -> tuple[StandingOut, ...]:
    """Return the lines that stand out and are not shown elsewhere on the page.

    `explained` are the lines by which the causes of other failures are known.

    In addition to a certain cause, only lines with a high score are shown. Without a failure no line gets
    points for being near one, so the limit is lower. In a fragment of a log, weak lines are better than none.
    """
    shown = {line.strip() for line in explained}
    if cause is not None and cause.line is not None:
        shown.add(cause.line.strip())
    if telling is not None:
        shown.add(telling.line.strip())
    rest = [one for one in ranked if one.text not in shown]
    if cause is not None and cause.is_cause:
        least = LEAST_UNEXPLAINED if has_failed else LEAST_UNEXPLAINED - NEAR_IN_TIME
        rest = [one for one in rest if one.score >= least and not is_shallow(one.text)]
    shown_lines = choose_shown(rest)
    if not shown_lines and cause is None and is_fragment:
        return choose_shown(rest, LEAST_IN_FRAGMENT_SHOWN)
    return shown_lines
