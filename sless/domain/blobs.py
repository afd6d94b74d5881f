"""Blobs of stored code, as a code store lists them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBlob:
    key: str
    size_bytes: int
    stored_at: datetime
