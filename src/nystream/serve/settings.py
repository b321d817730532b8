"""The settings of a service. Each field is an option of `nystream serve`."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from nystream.config.checks import positive_int
from nystream.config.option import add_args, option
from nystream.data.reader import Policy

Durability = Literal["none", "snapshot", "log"]

TOKENS_VARIABLE = "NYSTREAM_TOKENS"  # environment variable with tokens, as the lines of a tokens file
ORIGIN = re.compile(r"https?://[^/?#\s,]+")
POSITIVE = (
    *("max_batch", "max_queue", "max_in_flight", "max_streams", "max_streams_per_token", "max_frame_bytes"),
    *("max_queue_bytes", "max_connections", "keep_answers", "snapshot_every"),
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a service listens, batches, stores and protects its streams."""

    host: str = option("127.0.0.1", "Address to listen on. Any but a loopback address needs tokens.", "ADDRESS")
    port: int = option(8000, "Port to listen on; 0 for any free one.")
    store: str | Path = option(
        "nystream-streams.db",
        "Where the streams are: a SQLite file; or, for several machines, a folder that they share (FOLDER/) or "
        "redis://HOST:PORT. Not used with durability none.",
        "FILE|FOLDER/|URL",
    )
    durability: Durability = option(
        "log",
        "What survives a crash: with log, every acknowledged record; with snapshot, streams as they were some records "
        "ago; with none, nothing.",
    )
    max_wait_ms: float = option(2.0, "Milliseconds that a record may wait for others to run together with.")
    max_batch: int = option(256, "The most records that run together.")
    max_queue: int = option(8192, "The most records that may wait; more are refused with 503.")
    max_queue_bytes: int = option(
        1 << 26,
        "The most bytes that requests without an answer may have, of all connections; more are refused with 503.",
    )
    max_in_flight: int = option(
        1024, "The most records of one connection without an answer that was sent; until then no more are read."
    )
    max_connections: int = option(4096, "The most connections at a time; others are closed at once.")
    max_streams: int = option(
        10_000, "The most streams in memory. Idle ones make room for others, and return when they are pushed to."
    )
    max_streams_per_token: int = option(100_000, "The most streams that one token may own.")
    max_rate: float = option(
        0.0, "The most records a second per token, and as many other requests; 0 for no limit.", "NUMBER", "no limit"
    )
    max_frame_bytes: int = option(1 << 20, "The largest WebSocket frame or HTTP body, in bytes.")
    idle_seconds: float = option(600.0, "Streams without a record for this long are removed from memory.")
    send_seconds: float = option(10.0, "A connection that takes no answer for this long is closed.")
    receive_seconds: float = option(
        20.0, "A connection that sends no whole HTTP request for this long is closed; 0 for no limit."
    )
    keep_answers: int = option(64, "Answers kept per stream, for records that are sent again.")
    snapshot_every: int | None = option(
        None, "Records between two snapshots of a stream.", "N", "as many as take the space of a snapshot"
    )
    keep: int | None = option(
        None,
        "Records of each stream that a retrained model can read with --migrate.",
        "N",
        "as many as the window of this model needs",
    )
    migrate: bool = option(
        False, "Continue the streams of a store of another model with this one, which reads the records that were kept."
    )
    tokens_file: Path | None = option(
        None,
        f"File with a bearer token on each line, as NAME:TOKEN or TOKEN; by default the lines of {TOKENS_VARIABLE} in "
        "the environment.",
        "FILE",
    )
    allow_origins: str = option(
        "",
        "Origins of other sites whose pages may use the service, separated by commas, such as https://example.org.",
        "ORIGINS",
        "none",
    )
    tls_cert: Path | None = option(None, "Certificate chain, for TLS.", "FILE")
    tls_key: Path | None = option(None, "Private key of the certificate.", "FILE")
    missing: Policy | None = option(
        None, "How to treat empty fields: reject the record, fill or skip.", "fail|fill|skip", "as in training"
    )
    gaps: Policy | None = option(
        None,
        "How to treat gaps in time: fill with the last values, or skip the gap.",
        "fill|skip",
        "as in training; fill if training used fail",
    )
    backend: Literal["auto", "numba", "torch"] = option(
        "auto", "Backend that steps the model: compiled for the CPU, or torch."
    )

    def __post_init__(self) -> None:
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None:
                positive_int(name, value)
        for name in ("max_wait_ms", "max_rate", "idle_seconds", "send_seconds", "receive_seconds"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ValueError(f"{name}={value} must be a number of at least 0")
        if self.max_queue_bytes < self.max_frame_bytes:
            raise ValueError(
                f"max_queue_bytes={self.max_queue_bytes} must be at least max_frame_bytes={self.max_frame_bytes}"
            )
        if self.keep is not None and (type(self.keep) is not int or self.keep < 0):
            raise ValueError(f"keep={self.keep} must be a whole number of at least 0")
        if not 0 <= self.port < 1 << 16:
            raise ValueError(f"port={self.port} must be from 0 to {(1 << 16) - 1}")
        if self.durability not in get_args(Durability):
            raise ValueError(f"durability={self.durability!r} must be one of {', '.join(get_args(Durability))}")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key belong together: give both or neither")
        for origin in self.origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"allow_origins has {origin!r}, but an origin is like https://example.org:8443")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins of other sites whose pages may use the service."""
        return tuple(origin.strip() for origin in self.allow_origins.split(",") if origin.strip())


add_args(Settings)


def is_loopback(host: str) -> bool:
    """Whether an address, or a name, is one of this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
