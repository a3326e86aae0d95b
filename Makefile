# `make` alone says what there is. Only the Rust toolchain is needed.

.DEFAULT_GOAL := help
.PHONY: help demo test bench lint program cargo
# Where rustup puts it, should the shell not know yet.
export PATH := $(PATH):$(HOME)/.cargo/bin
falaj := $(or $(CARGO_TARGET_DIR),target)/release/falaj

help: ## say what there is
	@sed -n 's/^\([a-z]*\):.*## /make \1: /p' Makefile

demo: program ## see what isolation is worth, on real packets, in a minute
	$(falaj) demo

test: cargo ## run all tests
	cargo test --workspace --no-fail-fast

bench: program ## measure what falaj costs, beside what it is compared with
	$(falaj) bench sim
	$(falaj) bench sched
	$(falaj) bench tcp

lint: cargo ## check format, lints and documentation
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

program: cargo
	cargo build --release -p falaj

cargo:
	@command -v cargo >/dev/null || { echo "cargo is missing; get it from https://rustup.rs:" >&2; \
	echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2; exit 1; }
