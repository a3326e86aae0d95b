# `make` alone lists the targets. Most need only the Rust toolchain; `docs` needs Python 3.11 or newer instead; `python`, `api` and `sbom`
# need both; `page` needs Node.js too.

.DEFAULT_GOAL := help
.PHONY: help demo test soak day dist storm grid sbom advisories miri tsan python api page bench kernel kernel-oracle guests fuzz lint docs program firewall cargo
# The directory in which rustup installs, in case the shell does not have it yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
target := $(or $(CARGO_TARGET_DIR),target)
falaj := $(target)/release/falaj
# `cargo fmt` does not see modules that a macro declares.
disciplines := $(wildcard crates/falaj-sched/src/disciplines/*.rs crates/falaj-sched/src/disciplines/*/mod.rs)
node_is_new := const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major * 100 + minor < 2019 ? 1 : 0)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /make \1: /p' Makefile

demo: cargo ## build falaj, then show the effect of isolation on real packets, in half a minute
	cargo build --release -p falaj --no-default-features --features plots
	$(falaj) demo

# One selection of packages and features for every command that builds tests, so that nothing is built twice.
tests := --workspace --features falaj/png
# The test program `live` sends packets through kernel interfaces and mostly waits. It has `test = false` in its Cargo.toml, so that
# `cargo test` alone leaves it out. While its tests in real time wait, the other test programs and its tests in virtual time
# compute, at a lower priority.

# The first place in which `falaj kernel` looks, and the place beside the checkout for a kernel that was built elsewhere.
kernel_at := $(or $(FALAJ_KERNEL),$(or $(XDG_DATA_HOME),$(HOME)/.local/share)/falaj/linux)
kernel_beside := ../shared/virtual-time/linux.xz

# The kernel of the tests in virtual time: one that is installed, else one beside the checkout, else one that is built here once. If
# none can be built, those tests are skipped.
built_kernel := $(abspath $(target))/kernel/linux
guest_kernel := $(or $(wildcard $(kernel_at)),$(wildcard /usr/lib/falaj/linux),$(built_kernel))
has_kernel = export FALAJ_KERNEL=$$(test ! -x $(guest_kernel) || echo $(guest_kernel))
# After a failed build the file is missing, so the next run tries again.
$(built_kernel):
	@mkdir -p $(@D); if test -e $(kernel_beside); then xz -dc $(kernel_beside) >$@.part && chmod +x $@.part && mv $@.part $@; \
	else echo "building the kernel of virtual time, once, in about six minutes"; \
	crates/falaj-guest/kernel/build $(@D) || echo "left out: the tests in virtual time, as there is no kernel for it"; fi

test: cargo firewall $(guest_kernel) ## run all tests
	cargo test $(tests) --no-run && cargo test $(tests) --test live --no-run
	@$(has_kernel); { nice cargo test $(tests) --no-fail-fast; computed=$$?; \
	FALAJ_LIVE=virtual nice cargo test $(tests) --no-fail-fast --test live && exit $$computed; } >$(target)/computed.log 2>&1 & computed=$$!; \
	FALAJ_LIVE=real cargo test $(tests) --no-fail-fast --test live; live=$$?; \
	wait $$computed; computed=$$?; cat $(target)/computed.log; exit $$((live || computed))
	@if python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	$(MAKE) --no-print-directory python && \
	$(MAKE) --no-print-directory api CALLS=200; \
	else echo "left out: the package for Python, and malformed calls of the API, which need python3 (3.11 or newer) with venv"; fi
	@if node -e '$(node_is_new)' 2>/dev/null && command -v npm >/dev/null && { command -v chromium >/dev/null || test "$$(id -u)" = 0; }; \
	then $(MAKE) --no-print-directory page; \
	else echo "left out: the dashboard, whose tests need Node.js (20.19 or newer) with npm, and Chromium, which root would install"; fi

