"""A server that builds images in a cluster, with a real registry and real S3."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.contract.builder_harness_kube import chart_rights, push_secret
from tests.kube.cluster import KubeCluster, running_cluster
from tests.kube.image_builder import image_of
from tests.services.product import Product, new_place
from tests.services.registry import RegistryServer
from tests.services.s3 import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

Image = dict[str, object]


@contextmanager
def building_product(
    folder: Path, registry: RegistryServer, s3: S3Server, changed: Callable[[Image], Image] = lambda image: image
) -> Iterator[tuple[KubeCluster, Product]]:
    """Not started yet, and limited to the chart's RBAC rules. `changed` turns the usual builder image into the one to use."""
    with running_cluster() as cluster, new_place(folder) as place:
        cluster.create(push_secret(registry.host))
        cluster.add_image("image-builder", changed(image_of(cluster._control, folder / "images")))
        cluster.enforce("sless", chart_rights().cluster, chart_rights().local, chart_rights().writable)
        environ = {
            "BACKEND": "kubernetes", "KUBECONFIG": str(cluster.kubeconfig), "POD_NAMESPACE": "default", "AUTH_MODE": "local",
            "REGISTRY_HOST": registry.host, "REGISTRY_INSECURE": "true", "REGISTRY_SECRET": "registry",
            "BUILDER_IMAGE": "image-builder", "S3_ENDPOINT": f"http://{s3.endpoint}", "S3_BUCKET": BUCKET,
            "S3_ACCESS_KEY": ACCESS_KEY, "S3_SECRET_KEY": SECRET_KEY,
        }  # fmt: skip
        product = Product(place, **{f"SLESS_{name}": value for name, value in environ.items()})
        try:
            yield cluster, product
        finally:
            product.close()
