"""The members of an archive, whether it is a tar or a zip archive."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from service_record.bundle.layers import Layer, is_zip
from service_record.bundle.tar import Member, members

if TYPE_CHECKING:
    from service_record.bundle.zip_archive import ZipMember

AnyMember: TypeAlias = "Member | ZipMember"


def archive_members(layer: Layer) -> Iterator[AnyMember]:
    """Yield every member of an archive. Raises TarError at damage."""
    if not is_zip(layer.head):
        yield from members(layer)
        return
    from service_record.bundle.zip_archive import zip_members  # usually not needed

    yield from zip_members(layer)
