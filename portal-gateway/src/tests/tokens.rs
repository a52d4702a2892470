//! Tokens by their ids, over our own routes and the successor's.

use serde_json::{Value, json};

use super::setup::{ADMIN, ANN, PROGRAM, Setup};

const TOKENS: &str = "/api/muster/v1/tokens";

async fn listed(setup: &Setup, token: &str, query: &str) -> Vec<Value> {
    let answer = setup.get(token, &format!("{TOKENS}{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().as_array().unwrap().clone()
}

fn ids(tokens: &[Value]) -> Vec<&str> {
    tokens.iter().map(|it| it["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn tokens_are_listed_without_their_texts() {
    let setup = Setup::new();
    let body = r#"{"name":"build server","expiration":3600}"#;
    let made = setup.send(ANN, "POST", TOKENS, body).await.json();
    assert_eq!(made["token"], "application-of-ann-build server");
    let tokens = listed(&setup, ANN, "").await;
    let build = tokens.last().unwrap();
    assert_eq!(build["id"], made["view"]["id"]);
    assert_eq!(
        *build,
        json!({
            "id": build["id"], "name": "build server", "kind": "application",
            "issuedMs": 1_795_167_174_000_u64, "expiresMs": 1_795_170_774_000_u64,
            "lastUsedMs": null, "address": "10.0.0.1", "current": false,
        })
    );
    let current: Vec<_> = tokens.iter().filter(|it| it["current"] == true).collect();
    assert_eq!(current.len(), 1);
    assert_eq!(current[0]["kind"], "login");
    let text = setup.get(ANN, TOKENS).await;
    assert!(!text.text().contains("ann-token"), "{}", text.text());
}

#[tokio::test]
async fn admins_see_and_revoke_tokens_of_others_and_users_their_own() {
    let setup = Setup::new();
    let of_ann = listed(&setup, ADMIN, "?user=ann").await;
    assert_eq!(of_ann, {
        let mut own = listed(&setup, ANN, "?user=ann").await;
        own.iter_mut().for_each(|it| it["current"] = false.into());
        own
    });
    let program = of_ann
        .iter()
        .find(|it| it["kind"] == "application")
        .unwrap();
    let program = format!("{TOKENS}/{}", program["id"].as_str().unwrap());
    let own = setup.send(ADMIN, "DELETE", &program, "").await;
    assert_eq!(own.status, 404, "not one of the admin's own");
    let revoked = setup
        .send(ADMIN, "DELETE", &format!("{program}?user=ann"), "")
        .await;
    assert_eq!(revoked.status, 200, "{}", revoked.text());
    assert_eq!(setup.get(PROGRAM, "/api/v2/jobs").await.status, 401);
    let again = setup.send(ANN, "DELETE", &program, "").await;
    assert_eq!(again.status, 404);
    assert_eq!(again.json()["code"], "NoTokenError");
    let all = setup
        .send(ANN, "DELETE", &format!("{TOKENS}?user=ann"), "")
        .await;
    assert_eq!(all.json(), json!({"revoked": 1}));
    assert_eq!(setup.get(ANN, "/api/v2/jobs").await.status, 401);
    assert!(!ids(&listed(&setup, ADMIN, "").await).is_empty());
}

#[tokio::test]
async fn what_may_not_be_done_with_tokens_is_refused() {
    let setup = Setup::new();
    let admins = format!("{TOKENS}?user=admin");
    let nobodys = format!("{TOKENS}?user=nobody");
    let odd = format!("{TOKENS}?user=a%20b");
    let no_id = format!("{TOKENS}/junk");
    let unknown = format!("{TOKENS}/00000000000000ff");
    let key = format!("{TOKENS}/key");
    let long = json!({ "name": "x".repeat(65) }).to_string();
    for (token, method, path, body, status, code) in [
        ("", "GET", TOKENS, "", 401, "UnauthorizedUserError"),
        (PROGRAM, "GET", TOKENS, "", 403, "ForbiddenUserError"),
        (PROGRAM, "POST", TOKENS, "", 403, "ForbiddenUserError"),
        (PROGRAM, "DELETE", &unknown, "", 403, "ForbiddenUserError"),
        (ANN, "GET", &admins, "", 403, "ForbiddenUserError"),
        (ANN, "POST", &admins, "", 403, "ForbiddenUserError"),
        (ANN, "DELETE", &admins, "", 403, "ForbiddenUserError"),
        (ANN, "POST", &key, "", 403, "ForbiddenUserError"),
        (
            ANN,
            "DELETE",
            "/api/v2/token",
            "",
            403,
            "ForbiddenUserError",
        ),
        (
            PROGRAM,
            "DELETE",
            "/api/v2/token",
            "",
            403,
            "ForbiddenUserError",
        ),
        (ANN, "DELETE", TOKENS, "", 400, "InvalidParametersError"),
        (ANN, "DELETE", &no_id, "", 404, "NoTokenError"),
        (ANN, "DELETE", &unknown, "", 404, "NoTokenError"),
        (ADMIN, "GET", &nobodys, "", 400, "NoUserError"),
        (ADMIN, "DELETE", &nobodys, "", 400, "NoUserError"),
        (ADMIN, "GET", &odd, "", 400, "NoUserError"),
        (ANN, "POST", TOKENS, &long, 400, "InvalidParametersError"),
        (
            ANN,
            "POST",
            TOKENS,
            r#"{"name":"a\nb"}"#,
            400,
            "InvalidParametersError",
        ),
        (
            ANN,
            "POST",
            TOKENS,
            r#"{"expiration":1}"#,
            400,
            "InvalidParametersError",
        ),
        (
            ANN,
            "POST",
            TOKENS,
            r#"{"other":1}"#,
            400,
            "InvalidParametersError",
        ),
    ] {
        let answer = match token {
            "" => setup.guest(method, path).await,
            token => setup.send(token, method, path, body).await,
        };
        let told = answer.json();
        let got = (answer.status.as_u16(), told["code"].as_str().unwrap());
        assert_eq!(got, (status, code), "{method} {path} {body}");
    }
}

#[tokio::test]
async fn upstreams_route_of_application_tokens_takes_a_name_and_any_other_body() {
    let setup = Setup::new();
    let path = "/api/v2/tokens/application";
    for (body, status) in [
        (r#"{"name":"ci","expiration":60}"#, 200),
        (r#"{"anything":1}"#, 200),
        ("", 200),
        (r#"{"expiration":59}"#, 400),
        (r#"{"name":7}"#, 400),
    ] {
        let answer = setup.send(ANN, "POST", path, body).await;
        assert_eq!(answer.status.as_u16(), status, "{body}: {}", answer.text());
    }
    let tokens = listed(&setup, ANN, "").await;
    let ci = tokens.iter().find(|it| it["name"] == "ci").unwrap();
    assert_eq!(ci["expiresMs"], 1_795_167_234_000_u64);
}

#[tokio::test]
async fn a_login_may_name_its_token() {
    let setup = Setup::new();
    let body = r#"{"username":"ann","password":"ann-password","name":"laptop"}"#;
    let path = "/api/v2/authn/basic/login";
    let answer = setup.send("", "POST", path, body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let tokens = listed(&setup, ANN, "").await;
    assert_eq!(tokens.last().unwrap()["name"], "laptop");
}

#[tokio::test]
async fn the_successors_route_revokes_the_tokens_of_all_users() {
    let setup = Setup::new();
    let answer = setup.send(ADMIN, "DELETE", "/api/v2/token", "").await;
    assert_eq!(
        answer.json(),
        json!({"message": "All tokens revoked successfully"})
    );
    for token in [ADMIN, ANN, PROGRAM] {
        assert_eq!(
            setup.get(token, "/api/v2/jobs").await.status,
            401,
            "{token}"
        );
    }
}

#[tokio::test]
async fn admins_have_another_key_made_and_it_is_recorded() {
    let setup = Setup::new();
    let answer = setup
        .send(ADMIN, "POST", &format!("{TOKENS}/key"), "")
        .await;
    assert_eq!(answer.json(), json!({"key": 2}));
    assert_eq!(setup.get(ANN, "/api/v2/jobs").await.status, 200);
    let log = setup.get(ADMIN, "/api/muster/v1/audit").await.json();
    let record = &log["records"][0];
    assert_eq!(record["action"], "token.rotate-key");
    assert_eq!(record["by"]["user"], "admin");
    assert_eq!(record["by"]["address"], "127.0.0.1");
}
