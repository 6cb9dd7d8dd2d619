"""Seals: whether a checkpoint was written by this user.

A checkpoint is the memory of compiled code, so whoever makes one up decides what that code does. A
seal is a keyed hash of it; the key lies in the cache, in a folder that is the user's alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from contextlib import suppress

from netsim.engine.compiling.cache import own_folder
from netsim.engine.compiling.private_folder import UnsafeError, require_own
from netsim.writing import is_plain_file, write_once

FOLDER, KEY = "netsim-keys", "checkpoints"
KEY_BYTES = 32
SEAL_BYTES = hashlib.sha256().digest_size
NONE = bytes(SEAL_BYTES)
"""In place of a seal where there is no key."""


def seal_of(digest: bytes) -> bytes:
    """The seal of what has that hash."""
    key = _key(make=True)
    return NONE if key is None else hmac.digest(key, digest, "sha256")


def is_sealed(digest: bytes, seal: bytes) -> bool:
    """Whether a seal is this user's, of what has that hash."""
    key = _key(make=False)
    return key is not None and hmac.compare_digest(hmac.digest(key, digest, "sha256"), seal)


def _key(*, make: bool) -> bytes | None:
    """The user's key; None if there is none, or no place where nobody else could have put it."""
    folder = own_folder(FOLDER)
    if folder is None:
        return None
    path = folder / KEY
    try:
        if make and not is_plain_file(path):
            # Of several processes that make a key at a time, the first one's stays.
            with suppress(FileExistsError):
                write_once(path, secrets.token_bytes(KEY_BYTES))
        require_own(path, path.lstat())
        key = path.read_bytes() if is_plain_file(path) else b""
    except (OSError, UnsafeError):
        return None
    return key if len(key) == KEY_BYTES else None
