"""Encryption of secrets in the database: keys and the format of stored values.

A stored value starts with a tag for its scheme: `plain:` is followed by the text itself, `fernet:<key id>:` by a token of cryptography's
Fernet (AES-128-CBC and HMAC-SHA256). The key id is part of a hash of the key, so that errors can name a missing key, and values of an older
key can be found, without decrypting anything.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from sqlalchemy import Dialect

from sless.errors import Code, ConfigError, SlessError

# Imported where it is used: processes without keys, such as the writer of history, start faster without it.
if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

PLAIN = "plain:"
FERNET = "fernet:"
_ID_CHARS = 8
TAG_CHARS = len(FERNET) + _ID_CHARS + 1
"""Length of an encrypted value's prefix: scheme, key id and their colons."""
_CACHE_BYTES = 16 * 2**20
"""Size of the cache of decrypted values: rows are read far more often than they change, and decrypting takes longer than reading."""


class KeySource(Protocol):
    """Source of keys, newest first. `changed` is cheap; the keyring reads the keys again when it returns True."""

    def read(self) -> Sequence[str]: ...

    def changed(self) -> bool: ...


class FixedKeys:
    """Keys that stay the same while the process runs."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._keys = tuple(keys)

    def read(self) -> Sequence[str]:
        return self._keys

    def changed(self) -> bool:
        return False


class Keyring:
    """Encrypts with the newest key and decrypts with any. Without keys, values are stored plain: only for tests. Thread-safe."""

    def __init__(self, source: KeySource | None = None) -> None:
        """Raises ConfigError for an invalid key."""
        self._source = source or FixedKeys()
        self._lock = threading.Lock()
        self._cache: OrderedDict[str, str] = OrderedDict()
        self._cached_bytes = 0
        self._load()

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all keys, newest first."""
        return self._ids

    @property
    def newest_prefix(self) -> str:
        """Prefix of values encrypted with the newest key."""
        self._refresh()
        return f"{FERNET}{self._ids[0]}:" if self._ids else PLAIN

    def seal(self, text: str) -> str:
        self._refresh()
        with self._lock:
            ids, fernet = self._ids, self._fernet
        if fernet is None:
            return PLAIN + text
        return f"{FERNET}{ids[0]}:{fernet.encrypt(text.encode()).decode()}"

    def open(self, stored: str) -> str:
        """Raises SlessError when no key fits or the value is damaged."""
        if stored.startswith(PLAIN):
            return stored[len(PLAIN) :]
        with self._lock:
            if (known := self._cache.get(stored)) is not None:
                self._cache.move_to_end(stored)
                return known
        text = self._decrypted(stored)
        self._remember(stored, text)
        return text

    def _decrypted(self, stored: str) -> str:
        from cryptography.fernet import InvalidToken

        key_id = key_id_of(stored)
        if key_id not in self._ids:
            # Another process may have added the key: `sless rotate-keys` while the server runs.
            self._load()
        with self._lock:
            ids, fernet = self._ids, self._fernet
        if fernet is None or key_id not in ids:
            raise SlessError(Code.INTERNAL, f"a stored secret is encrypted with key {key_id}, which is not in SLESS_ENCRYPTION_KEYS")
        try:
            return fernet.decrypt(stored[len(FERNET) + len(key_id) + 1 :]).decode()
        except InvalidToken as error:
            raise SlessError(Code.INTERNAL, f"a stored secret, encrypted with key {key_id}, is damaged") from error

    def _remember(self, stored: str, text: str) -> None:
        with self._lock:
            if stored in self._cache:
                return
            self._cache[stored] = text
            self._cached_bytes += len(stored) + len(text)
            while self._cached_bytes > _CACHE_BYTES:
                old, plain = self._cache.popitem(last=False)
                self._cached_bytes -= len(old) + len(plain)

    def _refresh(self) -> None:
        if self._source.changed():
            self._load()

    def _load(self) -> None:
        keys = self._source.read()
        fernets = [_fernet_of(key, number) for number, key in enumerate(keys, start=1)]
        with self._lock:
            self._ids = tuple(map(id_of_key, keys))
            self._fernet = _multi_of(fernets) if fernets else None


def new_key() -> str:
    from cryptography.fernet import Fernet

    return Fernet.generate_key().decode()


def id_of_key(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:_ID_CHARS]


def key_id_of(stored: str) -> str:
    """The key id of an encrypted value. Raises SlessError for an unknown scheme."""
    parts = stored.split(":", 2)
    if not stored.startswith(FERNET) or len(parts) != 3:
        raise SlessError(Code.INTERNAL, f'a stored secret has the scheme "{parts[0][:20]}", which this version of sless does not know')
    return parts[1]


def _multi_of(fernets: "Sequence[Fernet]") -> "MultiFernet":
    from cryptography.fernet import MultiFernet

    return MultiFernet(fernets)


def _fernet_of(key: str, number: int) -> "Fernet":
    """`number` names the key in the error, which must not repeat it."""
    from cryptography.fernet import Fernet

    try:
        return Fernet(key)
    except ValueError as error:
        raise ConfigError(
            f"SLESS_ENCRYPTION_KEYS: key {number}: expected 32 bytes in URL-safe base64 (44 characters), found {len(key)} characters"
        ) from error


_keyrings: WeakKeyDictionary[Dialect, Keyring] = WeakKeyDictionary()
"""Column types see the dialect only, and each engine has its own."""
_NO_KEYS = Keyring()


def attach(dialect: Dialect, keyring: Keyring) -> None:
    """Columns of `types.SecretText` in the database with this dialect object use `keyring` from now on."""
    _keyrings[dialect] = keyring


def keyring_of(dialect: Dialect) -> Keyring:
    return _keyrings.get(dialect, _NO_KEYS)
