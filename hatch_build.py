"""Puts man pages and completions into the wheel, and links that work anywhere into its description.

hatchling runs this when it makes a wheel or a source archive.
"""

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class PagesHook(BuildHookInterface[Any]):
    """Makes them of the command line, where its libraries are installed; else they are left out."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages, and name them to hatchling. An installed checkout has those of `make man`."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
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
        """Remove what was written."""
        if hasattr(self, "_directory"):
            self._directory.cleanup()


class ReadmeHook(MetadataHookInterface):
    """Makes the description of README.md, whose relative links would be dead on a package index."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the description: links lead to `Source` of [project.urls], or are texts where there is none."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        source = metadata.get("urls", {}).get("Source")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_absolute_links(text, source)}


def with_absolute_links(text: str, source: str | None) -> str:
    """Return Markdown whose links to files begin with `source`; without one, only the texts of the links."""
    target = r"\1" if source is None else rf"[\1]({source.rstrip('/')}/blob/HEAD/\2)"
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)([^)]+)\)", target, text)
