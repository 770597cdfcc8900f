# A site of a federation: Flower's SuperNode with flr. No data, key or certificate is in the image.
# How to use it: docs/how-to/run-on-flower.md and compose.yaml.
FROM python:3.11-slim AS build
WORKDIR /build
# The index of PyTorch's CPU builds makes the image much smaller: --build-arg PIP_EXTRA_INDEX_URL=...
ARG PIP_EXTRA_INDEX_URL=""
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src ./src
RUN python -m venv /opt/flr \
    && /opt/flr/bin/pip install --no-cache-dir -c constraints.txt ".[flower]"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/flr flr
COPY --from=build /opt/flr /opt/flr
# All that is written goes below /var/lib/flr and /tmp, so the rest may be read-only.
ENV PATH=/opt/flr/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/var/lib/flr \
    FLWR_HOME=/var/lib/flr/flwr \
    FLR_CACHE=/var/lib/flr/cache \
    FLWR_TELEMETRY_ENABLED=0 \
    FLWR_DISABLE_UPDATE_CHECK=1 \
    RAY_USAGE_STATS_ENABLED=0 \
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1
USER 10001
WORKDIR /var/lib/flr
VOLUME ["/var/lib/flr"]
ENTRYPOINT ["flower-supernode"]
CMD ["--help"]
