"""Sentences of a diagnosis, shared by all output formats."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from service_record.diagnosis.budget import TIMES_LONGEST, Basis, Budget
from service_record.diagnosis.evidence.error_lines import LineWeight, telling_line, weight
from service_record.diagnosis.evidence.unit_logs import Hindrance
from service_record.diagnosis.findings import (
    OWN_ERROR,
    BackwardBoot,
    ClockFinding,
    Damaged,
    Diagnosis,
    FailedUnit,
    HostCause,
    LocalTimes,
    LoopOf,
    NotStarted,
    Recovered,
    Running,
    Slow,
    Stopped,
    Trouble,
    Unrecorded,
    UnsetClock,
    Verdict,
)
from service_record.diagnosis.units import START_LIMIT, Unit
from service_record.display.phrases import (
    VERBS,
    duration_text,
    exit_text,
    headline,
    location_text,
    name,
    position_text,
    span_kind,
)
from service_record.display.text import Clock, View, count, duration, moment, times, utc, zone
from service_record.history.outcome import Facts, Outcome, Run, Span, order
from service_record.history.results import Handled
from service_record.record.visible import visible

LOOKS: Final = {
    Verdict.FAILED: Outcome.FAILURE,
    Verdict.LOOPING: Outcome.FAILURE,
    Verdict.STUCK: Outcome.INTERRUPTED,
    Verdict.INTERRUPTED: Outcome.INTERRUPTED,
    Verdict.RUNNING: Outcome.RUNNING,
    Verdict.STOPPED: Outcome.STOPPED,
    Verdict.UNKNOWN: Outcome.INTERRUPTED,
    Verdict.SUCCEEDED: Outcome.SUCCESS,
}
"""Verdict -> the outcome whose colour and sign it uses."""
_BASES: Final = {Basis.FILE: "from the budget file", Basis.DEFAULT: "the default"}

_RESULTS: Final = {
    "exit-code": "a command of it exited with a failure",
    "signal": "a command of it was killed by a signal",
    "core-dump": "a command of it crashed",
    "timeout": "it hit its time limit",
    "watchdog": "its watchdog ran out",
    "oom-kill": "it was killed because memory ran out",
    "start-limit-hit": "it was started too often, and systemd gave up",
    "protocol": "it did not become ready as its unit requires",
    "resources": "systemd could not set it up",
    "service-start-limit-hit": "its service was started too often, and systemd gave up",
    "unit-start-limit-hit": "its unit was started too often, and systemd gave up",
    "trigger-limit-hit": "it was triggered too often, and systemd gave up",
}
"""systemd's result of a unit -> its meaning; systemd.exec(5), org.freedesktop.systemd1(5)."""
_MOUNT_RESULTS: Final = _RESULTS | {"protocol": "its mount program ended well, but nothing is mounted"}
"""The same for mounts; src/core/mount.c."""


def verdict_sentence(diagnosis: Diagnosis) -> str:
    """Return the verdict and its reason: `failed: bootkube in stage pull: the registry has no such image`."""
    if diagnosis.root is not None:
        return trouble_sentence(diagnosis.root)
    # Expected services come first. Units kept from starting by a failed unit come after that unit.
    faults = [one for one in diagnosis.not_started if one.is_fault]
    unseen = [f"failed: {not_started_sentence(one)}" for one in faults if one.is_expected]
    host = diagnosis.host  # the unit with the host's cause comes first
    units = sorted(diagnosis.failed_units, key=lambda one: host is None or one.cause is not host.cause)
    unseen += map(failed_unit_sentence, units)
    unseen += [f"failed: {not_started_sentence(one)}" for one in faults if not one.is_expected]
    if unseen:
        return f"{unseen[0]}, and {len(unseen) - 1} more" if unseen[1:] else unseen[0]
    pending = next((one for one in diagnosis.not_started if one.is_pending), None)
    if not diagnosis.running and pending is not None:
        return f"running: {not_started_sentence(pending)}; {_calm_remark(diagnosis, ' so far')}"
    if (
        not diagnosis.running
        and not diagnosis.stopped
        and diagnosis.verdict in {Verdict.RUNNING, Verdict.STOPPED}
    ):
        asked = [
            *map(unrecorded_sentence, diagnosis.unrecorded),
            *map(not_started_sentence, diagnosis.not_started),
        ]
        return f"{diagnosis.verdict}: {asked[0]}" + (f", and {len(asked) - 1} more" if asked[1:] else "")
    if not diagnosis.running:
        return _calm_sentence(diagnosis)
    # A service that runs again after a failure comes first: it may fail again.
    first = max(diagnosis.running, key=lambda running: (running.before is not None, running.seconds or 0))
    rest = len(diagnosis.running) - 1
    more = f", and {rest} more" if rest else ""
    remark = _calm_remark(diagnosis, " so far")
    own = next((handled for handled in diagnosis.handled if handled.run is first.run), None)
    if own is not None and diagnosis.host is None:
        remark = f"{_continued_text(own)}{_message_suffix(own.stage)}"
    return f"running: {running_sentence(first)}{more}; {remark}"


