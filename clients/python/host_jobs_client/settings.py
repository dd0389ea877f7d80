"""Finds the host and the token as the command line does: arguments, the environment, then the context."""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import SettingsError

SERVER_DEFAULT = "http://127.0.0.1:7700"
TOKEN_BYTES_MAX = 4096


@dataclass(frozen=True)
class Settings:
    """Where the host is, and what is shown to it."""

    server: str
    token: str | None = field(repr=False)
    ca_file: str | None
    client_cert: str | None
    client_key: str | None


def _variable(name: str) -> str | None:
    return os.environ.get(name) or None


def _context(name: str | None) -> dict[str, str]:
    """The context with a name, or the current one if there is one."""
    base = _variable("XDG_CONFIG_HOME") or (_variable("HOME") and os.path.join(os.environ["HOME"], ".config"))
    path = Path(base or ".", "host", "contexts.toml")
    try:
        contexts = tomllib.loads(path.read_text()) if base and path.exists() else {}
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read the contexts in {path}: {error}") from None
    name = name or contexts.get("current")
    if name is None:
        return {}
    try:
        context: dict[str, str] = contexts["contexts"][name]
    except KeyError:
        raise SettingsError(f"no context has the name {name}; `host context ls` lists them") from None
    return context


def _read_token(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(TOKEN_BYTES_MAX).strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"cannot read the token in {path}: {why}") from None


def _is_loopback(name: str) -> bool:
    try:
        return name == "localhost" or ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _check(server: str, token: str | None) -> None:
    shown = re.sub("//.*@", "//…@", server)
    parts = urlsplit(server)
    if parts.scheme == "unix":
        if not server.startswith("unix:///"):
            raise SettingsError(f"{shown}: write the path of a socket like unix:///run/host/api.sock")
    elif parts.scheme not in ("http", "https") or not re.fullmatch(r"https?://[A-Za-z0-9._:\[\]-]+", server):
        raise SettingsError(f"{shown}: write the host's address as a URL without a path, such as {SERVER_DEFAULT}")
    if token is None:
        return
    if not re.fullmatch(r"[\x21-\x7e]+", token):
        raise SettingsError("the token contains an invalid character; check where it comes from")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise SettingsError(f"{shown}: a token is not sent to another machine without TLS; use https://")


def resolve(
    server: str | None,
    token: str | None,
    token_file: str | os.PathLike[str] | None,
    context: str | None,
    ca_file: str | None,
    client_cert: str | None,
    client_key: str | None,
) -> Settings:
    """Completes what was given. What belongs to a context is shown to no other server."""
    if server and context:
        raise SettingsError("give a server or a context, not both")
    if not context:
        server = server or _variable("HOST_SERVER")
    kept = {} if server else _context(context)
    server = (server or kept.get("server") or SERVER_DEFAULT).rstrip("/")
    if not token:
        file = os.fspath(token_file) if token_file else _variable("HOST_TOKEN_FILE")
        given = _variable("HOST_TOKEN")
        if file is None and given is None:
            file = kept.get("token_file")
        token = _read_token(file) if file else given and given.strip()
    _check(server, token)
    return Settings(
        server,
        token,
        ca_file or _variable("HOST_CA_FILE") or kept.get("ca_file"),
        client_cert or _variable("HOST_CLIENT_CERT") or kept.get("client_cert"),
        client_key or _variable("HOST_CLIENT_KEY") or kept.get("client_key"),
    )
