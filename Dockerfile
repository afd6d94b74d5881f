# The control plane in a container: `make pyz && docker build -t sless .`
# Functions run in images of their own (backend kubernetes); this one needs Python only.
ARG BASE=python:3.11-slim
FROM ${BASE}

COPY dist/sless.pyz /opt/sless/sless.pyz

ENV SHIV_ROOT=/opt/sless/unpacked \
    SLESS_HOST=0.0.0.0 \
    SLESS_DATA_DIR=/data

# Unpacked and compiled here, so that a container starts at once, also with a read-only root file system.
RUN SHIV_COMPILE_PYC=1 python /opt/sless/sless.pyz version \
 && install -d -o 10001 -g 10001 /data \
 && chown -R 10001:10001 /opt/sless/unpacked

USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 9090

ENTRYPOINT ["python", "/opt/sless/sless.pyz"]
CMD ["serve"]
