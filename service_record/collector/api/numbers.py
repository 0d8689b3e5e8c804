"""Numbers in paths: of builds and steps, as the database has them."""

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

NUMBER: Final = "number"
"""The name of the convertor, as in `/builds/{n:number}`."""


class _Number(Convertor[int]):
    """A whole number of at most 18 digits: Starlette's own takes any, and the database does not."""

    regex = "[0-9]{1,18}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor(NUMBER, _Number())
