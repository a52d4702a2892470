//! The identity provider over HTTPS: what it says of itself, its keys, and ID tokens for codes, those of browsers and
//! those of devices.
//!
//! Whether a token is to be believed is for the gateway to find out; see `portal-gateway/src/oidc/`.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use muster_model::secret::Hidden;
use muster_portal_gateway::port::{
    CodeExchange, DeviceGrant, DeviceOutcome, IdentityProvider, PortError, ProviderMetadata,
};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::OidcSection;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A browser waits meanwhile.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest answer, in bytes: an ID token with hundreds of groups.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long what the provider says of itself is taken for true.
const METADATA_LIFE: Duration = Duration::from_secs(3600);
/// How long its keys are, where none of them is missing.
const KEYS_LIFE: Duration = Duration::from_secs(3600);
/// Keys are read anew for a token that none of them has signed, but not more often than this.
const KEYS_PAUSE: Duration = Duration::from_secs(5);
/// Seconds between two questions after a device code, where the provider does not say: RFC 8628, 3.2.
const DEVICE_INTERVAL_S: u64 = 5;
/// The grant type of the device flow.
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Rights that nobody may have on the file of the client's secret.
const OPEN_MODE: u32 = 0o037;

/// Why there is no provider.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProviderError {
    /// The client's secret.
    #[error("oidc.client_secret_file in agent.toml: {path}: {why}")]
    Secret {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Its HTTP client.
    #[error("no identity provider can be asked")]
    Client(#[source] reqwest::Error),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct HttpIdentityProvider {
    client: Client,
    issuer: String,
    client_id: String,
    secret: Option<Hidden<String>>,
    metadata: Mutex<Option<(Instant, FullMetadata)>>,
    keys: Mutex<Option<(Instant, Vec<Value>)>>,
}

/// What it says of itself.
#[derive(Clone, Debug, Deserialize)]
struct FullMetadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    end_session_endpoint: Option<String>,
    device_authorization_endpoint: Option<String>,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// RFC 8628, 3.2.
#[derive(Deserialize)]
struct DeviceAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: Option<String>,
}

#[derive(Deserialize)]
struct TokenRefusal {
    error: String,
    error_description: Option<String>,
}

impl TokenRefusal {
    /// What it says, in words if it has some.
    fn why(self) -> String {
        self.error_description.unwrap_or(self.error)
    }
}

impl HttpIdentityProvider {
    /// The provider that the configuration names.
    ///
    /// # Errors
    /// When the file of the secret cannot be used.
    pub(crate) fn new(section: &OidcSection, issuer: &str) -> Result<Self, ProviderError> {
        let client = Client::builder()
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(ANSWER_TIMEOUT)
            // What it answers is to be its own.
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(1)
            .build()
            .map_err(ProviderError::Client)?;
        let file = section.client_secret_file.as_ref();
        Ok(Self {
            client,
            issuer: issuer.to_owned(),
            client_id: section.client_id.clone(),
            secret: file.map(secret).transpose()?,
            metadata: Mutex::default(),
            keys: Mutex::default(),
        })
    }

    async fn full_metadata(&self) -> Result<FullMetadata, PortError> {
        if let Some(known) = young(&self.metadata, METADATA_LIFE) {
            return Ok(known);
        }
        let place = format!(
            "{}/.well-known/openid-configuration",
            self.issuer.trim_end_matches('/')
        );
        let read: FullMetadata = self.json(self.get(&place)?).await?;
        if read.issuer != self.issuer {
            return Err(self.silent(format_args!(
                "it calls itself {}; oidc.issuer in agent.toml has to be the same, to the letter",
                read.issuer
            )));
        }
        for place in [
            &read.authorization_endpoint,
            &read.token_endpoint,
            &read.jwks_uri,
        ] {
            safe(place).map_err(|why| self.silent(why))?;
        }
        keep(&self.metadata, read.clone());
        Ok(read)
    }

