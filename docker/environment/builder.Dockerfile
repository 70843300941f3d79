# Where components are built: the environment, and over it the whole base with its build tools.
ARG BASE
ARG ENVIRONMENT

# hadolint ignore=DL3006
FROM ${BASE} AS base

# hadolint ignore=DL3006
FROM ${ENVIRONMENT}
# hadolint ignore=DL3067
COPY --from=base / /
