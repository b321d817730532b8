"""Checks of what comes back from a store: a record or an answer that has changed there must not be used."""

from __future__ import annotations

from hashlib import blake2b
from zlib import crc32

SEAL_BYTES, DIGEST_BYTES = 4, 8


def sealed(data: bytes, number: int) -> bytes:
    """Return data with a checksum of it and of the number of the record that it belongs to."""
    return _seal(data, number) + data


def unsealed(data: bytes, number: int) -> bytes:
    """Return what `sealed` was given; ValueError if it is not what was written, or that of another record."""
    seal, content = data[:SEAL_BYTES], data[SEAL_BYTES:]
    if seal != _seal(content, number):
        raise ValueError(f"what the store has of record {number} is not what was written")
    return content


def digest(record: bytes) -> bytes:
    """Return what tells a packed record from others, 64 bits."""
    return blake2b(record, digest_size=DIGEST_BYTES).digest()


def sealed_answer(record: bytes, answer: bytes, number: int) -> bytes:
    """Return a packed answer as the store has it, with the digest of the packed record that it answers."""
    return sealed(digest(record) + answer, number)


def unsealed_answer(data: bytes, number: int) -> tuple[bytes, bytes]:
    """Return the digest of the record, and the packed answer; ValueError as `unsealed`."""
    content = unsealed(data, number)
    return content[:DIGEST_BYTES], content[DIGEST_BYTES:]


def _seal(data: bytes, number: int) -> bytes:
    return crc32(data, number & 0xFFFFFFFF).to_bytes(SEAL_BYTES, "little")
