#!/usr/bin/env bash
# Readies the environment's packages for the image. usage: packages.sh CUDA
# CUDA: a folder that takes the CUDA libraries of the plain torch, so that they are a layer of their own.
set -euo pipefail

site=$(/opt/grstack/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$1/${site#/opt/grstack/venv/}"
# Which of these there are depends on the release of CUDA; the +cpu wheel of torch comes with none.
for folder in "$site"/nvidia "$site"/cusparselt "$site"/nvidia_*; do
    if [[ -e $folder ]]; then mv "$folder" "$1/${site#/opt/grstack/venv/}"; fi
done
# pyre_extensions imports its tests, so it is not done everywhere.
for package in matplotlib networkx numpy pandas pyarrow scipy sklearn sympy; do
    if [[ -d $site/$package ]]; then find "$site/$package" -type d -name tests -prune -exec rm -rf {} +; fi
done
