"""The module `ssl` of a component. Connections are the host's, and so is TLS: it always checks certificates."""

from __future__ import annotations

import enum
import os
import sys
import types
from typing import Any

from .sockets import TLS, Socket


class SSLError(OSError):
    """The base of the errors of TLS."""

    library = reason = ""


class SSLContext:
    """Settings of TLS. The host has its own."""

    sslsocket_class = Socket

    def __init__(self, protocol: Any = None, *_: Any, **_options: Any) -> None:
        self.protocol = protocol
        self.check_hostname = True
        self.verify_mode = VerifyMode.CERT_REQUIRED
        self.verify_flags = self.options = 0
        self.minimum_version = self.maximum_version = TLSVersion.TLSv1_2
        self.post_handshake_auth, self.keylog_filename = False, None

    def wrap_socket(self, sock: Any, *_: Any, **_options: Any) -> Any:
        sock.is_tls = True
        return sock

    def wrap_bio(self, incoming: MemoryBIO, outgoing: MemoryBIO, *_: Any, **_options: Any) -> SSLObject:
        return SSLObject(self, incoming, outgoing)

    def load_cert_chain(self, *_: Any, **_options: Any) -> None:
        raise SSLError("the host sends the requests of a component: certificates of clients cannot be set here")

    def cert_store_stats(self) -> dict[str, int]:
        return {"x509": 1, "crl": 0, "x509_ca": 1}

    def get_ca_certs(self, binary_form: bool = False) -> list[Any]:
        return []

    def _ignored(self, *_: Any, **_options: Any) -> None:
        pass

    load_verify_locations = load_default_certs = set_default_verify_paths = set_ciphers = set_alpn_protocols = _ignored
    set_npn_protocols = set_ecdh_curve = load_dh_params = _ignored


class MemoryBIO:
    """Bytes on their way."""

    def __init__(self) -> None:
        self._bytes, self.eof = bytearray(), False

    @property
    def pending(self) -> int:
        return len(self._bytes)

    def read(self, size: int = -1) -> bytes:
        size = len(self._bytes) if size < 0 else size
        taken = bytes(self._bytes[:size])
        del self._bytes[:size]
        return taken

    def write(self, data: Any) -> int:
        self._bytes += data
        return len(data)

    def write_eof(self) -> None:
        self.eof = True


class SSLObject:
    """A connection with TLS, of a package that moves the bytes itself."""

    server_side, server_hostname, session = False, None, None

    def __init__(self, context: SSLContext, incoming: MemoryBIO, outgoing: MemoryBIO, **_: Any) -> None:
        self.context, self._incoming, self._outgoing = context, incoming, outgoing

    def do_handshake(self) -> None:
        self._outgoing.write(TLS)

    def write(self, data: Any) -> int:
        return self._outgoing.write(data)

    def read(self, size: int = 1024, buffer: Any = None) -> Any:
        if not self._incoming.pending and not self._incoming.eof:
            raise sys.modules["ssl"].SSLWantReadError("the response is on its way")
        data = self._incoming.read(size)
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def pending(self) -> int:
        return self._incoming.pending

    def unwrap(self) -> None:
        pass

    def getpeercert(self, binary_form: bool = False) -> Any:
        return b"" if binary_form else {}

    def selected_alpn_protocol(self) -> str:
        return "http/1.1"

    def version(self) -> str:
        return "TLSv1.3"

    def cipher(self) -> tuple[str, str, int]:
        return ("TLS_AES_128_GCM_SHA256", "TLSv1.3", 128)

    def compression(self) -> None:
        pass

    shared_ciphers = get_channel_binding = compression


class VerifyMode(enum.IntEnum):
    CERT_NONE, CERT_OPTIONAL, CERT_REQUIRED = 0, 1, 2


class TLSVersion(enum.IntEnum):
    MINIMUM_SUPPORTED, MAXIMUM_SUPPORTED = -2, -1
    SSLv3, TLSv1, TLSv1_1, TLSv1_2, TLSv1_3 = 768, 769, 770, 771, 772


class Purpose(enum.Enum):
    SERVER_AUTH, CLIENT_AUTH = "server", "client"


def create_default_context(*_: Any, **_options: Any) -> SSLContext:
    """Returns the settings that all connections have."""
    return SSLContext()


def _constant(name: str) -> Any:
    if name.startswith("HAS_"):
        return True
    if name.startswith(("OP_", "VERIFY_", "PROTOCOL_", "SSL_", "ALERT_")):
        return 0
    raise AttributeError(f"the module ssl of a component has no {name}")


_module: Any = types.ModuleType("ssl", __doc__)


def _fill() -> None:
    values: tuple[Any, ...] = (SSLError, SSLContext, MemoryBIO, SSLObject, VerifyMode, TLSVersion, Purpose, create_default_context)
    for value in values:
        setattr(_module, value.__name__, value)
    for name in ("ZeroReturn", "WantRead", "WantWrite", "Syscall", "EOF", "CertVerification"):
        setattr(_module, f"SSL{name}Error", type(f"SSL{name}Error", (SSLError,), {}))
    _module.CertificateError = _module.SSLCertVerificationError
    _module.SSLSocket, _module.SSLSession = Socket, type("SSLSession", (), {})
    _module.Options = _module.VerifyFlags = _module.AlertDescription = _module._SSLMethod = enum.IntFlag("Options", {"NONE": 0})
    _module.PROTOCOL_TLS_CLIENT, _module.PROTOCOL_TLS_SERVER, _module.PROTOCOL_TLS = 16, 17, 2
    for mode in VerifyMode:
        setattr(_module, mode.name, mode)
    _module._create_unverified_context = _module._create_stdlib_context = create_default_context
    _module._create_default_https_context = _module.create_default_context
    _module.OPENSSL_VERSION, _module.OPENSSL_VERSION_NUMBER = "OpenSSL 3.0.0 (the host's TLS)", 0x30000000
    _module.OPENSSL_VERSION_INFO = (3, 0, 0, 0, 0)
    _module.RAND_bytes = os.urandom
    _module.get_default_verify_paths = lambda: types.SimpleNamespace(cafile=None, capath=None, openssl_cafile="", openssl_capath="")
    _module.__getattr__ = _constant


def install() -> None:
    """Makes it the module `ssl`."""
    _fill()
    sys.modules["ssl"] = _module