# Programs for tests: iptables gives packets to a queue of the firewall, the others give access to the internet without root. Tests of a
# missing one are skipped.
helpers := iptables passt slirp4netns
firewall:
	@mkdir -p $(target); { command -v iptables && command -v pasta && command -v slirp4netns; } >/dev/null || \
	{ test "$$(id -u)" = 0 && { apt-get install -qy --no-install-recommends $(helpers) || \
	{ apt-get update -q && apt-get install -qy --no-install-recommends $(helpers); }; } >$(target)/helpers.log 2>&1; } || true

# `make test` has these tests too, and runs them for seconds.
soak: cargo ## run an hour of mixed traffic with changes at random, and a minute of ten times the rate; memory, rates and clocks must not drift
	for case in ten_times_the_links_rate everything_at_random; do \
	FALAJ_SOAK=$(or $(FALAJ_SOAK),3600) cargo test --release -p falaj --test live -- $$case || exit 1; done

day: cargo $(guest_kernel) ## run a day of mixed traffic with changes at random, in virtual time
	FALAJ_SOAK=$(or $(FALAJ_SOAK),86400) FALAJ_REST=120 cargo test --release -p falaj --test live -- --in-guest everything_at_random

# `make test` has these tests too, and runs them for seconds.
storm: cargo ## send ten million mutated frames through each live backend; good ones beside them must all arrive (FRAMES=N)
	FALAJ_FRAMES=$(or $(FRAMES),10000000) cargo test --release -p falaj --test live -- mutated_frames

# `make test` has these tests too, with one scenario where this draws twenty.
grid: cargo $(guest_kernel) ## compare what is measured in virtual time with what is simulated, packet by packet: for each discipline, twenty scenarios with each of two loads (GRID=N)
	$(has_kernel); FALAJ_GRID=$(or $(GRID),20) cargo test $(tests) --test virtual_time -- grid

# Built with the profile of the tests, as they have compiled some of it already.
python: cargo $(target)/python/tools ## build the package for Python, in an environment of its own; run its tests and the notebooks
	PATH="$(abspath $(target))/python/bin:$$PATH" MATURIN_PEP517_ARGS="--profile dev" pip install --quiet --disable-pip-version-check \
	--force-reinstall --no-deps --no-build-isolation ./bindings/python
	cd bindings/python && $(abspath $(target))/python/bin/python -m pytest -q --color=no -p no:cacheprovider

# The tools of the tests, installed anew when their list changes.
$(target)/python/tools: bindings/python/requirements.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The program is that of the other tests, so that it is not built twice.
api: cargo $(target)/api/tools ## call the API of a service 10,000 times, by its description and against it, while packets pass (CALLS=N)
	cargo test $(tests) --test live --no-run
	tests/api/run $(target)/debug/falaj $(abspath $(target))/api/bin/schemathesis $(or $(CALLS),10000)

