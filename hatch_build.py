"""Puts man pages and completions into the wheel: hatchling runs this when it makes one."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PagesHook(BuildHookInterface[Any]):
    """Makes them of the command line, where its libraries are installed; else they are left out."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the pages, and name them to hatchling. An installed checkout has those of `make man`."""
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        try:
            from packages.manual import pages  # noqa: PLC0415
            from service_record.cli import main  # noqa: PLC0415

            made = dict(pages(main))
        except ModuleNotFoundError as error:
            self.app.display_warning(f"No {error.name}: man pages and completions are left out.")
            return
        self._directory = TemporaryDirectory()
        for path, text in made.items():
            file = Path(self._directory.name, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            build_data["force_include"][str(file)] = f"service_record/host/share/{path}"

    def finalize(self, _version: str, _build_data: dict[str, Any], _artifact: str) -> None:
        """Remove what was written."""
        if hasattr(self, "_directory"):
            self._directory.cleanup()
