"""How often a token and an address may ask, and that guessing tells nothing and costs little."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service_record.collector.api.guard import Bucket, Failures, Sharing, Uses, address_of
from service_record.collector.domain.access import Grant, TokenKind, is_within, presented, scope_of, spelled
from service_record.collector.process import Collector
from service_record.collector.serving_settings import CollectorSettings, Rates
from tests.collector.commands import collector_command
from tests.collector.processes import process
from tests.collector.serving import Client, served, settings_in

FEW = Rates(per_second=0.001, burst=3)


def test_a_token_that_comes_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    with served(settings_in(tmp_path, rates=FEW)) as server:
        host, other = server.client("host", "web1"), server.client("host", "web2")

        statuses = [host.step("web1", "Disk setup").status for _ in range(4)]
        refused = host.step("web1", "Disk setup")

        assert statuses == [201, 201, 201, 429]
        assert int(refused.headers["retry-after"]) > 100
        assert other.step("web2", "Disk setup").status == 201


def test_an_operator_says_how_often_a_token_may_come(sqlite_settings: CollectorSettings) -> None:
    made = collector_command("token", "create", "admin", "--data", sqlite_settings.data)
    with process(sqlite_settings, "--rate", "0.5") as running:
        admin = Client(running.url, made.out.strip())

        statuses = [admin.get("/api/v1/audit").status for _ in range(3)]

    assert statuses == [200, 200, 429]


def test_only_failures_of_an_address_that_guesses_are_throttled(tmp_path: Path) -> None:
    with served(settings_in(tmp_path, guesses=FEW)) as server:
        used, unused = server.client("host", "web1"), server.client("host", "web2")
        assert used.step("web1", "Disk setup").status == 201
        guess = Client(server.url, spelled(1, "x" * 43))

        statuses = [guess.step("web1", "Disk setup").status for _ in range(5)]

        assert statuses == [401, 401, 401, 429, 429]
        assert used.step("web1", "Disk setup").status == 201
        assert unused.step("web2", "Disk setup").status == 201


def test_a_guess_at_a_token_that_is_in_use_is_as_wrong_as_any_other(tmp_path: Path) -> None:
    with served(settings_in(tmp_path)) as server:
        host = server.client("host", "web1")
        assert host.step("web1", "Disk setup").status == 201
        for guess in (host.token[:-1], host.token + "A", host.token.swapcase(), "srt_1_", "srt_1"):
            reply = Client(server.url, guess).step("web1", "Disk setup")
            assert reply.status == 401
            assert b"web1" not in reply.body


@pytest.mark.parametrize("form", ["Bearer", "bearer", "X-Secret-Key"])
def test_a_token_comes_as_a_bearer_or_as_agents_send_theirs(tmp_path: Path, form: str) -> None:
    with served(settings_in(tmp_path)) as server:
        token = server.client("host", "web1").token
        name, value = (form, token) if "-" in form else ("Authorization", f"{form} {token}")

        reply = server.stranger.ask(
            "POST", "/api/v1/hosts/web1/steps", form={"name": "x"}, headers={name: value}
        )

        assert reply.status == 201


def test_a_token_in_the_address_is_none(tmp_path: Path) -> None:
    with served(settings_in(tmp_path)) as server:
        token = server.client("admin").token
        for name in ("token", "access_token", "api_key", "authorization"):
            assert server.stranger.get("/api/v1/tokens", **{name: token}).status == 401


@given(st.text(max_size=60))
def test_whatever_somebody_presents_is_a_token_or_none(text: str) -> None:
    found = presented(text)

    assert found is None or (found.id < 10**18 and text.startswith("srt_"))
    if found is not None:
        assert found.secret not in repr(found)


@given(st.lists(st.floats(0, 10), max_size=40))
def test_a_bucket_gives_no_more_than_it_holds_and_time_brings(waits: list[float]) -> None:
    rates = Rates(per_second=0.5, burst=5)
    bucket, now, taken = Bucket(5.0, 0.0), 0.0, 0
    for wait in waits:
        now += wait
        taken += bucket.take(rates, now) == 0.0

    assert taken <= 5 + now * 0.5 + 1e-6


def test_failures_of_an_address_are_forgotten_with_time() -> None:
    failures = Failures(FEW, Uses())
    for _ in range(3):
        failures.count("192.0.2.1", 0.0)

    assert failures.wait("192.0.2.1", 0.0) > 0
    assert failures.wait("192.0.2.2", 0.0) == 0
    assert failures.wait("192.0.2.1", 2000.0) == 0


def test_the_addresses_of_one_network_of_ipv6_are_one() -> None:
    assert address_of("2001:db8::1") == address_of("2001:db8::ffff:1") != address_of("2001:db8:0:1::1")
    assert address_of("fe80::1%eth0") == address_of("fe80::2")
    assert address_of("192.0.2.1") != address_of("192.0.2.2")


@given(
    kind=st.sampled_from(TokenKind),
    scope=st.text(max_size=12),
    host=st.text(max_size=12),
    group=st.text(max_size=12),
)
def test_only_administrators_write_beyond_their_scope_and_nobody_who_writes_reads(
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
def test_a_group_that_begins_alike_is_another_one(group: str) -> None:
    assert not Grant(1, TokenKind.GROUP, "dc1").may_write("web1", group)
    assert not Grant(1, TokenKind.ENROLMENT, "group:dc1").may_enrol("web1", group)


@given(
    st.sampled_from([TokenKind.HOST, TokenKind.GROUP]), st.text(alphabet="ab/.:'\"%;\x00\n \\", max_size=12)
)
def test_a_scope_is_a_plain_name_or_refused(kind: TokenKind, said: str) -> None:
    try:
        scope = scope_of(kind, said)
    except ValueError:
        return
    assert scope
    assert not set(scope) & set("'\"%;\x00\n \\")
    assert ".." not in scope.split("/")


def test_throttles_hold_over_all_processes(settings: CollectorSettings) -> None:
    rates = Rates(per_second=8, burst=20)
    with Collector(settings) as collector:
        processes = []
        for _ in range(4):
            uses = Uses()
            processes.append((uses, Bucket(20.0, 0.0), Sharing(collector.writer, uses)))
        given = 0
        for second in range(1, 31):
            for uses, bucket, sharing in processes:
                for _ in range(20):
                    if not bucket.take(rates, float(second)):
                        uses.count("token 1", bucket, rates)
                        given += 1
                sharing.round()
    alone = 30 * 8 + 20
    assert alone * 0.8 <= given <= alone + 4 * 20 + 2 * 4 * 8
