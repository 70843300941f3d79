# `make X` calls `inv X` in the toolchain's own environment, which it makes first. Options: make X ARGS="--option value"
INV := .venv/bin/inv
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help

help: $(INV)
	@$(INV) --list

$(INV): locks/tools-dev.txt bootstrap.sh
	@sh bootstrap.sh

Makefile: ;

%: $(INV)
	@$(INV) $@ $(ARGS)
