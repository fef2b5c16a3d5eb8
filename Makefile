# Two commands: `make demo` shows RaskIO at work, `make test` checks everything. Both install what is missing.
SHELL := /bin/bash
STAGES := $(patsubst scripts/stages/%.sh,%,$(wildcard scripts/stages/*.sh))

help:
	@echo 'make demo            build, install into build/prefix, read 1 GiB from a loopback server, verify it'
	@echo 'make demo URL=...    the same with any http:// or https:// object'
	@echo 'make test            every check, with the time of each stage'
	@echo 'make test-STAGE      one stage: $(STAGES)'
	@echo 'make bench           RaskIO beside raw receives, bare libcurl and KvikIO, into build/bench (some 15 minutes)'
	@echo 'make build           build and install into build/prefix'
	@echo 'make check-msrv      build and test with the oldest supported Rust'
	@echo 'make clean           remove build/ and target/'

demo:
	@bash scripts/demo.sh '$(URL)'

test:
	@bash scripts/test.sh

$(addprefix test-,$(STAGES)): test-%:
	@bash scripts/test.sh $*

# BENCH holds arguments of benches/run.py, such as --cases large --rounds 3.
bench:
	@bash scripts/setup.sh bench
	@bash scripts/stages/install.sh
	@mkdir -p build/bench
	@python3 benches/run.py --prefix build/prefix --output build/bench/results $(BENCH)

build:
	@bash scripts/setup.sh demo
	@bash scripts/stages/install.sh

check-msrv:
	@bash scripts/check_msrv.sh

clean:
	rm -rf build target

.PHONY: help demo test bench build check-msrv clean $(addprefix test-,$(STAGES))
.NOTPARALLEL:
