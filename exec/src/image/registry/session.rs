//! One image's conversation with its registry and the registry's mirrors.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use muster_model::launch::RegistryAuth;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RANGE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use tokio::sync::Mutex;

use super::login::{LoginChallenge, RegistryToken, token_url};
use super::settings::{RegistryEndpoint, RegistrySettings};
use crate::image::document::{
    DOCKER_INDEX, DOCKER_MANIFEST, Descriptor, ImageDocument, MANIFEST_BYTES_MAX, OCI_INDEX,
    OCI_MANIFEST,
};
use crate::image::origin::RegistryAccess;
use crate::image::{Digest, ImageError, ImageVersion, Reference};

/// Largest answer of a token server.
const TOKEN_BYTES_MAX: u64 = 256 << 10;
/// As much of a registry's own words as a message has room for.
const REASON_CHARS_MAX: usize = 300;
const REASON_BYTES_MAX: u64 = 64 << 10;
/// As much of an answer's own word for what it is.
const KIND_CHARS_MAX: usize = 80;
/// A token server answers at once or not at all.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);

/// A blob on its way.
#[derive(Debug)]
pub(in crate::image) struct BlobBody {
    response: Response,
    registry: String,
    /// The byte of the blob that the answer begins with.
    pub(in crate::image) offset: u64,
}

impl BlobBody {
    /// More bytes; `None` at the end.
    pub(in crate::image) async fn next(&mut self) -> Result<Option<bytes::Bytes>, ImageError> {
        self.response
            .chunk()
            .await
            .map_err(|e| transport(&self.registry, &e))
    }
}

/// Keeps the login of each server for as long as one pull takes.
#[derive(Debug)]
pub(in crate::image) struct RegistrySession {
    http: Client,
    image: Reference,
    auth: Option<RegistryAuth>,
    /// The registry that the caller's login is for, where that is another one.
    login_elsewhere: Option<String>,
    /// A server was told the login.
    login_told: AtomicBool,
    servers: Vec<Server>,
    /// A mirror sent what is not what it was asked for: none is asked any more.
    without_mirrors: AtomicBool,
}

#[derive(Debug)]
struct Server {
    endpoint: RegistryEndpoint,
    authorization: Mutex<Option<HeaderValue>>,
}

/// Servers that are left to ask, and what those before said.
struct Round<'a> {
    servers: std::slice::Iter<'a, Server>,
    of_mirrors: String,
    /// A mirror did not answer, or failed, and may be back.
    mirror_failed: bool,
}

impl Round<'_> {
    /// A server did not help. The end of it all, with what the mirrors said, unless it is a mirror.
    fn failed(&mut self, server: &Server, error: ImageError) -> Result<(), ImageError> {
        if server.endpoint.mirror {
            tracing::info!(mirror = server.name(), %error, "mirror did not help");
            self.of_mirrors += &format!("; mirror {}", without_kind(&error));
            self.mirror_failed |= matches!(error, ImageError::Registry { .. });
            return Ok(());
        }
        Err(match error {
            ImageError::Registry { registry, reason } => ImageError::Registry {
                registry,
                reason: reason + &self.of_mirrors,
            },
            // Where all images come by way of mirrors the registry's own name need not be known.
            ImageError::UnknownHost { registry, reason } if self.mirror_failed => {
                ImageError::Registry {
                    registry,
                    reason: format!(
                        "its host name cannot be resolved ({reason}){}",
                        self.of_mirrors
                    ),
                }
            }
            other => other,
        })
    }
}

/// A path on a server, with what to say along.
struct RegistryRequest<'a> {
    path: String,
    accept: &'a str,
    range: Option<u64>,
}

impl RegistrySession {
    pub(in crate::image) fn new(
        http: Client,
        settings: &RegistrySettings,
        image: Reference,
        auth: Option<RegistryAuth>,
    ) -> Result<Self, ImageError> {
        let endpoints = settings.endpoints(&image)?;
        let servers = endpoints.into_iter().map(Server::new).collect();
        let (auth, elsewhere) = match auth.filter(is_given) {
            Some(auth) if is_for(&auth, &image) => (Some(auth), None),
            other => (None, other.map(|auth| auth.registry)),
        };
        Ok(Self {
            http,
            image,
            auth,
            login_elsewhere: elsewhere,
            login_told: AtomicBool::new(false),
            servers,
            without_mirrors: AtomicBool::new(false),
        })
    }

