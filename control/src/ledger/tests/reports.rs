//! Who hears what there is.

use muster_model::id::VcName;

use super::*;

#[test]
fn who_asks_is_told_alone() {
    let mut bench = Bench::new();
    let vc: VcName = "other".parse().unwrap();
    let asks = LedgerInput::Report(Some(vc.clone()));
    let mut out = Vec::new();
    bench.ledger.handle(bench.now, asks, &|_| true, &mut out);
    let told = &*out;
    assert!(
        matches!(told, [LedgerOutput::TellOne(to, Tell::Report(_))] if *to == vc),
        "{told:?}"
    );
}