    fn get(&self, place: &str) -> Result<RequestBuilder, PortError> {
        let url = safe(place).map_err(|why| self.silent(why))?;
        Ok(self.client.get(url))
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, PortError> {
        let (status, body) = self.answer(request).await?;
        if status != StatusCode::OK {
            return Err(self.silent(format_args!("it answers {status}")));
        }
        serde_json::from_slice(&body).map_err(|error| self.silent(error))
    }

    async fn answer(&self, request: RequestBuilder) -> Result<(StatusCode, Vec<u8>), PortError> {
        let sent = request.header(ACCEPT, "application/json").send().await;
        let mut answer = sent.map_err(|error| self.silent(chain(&error)))?;
        let mut body = Vec::new();
        while let Some(part) = answer.chunk().await.map_err(|e| self.silent(chain(&e)))? {
            if body.len() + part.len() > ANSWER_BYTES_MAX {
                return Err(self.silent("its answer is too long"));
            }
            body.extend_from_slice(&part);
        }
        Ok((answer.status(), body))
    }

    /// How this client proves itself: in the header, unless the provider takes the secret in the form alone.
    fn proof(&self, methods: &[String]) -> ClientProof {
        let takes = |name: &str| methods.iter().any(|method| method == name);
        match &self.secret {
            None => ClientProof::None,
            Some(_) if takes("client_secret_post") && !takes("client_secret_basic") => {
                ClientProof::Form
            }
            Some(_) => ClientProof::Header,
        }
    }

    /// A form that this client sends, with its proof that it is the one.
    fn form(
        &self,
        metadata: &FullMetadata,
        place: &str,
        fields: &[(&str, &str)],
    ) -> Result<RequestBuilder, PortError> {
        let url = safe(place).map_err(|why| self.silent(why))?;
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(fields);
        let mut request = self.client.post(url);
        let secret = self.secret.as_ref().map(|secret| secret.0.as_str());
        match self.proof(&metadata.token_endpoint_auth_methods_supported) {
            ClientProof::None => {
                form.append_pair("client_id", &self.client_id);
            }
            ClientProof::Form => {
                form.append_pair("client_id", &self.client_id)
                    .append_pair("client_secret", secret.unwrap_or_default());
            }
            ClientProof::Header => {
                let proof = basic(&self.client_id, secret.unwrap_or_default());
                request = request.header(AUTHORIZATION, proof);
            }
        }
        Ok(request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(form.finish()))
    }

    /// What a form is answered with, or why it is refused.
    async fn formal_answer<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<Result<T, TokenRefusal>, PortError> {
        let (status, body) = self.answer(request).await?;
        if let Ok(refusal) = serde_json::from_slice::<TokenRefusal>(&body) {
            return Ok(Err(refusal));
        }
        if status != StatusCode::OK {
            return Err(self.silent(format_args!("it answers {status}")));
        }
        let answer = serde_json::from_slice(&body).map_err(|error| self.silent(error))?;
        Ok(Ok(answer))
    }

    fn id_token(&self, answer: TokenAnswer) -> Result<String, PortError> {
        let missing = || self.silent("it gives no ID token; is openid among oidc.scopes?");
        answer.id_token.ok_or_else(missing)
    }

    /// What a device code comes with. People are sent to its addresses, so these are looked at.
    fn grant(&self, answer: DeviceAnswer) -> Result<DeviceGrant, PortError> {
        let places = [
            Some(&answer.verification_uri),
            answer.verification_uri_complete.as_ref(),
        ];
        for place in places.into_iter().flatten() {
            safe(place).map_err(|why| self.silent(why))?;
        }
        Ok(DeviceGrant {
            device_code: answer.device_code,
            user_code: answer.user_code,
            verification_uri: answer.verification_uri,
            verification_uri_complete: answer.verification_uri_complete,
            life_s: answer.expires_in,
            interval_s: answer.interval.unwrap_or(DEVICE_INTERVAL_S),
        })
    }

    fn silent(&self, why: impl std::fmt::Display) -> PortError {
        PortError::Unavailable(format!(
            "the identity provider {} cannot be used: {why}",
            self.issuer
        ))
    }
}

enum ClientProof {
    None,
    Header,
    Form,
}

#[async_trait]
impl IdentityProvider for HttpIdentityProvider {
    async fn metadata(&self) -> Result<ProviderMetadata, PortError> {
        let metadata = self.full_metadata().await?;
        Ok(ProviderMetadata {
            authorization_endpoint: metadata.authorization_endpoint,
            end_session_endpoint: metadata.end_session_endpoint,
            has_device_flow: metadata.device_authorization_endpoint.is_some(),
        })
    }

