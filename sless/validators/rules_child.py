"""The child process of `rules`: `main` reads one JSON order from stdin and writes the findings to stdout. The only module that imports
bandit."""

import json
import resource
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from bandit.core import config, manager

from sless.code.syntax import own_sources_of

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
        paths = _unpacked(Path(order["package"]), Path(folder))
        json.dump(_findings(paths, heed_comments=order["heed_comments"]), sys.stdout)


def _unpacked(package: Path, folder: Path) -> dict[str, str]:
    """Path of a copy → path in the package, of the user's own Python files."""
    copies = {}
    with zipfile.ZipFile(package) as archive:
        own = [name for name in own_sources_of(archive) if name.endswith(".py") and archive.getinfo(name).file_size <= MAX_FILE_BYTES]
        for number, name in enumerate(own[:MAX_FILES]):
            copy = folder / f"{number}.py"
            copy.write_bytes(archive.read(name))
            copies[str(copy)] = name
    return copies


def _findings(paths: dict[str, str], *, heed_comments: bool) -> list[dict[str, Any]]:
    """Findings of high severity, except those of which bandit has low confidence."""
    scan = manager.BanditManager(config.BanditConfig(), "file", quiet=True, ignore_nosec=not heed_comments)
    scan.files_list = list(paths)
    scan.run_tests()
    issues = scan.get_issue_list(sev_level="HIGH", conf_level="MEDIUM")
    return [
        {"path": paths[issue.fname], "line": issue.lineno, "message": f"{' '.join(issue.text.split())} ({issue.test_id})"}
        for issue in issues[:MAX_FINDINGS]
    ]