def host_sentence(host: HostCause) -> str:
    """Return `agent: images come at 0.3 MB/s`."""
    hint = "points to: " if host.cause.is_pointer else ""
    return f"{name(host.service)}: {hint}{visible(host.cause.says)}"


def _calm_remark(diagnosis: Diagnosis, so_far: str = "") -> str:
    """Return a remark on a host without trouble. `so_far` is appended while a service is running."""
    unreadable = diagnosis.unreadable
    if unreadable:
        rest = len(unreadable) - 1
        more = f", nor of {count(rest, 'other service')}" if rest else ""
        why = "is empty" if unreadable[0].is_empty else "is damaged throughout"
        return f"the record of {name(unreadable[0].service)} {why}: nothing is known of it{more}"
    if diagnosis.host is not None:
        return host_sentence(diagnosis.host)
    has_failed = any(running.before is not None for running in diagnosis.running)
    nothing = f"nothing{' else' if has_failed else ''} is wrong{so_far}"
    if diagnosis.has_no_records:
        looked = diagnosis.looked
        nothing = f"no unit failed in {count(looked.lines, 'line')} of {count(looked.files, 'file')}"
        nothing += "; there is no record of a service"
    if diagnosis.minor:
        nothing = f"only {', '.join(map(name, diagnosis.minor))} failed, as on many healthy hosts"
        if diagnosis.stands_out:
            return f"{nothing}; {_lines_that_stand_out(diagnosis)}"
    if diagnosis.stands_out:
        other = "other " if has_failed else ""
        nothing = f"no {other}service has failed{so_far}; {_lines_that_stand_out(diagnosis)}"
    if diagnosis.are_units_unknown:
        nothing = f"no record tells of a failure{so_far}; systemd does not say which units failed"
    return next(map(handled_sentence, diagnosis.handled), nothing)


def _calm_sentence(diagnosis: Diagnosis) -> str:
    """Return the sentence for a host that has no trouble and no running service."""
    rest_of_it = _calm_remark(diagnosis)
    if diagnosis.verdict is Verdict.UNKNOWN and not diagnosis.unreadable:
        return f"unknown: {_unknown_sentence(diagnosis)}"
    if diagnosis.verdict is not Verdict.STOPPED:
        return f"{diagnosis.verdict}: {rest_of_it}"
    last = max(diagnosis.stopped, key=lambda stopped: order(stopped.run.last_entry))
    rest = len(diagnosis.stopped) - 1
    more = f", and {rest} more" if rest else ""
    return f"stopped: {stopped_sentence(last)}{more}; {rest_of_it}"


def _unknown_sentence(diagnosis: Diagnosis) -> str:
    """Return the sentence for a host without records: the findings in other files, or the amount read."""
    nothing = "no service recorded anything"
    if diagnosis.unclear:
        logs = ", ".join(map(name, diagnosis.unclear))
        nothing = f"the log of {logs} was copied before the end"
    if diagnosis.host is not None:
        return f"{nothing}; {host_sentence(diagnosis.host)}"
    looked = diagnosis.looked
    read = f"{count(looked.lines, 'line')} in {count(looked.files, 'file')}"
    if diagnosis.stands_out:
        shown = _lines_that_stand_out(diagnosis)
        return f"{nothing}; no cause is known, but {shown} of {read}"
    return f"{nothing}, and none of {read} names a cause"


