//! Feeds every decoder of outside bytes with a million damaged inputs and counts the memory that
//! each takes:
//!
//! ```text
//! cargo run --release -p muster-gossip --example fuzz -- --inputs 1000000 --seed 1
//! ```
//!
//! Ends with status 1 on a panic, on memory beyond what the input's length pays for, and on
//! memory that is not given back. The input at fault is printed as the line to add to `corpus/`.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[path = "../tests/fuzz/mod.rs"]
mod fuzz;
#[path = "../tests/samples/mod.rs"]
mod samples;

use fuzz::{FuzzTarget, Source};

/// Bytes that a decoder may allocate for each byte of its input, and for every input.
const MEMORY_PER_BYTE_MAX: usize = 64;
const MEMORY_BASE_MAX: usize = 64 << 10;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(live, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `System` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn main() -> ExitCode {
    let inputs = option("--inputs").unwrap_or(1_000_000);
    let seed = option("--seed").unwrap_or(1);
    let wrong = fuzz::targets()
        .iter()
        .filter(|target| !survives(target, inputs, seed))
        .count();
    ExitCode::from(u8::from(wrong > 0))
}

/// The number that follows a word of the command line.
fn option(name: &str) -> Option<u64> {
    let mut words = std::env::args().skip_while(|word| word != name).skip(1);
    words.next()?.parse().ok()
}

fn survives(target: &FuzzTarget, inputs: u64, seed: u64) -> bool {
    let mut source = Source::new(target, seed);
    let mut peak = 0;
    for number in 0..inputs {
        let input = source.input();
        match fed(target, input) {
            Ok(bytes) => peak = peak.max(bytes),
            Err(fault) => {
                let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
                eprintln!(
                    "{} at input {number} {fault}; corpus/{0}.hex: {hex}",
                    target.name
                );
                return false;
            }
        }
    }
    println!(
        "{}: {inputs} inputs, at most {peak} bytes allocated for one",
        target.name
    );
    true
}

/// The bytes it took to decode this.
fn fed(target: &FuzzTarget, input: &[u8]) -> Result<usize, String> {
    let before = LIVE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let decoded = catch_unwind(AssertUnwindSafe(|| (target.decode)(input)));
    decoded.map_err(|_| "panicked".to_owned())?;
    let (peak, after) = (PEAK.load(Relaxed) - before, LIVE.load(Relaxed));
    if after > before {
        return Err(format!("kept {} bytes", after - before));
    }
    if peak > MEMORY_BASE_MAX + MEMORY_PER_BYTE_MAX * input.len() {
        return Err(format!("took {peak} bytes for {} of input", input.len()));
    }
    Ok(peak)
}
