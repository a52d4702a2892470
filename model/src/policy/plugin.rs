//! Pages of elsewhere that the portal has in its bar.

use serde::{Deserialize, Serialize};

use crate::cluster_spec::SpecProblem;

/// Most plugins of a portal.
pub const PLUGINS_MAX: usize = 16;
/// Longest id, title and address.
const ID_BYTES_MAX: usize = 32;
const TITLE_CHARS_MAX: usize = 40;
const URI_BYTES_MAX: usize = 2048;

/// What the portal shows besides its own pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortalPolicy {
    /// Pages of elsewhere.
    pub plugins: Vec<PortalPlugin>,
}

/// A page of elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortalPlugin {
    /// Its name in addresses.
    pub id: String,
    /// What users read.
    pub title: String,
    /// Where it is: `http` or `https`.
    pub uri: String,
    /// How it is opened.
    #[serde(default)]
    pub opens: PluginPlace,
}

/// How a page of elsewhere is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PluginPlace {
    /// In a frame on a page of the portal.
    #[default]
    Frame,
    /// By a link that leaves the portal.
    Link,
}

impl PortalPlugin {
    /// The scheme and the host with its port, as a content security policy names them; none if the address is not
    /// one that a plugin may have.
    pub fn origin(&self) -> Option<String> {
        let (scheme, authority) = parts(&self.uri).ok()?;
        Some(format!("{scheme}://{authority}").to_ascii_lowercase())
    }

    /// The host without its port.
    pub fn host(&self) -> Option<String> {
        let (_, authority) = parts(&self.uri).ok()?;
        Some(host_of(authority).to_ascii_lowercase())
    }

    fn problem(&self) -> Option<(&'static str, String)> {
        let is_id = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_long = self.id.is_empty() || self.id.len() > ID_BYTES_MAX;
        if is_long || !self.id.bytes().all(is_id) {
            let rule = format!(
                "must be 1 to {ID_BYTES_MAX} of a-z, 0-9 and -, not {:?}",
                self.id
            );
            return Some(("id", rule));
        }
        let chars = self.title.chars().count();
        let is_blank = self.title.trim().is_empty();
        if is_blank || chars > TITLE_CHARS_MAX || self.title.chars().any(char::is_control) {
            let rule = format!("must be a line of at most {TITLE_CHARS_MAX} characters");
            return Some(("title", rule));
        }
        parts(&self.uri).err().map(|why| ("uri", why))
    }
}

/// A host without its port: `[::1]:80` is `[::1]`.
pub fn host_of(authority: &str) -> &str {
    let end = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[end..].find(':') {
        Some(at) => &authority[..end + at],
        None => authority,
    }
}

