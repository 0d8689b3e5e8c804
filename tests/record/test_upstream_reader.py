"""The strict reader refuses what any of upstream's would, and judges as upstream does, quirks included."""

import io
import json
import tarfile
from collections.abc import Iterable

import pytest

from service_record.record.entry import Entry, Phase, Result
from tests.builders import array, entry, failed_run, upstream_entry
from tests.faults import Faults
from tests.upstream_reader import Judgement, UnreadableError, UpstreamReader

START = b'{"timestamp":"2026-11-21T01:05:10Z","phase":"service start"}'
WITHIN = "log-bundle-20261121010510/bootstrap/services"


def reader(**records: bytes) -> UpstreamReader:
    return UpstreamReader({f"{WITHIN}/{service}.json": content for service, content in records.items()})


def succeeded(at: float = 0) -> list[Entry]:
    return [entry(Phase.SERVICE_START, at), entry(Phase.SERVICE_END, at + 1)]


CLOSED = {
    "an empty array": b"[]",
    "on one line": b"[" + START + b"]",
    "an entry a line": b" [\n" + START + b",\n" + START + b"\n]\n",
    "blanks behind": b"[" + START + b"\n]\n   \n",
    "as jq prints it": array(upstream_entry()),
    "with fields of ours": array(*failed_run()),
}
REFUSED = {
    "nothing": b"",
    "only a bracket": b"[",
    "an object": START,
    "lines": START + b"\n" + START + b"\n",
    "not closed": b"[" + START,
    "a comma too many": b"[" + START + b",]",
    "a comma too few": b"[" + START + b" " + START + b"]",
    "half an entry": b"[" + START[:30] + b"]",
    "a number among the entries": b"[" + START + b",3]",
    "a byte order mark": b"\xef\xbb\xbf[" + START + b"]",
    "bytes that are not UTF-8": b"[" + START.replace(b"service", b"\xff") + b"]",
    "a line break in a text": b"[" + START.replace(b" ", b"\n") + b"]",
    "a number for a text": b"[" + START.replace(b"}", b',"errorLine":12}') + b"]",
    "in whatever case": b"[" + START.replace(b"}", b',"StAgE":{}}') + b"]",
    "what JSON has no number for": b"[" + START.replace(b"}", b',"own":NaN}') + b"]",
}


def test_upstream_readers_read_only_closed_arrays() -> None:
    with Faults() as faults:
        for name, content in CLOSED.items():
            with faults.case(name):
                starts = content.count(b"service start")
                assert reader(job=content).judge("job").starts == starts
                assert reader(job=content).count_attempts("job") == min(starts, 1)
        for name, content in REFUSED.items():
            with faults.case(name), pytest.raises(UnreadableError):
                reader(job=content).judge("job")


@pytest.mark.parametrize("behind", [b"[" + START + b"]", START, b"garbage", b"\0"])
def test_upstream_readers_fail_on_text_after_array(behind: bytes) -> None:
    upstream = reader(job=b"[" + START + b"]\n" + behind)

    assert upstream.judge("job").starts == 1
    with pytest.raises(UnreadableError):
        upstream.count_attempts("job")


def test_attempts_are_counted_by_start_times() -> None:
    upstream = reader(job=array(*(upstream_entry(at=at) for at in (0, 0, 5))))

    assert (upstream.judge("job").starts, upstream.count_attempts("job")) == (3, 2)
    with pytest.raises(UnreadableError):
        reader(job=b'[{"phase":"service start"}]').count_attempts("job")


def test_later_member_of_a_name_is_read() -> None:
    names = ("job.json", "a.b.json", "job.json.tmp", "job.json.damaged", "below/other.json", ".json")
    members = {f"{WITHIN}/{name}": array(upstream_entry()) for name in names}
    assert UpstreamReader(members | {"services/x.json": b"["}).services == ["below/other", "job"]

    first, second = f"a/{WITHIN}/job.json", f"b/{WITHIN}/job.json"
    assert (
        not UpstreamReader({first: array(*succeeded()), second: array(*failed_run())}).judge("job").successful
    )

    bundle = io.BytesIO()
    with tarfile.open(fileobj=bundle, mode="w:gz") as archive:
        link = tarfile.TarInfo(first)
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
        archive.addfile(link)
    assert UpstreamReader.from_bundle(bundle.getvalue()).services == []


HANGING = [entry(at=20), entry(Phase.STAGE_START, 21, stage="third")]
TIDY = [entry(phase, 20, post_command="tidy-up") for phase in ("post-command start", "post-command end")]
STOPPED = {"result": Result.FAILURE, "signal": "TERM", "error_message": "stopped"}
NO_IMAGE = failed_run("second", error_message="no such image")
JUDGED: dict[str, tuple[Iterable[Entry], Judgement]] = {
    "the end of the service": ([*succeeded(), entry(Phase.SERVICE_END)], Judgement(1, True)),
    "of a post-command": ([*failed_run("second"), *TIDY], Judgement(1, True, "second", "")),
    "of a pre-command": ([*succeeded(), entry(Phase.PRE_COMMAND_END, pre_command="p")], Judgement(1, False)),
    "of a stage": ([*succeeded(), entry(Phase.STAGE_END, stage="one")], Judgement(1, False)),
    "an end without a result": ([*succeeded(), entry(Phase.SERVICE_END, result=None)], Judgement(1, False)),
    "another start after a success": ([*succeeded(), entry(at=20)], Judgement(2, False)),
    "the failed stage right before the end": (failed_run("second"), Judgement(1, False, "second", "")),
    "a second end, as our exit helper writes it": (
        [*failed_run("second"), entry(Phase.SERVICE_END, 10, stage="second", **STOPPED)],
        Judgement(1, False, "second", "stopped"),
    ),
    "a second end that names no stage": (
        [*failed_run("second"), entry(Phase.SERVICE_END, 10, **STOPPED)],
        Judgement(1, False, "", "stopped"),
    ),
    "a hang, blamed on the stage of an attempt before": (
        [*NO_IMAGE, *HANGING],
        Judgement(2, False, "second", "no such image"),
    ),
}


def test_last_entry_decides_success_in_upstream() -> None:
    with Faults() as faults:
        for name, (entries, judgement) in JUDGED.items():
            with faults.case(name):
                assert reader(job=array(*entries)).judge("job") == judgement


def test_upstream_reports_only_release_image_and_bootkube() -> None:
    good, bad, hanging = array(*succeeded()), array(*failed_run("second")), array(*HANGING)

    assert reader(**{"release-image": bad, "bootkube": bad}).find_failure() == "release-image failed"
    assert reader(bootkube=bad).find_failure() == "release-image was never started"
    assert reader(**{"release-image": good}).find_failure() == "bootkube was never started"
    blamed = reader(**{"release-image": good, "bootkube": hanging}).find_failure()
    assert blamed == 'bootkube failed at stage ""'
    assert reader(**{"release-image": good, "bootkube": good, "kubelet": bad}).find_failure() is None


def test_upstream_fields_ignore_case() -> None:
    fields = {"Timestamp": "t", "PHASE": "service start", "ownFacts": [1]}

    assert reader(job=json.dumps([fields]).encode()).entries("job") == [
        {"timestamp": "t", "phase": "service start"}
    ]