    /// Whether the image can be had without the login that this session has used. Where that cannot be
    /// found out, it counts as needed.
    pub(in crate::image) async fn access(&self, version: &ImageVersion) -> RegistryAccess {
        if !self.login_told.load(Ordering::Relaxed) {
            return RegistryAccess::Open;
        }
        let servers = self.servers.iter().map(|server| server.endpoint.clone());
        let nobody = Self {
            http: self.http.clone(),
            image: self.image.clone(),
            auth: None,
            login_elsewhere: None,
            login_told: AtomicBool::new(false),
            servers: servers.map(Server::new).collect(),
            without_mirrors: AtomicBool::new(false),
        };
        match nobody.manifest(version.as_str()).await {
            Ok(_) => RegistryAccess::Open,
            Err(_) => RegistryAccess::Login,
        }
    }

    /// Asks the registry alone from now on: something came that is damaged.
    pub(in crate::image) fn distrust_mirrors(&self) {
        self.without_mirrors.store(true, Ordering::Relaxed);
    }

    /// The manifest or index that the version points to, with its digest.
    pub(in crate::image) async fn manifest(
        &self,
        version: &str,
    ) -> Result<(Vec<u8>, Digest), ImageError> {
        let mut round = self.round();
        while let Some(server) = round.servers.next() {
            match self.manifest_of(server, version).await {
                Ok(answer) => return Ok(answer),
                Err(error) => round.failed(server, error)?,
            }
        }
        Err(self.not_found("no registry"))
    }

    async fn manifest_of(
        &self,
        server: &Server,
        version: &str,
    ) -> Result<(Vec<u8>, Digest), ImageError> {
        let accept = [OCI_INDEX, DOCKER_INDEX, OCI_MANIFEST, DOCKER_MANIFEST].join(", ");
        let ask = RegistryRequest {
            path: format!("manifests/{version}"),
            accept: &accept,
            range: None,
        };
        let response = self.ask_one(server, &ask).await?;
        let header = |name: &str| {
            let value = response.headers().get(name)?.to_str().ok()?;
            Some(value.to_owned())
        };
        let kind = header("content-type");
        let told = header("docker-content-digest");
        let told = Digest::parse(version).or_else(|| told.as_deref().and_then(Digest::parse));
        let what = || format!("manifest of {}", self.image);
        let bytes = bounded(response, MANIFEST_BYTES_MAX, server.name(), what).await?;
        if !ImageDocument::is_one(&bytes) {
            return Err(server.wrong_answer("manifest", kind.as_deref()));
        }
        let found = Digest::of(&bytes);
        match told {
            Some(told) if told != found => {
                let reason = format!("its digest is {found} instead of {told}");
                Err(ImageError::Digest {
                    what: what(),
                    reason,
                })
            }
            _ => Ok((bytes, found)),
        }
    }

    /// A blob from some byte on, or from its start where the server knows no better.
    pub(in crate::image) async fn blob(
        &self,
        blob: &Descriptor,
        from: u64,
    ) -> Result<BlobBody, ImageError> {
        let mut round = self.round();
        while let Some(server) = round.servers.next() {
            match self.blob_of(server, blob, from).await {
                Ok(answer) => return Ok(answer),
                Err(error) => round.failed(server, error)?,
            }
        }
        Err(self.not_found("no registry"))
    }

    async fn blob_of(
        &self,
        server: &Server,
        blob: &Descriptor,
        from: u64,
    ) -> Result<BlobBody, ImageError> {
        let range = (from > 0).then_some(from);
        let ask = RegistryRequest {
            path: format!("blobs/{}", blob.digest),
            accept: "*/*",
            range,
        };
        let response = self.ask_one(server, &ask).await?;
        let offset = if response.status() == StatusCode::PARTIAL_CONTENT {
            from
        } else {
            0
        };
        let rest = blob.size.saturating_sub(offset);
        if response.content_length().is_some_and(|bytes| bytes != rest) {
            let kind = response.headers().get(CONTENT_TYPE);
            return Err(server.wrong_answer("blob", kind.and_then(|kind| kind.to_str().ok())));
        }
        Ok(BlobBody {
            response,
            registry: server.name().to_owned(),
            offset,
        })
    }

