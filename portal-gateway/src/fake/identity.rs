//! An identity provider in memory, which signs with real keys.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::FakeCluster;
use crate::oidc::flight::challenge;
use crate::port::{
    CodeExchange, DeviceGrant, DeviceOutcome, IdentityProvider, PortError, ProviderMetadata,
};

/// What it calls itself.
pub const ISSUER: &str = "https://id.example";

#[derive(Debug, Default)]
pub(super) struct FakeIdentity {
    /// What is published.
    keys: Vec<Value>,
    /// What was published when it was asked last.
    known: Vec<Value>,
    /// ID tokens by code, each good once.
    codes: BTreeMap<String, String>,
    /// How codes were redeemed.
    exchanges: Vec<CodeExchange>,
    /// Whether it has no device flow.
    is_without_devices: bool,
    /// Device codes that were given.
    devices: Vec<FakeDevice>,
}

/// A device code, while it is good.
#[derive(Debug)]
struct FakeDevice {
    code: String,
    challenge: String,
    /// What comes of it; none: nobody has used it yet.
    outcome: Option<DeviceOutcome>,
}

/// A key of P-256 with its number.
#[derive(Debug)]
pub struct SigningKey {
    pair: EcdsaKeyPair,
    pkcs8: Vec<u8>,
    /// Its name.
    pub id: String,
}

impl SigningKey {
    /// One of this name; none where the system has no randomness.
    pub fn new(id: &str) -> Option<Self> {
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &SystemRandom::new()).ok()?;
        Some(Self {
            pair: EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref()).ok()?,
            pkcs8: pkcs8.as_ref().to_vec(),
            id: id.to_owned(),
        })
    }

    /// Its private part, in DER.
    pub fn private_der(&self) -> &[u8] {
        &self.pkcs8
    }

    /// Its public part.
    pub fn jwk(&self) -> Value {
        let point = &self.pair.public_key().as_ref()[1..];
        let (x, y) = point.split_at(point.len() / 2);
        json!({
            "kty": "EC",
            "crv": "P-256",
            "use": "sig",
            "alg": "ES256",
            "kid": self.id,
            "x": URL_SAFE_NO_PAD.encode(x),
            "y": URL_SAFE_NO_PAD.encode(y),
        })
    }
}

impl FakeCluster {
    /// The provider publishes these keys from now on.
    pub fn publish_keys(&self, keys: Vec<Value>) {
        self.state().identity.keys = keys;
    }

    /// The provider gives this ID token for a code, once.
    pub fn grant_code(&self, code: &str, id_token: &str) {
        let codes = &mut self.state().identity.codes;
        codes.insert(code.to_owned(), id_token.to_owned());
    }

    /// The provider has a device flow, or none.
    pub fn set_device_flow(&self, has_one: bool) {
        self.state().identity.is_without_devices = !has_one;
    }

    /// This comes of the newest device code; once, if it is an ID token.
    pub fn settle_device(&self, outcome: DeviceOutcome) {
        if let Some(device) = self.state().identity.devices.last_mut() {
            device.outcome = Some(outcome);
        }
    }

    /// How codes were redeemed so far.
    pub fn code_exchanges(&self) -> Vec<CodeExchange> {
        self.state().identity.exchanges.clone()
    }
}

#[async_trait]
impl IdentityProvider for FakeCluster {
    async fn metadata(&self) -> Result<ProviderMetadata, PortError> {
        Ok(ProviderMetadata {
            authorization_endpoint: format!("{ISSUER}/auth?tenant=1"),
            end_session_endpoint: Some(format!("{ISSUER}/end")),
            has_device_flow: !self.state().identity.is_without_devices,
        })
    }

    async fn keys(&self, is_fresh: bool) -> Result<Vec<Value>, PortError> {
        let identity = &mut self.state().identity;
        if is_fresh || identity.known.is_empty() {
            identity.known = identity.keys.clone();
        }
        Ok(identity.known.clone())
    }

    async fn redeem(&self, exchange: &CodeExchange) -> Result<String, PortError> {
        let identity = &mut self.state().identity;
        identity.exchanges.push(exchange.clone());
        let token = identity.codes.remove(&exchange.code);
        token.ok_or_else(|| PortError::Forbidden("the code is not valid".to_owned()))
    }

    async fn begin_device(&self, scope: &str, challenge: &str) -> Result<DeviceGrant, PortError> {
        let identity = &mut self.state().identity;
        if identity.is_without_devices {
            return Err(PortError::Unavailable("it has no device flow".to_owned()));
        }
        if !scope.split(' ').any(|one| one == "openid") {
            return Err(PortError::Forbidden("openid is missing".to_owned()));
        }
        let code = format!("device-{}", identity.devices.len() + 1);
        identity.devices.push(FakeDevice {
            code: code.clone(),
            challenge: challenge.to_owned(),
            outcome: None,
        });
        Ok(DeviceGrant {
            device_code: code,
            user_code: "WDJB-MJHT".to_owned(),
            verification_uri: format!("{ISSUER}/device"),
            verification_uri_complete: Some(format!("{ISSUER}/device?user_code=WDJB-MJHT")),
            life_s: 600,
            interval_s: 5,
        })
    }

    async fn poll_device(
        &self,
        device_code: &str,
        verifier: &str,
    ) -> Result<DeviceOutcome, PortError> {
        let unknown = || PortError::Forbidden("the device code is not valid".to_owned());
        let devices = &mut self.state().identity.devices;
        let found = devices.iter().position(|it| it.code == device_code);
        let at = found.ok_or_else(unknown)?;
        if devices[at].challenge != challenge(verifier) {
            return Err(unknown());
        }
        let outcome = devices[at].outcome.clone();
        let outcome = outcome.unwrap_or(DeviceOutcome::Pending);
        match outcome {
            DeviceOutcome::Pending => {}
            // The next question comes in time.
            DeviceOutcome::SlowDown => devices[at].outcome = None,
            _ => drop(devices.remove(at)),
        }
        Ok(outcome)
    }
}
