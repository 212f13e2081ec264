# Tulving as a service (HTTP API, console and MCP), or as a worker: see docs/guides/docker.md.
#   docker build --tag tulving .
#   docker build --tag tulving:lean --build-arg WEIGHTS=no .      mount the weights at /weights instead

FROM python:3.13-slim-bookworm AS build
WORKDIR /source
RUN python -m venv /opt/tulving
COPY requirements/dev.txt requirements/dev.txt
# The versions that are tested, without the hashes and without what only the tests need.
RUN grep -oE '^[A-Za-z0-9._-]+==[^ ;\\]+' requirements/dev.txt > constraints.txt
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
RUN /opt/tulving/bin/pip install --no-cache-dir --constraint constraints.txt '.[hnsw,postgres,server]'

FROM build AS weights
ARG WEIGHTS=yes
RUN mkdir -p /weights && if [ "$WEIGHTS" = yes ]; then \
      TULVING_HOME=/tmp/tulving /opt/tulving/bin/tulving init && cp /tmp/tulving/models/all-MiniLM-L6-v2/* /weights/; fi

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --create-home --home-dir /data tulving
COPY --from=build /opt/tulving /opt/tulving
COPY --from=weights /weights /weights
ENV PATH=/opt/tulving/bin:$PATH TULVING_HOME=/data TULVING_WEIGHTS=/weights PYTHONUNBUFFERED=1
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8765/readyz', timeout=4)"]
ENTRYPOINT ["tulving"]
CMD ["serve", "0.0.0.0:8765"]
