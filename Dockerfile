# nexusform with every backend. Mount the configuration at /work:
#   docker run --rm -v "$PWD:/work" nexusform plan
FROM python:3.11-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY nexusform nexusform
RUN python -m venv /opt/nexusform \
    && /opt/nexusform/bin/pip install --no-cache-dir ".[azure,encryption,postgres,s3]"

FROM python:3.11-slim
COPY --from=build /opt/nexusform /opt/nexusform
ENV PATH=/opt/nexusform/bin:$PATH
# Files that a plan or a state is written to belong to whoever runs the container: --user "$(id -u):$(id -g)".
# A host that runs no container as root looks at the number.
RUN useradd --create-home --uid 1000 nexusform
USER 1000
WORKDIR /work
ENTRYPOINT ["nexusform"]
CMD ["-help"]
