"""One round: examine the host, query the service, and take the steps that the rules choose.

Each step's result is saved before the next step starts, so a killed round loses nothing. Errors of settings,
network and disk are logged and end no round; the next round continues. A dry run prints what a round would
do.
"""

import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from service_record.http.answers import Outcome, Unreachable
from service_record.record import systemd
from service_record.record.atomic_write import clear_the_way
from service_record.record.directory import Records
from service_record.record.journal_sending import MessageKind
from service_record.record.visible import visible
from service_record.reporter import log
from service_record.reporter.assisted_service import succeeded
from service_record.reporter.due import is_due_at
from service_record.reporter.host_state import HostEvidence, observe
from service_record.reporter.host_view import HostView, View
from service_record.reporter.log import Log, outcome_text, view_text
from service_record.reporter.paths import Places, is_there
from service_record.reporter.policy.decisions import decide, spool_place
from service_record.reporter.policy.round_context import RoundContext, RoundPlan, Shipment, StageReport
from service_record.reporter.policy.shipments import reads_view
from service_record.reporter.policy.transitions import (
    Call,
    ResponseClass,
    apply_report,
    apply_shipment,
    apply_view,
    begin_round,
    classify,
    classify_report,
    count_report,
    count_shipment,
    has_moved,
    with_reported,
)
from service_record.reporter.settings import COLLECTOR, Settings, read_settings, secrets_in
from service_record.reporter.shipping import Clients
from service_record.reporter.spool import BundleQueue
from service_record.reporter.state import ReporterState, load, newest_state_file, save
from service_record.reporter.stopping import (
    HeldError,
    finish,
    lock_rounds,
    log_undelivered,
    read_tombstone,
    stop,
)
from service_record.rotation import RotationError, find_long_records, max_bytes, rotate

if TYPE_CHECKING:
    from service_record.redaction import Rules

_MAX_PLANS: Final = 8
"""The limit of plans in one round. The rules need at most seven: two forms of a fact, both again after the
host has reached another stage, two slots for logs, and the report of the bundle's place.
"""
_ROUND_SECONDS: Final = 780.0
"""The time in a round after which shipments end. The unit kills a round after 900 s."""
_MIN_SECONDS: Final = 30.0
"""The least remaining time with which a shipment begins."""
_LOG_IN: Final = "Log in: service-record analyze"


def run_round(places: Places, environ: Mapping[str, str], say: Log, *, only_if_due: bool = False) -> bool:
    """Run a round, unless another one is running. After a permanent stop, finish the clean-up instead.

    Return False if a bundle was held back, because a secret would have left the host with it.
    """
    tombstone = read_tombstone(places)
    if tombstone is not None:
        for line in finish(places, tombstone):
            say.error(line)
        return True
    try:
        with lock_rounds(places, say):
            settings, (state, is_known) = read_settings(places, environ), _load_state(places, say)
            now = systemd.boot_id() or "unknown", systemd.uptime() or 0.0
            if only_if_due and not is_due_at(settings, state, *now):
                send_records(places, environ, settings, say)
                return True
            return Round(places, environ, say, settings, state, may_save=is_known).run()
    except HeldError:
        say.info("another round is running; this one leaves it to that")
        return True


def _load_state(places: Places, say: Log) -> tuple[ReporterState, bool]:
    """Return the state, and whether it could be read; if not, it must not be saved."""
    try:
        state = load(newest_state_file(places))
    except OSError as error:
        say.error(f"{places.state_file}: {error.strerror}; without it nothing is reported or shipped")
        return ReporterState(is_careful=True), False
    if state.is_careful:
        say.warning(
            f"{places.state_file}: an earlier one was damaged, or no file; it is beside it as "
            "`.damaged`, and at most one bundle is shipped"
        )
    return state, True