    /// Whom to ask, one after the other. What a mirror lacks or refuses says nothing about the image, so
    /// the registry itself has the last word.
    fn round(&self) -> Round<'_> {
        let without_mirrors = self.without_mirrors.load(Ordering::Relaxed);
        let from = match without_mirrors {
            true => self
                .servers
                .iter()
                .position(|server| !server.endpoint.mirror),
            false => None,
        };
        Round {
            servers: self.servers[from.unwrap_or(0)..].iter(),
            of_mirrors: String::new(),
            mirror_failed: false,
        }
    }

    async fn ask_one(
        &self,
        server: &Server,
        ask: &RegistryRequest<'_>,
    ) -> Result<Response, ImageError> {
        let response = self.send(server, ask).await?;
        let response = match response.status() {
            StatusCode::UNAUTHORIZED => {
                self.log_in(server, response).await?;
                self.send(server, ask).await?
            }
            _ => response,
        };
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(server.name(), response).await)
    }

    async fn send(
        &self,
        server: &Server,
        ask: &RegistryRequest<'_>,
    ) -> Result<Response, ImageError> {
        let url = server.url(&self.image.repository, &ask.path);
        let mut request = self
            .http
            .request(Method::GET, url)
            .header(ACCEPT, ask.accept);
        if let Some(from) = ask.range {
            request = request.header(RANGE, format!("bytes={from}-"));
        }
        if let Some(authorization) = server.authorization.lock().await.clone() {
            request = request.header(AUTHORIZATION, authorization);
        }
        request
            .send()
            .await
            .map_err(|e| transport(server.name(), &e))
    }

    /// Gets what the answer demands; also again when a token has run out in the middle.
    async fn log_in(&self, server: &Server, refused: Response) -> Result<(), ImageError> {
        let challenge = LoginChallenge::read(refused.headers());
        let auth = self.auth.as_ref().filter(|_| !server.endpoint.mirror);
        let authorization = match (challenge, auth) {
            (
                Some(LoginChallenge::Bearer {
                    realm,
                    service,
                    scope,
                }),
                _,
            ) => {
                let scope =
                    scope.unwrap_or_else(|| format!("repository:{}:pull", self.image.repository));
                let base = &server.endpoint.base;
                let url = token_url(&realm, service.as_deref(), &scope, base)
                    .map_err(|reason| self.unauthorized(server.name(), reason))?;
                format!("Bearer {}", self.token(server, url).await?)
            }
            (Some(LoginChallenge::Basic), Some(auth)) => {
                self.login_told.store(true, Ordering::Relaxed);
                basic(auth)
            }
            (Some(LoginChallenge::Basic), None) => {
                return Err(self.unauthorized(server.name(), "it wants a login, and none is set"));
            }
            (None, _) => return Err(self.refusal(server.name(), refused).await),
        };
        let mut value = HeaderValue::from_str(&authorization)
            .map_err(|_| self.unauthorized(server.name(), "the login has odd characters"))?;
        value.set_sensitive(true);
        *server.authorization.lock().await = Some(value);
        Ok(())
    }

    async fn token(&self, server: &Server, url: Url) -> Result<String, ImageError> {
        let name = url.host_str().unwrap_or_default().to_owned();
        let request = self.http.get(url).timeout(TOKEN_TIMEOUT);
        let response = self.with_login(server, request).send().await;
        let response = response.map_err(|e| transport(&name, &e))?;
        if !response.status().is_success() {
            return Err(self.refusal(&name, response).await);
        }
        let what = || format!("token of {name}");
        let bytes = bounded(response, TOKEN_BYTES_MAX, &name, what).await?;
        let token: Option<RegistryToken> = serde_json::from_slice(&bytes).ok();
        token
            .and_then(RegistryToken::text)
            .ok_or_else(|| ImageError::Registry {
                registry: name,
                reason: "the token server sent no token".to_owned(),
            })
    }

    fn with_login(&self, server: &Server, request: RequestBuilder) -> RequestBuilder {
        match &self.auth {
            Some(auth) if !server.endpoint.mirror => {
                self.login_told.store(true, Ordering::Relaxed);
                request.basic_auth(&auth.username, Some(&auth.password))
            }
            _ => request,
        }
    }

    /// Sorts a refusal into final ones and those worth another try.
    async fn refusal(&self, registry: &str, response: Response) -> ImageError {
        let status = response.status();
        let text = bounded(response, REASON_BYTES_MAX, registry, String::new).await;
        let reason = words(status, &text.unwrap_or_default());
        match status {
            StatusCode::NOT_FOUND => self.not_found(registry),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                self.unauthorized(registry, &reason)
            }
            _ => ImageError::Registry {
                registry: registry.to_owned(),
                reason,
            },
        }
    }

    fn not_found(&self, registry: &str) -> ImageError {
        ImageError::NotFound {
            reference: self.image.to_string(),
            registry: registry.to_owned(),
        }
    }

    fn unauthorized(&self, registry: &str, reason: &str) -> ImageError {
        let reason = match &self.login_elsewhere {
            Some(elsewhere) => format!(
                "{reason}; the job's login is for {elsewhere} and was not sent to {}",
                self.image.registry
            ),
            None => reason.to_owned(),
        };
        ImageError::Unauthorized {
            reference: self.image.to_string(),
            registry: registry.to_owned(),
            reason,
        }
    }
}

