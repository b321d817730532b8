"""Who may use the service: bearer tokens, each with an owner, and how fast."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import time
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from nystream.serve.protocol import RequestError
from nystream.serve.settings import TOKENS_VARIABLE, Settings, is_loopback

MIN_TOKEN = 16  # characters
ANYONE = ""  # the owner of all streams if there are no tokens
# Browsers cannot send Authorization with a WebSocket: they offer this subprotocol, followed by the token in base64url,
# besides the one that they want to speak.
BEARER_PROTOCOL = "nystream.bearer."
OTHER_SITES = ("cross-site", "same-site")  # values of Sec-Fetch-Site; a site has several origins


class Tokens:
    """The tokens of a service and their owners; without any, everyone is the same owner.

    Args:
        lines: `NAME:TOKEN` or `TOKEN`, one on each line; empty lines and those that begin with # are ignored. Tokens of
            the same name own the same streams, so that a token can be replaced.
        source: Where they come from, for errors.
        origins: Origins of other sites whose pages may use the service.
    """

    def __init__(self, lines: str = "", source: str = "tokens", origins: Collection[str] = ()) -> None:
        self._origins = frozenset(origins)
        self._owners: dict[bytes, str] = {}  # by the hash of the token: hashes have the same length
        for number, line in enumerate(lines.splitlines(), 1):
            name, colon, token = (part.strip() for part in line.rpartition(":"))
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if len(token) < MIN_TOKEN or not token.isascii() or " " in token:
                raise ValueError(
                    f"{source}, line {number}: a token must have at least {MIN_TOKEN} ASCII characters without spaces; "
                    f"python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
                )
            digest = hashlib.sha256(token.encode()).digest()
            owner = f"name:{name}" if colon else f"token:{digest.hex()[:32]}"
            if self._owners.setdefault(digest, owner) != owner:
                raise ValueError(
                    f"{source}, line {number}: the token has another name on a line before; one is allowed"
                )

    @classmethod
    def of(cls, settings: Settings) -> Tokens:
        """Read the tokens of a service; raise if it needs some and has none."""
        if settings.tokens_file is not None:
            lines = settings.tokens_file.read_text("utf-8-sig")
            tokens = cls(lines, str(settings.tokens_file), settings.origins)
            if not tokens:
                raise ValueError(f"tokens_file={settings.tokens_file} has no token")
        else:
            tokens = cls(os.environ.get(TOKENS_VARIABLE, ""), TOKENS_VARIABLE, settings.origins)
        if not tokens and not settings.is_loopback:
            raise ValueError(
                f"host={settings.host} can be reached from other machines, so tokens are needed: give `tokens_file` or "
                f"set {TOKENS_VARIABLE}"
            )
        return tokens

    @property
    def fingerprint(self) -> str:
        """What tells these tokens from others, without telling them."""
        lines = sorted(f"{digest.hex()} {owner}" for digest, owner in self._owners.items())
        return hashlib.sha256("\n".join([*lines, *sorted(self._origins)]).encode()).hexdigest()

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owner(self, headers: Mapping[str, str]) -> str:
        """Return the owner that a request speaks for; RequestError if it may not come in."""
        self.check_site(headers)
        if not self._owners:
            return ANYONE
        digest = hashlib.sha256(_token(headers)).digest()
        owner = None
        for known, name in self._owners.items():  # all of them, so that the time says nothing
            if hmac.compare_digest(known, digest):
                owner = name
        if owner is None:
            raise RequestError("unauthorized", "a valid token is needed: Authorization: Bearer TOKEN")
        return owner

    def check_site(self, headers: Mapping[str, str]) -> None:
        """Refuse pages of other sites, which a browser on this machine would let reach a service without tokens."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if origin is not None and origin not in self._origins and _netloc(origin) != host.lower():
            raise RequestError("forbidden", f"requests from pages of {origin!r:.100} are not allowed")
        # Images and scripts of a page are fetched without an Origin; following a link is no request of the page.
        is_fetched = headers.get("sec-fetch-mode") != "navigate" and headers.get("sec-fetch-site") in OTHER_SITES
        if origin is None and is_fetched:
            raise RequestError("forbidden", "requests from pages of other sites are not allowed")
        if not self._owners and not is_loopback(_host_name(host)):
            raise RequestError("forbidden", f"Host is {host!r:.100}, but without tokens it must be a loopback name")


class Rates:
    """Token buckets of each owner: `rate` records a second, and as many other requests; as many of each at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}  # owner, what -> how many are left, and when

    def take(self, owner: str, count: int, what: str = "records") -> None:
        """Count records, or other requests; RequestError if they come too fast."""
        if not self._rate:
            return
        now, most = time.monotonic(), max(self._rate, 1.0)
        left, when = self._buckets.get((owner, what), (most, now))
        left = min(most, left + (now - when) * self._rate)
        needed = min(float(count), most)  # a push of more than a second's records passes when the bucket is full
        self._buckets[owner, what] = left - count * (left >= needed), now
        if left < needed:
            wait = (needed - left) / self._rate
            raise RequestError(
                "rate_limited", f"more than {self._rate:g} {what} a second; wait {wait:.3f} s", retry_after=wait
            )


def _token(headers: Mapping[str, str]) -> bytes:
    """The token of a request, or of the upgrade to a WebSocket; empty if it has none that can be read."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme:
        return token.strip().encode("utf-8", "surrogatepass") if scheme.lower() == "bearer" else b""
    for offered in headers.get("sec-websocket-protocol", "").split(","):
        encoded = offered.strip()
        if encoded.startswith(BEARER_PROTOCOL):
            encoded = encoded.removeprefix(BEARER_PROTOCOL)
            try:
                return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
            except (binascii.Error, ValueError):
                return b""
    return b""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
