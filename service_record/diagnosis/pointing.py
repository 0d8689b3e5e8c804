"""Choose the likely cause of a failure where no rule is certain of one. Pure.

Candidates are the service's own error line, the causes of rules whose evidence proves nothing, and the line
that stands out most elsewhere. The strongest is shown as `points to`, if it is strong enough.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.evidence.log_lines import is_own_line
from service_record.diagnosis.findings import QuotedLine
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
"""The least score of a line that is called the likely cause: an error without any relation has 4."""
LEAST_ELSEWHERE: Final = 6.0
"""The same for a line of another program: an error near the failure in time, which has 5.5, may be about
anything."""
_OWN_SCORE: Final = 4.5
"""The score of an own line for its writer and time, as in `stands_out`."""
_RULE_SCORE: Final = 1.5
"""The advantage of a line that a rule knows."""
_FACT_SCORE: Final = 5.0
LEAST_UNEXPLAINED: Final = 6.5
"""The least score of an error line that is listed beside a certain cause."""


def likely_cause(
    service: str,
    told: QuotedLine | None,
    known: KnownCause | None,
    doubtful: Sequence[KnownCause],
    ranked: Sequence[StandingOut],
) -> KnownCause | None:
    """Return what a failure most likely comes from; None if nothing is likely enough.

    `told` is the own line that says most, `known` the symptom or form of death that a rule knows.
    """
    best_score, best = LEAST_POINTER, None
    for score, cause in _candidates(service, told, doubtful, ranked):
        if score > best_score:
            best_score, best = score, cause
    if best is None or known is None:
        return best
    context = f"The service itself shows a symptom only: {known.says}."
    return replace(best, explains=f"{context} {best.explains or ''}".strip())


def _candidates(
    service: str, told: QuotedLine | None, doubtful: Sequence[KnownCause], ranked: Sequence[StandingOut]
) -> Iterator[tuple[float, KnownCause]]:
    scores = {one.text: one.score for one in ranked}
    if told is not None and not is_shallow(told.line):
        score = scores.get(told.line.strip(), score_text(told.line) + _OWN_SCORE)
        yield score, _of_line(OWN_ERROR, told.line, told.place or None, "")
    for cause in doubtful:
        if cause.line is None:
            continue
        if cause.place is not None and cause.of is None:
            yield _FACT_SCORE, cause
            continue
        yield scores.get(cause.line.strip(), score_text(cause.line)) + _RULE_SCORE, cause
    for one in ranked:
        if is_shallow(one.text) or is_healthy_line(one.line):
            continue
        name = OWN_ERROR if is_own_line(one.line, service) else OTHER_ERROR
        by = "" if name == OWN_ERROR else one.line.name
        if name == OWN_ERROR or one.score >= LEAST_ELSEWHERE:
            yield one.score, _of_line(name, one.text, str(one.line.place), by)
        break


def _of_line(name: str, line: str, place: str | None, by: str) -> KnownCause:
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
    ranked: Sequence[StandingOut], cause: KnownCause | None, told: QuotedLine | None, *, has_failed: bool
) -> tuple[StandingOut, ...]:
    """Return the lines that stand out and are not shown yet; beside a certain cause only strong ones.

    Where nothing has failed, no line is near a failure, so that less makes a line strong.
    """
    shown = {cause.line.strip()} if cause is not None and cause.line is not None else set()
    if told is not None:
        shown.add(told.line.strip())
    rest = [one for one in ranked if one.text not in shown]
    if cause is not None and cause.is_cause:
        least = LEAST_UNEXPLAINED if has_failed else LEAST_UNEXPLAINED - NEAR_IN_TIME
        rest = [one for one in rest if one.score >= least and not is_shallow(one.text)]
    return choose_shown(rest)
