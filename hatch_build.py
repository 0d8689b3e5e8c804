"""Adds man pages and completions to the wheel, and absolute links to its description.

hatchling runs this when it makes a wheel or a source archive.
"""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).parent))
import packages  # noqa: F401  # first, because it exits with one line under a Python that is too old

# isort: split
from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class PagesHook(BuildHookInterface[Any]):
    """Makes man pages and completions from the command line. Without its libraries they are left out."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages and add them to the wheel. An editable checkout uses those of `make man`."""
        if version == "editable":
            return
        try:
            from packages.manual import pages
            from service_record.cli import main

            texts = dict(pages(main))
        except ModuleNotFoundError as error:
            self.app.display_warning(f"No {error.name}: man pages and completions are left out.")
            return
        self._directory = TemporaryDirectory()
        for path, text in texts.items():
            file = Path(self._directory.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            build_data["force_include"][str(file)] = f"service_record/host/share/{path}"

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
