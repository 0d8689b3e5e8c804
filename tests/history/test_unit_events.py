"""systemd's messages about units, by name and by description."""

import pytest

from service_record.history.unit_events import TARGET, UnitEvent, read_described_event, read_event


def test_refused_unit_is_unloadable_with_its_reason() -> None:
    found = read_event("x.service: Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing.")
    assert found is not None
    event, match = found
    assert (event, match["unit"]) == (UnitEvent.UNLOADABLE, "x.service")
    assert match["detail"] == "Service has no ExecStart=, ExecStop=, or SuccessAction="


@pytest.mark.parametrize("text", ["", "x.service:", "x.service: ", "Starting", "x.service  Refusing."])
def test_text_without_an_event_is_none(text: str) -> None:
    assert read_event(text) is None
    assert read_described_event(text) is None


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ("Reached target Basic System.", UnitEvent.STARTED),
        ("Stopped target Basic System.", UnitEvent.STOPPED),
    ],
)
def test_description_of_a_target_is_marked(text: str, event: UnitEvent) -> None:
    assert read_described_event(text) == (event, "Basic System" + TARGET)


def test_session_is_no_unit() -> None:
    assert read_described_event("Started Session 3 of User core.") is None
    assert read_described_event("Started Session 3 of user core.") is None
