# nexusform with every backend. Mount the configuration at /work:
#   docker build -t nexusform . && docker run --rm -v "$PWD:/work" nexusform plan
# The image below is Python 3.12.14 on Debian trixie; docs/security.md says where its digest is from, and how to renew it.
ARG BASE=python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
FROM ${BASE} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY packaging/constraints.txt packaging/build_requirements.txt packaging/
COPY nexusform nexusform
# What nexusform needs comes in the versions that were tried, each with its hash.
RUN python -m venv /opt/nexusform \
    && /opt/nexusform/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: -r packaging/constraints.txt \
    && grep -A1 ^setuptools packaging/build_requirements.txt > setuptools.txt \
    && /opt/nexusform/bin/pip install --no-cache-dir --require-hashes --only-binary=:all: -r setuptools.txt \
    && /opt/nexusform/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${BASE}
COPY --from=build /opt/nexusform /opt/nexusform
ENV PATH=/opt/nexusform/bin:$PATH
# Files that a plan or a state is written to belong to whoever runs the container: --user "$(id -u):$(id -g)".
# A host that runs no container as root looks at the number.
RUN useradd --create-home --uid 1000 nexusform
USER 1000
WORKDIR /work
ENTRYPOINT ["nexusform"]
CMD ["-help"]
