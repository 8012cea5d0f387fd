"""`ottla ca …`: the options of each command and its output."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import typer
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import NameOID

from ottla.client.units import parse_duration
from ottla.errors import config_error
from ottla_cli.lazy import Command
from ottla_cli.output import Item, Listing, write
from ottla_cli.settings import Settings
from ottla_cli.terminal import say
from ottla_stack.ca.directory import AUTHORITY_LIFETIME, AUTHORITY_NAME, LIFETIME, CaDirectory, read_certificates
from ottla_stack.ca.subject import KINDS, subject, subject_of

_HELP: Final = "Run a certificate authority for development: issue, rotate and show certificates."
_COLUMNS: Final = ("file", "kind", "name", "hosts", "expires", "days_left", "fingerprint")
_AUTHORITY_KIND: Final = "authority"

Directory = Annotated[
    Path, typer.Option("--dir", help="The directory of the authority and its certificates.", envvar="OTTLA_CA_DIR")
]
Days = Annotated[int, typer.Option(min=1, max=36_500, help="How many days the certificate is valid.")]
DEFAULT_DIRECTORY: Final = Path("ca")

app = typer.Typer(add_completion=False, rich_markup_mode=None, help=_HELP)


@app.callback(help=_HELP)
def ca() -> None: ...


@app.command("init", cls=Command)
def init(
    directory: Directory = DEFAULT_DIRECTORY,
    name: Annotated[str, typer.Option(help="The authority's name.")] = AUTHORITY_NAME,
    days: Days = AUTHORITY_LIFETIME.days,
) -> None:
    """Make an authority: a key, for you alone, and a certificate that services and clients trust."""
    made = CaDirectory(directory)
    made.init(_checked_name(name), timedelta(days=days))
    say(f"made {made.authorities_path}; its key is in {directory}, which nobody else may read")


@app.command("issue", cls=Command)
def issue(
    kind: Annotated[str, typer.Argument(metavar="ROLE", help=f"One of {', '.join(KINDS)}.")],
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="The service's name, such as its node_id; for a client, its user name."),
    ],
    directory: Directory = DEFAULT_DIRECTORY,
    host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A DNS name or IP address at which others connect to it; may be repeated; default: this machine.",
        ),
    ] = None,
    days: Days = LIFETIME.days,
) -> None:
    """Issue a certificate and its key, for a service, a Kafka listener or a Kafka client."""
    path = CaDirectory(directory).issue(subject(kind, name, host or ()), timedelta(days=days))
    say(f"issued {path}; its key is {path.with_suffix('.key')}")


@app.command("rotate", cls=Command)
def rotate(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME...]", help="Certificates by the names of their files, such as broker-0."),
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
    within: Annotated[
        str, typer.Option(metavar="DURATION", help="Issue those again that end within this time.")
    ] = "30d",
    days: Days = LIFETIME.days,
    authority: Annotated[
        bool, typer.Option("--authority", help="Make a new authority instead. The former one stays trusted.")
    ] = False,
    retire: Annotated[
        bool,
        typer.Option("--retire", help="Stop trusting the former authorities instead."),
    ] = False,
) -> None:
    """Issue certificates again before they end, with new keys.

    Without names, these are the certificates that end soon, and those that a former authority has signed. Running
    services take the new files without a restart.
    """
    place = CaDirectory(directory)
    if authority and retire:
        raise config_error("--authority and --retire exclude each other", hint="give one of them")
    if (authority or retire) and names:
        raise config_error("an authority is rotated without names", hint="leave the names out")
    if authority:
        place.replace_authority(AUTHORITY_LIFETIME)
        say(f"made a new authority; give all services {place.authorities_path}, and then run {place.command('rotate')}")
    elif retire:
        say(f"former authorities that are no longer trusted: {place.retire_authorities()}")
    else:
        paths = place.rotate(timedelta(days=days), timedelta(seconds=parse_duration(within, "--within")), names or ())
        for path in paths:
            say(f"issued {path}")
        if not paths:
            say(f"no certificate in {directory} ends within {within}")


@app.command("show", cls=Command)
def show(
    ctx: typer.Context,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[FILE...]", help="Certificate files; default: all in the directory.")
    ] = None,
    directory: Directory = DEFAULT_DIRECTORY,
) -> None:
    """Show for whom certificates are, at which hosts, until when, and their SHA-256 fingerprints."""
    place = CaDirectory(directory)
    paths = files or [place.authorities_path, *(entry.path for entry in place.entries())]
    if not files:
        place.authorities()  # it says what to do if there is none
    write(Listing("certificates/v1", _items(paths), _COLUMNS, "file"), Settings.of(ctx).output)


def _items(paths: list[Path]) -> Iterator[Item]:
    now = datetime.now(UTC)
    for path in paths:
        for certificate in read_certificates(path):
            is_authority = _is_authority(certificate)
            whom = None if is_authority else subject_of(certificate)
            yield {
                "file": str(path),
                "kind": _AUTHORITY_KIND if is_authority else whom and whom.kind,
                "name": whom.name if whom else _name_of(certificate),
                "uri": whom.identity.uri if whom and whom.identity else None,
                "hosts": list(whom.hosts) if whom else [],
                "subject": certificate.subject.rfc4514_string(),
                "issuer": certificate.issuer.rfc4514_string(),
                "expires": f"{certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
                "days_left": (certificate.not_valid_after_utc - now).days,
                "fingerprint": certificate.fingerprint(hashes.SHA256()).hex(":").upper(),
            }


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _name_of(certificate: x509.Certificate) -> str:
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else certificate.subject.rfc4514_string()


def _checked_name(name: str) -> str:
    if not 0 < len(name) <= 50 or not name.isprintable():
        raise config_error("--name has to be 1 to 50 printable characters", hint="give a shorter name")
    return name
