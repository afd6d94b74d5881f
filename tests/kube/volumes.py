"""A Pod's volumes and environment on this machine. Tests cannot mount, so mount paths become paths of folders wherever a container meets
them: in its arguments, environment and working folder."""

import base64
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Protocol

from tests.kube.quantity import value_of

Object = dict[str, Any]
HERE = tuple({str(Path(__file__).resolve().parents[2]), sys.prefix, sys.base_prefix})
"""Folders of this machine that images consist of. Paths in them are not container paths, even if the checkout is in /tmp."""
_VARIABLE = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")


class Missing(Exception):
    """Something that a Pod refers to does not exist (yet)."""


class Stored(Protocol):
    def find(self, kind: str, namespace: str, name: str) -> Object | None: ...
    def items(self, kind: str, namespace: str | None = None) -> list[Object]: ...


def make_volumes(stored: Stored, pod: Object, folder: Path) -> dict[str, Path]:
    """Folders by volume name. Raises Missing."""
    namespace = pod["metadata"]["namespace"]
    made = {}
    for volume in pod["spec"].get("volumes") or []:
        target = folder / "volumes" / volume["name"]
        target.mkdir(parents=True, exist_ok=True)
        for source in volume["projected"].get("sources", []) if "projected" in volume else [volume]:
            if "configMap" in source:
                _fill(stored, target, ("ConfigMap", namespace, source["configMap"].get("name", "")), source["configMap"])
            elif "secret" in source:
                name = source["secret"].get("secretName") or source["secret"].get("name", "")
                _fill(stored, target, ("Secret", namespace, name), source["secret"])
        made[volume["name"]] = target
    return made


def _fill(stored: Stored, target: Path, reference: tuple[str, str, str], source: Object) -> None:
    """Writes the content of the ConfigMap or Secret (kind, namespace, name) into a folder. Raises Missing."""
    found = stored.find(*reference)
    if found is None:
        if source.get("optional"):
            return
        raise Missing(f'{reference[0].lower()} "{reference[2]}" not found')
    content = content_of(found)
    modes = {item["key"]: item.get("mode") for item in source.get("items") or []}
    paths = {item["key"]: item["path"] for item in source.get("items") or []} or {key: key for key in content}
    for key, path in paths.items():
        if key not in content:
            if source.get("optional"):
                continue
            raise Missing(f"references non-existent {reference[0].lower()} key: {key}")
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        file.write_bytes(content[key])
        file.chmod(modes.get(key) or source.get("defaultMode") or 0o644)


def content_of(item: Object) -> dict[str, bytes]:
    if item["kind"] == "Secret":
        return {key: base64.b64decode(value) for key, value in (item.get("data") or {}).items()}
    text = {key: value.encode() for key, value in (item.get("data") or {}).items()}
    return text | {key: base64.b64decode(value) for key, value in (item.get("binaryData") or {}).items()}


def mounts_of(container: Object, volumes: dict[str, Path], folder: Path) -> dict[str, str]:
    """Path in the container → path on this machine."""
    found = {}
    for mount in container.get("volumeMounts") or []:
        source = volumes[mount["name"]]
        if mount.get("subPath"):
            source = source / mount["subPath"]
            if not source.exists():
                source.mkdir(parents=True)
        found[mount["mountPath"].rstrip("/") or "/"] = str(source)
    if "/tmp" not in found:
        own = folder / f"tmp-{container['name']}"
        own.mkdir(exist_ok=True)
        found["/tmp"] = str(own)
    return found


def translated(text: str, paths: dict[str, str]) -> str:
    """Replaces each path of the container in a text: the whole text, after `=` or `:`, in quotes, or in a list."""
    known = {**paths, **{path: path for path in HERE}}
    names = "|".join(re.escape(path) for path in sorted(known, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({names})(?=$|[/:,;'\"\s)])", lambda found: known[found[1]], text)


def environment_of(stored: Stored, pod: Object, container: Object, base: dict[str, str]) -> dict[str, str]:
    """`base` (image, kubelet), then envFrom, then env, with $(NAME) expanded. Raises Missing."""
    namespace = pod["metadata"]["namespace"]
    result = dict(base)
    for source in container.get("envFrom") or []:
        kind, field = ("Secret", "secretRef") if "secretRef" in source else ("ConfigMap", "configMapRef")
        found = stored.find(kind, namespace, source[field]["name"])
        if found is None:
            if source[field].get("optional"):
                continue
            raise Missing(f'{kind.lower()} "{source[field]["name"]}" not found')
        prefix = source.get("prefix", "")
        result |= {prefix + key: value.decode(errors="replace") for key, value in content_of(found).items()}
    for entry in container.get("env") or []:
        value = entry.get("value", "") if "valueFrom" not in entry else _value_from(stored, pod, container, entry["valueFrom"])
        if value is not None:
            result[entry["name"]] = expanded(value, result) if "valueFrom" not in entry else value
    return result


def expanded(text: str, values: dict[str, str]) -> str:
    """Expands `$(NAME)` for known names, and `$$` to `$`."""
    return _VARIABLE.sub(lambda found: "$" if found[1] is None else values.get(found[1], found[0]), text)


def _value_from(stored: Stored, pod: Object, container: Object, source: Object) -> str | None:
    for field, kind in (("secretKeyRef", "Secret"), ("configMapKeyRef", "ConfigMap")):
        if field in source:
            reference = source[field]
            found = stored.find(kind, pod["metadata"]["namespace"], reference["name"])
            content = content_of(found) if found else {}
            if reference["key"] in content:
                return content[reference["key"]].decode(errors="replace")
            if reference.get("optional"):
                return None
            if found is None:
                raise Missing(f'{kind.lower()} "{reference["name"]}" not found')
            raise Missing(f"couldn't find key {reference['key']} in {kind} {pod['metadata']['namespace']}/{reference['name']}")
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in source:
        kind, _, resource = source["resourceFieldRef"]["resource"].partition(".")
        return str(int(value_of((container.get("resources") or {}).get(kind, {}).get(resource, "0"))))
    raise Missing(f"env source {sorted(source)} is not served by the stand-in")


def _field(pod: Object, path: str) -> str:
    if found := re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path):
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value: Any = pod
    for name in path.split("."):
        value = (value or {}).get(name)
    return "" if value is None else str(value)


def service_variables(stored: Stored, pod: Object) -> dict[str, str]:
    """Variables of Services: always the API server's, with enableServiceLinks also those of the namespace."""
    found = _variables("KUBERNETES", "10.96.0.1", 443) | {"KUBERNETES_SERVICE_PORT_HTTPS": "443"}
    if pod["spec"].get("enableServiceLinks", True):
        for service in stored.items("Service", pod["metadata"]["namespace"]):
            for port in service["spec"].get("ports") or []:
                found |= _variables(
                    service["metadata"]["name"].upper().replace("-", "_"), service["spec"].get("clusterIP", ""), port["port"]
                )
    return found


def _variables(name: str, address: str, port: int) -> dict[str, str]:
    return {
        f"{name}_SERVICE_HOST": address, f"{name}_SERVICE_PORT": str(port), f"{name}_PORT": f"tcp://{address}:{port}",
        f"{name}_PORT_{port}_TCP": f"tcp://{address}:{port}", f"{name}_PORT_{port}_TCP_ADDR": address,
        f"{name}_PORT_{port}_TCP_PORT": str(port), f"{name}_PORT_{port}_TCP_PROTO": "tcp",
    }  # fmt: skip


def remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
