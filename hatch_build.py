"""Adds man pages, completions and parsed rules to what is built, and absolute links to its description.

hatchling runs this when it makes a wheel or a source archive, and for an editable install.
"""

import re
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).parent))
import packages  # noqa: F401  # first, because it exits with one line under a Python that is too old

# isort: split
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SHIPPED_PAGES = "share"
"""The folder of man pages and completions in a source archive. A checkout has none: it is not in git."""


class PagesHook(BuildHookInterface[Any]):
    """Adds man pages, completions and the parsed rules of causes to the source archive and to the wheel.

    They are made from the command line and the rules, which need their libraries. A source archive has them,
    so its wheel is the same whatever is installed. In a checkout, a missing library ends the build: a wheel
    without them would be a different wheel with the same name.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the pages and write the rules. An editable checkout uses the pages of `make man`."""
        if version == "editable":
            with suppress(ModuleNotFoundError):  # without the rules, `analyze` starts 0.4 s later
                from packages.causes import write_rules

                write_rules()
            return
        target = SHIPPED_PAGES if self.target_name == "sdist" else "service_record/host/share"
        shipped = Path(self.root, SHIPPED_PAGES)
        if shipped.is_dir():
            build_data["force_include"][str(shipped)] = target
            return
        try:
            from packages.causes import write_rules
            from packages.manual import pages
            from service_record.cli import main

            write_rules()
            texts = dict(pages(main))
        except ModuleNotFoundError as error:
            self.app.abort(
                f"No {error.name}: man pages and completions cannot be made. Install the dependencies in "
                "pyproject.toml, or build from the source archive, which has the pages."
            )
        self._directory = TemporaryDirectory()
        for path, text in texts.items():
            file = Path(self._directory.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            build_data["force_include"][str(file)] = f"{target}/{path}"

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove the written pages."""
        if hasattr(self, "_directory"):
            self._directory.cleanup()


class ReadmeHook(MetadataHookInterface):
    """Makes the description from README.md. Its relative links would be dead on a package index."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description. Links lead to `Source` of [project.urls], or become plain text without it."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text, source)}


def with_absolute_links(text: str, source: Optional[str]) -> str:  # noqa: UP045  # valid in Python 3.9
    """Return Markdown whose links to files begin with `source`. Without a source, only link texts stay."""
    target = r"\1" if source is None else rf"[\1]({source.rstrip('/')}/blob/HEAD/\2)"
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)([^)]+)\)", target, text)
