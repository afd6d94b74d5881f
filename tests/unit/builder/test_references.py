"""Image references."""

import re
from dataclasses import replace

import pytest

from sless.builder.references import RegistryName, find_reference, qualified_of, registry_of, repository_of, tag_of
from sless.config import Settings
from sless.errors import ConfigError
from tests.contract.builder_harness import LocalBuilderHarness

SPEC = LocalBuilderHarness.spec_of(code_key=f"ns/w/{'ab' * 32}-x.zip", build_env={"TOKEN": "s"})
RECIPE = {"dockerfile": "FROM a", "args": "{}"}


@pytest.mark.parametrize(
    ("host", "project", "repository"),
    [
        ("registry.example:5000", "", "sless-1-hello"),
        ("registry.example", "functions", "functions/sless-1-hello"),
        ("docker.io/ada", "", "ada/sless-1-hello"),
        ("https://harbor.example/", "team/functions", "team/functions/sless-1-hello"),
        ("[::1]:5000", "p", "p/sless-1-hello"),
    ],
)
def test_where_images_go(host, project, repository):
    registry = registry_of(Settings(registry_host=host, registry_project=project))
    assert registry is not None and repository_of(registry, "sless-1", "hello") == repository


@pytest.mark.parametrize(
    ("host", "project", "setting"),
    [("bad host", "", "SLESS_REGISTRY_HOST"), ("h/User", "", "SLESS_REGISTRY_HOST"), ("h", "P!", "SLESS_REGISTRY_PROJECT")],
)
def test_a_wrong_setting_is_named(host, project, setting):
    with pytest.raises(ConfigError, match=setting):
        registry_of(Settings(registry_host=host, registry_project=project))


def test_no_registry():
    assert registry_of(Settings()) is None


def test_docker_hub_has_another_api_host():
    registry = registry_of(Settings(registry_host="docker.io/ada"))
    assert registry is not None and registry.api_host == "registry-1.docker.io"
    assert "https://index.docker.io/v1/" in registry.credential_keys


def test_tag_depends_on_everything_in_the_image():
    tag = tag_of(SPEC, RECIPE)
    assert re.fullmatch(r"(ab){8}-[0-9a-f]{12}", tag)
    same = (
        replace(SPEC, id="other", version=7, memory_mb=512, env={"A": "b"}),
        replace(SPEC, code_key=f"ns/other/{'ab' * 32}-y.zip"),
    )
    assert {tag_of(spec, RECIPE) for spec in same} == {tag}
    others = (
        replace(SPEC, code_key=f"ns/w/{'cd' * 32}-x.zip"),
        replace(SPEC, entrypoint="other.handle"),
        replace(SPEC, build_env={"TOKEN": "t"}),
        replace(SPEC, runtime="nodejs20"),
        replace(SPEC, rebuild=True),
        replace(SPEC, rebuild=True, version=8),
    )
    tags = {tag_of(spec, RECIPE) for spec in others} | {tag_of(SPEC, {**RECIPE, "args": "RUNTIME_IMAGE=b"})}
    assert len(tags) == 7 and tag not in tags


@pytest.mark.parametrize(
    ("image", "qualified"),
    [
        ("golang:1.23", "docker.io/library/golang:1.23"),
        ("sless/runtime-nodejs20", "docker.io/sless/runtime-nodejs20"),
        ("localhost/a:1", "localhost/a:1"),
        ("r.example/a@sha256:00", "r.example/a@sha256:00"),
        ("r:5000/a/b:1", "r:5000/a/b:1"),
    ],
)
def test_default_host_is_added(image, qualified):
    assert qualified_of(image) == qualified


def test_images_of_other_registries_are_not_parsed():
    registry = RegistryName(host="r:5000", path="p")
    found = find_reference("r:5000/p/ns-fn:abc", registry)
    assert found is not None and (found.repository, found.tag, str(found)) == ("p/ns-fn", "abc", "r:5000/p/ns-fn:abc")
    for artifact in ("", "configmap:code-1", "other/p/ns-fn:abc", "r:5000/p/ns-fn", "0123456789"):
        assert find_reference(artifact, registry) is None