@dataclass(slots=True)
class Round:
    """The state and the steps of a running round."""

    places: Places
    environ: Mapping[str, str]
    say: Log
    settings: Settings
    state: ReporterState
    may_save: bool = True
    """False if the earlier state could not be read: it must not be overwritten, as the next round may be
    able to read it. Then no step is taken.
    """
    evidence: HostEvidence = field(init=False)
    view: View | None = None
    plan: RoundPlan = field(default_factory=RoundPlan)
    is_view_old: bool = False
    """True if the view may be outdated: a stage was reported since, or making a bundle took minutes."""
    is_settled: bool = False
    """True if this round gathers and ships no more."""
    tried: set[tuple[str, ...]] = field(default_factory=set)
    """The steps that this round has tried."""
    is_saved: bool = False
    """True if the present state is saved."""
    rules: "Rules | None" = None
    """The rules that mask the verdict. They are made once, because that takes a tenth of a second."""
    words: str = ""
    """The verdict with the script line of the failure, masked. Empty if a secret could not be masked."""
    ends: float = field(default_factory=lambda: monotonic() + _ROUND_SECONDS)

    def run(self) -> bool:
        """Run the round. Return False if a bundle was held back because of a secret in it."""
        for fault in self.settings.faults:
            self.say.warning(fault, MessageKind.SETTING)
        self._clean_up_leftovers()
        self.evidence = observe(self.places)
        self._save(begin_round(self.settings, self.state, self.evidence))
        clients = Clients(self.settings)
        if reads_view(self._context()):
            self._read_view(clients)
            self.say.notice(f"the service says: {view_text(self.view)}")
        self.plan = self._decide()
        advice = self._advice()
        self.show_verdict(advice)
        self._log_failure()
        bundles = BundleQueue(self.places, self.environ, self.say, self.settings, self.evidence)
        for _ in range(_MAX_PLANS):
            self.plan = self._decide()
            for line in plan_lines(self.plan):
                self.say.notice(line)
            if not self.is_saved or not self._carry_out(clients, bundles):
                break
        self.is_settled = True
        self.plan = self._decide()
        if self.is_saved and self.plan.report:
            self._carry_out(clients, bundles)
        if self.may_save:  # else nothing is known about the bundle in the spool
            self._save(bundles.drop_delivered(self.state))
        if self._advice() != advice:
            self.show_verdict(self._advice())
        send_records(self.places, self.environ, self.settings, self.say)
        rotate_records(self.places, self.environ, self.say)
        if self.plan.stop is not None:
            self._stop(self.plan.stop.reason, is_undelivered=self.plan.is_undelivered)
            return True
        return bundles.leak is None

    def _context(self) -> RoundContext:
        return RoundContext(self.settings, self.state, self.evidence, self.view)

    def _decide(self) -> RoundPlan:
        return decide(self._context(), is_settled=self.is_settled)

    def _carry_out(self, clients: Clients, bundles: BundleQueue) -> bool:
        """Take the steps of the plan that this round has not tried; return whether there were any.

        Facts come first, because making a bundle takes minutes. Sending another stage than the current one
        would change the installation, so an outdated view is read again before a report.
        """
        if self.plan.is_reported:
            self._save(with_reported(self.state, self._context().fact))
        if self.plan.report and self.is_view_old:
            self._read_view(clients)
            self.plan = self._decide()
        report = self.plan.report
        if report is not None and self._is_new((report.stage, report.info, report.place)):
            self._report(clients, report)
            return True
        gathers = self.plan.gather and not bundles.has_tried
        if gathers:
            self.is_view_old = True
            self._save(bundles.gather(self.state, self.plan.bundle_bytes))
        shipments = [shipment for shipment in self.plan.ship if self._is_new((shipment.kind,))]
        for shipment in shipments:
            self._ship(clients, bundles, shipment)
        return bool(gathers or shipments or self.plan.is_reported)

    def _is_new(self, step: tuple[str, ...]) -> bool:
        """Return whether this round has not tried the step yet. Each step is tried once in a round."""
        is_new = step not in self.tried
        self.tried.add(step)
        return is_new

    def _report(self, clients: Clients, report: StageReport) -> None:
        if not self._save(count_report(self.state, report)):
            return
        with clients.service() as service:
            outcome = service.report_stage(report.stage, report.words(self.words))
        text = f"{'the verdict' if report.place else report.fact} (stage {report.stage})"
        if succeeded(outcome):
            self.is_view_old = True
            self.say.notice(f"reported to the service: {text}", MessageKind.DELIVERED)
        elif classify_report(report, outcome) is ResponseClass.OTHER_FORM:
            self.say.notice(
                f"the service has no stage {report.stage}: reported as information", MessageKind.DELIVERED
            )
        else:
            self.say.warning(
                f"not reported to the service: {text}: {outcome_text(outcome)}", MessageKind.UNDELIVERED
            )
        self._save(apply_report(self.state, report, outcome, self.evidence))
        if has_moved(self.state, report, outcome):
            self._read_view(clients)

    def _read_view(self, clients: Clients) -> None:
        self.view, self.is_view_old = clients.view(), False
        self._save(apply_view(self.state, self.view, self.evidence))

    def _ship(self, clients: Clients, bundles: BundleQueue, shipment: Shipment) -> None:
        found, kind = bundles.find_bundle(shipment.most), shipment.kind
        if found is None:
            self._save(replace(self.state, bundle=None))
            return
        bundle, size = found
        is_known = kind in self.state.accepted
        if not self._save(count_shipment(self.state, shipment, self.evidence, size)):
            return
        remaining = self.ends - monotonic()
        if remaining < _MIN_SECONDS:
            outcome: Outcome = Unreachable("no time is left in this round", tries=0)
        else:
            outcome = clients.ship(shipment, bundle, remaining, is_known=is_known)
        if succeeded(outcome):
            self.say.notice(f"{kind}: shipped {bundle.name}, {size} bytes", MessageKind.DELIVERED)
        elif classify(Call.UPLOAD, outcome) is ResponseClass.NEVER_AGAIN:
            self.say.warning(
                f"{kind}: refused, and not tried again: {outcome_text(outcome)}", MessageKind.UNDELIVERED
            )
        else:
            self.say.warning(
                f"{kind}: not shipped, and kept: {outcome_text(outcome)}", MessageKind.UNDELIVERED
            )
        self._save(apply_shipment(self.state, shipment, outcome, self.evidence, size))

    def _save(self, state: ReporterState) -> bool:
        """Save the state, and return whether that worked. A step that cannot be counted must not be taken."""
        if state == self.state and self.is_saved:
            return True
        self.state = state
        if not self.may_save:
            return False
        for places in (self.places, self.places.volatile):
            try:
                save(places.state_file, state)
            except OSError as error:
                self.say.error(f"{places.state_file}: {error.strerror}")
                continue
            if not places.is_volatile:
                with suppress(OSError):
                    places.volatile.state_file.unlink(missing_ok=True)
            self.is_saved = True
            return True
        self.say.error("the state cannot be saved, so nothing is reported or shipped")
        self.is_saved = False
        return False

    def _clean_up_leftovers(self) -> None:
        """Remove leftovers of killed rounds. Move away files in the place of the reporter's directories."""
        memory = self.places.volatile
        directories = [self.places.work_directory, self.places.spool_directory]
        if is_there(memory.state_directory):
            directories += [memory.work_directory, memory.spool_directory]
        for directory in directories:
            try:
                moved = clear_the_way(directory, is_directory=True)
            except OSError as error:
                self.say.warning(f"{directory}: not our directory: {error.strerror}; move it away by hand")
                continue
            if moved is not None:
                self.say.warning(f"{directory}: not our directory, and no link is followed; moved to {moved}")
        shutil.rmtree(self.places.work_directory, ignore_errors=True)
        shutil.rmtree(memory.work_directory, ignore_errors=True)

    def show_verdict(self, advice: str) -> None:
        """Show the masked verdict and the advice on the consoles."""
        from service_record.redaction import LeakError, Rules, known_secrets, outgoing_text

        if self.rules is None:
            secrets = known_secrets(self.places.root, self.environ).secrets
            self.rules = Rules((*secrets, *secrets_in(self.settings)))
        rules = self.rules
        root = self.evidence.root
        parts = [root.stage or "", *(root.facts.message or "").splitlines()] if root is not None else []

        def mask(text: str) -> str:
            # Mask each part by itself first: within a sentence, the words around a secret can hide it.
            for part in filter(None, parts):
                text = text.replace(part, outgoing_text(part, rules))
            return outgoing_text(text, rules)

        try:
            sentence = mask(log.describe_verdict(self.evidence))
            advice = outgoing_text(advice, rules)
            self.words = mask(log.describe_cause(self.evidence))
        except LeakError:
            sentence, advice = "the verdict holds a secret of this host", _LOG_IN
        try:
            log.write_issue(self.places, log.format_issue(sentence, advice))
        except OSError as error:
            self.say.warning(f"{self.places.issue}: {error.strerror}")

    def _log_failure(self) -> None:
        """Log the masked verdict on the service that failed, for `journalctl -xu SERVICE`."""
        root = self.evidence.root
        if root is None or not self.words or self.rules is None:
            return
        from service_record.redaction import LeakError, outgoing_text

        with suppress(LeakError):
            fields = {
                "SERVICE_RECORD_SERVICE": root.service,
                "SERVICE_RECORD_STAGE": outgoing_text(root.stage or "", self.rules),
                "SERVICE_RECORD_RESULT": str(root.kind),
                # systemd's own name for the subject of a message: journalctl --unit finds it.
                "OBJECT_SYSTEMD_UNIT": f"{root.service}.service",
            }
            self.say.failure(self.words, fields)

    def _advice(self) -> str:
        service, faults = self.settings.service, self.settings.faults
        if service is None and faults and not self.settings.ship_to:
            return "Not reported: settings are missing or wrong. Log in: journalctl -u boot-reporter"
        if service is not None and not service.is_usable:
            return "Not reported: the token is unusable. Log in: journalctl -u boot-reporter"
        if self.plan.keeps:
            return f"{spool_place(self.state)}. {_LOG_IN}"
        if self.view is None and self.state.denial is not None:
            return f"Not reported: the service refuses this host. {_LOG_IN}"
        if self.view is None or isinstance(self.view, HostView):
            return _LOG_IN
        return f"Not reported: {view_text(self.view)}. {_LOG_IN}"

    def _stop(self, reason: str, *, is_undelivered: bool) -> None:
        self.say.notice(f"stopped permanently: {reason}", MessageKind.STOPPED)
        if is_undelivered:
            self.show_verdict(f"{spool_place(self.state)}. {_LOG_IN}")
        for line in stop(self.places, self.settings, reason, is_undelivered=is_undelivered):
            self.say.error(line)
        log_undelivered(self.places, self.say, is_undelivered=is_undelivered)