def _lines_that_stand_out(diagnosis: Diagnosis) -> str:
    number = len(diagnosis.stands_out)
    return f"{count(number, 'line')} {'stand' if number > 1 else 'stands'} out"


def _extent(trouble: Trouble) -> str:
    """Return the number or the duration of a trouble: `6 attempts`. Empty if it happened once."""
    loop, overrun = trouble.loop, trouble.overrun
    if overrun is not None:
        return f"for {'at least ' if overrun.is_least else ''}{duration(overrun.seconds)}"
    match loop and loop.of:
        case LoopOf.RESTARTS:
            return count(trouble.count, "attempt")
        case LoopOf.STAGE if loop is not None:
            return f"{count(loop.count, 'failure')} in one run"
        case LoopOf.BOOTS if loop is not None:
            return count(loop.count, "boot")
    return f"{trouble.count} runs" if trouble.count > 1 else ""


def _whereabouts(trouble: Trouble) -> str:
    overrun = trouble.overrun
    if overrun is not None:
        return "" if overrun.what == "run" else f" in {overrun.what} {name(overrun.name)}"
    if trouble.loop is not None and trouble.loop.of is LoopOf.STAGE:
        return f" in stage {name(trouble.stage or '')}"
    return position_text(trouble.run)


def cause_text(trouble: Trouble) -> str:
    """Return the cause in a few words: the known cause, else the message, else the exit."""
    cause, line = trouble.cause, reason_line(trouble)
    if cause is not None and cause.is_pointer:
        if line is not None and line.strip() == cause.line:
            return visible(cause.line)
        return f"{cause_text(replace(trouble, cause=None))}; points to: {visible(cause.says)}"
    if cause is not None and (cause.is_cause or line is None or cause.rank == "form of death"):
        return visible(cause.says)
    if trouble.kind is Verdict.STUCK and trouble.overrun is not None:
        return f"longer than {budget_sentence(trouble.overrun.budget)}"
    ended = exit_description(trouble.facts)
    if trouble.suppressed and (line is None or weight(line) <= LineWeight.PLAIN):
        # The rate limit keeps the first lines of a flood, so the reason is among the dropped ones.
        lost = f"the journal dropped {count(trouble.suppressed, 'message')} of it (rate limit)"
        return f"{ended}; {lost}" if ended else lost
    return visible(line) if line else ended or "nothing was recorded of why"


def reason_line(trouble: Trouble) -> str | None:
    """Return the line that most likely has the reason of a failure."""
    return trouble.telling.line if trouble.telling is not None else telling_line(trouble.facts.message)


def exit_description(facts: Facts) -> str:
    """Return exit, command and place: `exit 1 of "podman run" at /usr/local/bin/a.sh:12 in main`."""
    words = exit_text(facts)
    if facts.command is not None:
        command = f'"{visible(facts.command)}"'
        words = f"{words} of {command}" if words else f"{command} failed"
    if facts.location is not None:
        near = "near" if facts.is_approximate else "at"
        words = f"{words} {near} {location_text(facts.location)}".lstrip()
    return words


def budget_sentence(budget: Budget) -> str:
    """Return a budget with its source: `5m 0s, from the budget file`, or the durations behind it."""
    if budget.longest is None:
        return f"{duration(budget.seconds)}, {_BASES[budget.basis]}"
    of = "in the good run" if budget.basis is Basis.BASELINE else "before"
    success = f"{count(budget.executions, 'success', 'successes')} {of}"
    longest = duration(budget.longest)
    if budget.seconds > TIMES_LONGEST * budget.longest:
        return f"{duration(budget.seconds)}, the least, after {success} of at most {longest}"
    return f"{duration(budget.seconds)}, {TIMES_LONGEST} times the longest of {success} ({longest})"


def trouble_sentence(trouble: Trouble) -> str:
    """Return a trouble as one sentence: `stuck: approve-csr in stage wait: ... (for 12m 3s)`."""
    return f"{trouble.kind}: {name(trouble.service)}{_whereabouts(trouble)}: {cause_sentence(trouble)}"


def cause_sentence(trouble: Trouble) -> str:
    """Return the last part of `trouble_sentence`, cause and extent: `the disk is full (6 attempts)`."""
    extent = _extent(trouble)
    return f"{cause_text(trouble)} ({extent})" if extent else cause_text(trouble)


