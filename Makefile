# From a fresh clone: `make demo` shows what the project is for, `make test` tests it. `make help` lists the rest.

SHELL := bash
.DEFAULT_GOAL := help
.PHONY: help demo test golden check fuzz bench examples bashes man install clean

DESTDIR =
PREFIX = /usr/local
DROP_INS = $(PREFIX)/share/service-record
PYTEST_ARGS =
SECONDS = 600
EXAMPLES =

READY = .venv/.ready
PYTHON = .venv/bin/python
# The shell tests run under `bash` and under each of these, separated by colons.
BASHES = $(subst $() ,:,$(strip $(subst :, ,$(SERVICE_RECORD_BASHES)) $(abspath $(wildcard .cache/bashes/bash-*))))

help: ## list what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

demo: $(READY) ## record a failing bootstrap and show what failed, where, and why
	@$(PYTHON) -m demo

test: $(READY) ## run every test; on every core; PYTEST_ARGS='-k name' for some of them
	@SERVICE_RECORD_BASHES='$(BASHES)' $(PYTHON) -m pytest --numprocesses=auto --dist=worksteal $(PYTEST_ARGS)

golden: $(READY) ## write what every output says of every example into tests/golden anew
	@$(PYTHON) -m tests.golden

check: $(READY) ## style, types, shell and units, a line each
	@.ci/check

fuzz: $(READY) ## read hostile records and archives for SECONDS=600, and print how many
	@SERVICE_RECORD_FUZZ_SECONDS=$(SECONDS) $(PYTHON) -m pytest tests/fuzz --timeout=$$(($(SECONDS) + 600)) $(PYTEST_ARGS)

bench: $(READY) ## measure what recording costs, and rewrite the table in docs/performance.md
	@$(PYTHON) -m bench

examples: $(READY) ## run the hosts of docs/examples anew (half an hour); EXAMPLES='good oom' for some of them
	@$(PYTHON) -m examples $(EXAMPLES)

bashes: ## fetch other versions of bash for `make test` into .cache/bashes (Debian, as root)
	@.ci/bashes

man: $(READY) ## write man pages and shell completions into build/share
	@rm -rf build/share
	@$(PYTHON) -m manual build/share

# The shim needs no Python, and neither does its installation: without .venv the pages made of the command line are left out.
install: ## install shim, exit helper, units and drop-ins below DESTDIR, and what make man makes; PREFIX=/usr/local
	@install -D -m 0755 -t '$(DESTDIR)$(PREFIX)/bin' shell/bootstrap-service-record.sh shell/service-record-exit.sh
	@install -D -m 0644 -t '$(DESTDIR)$(DROP_INS)' units/*
	@sed -i 's|/usr/local/bin|$(PREFIX)/bin|' '$(DESTDIR)$(DROP_INS)'/*
	@if [[ -e $(READY) ]]; then $(PYTHON) -B -m manual '$(DESTDIR)$(PREFIX)/share'; \
		else echo 'No .venv (make man makes it): man pages and completions are left out.' >&2; fi
	@echo 'Installed. To have systemd close the records of every service, link'
	@echo '$(DROP_INS)/10-service-record.conf into /etc/systemd/system/service.d/'

clean: ## remove everything that was made, .venv too
	rm -rf .venv .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml .ci/setup
	@.ci/setup
	@touch $@
