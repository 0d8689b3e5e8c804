"""The strict reader refuses what any of upstream's would, and judges as upstream does, quirks included."""

import io
import json
import tarfile
from collections.abc import Iterable

import pytest

from service_record.record.entry import Entry, Phase, Result
from tests.builders import array, entry, failed_run, upstream_entry
from tests.upstream_reader import Judgement, UnreadableError, UpstreamReader

START = b'{"timestamp":"2026-11-21T01:05:10Z","phase":"service start"}'
WITHIN = "log-bundle-20261121010510/bootstrap/services"


def reader(**records: bytes) -> UpstreamReader:
    return UpstreamReader({f"{WITHIN}/{service}.json": content for service, content in records.items()})


def judged(entries: Iterable[Entry]) -> Judgement:
    return reader(job=array(*entries)).judge("job")


def succeeded(at: float = 0) -> list[Entry]:
    return [entry(Phase.SERVICE_START, at), entry(Phase.SERVICE_END, at + 1)]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"[]", id="an empty array"),
        pytest.param(b"[" + START + b"]", id="on one line"),
        pytest.param(b" [\n" + START + b",\n" + START + b"\n]\n", id="an entry a line"),
        pytest.param(b"[" + START + b"\n]\n   \n", id="blanks behind"),
        pytest.param(array(upstream_entry()), id="as jq prints it"),
        pytest.param(array(*failed_run()), id="with fields of ours"),
    ],
)
def test_a_closed_array_is_read_by_both_of_upstreams_readers(content: bytes) -> None:
    starts = content.count(b"service start")

    assert reader(job=content).judge("job").starts == starts
    assert reader(job=content).attempts("job") == min(starts, 1)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"[", id="only a bracket"),
        pytest.param(START, id="an object"),
        pytest.param(START + b"\n" + START + b"\n", id="lines"),
        pytest.param(b"[" + START, id="not closed"),
        pytest.param(b"[" + START + b",]", id="a comma too many"),
        pytest.param(b"[" + START + b" " + START + b"]", id="a comma too few"),
        pytest.param(b"[" + START[:30] + b"]", id="half an entry"),
        pytest.param(b"[" + START + b",3]", id="a number among the entries"),
        pytest.param(b"\xef\xbb\xbf[" + START + b"]", id="a byte order mark"),
        pytest.param(b"[" + START.replace(b"service", b"\xff") + b"]", id="bytes that are not UTF-8"),
        pytest.param(b"[" + START.replace(b" ", b"\n") + b"]", id="a line break in a text"),
        pytest.param(b"[" + START.replace(b"}", b',"errorLine":12}') + b"]", id="a number for a text"),
        pytest.param(b"[" + START.replace(b"}", b',"StAgE":{}}') + b"]", id="in whatever case"),
        pytest.param(b"[" + START.replace(b"}", b',"own":NaN}') + b"]", id="what JSON has no number for"),
    ],
)
def test_what_one_of_upstreams_readers_would_not_take_is_refused(content: bytes) -> None:
    with pytest.raises(UnreadableError):
        reader(job=content).judge("job")


@pytest.mark.parametrize("behind", [b"[" + START + b"]", START, b"garbage", b"\0"])
def test_what_stands_behind_the_array_is_lost_to_one_reader_and_stops_the_other(behind: bytes) -> None:
    upstream = reader(job=b"[" + START + b"]\n" + behind)

    assert upstream.judge("job").starts == 1
    with pytest.raises(UnreadableError):
        upstream.attempts("job")


def test_a_record_without_times_of_its_starts_has_no_attempts_to_count() -> None:
    with pytest.raises(UnreadableError):
        reader(job=b'[{"phase":"service start"}]').attempts("job")


def test_starts_at_one_time_are_one_attempt() -> None:
    upstream = reader(job=array(*(upstream_entry(at=at) for at in (0, 0, 5))))

    assert (upstream.judge("job").starts, upstream.attempts("job")) == (3, 2)


def test_only_what_is_called_like_a_record_is_one() -> None:
    names = ("job.json", "a.b.json", "job.json.tmp", "job.json.damaged", "below/other.json", ".json")
    members = {f"{WITHIN}/{name}": array(upstream_entry()) for name in names}

    assert UpstreamReader(members | {"services/x.json": b"["}).services == ["below/other", "job"]


