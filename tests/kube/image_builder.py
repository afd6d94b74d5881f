"""The stand-in's builder image: takes kaniko's arguments, executes the Dockerfile with folders on this machine instead of layers, writes an
OCI layout, and registers the image with the kubelet.

It supports only the instructions in sless's own Dockerfiles and exits on any other. Its failures and messages are those of kaniko.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.kube.images import runtime_image
from tests.kube.oci_layout import write_layout

_EXECUTED = re.compile(r"(?<![\w./-])(/app/deps|/app/function|/sless-build/env|/tmp/npm)(?=$|[/;'\" ])")


def image_of(control: str, folder: Path) -> dict[str, object]:
    """For `KubeCluster.add_image`. Built images get their folders in `folder`."""
    env = {
        # In hex, because the kubelet translates paths below /tmp to the container's.
        "IMAGES": str(folder).encode().hex(), "CONTROL": control, "BUILD_ENV": "/sless-build/env",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]), "PATH": os.environ["PATH"],
    }  # fmt: skip
    return {"entrypoint": [sys.executable, "-m", "tests.kube.image_builder"], "env": env}


def folder_of(images: Path, reference: str) -> Path:
    return images / reference.replace("/", "_").replace(":", "_")


def main(arguments: list[str]) -> None:
    options: dict[str, list[str]] = {}
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        options.setdefault(name, []).append(value)
    context = Path(options["context"][0].removeprefix("dir://"))
    destination = options["destination"][0]
    args = dict(item.split("=", 1) for item in options.get("build-arg", []))
    build = Build(context, folder_of(Path(bytes.fromhex(os.environ["IMAGES"]).decode()), destination), args)
    for line in Path(options["dockerfile"][0]).read_text().splitlines():
        if line and not line.startswith("#"):
            print(f"INFO[0000] {line}", flush=True)
            build.do(line)
    write_layout(Path(options["oci-layout-path"][0]), destination)
    image = {**build.image, "paths": {**build.image["paths"], "/app/function": str(build.function), "/app/deps": str(build.deps)}}
    request = urllib.request.Request(f"{os.environ['CONTROL']}/image", json.dumps({"reference": destination, "image": image}).encode())
    urllib.request.urlopen(request, timeout=60).close()
    print("INFO[0001] Skipping push to container registry due to --no-push flag", flush=True)


class Build:
    def __init__(self, context: Path, root: Path, args: dict[str, str]) -> None:
        self.context, self.args = context, args
        self.function, self.deps = root / "function", root / "deps"
        for folder in (self.function, self.deps):
            folder.mkdir(parents=True, exist_ok=True)
        self.image: dict[str, dict[str, str]] = {}

    def do(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        match word:
            case "ARG":
                name, _, default = rest.partition("=")
                self.args.setdefault(name, default)
            case "FROM":
                reference = re.sub(r"\$\{(\w+)\}", lambda found: self.args[found[1]], rest)
                self.image = runtime_image(re.search(r"runtime-([a-z0-9.]+)", reference)[1])  # type: ignore[index,assignment]
            case "USER" | "WORKDIR":
                pass
            case "COPY":
                *sources, target = rest.removeprefix("--chown=65532:65532 ").split()
                assert target == "/app/function/", line
                for source in sources:
                    self.copy(self.context / source)
            case "RUN":
                self.run(rest)
            case _:
                sys.exit(f"error building image: {word} is not understood")

    def copy(self, source: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, self.function, symlinks=True, dirs_exist_ok=True)
        else:
            shutil.copy2(source, self.function / source.name)

    def run(self, command: str) -> None:
        paths = {
            "/app/deps": str(self.deps), "/app/function": str(self.function), "/sless-build/env": os.environ["BUILD_ENV"],
            "/tmp/npm": str(self.deps.parent / "npm"),
        }  # fmt: skip
        here = _EXECUTED.sub(lambda found: paths[found[1]], command).replace("python3 ", f"{sys.executable} ", 1)
        # A killed builder leaves pip's files there; they are removed with the cluster.
        temporary = self.deps.parent / "tmp"
        temporary.mkdir(exist_ok=True)
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.deps.parent), "TMPDIR": str(temporary), "LANG": "C.UTF-8"}
        done = subprocess.run(["sh", "-c", here], cwd=self.function, env=environ, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            print(f"error building image: error building stage: failed to execute command: exit status {done.returncode}", flush=True)
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
