"""The tables. Times are seconds since 1970 by the collector's clock, unless a comment names another clock.

A new database is created from these definitions. The migrations in `migrations/` upgrade the database of an
earlier version; `tests/collector/test_migrations.py` compares the results.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Sequence,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers only an INTEGER PRIMARY KEY


def _host(*, index: bool = False) -> Column[int]:
    return Column("host_id", _ID, ForeignKey("hosts.id", ondelete="CASCADE"), nullable=False, index=index)


hosts = Table(
    "hosts",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("name", String(253), nullable=False, unique=True),
    Column("group", String(255), nullable=False, server_default="", index=True),
    Column("release", String(255), nullable=False, server_default=""),
    Column("hardware", String(255), nullable=False, server_default=""),  # vendor and model
    Column("first_seen", Double, nullable=False),
    Column("last_seen", Double, nullable=False),
    # A summary of the latest build: the pages of the fleet read only this table.
    Column("build", Integer, nullable=False, server_default="0"),  # 0 before the first build
    Column("action", String(255), nullable=False, server_default=""),
    Column("percentage", Double),
    Column("message", Text, nullable=False, server_default=""),
    Column("started_at", Double),
    Column("updated_at", Double),  # time of the latest step, record, stage or bundle
    Column("ended_at", Double),
    Column("progress", LargeBinary),  # domain.progress.Progress as JSON
    # A host is progressing until it is judged. The default in the database is an old one: SQLite cannot
    # change the default of an existing column.
    Column("verdict", String(16), nullable=False, default="progressing", server_default="silent"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("cause", String(16), nullable=False, server_default=""),  # domain.verdicts.make_cause_id
    Column("verdict_since", Double),
    Column("due_at", Double, index=True),  # when to judge the host if it does not report before
    Column("revision", BigInteger, nullable=False, server_default="0"),  # increases with every change
    Column("records_verdict", LargeBinary),  # domain.verdicts.RecordsVerdict as JSON
    # For the order of the fleet's pages, and for causes. Rows of hosts are long, so these indexes contain all
    # columns by which the pages filter and count. Do not add a column that changes with each report:
    # PostgreSQL would then update every index of the table each time.
    Index("ix_hosts_fleet", "verdict", "name", "cause", "group", "ended_at"),
    Index("ix_hosts_causes", "cause", "group", "verdict", "verdict_since", "ended_at", "name", "id"),
)

builds = Table(
    "builds",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(),
    Column("number", Integer, nullable=False),  # the first build of a host is 1
    Column("key", String(255), nullable=False, server_default=""),  # the template's name
    Column("action", String(255), nullable=False, server_default=""),
    Column("release", String(255), nullable=False, server_default=""),
    Column("started_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("verdict", String(16), nullable=False, server_default="progressing"),
    Column("reason", Text, nullable=False, server_default=""),
    UniqueConstraint("host_id", "number"),
)

steps = Table(
    "steps",
    metadata,
    Column("id", _ID, primary_key=True),  # ascending in the order of the reports
    _host(),
    Column("build", Integer, nullable=False),
    Column("label", String(255), nullable=False),
    Column("name", String(255), nullable=False),
    Column("status", String(16), nullable=False),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("percentage", Double),
    Column("action", String(255), nullable=False, server_default=""),
    Column("logs", Text, nullable=False, server_default=""),
    Column("notes", Text, nullable=False, server_default=""),  # lines
    Column("boot_id", String(64), nullable=False, server_default=""),
    Column("host_time", Double),
    Column("received_at", Double, nullable=False),
    Column("is_known", Boolean, nullable=False, server_default="1"),
    Column("identity", BigInteger, index=True),  # domain.steps.identify_report; null before version 0.3
    Index("ix_steps_host_id_build_id", "host_id", "build", "id"),
)

COUNTERS = ("steps", "housekeeping")
counters = Table(  # never decrease, even if rows are deleted; `steps` is the id of the latest step
    "counters",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("latest", BigInteger, nullable=False),
)
step_numbers = Sequence("step_numbers", metadata=metadata)  # PostgreSQL uses it instead of `steps`

absences = Table(  # times in which no process of the collector took reports
    "absences",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("began_at", Double, nullable=False),
    Column("ended_at", Double, nullable=False, index=True),
)

durations = Table(  # one row for each finished step; time limits and statistics are calculated from them
    "durations",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(index=True),
    Column("build", Integer, nullable=False),
    Column("label", String(255), nullable=False),
    Column("group", String(255), nullable=False, server_default=""),
    Column("release", String(255), nullable=False, server_default=""),
    Column("seconds", Double),  # null if the start was not reported
    Column("status", String(16), nullable=False),
    Column("signature", Text, nullable=False, server_default=""),  # diagnosis.failures.signature
    Column("ended_at", Double, nullable=False),
    Index("ix_durations_label_ended_at", "label", "ended_at"),
)

chunks = Table(  # unchanged pieces of the record files that hosts send live
    "chunks",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(),
    Column("service", String(255), nullable=False),
    Column("file", String(64), nullable=False),  # identifies the file; a replacement differs
    Column("offset", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Column("received_at", Double, nullable=False),
    UniqueConstraint("host_id", "service", "file", "offset"),
)

last_words = Table(  # the latest printed lines of each service of a host
    "last_words",
    metadata,
    _host(),
    Column("service", String(255), nullable=False),
    Column("stage", String(255), nullable=False, server_default=""),
    Column("build", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("received_at", Double, nullable=False),
    PrimaryKeyConstraint("host_id", "service"),
)

bundles = Table(
    "bundles",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(index=True),
    Column("build", Integer, nullable=False),
    Column("kind", String(32), nullable=False),  # `host`, `host_boot`
    Column("name", String(255), nullable=False),
    Column("key", String(255), nullable=False, unique=True),  # in the object store
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("received_at", Double, nullable=False),
    Column("is_indexed", Boolean, nullable=False, server_default="0"),
    Column("claimed_until", Double),  # null if no process reads it
    Column("verdict", String(16), nullable=False, server_default=""),  # of the records in it
    Column("reason", Text, nullable=False, server_default=""),
    Column("boots", Text, nullable=False, server_default=""),  # one id per line, oldest first
    Column("left_out", Text, nullable=False, server_default=""),  # unreadable parts, one per line
)

bundle_services = Table(
    "bundle_services",
    metadata,
    Column("bundle_id", _ID, ForeignKey("bundles.id", ondelete="CASCADE"), primary_key=True),
    Column("service", String(255), primary_key=True),
    Column("entries", BigInteger, nullable=False),
    Column("malformed", Integer, nullable=False),
    Column("outcome", String(16), nullable=False),  # of the latest run
    Column("stage", Text, nullable=False, server_default=""),
)

analyses = Table(  # the analysis of each host's latest bundle with records, for its page
    "analyses",
    metadata,
    Column("host_id", _ID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True),
    Column("bundle_id", _ID, nullable=False, index=True),
    Column("data", LargeBinary, nullable=False),  # domain.records_page.Analysis as deflated JSON
)

installations = Table(  # the state of a host at an assisted-service
    "installations",
    metadata,
    Column("host_id", _ID, ForeignKey("hosts.id", ondelete="CASCADE"), primary_key=True),
    Column("id", String(36), nullable=False, unique=True),  # the id of the host there
    Column("cluster_id", String(36), nullable=False, index=True),
    Column("infra_env_id", String(36), nullable=False),
    Column("role", String(32), nullable=False, server_default="master"),
    Column("is_bootstrap", Boolean, nullable=False, server_default="0"),
    Column("is_single_node", Boolean, nullable=False, server_default="0"),
    Column("status", String(64), nullable=False, server_default="installing-in-progress"),
    Column("status_info", Text, nullable=False, server_default=""),
    Column("stage", String(64), nullable=False, server_default="Rebooting"),
    Column("info", Text, nullable=False, server_default=""),
    Column("stage_started_at", Double, nullable=False),
    Column("stage_updated_at", Double, nullable=False),
    Column("checked_in_at", Double),  # time of its agent's latest call
    Column("logs_state", String(16), nullable=False, server_default=""),
    Column("event_at", Double),  # event_time of the newest event that reported a state
)


def _cluster() -> Column[str]:
    return Column("cluster_id", String(36), ForeignKey("clusters.id", ondelete="CASCADE"), nullable=False)


clusters = Table(  # its hosts are in `installations`
    "clusters",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False, server_default=""),
    Column("control_planes", Integer),  # as defined; null if unknown
    Column("workers", Integer),
    Column("status", String(32), nullable=False, server_default="pending-for-input"),
    Column("reason", Text, nullable=False, server_default=""),
    Column("since", Double),  # when the status began
    Column("is_told", Boolean, nullable=False, server_default="0"),  # reported by the assisted-service
    Column("updated_at", Double),
    Column("revision", BigInteger, nullable=False, server_default="0"),  # increases with every change
    # Sums of its hosts: a list of clusters reads only this table.
    Column("hosts", Integer, nullable=False, server_default="0"),
    Column("needed_control_planes", Integer, nullable=False, server_default="0"),
    Column("installed_control_planes", Integer, nullable=False, server_default="0"),
    Column("defined_workers", Integer, nullable=False, server_default="0"),
    Column("installed_workers", Integer, nullable=False, server_default="0"),
    Column("joined", Integer, nullable=False, server_default="0"),
    # Reported by its controller.
    Column("csrs_approved", Integer),
    Column("finalizing_stage", String(64), nullable=False, server_default=""),
    Column("completion", String(16), nullable=False, server_default=""),  # `success`, `failure`
    Column("completion_info", Text, nullable=False, server_default=""),
    Column("logs_state", String(16), nullable=False, server_default=""),
    Column("event_at", Double),  # event_time of the newest event that reported a state
)

cluster_operators = Table(
    "cluster_operators",
    metadata,
    _cluster(),
    Column("name", String(255), nullable=False),
    Column("status", String(16), nullable=False, server_default=""),
    Column("version", String(255), nullable=False, server_default=""),
    Column("info", Text, nullable=False, server_default=""),
    Column("updated_at", Double, nullable=False),
    Column("event_at", Double),  # event_time, if an event reported the status
    PrimaryKeyConstraint("cluster_id", "name"),
)

cluster_events = Table(
    "cluster_events",
    metadata,
    Column("id", _ID, primary_key=True),
    _cluster(),
    Column("received_at", Double, nullable=False),
    Column("severity", String(16), nullable=False),
    Column("name", String(255), nullable=False, server_default=""),
    Column("message", Text, nullable=False),
    Column("event_time", Double),  # by the assisted-service's clock
    Index("ix_cluster_events_cluster_id", "cluster_id"),
)

cluster_logs = Table(  # the latest of each kind, as the assisted-service keeps it
    "cluster_logs",
    metadata,
    _cluster(),
    Column("kind", String(32), nullable=False),  # `controller`, `all`
    Column("name", String(255), nullable=False),
    Column("key", String(255), nullable=False, unique=True),  # in the object store
    Column("size", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("received_at", Double, nullable=False),
    PrimaryKeyConstraint("cluster_id", "kind"),
)

events = Table(
    "events",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(index=True),
    Column("received_at", Double, nullable=False),
    Column("severity", String(16), nullable=False),
    Column("name", String(255), nullable=False, server_default=""),
    Column("message", Text, nullable=False),
    Column("event_time", Double),  # by the assisted-service's clock
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),  # host, group, reader, admin, enrolment
    Column("scope", String(255), nullable=False, server_default=""),  # a host's name, or a group's
    Column("name", String(255), nullable=False, server_default=""),  # a label for people
    Column("hash", String(64), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("created_by", String(255), nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
    Column("used_at", Double),  # when an enrolment token was used; it works once
)

sessions = Table(  # login sessions of browsers
    "sessions",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("token_id", _ID, ForeignKey("tokens.id", ondelete="CASCADE"), nullable=False),
    Column("expires_at", Double, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("at", Double, nullable=False),
    Column("actor", String(255), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", Text, nullable=False),
)

mutes = Table(  # trouble for which no notices are sent
    "mutes",
    metadata,
    Column("id", _ID, primary_key=True),
    Column("kind", String(16), nullable=False),  # domain.mutes.MuteKind
    Column("scope", String(16), nullable=False),  # host, group, cause
    Column("subject", String(255), nullable=False),
    Column("until", Double, nullable=False),
    Column("by", String(255), nullable=False),
    Column("note", String(255), nullable=False, server_default=""),
    Column("made_at", Double, nullable=False),
)

notices = Table(  # changes of verdicts, to be sent
    "notices",
    metadata,
    Column("id", _ID, primary_key=True),
    _host(),
    Column("build", Integer, nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("before", String(16), nullable=False),
    Column("reason", Text, nullable=False),
    Column("reason_before", Text, nullable=False, server_default=""),
    Column("at", Double, nullable=False),
    Column("is_addressed", Boolean, nullable=False, server_default="0", index=True),  # its deliveries exist
)

deliveries = Table(  # one notice to one destination
    "deliveries",
    metadata,
    Column("notice_id", _ID, ForeignKey("notices.id", ondelete="CASCADE"), nullable=False),
    Column("destination", String(32), nullable=False),
    Column("delivered_at", Double),
    Column("digest", _ID),  # the first notice of the message that it was sent with
    Column("tries", Integer, nullable=False, server_default="0"),
    Column("next_at", Double),  # null after delivery, or when given up
    PrimaryKeyConstraint("notice_id", "destination"),
    Index("ix_deliveries_destination_next_at", "destination", "next_at"),
)