impl Server {
    fn new(endpoint: RegistryEndpoint) -> Self {
        Self {
            endpoint,
            authorization: Mutex::default(),
        }
    }

    /// It said that all is well, and sent something else: a captive portal or a proxy does.
    fn wrong_answer(&self, wanted: &str, kind: Option<&str>) -> ImageError {
        let kind: String = kind
            .unwrap_or("something")
            .chars()
            .take(KIND_CHARS_MAX)
            .collect();
        let found = if kind.starts_with("text/html") {
            format!("a web page ({kind})")
        } else {
            format!("something else ({kind})")
        };
        ImageError::Registry {
            registry: self.name().to_owned(),
            reason: format!("it answered with {found} where a {wanted} was to come"),
        }
    }

    fn name(&self) -> &str {
        let base = &self.endpoint.base;
        let start = base
            .as_str()
            .split_once("://")
            .map_or(base.as_str(), |(_, rest)| rest);
        start.split(['/', '?']).next().unwrap_or(start)
    }

    fn url(&self, repository: &str, path: &str) -> Url {
        let mut url = self.endpoint.base.clone();
        let prefix = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{prefix}/v2/{repository}/{path}"));
        url
    }
}

fn basic(auth: &RegistryAuth) -> String {
    use base64::Engine as _;
    let pair = format!("{}:{}", auth.username, auth.password);
    format!(
        "Basic {}",
        base64::engine::general_purpose::STANDARD.encode(pair)
    )
}

/// Whether a login is for the image's registry; it is never sent to another. The registry may
/// be written as Docker's own files have it: `https://index.docker.io/v1/`.
fn is_for(auth: &RegistryAuth, image: &Reference) -> bool {
    let host = auth
        .registry
        .split_once("://")
        .map_or(&*auth.registry, |(_, rest)| rest);
    let host = match host.split('/').next().unwrap_or_default() {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    };
    host.is_empty() || host == image.registry
}

/// Whether there is anything to send.
fn is_given(auth: &RegistryAuth) -> bool {
    !auth.username.is_empty() || !auth.password.is_empty()
}

/// An error of a mirror without the words that say it is one of a registry.
fn without_kind(error: &ImageError) -> String {
    match error {
        ImageError::Registry { registry, reason } => format!("{registry}: {reason}"),
        other => other.to_string(),
    }
}

/// Reads an answer of bounded size.
async fn bounded(
    mut response: Response,
    max: u64,
    registry: &str,
    what: impl Fn() -> String,
) -> Result<Vec<u8>, ImageError> {
    let mut data = Vec::new();
    while let Some(part) = response
        .chunk()
        .await
        .map_err(|e| transport(registry, &e))?
    {
        let bytes = (data.len() + part.len()) as u64;
        if bytes > max {
            return Err(ImageError::TooLarge {
                what: what(),
                bytes,
                max,
            });
        }
        data.extend_from_slice(&part);
    }
    Ok(data)
}

