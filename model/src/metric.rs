//! Figures as Prometheus knows them: families of samples with labels.

/// Samples of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its name: letters, digits, `_` and `:`.
    pub name: String,
    /// How it changes.
    pub kind: MetricKind,
    /// What it tells, one sentence.
    pub help: &'static str,
    /// The samples. No two have the same labels.
    pub samples: Vec<MetricSample>,
}

/// How the samples of a family change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only rises, until what it counts begins anew.
    Counter,
    /// It rises and falls.
    Gauge,
}

/// A figure.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The figure, in the unit that the family's name ends with.
    pub value: f64,
}

impl MetricFamily {
    /// A family without samples yet.
    pub fn new(name: impl Into<String>, kind: MetricKind, help: &'static str) -> Self {
        Self {
            name: name.into(),
            kind,
            help,
            samples: Vec::new(),
        }
    }

    /// A gauge of one sample without labels.
    pub fn gauge(name: impl Into<String>, help: &'static str, value: f64) -> Self {
        Self::new(name, MetricKind::Gauge, help).with(Vec::new(), value)
    }

    /// A counter of one sample without labels.
    pub fn counter(name: impl Into<String>, help: &'static str, value: f64) -> Self {
        Self::new(name, MetricKind::Counter, help).with(Vec::new(), value)
    }

    /// The same with one more sample.
    #[must_use]
    pub fn with(mut self, labels: Vec<(&'static str, String)>, value: f64) -> Self {
        self.push(labels, value);
        self
    }

    /// Adds a sample.
    pub fn push(&mut self, labels: Vec<(&'static str, String)>, value: f64) {
        self.samples.push(MetricSample { labels, value });
    }
}
