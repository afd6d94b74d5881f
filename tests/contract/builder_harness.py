"""Adapts an implementation to the builder suite."""

import io
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sless.builder.local import make_local_builder
from sless.config import Settings
from sless.domain.durations import Durations
from sless.domain.model import Kind
from sless.domain.ports import BuildSpec, BuildStatus
from sless.host.material import Material, MaterialKey, Unpacked
from sless.ids import new_id
from tests.contract.backend_harness import MemoryCode, wait_until


def wheel_of(name: str, version: str, source: str) -> bytes:
    """Makes a wheel with one module, so that pip can be tested without an index."""
    packed, info = io.BytesIO(), f"{name}-{version}.dist-info"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{name}.py", source)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return packed.getvalue()


class LocalBuilderHarness:
    def __init__(self, *, again: bool = False, durations: Durations | None = None) -> None:
        self.again = again
        self.durations = durations or Durations()
        self.root = Path(tempfile.mkdtemp(prefix="slb-", dir="/tmp"))
        self.code = MemoryCode()
        self.changes = threading.Semaphore(0)
        self.log: dict[str, list[str]] = {}
        self.ended: dict[str, BuildStatus] = {}
        self.make()

    def make(self, **settings: Any) -> None:
        self.settings = Settings(**{"data_dir": self.root / "data", "run_dir": self.root / "run", "local_sandbox": "none"} | settings)
        self.material = Material(self.settings.data_dir, self.code)
        self.builder = self.new_builder()

    def new_builder(self) -> Any:
        """A builder as another process would create it."""
        return make_local_builder(self.settings, self.material, again=self.again, durations=self.durations)

    def hurry(self, durations: Durations) -> None:
        """A new builder with other durations."""
        self.builder.close()
        self.durations = durations
        self.builder = self.new_builder()

    def close(self) -> None:
        self.builder.close()
        shutil.rmtree(self.root)

    def spec(self, files: Mapping[str, str | bytes], **fields: Any) -> BuildSpec:
        return self.spec_of(code_key=self.code.add(files), **fields)

    @staticmethod
    def spec_of(**fields: Any) -> BuildSpec:
        given = {
            "id": new_id(), "workload_id": new_id(), "namespace": "sless-0123456789abcdef", "name": "hello", "kind": Kind.FUNCTION,
            "version": 1, "runtime": "python3.11", "entrypoint": "handler.handle", "build_env": {}, "env": {}, "memory_mb": 128,
        }  # fmt: skip
        return BuildSpec(**{**given, **fields})

    def start(self, spec: BuildSpec) -> None:
        self.log[spec.id] = []
        self.builder.start(spec, self.changes.release)

    def poll(self, spec: BuildSpec) -> BuildStatus | None:
        """Polls as the reconciler does: collects lines and forgets an ended build."""
        status = self.builder.poll(spec.id)
        if status is not None:
            self.log[spec.id] += status.lines
            if status.ready is not None:
                self.ended[spec.id] = status
                self.builder.cancel(spec.id)
        return self.ended.get(spec.id)

    def wait(self, spec: BuildSpec, timeout_sec: float = 60) -> BuildStatus:
        return wait_until(lambda: self.poll(spec), f"build ended; so far: {self.log[spec.id]}", timeout_sec)

    def build(self, files: Mapping[str, str | bytes], **fields: Any) -> tuple[BuildSpec, BuildStatus]:
        spec = self.spec(files, **fields)
        self.start(spec)
        return spec, self.wait(spec)

    def material_of(self, spec: BuildSpec, status: BuildStatus) -> Unpacked:
        return self.material.ensure(MaterialKey(code_key=spec.code_key, artifact=status.artifact, runtime=spec.runtime))

    def is_unbuilt(self, status: BuildStatus) -> bool:
        """Nothing was installed or compiled: the upload runs unchanged."""
        return status.artifact == ""

    def deps_of(self, spec: BuildSpec, status: BuildStatus) -> Path:
        """The folder with the installed packages of a Python version."""
        found = self.material_of(spec, status).deps_dir
        assert found is not None
        return found

    def code_of(self, spec: BuildSpec, status: BuildStatus) -> Path:
        return self.material_of(spec, status).code_dir