/// What a registry says about a failure, on one line.
fn words(status: StatusCode, body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<RegistryMessage>,
    }
    #[derive(serde::Deserialize)]
    struct RegistryMessage {
        #[serde(default)]
        code: String,
        #[serde(default)]
        message: String,
    }
    let said: Vec<String> = serde_json::from_slice::<Errors>(body)
        .map(|e| {
            e.errors
                .iter()
                .map(|e| format!("{} {}", e.code, e.message))
                .collect()
        })
        .unwrap_or_default();
    let said: String = said.join("; ").replace(char::is_control, " ");
    let said: String = said.chars().take(REASON_CHARS_MAX).collect();
    if said.is_empty() {
        status.to_string()
    } else {
        format!("{status}: {said}")
    }
}

/// How the HTTP client begins to tell of a failed look-up of a host name: it has no kind for that.
const RESOLVING: &str = "dns error";

/// A failure on the way, told with its innermost cause and without the address, which may
/// hold a token.
fn transport(registry: &str, error: &reqwest::Error) -> ImageError {
    let mut cause: &dyn std::error::Error = error;
    let mut is_resolving = false;
    while let Some(source) = cause.source() {
        cause = source;
        is_resolving |= cause.to_string().starts_with(RESOLVING);
    }
    if is_resolving {
        return ImageError::UnknownHost {
            registry: registry.to_owned(),
            reason: cause.to_string(),
        };
    }
    let reason = if error.is_timeout() {
        "no answer in time".to_owned()
    } else if error.is_connect() {
        format!("no connection: {cause}")
    } else {
        format!("the connection broke: {cause}")
    };
    ImageError::Registry {
        registry: registry.to_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_goes_to_its_own_registry_only() {
        let table = [
            ("", "a", true),
            ("docker.io", "a", true),
            ("https://index.docker.io/v1/", "a", true),
            ("ghcr.io", "ghcr.io/a", true),
            ("ghcr.io", "a", false),
            ("docker.io", "evil.io/a", false),
            ("lab:5000", "lab:5001/a", false),
        ];
        for (registry, image, sent) in table {
            let mut auth = RegistryAuth {
                username: "u".to_owned(),
                password: "p".to_owned(),
                registry: registry.to_owned(),
            };
            let image = Reference::parse(image).unwrap();
            assert_eq!(is_for(&auth, &image), sent, "{registry} {image}");
            (auth.username, auth.password) = Default::default();
            assert!(!is_given(&auth), "nothing to send");
        }
    }

    /// `.invalid` is reserved: no name service knows anything below it.
    fn at_an_unknown_host(mirror: Option<&str>) -> RegistrySession {
        let mut settings = RegistrySettings::default();
        if let Some(mirror) = mirror {
            let base = vec![mirror.to_owned()];
            settings.mirrors.insert("nosuch.invalid".to_owned(), base);
        }
        let image = Reference::parse("nosuch.invalid/x:1").unwrap();
        let http = settings.client().unwrap();
        RegistrySession::new(http, &settings, image, None).unwrap()
    }

    #[tokio::test]
    async fn a_host_name_that_cannot_be_resolved_is_told_from_other_failures() {
        let error = at_an_unknown_host(None).manifest("1").await.unwrap_err();
        assert!(matches!(error, ImageError::UnknownHost { .. }), "{error:?}");
        assert!(error.is_transient());
        let text = error.to_string();
        assert!(text.contains("nosuch.invalid: its host name"), "{text}");
        // Nobody listens there: the mirror may be back.
        let session = at_an_unknown_host(Some("http://127.0.0.1:1"));
        let error = session.manifest("1").await.unwrap_err();
        assert!(matches!(error, ImageError::Registry { .. }), "{error:?}");
    }

    #[test]
    fn refusals_are_told_in_the_registrys_words() {
        let said = br#"{"errors":[{"code":"DENIED","message":"no\npay"},{"code":"X"}]}"#;
        let table: [(&[u8], &str); 2] = [
            (said, "403 Forbidden: DENIED no pay; X "),
            (b"<html>", "403 Forbidden"),
        ];
        for (body, expected) in table {
            assert_eq!(words(StatusCode::FORBIDDEN, body), expected);
        }
    }
}
