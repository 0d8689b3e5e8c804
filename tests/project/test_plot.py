"""The plots of the benchmarks: well-formed, every line named, and no name upon another."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from bench.growth import PAGE, PLOTS
from bench.plot import NAME_HEIGHT, X_MAX, Y_MIN, Line, Plot

NAMES = ("<flat>", "as flat", "steep & short")
PLOT = Plot(
    title="cost & growth",
    amount="entries",
    lines=[
        Line(name=NAMES[0], points=[(0, 1e-5), (10, 1e-5), (100, 1e-5)]),
        Line(name=NAMES[1], points=[(0, 1.1e-5), (10, 1e-5), (100, 1.1e-5)]),
        Line(name=NAMES[2], points=[(0, 1e-6), (10, 1e-2)]),
    ],
)
DRAWN = ET.fromstring(PLOT.svg())


def of_class(name: str) -> list[ET.Element]:
    return [each for each in DRAWN.iter() if name in each.get("class", "").split()]


def test_line_labels_do_not_overlap() -> None:
    assert [each.text for each in of_class("name")] == list(NAMES)
    heights = sorted(float(each.get("y", "0")) for each in of_class("name"))
    apart = [below - above for above, below in pairwise(heights)]
    assert min(apart) >= NAME_HEIGHT - 0.1


def test_points_are_within_the_axes() -> None:
    places = [(float(each.get("cx", "0")), float(each.get("cy", "0"))) for each in of_class("dot")]
    assert len(places) == 8
    assert all(x <= X_MAX and y >= Y_MIN for x, y in places)
    assert places[0][0] < places[1][0] < places[2][0]
    assert places[1][0] - places[0][0] == pytest.approx(places[2][0] - places[1][0])


def test_plots_have_dark_colours() -> None:
    light, dark = PLOT.svg().split("prefers-color-scheme: dark")
    for text in (light, dark):
        assert len(re.findall(r"\.line\.c\d+ { stroke", text)) >= len(NAMES)


def test_page_shows_each_plot() -> None:
    drawn = {path.name for path in PLOTS.glob("*.svg")}
    shown = set(re.findall(r"]\(performance/([a-z]+\.svg)\)", PAGE.read_text()))
    assert drawn == shown
    for name in drawn:
        ET.parse(PLOTS / name)
