"""Edits of our objects by others, as managedFields records them."""

from typing import Any

from sless.kube.edits import find_taken_over, mark_of

Json = dict[str, Any]
OURS = {"manager": "sless", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:a": {}}}, "f:data": {"f:A": {}, "f:B": {}}}}
STATUS = {"manager": "kube-controller-manager", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {"f:used": {}}}}


def item(*entries: Json) -> Json:
    return {"metadata": {"name": "x", "managedFields": list(entries)}}


def edit(fields: Json, **more: Any) -> Json:
    return {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": fields, **more}


def test_changed_added_and_removed_fields_are_found() -> None:
    before = mark_of(item(OURS))
    removed = {**OURS, "fieldsV1": {**OURS["fieldsV1"], "f:data": {"f:A": {}}}}
    assert mark_of(item(removed)) != before
    assert mark_of(item(removed, edit({"f:data": {"f:B": {}}}))) != before
    assert mark_of(item(OURS, edit({"f:data": {"f:C": {}}}))) != before
    assert mark_of(item(OURS, edit({"f:spec": {"f:replicas": {}}}, subresource="scale"))) != before


def test_status_and_metadata_of_others_are_ignored() -> None:
    annotated = edit(
        {"f:metadata": {"f:annotations": {"f:x": {}}}, "f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:y": {}}}}}}
    )
    assert mark_of(item(OURS, STATUS, annotated)) == mark_of(item(OURS))
    assert find_taken_over(item(OURS, STATUS, annotated)) is None


def test_we_take_over_what_others_added_so_that_the_next_apply_removes_it() -> None:
    metadata = {"f:metadata": {"f:annotations": {"f:x": {}}}}
    taken = find_taken_over(item(STATUS, OURS, edit({**metadata, "f:data": {"f:C": {}}}), edit({"f:data": {"f:D": {}}})))
    ours = {**OURS, "fieldsV1": {**OURS["fieldsV1"], "f:data": {"f:A": {}, "f:B": {}, "f:C": {}, "f:D": {}}}}
    assert taken == [STATUS, ours, edit(metadata)]


def test_nothing_is_taken_over_without_an_entry_of_ours() -> None:
    assert find_taken_over(item(edit({"f:data": {"f:C": {}}}))) is None
