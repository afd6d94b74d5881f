"""The control interface for tests, on a port without injected faults: POST /{operation} with JSON."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.kube.api import Answer, Api, Call
from tests.kube.controllers import Controllers
from tests.kube.errors import Refused
from tests.kube.images import Image
from tests.kube.kubelet import Kubelet
from tests.kube.recorder import Rules
from tests.kube.registry import Object
from tests.kube.schemas import mistakes_of
from tests.kube.scripts import Script


class Closable(Protocol):
    async def away(self, seconds: float) -> None: ...


@dataclass(slots=True)
class Control:
    api: Api
    controllers: Controllers
    kubelet: Kubelet
    door: Closable
    first_objects: Callable[[], None]
    """Creates the objects of a new cluster."""
    _tasks: set["asyncio.Task[None]"] = field(default_factory=set)

    async def answer(self, call: Call) -> Answer:
        operation = getattr(self, "do_" + call.path.strip("/"), None)
        if operation is None:
            return Answer(404, f"no operation {call.path}")
        try:
            return Answer(200, operation(json.loads(call.body or b"{}")))
        except (Refused, TypeError, ValueError, KeyError) as error:
            return Answer(400, repr(error))

    def do_reset(self, _: Object) -> Any:
        """Empties the cluster: objects, containers, scripts, faults and records."""
        recorder = self.api.recorder
        self.kubelet.reset()
        self.api.registry.clear()
        self.api.faults.clear()
        for seen in (recorder.requests, recorder.violations, recorder.failures, recorder.rules):
            seen.clear()
        self.first_objects()

    # --- records ---

    def do_requests(self, _: Object) -> Any:
        return [request.as_dict() for request in self.api.recorder.requests]

    def do_clear_requests(self, _: Object) -> Any:
        self.api.recorder.requests.clear()

    def do_complaints(self, given: Object) -> Any:
        """What must not happen: bodies that a schema rejects, and errors in the stand-in itself."""
        recorder = self.api.recorder
        found = {"violations": list(recorder.violations), "failures": list(recorder.failures), "warnings": list(self.api.registry.warnings)}
        if given.get("clear"):
            recorder.violations.clear()
            recorder.failures.clear()
            self.api.registry.warnings.clear()
        return found

    def do_check(self, given: Object) -> Any:
        return mistakes_of(given["object"])

    def do_objects(self, given: Object) -> Any:
        return self.api.registry.items(given["kind"], given.get("namespace"))

    # --- behaviour ---

    def do_away(self, given: Object) -> Any:
        task = asyncio.create_task(self.door.away(given["seconds"]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def do_fault(self, given: Object) -> Any:
        self.api.faults.add(given)

    def do_set_faults(self, given: Object) -> Any:
        faults = self.api.faults
        if given.get("clear"):
            faults.clear()
        faults.expire_continue = given.get("expire_continue", faults.expire_continue)
        faults.stall_namespaces = given.get("stall_namespaces", faults.stall_namespaces)
        self.controllers.resume_namespaces()

    def do_script(self, given: Object) -> Any:
        script = Script(**given)
        self.kubelet.scripts.append(script)
        return script.id

    def do_clear_scripts(self, _: Object) -> Any:
        self.kubelet.scripts.clear()

    def do_image(self, given: Object) -> Any:
        """Registers an image; without `image`, removes it."""
        if given.get("image") is None:
            self.kubelet.node.images.pop(given["reference"], None)
        else:
            self.kubelet.node.images[given["reference"]] = Image.of(given["image"])

    def do_enforce(self, given: Object) -> Any:
        """Sets a user's rules; without rules, everything is allowed."""
        rules = self.api.recorder.rules
        if given.get("cluster") is None and given.get("local") is None:
            rules.pop(given["user"], None)
        else:
            rules[given["user"]] = Rules(given.get("cluster") or [], given.get("local") or {}, given.get("writable") or [])

    def do_options(self, given: Object) -> Any:
        for name, value in given.items():
            if name not in ("crash_backoff_sec", "sandbox_sec"):
                raise ValueError(f"no option {name}")
            setattr(self.kubelet.node, name, value)

    def do_node(self, given: Object) -> Any:
        """Changes `allocatable` or `labels` of the node."""
        registry = self.api.registry
        node = registry.items("Node")[0]
        if "allocatable" in given:
            registry.write_status(node, {"allocatable": {**node["status"]["allocatable"], **given["allocatable"]}})
        if "labels" in given:
            registry.write_metadata(node, labels={**node["metadata"]["labels"], **given["labels"]})
