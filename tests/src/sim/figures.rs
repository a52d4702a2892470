//! The figures of a run, and what they have to be.

use serde_json::{Map, Value, json};

/// What was measured; what was not is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Crash to Suspect on every node, p99, ms.
    pub(crate) suspect_p99_ms: Option<f64>,
    /// Crash to Unreachable on every node, p99, ms.
    pub(crate) unreachable_p99_ms: Option<f64>,
    /// Wrongly unreachable nodes in 10,000 node-hours, rounded up.
    pub(crate) false_unreachable: Option<u64>,
    /// Record change to every node, p99, ms.
    pub(crate) record_p99_ms: Option<f64>,
    /// 1 MiB document on every node, p99, ms.
    pub(crate) document_p99_ms: Option<f64>,
    /// Halves healed to identical views, ms.
    pub(crate) heal_ms: Option<f64>,
    /// UDP payload sent when nothing happens, per node and second.
    pub(crate) idle_bytes_s: Option<f64>,
    /// How many node-hours were watched.
    pub(crate) node_hours: f64,
}

impl Figures {
    /// Adds the figures to a line.
    pub(crate) fn write(&self, line: &mut Map<String, Value>) {
        let figures = [
            ("suspect_p99_ms", json!(self.suspect_p99_ms)),
            ("unreachable_p99_ms", json!(self.unreachable_p99_ms)),
            ("false_unreachable", json!(self.false_unreachable)),
            ("record_p99_ms", json!(self.record_p99_ms)),
            ("document_p99_ms", json!(self.document_p99_ms)),
            ("heal_ms", json!(self.heal_ms)),
            ("idle_bytes_s", json!(self.idle_bytes_s)),
            ("node_hours", json!(self.node_hours)),
        ];
        line.extend(figures.map(|(key, value)| (key.to_owned(), value)));
    }
}

/// What must hold for clusters of one size.
struct Column {
    nodes: usize,
    suspect_ms: f64,
    unreachable_ms: f64,
    record_ms: f64,
    document_ms: f64,
    heal_ms: f64,
    idle_bytes_s: f64,
}

const COLUMNS: [Column; 3] = [
    Column {
        nodes: 100,
        suspect_ms: 1_800.0,
        unreachable_ms: 3_000.0,
        record_ms: 30.0,
        document_ms: 300.0,
        heal_ms: 1_000.0,
        idle_bytes_s: 1_500.0,
    },
    Column {
        nodes: 1_000,
        suspect_ms: 1_800.0,
        unreachable_ms: 3_000.0,
        record_ms: 50.0,
        document_ms: 500.0,
        heal_ms: 1_500.0,
        idle_bytes_s: 1_500.0,
    },
    Column {
        nodes: 10_000,
        suspect_ms: 2_000.0,
        unreachable_ms: 3_000.0,
        record_ms: 120.0,
        document_ms: 1_000.0,
        heal_ms: 2_000.0,
        idle_bytes_s: 2_000.0,
    },
];

/// Loss up to which the table promises Unreachable in time, percent.
const UNREACHABLE_LOSS: f64 = 25.0;
/// Loss up to which it promises that nobody is wrongly unreachable, and records in time.
const QUIET_LOSS: f64 = 5.0;

/// The column that judges a cluster: the next one of at least its size, else the last.
fn column(nodes: usize) -> &'static Column {
    let [.., last] = &COLUMNS;
    COLUMNS
        .iter()
        .find(|column| column.nodes >= nodes)
        .unwrap_or(last)
}

/// What views must be identical within after a partition, ms.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
pub(crate) fn heal_bound_ms(nodes: usize) -> u64 {
    column(nodes).heal_ms as u64
}

/// A sentence for each figure of the table that was missed, at `loss` percent.
pub(crate) fn judge(figures: &Figures, nodes: usize, loss: f64) -> Vec<String> {
    let column = column(nodes);
    let always = f64::INFINITY;
    let wrong = figures.false_unreachable.map(|count| count as f64);
    let rows = [
        (
            "suspect_p99_ms",
            figures.suspect_p99_ms,
            column.suspect_ms,
            always,
        ),
        (
            "unreachable_p99_ms",
            figures.unreachable_p99_ms,
            column.unreachable_ms,
            UNREACHABLE_LOSS,
        ),
        ("false_unreachable", wrong, 0.0, QUIET_LOSS),
        (
            "record_p99_ms",
            figures.record_p99_ms,
            column.record_ms,
            QUIET_LOSS,
        ),
        (
            "document_p99_ms",
            figures.document_p99_ms,
            column.document_ms,
            always,
        ),
        ("heal_ms", figures.heal_ms, column.heal_ms, always),
        (
            "idle_bytes_s",
            figures.idle_bytes_s,
            column.idle_bytes_s,
            always,
        ),
    ];
    rows.into_iter()
        .filter(|(.., loss_max)| loss <= *loss_max)
        .filter_map(|(name, value, bound, _)| missed(name, value?, bound))
        .collect()
}

fn missed(name: &str, value: f64, bound: f64) -> Option<String> {
    (value > bound).then(|| format!("{name} is {value}, {bound} was promised"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(nodes: usize, loss: f64, figures: &Figures, expect: &[&str]) {
        let missed = judge(figures, nodes, loss);
        let names: Vec<_> = missed
            .iter()
            .filter_map(|text| text.split(' ').next())
            .collect();
        assert_eq!(names, expect, "{nodes} nodes, {loss} % loss");
    }

    #[test]
    fn the_next_larger_column_judges_and_loss_excuses_some_rows() {
        let figures = Figures {
            suspect_p99_ms: Some(1_900.0),
            unreachable_p99_ms: Some(3_001.0),
            false_unreachable: Some(1),
            record_p99_ms: Some(40.0),
            ..Figures::default()
        };
        let all = [
            "suspect_p99_ms",
            "unreachable_p99_ms",
            "false_unreachable",
            "record_p99_ms",
        ];
        check(100, 5.0, &figures, &all);
        check(5, 5.0, &figures, &all);
        check(101, 5.0, &figures, &all[..3]);
        check(1_001, 5.0, &figures, &all[1..3]);
        check(100, 6.0, &figures, &all[..2]);
        check(100, 26.0, &figures, &all[..1]);
        check(20_000, 5.0, &Figures::default(), &[]);
    }
}
