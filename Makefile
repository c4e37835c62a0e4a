# The two commands of README.md, and what they need. `cargo xtask help` lists the rest.
# The build cache may live outside the clone; everything works without it.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/atoll/target

.PHONY: demo test release guided setup

demo: setup
	cargo run --quiet --profile quick --package atoll -- demo --data demo-data

test:
	@./.ci/setup tests
	cargo xtask ci

# `target` leads to the build cache, so that target/release/atoll is what was built.
lead_target = @[ -d target -a ! -L target ] || ln -sfn "$$CARGO_TARGET_DIR" target

release: setup
	cargo build --release --package atoll
	$(lead_target)

# As release, guided by a profile of itself: a quarter of an hour, and some tenth faster. It needs
# `rustup component add llvm-tools`, and makes use of PostgreSQL's pgbench if that is there.
guided: setup
	cargo xtask guided
	$(lead_target)

# Installs what is missing where it may, names it where it may not.
setup:
	@./.ci/setup
