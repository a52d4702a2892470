//! An identity provider in memory, which signs with real keys.

use std::collections::BTreeMap;

use async_trait::async_trait;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::FakeCluster;
use crate::port::{CodeExchange, IdentityProvider, PortError, ProviderMetadata};

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
}
