//! Runs random histories: `histories FIRST COUNT [STEPS]`. Prints each violation and a sum.
#![allow(missing_docs)]

use muster_placement::history::{HistoryTally, run};

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|arg| arg.parse().ok())
        .collect();
    let (first, count) = (
        numbers.first().copied().unwrap_or(0),
        numbers.get(1).copied().unwrap_or(1000),
    );
    let steps = numbers
        .get(2)
        .copied()
        .and_then(|steps| usize::try_from(steps).ok())
        .unwrap_or(150);
    let (mut sum, mut violations) = (HistoryTally::default(), 0);
    for seed in first..first + count {
        match run(seed, steps) {
            Ok(tally) => sum.add(&tally),
            Err(violation) => {
                violations += 1;
                println!("{violation}");
            }
        }
    }
    println!(
        "seeds {first}..{}: {violations} violations; {sum:?}",
        first + count
    );
    std::process::exit(i32::from(violations > 0));
}
