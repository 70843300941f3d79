# `make X` calls `inv X` in the toolchain's own environment, which it makes first. Options: make X ARGS="--option value"
INV := .venv/bin/inv
ARGS ?=
# An environment knows its own place: in a moved or copied checkout it is made anew.
MOVED := $(shell test ! -e .venv || test "$$(cat .venv/made-in 2>/dev/null)" = "$$(cd .venv && pwd -P)" || echo moved)

.DEFAULT_GOAL := help
.PHONY: help FORCE $(if $(MOVED),$(INV))

help: $(INV)
	@$(INV) --list
	@echo 'make X is inv X. To type inv, once: export PATH="$$PWD/.venv/bin:$$PATH"'

# +: also where make itself was asked for a dry run (make build-image --dry-run)
$(INV): locks/tools-dev.txt bootstrap.sh
	+@sh bootstrap.sh

# Files of this folder are not tasks.
Makefile bootstrap.sh locks/tools-dev.txt FORCE: ;

# Make takes --dry-run (-n) for its own; the tasks that have such an option get it.
WITH_DRY_RUN := build-image clean
DRY_RUN := $(if $(findstring n,$(firstword -$(MAKEFLAGS))),yes)

# FORCE: a file or folder that happens to have a task's name does not count as its result.
%: $(INV) FORCE
ifeq ($(DRY_RUN),)
	@$(INV) $@ $(ARGS)
else
	+@$(if $(filter $@,$(WITH_DRY_RUN)),$(INV) $@ --dry-run $(ARGS),$(error $@ has no dry run; next: make build-image --dry-run))
endif
