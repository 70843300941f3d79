# `make X` calls `inv X` in the toolchain's own environment, which it makes first. Options: make X ARGS="--option value"
INV := .venv/bin/inv
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help FORCE

help: $(INV)
	@$(INV) --list

$(INV): locks/tools-dev.txt bootstrap.sh
	@sh bootstrap.sh

# Files of this folder are not tasks.
Makefile bootstrap.sh locks/tools-dev.txt FORCE: ;

# FORCE: a file or folder that happens to have a task's name does not count as its result.
%: $(INV) FORCE
	@$(INV) $@ $(ARGS)