_FIRST_OF_SYSTEMD: Final = 200
"""systemd uses exit statuses from 200 for commands that it could not execute: systemd.exec(5)."""


def failed_unit_sentence(failed: FailedUnit) -> str:
    """Return `failed: mnt-data.mount: exit 32 of ExecMount=/bin/mount; kubelet.service requires it`."""
    unit = failed.unit
    words = f"failed: {name(unit.name)}: {_unit_failure_reason(failed)}"
    is_not_executed = (
        unit.facts.service_result == "resources" or (unit.facts.exit_code or 0) >= _FIRST_OF_SYSTEMD
    )
    if unit.log.spawn_error and is_not_executed:
        # A known cause may have said the reason, "No such file or directory", in its own words.
        is_said = unit.log.spawn_error.rpartition(": ")[2] in words
        words += "" if is_said else f": {visible(unit.log.spawn_error)}"
    elif failed.telling is not None:
        words += f": {visible(failed.telling.line)}"
    if unit.log.has_hit_start_limit and unit.facts.service_result != START_LIMIT:
        words += "; systemd does not start it again: the start limit was hit"
    elif unit.restarts:
        words += f"; systemd has restarted it {times(unit.restarts)}"
    if unit.service is not None:
        recorded = VERBS[failed.recorded] if failed.recorded is not None else ""
        words += f"; its latest recorded run {recorded}" if recorded else "; nothing is recorded of it"
    if unit.required_by:
        first, *rest = unit.required_by
        more = f" and {len(rest)} more" if rest else ""
        words += f"; {name(first)}{more} {'require' if rest else 'requires'} it"
    return words


def _unit_failure_reason(failed: FailedUnit) -> str:
    """Return the reason for the failure of a unit: a known cause, or systemd's result."""
    cause, ended = failed.cause, _unit_exit(failed.unit)
    if cause is None or cause.name == OWN_ERROR:
        return ended
    if cause.is_pointer:
        return f"{ended}; points to: {visible(cause.says)}"
    return f"{visible(cause.says)} ({ended})" if failed.unit.command is not None else visible(cause.says)


def _unit_exit(unit: Unit) -> str:
    """Return the exit or systemd's result of a failed unit: `exit 217 of ExecStart=/usr/bin/job`."""
    result, exit_words = unit.facts.service_result, exit_text(unit.facts)
    if unit.command is not None:
        return f"{exit_words} of {visible(unit.command)}"
    if result is None:
        return "systemd's reason is not known"
    if exit_words and result in {"exit-code", "signal", "core-dump"}:
        return exit_words
    results = _MOUNT_RESULTS if unit.name.endswith(".mount") else _RESULTS
    return results.get(result, f"systemd says {visible(result)}")


_HINDRANCES: Final = {
    Hindrance.MASKED: "its unit is masked",
    Hindrance.UNLOADABLE: "systemd refuses its unit file",
    Hindrance.CONDITION: "a condition of its unit is not met",
    Hindrance.ASSERTION: "an assertion of its unit is not met",
    Hindrance.DEPENDENCY: "a unit that it requires is not active",
    Hindrance.QUEUED: "systemd has queued its start",
    Hindrance.CYCLE: "systemd left it out to break an ordering cycle",
    Hindrance.UNKNOWN: "it has no record",
}
_HINDRANCES_OF_REQUIRED: Final = {
    Hindrance.ABSENT: "and there is no such unit",
    Hindrance.MASKED: "which is masked",
    Hindrance.UNLOADABLE: "whose unit file systemd refuses",
    Hindrance.ASSERTION: "of which an assertion is not met",
    Hindrance.TIMED_OUT: "which did not appear before systemd's time limit",
    Hindrance.CYCLE: "which systemd left out to break an ordering cycle",
}


