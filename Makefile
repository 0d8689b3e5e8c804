# From a fresh clone: `make demo` shows what the project is for, `make test` tests it. `make help` lists more.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help help-all report demo test test-thorough test-all matrix golden months check fuzz bench bench-bundle bench-boot bench-first-answer bench-initramfs bench-growth examples bashes lock audit \
  dependencies man install deb rpm standalone clean torture standalone-debian11 executables test-executables \
  demo-collector bench-collector bench-scale bench-triage bench-planted torture-collector site dist release release-files mutants

DESTDIR =
PREFIX = /usr/local
OPTIONS =
PYTEST_ARGS =
SECONDS = 600
MATRIX =
KILLS = 50
ORDER := $(shell date +%s)
EXAMPLES =
EXECUTABLE =

READY = .venv/.ready
DEMO = .cache/demo/.ready
DEMO_COLLECTOR = .cache/demo-collector/.ready
UPKEEP = .cache/upkeep/.ready
SITE = .cache/site/.ready
VENV_PYTHON = .venv/bin/python
# Each of the many starts of the command would compile the package anew where bytecode is not kept.
WITH_BYTECODE = env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(abspath .cache/bytecode) $(VENV_PYTHON)
PYTEST = $(WITH_BYTECODE) -m pytest --numprocesses=auto --dist=worksteal
# The shell tests run under `bash` and under each of these, separated by colons.
BASHES = $(subst $() ,:,$(strip $(subst :, ,$(SERVICE_RECORD_BASHES)) $(abspath $(wildcard .cache/bashes/bash-*))))

help: ## list what a newcomer makes; `make help-all` lists everything
	@sed -n 's/^\([a-z0-9-]*\):.* ## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

help-all: ### list everything that can be made
	@sed -n 's/^\([a-z0-9-]*\):.* ###* \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 26

report: $(READY) ### print the size of each room, the arrows between rooms, and the longest functions, for a review
	@$(VENV_PYTHON) -m tests.project.report

demo: $(DEMO) ## record a failing bootstrap and show what failed, where, and why
	@$(dir $(DEMO))bin/python -m demo

demo-collector: $(DEMO_COLLECTOR) ## have thirty simulated hosts and a cluster of five report to a collector, and show which are in trouble
	@$(dir $(DEMO_COLLECTOR))bin/python -m demo.collector

test: $(READY) ## run what a change should pass before it is committed (five minutes on two processors); PYTEST_ARGS='-k name' for some
	@$(PYTEST) -m 'not thorough' $(PYTEST_ARGS)

test-thorough: $(READY) ## run the other tests: other versions of bash, systemd, browsers, PostgreSQL, packages, faults
	@SERVICE_RECORD_BASHES='$(BASHES)' $(PYTEST) -m thorough $(PYTEST_ARGS)

test-all: test test-thorough ## run every test, on every core

matrix: $(UPKEEP) ### test under Python 3.11, 3.12 and 3.13, with the lowest and the newest libraries; MATRIX='--list'
	@PATH=$(abspath $(dir $(UPKEEP))bin):$$PATH nox --download-python never $(MATRIX)

months: $(READY) ### write the months of all locales as journals print them, after a new version of the C library
	@$(VENV_PYTHON) -m packages.months

golden: $(READY) ## write what every output says of every example into tests/golden anew
	@$(VENV_PYTHON) -m tests.golden

check: $(READY) ## style, types, shell and units, a line each
	@.ci/check

fuzz: $(READY) ### hostile records, archives, settings, answers and requests for SECONDS=600; rewrites the table in docs/project/promises.md
	@SERVICE_RECORD_FUZZ_SECONDS=$(SECONDS) SERVICE_RECORD_FUZZ_PAGE=$(if $(PYTEST_ARGS),,docs/project/promises.md) \
	  $(VENV_PYTHON) -m pytest tests/fuzz --timeout=$$(($(SECONDS) + 600)) $(PYTEST_ARGS)

torture: SECONDS = 1200
torture: $(READY) ### break disk, power and programs for SECONDS=1200, and rewrite the tables in docs/project/promises.md (ORDER=N, as root)
	@SERVICE_RECORD_TORTURE_ORDER=$(ORDER) $(VENV_PYTHON) -m tests.torture --seconds $(SECONDS)

