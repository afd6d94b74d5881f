# The control plane in a container: `make pyz && docker build -t sless/sless .`
# Functions have their own images (backend kubernetes); this one only needs Python.
# The base is pinned by the digest of its index of all architectures, so that a build does not change by itself; likewise in
# runtimes/*/Dockerfile. For a newer one:
#   docker buildx imagetools inspect python:3.11-slim --format '{{.Manifest.Digest}}'
#   docker build --build-arg BASE=python:3.11-slim@sha256:… -t sless/sless .
ARG BASE=python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
FROM ${BASE}

COPY dist/sless.pyz /opt/sless/sless.pyz

# HOME, because a user id without an entry in /etc/passwd has none. Logs are not buffered.
ENV SHIV_ROOT=/opt/sless/unpacked \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    SLESS_HOST=0.0.0.0 \
    SLESS_DATA_DIR=/data

# Unpack and compile here, so that a container starts at once and never writes outside /data and /tmp: the root file system may be
# read-only. The files belong to root, so that an intruder in the server cannot change its code.
RUN SHIV_COMPILE_PYC=1 python /opt/sless/sless.pyz version \
 && chmod -R a+rX /opt/sless \
 && install -d -m 0750 -o 10001 -g 10001 /data \
 && printf '#!/bin/sh\nexec python /opt/sless/sless.pyz "$@"\n' > /usr/local/bin/sless \
 && chmod 755 /usr/local/bin/sless

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 9090

ENTRYPOINT ["python", "/opt/sless/sless.pyz"]
CMD ["serve"]