def not_started_sentence(one: NotStarted) -> str:
    """Return `release-image did not start: there is no unit release-image.service`."""
    service = name(one.service)
    match one.hindrance:
        case Hindrance.DAMAGE:
            return f"{service}: no run can be read, because its record is damaged"
        case Hindrance.TIMED_OUT:
            return f"{service} did not appear before systemd's time limit"
        case Hindrance.DEPENDENCY if one.chain:
            reason = f"it requires {_chain_words(one.chain)}"
        case Hindrance.ABSENT:
            reason = f"there is no unit {name(one.unit)}"
        case Hindrance.UNREACHED:
            reason = f"{name(one.by or '')} comes before it"
        case _:
            reason = _HINDRANCES[one.hindrance]
    detail = f" ({visible(one.detail)})" if one.detail else ""
    return f"{service} {'has not started yet' if one.is_pending else 'did not start'}: {reason}{detail}"


def _chain_words(chain: Sequence[Unit]) -> str:
    """Return `a.service, which requires b.mount, which failed: exit 32 of ExecMount=/bin/mount`."""
    *between, root = chain
    words = "".join(f"{name(unit.name)}, which requires " for unit in between) + name(root.name)
    if root.is_failed:
        return f"{words}, which failed: {_unit_exit(root)}"
    reason = "which did not start either"
    if root.hindrance in _HINDRANCES_OF_REQUIRED:
        reason = _HINDRANCES_OF_REQUIRED[root.hindrance]
    return f"{words}, {reason}" + (f" ({visible(root.detail)})" if root.detail else "")


def unrecorded_sentence(one: Unrecorded) -> str:
    """Return `chronyd.service is active; nothing is recorded of it`."""
    unit = name(one.unit.name)
    if one.unit.is_active:
        restarts = f", and systemd has restarted it {times(one.unit.restarts)}" if one.unit.restarts else ""
        return f"{unit} is active{restarts}; nothing is recorded of it"
    if one.chain:
        return f"{unit} is not active; it requires {_chain_words(one.chain)}"
    return f"{unit} is not active, and systemd knows of no failure; nothing is recorded of it"


def running_sentence(running: Running) -> str:
    """Return `bootkube in stage wait for 3m 2s (attempt 2; before: failed in stage pull)`."""
    run = running.run
    words = name(run.service) + position_text(run)
    if running.seconds is not None and (running.seconds > 0 or not running.is_least):
        words += f" for {'at least ' if running.is_least else ''}{duration_text(run, running.seconds)}"
    return words + _notes(run, running.before)


def stopped_sentence(stopped: Stopped) -> str:
    """Return `app in stage serve, stopped by systemd for a restart (SIGTERM) (attempt 2)`."""
    run = stopped.run
    partner = stopped.partner
    facts = run.facts if partner is None else replace(run.facts, stopped_with=None)
    words = f"{name(run.service)}{position_text(run)}, {exit_text(facts)}"
    if partner is not None:
        partner_state = f"failed: {_unit_exit(partner)}" if partner.is_failed else "is not active any more"
        words += f", because it is bound to {name(partner.name)}, which {partner_state}"
    return words + _notes(run, stopped.before)


def _notes(run: Run, before: Run | None) -> str:
    """Return ` (attempt 2; before: failed in stage pull)`; empty for a first attempt without a failure."""
    notes = [f"attempt {run.attempt}"] if run.attempt > 1 else []
    if before is not None:
        notes.append(f"before: {headline(before)}{_message_suffix(before)}")
    return f" ({'; '.join(notes)})" if notes else ""


def handled_sentence(handled: Handled) -> str:
    """Return `bootkube continued after stage pull failed twice: manifest unknown`."""
    return f"{continued_sentence(handled)}{_message_suffix(handled.stage)}"


def continued_sentence(handled: Handled) -> str:
    """Return `bootkube continued after stage pull failed twice`, without the message."""
    return f"{name(handled.run.service)} {_continued_text(handled)}"


def _continued_text(handled: Handled) -> str:
    stage = f"stage {name(handled.stage.name)}"
    if handled.command is not None:
        stage += f" of {span_kind(handled.command)} {name(handled.command.name)}"
    others = handled.stages - 1
    more = f" (and {count(others, 'other stage')} failed)" if others else ""
    return f"continued after {stage} failed {times(handled.count)}{more}"


def _message_suffix(span: Span) -> str:
    line = telling_line(span.facts.message)
    return f": {visible(line)}" if line else ""


