"""Paths of a host below another root: links never lead outside that root."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from service_record.record.programs import Deadline
from service_record.reporter.gather.gathering import Context, GatherError, GatherRow, Task, resolve_in_root
from service_record.reporter.gather.sources import clocks, find_files

STEPS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), max_size=5).map("/".join)
PATHS = st.builds("{}{}".format, st.sampled_from(["", "/", "../", "../../../"]), STEPS)
LINKS = st.dictionaries(st.sampled_from(["a/b", "a/c", "b/a", "b/c", "c", "b/b"]), PATHS)


@given(links=LINKS, path=PATHS)
def test_resolved_path_stays_in_the_root(links: dict[str, str], path: str) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "root"
        host_with(root, links)

        try:
            place = resolve_in_root(root, f"/{path}")
        except GatherError as error:
            assert "links in a circle" in str(error)  # noqa: PT017  # an error is correct as well
            return

        assert place.is_relative_to(root)
        assert ".." not in place.parts
        assert place.resolve() == place


@given(links=LINKS)
def test_matches_are_not_links_or_below_links(links: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "root"
        host_with(root, links)

        task = Task(GatherRow("files", "files/", clocks), Context(root=root), Deadline(60))
        found = find_files(task, ("/a/*", "/a/*/*", "/b/**/*", "/*"))

        assert found
        assert all(each.resolve() == each and each.is_relative_to(root) for each in found)
        assert len(found) == len(set(found))


def host_with(root: Path, links: dict[str, str]) -> None:
    for name in ("a", "b"):
        (root / name).mkdir(parents=True)
        (root / name / "file").touch()
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "secret").touch()
    for name, target in links.items():
        if target:
            (root / name).symlink_to(target)