$(target)/api/tools: tests/api/requirements.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# The repository has the built dashboard, so that the program is built without Node.js. If the dashboard differs from it, that is an error
# with CI set; else it replaces the old one. The program is that of the other tests, so that it is not built twice.
carried := crates/falaj-serve/src/page
page: cargo page/node_modules/.package-lock.json ## build the dashboard; test it in Chromium, against a service with real packets
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && { apt-get install -qy --no-install-recommends chromium || \
	{ apt-get update -q && apt-get install -qy --no-install-recommends chromium; }; } >$(target)/chromium.log 2>&1; } || \
	{ echo "chromium is missing; the distribution has it: apt-get install chromium" >&2; exit 1; }
	cd page && export NO_COLOR=1 && npm run --silent check && npm test --silent && \
	PAGE_OUT=$(abspath $(target))/page/built npm run --silent build -- --logLevel warn
	diff -rq $(carried) $(target)/page/built || { test -z "$$CI" && cp $(target)/page/built/* $(carried); }
	cargo test $(tests) --test live --no-run
	cd page && NO_COLOR=1 FALAJ=$(abspath $(target))/debug/falaj PICTURES=$(abspath $(target))/page/pictures npm run --silent browser

page/node_modules/.package-lock.json: page/package-lock.json
	npm ci --prefix page --silent --no-audit --no-fund
	touch $@

dist: program ## make a Debian package, a tarball, a wheel and a container's file tree, and install each to see that it works (needs python3 with venv; mmdebstrap and root for the tree)
	packaging/dist && packaging/check

bench: program ## measure the processor cost of falaj and of the programs it is compared with
	$(falaj) bench sim
	$(falaj) bench sched
	$(falaj) bench tcp

kernel: ## build the kernel of virtual time from the distribution's source package, and install it for this user
	crates/falaj-guest/kernel/build $(abspath $(target))/kernel $(kernel_at)

kernel-oracle: program $(guest_kernel) ## compare the kernel's disciplines with ours in virtual time (needs the kernel of `make kernel`)
	FALAJ_KERNEL=$(guest_kernel) $(falaj) bench kernel --virtual-time tests/kernel-oracle/cases/*

guests: program ## join two virtual machines by a link, and Xen's experiments in such machines (needs qemu-system-x86, iperf3)
	tests/guests/run $(falaj)

fuzz: cargo ## run the fuzz targets guided by coverage, ten minutes each (needs g++)
	fuzz/run

miri: cargo ## run unsafe code without system calls under Miri (needs the nightly toolchain with miri and rust-src)
	cargo +nightly miri test -p falaj-plugin-api

# A stable toolchain is enough, with RUSTC_BOOTSTRAP. The tests under loom are left out: they have one thread.
tsan: cargo ## run the rings that processes share under ThreadSanitizer
	export RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer" TSAN_OPTIONS=suppressions=$(abspath .ci/tsan) \
	RUST_TEST_THREADS=1 CARGO_TARGET_DIR=$(target)/tsan host=$$(rustc -vV | sed -n 's/^host: //p') && \
	cargo test --target $$host -p falaj-batch --lib --test hangup && cargo test --target $$host -p falaj-batch --test all -- ring::

lint: cargo ## check format, lints, documentation, and the layout of the code (.ci/house --help)
	@if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then .ci/house --self-test && .ci/house; \
	else echo "left out: the layout of the code (.ci/house), which needs python3 (3.11 or newer)"; fi
	cargo fmt --all --check
	rustfmt --check $(disciplines)
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

docs: $(target)/book-tools/installed ## build the book, every link in it checked
	$(target)/book-tools/bin/sphinx-build -W -n --keep-going -E -q -d $(target)/book-tools/cache docs $(target)/book
	@echo "$(target)/book/index.html"

# In a directory of its own, made anew when a version changes.
$(target)/book-tools/installed: docs/requirements.txt
	python3 -m venv --clear $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

sbom: cargo ## write a bill of materials of the program (CycloneDX)
	cargo metadata --locked --format-version 1 | python3 .ci/sbom Cargo.lock >$(target)/falaj.cdx.json
	@echo "$(target)/falaj.cdx.json"

# The database is fetched from RustSec, or from ADVISORIES, a clone of it. The libraries of the fuzz targets are in no program.
advisories: cargo ## check the locked libraries: advisories, licences, sources (needs cargo-deny; ADVISORIES=CLONE of the database)
	@cargo deny --version || { echo "cargo-deny is missing: cargo install --locked cargo-deny" >&2; exit 1; }
	@export $(if $(ADVISORIES),GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=url.$(abspath $(ADVISORIES)).insteadOf \
	GIT_CONFIG_VALUE_0=https://github.com/RustSec/advisory-db) CARGO_TERM_COLOR=never && \
	cargo deny --locked --config deny.toml check && \
	cargo deny --locked --config deny.toml --manifest-path fuzz/Cargo.toml check -A advisory-not-detected advisories sources
	@mkdir -p $(target); npm audit --prefix page >$(target)/npm-audit.log 2>&1 && tail -1 $(target)/npm-audit.log || { \
	! grep -q "severity" $(target)/npm-audit.log || { cat $(target)/npm-audit.log >&2; exit 1; }; \
	echo "left out, as no npm registry answers: advisories for the libraries that build and test the dashboard"; }

program: cargo
	cargo build --release -p falaj

cargo:
	@command -v cargo >/dev/null || { echo "cargo is missing; get it from https://rustup.rs:" >&2; \
	echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2; exit 1; }
