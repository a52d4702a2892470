//! A query string. Clients build theirs by plain concatenation, so nothing here fails.

/// Names and values in the order given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        Self(
            form_urlencoded::parse(text.as_bytes())
                .into_owned()
                .collect(),
        )
    }

    /// Whether it is there at all, with or without a value.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Its first value, unless that is empty.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Upstream's booleans are the literal word.
    pub(crate) fn is_true(&self, name: &str) -> bool {
        self.text(name) == Some("true")
    }

    /// Every value of a name that may be given several times.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        let those = self.0.iter().filter(|(key, _)| key == name);
        those.map(|(_, value)| value.clone()).collect()
    }

    /// A comma list; empty if absent.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        self.text(name)
            .unwrap_or_default()
            .split(',')
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// A number: `None` if absent, the text itself if it is no number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, String> {
        self.text(name)
            .map(|text| text.parse().map_err(|_| text.to_owned()))
            .transpose()
    }
}
