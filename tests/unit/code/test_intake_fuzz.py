"""Damaged zips: an upload is accepted or refused, whatever its bytes."""

import io
import random
import stat
import zipfile
from dataclasses import asdict
from pathlib import Path

import pytest

from sless.code.intake_child import intake
from sless.domain.package import PackageLimits
from sless.errors import SlessError

MUTATIONS = 5_000
LIMITS = asdict(PackageLimits(unpacked_bytes=1 << 20, files=50))
NUMBERS = (b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\x0e\0", b"\x0c\0")
DIRECTORY_BYTES = 500


def sample() -> bytes:
    """Every compression method, a link, a folder, a name in UTF-8."""
    out = io.BytesIO()
    link = zipfile.ZipInfo("link")
    link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("handler.py", "def handle(event):\n    return 1\n")
        for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
            archive.writestr(f"{method}.txt", "x" * 300, compress_type=method)
        archive.writestr(link, "8.txt")
        archive.writestr("имя.txt", "a")
        archive.writestr("folder/", "")
    return out.getvalue()


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Mostly in the central directory at the end, which decides how the rest is read."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        first = 0 if chance.random() < 0.4 else max(0, len(changed) - DIRECTORY_BYTES)
        at = chance.randrange(first, len(changed))
        match chance.randrange(4):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                number = chance.choice(NUMBERS)
                changed[at : at + len(number)] = number
            case 2:
                del changed[at : at + chance.randint(1, 20)]
            case 3:
                changed[at:at] = chance.randbytes(chance.randint(1, 8))
    return bytes(changed)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_damaged_zips_are_refused(tmp_path: Path):
    data, source, target = sample(), tmp_path / "upload", tmp_path / "package.zip"
    order = {"limits": LIMITS, "runtime": "python3.11", "entrypoint": "handler.handle", "source": str(source), "target": str(target)}
    refused = 0
    for seed in range(MUTATIONS):
        source.write_bytes(mutated(data, random.Random(seed)))
        target.unlink(missing_ok=True)
        try:
            intake({**order, "form": "zip"})
        except SlessError:
            refused += 1
        except Exception as error:
            pytest.fail(f"seed {seed}: {error!r}")
    assert MUTATIONS // 2 < refused < MUTATIONS
