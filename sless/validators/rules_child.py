"""The child process of `rules`: `main` reads one JSON order from stdin and writes the findings, and what it skipped, to stdout. The only
module that imports bandit."""

import json
import resource
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from bandit.core import config, manager

from sless.code.syntax import own_sources_of
from sless.domain.code_check import skipped_text

MEMORY_BYTES = 2 << 30
CPU_SEC = 50
MAX_FILES = 500
MAX_FILE_BYTES = 512 * 1024
MAX_FINDINGS = 20


def main() -> None:
    order = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SEC, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(order["package"]) as archive:
            own, skipped = _chosen(archive)
            copies = _unpacked(archive, own, Path(folder))
        json.dump(_checked(copies, skipped, heed_comments=order["heed_comments"]), sys.stdout)


def _chosen(archive: zipfile.ZipFile) -> tuple[list[str], dict[str, list[str]]]:
    """The user's own Python files, and those that are not checked, by reason."""
    sources = [name for name in archive.namelist() if name.endswith(".py")]
    users = set(own_sources_of(archive))
    own = [name for name in sources if name in users]
    small = [name for name in own if archive.getinfo(name).file_size <= MAX_FILE_BYTES]
    large = [name for name in own if archive.getinfo(name).file_size > MAX_FILE_BYTES]
    skipped = {
        f"files over {MAX_FILE_BYTES >> 10} KB": large,
        f"more than {MAX_FILES} files": small[MAX_FILES:],
        "installed packages": [name for name in sources if name not in users],
    }
    return small[:MAX_FILES], skipped


def _unpacked(archive: zipfile.ZipFile, names: list[str], folder: Path) -> dict[str, str]:
    """Path of a copy → path in the package."""
    copies = {}
    for number, name in enumerate(names):
        copy = folder / f"{number}.py"
        copy.write_bytes(archive.read(name))
        copies[str(copy)] = name
    return copies


def _checked(paths: dict[str, str], skipped: dict[str, list[str]], *, heed_comments: bool) -> dict[str, Any]:
    """Findings of high severity, except those of which bandit has low confidence."""
    scan = manager.BanditManager(config.BanditConfig(), "file", quiet=True, ignore_nosec=not heed_comments)
    scan.files_list = list(paths)
    scan.run_tests()
    issues = scan.get_issue_list(sev_level="HIGH", conf_level="MEDIUM")
    findings = [
        {"path": paths[issue.fname], "line": issue.lineno, "message": f"{' '.join(issue.text.split())} ({issue.test_id})"}
        for issue in issues[:MAX_FINDINGS]
    ]
    unread = {"files that bandit cannot read": [paths[copy] for copy, _ in scan.get_skipped()]}
    return {"findings": findings, "skipped": [skipped_text(reason, names) for reason, names in (skipped | unread).items() if names]}
