"""`sless gc`: removes code, build contexts and artifacts of this installation that are no longer referenced.

A running server removes most of them by itself (`reconcile.collect`). Some are left after a crash between storing code and its version, or
when a registry did not respond. Only objects with this installation's id are removed, so several installations may share a bucket and a
registry. If a zipapp runs it, it also removes what earlier builds of the zipapp have unpacked.
"""

import fcntl
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

from sless import clock, ids
from sless.app.database import open_encrypted
from sless.builder.local import make_local_builder
from sless.code import open_code_store
from sless.code.contexts import open_context_store
from sless.code.folder import FolderCodeStore, is_owned
from sless.config import Settings
from sless.domain.audit import installation_note, value_change
from sless.domain.lifecycle import OPEN_VERSION_STATES
from sless.domain.ports import Builder, BuilderUnavailable
from sless.errors import Code, SlessError
from sless.host.material import Material
from sless.store import Store

YOUNG = timedelta(hours=1)
"""Younger code is kept, as it may belong to an upload that is about to become a version."""
_ALL = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """`kind` is code, context, artifact (an image, or installed dependencies) or zipapp. `remove` deletes it for good."""

    kind: str
    name: str
    size_bytes: int | None
    remove: Callable[[], None]


def collect(settings: Settings, *, dry_run: bool, young: timedelta = YOUNG, zipapp: tuple[Path, Path] | None = None) -> list[Garbage]:
    """Removes the garbage, unless `dry_run`, and returns it. `zipapp` is the file that runs, and the folder into which it unpacks itself.
    Raises SlessError, ConfigError."""
    store = open_encrypted(settings)
    builder: Builder | None = None
    try:
        installation = store.meta_ensure("installation", ids.new_id(8))
        builder = _builder_of(settings, installation)
        found = [*_code(settings, store, installation, young), *_contexts(settings, store, installation), *_artifacts(store, builder)]
        found += old_builds(*zipapp) if zipapp else []
        if not dry_run:
            _remove(store, found)
        return found
    finally:
        if builder is not None:
            builder.close()
        store.close()


def _remove(store: Store, found: Sequence[Garbage]) -> None:
    removed = 0
    try:
        for item in found:
            item.remove()
            removed += 1
    finally:
        if removed:
            store.audit.add(installation_note("gc", value_change("removed", None, removed)))


def _code(settings: Settings, store: Store, installation: str, young: timedelta) -> Iterator[Garbage]:
    code = open_code_store(settings)
    blobs = list(code.list_blobs())
    # Read the versions last: the version of a listed blob is either stored by now, or the blob is young.
    used = {version.code_key for version in store.versions.list_kept()}
    shared = not isinstance(code, FolderCodeStore)
    oldest = clock.now() - young
    for blob in blobs:
        if blob.key not in used and blob.stored_at <= oldest and (not shared or is_owned(blob.key, installation)):
            yield Garbage(kind="code", name=blob.key, size_bytes=blob.size_bytes, remove=partial(code.delete, blob.key))


def _contexts(settings: Settings, store: Store, installation: str) -> Iterator[Garbage]:
    if settings.backend != "kubernetes":
        return
    contexts = open_context_store(settings, installation)
    known = list(contexts.list_ids())
    still_open = {version.id for version in store.versions.list_kept() if version.state in OPEN_VERSION_STATES}
    for build_id in known:
        if build_id not in still_open:
            yield Garbage(kind="context", name=build_id, size_bytes=None, remove=partial(contexts.delete, build_id))


def _artifacts(store: Store, builder: Builder) -> Iterator[Garbage]:
    for artifact in store.discards.list(_ALL):
        yield Garbage(kind="artifact", name=artifact, size_bytes=None, remove=partial(_discard, store, builder, artifact))


def _discard(store: Store, builder: Builder, artifact: str) -> None:
    try:
        if not store.discards.is_used(artifact):
            builder.discard(artifact)
    except BuilderUnavailable as error:
        raise SlessError(Code.UNAVAILABLE, f"{artifact} cannot be removed now: {error}") from error
    store.discards.remove(artifact)


def _builder_of(settings: Settings, installation: str) -> Builder:
    if settings.backend != "kubernetes":
        return make_local_builder(settings, Material(settings.data_dir, open_code_store(settings)))
    from sless.builder.kubernetes import make_kubernetes_builder
    from sless.kube import Kube

    contexts = open_context_store(settings, installation)
    return make_kubernetes_builder(settings, Kube.connect(settings), installation, open_code_store(settings), contexts)


def old_builds(archive: Path, root: Path) -> Iterator[Garbage]:
    """Unpacked folders of earlier builds of the zipapp that runs. `archive` is the zipapp, `root` the folder into which it unpacks itself.

    Its first code (`.ci/release/zipapp_main.py`) marks the folder of a running build with a lock, and removes unused folders at the first
    start of a new build. One that was still in use then stays."""
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.name.startswith(f"{archive.name}_") and folder.is_dir():
            with _unused(root, folder.name) as free:
                if free:
                    yield Garbage(kind="zipapp", name=str(folder), size_bytes=None, remove=partial(_remove_build, root, folder.name))


def _remove_build(root: Path, name: str) -> None:
    """Leaves it if a process has started it in the meantime."""
    with _unused(root, name) as free:
        if free:
            shutil.rmtree(root / name)
            _mark(root, name).unlink()


@contextmanager
def _unused(root: Path, name: str) -> Iterator[bool]:
    """Whether the folder is unused. Nothing can start to use it during the block."""
    with _mark(root, name).open("a") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _mark(root: Path, name: str) -> Path:
    return root / f".{name}_used"
