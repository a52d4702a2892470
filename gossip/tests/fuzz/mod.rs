//! Random and damaged bytes for every decoder of outside bytes. Here 20,000 inputs each; a
//! million, with memory counted: `cargo run --release -p muster-gossip --example fuzz`.
//!
//! Inputs are mutations of the samples and of `corpus/`, whose files hold one input per line in
//! hex: one for each way to be refused, and whatever was found to break a decoder. They are tried
//! first for ever after.

mod mutate;
mod target;

pub(crate) use mutate::Source;
pub(crate) use target::{FuzzTarget, targets};

#[test]
fn decoders_survive_anything() {
    for target in targets() {
        println!("feeding {}", target.name);
        let mut source = Source::new(&target, 1);
        for _ in 0..20_000 {
            (target.decode)(source.input());
        }
    }
}
