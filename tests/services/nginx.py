"""A real nginx in front of a server, with the configuration of the README."""

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.services import start_following, unavailable
from tests.services.product import ROOT, answers, free_port, wait_until


@contextlib.contextmanager
def running_nginx(folder: Path, url: str) -> Iterator[str]:
    """The URL of an nginx that passes everything to `url`. `folder` is for its files."""
    nginx = shutil.which("nginx") or unavailable("nginx", "nginx-light")
    found = re.search(r"^```nginx\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    port = free_port()
    block = found[1].replace("127.0.0.1:9090", url.removeprefix("http://")).replace("listen 80;", f"listen 127.0.0.1:{port};")
    folders = " ".join(f"{name}_temp_path {folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off; pid {folder}/pid; error_log stderr; events {{ }}\nhttp {{ access_log off; {folders}\n{block} }}", encoding="utf-8"
    )
    process = start_following([nginx, "-c", str(config), "-p", str(folder)], "INT", stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/healthz"), "nginx answers")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
