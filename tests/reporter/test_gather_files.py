"""Paths of a host below another root: wherever its links lead, nothing outside is reached."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from service_record.read.programs import Deadline
from service_record.reporter.gather.files import find_files, resolve_in_root
from service_record.reporter.gather.model import GatherError

STEPS = st.lists(st.sampled_from(["a", "b", "c", "..", "."]), max_size=5).map("/".join)
PATHS = st.builds("{}{}".format, st.sampled_from(["", "/", "../", "../../../"]), STEPS)
LINKS = st.dictionaries(st.sampled_from(["a/b", "a/c", "b/a", "b/c", "c", "b/b"]), PATHS)


@given(links=LINKS, path=PATHS)
def test_no_path_of_a_host_leads_out_of_its_root(links: dict[str, str], path: str) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "root"
        host_with(root, links)

        try:
            place = resolve_in_root(root, f"/{path}")
        except GatherError as error:
            assert "links in a circle" in str(error)  # noqa: PT017  # one of two ways that are both right
            return

        assert place.is_relative_to(root)
        assert ".." not in place.parts
        assert place.resolve() == place


@given(links=LINKS)
def test_no_match_of_a_pattern_is_a_link_or_behind_one(links: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        root = Path(directory).resolve() / "root"
        host_with(root, links)

        found = find_files(root, ("/a/*", "/a/*/*", "/b/**/*", "/*"), Deadline(60))

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
