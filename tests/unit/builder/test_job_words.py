"""States of the pods and Jobs of a builder → messages for the user."""

from sless.builder import push_image
from sless.builder.builder_job import BUILDER, PUSHER
from sless.builder.image_log import is_final, is_users_fault, message_of
from sless.builder.job_watch import End
from sless.builder.job_words import Ended, find_ended, find_trouble, has_begun, is_evicted
from sless.builder.packing import Context


def pod(*, waiting: dict | None = None, ended: dict | None = None, init: bool = False, **status) -> dict:
    state = {"waiting": waiting} if waiting else {"terminated": ended} if ended else {"running": {}}
    field = "initContainerStatuses" if init else "containerStatuses"
    return {"status": {field: [{"name": "builder", "image": "r/kaniko:1", "state": state}], **status}}


def test_a_pull_that_fails():
    trouble = find_trouble([pod(waiting={"reason": "ErrImagePull", "message": "not found"})], [])
    assert trouble and (trouble.text, trouble.final) == ("image r/kaniko:1 cannot be pulled: not found", False)
    assert find_trouble([pod(waiting={"reason": "InvalidImageName"}, init=True)], []).final


def test_unschedulable_pod():
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes: Insufficient memory"}
    trouble = find_trouble([{"status": {"conditions": [condition]}}], [])
    assert trouble and trouble.text == "no node of the cluster can take the pod: 0/3 nodes: Insufficient memory"


def test_refused_pod_is_found_in_events():
    message = 'Error creating: pods "build-1-x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4'
    events = [
        {"reason": "FailedCreate", "message": "old", "lastTimestamp": "1"},
        {"reason": "FailedCreate", "message": message, "lastTimestamp": "2"},
    ]
    trouble = find_trouble([], events)
    assert trouble and trouble.text.startswith("the cluster refuses a new pod: the quota of the namespace is used up (pods: 1 more asked")
    assert find_trouble([pod()], events) is None, "it could after all"


def test_starting_pod_has_no_trouble():
    assert find_trouble([pod(waiting={"reason": "PodInitializing"})], []) is None
    assert find_trouble([], []) is None


def test_end_of_a_container():
    assert find_ended(pod(ended={"exitCode": 137, "reason": "OOMKilled"}), "builder") == Ended(exit_code=-9, out_of_memory=True)
    assert find_ended(pod(ended={"exitCode": 139}), "builder").words == "function was ended by SIGSEGV (segmentation fault)"
    assert find_ended(pod(ended={"exitCode": 3}), "builder").words == "function exited with code 3"
    assert find_ended(pod(), "builder") is None and has_begun(pod(), "builder")
    assert not has_begun(pod(waiting={"reason": "x"}), "builder")


def test_eviction_is_reported():
    assert (
        is_evicted({"status": {"phase": "Failed", "reason": "Evicted", "message": "The node was low on disk"}})
        == "The node was low on disk"
    )
    assert is_evicted(pod()) is None


# --- reasons in a builder's log ---------------------------------------------------------------------------------------------------------

FAILED = End(ok=False, ended=Ended(exit_code=1, out_of_memory=False))
KANIKO = [
    "INFO[0001] Retrieving image manifest r/python:1",
    "ERROR: Could not find a version that satisfies the requirement nosuch==9 (from versions: none)",
    "ERROR: No matching distribution found for nosuch==9",
    "error building image: error building stage: failed to execute command: waiting for process to exit: exit status 1",
]


def context(**fields) -> Context:
    return Context(form="image", path=None, sha256="", size_bytes=1, **fields)  # type: ignore[arg-type]


def test_the_requirement_and_its_line_are_named():
    made = context(tool="pip", manifest="requirements.txt", manifest_text="six\nnosuch==9\n")
    lines = message_of(FAILED, KANIKO, made, "handler.handle").splitlines()
    assert lines[0] == 'pip could not install "nosuch==9" from requirements.txt, line 2'
    assert "ERROR: No matching distribution found for nosuch==9" in lines and not any(line.startswith("INFO") for line in lines)


def test_refused_push_is_not_the_users_fault():
    lines = ["INFO[0001] Pushing image", "error pushing image: failed to push: UNAUTHORIZED: authentication required"]
    assert not is_users_fault(lines) and is_users_fault(KANIKO)
    assert message_of(FAILED, lines, context(), "h.h").splitlines()[0] == f"the image cannot be built: {lines[1]}"


def test_go_names_file_and_line():
    lines = ["# function", "./handler.go:3:2: undefined: x", 'error building at STEP "RUN if": while running runtime: exit status 1']
    assert message_of(FAILED, lines, context(functions=("Handle",)), "handler.Handle").startswith(
        "go build failed: handler.go:3:2: undefined: x"
    )


def test_out_of_memory_names_the_setting():
    end = End(ok=False, ended=Ended(exit_code=-9, out_of_memory=True))
    assert "SLESS_BUILDER_MEMORY" in message_of(end, ["x"], None, "h.h")


def test_a_push_that_fails():
    ended = Ended(exit_code=push_image.PERMANENT, out_of_memory=False)
    end = End(ok=False, ended=ended, container=PUSHER)
    lines = ["cannot push r/x:1: the registry answered 403: denied"]
    assert message_of(end, lines, None, "h.f").splitlines()[0] == f"the image cannot be pushed: {lines[0]}"
    assert is_final(PUSHER, ended, lines) and not is_final(BUILDER, ended, lines)
    assert not is_final(PUSHER, Ended(exit_code=1, out_of_memory=False), ["the registry answered 503"])
