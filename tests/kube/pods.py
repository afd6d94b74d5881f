"""One Pod from binding to deletion: volumes, containers, probes, restarts, grace period."""

import asyncio
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sless.host.memory import MemoryWatch
from tests.kube import probes, volumes
from tests.kube.images import Image, find_image
from tests.kube.logs import Log
from tests.kube.pod_status import TAIL_BYTES, TAIL_LINES, PodState, State
from tests.kube.probing import Probing
from tests.kube.processes import Container, Groups, ProcessContainer, ScriptedContainer, Start
from tests.kube.quantity import value_of
from tests.kube.registry import Object, Registry, now_text
from tests.kube.scripts import Script

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
POLL_SEC = 0.2
CRASH_BACKOFF_SEC = 1.0


@dataclass(slots=True)
class Node:
    """What the Pods of the node share."""

    registry: Registry
    images: dict[str, Image]
    groups: Groups
    memory: MemoryWatch
    folder: Path
    failed: Callable[[str], None]
    crash_backoff_sec: float = CRASH_BACKOFF_SEC
    sandbox_sec: float = 0.0
    """How long network and volumes of a new Pod take before its first container starts."""


class PodWorker:
    def __init__(self, node: Node, pod: Object, script: Script | None, address: str) -> None:
        self.node, self.script = node, script
        self.uid, self.name, self.namespace = pod["metadata"]["uid"], pod["metadata"]["name"], pod["metadata"]["namespace"]
        self.spec = pod["spec"]
        self.folder = node.folder / self.uid
        self.state = PodState(
            init=[State(one["name"], one["image"], ("PodInitializing", "")) for one in self.spec.get("initContainers") or []],
            main=[State(one["name"], one["image"]) for one in self.spec["containers"]],
            restart=self.spec.get("restartPolicy", "Always"),
            address=address,
        )
        self.logs: dict[str, list[Log]] = {one.name: [] for one in [*self.state.init, *self.state.main]}
        self.running: dict[str, Container] = {}
        self.stopping = False
        self.started_at = now_text()
        self.work: asyncio.Task[None] = asyncio.create_task(self._guarded(self._run()))
        self.end: asyncio.Task[None] | None = None
        self._deadline: asyncio.Event = asyncio.Event()

    @property
    def pod(self) -> Object | None:
        found = self.node.registry.find("Pod", self.namespace, self.name)
        return found if found is not None and found["metadata"]["uid"] == self.uid else None

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.node.failed(f"pod {self.namespace}/{self.name}: {error!r}: {traceback.format_exc()}")

    def publish(self) -> None:
        pod = self.pod
        if pod is not None:
            before = (pod.get("status") or {}).get("conditions") or []
            self.node.registry.write_status(pod, self.state.status(before, self.started_at))

    def report(self, type_: str, reason: str, message: str) -> None:
        pod = self.pod
        if pod is not None:
            self.node.registry.record_event(pod, type_, reason, message)

    # --- lifecycle ---

    async def _run(self) -> None:
        self.publish()
        if self.script is not None and self.script.act == "pending":
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        made = await self._volumes()
        await asyncio.sleep(self.node.sandbox_sec)
        for spec, state in zip(self.spec.get("initContainers") or [], self.state.init, strict=True):
            if not await self._run_container(spec, state, made, restart="Never" if self.state.restart == "Never" else "OnFailure"):
                self.publish()
                return
        self.state.initialized = True
        pairs = zip(self.spec["containers"], self.state.main, strict=True)
        async with asyncio.TaskGroup() as group:
            for spec, state in pairs:
                group.create_task(self._run_container(spec, state, made, restart=self.state.restart))
        self.publish()

    async def _volumes(self) -> dict[str, Path]:
        while True:
            pod = self.pod
            try:
                return volumes.make_volumes(self.node.registry, pod or {"metadata": {"namespace": self.namespace}, "spec": {}}, self.folder)
            except volumes.Missing as missing:
                self.report("Warning", "FailedMount", f"MountVolume.SetUp failed for volume: {missing}")
                await asyncio.sleep(POLL_SEC)

    async def _run_container(self, spec: Object, state: State, made: dict[str, Path], *, restart: str) -> bool:
        """Runs and restarts the container until it needs no restart; returns whether it ended successfully."""
        failures = 0
        while not self.stopping:
            container = await self._launch(spec, state, made)
            watching = asyncio.create_task(self._guarded(self._watch(spec, state, container)))
            code = await container.wait()
            watching.cancel()
            self.running.pop(spec["name"], None)
            tail = (
                container.log.tail(TAIL_LINES, TAIL_BYTES)
                if spec.get("terminationMessagePolicy") == "FallbackToLogsOnError" and code
                else ""
            )
            state.set_ended(code, container.reason, tail)
            self.publish()
            if self.stopping or restart == "Never" or (restart == "OnFailure" and code == 0):
                return code == 0
            failures += 1
            await self._back_off(state, failures)
        return False

    async def _back_off(self, state: State, failures: int) -> None:
        """Restarts immediately the first time, then after growing delays."""
        pause = 0.0 if failures == 1 else min(self.node.crash_backoff_sec * 2 ** (failures - 2), 300)
        if pause:
            text = f"back-off {pause:g}s restarting failed container={state.name} pod={self.name}_{self.namespace}({self.uid})"
            state.set_backing_off(text)
            self.report(
                "Warning", "BackOff", f"Back-off restarting failed container {state.name} in pod {self.name}_{self.namespace}({self.uid})"
            )
            self.publish()
            await asyncio.sleep(pause)
        state.restarts += 1

    async def _launch(self, spec: Object, state: State, made: dict[str, Path]) -> Container:
        """Waits for a missing image or Secret, then returns the running container."""
        while True:
            container = await self._try_launch(spec, state, made)
            if container is not None:
                break
            self.publish()
            await asyncio.sleep(POLL_SEC)
        self.running[spec["name"]] = container
        self.logs[spec["name"]] = [*self.logs[spec["name"]][-1:], container.log]
        state.set_running(f"containerd://{uuid.uuid4().hex}")
        self.publish()
        return container

    async def _try_launch(self, spec: Object, state: State, made: dict[str, Path]) -> Container | None:
        if self.script is not None and self.script.act != "pull_error":
            return ScriptedContainer(spec, self.script)
        image = find_image(self.node.images, spec["image"]) if self.script is None else None
        if image is None:
            self._no_image(spec, state)
            return None
        try:
            start = self._start_of(spec, image, made)
        except volumes.Missing as missing:
            state.set_waiting("CreateContainerConfigError", str(missing))
            self.report("Warning", "Failed", f"Error: {missing}")
            return None
        container = ProcessContainer(spec, start, self.node.groups)
        try:
            group = await container.launch()
        except OSError as error:
            message = f'failed to create containerd task: exec: "{start.command[0]}": {error.strerror}'
            state.set_waiting("RunContainerError", message)
            self.report("Warning", "Failed", f"Error: {message}")
            return None
        if start.memory_mb:
            self._limit_memory(container, group, start.memory_mb)
        return container

    def _limit_memory(self, container: ProcessContainer, group: int, memory_mb: int) -> None:
        loop = asyncio.get_running_loop()

        def over(_used_mb: int) -> None:
            container.reason = "OOMKilled"
            loop.call_soon_threadsafe(container.kill)

        self.node.memory.add(group, memory_mb, over)

    def _no_image(self, spec: Object, state: State) -> None:
        text = (self.script.message if self.script else "") or (
            f'failed to pull and unpack image "{spec["image"]}": failed to resolve reference "{spec["image"]}": {spec["image"]}: not found'
        )
        if state.waiting[0] != "ErrImagePull":
            message = f"rpc error: code = NotFound desc = {text}"
            self.report("Warning", "Failed", f'Failed to pull image "{spec["image"]}": {message}')
            state.set_waiting("ErrImagePull", message)
        else:
            self.report("Normal", "BackOff", f'Back-off pulling image "{spec["image"]}"')
            state.set_waiting("ImagePullBackOff", f'Back-off pulling image "{spec["image"]}": ErrImagePull: {text}')

    def _start_of(self, spec: Object, image: Image, made: dict[str, Path]) -> Start:
        paths = {**image.paths, **volumes.mounts_of(spec, made, self.folder)}
        base = {
            "PATH": PATH, "HOSTNAME": self.name, **volumes.service_variables(self.node.registry, self.pod or {}), **image.env,
            "TMPDIR": "/tmp", "SLESS_ADDRESS": self.state.address,
        }  # fmt: skip
        environ = volumes.environment_of(self.node.registry, self.pod or {}, spec, base)
        own = lambda text: volumes.translated(text, paths)  # noqa: E731
        entrypoint = spec.get("command") or image.entrypoint
        arguments = spec.get("args") or (() if spec.get("command") else image.command)
        workdir = own(spec.get("workingDir") or image.workdir)
        limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
        return Start(
            command=tuple(own(volumes.expanded(part, environ)) for part in [*entrypoint, *arguments]),
            environ={key: own(value) for key, value in environ.items()},
            folder=workdir if Path(workdir).is_dir() and workdir != "/" else str(self.folder),
            memory_mb=int(value_of(limit) / 2**20) if limit else 0,
            translate=own,
        )

    # --- probes ---

    async def _watch(self, spec: Object, state: State, container: Container) -> None:
        """Startup, then readiness and liveness."""
        if isinstance(container, ScriptedContainer):
            if container.script.act == "ready":
                await asyncio.sleep(container.script.after_sec)
                self._mark(state, started=True, ready=True)
            elif container.script.act == "never_ready":
                self._mark(state, started=True, ready=False)
                self.report("Warning", "Unhealthy", "Readiness probe failed: " + (container.script.message or "connection refused"))
            return
        probing = Probing(
            container=container,
            address=self.state.address,
            mark=lambda ready: self._mark(state, started=True, ready=ready),
            report=self.report,
            grace_sec=self.spec.get("terminationGracePeriodSeconds", 30),
        )
        await probing.run(spec)

    def _mark(self, state: State, *, started: bool, ready: bool) -> None:
        if (state.started, state.ready) != (started, ready):
            state.started, state.ready = started, ready
            self.publish()

    # --- termination ---

    def stop(self, grace_sec: float) -> None:
        """After a DELETE: preStop, SIGTERM, and SIGKILL at the end of the grace period. A later, shorter period replaces it."""
        if self.stopping:
            asyncio.get_running_loop().call_later(grace_sec, self._kill_all)
            return
        self.stopping = True
        self.end = asyncio.create_task(self._guarded(self._stop(grace_sec)))

    async def _stop(self, grace_sec: float) -> None:
        running = dict(self.running)
        if not running:
            self.work.cancel()
        asyncio.get_running_loop().call_later(grace_sec, self._kill_all)
        self.report("Normal", "Killing", "Stopping containers")
        await asyncio.gather(*(self._stop_container(container) for container in running.values()))
        await asyncio.wait([self.work], timeout=10)
        pod = self.pod
        if pod is not None:
            self.publish()
            self.node.registry.remove(self.pod or pod)
        volumes.remove(self.folder)

    async def _stop_container(self, container: Container) -> None:
        hook = (container.spec.get("lifecycle") or {}).get("preStop")
        if hook and isinstance(container, ProcessContainer):
            running = asyncio.create_task(probes.run_hook(hook, container, self.state.address))
            # The hook is cancelled if the container exits first.
            await asyncio.wait([running, self.work], return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
            elif running.result():
                self.report("Warning", "FailedPreStopHook", f"PreStopHook failed: {running.result()}")
        container.terminate()

    def _kill_all(self) -> None:
        for container in list(self.running.values()):
            container.kill()

    def abort(self) -> None:
        """Kills everything without a grace period: the Pod no longer exists."""
        self.stopping = True
        self._kill_all()
        self.work.cancel()
        asyncio.get_running_loop().call_later(1, volumes.remove, self.folder)
