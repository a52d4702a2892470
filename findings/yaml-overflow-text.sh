#!/bin/sh
# serde-saphyr 2.0.0: with NonFiniteFloatPolicy::AsString, which hands numbers that no float holds to the caller
# as text, a plain scalar that overflows (1e400) comes out as ".inf" and not as it was written. One that is written
# .inf comes out as it was written, so the two cannot be told apart any more.
#
# It matters where a YAML value is text in the end: a parameter 1e400 would go into a shell command as ".inf".
# Muster takes such scalars from the source text (model/src/protocol/written.rs).
#
# Needs cargo. Fails if the behaviour is not there any more.
set -eu
version=2.0.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
cat >"$work/Cargo.toml" <<END
[package]
name = "finding"
version = "0.0.0"
edition = "2024"

[dependencies]
serde-saphyr = "=$version"
serde_json = "1"

[workspace]
END
cat >"$work/src/main.rs" <<'END'
use serde_saphyr::options::NonFiniteFloatPolicy;

fn main() {
    let options = serde_saphyr::options! {
        non_finite_float_policy: NonFiniteFloatPolicy::AsString,
    };
    let text = "{written: 1e400, infinite: .inf, finite: 1e3}";
    let value: Result<serde_json::Value, _> = serde_saphyr::from_str_with_options(text, options);
    match value {
        Ok(value) => println!("{value}"),
        Err(error) => println!("error: {error}"),
    }
}
END
echo "serde-saphyr $version"
seen=$(cd "$work" && cargo run --quiet)
echo "seen:     $seen"
expected='{"finite":1000.0,"infinite":".inf","written":".inf"}'
echo "expected: $expected"
[ "$seen" = "$expected" ]
