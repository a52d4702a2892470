//! Whole lives of tasks: the runner, muster-init and its logger as real processes, on the fake
//! engine.
//!
//! This program stands in for muster-init too: called as the engine calls that, it is that. So
//! no test depends on a binary that was built at another time.

// Test code is all there is here, and a failed step is a failed test.
#![allow(clippy::unwrap_used)]

mod adopt;
mod life;
mod node;

use std::path::Path;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    match args
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [_, "run", ctl] => return muster_init::container::run(Path::new(ctl)),
        [_, "log-dir", dir] => return muster_init::logger::run(Path::new(dir)),
        _ => {}
    }
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    };
    let trials = life::TESTS.iter().chain(adopt::TESTS);
    libtest_mimic::run(
        &Arguments::from_args(),
        trials.map(|(name, test)| trial(name, *test)).collect(),
    )
    .exit_code()
}
