//! Compiles the C side of `sql::parse` (see src/parse/raw.c for why there is one).

fn main() {
    println!("cargo:rerun-if-changed=src/parse/raw.c");
    cc::Build::new().file("src/parse/raw.c").compile("atoll_raw_parse");
}
