"""Rate limits of tokens and addresses, and protection against guessing tokens."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.collector.api.guard import Bucket, Buckets, make_address_key
from service_record.collector.domain.access import (
    Forbidden,
    Grant,
    Presented,
    TokenKind,
    format_token,
    hash_secret,
    is_group,
    is_within,
    parse_expiry,
    parse_scope,
    parse_token,
)
from service_record.collector.serving_settings import CollectorSettings, Rates
from testing.collector import process
from tests.collector.browsing import sign_in_visitor
from tests.collector.commands import collector_command
from tests.collector.serving import Client, make_collector_settings, run_collector

FEW = Rates(per_second=0.001, burst=3)


def test_too_frequent_token_gets_retry_after(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, rates=FEW)) as server:
        host, other = server.client("host", "web1"), server.client("host", "web2")

        statuses = [host.step("web1", "Disk setup").status for _ in range(4)]
        refused = host.step("web1", "Disk setup")

        assert statuses == [201, 201, 201, 429]
        assert int(refused.headers["retry-after"]) > 100
        assert other.step("web2", "Disk setup").status == 201


def test_rate_option_sets_the_limit(sqlite_settings: CollectorSettings) -> None:
    made = collector_command("token", "create", "admin", "--data", sqlite_settings.data)
    with process(sqlite_settings, "--rate", "0.5") as running:
        admin = Client(running.url, made.out.strip())

        statuses = [admin.get("/api/v1/audit").status for _ in range(3)]

    assert statuses == [200, 200, 429]


def test_only_failures_of_an_address_are_limited(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, guesses=FEW)) as server:
        used, unused = server.client("host", "web1"), server.client("host", "web2")
        assert used.step("web1", "Disk setup").status == 201
        guess = Client(server.url, format_token(1, "x" * 43))

        statuses = [guess.step("web1", "Disk setup").status for _ in range(5)]

        assert statuses == [401, 401, 401, 429, 429]
        assert used.step("web1", "Disk setup").status == 201
        assert unused.step("web2", "Disk setup").status == 201


def test_guess_at_cached_token_is_refused(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        host = server.client("host", "web1")
        assert host.step("web1", "Disk setup").status == 201
        for guess in (host.token[:-1], host.token + "A", host.token.swapcase(), "srt_1_", "srt_1"):
            reply = Client(server.url, guess).step("web1", "Disk setup")
            assert reply.status == 401
            assert b"web1" not in reply.body


@pytest.mark.parametrize("form", ["Bearer", "bearer", "X-Secret-Key"])
def test_token_is_read_from_both_headers(tmp_path: Path, form: str) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        token = server.client("host", "web1").token
        name, value = (form, token) if "-" in form else ("Authorization", f"{form} {token}")

        reply = server.stranger.ask(
            "POST", "/api/v1/hosts/web1/steps", form={"name": "x"}, headers={name: value}
        )

        assert reply.status == 201


def test_token_in_query_is_ignored(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path)) as server:
        token = server.client("admin").token
        for name in ("token", "access_token", "api_key", "authorization"):
            assert server.stranger.get("/api/v1/tokens", **{name: token}).status == 401


@given(st.text(max_size=60))
def test_any_text_is_a_token_or_none(text: str) -> None:
    found = parse_token(text)

    assert found is None or (found.id < 10**18 and text.startswith("srt_"))
    if found is not None:
        assert found.secret not in repr(found)


@given(st.lists(st.floats(0, 10), max_size=40))
def test_bucket_never_exceeds_burst_and_rate(waits: list[float]) -> None:
    rates = Rates(per_second=0.5, burst=5)
    bucket, now, taken = Bucket(5.0, 0.0), 0.0, 0
    for wait in waits:
        now += wait
        taken += bucket.take(rates, now) == 0.0

    assert taken <= 5 + now * 0.5 + 1e-6


def test_failures_of_an_address_expire() -> None:
    guesses = Buckets(FEW)
    for _ in range(3):
        guesses.take("192.0.2.1", 0.0)

    assert guesses.take("192.0.2.1", 0.0) > 0
    assert guesses.take("192.0.2.2", 0.0) == 0
    assert guesses.take("192.0.2.1", 2000.0) == 0


def test_ipv6_addresses_count_by_network() -> None:
    assert (
        make_address_key("2001:db8::1")
        == make_address_key("2001:db8::ffff:1")
        != make_address_key("2001:db8:0:1::1")
    )
    assert make_address_key("fe80::1%eth0") == make_address_key("fe80::2")
    assert make_address_key("192.0.2.1") != make_address_key("192.0.2.2")


@given(
    kind=st.sampled_from(TokenKind),
    scope=st.text(max_size=12),
    host=st.text(max_size=12),
    group=st.text(max_size=12),
)
def test_writing_is_scoped_and_writers_cannot_read(
    kind: TokenKind, scope: str, host: str, group: str
) -> None:
    grant = Grant(1, kind, scope)

    if grant.may_write(host, group):
        assert (
            kind is TokenKind.ADMIN or (kind is TokenKind.HOST and host == scope) or is_within(group, scope)
        )
        assert kind is TokenKind.ADMIN or not grant.may_read
    assert grant.may_administer == (kind is TokenKind.ADMIN)


@pytest.mark.parametrize("group", ["dc10", "dc1x/rack2", "DC1", "", "dc", "/dc1"])
def test_group_prefix_is_not_a_parent(group: str) -> None:
    assert not Grant(1, TokenKind.GROUP, "dc1").may_write("web1", group)
    assert not Grant(1, TokenKind.ENROLMENT, "group:dc1").may_enrol("web1", group)


@given(
    st.sampled_from([TokenKind.HOST, TokenKind.GROUP]), st.text(alphabet="ab/.:'\"%;\x00\n \\", max_size=12)
)
def test_invalid_scope_is_refused(kind: TokenKind, text: str) -> None:
    try:
        scope = parse_scope(kind, text)
    except ValueError:
        return
    assert scope
    assert not set(scope) & set("'\"%;\x00\n \\")
    assert ".." not in scope.split("/")


_DAY = 86_400.0


@pytest.mark.parametrize(
    ("kind", "scope", "reads", "writes", "enrols"),
    [
        (TokenKind.ADMIN, "", True, ["web1 dc1", "web2 dc1/a", "web1 dc2"], []),
        (TokenKind.READER, "", True, [], []),
        (TokenKind.READER, "dc1", True, [], []),
        (TokenKind.HOST, "web1", False, ["web1 dc1", "web1 dc2"], []),
        (TokenKind.GROUP, "dc1", False, ["web1 dc1", "web2 dc1/a"], []),
        (TokenKind.BOOT, "web1", False, [], []),
        (TokenKind.CLOUD_INIT, "web1", False, [], []),
        (TokenKind.ENROLMENT, "", False, [], ["web1 dc1", "web2 dc1/a", "web1 dc2"]),
        (TokenKind.ENROLMENT, "host:web1", False, [], ["web1 dc1", "web1 dc2"]),
        (TokenKind.ENROLMENT, "group:dc1", False, [], ["web1 dc1", "web2 dc1/a"]),
        (TokenKind.ENROLMENT, "web1", False, [], []),
    ],
)
def test_each_token_kind_has_only_its_rights(
    kind: TokenKind, scope: str, reads: bool, writes: list[str], enrols: list[str]
) -> None:
    grant = Grant(7, kind, scope)
    asked = ["web1 dc1", "web2 dc1/a", "web1 dc2"]
    assert grant.may_read is reads
    assert grant.may_administer is (kind is TokenKind.ADMIN)
    assert [grant.may_write(*each.split()) for each in asked] == [each in writes for each in asked]
    assert [grant.may_enrol(*each.split()) for each in asked] == [each in enrols for each in asked]
    assert (grant.holder, Grant(7, kind, scope, "ci").holder) == ("token 7", "token 7 (ci)")


@pytest.mark.parametrize(
    ("scope", "requested", "readable"),
    [
        ("", [], ()),
        ("", ["dc2", "dc1"], ("dc2", "dc1")),
        ("dc1", [], ("dc1",)),
        ("dc1", ["dc1/a", "dc1", "dc2", "dc1/a"], ("dc1/a", "dc1")),
        ("dc1/a", ["dc1", "dc1/b"], ("dc1/a",)),
        ("dc1", ["dc2"], None),
    ],
)
def test_reader_sees_its_own_groups(
    scope: str, requested: list[str], readable: tuple[str, ...] | None
) -> None:
    grant = Grant(1, TokenKind.READER, scope)
    if readable is None:
        with pytest.raises(Forbidden):
            grant.readable_groups(requested)
    else:
        assert grant.readable_groups(requested) == readable
    assert grant.may_read_group("dc1/a")
    assert grant.may_read_group("dc2") is (scope == "")
    assert not Grant(1, TokenKind.GROUP, "dc1").may_read_group("dc1")


@pytest.mark.parametrize(
    ("kind", "scope", "enrolled", "new"),
    [
        (TokenKind.ENROLMENT, "group:dc1", ["dc1/a", "dc1"], ["dc1/a", "dc2"]),
        (TokenKind.ENROLMENT, "host:web1", ["dc1/a", "dc2"], ["dc1/a", "dc2"]),
        (TokenKind.GROUP, "dc1", ["dc1/a", "dc2"], ["dc1/a", "dc1"]),
        (TokenKind.ADMIN, "", ["dc1/a", "dc2"], ["dc1/a", "dc2"]),
    ],
)
def test_new_host_gets_reported_or_token_group(
    kind: TokenKind, scope: str, enrolled: list[str], new: list[str]
) -> None:
    grant = Grant(1, kind, scope)
    assert [grant.group_of_enrolled(group) for group in ("dc1/a", "dc2")] == enrolled
    assert [grant.group_of_new_host(group) for group in ("dc1/a", "dc2")] == new


@pytest.mark.parametrize(
    ("kind", "text", "scope"),
    [
        (TokenKind.ADMIN, "", ""),
        (TokenKind.ADMIN, "web1", "a token of kind admin is good for every host: leave the scope out"),
        *((kind, "WEB1", "web1") for kind in (TokenKind.HOST, TokenKind.BOOT, TokenKind.CLOUD_INIT)),
        (TokenKind.HOST, "", "a token of kind host needs the host's name; add it"),
        (TokenKind.GROUP, "", "a token of kind group needs the group's name; add it"),
        (TokenKind.GROUP, "DC1/a", "DC1/a"),
        (TokenKind.GROUP, "/dc1", "a group's name has"),
        (TokenKind.READER, "", ""),
        (TokenKind.READER, "DC1", "DC1"),
        (TokenKind.READER, "a b", "a group's name has"),
        (TokenKind.ENROLMENT, "", ""),
        (TokenKind.ENROLMENT, "host:WEB1", "host:web1"),
        (TokenKind.ENROLMENT, "group:DC1", "group:DC1"),
        (TokenKind.ENROLMENT, "web1", "not a scope of an enrolment token; use host:NAME or group:NAME"),
        (TokenKind.ENROLMENT, "group:", "a group's name has"),
        (TokenKind.ENROLMENT, "host:", "a host's name has"),
    ],
)
def test_scope_is_accepted_or_explained(kind: TokenKind, text: str, scope: str) -> None:
    if " " in scope:
        with pytest.raises(ValueError, match=f"^{scope}"):
            parse_scope(kind, text)
    else:
        assert parse_scope(kind, text) == scope


@pytest.mark.parametrize(
    ("kind", "text", "expiry"),
    [
        (TokenKind.HOST, "", None),
        (TokenKind.HOST, "never", None),
        (TokenKind.HOST, "30d", 1000 + 30 * _DAY),
        *((kind, "", 1000 + 7 * _DAY) for kind in TokenKind if kind.is_in_templates),
        (TokenKind.BOOT, "never", None),
        (TokenKind.READER, "36500d", 1000 + 36_500 * _DAY),
    ],
)
def test_token_expiry_follows_option_or_kind(kind: TokenKind, text: str, expiry: float | None) -> None:
    assert parse_expiry(kind, text, 1000.0) == expiry
    assert [kind for kind in TokenKind if kind.is_in_templates] == ["enrolment", "boot", "cloud-init"]
    with pytest.raises(ValueError, match="'36501d' is longer than 100 years; use never"):
        parse_expiry(kind, "36501d", 1000.0)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("srt_12_a_b", Presented(12, "a_b")),
        (format_token(3, "x"), Presented(3, "x")),
        ("srt_" + "1" * 19 + "_x", Presented(int("1" * 18), "x")),
        *(
            (text, None)
            for text in ("sr_12_a", "srt_1\u0662_a", "srt_\u00b2_a", "srt__a", "srt_-1_a", "srt_1_\xe4", "")
        ),
    ],
)
def test_token_is_parsed_as_written(text: str, token: Presented | None) -> None:
    assert parse_token(text) == token
    assert token is None or (token.fits(hash_secret(token.secret)) and not token.fits(hash_secret("other")))


def test_group_name_has_at_most_255_characters() -> None:
    assert is_group("a" * 255)
    assert not is_group("a" * 256)
    assert is_within("dc1", "dc1")
    assert is_within("dc1/a", "dc1")
    assert not is_within("dc1", "dc1/a")


def test_hosts_of_one_token_have_separate_limits(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, rates=Rates(per_second=0.001, burst=4))) as server:
        group = server.client("group", "dc1")

        statuses = {
            group.step(f"web{number}", f"Step {step}").status for number in range(10) for step in range(3)
        }
        updates = {
            group.post("/api/update", data={"name": f"db{number}", "status": f"Step {step}"}).status
            for number in range(10)
            for step in range(3)
        }
        greedy = [group.step("web1", f"Step {step}").status for step in range(4, 6)]

    assert (statuses, updates) == ({201}, {201})
    assert greedy == [201, 429]


def test_new_hosts_of_a_token_are_limited(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, rates=Rates(per_second=0.001, burst=1))) as server:
        group = server.client("group", "dc1")

        statuses = [group.step(f"web{number}", "Disk setup").status for number in range(12)]

    assert statuses == [201] * 10 + [429] * 2


def test_burst_waits_before_it_is_refused(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, rates=Rates(per_second=10, burst=2))) as server:
        host = server.client("host", "web1")

        statuses = [host.step("web1", f"Step {step}").status for step in range(6)]

    assert statuses == [201] * 6


def test_refused_reports_are_on_page_and_in_metrics(tmp_path: Path) -> None:
    with run_collector(make_collector_settings(tmp_path, rates=FEW)) as server:
        host, visitor = server.client("host", "web1"), sign_in_visitor(server)
        assert not visitor.page("/").texts("p", "away")
        for step in range(5):
            host.step("web1", f"Step {step}")

        (shown,) = visitor.page("/").texts("p", "away")
        metrics = server.client("reader").get("/metrics").body.decode()

    assert "2 reports" in shown
    assert 'service_record_refused_reports_total{status="429"} 2.0' in metrics