/// The scheme and the authority of an address, if a page may have it in a frame or a link.
fn parts(uri: &str) -> Result<(&'static str, &str), String> {
    let lower = uri.get(..8).unwrap_or(uri).to_ascii_lowercase();
    let (scheme, rest) = if lower.starts_with("https://") {
        ("https", &uri[8..])
    } else if lower.starts_with("http://") {
        ("http", &uri[7..])
    } else {
        return Err(format!(
            "must begin with https:// or http://, not {:?}: no other scheme is opened",
            uri.chars().take(40).collect::<String>()
        ));
    };
    if uri.len() > URI_BYTES_MAX {
        return Err(format!("must have at most {URI_BYTES_MAX} characters"));
    }
    let is_plain = |b: u8| b.is_ascii_graphic() && !b"\"'<>\\^`{|};,".contains(&b);
    if !uri.bytes().all(is_plain) {
        return Err("must be written in ASCII without spaces, quotes, brackets, `;` and `,`; encode them as %20"
            .to_owned());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_host = |b: u8| b.is_ascii_alphanumeric() || b"-.:[]".contains(&b);
    let host = host_of(authority);
    let port = authority[host.len()..].strip_prefix(':');
    if host.is_empty() || !authority.bytes().all(is_host) {
        return Err("must name a host after the scheme, without a user or a password".to_owned());
    }
    match port.map(str::parse::<u16>) {
        Some(Err(_)) => Err("has a port that is none".to_owned()),
        _ => Ok((scheme, authority)),
    }
}

/// Everything that is wrong with them.
pub(super) fn problems(plugins: &[PortalPlugin]) -> Vec<SpecProblem> {
    if plugins.len() > PLUGINS_MAX {
        let message = format!(
            "has {} entries; at most {PLUGINS_MAX} are shown",
            plugins.len()
        );
        return vec![SpecProblem::new("portal.plugins", message)];
    }
    let mut problems = Vec::new();
    for (at, plugin) in plugins.iter().enumerate() {
        if let Some((field, message)) = plugin.problem() {
            problems.push(SpecProblem::new(
                format!("portal.plugins[{at}].{field}"),
                message,
            ));
        } else if let Some(first) = plugins[..at].iter().position(|it| it.id == plugin.id) {
            let message = format!("is the id of portal.plugins[{first}] too: choose another one");
            problems.push(SpecProblem::new(
                format!("portal.plugins[{at}].id"),
                message,
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::ClusterPolicy;

    #[test]
    fn a_plugin_has_an_address_that_a_browser_may_open() {
        let told = |id: &str, title: &str, uri: &str| {
            let quoted = |text: &str| serde_json::to_string(text).unwrap();
            let (id, title, uri) = (quoted(id), quoted(title), quoted(uri));
            let text = format!("portal: {{plugins: [{{id: {id}, title: {title}, uri: {uri}}}]}}");
            let read = ClusterPolicy::read(&text);
            read.map(drop).map_err(|problems| problems[0].to_string())
        };
        for uri in [
            "https://wiki.example",
            "HTTP://10.0.0.1:8080/x?y=%20#z",
            "http://[::1]:80/",
        ] {
            assert_eq!(told("wiki", "Wiki", uri), Ok(()), "{uri}");
        }
        for (id, title, uri, expect) in [
            (
                "wiki",
                "Wiki",
                "javascript:alert(1)",
                "portal.plugins[0].uri: must begin with https://",
            ),
            ("wiki", "Wiki", "data:text/html,x", "must begin with"),
            ("wiki", "Wiki", "/jobs", "must begin with"),
            ("wiki", "Wiki", "//wiki.example", "must begin with"),
            ("wiki", "Wiki", "https://", "must name a host"),
            ("wiki", "Wiki", "https://u:p@wiki.example", "without a user"),
            (
                "wiki",
                "Wiki",
                "https://wiki.example; script-src *",
                "without spaces",
            ),
            ("wiki", "Wiki", "https://wiki.example:x/", "port"),
            ("wiki", "Wiki", "https://wiki.example/ü", "ASCII"),
            ("Wi ki", "Wiki", "https://w", "portal.plugins[0].id"),
            ("", "Wiki", "https://w", "portal.plugins[0].id"),
            ("wiki", " ", "https://w", "portal.plugins[0].title"),
            ("wiki", "a\nb", "https://w", "portal.plugins[0].title"),
        ] {
            let told = told(id, title, uri).unwrap_err();
            assert!(told.contains(expect), "{uri}: {told}");
        }
    }

    #[test]
    fn an_id_is_that_of_one_plugin() {
        let one = |id: &str| PortalPlugin {
            id: id.to_owned(),
            title: "T".to_owned(),
            uri: "https://Wiki.example:8443/a".to_owned(),
            opens: PluginPlace::Frame,
        };
        assert_eq!(problems(&[one("a"), one("b")]), []);
        let told = problems(&[one("a"), one("a")])[0].to_string();
        assert!(told.contains("portal.plugins[0] too"), "{told}");
        let many: Vec<_> = (0..=PLUGINS_MAX).map(|at| one(&format!("p{at}"))).collect();
        assert!(problems(&many)[0].to_string().contains("at most 16"));
        assert_eq!(
            one("a").origin().as_deref(),
            Some("https://wiki.example:8443")
        );
        assert_eq!(one("a").host().as_deref(), Some("wiki.example"));
        assert_eq!(host_of("[::1]:80"), "[::1]");
        assert_eq!(host_of("n1"), "n1");
    }
}
