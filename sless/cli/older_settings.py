"""Settings of an earlier product, which may remain in the environment."""

from collections.abc import Mapping

from sless.config import PREFIX

OLDER_NAMES = {
    "API_HOST": "HOST", "API_PORT": "PORT", "EXTERNAL_URL": "EXTERNAL_URL", "POSTGRES_DSN": "DATABASE_URL", "RABBITMQ_URL": "RABBITMQ_URL",
    "INGRESS_HOST": "INGRESS_HOST", "S3_ENDPOINT": "S3_ENDPOINT", "S3_BUCKET": "S3_BUCKET", "S3_REGION": "S3_REGION",
    "S3_ACCESS_KEY": "S3_ACCESS_KEY", "S3_SECRET_KEY": "S3_SECRET_KEY", "S3_USE_SSL": "S3_USE_SSL", "REGISTRY_HOST": "REGISTRY_HOST",
    "REGISTRY_PROJECT": "REGISTRY_PROJECT", "REGISTRY_SECRET": "REGISTRY_SECRET", "HARBOR_URL": "HARBOR_URL", "HARBOR_USER": "HARBOR_USER",
    "HARBOR_PASS": "HARBOR_PASSWORD",
}  # fmt: skip
"""Names of the earlier product's settings, and the settings that replace them."""


def unread_names(environ: Mapping[str, str]) -> list[str]:
    """A sentence for each earlier name that is set while its replacement is not."""
    given = {key.removesuffix("_FILE") for key in environ}
    return [
        f"{old} is not read; set {PREFIX}{new} instead"
        for old, new in OLDER_NAMES.items()
        if environ.get(old) and PREFIX + new not in given
    ]
