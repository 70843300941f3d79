# Base + the locked Python packages. The context holds the wheels, the requirements with hashes, and uv.
ARG BASE
FROM ${BASE}
ARG PYTHON
RUN --mount=type=bind,target=/context \
    python3 -c "import sys; found = '%d.%d' % sys.version_info[:2]; found == '${PYTHON}' or sys.exit('the base has Python ' + found + ', the lock is for ${PYTHON}')" \
    && python3 -m venv /opt/grstack/venv \
    && UV_CACHE_DIR=/tmp/uv UV_LINK_MODE=copy /context/uv pip install --python /opt/grstack/venv/bin/python \
        --no-index --find-links /context/wheels --no-deps --require-hashes --compile-bytecode \
        -r /context/requirements.txt \
    && rm -rf /tmp/uv
ENV PATH=/opt/grstack/venv/bin:${PATH} VIRTUAL_ENV=/opt/grstack/venv