def recovered_sentence(recovered: Recovered) -> str:
    run = recovered.last
    verb = "failed" if run.outcome is Outcome.FAILURE else "ended without recording how"
    place = position_text(run) or " outside stages"
    text = f"{name(run.service)} {verb} {count(recovered.count, 'time')}, last{place}"
    return f"{text}, in an earlier boot, and did not run since" if recovered.is_open else text


def slow_sentence(slow: Slow) -> str:
    what = (
        f"stage {name(slow.stage)} of {name(slow.service)}" if slow.stage is not None else name(slow.service)
    )
    verb = "takes" if slow.is_running else "took"
    ratio = f", {slow.seconds / slow.usual:.1f} times as long" if slow.usual > 0 else ""
    return f"{what} {verb} {duration(slow.seconds)}, in the good run {duration(slow.usual)}{ratio}"


def damaged_sentence(damaged: Damaged) -> str:
    parts = ["no entry in it"] if damaged.is_empty else []
    if damaged.pieces:
        parts.append(f"{count(damaged.pieces, 'damaged piece')}, the first at line {damaged.line}")
    if damaged.lost:
        parts.append(f"{count(damaged.lost, 'entry', 'entries')} could not be written")
    if damaged.is_unfinished:
        parts.append("a write did not end, whose file lies beside it")
    return f"{name(damaged.service)}: {'; '.join(parts)}"


def clock_sentence(finding: ClockFinding) -> str:
    """Return a problem of the host's clock. Times are those of the records, in UTC."""
    match finding:
        case UnsetClock():
            return f"never set: {name(finding.service)} has times of {utc(finding.time, 'seconds')}"
        case LocalTimes():
            services = ", ".join(map(name, finding.services))
            return f"times seem to be those of {zone(finding.utc_offset)}, although labelled UTC: {services}"
        case BackwardBoot():
            boot = visible(finding.boot_id[:8])
            times = f"at {_short(finding.time)}, the one before it at {_short(finding.earlier)}"
            return f"went back: boot {boot} begins {times}"
        case _:
            way = "forward" if finding.seconds > 0 else "back"
            by = duration(abs(finding.seconds))
            return f"set {way} by {by} between {_short(finding.before)} and {_short(finding.after)}"


def _short(time: datetime) -> str:
    return moment(time, Clock.UTC, time)


def since_lines(trouble: Trouble, view: View) -> Iterator[str]:
    """Yield the start of a trouble that lasts or repeats, with the number of failures and their messages.

    Yields nothing for a single failure, whose time `run_summary` has.
    """
    begun = moment(trouble.recorded_since, view.clock, view.now)
    loop = trouble.loop
    if trouble.overrun is not None:
        yield begun
    elif loop is not None and loop.of is LoopOf.BOOTS:
        yield f"{begun}: {count(loop.count, 'boot')} in a row got no further"
    elif loop is not None:
        wording = (
            "saying the same each time" if loop.messages == 1 else f"saying {count(loop.messages, 'thing')}"
        )
        yield f"{begun}: {count(loop.count, 'failure')} in a row" + (f", {wording}" if loop.messages else "")
    elif trouble.count > 1:
        yield f"{begun}: {count(trouble.count, 'run')} in a row ended alike"
    if trouble.is_running and loop is not None and loop.of is LoopOf.RESTARTS:
        yield "it runs again now, and has got no further yet"


def findings(diagnosis: Diagnosis) -> dict[str, list[str]]:
    """Return everything besides the root cause: label in the terminal -> sentences."""
    return {
        "missing": list(map(not_started_sentence, diagnosis.not_started)),
        "units": [
            *map(failed_unit_sentence, diagnosis.failed_units),
            *map(unrecorded_sentence, diagnosis.unrecorded),
        ],
        "follows": list(map(trouble_sentence, diagnosis.followers)),
        "also": list(map(trouble_sentence, diagnosis.others)),
        "running": list(map(running_sentence, diagnosis.running)),
        "stopped": list(map(stopped_sentence, diagnosis.stopped)),
        "earlier": list(map(recovered_sentence, diagnosis.recovered)),
        "slow": list(map(slow_sentence, diagnosis.slow)),
        "clock": list(map(clock_sentence, diagnosis.clock)),
        "damaged": list(map(damaged_sentence, diagnosis.damaged)),
    }
