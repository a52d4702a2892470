//! Prometheus' text format 0.0.4.

use std::fmt::Write as _;

use muster_model::metric::{MetricFamily, MetricKind};

/// The content type. Prometheus 3 refuses an answer whose type it does not know.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Families as text, in their order.
pub(crate) fn written(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families.iter().filter(|it| !it.samples.is_empty()) {
        write_family(&mut text, family);
    }
    text
}

// Writing to a string does not fail.
fn write_family(text: &mut String, family: &MetricFamily) {
    let kind = match family.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
    };
    let name = &family.name;
    let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for sample in &family.samples {
        text.push_str(name);
        for (at, (label, value)) in sample.labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(text, "{before}{label}=\"{}\"", escaped(value));
        }
        let after = if sample.labels.is_empty() { "" } else { "}" };
        let _ = writeln!(text, "{after} {}", number(sample.value));
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_labels_are_escaped_and_numbers_are_written_as_prometheus_reads_them() {
        let labels = vec![("a", "x\\y\"z\n{}".to_owned()), ("b", String::new())];
        let family = MetricFamily::new("one", MetricKind::Counter, "A\\B\nC.")
            .with(labels, 1e21)
            .with(Vec::new(), 0.25);
        let other = MetricFamily::gauge("two", "D.", f64::NAN).with(Vec::new(), f64::INFINITY);
        let none = MetricFamily::new("three", MetricKind::Gauge, "E.");
        assert_eq!(
            written(&[family, none, other]),
            "# HELP one A\\\\B\\nC.\n# TYPE one counter\n\
             one{a=\"x\\\\y\\\"z\\n{}\",b=\"\"} 1000000000000000000000\none 0.25\n\
             # HELP two D.\n# TYPE two gauge\ntwo NaN\ntwo +Inf\n"
        );
    }
}