def test_the_later_member_of_a_name_counts() -> None:
    first, second = f"a/{WITHIN}/job.json", f"b/{WITHIN}/job.json"
    upstream = UpstreamReader({first: array(*succeeded()), second: array(*failed_run())})

    assert not upstream.judge("job").successful


def test_a_member_that_is_no_regular_file_is_passed_over() -> None:
    bundle = io.BytesIO()
    with tarfile.open(fileobj=bundle, mode="w:gz") as archive:
        link = tarfile.TarInfo(f"{WITHIN}/job.json")
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
        archive.addfile(link)

    assert UpstreamReader.of_bundle(bundle.getvalue()).services == []


@pytest.mark.parametrize(
    ("last", "successful"),
    [
        pytest.param(entry(Phase.SERVICE_END), True, id="the end of the service"),
        pytest.param(entry(Phase.POST_COMMAND_END, post_command="tidy-up"), True, id="of a post-command"),
        pytest.param(entry(Phase.PRE_COMMAND_END, pre_command="prepare"), False, id="of a pre-command"),
        pytest.param(entry(Phase.STAGE_END, stage="one"), False, id="of a stage"),
        pytest.param(entry(Phase.SERVICE_END, result=None), False, id="an end without a result"),
        pytest.param(entry(), False, id="the start of another attempt, after a success"),
    ],
)
def test_the_last_entry_alone_decides_of_success(last: Entry, successful: bool) -> None:
    assert judged([*succeeded(), last]).successful is successful


def test_the_stage_is_that_of_the_failed_stage_right_before_the_end() -> None:
    assert judged(failed_run("second")).failing_stage == "second"


@pytest.mark.parametrize("stage", [None, "second"])
def test_a_second_end_puts_the_stage_that_it_names_in_the_place_of_the_one_before(stage: str | None) -> None:
    """So our exit helper, which amends an end with what systemd knows, names the stage again."""
    amendment = entry(
        Phase.SERVICE_END, 10, stage=stage, result=Result.FAILURE, signal="TERM", error_message="stopped"
    )

    judgement = judged([*failed_run("second"), amendment])

    assert (judgement.failing_stage, judgement.last_error) == (stage or "", "stopped")


def test_a_hanging_attempt_is_blamed_on_the_stage_of_an_earlier_one() -> None:
    hanging = [entry(at=20), entry(Phase.STAGE_START, 21, stage="third")]

    judgement = judged([*failed_run("second", error_message="no such image"), *hanging])

    assert judgement == Judgement(2, False, "second", "no such image")


def test_a_hanging_first_attempt_is_blamed_on_no_stage() -> None:
    hanging = [entry(), entry(Phase.STAGE_START, 1, stage="first")]

    assert reader(**{"release-image": array(*succeeded()), "bootkube": array(*hanging)}).complaint() == (
        'bootkube failed at stage ""'
    )


def test_a_service_that_is_started_again_after_its_success_has_failed() -> None:
    assert judged([*succeeded(), entry(at=20)]) == Judgement(starts=2, successful=False)


def test_a_post_command_that_ends_well_makes_a_success_of_a_failure_before_it() -> None:
    after = [entry(phase, 20, post_command="tidy-up") for phase in ("post-command start", "post-command end")]

    assert judged([*failed_run("second"), *after]) == Judgement(1, True, "second", "")


def test_only_release_image_and_then_bootkube_are_complained_of() -> None:
    good, bad = array(*succeeded()), array(*failed_run("second"))

    assert reader(**{"release-image": bad, "bootkube": bad}).complaint() == "release-image failed"
    assert reader(bootkube=bad).complaint() == "release-image was never started"
    assert reader(**{"release-image": good}).complaint() == "bootkube was never started"
    assert reader(**{"release-image": good, "bootkube": good, "kubelet": bad}).complaint() is None


def test_fields_of_upstream_are_taken_whatever_their_case_and_others_are_nothing() -> None:
    fields = {"Timestamp": "t", "PHASE": "service start", "ownFacts": [1]}

    assert reader(job=json.dumps([fields]).encode()).entries("job") == [
        {"timestamp": "t", "phase": "service start"}
    ]
