"""Images that the stand-in's kubelet knows, and what their containers run on this machine."""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """Like an OCI image configuration, with folders instead of layers: `paths` maps paths in the container to paths on this machine."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    workdir: str = "/"
    paths: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, given: dict[str, Any]) -> "Image":
        return cls(**{**given, "entrypoint": tuple(given.get("entrypoint", ())), "command": tuple(given.get("command", ()))})


def runtime_image(runtime: str) -> dict[str, Any]:
    """The image that runtimes/<runtime>/Dockerfile builds, for `Image.of`. Raises KeyError for a runtime without one."""
    folder = str(ROOT / "runtimes" / runtime)
    common = {"HOME": "/tmp", "SLESS_PORT": "8080", "SLESS_CODE_DIR": "/app/function"}
    images = {
        "python3.11": {
            "entrypoint": [sys.executable, "-E", "-s", "-S", "/opt/sless/start.py"],
            "env": {**common, "SLESS_DEPS_DIR": "/app/deps"},
        },
        "nodejs20": {"entrypoint": [shutil.which("node") or "node", "/opt/sless/start.mjs"], "env": {**common, "NODE_ENV": "production"}},
    }
    return {**images[runtime], "workdir": "/app/function", "paths": {"/opt/sless": folder}}


def program_image(program: str, code: str = "") -> dict[str, Any]:
    """The image that runtimes/go1.23/Dockerfile builds: a static program with the code next to it."""
    paths = {"/program": program, **({"/app/function": code} if code else {})}
    return {"entrypoint": ["/program"], "env": {"HOME": "/tmp", "SLESS_PORT": "8080"}, "workdir": "/", "paths": paths}


SHELL = {"entrypoint": [], "command": ["sh"], "paths": {}}
"""For containers that bring their own command: `busybox`."""


def known_images() -> dict[str, Image]:
    """By reference without tag."""
    given = {f"sless/runtime-{name}": runtime_image(name) for name in ("python3.11", "nodejs20")}
    return {name: Image.of(item) for name, item in {**given, "busybox": SHELL}.items()}


def find_image(images: dict[str, Image], reference: str) -> Image | None:
    """The exact reference first, then without its tag or digest."""
    base = reference.partition("@")[0]
    last = base.rpartition("/")[2]
    untagged = base[: len(base) - len(last)] + last.partition(":")[0]
    return images.get(reference) or images.get(untagged)
