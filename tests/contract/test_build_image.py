"""Real images without a container engine: Debian's buildah builds the Python runtime's Dockerfile on a base of this machine's files,
then runs a builder Job's commands, which build the generated Dockerfile of an upload and push it to a real registry."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.builder.builder_fit import BuilderFit
from sless.builder.builder_job import BuildJob, env_secret_of, job_of
from sless.builder.packing import packed
from sless.builder.references import RegistryName
from tests.conftest import ROOT
from tests.contract.backend_harness import MemoryCode
from tests.contract.builder_harness import LocalBuilderHarness, wheel_of
from tests.services import skip_or_fail, unavailable
from tests.services.registry import PASSWORD, USER, RegistryServer

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow]
RUNTIME_IMAGE = "localhost/runtime-python3.11:tests"
CAP_SYS_ADMIN = 21
TOOLS = ("sh", "mkdir", "chown", "rm", "id", "cat")


class Buildah:
    """Uses its own storage folder. `vfs` and `chroot` need root but no devices or daemons."""

    def __init__(self) -> None:
        if shutil.which("buildah") is None:
            unavailable("buildah", "buildah")
        if os.geteuid() != 0:
            skip_or_fail("buildah by chroot works as root only")
        self.folder = Path(tempfile.mkdtemp(prefix="sless-buildah-"))
        self.storage = ["--root", str(self.folder / "root"), "--runroot", str(self.folder / "run"), "--storage-driver", "vfs"]

    def __call__(self, *arguments: str, **options: object) -> str:
        done = subprocess.run(["buildah", *self.storage, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout).strip()

    def run(self, container: str, *command: str, **env: str) -> subprocess.CompletedProcess[str]:
        given = [f"--env={name}={value}" for name, value in env.items()]
        words = ["buildah", *self.storage, "run", "--isolation", "chroot", *given, container, "--", *command]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def close(self) -> None:
        subprocess.run(["buildah", *self.storage, "rm", "--all"], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def make_root(folder: Path) -> None:
    """Makes a root file system with this Python, pip, a shell and the Dockerfiles' tools at the same paths as on this machine."""
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    left_out = shutil.ignore_patterns("site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "config-*", "__pycache__")
    shutil.copytree(stdlib, folder / stdlib.relative_to("/"), ignore=left_out, symlinks=True)
    import pip

    # Beside the standard library, because Debian's Python has no site-packages there.
    shutil.copytree(Path(pip.__file__).parent, folder / stdlib.relative_to("/") / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    python = Path(os.path.realpath(sys.executable))
    revisions = [python, *(Path(os.path.realpath(shutil.which(tool) or "")) for tool in TOOLS)]
    for revision in revisions:
        _copy(revision, folder)
    extensions = (stdlib / "lib-dynload").glob("*.so")
    for needed in sorted({path for item in [*revisions, *extensions] for path in _libraries_of(item)}):
        _copy(needed, folder)
    (folder / "usr/bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin").mkdir(exist_ok=True)
    for place, name, revision in [
        ("usr/bin", "python3", python),
        *(("bin", tool, found) for tool, found in zip(TOOLS, revisions[1:], strict=True)),
    ]:
        link = folder / place / name
        if not link.exists():
            link.symlink_to(revision)
    (folder / "tmp").mkdir(mode=0o1777)
    (folder / "tmp").chmod(0o1777)


def _copy(path: Path, folder: Path) -> None:
    target = folder / path.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy2(path, target)


def _libraries_of(revision: Path) -> list[Path]:
    output = subprocess.run(["ldd", str(revision)], capture_output=True, text=True, check=False).stdout
    return [Path(found) for found in re.findall(r"(/[^ ]+) \(0x", output)]


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    tool = Buildah()
    try:
        make_root(tool.folder / "base" / "rootfs")
        (tool.folder / "base" / "Dockerfile").write_text("FROM scratch\nCOPY rootfs /\n")
        tool("bud", "--isolation", "chroot", "--tag", "localhost/base:tests", str(tool.folder / "base"))
        shutil.rmtree(tool.folder / "base")
        runtime = ["--build-arg", "BASE=localhost/base:tests", "--tag", RUNTIME_IMAGE, str(ROOT / "runtimes" / "python3.11")]
        tool("bud", "--isolation", "chroot", *runtime)
        yield tool
    finally:
        tool.close()


def test_upload_becomes_an_image_that_runs_unprivileged(buildah: Buildah, registry_server: RegistryServer, tmp_path: Path) -> None:
    reference = f"{registry_server.host}/functions/sless-1-hello:t1"
    run_builder(buildah, registry_server, reference, tmp_path)
    assert registry_server.tags("functions/sless-1-hello") == ["t1"]

    pull = ["--tls-verify=false", f"--authfile={tmp_path / 'registry' / 'config.json'}", "--pull-always"]
    container = buildah("from", *pull, f"docker://{reference}")
    imported = buildah.run(container, "python3", "/opt/sless/start.py", SLESS_MODE="check", SLESS_ENTRYPOINT="handler.handle")
    assert imported.returncode == 0, imported.stdout + imported.stderr
    assert buildah.run(container, "id", "-u").stdout.strip() == "65532"
    everything = buildah("inspect", "--type", "image", reference)
    assert "sesame-open" not in everything, "no history and no variable contains a build_env"
    folder = Path(buildah("mount", container))
    found = subprocess.run(["grep", "-rl", "sesame-open", str(folder / "app"), str(folder / "tmp")], capture_output=True, check=False)
    assert found.returncode == 1, found.stdout


def run_builder(buildah: Buildah, registry: RegistryServer, reference: str, folder: Path) -> None:
    """Runs the containers of a builder pod in order, with the pod's volumes in `folder`."""
    code = MemoryCode()
    files = {
        "handler.py": "import greeting\ndef handle(event):\n    return greeting.TEXT\n",
        "requirements.txt": "--no-index\n--find-links ./wheels\ngreeting==1.0\n",
        "wheels/greeting-1.0-py3-none-any.whl": wheel_of("greeting", "1.0", "TEXT = 'hello'\n"),
    }
    spec = LocalBuilderHarness.spec_of(code_key=code.add(files), build_env={"TOKEN": "sesame-open"})
    names = {"/workspace": "workspace", "/sless-build": "env", "/sless-registry": "registry", "/image": "image"}
    places = {path: folder / name for path, name in names.items()}
    for place in places.values():
        place.mkdir()
    fit = BuilderFit(
        installation="i", namespace="builds", pod_namespace="sless", builder="buildah", image="buildah",
        images={"python3.11": RUNTIME_IMAGE},
        push_secret="registry", insecure_registry=registry.host, registry=RegistryName(host=registry.host, path=""),
    )  # fmt: skip
    with packed(code, spec, RUNTIME_IMAGE, small_bytes=0) as context:
        build = BuildJob(
            id=spec.id, workload_id="w", namespace="sless-1", name="hello", version=1, reference=reference, url=context.path.as_uri(),
            sha256=context.sha256, build_args=context.build_args, env=spec.build_env,
        )  # fmt: skip
        pod = job_of(fit, build)["spec"]["template"]["spec"]
        command = pod["initContainers"][0]["command"]
        subprocess.run([sys.executable, *command[1:-1], str(places["/workspace"])], check=True)
    (places["/sless-build"] / "env").write_bytes(base64.b64decode(env_secret_of(fit, build)["data"]["env"]))
    login = {"auth": base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()}
    (places["/sless-registry"] / "config.json").write_text(json.dumps({"auths": {registry.host: login}}))
    builder = pod["initContainers"][1]
    shell, option, script = builder["command"]
    for name, place in places.items():
        # Replaces paths of this machine only; those inside the image stay the same.
        if name == "/sless-build":
            script = script.replace(f"{name}:{name}:ro", f"{place}:{name}:ro")
        elif name != "/sless-registry":
            script = script.replace(name, str(place))
    script = script.replace("buildah --storage-driver=vfs", " ".join(["buildah", *buildah.storage]))
    done = as_container(builder, [shell, option, script])
    assert done.returncode == 0, done.stdout + done.stderr
    assert registry.tags(reference.partition("/")[2].rpartition(":")[0]) == [], "the builder does not push"
    python, *words = pod["containers"][0]["command"]
    for name, place in places.items():
        words[3:] = [word.replace(name, str(place)) if word.startswith(name) else word for word in words[3:]]
    pushed = as_container(pod["containers"][0], [sys.executable, *words])
    assert pushed.returncode == 0, python + pushed.stdout + pushed.stderr
    assert "Successfully installed greeting-1.0" in done.stdout + done.stderr


def as_container(container: dict[str, Any], command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs the command with exactly the capabilities of this container."""
    capabilities = container["securityContext"]["capabilities"]
    assert capabilities["drop"] == ["ALL"]
    kept = ",".join(["-all", *(f"+{name.lower()}" for name in capabilities.get("add", ()))])
    return subprocess.run(["setpriv", f"--bounding-set={kept}", *command], capture_output=True, text=True, check=False)


def test_root_commands_of_a_dockerfile_work_with_the_jobs_capabilities(buildah: Buildah, tmp_path: Path) -> None:
    """The Go runtime's Dockerfile has such commands before its first USER."""
    (tmp_path / "Dockerfile").write_text(
        "FROM localhost/base:tests\nRUN mkdir -p /src && chown 65532:65532 /src && cat /proc/self/status\n"
    )
    fit = BuilderFit(installation="i", namespace="builds", pod_namespace="sless", builder="buildah", image="buildah",
                     images={"python3.11": RUNTIME_IMAGE}, registry=RegistryName(host="r", path=""))  # fmt: skip
    build = BuildJob(id="b", workload_id="w", namespace="sless-1", name="hello", version=1, reference="r/x:1", url="http://x", sha256="0")
    container = job_of(fit, build)["spec"]["template"]["spec"]["initContainers"][1]
    done = as_container(container, ["buildah", *buildah.storage, "bud", "--isolation=chroot", str(tmp_path)])
    assert done.returncode == 0, done.stdout + done.stderr
    left = int(re.findall(r"CapBnd:\s*([0-9a-f]+)", done.stdout)[0], 16)
    assert not left & 1 << CAP_SYS_ADMIN, "buildah may mount, the commands of the Dockerfile may not"


def test_small_code_runs_on_the_runtime_image(buildah: Buildah, tmp_path: Path) -> None:
    code = MemoryCode()
    spec = LocalBuilderHarness.spec_of(code_key=code.add({"handler.py": "def handle(event):\n    return event\n"}))
    container = buildah("from", RUNTIME_IMAGE)
    with packed(code, spec, RUNTIME_IMAGE, small_bytes=700_000) as context:
        assert context.form == "code"
        shutil.copyfile(context.path, Path(buildah("mount", container)) / "app" / "archive" / "code.tar.gz")
    env = {"SLESS_CODE_ARCHIVE": "/app/archive/code.tar.gz", "SLESS_ENTRYPOINT": "handler.handle", "SLESS_EVENT": '{"a": 1}'}
    done = buildah.run(container, "python3", "/opt/sless/start.py", SLESS_MODE="job", **env)
    assert '"sless_outcome"' in done.stdout and done.returncode == 0, done.stdout + done.stderr
