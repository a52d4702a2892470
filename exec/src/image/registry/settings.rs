//! How registries are reached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Url};

use crate::image::{ImageError, Reference};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence in the middle of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_HOST: &str = "registry-1.docker.io";
/// The registry that a mirror is asked on behalf of, as containerd says it.
const MIRRORED_QUERY: &str = "ns";

/// How registries are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegistrySettings {
    /// By registry (`docker.io`): base URLs of mirrors, asked in order before the registry
    /// itself. Logins are never sent to them.
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Registries (`host` or `host:port`) that speak plain HTTP. Those on this machine
    /// (`localhost`, 127.0.0.0/8, `::1`) do anyway.
    pub insecure: BTreeSet<String>,
    /// Proxies; without, the usual environment variables count.
    pub proxy: Option<ProxySettings>,
}

/// Proxies to use in place of those of the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxySettings {
    /// For registries that speak plain HTTP.
    pub http: Option<String>,
    /// For all others.
    pub https: Option<String>,
    /// Hosts, domains and networks that are reached directly, separated by commas.
    pub no_proxy: Option<String>,
}

/// A server to ask for an image.
#[derive(Clone, Debug)]
pub(super) struct RegistryEndpoint {
    pub(super) base: Url,
    /// A copy, which gets no login and whose refusals mean nothing.
    pub(super) mirror: bool,
}

impl RegistrySettings {
    /// Finds what cannot be used before the first pull does.
    pub(in crate::image) fn check(&self) -> Result<(), ImageError> {
        for mirror in self.mirrors.values().flatten() {
            Url::parse(mirror).map_err(|e| bad("mirrors", mirror, &e))?;
        }
        self.proxy
            .as_ref()
            .map(ProxySettings::read)
            .transpose()
            .map(drop)
    }

    /// An HTTP client for all registries. A machine without a list of authorities can still
    /// use those that speak plain HTTP.
    pub(in crate::image) fn client(&self) -> Result<Client, ImageError> {
        self.builder()?.build().or_else(|error| {
            tracing::warn!(
                %error,
                "no registry can be reached over TLS; is ca-certificates installed?"
            );
            let without_tls = self.builder()?.tls_certs_only([]).build();
            without_tls.map_err(|e| bad("registries", "", &e))
        })
    }

    /// HTTP/1.1 and few idle connections keep it small.
    fn builder(&self) -> Result<ClientBuilder, ImageError> {
        let mut builder = Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(READ_TIMEOUT);
        if let Some(proxy) = &self.proxy {
            builder = builder.no_proxy();
            for proxy in proxy.read()? {
                builder = builder.proxy(proxy);
            }
        }
        Ok(builder)
    }

    /// Whom to ask for the image, best first.
    pub(super) fn endpoints(&self, image: &Reference) -> Result<Vec<RegistryEndpoint>, ImageError> {
        let registry = &image.registry;
        let mut endpoints = Vec::new();
        for mirror in self.mirrors.get(registry).into_iter().flatten() {
            let base = Url::parse(mirror).map_err(|e| bad("mirrors", mirror, &e))?;
            endpoints.push(RegistryEndpoint {
                base: marked(base, registry),
                mirror: true,
            });
        }
        let host = if registry == DOCKER_HUB {
            DOCKER_HUB_HOST
        } else {
            registry
        };
        let scheme = if self.is_plain(registry) {
            "http"
        } else {
            "https"
        };
        let text = format!("{scheme}://{host}");
        let base = Url::parse(&text).map_err(|_| ImageError::BadName {
            name: image.to_string(),
            reason: "the registry is not a host name or address",
        })?;
        endpoints.push(RegistryEndpoint {
            base,
            mirror: false,
        });
        Ok(endpoints)
    }

    fn is_plain(&self, registry: &str) -> bool {
        self.insecure.contains(registry) || is_local(registry)
    }
}

fn marked(mut base: Url, registry: &str) -> Url {
    base.query_pairs_mut().append_pair(MIRRORED_QUERY, registry);
    base
}

fn is_local(registry: &str) -> bool {
    let host = match registry.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => registry.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl ProxySettings {
    fn read(&self) -> Result<Vec<Proxy>, ImageError> {
        let direct = self.no_proxy.as_deref().and_then(NoProxy::from_string);
        let mut proxies = Vec::new();
        if let Some(url) = &self.http {
            proxies.push(Proxy::http(url).map_err(|e| bad("proxy.http", url, &e))?);
        }
        if let Some(url) = &self.https {
            proxies.push(Proxy::https(url).map_err(|e| bad("proxy.https", url, &e))?);
        }
        Ok(proxies
            .into_iter()
            .map(|proxy| proxy.no_proxy(direct.clone()))
            .collect())
    }
}

fn bad(field: &'static str, value: &str, reason: &dyn std::fmt::Display) -> ImageError {
    ImageError::BadSetting {
        field,
        value: value.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_asked_in_the_set_order_and_way() {
        let mut settings = RegistrySettings::default();
        settings.insecure.insert("lab:5000".to_owned());
        let mirrors = vec!["http://10.0.0.5:5000/hub".to_owned()];
        settings.mirrors.insert("docker.io".to_owned(), mirrors);
        let asked = |name: &str| {
            let endpoints = settings
                .endpoints(&Reference::parse(name).unwrap())
                .unwrap();
            endpoints
                .iter()
                .map(|e| e.base.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        let table = [
            (
                "a",
                "http://10.0.0.5:5000/hub?ns=docker.io https://registry-1.docker.io/",
            ),
            ("ghcr.io/a", "https://ghcr.io/"),
            ("localhost/a", "http://localhost/"),
            ("127.9.9.9:1/a", "http://127.9.9.9:1/"),
            ("[::1]:5000/a", "http://[::1]:5000/"),
            ("lab:5000/a", "http://lab:5000/"),
            ("lab:5001/a", "https://lab:5001/"),
        ];
        for (name, expected) in table {
            assert_eq!(asked(name), expected, "{name}");
        }
        settings.proxy = Some(ProxySettings {
            https: Some("::".into()),
            ..Default::default()
        });
        let error = settings.check().unwrap_err().to_string();
        assert!(error.contains("proxy.https"), "{error}");
    }
}