# In a copy, because mutmut changes the code of a whole tree. MODULE may be a pattern, such as history/*.
mutants: MODULE = history/outcome
mutants: TESTS = tests/$(firstword $(subst /, ,$(MODULE)))
mutants: $(READY) ### change MODULE=history/outcome in small ways with mutmut, and list the changes that TESTS=tests/history do not notice
	@$(VENV_PYTHON) -m pip install -qq --group mutants
	@rm -rf .cache/mutants && mkdir -p .cache/mutants
	@git ls-files -z | tar -c --null --files-from=- | tar -x -C .cache/mutants
	@sed -i 's|@MODULE@|$(MODULE)|; s|@TESTS@|$(TESTS)|' .cache/mutants/pyproject.toml
	@cd .cache/mutants && PATH=$(CURDIR)/.venv/bin:$$PATH && nice mutmut run && mutmut results

bench-scale: $(READY) ### measure what collectors add up to, on SQLite and PostgreSQL, and rewrite the tables in docs/project/scale.md
	@$(WITH_BYTECODE) -m bench.scale

torture-collector: $(READY) ### kill the collector KILLS=50 times under load, one of four and PostgreSQL 20 times; nothing acknowledged is lost
	@SERVICE_RECORD_TORTURE=$(KILLS) $(VENV_PYTHON) -m pytest tests/collector/test_durability.py $(PYTEST_ARGS)

bench: $(READY) ## measure what everything costs (four minutes), and rewrite the tables in docs/project/performance.md and docs/project/collector.md
	@$(WITH_BYTECODE) -m bench

bench-bundle: $(READY) ### measure a bundle of a journal of 1 GiB, and rewrite the table in docs/project/bundle.md
	@$(WITH_BYTECODE) -m bench.bundle

bench-growth: $(READY) ### measure how costs grow, and draw docs/project/performance/*.svg (some minutes)
	@$(WITH_BYTECODE) -m bench.growth

bench-boot: $(READY) ### measure what the drop-in costs in a boot and a shutdown (as root), and rewrite a table in docs/project/performance.md
	@$(WITH_BYTECODE) -m bench.boot

bench-first-answer: $(READY) ### measure the command without a verb beside a long journal (as root), and rewrite a table in docs/project/performance.md
	@$(WITH_BYTECODE) -m bench.first_answer

bench-initramfs: $(READY) ### measure how much longer a boot in QEMU takes with dracut's module (as root), and rewrite a table in docs/initramfs.md
	@$(WITH_BYTECODE) -m bench.initramfs

bench-triage: $(READY) ### measure how fast bundles are judged and summarised, and rewrite the table in docs/triage.md
	@$(WITH_BYTECODE) -m bench.triage

bench-planted: $(READY) ### judge 300 bundles with planted truth, and print what triage finds of it
	@$(VENV_PYTHON) -m bench.planted

bench-collector: $(READY) ### measure what the collector takes in and shows, and rewrite the table in docs/project/collector.md
	@$(WITH_BYTECODE) -m bench.collecting

examples: $(READY) ## run the hosts of docs/examples anew (half an hour); EXAMPLES='good oom' for some of them
	@$(VENV_PYTHON) -m examples $(EXAMPLES)

bashes: ## fetch other versions of bash for `make test` into .cache/bashes (Debian, as root)
	@.ci/bashes

lock: $(UPKEEP) ### write requirements/*.txt anew: the newest libraries that pyproject.toml allows, with their hashes
	@.ci/lock

audit: $(UPKEEP) ### ask a vulnerability service about everything that requirements/*.txt has locked
	@.ci/audit

dependencies: $(READY) ### print what is installed with the command, why, how large, with which licence; into docs/project/dependencies.md
	@$(VENV_PYTHON) -m packages.dependencies

man: $(READY) ## write man pages and shell completions into build/share
	@rm -rf build/share
	@$(VENV_PYTHON) -m packages.stage build/share --pages

