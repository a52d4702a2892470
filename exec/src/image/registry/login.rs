//! Logins: what a registry demands, and what is sent for it.

use http_auth::parser::ChallengeParser;
use reqwest::Url;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use serde::Deserialize;

/// What a 401 asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoginChallenge {
    /// User and password with every request.
    Basic,
    /// A token from another server.
    Bearer {
        /// Where to get it.
        realm: String,
        /// For which service, if said.
        service: Option<String>,
        /// For which right, if said.
        scope: Option<String>,
    },
}

impl LoginChallenge {
    /// Reads the first demand that can be met; a token is better than a password.
    pub(super) fn read(headers: &HeaderMap) -> Option<Self> {
        let values = headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|v| v.to_str().ok());
        let all: Vec<Self> = values.flat_map(Self::parse).collect();
        let bearer = all.iter().find(|c| matches!(c, Self::Bearer { .. }));
        bearer.or_else(|| all.first()).cloned()
    }

    fn parse(value: &str) -> Vec<Self> {
        let challenges = ChallengeParser::new(value).map_while(Result::ok);
        challenges
            .filter_map(|challenge| {
                let get = |key: &str| {
                    let found = challenge
                        .params
                        .iter()
                        .find(|(k, _)| k.eq_ignore_ascii_case(key));
                    found.map(|(_, value)| value.to_unescaped())
                };
                if challenge.scheme.eq_ignore_ascii_case("basic") {
                    return Some(Self::Basic);
                }
                let bearer = challenge.scheme.eq_ignore_ascii_case("bearer");
                let realm = get("realm").filter(|_| bearer)?;
                Some(Self::Bearer {
                    realm,
                    service: get("service"),
                    scope: get("scope"),
                })
            })
            .collect()
    }
}

/// The address to get a token from, for pulling from one repository.
pub(super) fn token_url(
    realm: &str,
    service: Option<&str>,
    scope: &str,
    registry: &Url,
) -> Result<Url, &'static str> {
    let mut url = Url::parse(realm).map_err(|_| "it sends us to a token server without address")?;
    if registry.scheme() == "https" && url.scheme() != "https" {
        return Err("it wants the login sent unencrypted");
    }
    let mut query = url.query_pairs_mut();
    if let Some(service) = service {
        query.append_pair("service", service);
    }
    query.append_pair("scope", scope);
    drop(query);
    Ok(url)
}

/// What a token server answers.
#[derive(Deserialize)]
pub(super) struct RegistryToken {
    token: Option<String>,
    access_token: Option<String>,
}

impl RegistryToken {
    pub(super) fn text(self) -> Option<String> {
        self.token
            .or(self.access_token)
            .filter(|token| !token.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_are_read_as_registries_write_them() {
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull""#;
        let bearer =
            |realm: &str, service: Option<&str>, scope: Option<&str>| LoginChallenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
                scope: scope.map(str::to_owned),
            };
        let scope = Some("repository:a/b:pull");
        let full = bearer(
            "https://auth.docker.io/token",
            Some("registry.docker.io"),
            scope,
        );
        let table = [
            (vec![hub], Some(full)),
            (vec![r#"Basic realm="x""#], Some(LoginChallenge::Basic)),
            (
                vec![r#"basic realm="x", Bearer realm="y""#],
                Some(bearer("y", None, None)),
            ),
            (
                vec![r#"Basic realm="x""#, r#"bearer realm="y""#],
                Some(bearer("y", None, None)),
            ),
            (vec!["Negotiate"], None),
            (vec!["\"\""], None),
            (vec![], None),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in &values {
                headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
            }
            assert_eq!(LoginChallenge::read(&headers), expected, "{values:?}");
        }
    }

    #[test]
    fn a_password_never_leaves_an_encrypted_registry_in_clear() {
        let https = Url::parse("https://r").unwrap();
        let http = Url::parse("http://r").unwrap();
        assert!(token_url("http://t/token", None, "s", &https).is_err());
        assert!(token_url("nonsense", None, "s", &https).is_err());
        let url = token_url("http://t/token?a=b", Some("x y"), "r:p", &http).unwrap();
        assert_eq!(url.as_str(), "http://t/token?a=b&service=x+y&scope=r%3Ap");
    }
}
