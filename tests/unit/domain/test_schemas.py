import pytest
from jsonschema import Draft202012Validator

from sless.domain.schemas import COMPONENTS, REQUESTS


@pytest.mark.parametrize("name", COMPONENTS)
def test_schemas_are_valid(name: str) -> None:
    Draft202012Validator.check_schema(COMPONENTS[name])


@pytest.mark.parametrize(
    ("answer", "requests"),
    [
        ("Function", ("FunctionCreate", "FunctionReplace", "FunctionMerge")),
        ("Service", ("ServiceCreate", "ServiceReplace", "ServiceMerge")),
        ("Job", ("JobCreate", "JobMerge")),
        ("Trigger", ("HttpTriggerCreate", "CronTriggerReplace", "EventTriggerMerge")),
    ],
)
def test_answers_can_be_sent_back(answer: str, requests: tuple[str, ...]) -> None:
    for request in requests:
        assert set(COMPONENTS[answer]["properties"]) <= set(REQUESTS[request]["properties"])


def test_each_trigger_type_describes_enabled() -> None:
    found = {
        kind: {REQUESTS[f"{kind}Trigger{mode}"]["properties"]["enabled"]["description"] for mode in ("Create", "Replace", "Merge")}
        for kind in ("Http", "Cron", "Event")
    }
    assert all(len(texts) == 1 for texts in found.values())
    texts = [text for texts in found.values() for text in texts]
    assert [word in text for text, word in zip(texts, ("503", "fire", "queue"), strict=True)] == [True] * 3 and len(set(texts)) == 3


@pytest.mark.parametrize("name", [name for name in REQUESTS if name.endswith(("Merge", "Replace", "Create"))])
def test_every_writable_field_is_nullable_or_required(name: str) -> None:
    """`null` restores a field's default, if it has one."""
    for field, schema in REQUESTS[name]["properties"].items():
        nullable = "null" in schema.get("type", ["null"]) or schema.get("readOnly")
        assert nullable or "default" not in schema, field