    async fn keys(&self, is_fresh: bool) -> Result<Vec<Value>, PortError> {
        let life = if is_fresh { KEYS_PAUSE } else { KEYS_LIFE };
        if let Some(known) = young(&self.keys, life) {
            return Ok(known);
        }
        let place = self.full_metadata().await?.jwks_uri;
        let read: KeySet = self.json(self.get(&place)?).await?;
        keep(&self.keys, read.keys.clone());
        Ok(read.keys)
    }

    async fn redeem(&self, exchange: &CodeExchange) -> Result<String, PortError> {
        let metadata = self.full_metadata().await?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", exchange.code.as_str()),
            ("redirect_uri", exchange.return_uri.as_str()),
            ("code_verifier", exchange.verifier.as_str()),
        ];
        let request = self.form(&metadata, &metadata.token_endpoint, &form)?;
        match self.formal_answer(request).await? {
            Ok(answer) => self.id_token(answer),
            Err(refusal) => Err(PortError::Forbidden(format!(
                "the identity provider refuses the code: {}",
                refusal.why()
            ))),
        }
    }

    async fn begin_device(&self, scope: &str, challenge: &str) -> Result<DeviceGrant, PortError> {
        let metadata = self.full_metadata().await?;
        let place = metadata.device_authorization_endpoint.as_ref();
        let place = place.ok_or_else(|| self.silent("it has no device_authorization_endpoint"))?;
        let form = [
            ("scope", scope),
            ("code_challenge", challenge),
            ("code_challenge_method", "S256"),
        ];
        let request = self.form(&metadata, place, &form)?;
        match self.formal_answer(request).await? {
            Ok(answer) => self.grant(answer),
            Err(refusal) => Err(PortError::Forbidden(format!(
                "the identity provider refuses a login by the device flow: {}",
                refusal.why()
            ))),
        }
    }

    async fn poll_device(
        &self,
        device_code: &str,
        verifier: &str,
    ) -> Result<DeviceOutcome, PortError> {
        let metadata = self.full_metadata().await?;
        let form = [
            ("grant_type", DEVICE_GRANT),
            ("device_code", device_code),
            ("code_verifier", verifier),
        ];
        let request = self.form(&metadata, &metadata.token_endpoint, &form)?;
        let refusal = match self.formal_answer(request).await? {
            Ok(answer) => return Ok(DeviceOutcome::Granted(self.id_token(answer)?)),
            Err(refusal) => refusal,
        };
        match refusal.error.as_str() {
            "authorization_pending" => Ok(DeviceOutcome::Pending),
            "slow_down" => Ok(DeviceOutcome::SlowDown),
            "access_denied" => Ok(DeviceOutcome::Denied),
            "expired_token" => Ok(DeviceOutcome::Expired),
            _ => Err(PortError::Forbidden(format!(
                "the identity provider refuses the device code: {}",
                refusal.why()
            ))),
        }
    }
}

/// By RFC 6749, both parts are encoded as in a form first.
fn basic(id: &str, secret: &str) -> String {
    let encoded =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encoded(id), encoded(secret));
    format!("Basic {}", STANDARD.encode(pair))
}

/// An address that secrets may be sent to: by TLS, or on this machine.
pub(crate) fn safe(place: &str) -> Result<Url, String> {
    let url = Url::parse(place).map_err(|error| format!("{place:?}: {error}"))?;
    let host = url.host_str().unwrap_or_default();
    let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(format!("{place:?} must begin with https://")),
    }
}

fn secret(path: &PathBuf) -> Result<Hidden<String>, ProviderError> {
    use std::os::unix::fs::PermissionsExt as _;
    let wrong = |why: String| ProviderError::Secret {
        path: path.clone(),
        why,
    };
    let facts = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if facts.permissions().mode() & OPEN_MODE != 0 {
        return Err(wrong(
            "every user of this machine may read it, or its group may change it: chmod 600".into(),
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let text = text.trim();
    match text.is_empty() {
        true => Err(wrong("it is empty".to_owned())),
        false => Ok(Hidden(text.to_owned())),
    }
}

/// What was kept lately.
fn young<T: Clone>(kept: &Mutex<Option<(Instant, T)>>, life: Duration) -> Option<T> {
    let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.as_ref().filter(|(at, _)| at.elapsed() < life);
    kept.map(|(_, value)| value.clone())
}

fn keep<T>(kept: &Mutex<Option<(Instant, T)>>, value: T) {
    *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), value));
}

/// An error with what is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text = format!("{text}: {error}");
        next = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
