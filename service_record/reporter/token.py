"""Read the tokens for the assisted-service and for collectors."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service_record.reporter.paths import Places, read_small

CREDENTIAL: Final = "token"
"""The name of systemd's credential: `LoadCredential=token:/etc/service-record/token`."""
COLLECTOR_CREDENTIAL: Final = "collector-token"
"""The name of the credential with the token for collectors."""
_REGISTRY: Final = "cloud.openshift.com"
"""The registry in a pull secret whose `auth` is the token for the hosted service."""
_MAX_FILE_BYTES: Final = 1 << 18
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""The form of a token (`token68` of RFC 9110, 11.2): a JWT, base64, or a collector's token."""
_OTHERS_MODE: Final = 0o077


@dataclass(frozen=True, slots=True)
class TokenRead:
    """A token, and a line for each problem with its files. No line contains any part of a token."""

    token: str | None
    faults: tuple[str, ...]
    is_usable: bool = True
    """False if a token file exists but has no readable token. Without it the service would deny the host."""


def read_token(places: Places, environ: Mapping[str, str]) -> TokenRead:
    """Return the token for the assisted-service, from $CREDENTIALS_DIRECTORY/token or the credential file.

    A blank credential counts as missing: the unit sets one if the file is missing. The result is not usable
    if the disk fails, or if no file has a token but one has something else.
    """
    return _read_first(CREDENTIAL, places.credential_file, environ, "the assisted-service is")


def read_collector_token(places: Places, environ: Mapping[str, str]) -> TokenRead:
    """Return the token for collectors; the same rules apply."""
    return _read_first(COLLECTOR_CREDENTIAL, places.collector_credential_file, environ, "collectors are")


def _read_first(name: str, file: Path, environ: Mapping[str, str], whose: str) -> TokenRead:
    directory = environ.get("CREDENTIALS_DIRECTORY", "")
    places = [Path(directory) / name, file] if directory.startswith("/") else [file]
    faults: list[str] = []
    is_usable = True
    for path in places:
        is_ours = path is file  # systemd sets the permissions of a credential
        try:
            data, mode = read_small(path, _MAX_FILE_BYTES)
        except FileNotFoundError:
            if os.path.lexists(path):
                faults.append(f"{path}:1: a link to a file that is missing; write the token into that file")
                is_usable = False
            continue
        except OSError as error:
            fault = f"{path}:1: cannot be read: {reason(error)}; without it {whose} sent nothing"
            return TokenRead(None, (fault,), is_usable=False)
        except ValueError as error:
            faults.append(f"{path}:1: cannot be read: {reason(error)}; make it a file that root can read")
            is_usable = False
            continue
        if not data.strip() and not is_ours:
            continue
        if is_ours and mode & _OTHERS_MODE:
            faults.append(f"{path}:1: others than its owner may read the token; chmod 0600 {path}")
        try:
            return TokenRead(token_in(data), tuple(faults))
        except ValueError as error:
            faults.append(f"{path}:1: {error}; until then {whose} sent nothing")
            is_usable = False
    return TokenRead(None, tuple(faults), is_usable)


def reason(error: OSError | ValueError) -> str:
    """Return the text of an error without the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def token_in(data: bytes) -> str:
    """Return the token in a file: the whole content, or the `auth` of a pull secret. Raises ValueError."""
    try:
        token = data.decode("ascii").strip()
    except UnicodeDecodeError:
        raise ValueError("no token: a token is ASCII; write the token alone into it") from None
    if not token:
        raise ValueError("an empty file; write the token into it, or remove it if the service asks for none")
    if token.startswith("{"):
        token = _read_auth(token)
    if len(token.split()) > 1:
        raise ValueError("no token: a blank in it; write the token alone into it, without `Bearer`")
    if not _TOKEN.fullmatch(token):
        raise ValueError("no token: characters that no token has, as quotes; write the token alone into it")
    return token


def _read_auth(pull_secret: str) -> str:
    try:
        auth = json.loads(pull_secret)["auths"][_REGISTRY]["auth"]
    except (ValueError, KeyError, TypeError, RecursionError):
        auth = None
    if not isinstance(auth, str) or not auth:
        raise ValueError(f'a pull secret without auths["{_REGISTRY}"].auth; write the token itself into it')
    return auth.strip()
