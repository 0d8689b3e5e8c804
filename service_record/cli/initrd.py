"""`service-record initrd`: make an archive with which an initramfs records and reports its failure."""

import sys
from pathlib import Path

import click

from service_record.cli import Unreadable
from service_record.cli.snippet import check_url
from service_record.deploy.initramfs import initramfs_archive
from service_record.http.address import HOST_RULE, is_host_name
from service_record.record.visible import visible

_EXISTING: click.Path = click.Path(path_type=Path)


@click.command("initrd")
@click.option(
    "--url", default="", metavar="URL", help="The collector. [default: the kernel's service_record.url=]"
)
@click.option("--host", default="", metavar="NAME", help="Name of the host. [default: its hostname or UUID]")
@click.option("--token-file", type=_EXISTING, metavar="PATH", help="Put the token in this file into it.")
@click.option(
    "--ca-file", type=_EXISTING, metavar="PATH", help="PEM certificates that curl trusts instead of its own."
)
@click.option("--curl", type=_EXISTING, metavar="PATH", help="A static curl for an initrd that has none.")
@click.option("-o", "--output", type=_EXISTING, metavar="PATH", help="Write here. [default: standard output]")
def command(
    *,
    url: str,
    host: str,
    token_file: Path | None,
    ca_file: Path | None,
    curl: Path | None,
    output: Path | None,
) -> None:
    """Make an archive that has an initrd record and report failures.

    The archive is a compressed cpio to append to an initrd: concatenate it with the initrd of a
    distribution, or name it as a second initrd to PXE, iPXE or GRUB. It records the units of the initramfs,
    among them the stages of Ignition and dracut. Before the emergency shell it prints what failed, and
    reports it to a collector or an assisted-service. `service-record show` on the booted host shows the
    record.

    Without --url, and without `service_record=1` or `service_record.url=URL` on the kernel's command line,
    it does nothing. An initramfs with dracut or systemd is needed. Everybody who can read the archive can
    read the token in it.

    \b
    Examples:
      service-record initrd > append.cpio
      cat initrd.img append.cpio > initrd-with-record.img
      service-record initrd --url http://c.example --token-file token -o a.cpio
    """
    if url:
        check_url(url)
    if host and not is_host_name(host):
        raise click.UsageError(f"--host: {visible(host)} would be refused by the collector: {HOST_RULE}")
    settings = {name: f"{text}\n".encode() for name, text in {"url": url, "host": host}.items() if text}
    if token_file:
        settings["token"] = _read(token_file).strip() + b"\n"
    if ca_file:
        settings["ca.pem"] = _read(ca_file)
    archive = initramfs_archive(settings, _read(curl) if curl else None)
    if output:
        output.write_bytes(archive)
        return
    if sys.stdout.isatty():
        raise click.UsageError("the archive is not for a terminal; redirect it, or name a file with --output")
    sys.stdout.buffer.write(archive)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{visible(str(path))}: {error.strerror}") from None
