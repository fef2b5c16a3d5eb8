# Two commands: `make demo` shows RaskIO at work, `make test` checks everything. Both install what is missing.
SHELL := /bin/bash
STAGES := $(patsubst scripts/stages/%.sh,%,$(wildcard scripts/stages/*.sh))

help:
	@echo 'make demo            build, install into build/prefix, read 1 GiB from a loopback server, verify it'
	@echo 'make demo URL=...    the same with any http:// or https:// object'
	@echo 'make test            every check, with the time of each stage'
	@echo 'make test-STAGE      one stage: $(STAGES)'
	@echo 'make build           build and install into build/prefix'
	@echo 'make tool            the command-line tool and the plugin of Nsight Systems, into build/prefix'
	@echo 'make bench           RaskIO beside its peers, at most 15 minutes (BENCH=--quick: 3, BENCH="--scale 0.05 --rounds 1": a look)'
	@echo 'make gpu             device reads on a real GPU: tests, compute-sanitizer, figures (PARTS="tests bench": some of it)'
	@echo 'make gpu-bundle      what that needs, into build/gpu, for a machine without cargo and nginx'
	@echo 'make soak            random faults on 100,000 random reads, at most 5 minutes (READS=N MINUTES=N SEED=N)'
	@echo 'make wheel           the Python package raskio_kvikio, into build/wheels'
	@echo 'make test-kvikio-all the drop-in with every setting and every release of KvikIO, and KvikIO alone: 3 minutes'
	@echo 'make check-msrv      build and test with the oldest supported Rust'
	@echo 'make clean           remove build/ and target/'

demo:
	@bash scripts/demo.sh '$(URL)'

test:
	@bash scripts/test.sh

$(addprefix test-,$(STAGES)): test-%:
	@bash scripts/test.sh $*

build:
	@bash scripts/setup.sh demo
	@bash scripts/stages/install.sh

# A new seed each time, printed; the stage of the tests always has the same.
soak: export READS ?= 100000
soak: export MINUTES ?= 5
soak: export SEED ?= $(shell date +%s)
soak:
	@bash scripts/stages/soak.sh

tool:
	@bash scripts/setup.sh demo
	@sh scripts/cargo.sh build --release --locked -p raskio-cli -p raskio-nic
	@bash scripts/install_tool.sh build/prefix

wheel:
	@bash scripts/setup.sh wheel
	@bash scripts/stages/install.sh
	@RASKIO_PREFIX=build/prefix python3 kvikio/python/build_wheel.py build/wheels

test-kvikio-all:
	@RASKIO_KVIKIO_ALL=1 bash scripts/test.sh kvikio

bench: build
	@bash scripts/setup.sh bench
	@python3 benches/run.py --prefix build/prefix $(BENCH)

gpu-bundle:
	@bash scripts/setup.sh gpu-bundle
	@bash scripts/gpu.sh bundle

gpu:
	@bash scripts/gpu.sh run $(PARTS)

check-msrv:
	@bash scripts/check_msrv.sh

clean:
	rm -rf build target

.PHONY: help demo test build tool wheel test-kvikio-all soak bench gpu gpu-bundle check-msrv clean $(addprefix test-,$(STAGES))
.NOTPARALLEL:
