# The commands of the project; `make help` lists them. CMake builds in build/<preset>/.

JOBS ?= $(shell nproc)
# Arguments of `tally train lenet` and `tally bench allreduce`. Every named peer must be installed.
TRAIN_ARGS ?=
BENCH_ARGS ?= --against gloo,openmpi,mpich

.DEFAULT_GOAL := help
.PHONY: help setup build test soak train bench lint lint-all lint-form format asan tsan fuzz
.PHONY: accuracy standalone clean

help: ## show this list
	@echo "make TARGET, where TARGET is one of:"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile
	@echo "Missing Debian 12 packages are installed first if you are root, and named if you are not."

# The groups of tools/packages.txt that a target needs; other targets need `build test`.
PACKAGES_lint = build lint clang
PACKAGES_lint-all = build lint clang
PACKAGES_lint-form = lint
PACKAGES_format = lint
PACKAGES_asan = build test clang
PACKAGES_tsan = build test clang
PACKAGES_fuzz = build test clang
PACKAGES_standalone = build clang
PACKAGES_bench = build bench
PACKAGES_train = build train
PACKAGES_accuracy = build accuracy
PACKAGES = $(sort $(foreach goal,$(MAKECMDGOALS),$(or $(PACKAGES_$(goal)),build test)))

setup: ## install the packages that building and testing need
	@tools/setup.sh $(PACKAGES)

# Depends on the list of packages, because CMake may find more after packages were added. Starts
# afresh: where a preset changes its compiler, CMake would forget the preset's other variables.
build/%/build.ninja: CMakePresets.json tools/packages.txt | setup
	@cmake --fresh --preset $*
	@touch $@

build: build/release/build.ninja ## build everything as release, in build/release/
	@cmake --build build/release --parallel $(JOBS)

test: build ## build and run all tests
	@tools/run_ctest.sh release

# The simulation runs SOAK_SEEDS seeds; real processes are killed SOAK_RUNS times.
SOAK_SEEDS ?= 4000
SOAK_RUNS ?= 60
soak: build ## run the chaos tests of parameter servers for long, simulated and with real processes
	@TALLY_SOAK_SEEDS=$(SOAK_SEEDS) TALLY_SOAK_RUNS=$(SOAK_RUNS) tools/run_ctest.sh release -R 'Chaos'

# Builds only the two programs that it runs, without the MPI engine.
train: build/release/build.ninja ## train LeNet-5 on Fashion-MNIST with 2 workers; write report.html
	@cmake --build build/release --parallel $(JOBS) --target tally tally-train
	build/release/tally data get fashion-mnist
	build/release/tally train lenet --data fashion-mnist --workers 2 --report report.html $(TRAIN_ARGS)

# CMake runs again, so that the results name the current commit.
bench: setup ## measure all-reduce against other libraries
	@cmake --preset release
	@cmake --build build/release --parallel $(JOBS) --target tally
	build/release/tally bench allreduce $(BENCH_ARGS)

# Arguments of bench/accuracy/accuracy.py, as in ACCURACY_ARGS="--quick --data FOLDER".
ACCURACY_ARGS ?=
accuracy: build/release/build.ninja ## train under many plans for an hour; write docs/accuracy.md
	@cmake --build build/release --parallel $(JOBS) --target tally tally-train torch_test
	@bench/accuracy/accuracy.py $(ACCURACY_ARGS)

lint: setup ## check format and run clang-tidy on what changed since main
	@tools/lint.sh changed

lint-form: setup ## check the format of everything
	@tools/lint.sh form

lint-all: setup ## check format and run clang-tidy on everything
	@tools/lint.sh all

format: setup ## format all sources in place
	@tools/lint.sh format

asan: ## run the tests under the address and undefined-behaviour sanitizers
tsan: ## run the tests under the thread sanitizer
# The build runs the test programs to list their tests, so it needs in_preset.sh as well.
asan tsan: %: build/%/build.ninja
	@tools/in_preset.sh $@ cmake --build build/$@ --parallel $(JOBS)
	@tools/run_ctest.sh $@ -L '^(unit|sim|process)$$'

fuzz: build/asan/build.ninja ## fuzz for a minute, or FUZZ_SECONDS for each target
	@cmake --build build/asan --target fuzzers --parallel $(JOBS)
	@tools/fuzz.sh

standalone: setup ## compile every file alone, so that its own includes suffice
	@tools/standalone.sh

clean: ## remove build/
	rm -rf build