def plan_lines(plan: RoundPlan) -> Iterator[str]:
    """Yield the rules behind the plan, and the reason to stop if the plan has one."""
    yield from plan.why
    if plan.stop is not None:
        yield f"stops: {plan.stop.reason}"


def dry_run_lines(places: Places, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each step that a round would take now. Only reads, also from the service."""
    tombstone = read_tombstone(places)
    if tombstone is not None:
        yield f"stopped permanently: {tombstone.reason}"
        return
    settings, state = read_settings(places, environ), ReporterState(is_careful=True)
    yield from settings.faults
    try:
        state = load(newest_state_file(places), sets_aside=False)
    except OSError as error:
        yield f"{places.state_file}: {error.strerror}; without it nothing is reported or shipped"
    evidence = observe(places)
    state = begin_round(settings, state, evidence)
    yield f"verdict: {log.describe_verdict(evidence)}"
    view = Clients(settings).view() if reads_view(RoundContext(settings, state, evidence)) else None
    yield f"service: {view_text(view)}"
    yield from plan_lines(decide(RoundContext(settings, state, evidence, view)))


_REQUEST_SECONDS: Final = 20.0
"""The time limit of a request to a collector. The round waits for it."""
_BATCH_SECONDS: Final = 120.0
"""The time limit of a batch of 1 MiB. It allows for a line of 9 kB/s."""
_COLLECTOR_SECONDS: Final = 40.0
"""The time limit for one collector. The rest waits for a later round."""


def send_records(places: Places, environ: Mapping[str, str], settings: Settings, say: Log) -> None:
    """Send new entries of the records to each collector in `records_to`. Failures are logged, not raised.

    Sending has no budget. Without new entries it costs one request. The collector knows how much it has of
    each record, so the reporter keeps no position.
    """
    if not settings.records_to:
        return
    from service_record.http.address import CollectorError, NotTaken  # most hosts send no records
    from service_record.http.collector_client import CollectorClient
    from service_record.http.record_sending import Sender
    from service_record.redaction import HostMask, LeakError

    mask = HostMask(places.root, environ, secrets_in(settings)) if settings.redact else bytes
    for target in settings.records_to:
        url = urlsplit(target.removeprefix(COLLECTOR))
        where, named = f"{url.scheme}://{url.netloc}", url.path.strip("/")
        host = named or (settings.service.host_id if settings.service else platform.node())
        try:
            with CollectorClient(
                where,
                settings.collector_token or "",
                ca_bundle=settings.service.ca_bundle if settings.service else None,
                seconds=_REQUEST_SECONDS,
                transfer_seconds=_BATCH_SECONDS,
                proxies=settings.proxies,
            ) as client:
                sender = Sender(client, host.lower(), Records(places.records), mask=mask)
                sender.send(_COLLECTOR_SECONDS)
        except (NotTaken, CollectorError, LeakError) as fault:
            say.warning(f"{where}: records were not sent: {visible(str(fault))}", MessageKind.UNDELIVERED)
        except OSError as error:
            say.warning(f"{error.filename or places.records}: {error.strerror}; its records were not sent")
        else:
            say.info(f"{where}: {sender.sent_bytes} bytes of records were sent", MessageKind.DELIVERED)


_MAX_ROTATED_BYTES: Final = 16 << 20
"""The largest record that a round rotates. Rotation holds it in memory, see `MemoryMax=` of the unit."""


def rotate_records(places: Places, environ: Mapping[str, str], say: Log) -> None:
    """Rotate the records that are longer than the limit. Failures are logged, not raised.

    This is for services without the exit helper, which otherwise rotates a record after each run.
    """
    limit, records = max_bytes(environ), Records(places.records)
    try:
        paths = find_long_records([records.path(service) for service in records.services()], limit)
    except OSError:
        return
    for path in paths:
        try:
            if limit and path.stat().st_size > _MAX_ROTATED_BYTES:
                say.warning(f"{path}: too long to be rotated here; run: service-record rotate {path.stem}")
            elif rotate(path, limit) is not None:
                say.info(f"{path}: rotated")
        except RotationError as error:
            say.info(str(error))
        except OSError as error:
            say.info(f"{path}: not rotated: {error.strerror}")
