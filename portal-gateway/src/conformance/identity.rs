//! What every [`IdentityProvider`] does with one that the fake directs.

use serde_json::json;

use crate::fake::FakeCluster;
use crate::port::{CodeExchange, DeviceOutcome, IdentityProvider, PortError};

fn exchange(code: &str) -> CodeExchange {
    CodeExchange {
        code: code.to_owned(),
        verifier: "v-1".to_owned(),
        return_uri: "https://n1:7741/return".to_owned(),
    }
}

/// `behind` is the provider that is asked, whose device flow is on; `later` lets the time pass after which keys may be
/// read anew.
pub async fn identity(provider: &dyn IdentityProvider, behind: &FakeCluster, later: impl Fn()) {
    let metadata = provider.metadata().await.unwrap();
    assert!(metadata.has_device_flow);
    assert!(metadata.authorization_endpoint.contains("://"));
    assert_eq!(provider.metadata().await.unwrap(), metadata);
    keys(provider, behind, later).await;
    codes(provider, behind).await;
    devices(provider, behind).await;
}

/// Keys stay those of the last time, until they are asked for anew.
async fn keys(provider: &dyn IdentityProvider, behind: &FakeCluster, later: impl Fn()) {
    let key = |id: &str| json!({"kty": "EC", "kid": id});
    behind.publish_keys(vec![key("k1")]);
    assert_eq!(provider.keys(false).await.unwrap(), [key("k1")]);
    behind.publish_keys(vec![key("k2"), key("k3")]);
    assert_eq!(provider.keys(false).await.unwrap(), [key("k1")]);
    later();
    assert_eq!(provider.keys(true).await.unwrap(), [key("k2"), key("k3")]);
    assert_eq!(provider.keys(false).await.unwrap().len(), 2);
}

/// A code is good once.
async fn codes(provider: &dyn IdentityProvider, behind: &FakeCluster) {
    behind.grant_code("c/1 +", "a.b.c");
    refused!(provider.redeem(&exchange("c")), PortError::Forbidden(_));
    let known = exchange("c/1 +");
    assert_eq!(provider.redeem(&known).await.as_deref(), Ok("a.b.c"));
    assert_eq!(behind.code_exchanges().last(), Some(&known));
    refused!(provider.redeem(&known), PortError::Forbidden(_));
}

/// So is a device code, and only with the verifier that it was begun with.
async fn devices(provider: &dyn IdentityProvider, behind: &FakeCluster) {
    // The digest of this verifier: RFC 7636, appendix B.
    let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
    let begin = || provider.begin_device("openid groups", challenge);
    let (first, grant) = (begin().await.unwrap(), begin().await.unwrap());
    assert_ne!(first.device_code, grant.device_code);
    assert!(!grant.user_code.is_empty() && grant.verification_uri.contains("://"));
    assert!(grant.life_s > 0 && grant.interval_s > 0);
    let code = grant.device_code;
    let poll = || provider.poll_device(&code, verifier);
    assert_eq!(poll().await, Ok(DeviceOutcome::Pending));
    behind.settle_device(DeviceOutcome::SlowDown);
    assert_eq!(poll().await, Ok(DeviceOutcome::SlowDown));
    assert_eq!(poll().await, Ok(DeviceOutcome::Pending));
    let granted = DeviceOutcome::Granted("a.b.c".to_owned());
    behind.settle_device(granted.clone());
    let wrong = provider.poll_device(&code, challenge);
    refused!(wrong, PortError::Forbidden(_));
    assert_eq!(poll().await, Ok(granted));
    refused!(poll(), PortError::Forbidden(_));
    refused!(
        provider.poll_device("none", verifier),
        PortError::Forbidden(_)
    );
    for outcome in [DeviceOutcome::Denied, DeviceOutcome::Expired] {
        let code = begin().await.unwrap().device_code;
        behind.settle_device(outcome.clone());
        assert_eq!(provider.poll_device(&code, verifier).await, Ok(outcome));
    }
    refused!(
        provider.begin_device("groups", challenge),
        PortError::Forbidden(_)
    );
}

/// What a provider does whose device flow is off, or none at all.
pub async fn without_devices(provider: &dyn IdentityProvider) {
    if let Ok(metadata) = provider.metadata().await {
        assert!(!metadata.has_device_flow);
    }
    refused!(
        provider.begin_device("openid", "c"),
        PortError::Unavailable(_)
    );
}