# Without .venv, a Python without libraries is enough; man pages and completions are then left out.
install: ## what `service-record install` does, into DESTDIR for a package; PREFIX=/usr/local OPTIONS=--reporter
	@python=$(if $(wildcard $(READY)),$(VENV_PYTHON),$$(.ci/python)) && "$$python" -B -m packages.stage '$(or $(DESTDIR),/)' --prefix '$(PREFIX)' $(OPTIONS)

deb: $(READY) $(if $(EXECUTABLE),,standalone) ## make the Debian packages of shim and command in build/packages; EXECUTABLE=build/service-record takes one made before
	@$(VENV_PYTHON) -m packages.deb build/packages '$(or $(EXECUTABLE),build/service-record)'

rpm: $(READY) $(if $(EXECUTABLE),,standalone) ## make the RPM packages of the same, with packages/service-record.spec
	@$(VENV_PYTHON) -m packages.rpm build/packages '$(or $(EXECUTABLE),build/service-record)'

site: $(SITE) ## build the documentation as a site into build/site; a dead link or anchor fails
	@said=$$(NO_MKDOCS_2_WARNING=1 $(dir $(SITE))bin/mkdocs build --strict 2>&1) || { grep -v "^INFO" <<<"$$said"; exit 1; }

dist: $(READY) ### build the wheel and the source archive into dist/, with SHA256SUMS; the same commit makes the same wheel
	@rm -rf dist
	@SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(VENV_PYTHON) -m hatchling build
	@cd dist && sha256sum -- *.whl *.tar.gz >SHA256SUMS

release-files: dist deb rpm $(UPKEEP) ### everything that a release has, in dist/: also executables, packages, an installer, the list of libraries
	@.ci/release-files

release: $(READY) ### build, try and tag the version that service_record/version.py names; RELEASING.md has the steps
	@.ci/release

# In an environment of its own: what is not installed there cannot get into the executable.
standalone: ## make build/service-record, the whole command in one executable for hosts without Python; GLIBC=2.34 refuses to need a newer one
	@env -u PYTHONPATH .ci/setup standalone
	@.cache/standalone/bin/python -B -m packages.standalone build/service-record

standalone-debian11: ### the same for hosts with an older glibc, 2.31 or newer (Debian, as root; some minutes the first time)
	@packages/standalone/debian11.sh

# The checksums are removed first: what is there is of these executables, or nothing.
executables: ### the same for x86_64 and aarch64, with SHA256SUMS, in build/executables (on x86_64, with qemu-user-static; half an hour the first time)
	@rm -f build/executables/SHA256SUMS
	@packages/standalone/debian11.sh x86_64 build/executables/service-record-x86_64
	@packages/standalone/debian11.sh aarch64 build/executables/service-record-aarch64
	@cd build/executables && sha256sum service-record-x86_64 service-record-aarch64 >SHA256SUMS.part && mv SHA256SUMS.part SHA256SUMS

test-executables: executables $(READY) ### make them, and start each in a Debian 11 of its architecture
	@$(VENV_PYTHON) -m pytest -p no:cacheprovider tests/packages/test_executables.py $(PYTEST_ARGS)

clean: ## remove everything that was made, .venv too
	rm -rf .venv .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UPKEEP): pyproject.toml
	@python=$(or $(wildcard $(VENV_PYTHON)),$$(.ci/python)) && "$$python" -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install -qq --upgrade 'pip>=25.1'
	@$(@D)/bin/python -m pip install -qq --group upkeep
	@touch $@

$(SITE): requirements/site.txt
	@python=$(or $(wildcard $(VENV_PYTHON)),$$(.ci/python)) && "$$python" -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install -qq --require-hashes -r requirements/site.txt || \
	  { $(@D)/bin/python -m pip install -qq --upgrade 'pip>=25.1' && $(@D)/bin/python -m pip install -qq --group site; }
	@touch $@

$(READY): pyproject.toml requirements/dev.txt .ci/setup .ci/python .ci/install
	@.ci/setup
	@touch $@

$(DEMO): pyproject.toml requirements/demo.txt .ci/setup .ci/python .ci/install
	@.ci/setup demo
	@touch $@

$(DEMO_COLLECTOR): pyproject.toml requirements/demo-collector.txt .ci/setup .ci/python .ci/install
	@.ci/setup demo-collector
	@touch $@
