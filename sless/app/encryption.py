"""The keys that encrypt secrets in the database: from SLESS_ENCRYPTION_KEYS, or a file in the data folder that the first start creates."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sless.config import Settings
from sless.errors import ConfigError
from sless.store import FixedKeys, KeySource, Store, new_key

KEY_FILE = "encryption-keys"


class KeyFile:
    """One key per line, newest first; mode 0600. Servers notice a new key when they next encrypt, or read a value encrypted with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_at: int | None = None

    def exists(self) -> bool:
        return self.path.exists()

    def read(self) -> Sequence[str]:
        try:
            self._read_at = self.path.stat().st_mtime_ns
            text = self.path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not text"
            raise ConfigError(f"SLESS_ENCRYPTION_KEYS: not set, and {self.path} cannot be read: {reason}") from error
        if not (keys := text.split()):
            raise ConfigError(f"SLESS_ENCRYPTION_KEYS: not set, and {self.path} is empty: expected one key per line")
        return keys

    def changed(self) -> bool:
        """Also False if the file is gone, since the keys in memory still work."""
        try:
            return self.path.stat().st_mtime_ns != self._read_at
        except OSError:
            return False

    def ensure(self) -> None:
        with self._locked():
            if not self.exists():
                self._write([new_key()])

    def add(self) -> None:
        """Puts a new key first."""
        with self._locked():
            self._write([new_key(), *self.read()])

    def _write(self, keys: Sequence[str]) -> None:
        """Call this under the lock. Returns once the file is on disk, so that nothing is encrypted with a key that may be lost."""
        part = self.path.with_name(f".{self.path.name}.new")
        part.unlink(missing_ok=True)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write("\n".join(keys) + "\n")
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.path)
        with _directory(self.path.parent) as folder:
            os.fsync(folder)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps two writers from overwriting each other's key, and losing what was encrypted with it."""
        with _directory(self.path.parent) as folder:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield


@contextmanager
def _directory(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def key_source_of(settings: Settings) -> FixedKeys | KeyFile:
    """Raises ConfigError in a cluster without keys, because the data folder may not outlive the pod."""
    if keys := [key for item in settings.encryption_keys for key in item.split()]:
        return FixedKeys(keys)
    if settings.backend == "kubernetes" and settings.auth_mode != "local":
        raise ConfigError(
            "SLESS_ENCRYPTION_KEYS: required with SLESS_BACKEND=kubernetes, the same for all replicas; the chart creates it, and "
            '`python -c "import base64, os; print(base64.urlsafe_b64encode(os.urandom(32)).decode())"` prints a key'
        )
    return KeyFile(settings.data_dir / KEY_FILE)


def location_of(source: KeySource) -> str:
    """Location of the keys, for messages."""
    return str(source.path) if isinstance(source, KeyFile) else "SLESS_ENCRYPTION_KEYS"


def ensure_keys(settings: Settings, bare: Store) -> KeySource:
    """Creates the key file on first start. `bare` is the database opened without keys. Raises ConfigError if it needs a key that is
    lost."""
    source = key_source_of(settings)
    if isinstance(source, KeyFile) and not source.exists():
        bare.sealed.check(location_of(source))
        source.ensure()
    return source
