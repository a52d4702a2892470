//! Logins, rights, errors, and the habits of OpenPAI's server that clients rely on.

use std::num::NonZeroU32;

use serde_json::json;

use super::setup::*;
use crate::peer::RemoteEnd;

const GUEST: &str = "Guest is not allowed to do this operation.";
const INVALID: &str = "Your token is invalid.";

#[tokio::test]
async fn errors_have_upstreams_status_code_and_message() {
    let setup = Setup::new();
    setup.fake.put(waiting("admin~job"));
    let tag = "/api/v2/jobs/admin~job/tag";
    for (token, method, path, body, status, code, message) in [
        (
            "",
            "GET",
            "/api/v2/jobs",
            "",
            401,
            "UnauthorizedUserError",
            GUEST,
        ),
        (
            "",
            "GET",
            "/api/v2/jobs/protocolversion/config",
            "",
            401,
            "UnauthorizedUserError",
            GUEST,
        ),
        (
            "Bearer x",
            "GET",
            "/api/v2/jobs",
            "",
            401,
            "UnauthorizedUserError",
            INVALID,
        ),
        (
            "Digest x",
            "GET",
            "/api/v2/jobs",
            "",
            401,
            "UnauthorizedUserError",
            INVALID,
        ),
        (
            ADMIN,
            "PATCH",
            "/api/v2/jobs",
            "",
            404,
            "NoApiError",
            "API /api/v2/jobs is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/nope",
            "",
            404,
            "NoApiError",
            "API /nope is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs/admin~no",
            "",
            404,
            "NoJobError",
            "Job admin~no is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs/a%20b",
            "",
            404,
            "NoJobError",
            "Job a b is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v1/user/admin/jobs/no",
            "",
            404,
            "NoJobError",
            "Job admin~no is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs/admin~job/attempts/9",
            "",
            404,
            "NoJobError",
            "JobAttemptId 9 is not found in admin~job.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs/admin~job/ssh",
            "",
            404,
            "NoJobSshInfoError",
            "SSH info of job admin~job is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs?limit=50001",
            "",
            400,
            "InvalidParametersError",
            "Limit exceeds max number 50000.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs?limit=abc",
            "",
            400,
            "InvalidParametersError",
            "limit must be a whole number from 0, not \"abc\"",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/jobs?offset=-1",
            "",
            400,
            "InvalidParametersError",
            "offset must be a whole number from 0, not \"-1\"",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/users/no",
            "",
            400,
            "NoUserError",
            "User no is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/groups/no",
            "",
            400,
            "NoGroupError",
            "Group no is not found.",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/virtual-clusters/no",
            "",
            404,
            "NoVirtualClusterError",
            "Vc no not found",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/virtual-clusters/a-b",
            "",
            400,
            "InvalidParametersError",
            "VC name should only contain alpha-numeric and underscore characters",
        ),
        (
            ADMIN,
            "PUT",
            "/api/v2/virtual-clusters/new",
            "{}",
            400,
            "NotImplementedError",
            "updateVc not implemented in k8s",
        ),
        (
            ADMIN,
            "GET",
            "/api/v2/storages/no",
            "",
            404,
            "NoStorageError",
            "Storage no is not found.",
        ),
        (
            ADMIN,
            "PUT",
            tag,
            "{\"value\":\"a\",\"z\":1}",
            400,
            "InvalidParametersError",
            "\"z\" is not allowed",
        ),
        (
            ADMIN,
            "PUT",
            tag,
            "",
            400,
            "InvalidParametersError",
            "child \"value\" fails because [\"value\" is required]",
        ),
        (
            ADMIN,
            "DELETE",
            tag,
            "{\"value\":\"no\"}",
            404,
            "NoTagError",
            "Tag no is not found.",
        ),
        (
            ADMIN,
            "POST",
            "/api/v2/jobs",
            "name: job",
            409,
            "ConflictJobError",
            "Job admin~job already exists.",
        ),
        (
            ADMIN,
            "POST",
            "/api/v2/jobs",
            "",
            400,
            "InvalidProtocolError",
            "[{\"keyword\":\"type\",\"dataPath\":\"\",\"schemaPath\":\"#/type\",\
             \"params\":{\"type\":\"object\"},\"message\":\"should be object\"}]",
        ),
        (
            ANN,
            "PUT",
            tag,
            "{\"value\":\"a\"}",
            403,
            "ForbiddenUserError",
            "User ann is not allowed to do this operation on job admin~job.",
        ),
        (
            ANN,
            "PUT",
            "/api/v2/jobs/admin~no/tag",
            "{\"value\":\"a\"}",
            404,
            "NoJobError",
            "Job admin~no is not found.",
        ),
        (
            ANN,
            "GET",
            "/api/muster/v1/node",
            "",
            403,
            "ForbiddenUserError",
            "Non-admin is not allow to do this operation.",
        ),
        (
            ANN,
            "DELETE",
            "/api/v2/tokens/admin-token",
            "",
            404,
            "NoTokenError",
            "The token is not found among yours; it may have expired.",
        ),
        (
            PROGRAM,
            "GET",
            "/api/v2/tokens",
            "",
            403,
            "ForbiddenUserError",
            "Applications are not allowed to do this operation.",
        ),
    ] {
        let answer = setup.send(token, method, path, body).await;
        let want = json!({"code": code, "message": message});
        let mut told = answer.json();
        // Ours, beside what upstream answers.
        let errors = told.as_object_mut().unwrap().remove("errors");
        assert_eq!(errors.is_some(), code == "InvalidProtocolError", "{told}");
        let got = (answer.status.as_u16(), told);
        assert_eq!(got, (status, want), "{method} {path} {body}");
    }
    // No header is another guest than an empty one.
    let answer = setup.guest("GET", "/api/v2/jobs").await;
    assert_eq!(answer.json()["message"], GUEST);
}

#[tokio::test]
async fn errors_outside_openpai_have_no_code() {
    let setup = Setup::new();
    setup.fake.put(waiting("admin~job"));
    let path = "/api/v2/jobs/admin~job/tag";
    let answer = setup.send(ADMIN, "PUT", path, "{\"value\":").await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json(),
        json!({"message": "Unexpected end of JSON input"})
    );

    let large = format!("name: big\n# {}", "x".repeat(1024 * 1024));
    let answer = setup.send(ADMIN, "POST", "/api/v2/jobs", &large).await;
    assert_eq!(answer.status, 413);
    assert_eq!(
        answer.json(),
        json!({"message": "request entity too large: at most 1048576 bytes are taken here"})
    );
    let fits = format!("name: big\n# {}", "x".repeat(1000 * 1024));
    assert_eq!(
        setup
            .send(ADMIN, "POST", "/api/v2/jobs", &fits)
            .await
            .status,
        202
    );
}

#[tokio::test]
async fn logins() {
    let setup = Setup::new();
    let form = "application/x-www-form-urlencoded";
    let json_type = "application/json";
    let login = "username=ann&password=ann-password&expiration=4000";
    for (path, kind, body, status, want) in [
        (
            "/api/v2/authn/basic/login",
            form,
            login,
            200,
            "token-of-ann",
        ),
        (
            "/rest-server/api/v1/authn/basic/login",
            form,
            login,
            200,
            "token-of-ann",
        ),
        ("/api/v2/tokens", form, login, 200, "token-of-ann"),
        (
            "/api/v1/token",
            json_type,
            r#"{"username":"ann","password":"ann-password"}"#,
            200,
            "token-of-ann",
        ),
        (
            "/api/v1/token",
            json_type,
            r#"{"username":"no","password":"abcdef"}"#,
            400,
            "NoUserError",
        ),
        (
            "/api/v1/token",
            json_type,
            r#"{"username":"ann","password":"abcdef"}"#,
            400,
            "IncorrectPasswordError",
        ),
        (
            "/api/v1/token",
            json_type,
            r#"{"username":"ann","password":"abc"}"#,
            400,
            "InvalidParametersError",
        ),
    ] {
        let answer = setup
            .ask(TestRequest {
                method: "POST",
                path,
                headers: &[("content-type", kind)],
                body,
            })
            .await;
        let got = answer.json();
        assert_eq!(answer.status.as_u16(), status, "{path} {body}");
        let key = if status == 200 { "token" } else { "code" };
        assert_eq!(got[key], want, "{path} {body}");
    }
}

async fn log_in(setup: &Setup, user: &str, password: &str) -> WholeAnswer {
    let body = format!("username={user}&password={password}");
    let form = "application/x-www-form-urlencoded";
    setup
        .ask(TestRequest {
            method: "POST",
            path: "/api/v2/tokens",
            headers: &[("content-type", form)],
            body: &body,
        })
        .await
}

#[tokio::test]
async fn wrong_passwords_delay_the_user_at_that_address_alone() {
    let mut setup = Setup::new();
    for _ in 0..4 {
        let answer = log_in(&setup, "ann", "wrong-password").await;
        assert_eq!(answer.json()["code"], "IncorrectPasswordError");
    }
    let refused = log_in(&setup, "ann", "ann-password").await;
    assert_eq!(refused.status, 429, "{}", refused.text());
    assert_eq!(refused.header("retry-after"), "1");
    let refused = refused.json();
    assert_eq!(refused["code"], "TooManyLoginsError");
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("try again in 1 s"), "{message}");
    assert_eq!(
        log_in(&setup, "admin", "admin-password").await.status,
        200,
        "another user"
    );
    setup.peer = RemoteEnd::Tcp([10, 0, 0, 9].into());
    assert_eq!(
        log_in(&setup, "ann", "ann-password").await.status,
        200,
        "another address"
    );
    setup.peer = RemoteEnd::Socket;
    for _ in 0..6 {
        log_in(&setup, "ann", "wrong-password").await;
    }
    assert_eq!(
        log_in(&setup, "ann", "ann-password").await.status,
        200,
        "root has no need to guess"
    );
}

#[tokio::test]
async fn names_that_there_are_not_are_counted_too() {
    let setup = Setup::new();
    for name in ["no", "no", "no", "no"] {
        assert_eq!(log_in(&setup, name, "password").await.status, 400);
    }
    assert_eq!(log_in(&setup, "no", "password").await.status, 429);
}

#[tokio::test]
async fn too_many_logins_at_a_time_are_told_when_to_try_again() {
    let setup = Setup::new();
    setup.fake.crowd();
    let answer = log_in(&setup, "ann", "ann-password").await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), "1");
    assert_eq!(answer.json()["code"], "TooManyLoginsError");
}

#[tokio::test]
async fn tokens_are_checked_listed_issued_and_revoked() {
    let setup = Setup::new();
    assert_eq!(
        setup.get(ANN, "/api/v2/tokens/check").await.json(),
        json!({"username": "ann", "application": false, "jobSpecific": false,
            "encodedFrameworkName": "", "iat": 1_795_167_174, "exp": 1_795_771_974,
            "admin": false})
    );
    let check = setup.get(PROGRAM, "/api/v2/tokens/check").await.json();
    assert!(check["application"] == true && check.get("exp").is_none());

    let issued = setup
        .send(ANN, "POST", "/api/v2/tokens/application", "{}")
        .await;
    let want = json!({"token": "application-of-ann", "application": true});
    assert_eq!(issued.json(), want);
    // Base64 of user:token.
    for (basic, status) in [
        ("Basic YW5uOmFwcGxpY2F0aW9uLW9mLWFubg==", 200), // ann:application-of-ann
        ("Basic YWRtaW46YXBwbGljYXRpb24tb2YtYW5u", 401), // admin:application-of-ann
        ("Basic YW5uOmFubi10b2tlbg==", 401),             // ann:ann-token
        ("Basic !", 401),
    ] {
        let answer = setup.get(basic, "/api/v2/jobs").await;
        assert_eq!(answer.status.as_u16(), status, "{basic}");
    }
    let revoked = setup
        .send(ANN, "DELETE", "/api/v2/tokens/application-of-ann", "")
        .await;
    assert_eq!(revoked.json(), json!({"message": "revoke successfully"}));
    let tokens = setup.get(ANN, "/api/v2/tokens").await.json();
    assert_eq!(tokens, json!({"tokens": ["ann-token", "program-token"]}));
    let out = setup
        .send(ANN, "DELETE", "/api/v2/authn/basic/logout", "")
        .await;
    assert_eq!(out.json(), json!({"message": "Logout successfully"}));
    assert_eq!(setup.get(ANN, "/api/v2/jobs").await.status, 401);
}

#[tokio::test]
async fn the_socket_is_root_and_names_the_user() {
    let mut setup = Setup::new();
    setup.peer = RemoteEnd::Socket;
    let submit = |headers: &'static [(&'static str, &'static str)]| TestRequest {
        method: "POST",
        path: "/api/v2/jobs",
        headers,
        body: "name: job",
    };
    for (headers, status, message) in [
        (&[][..], 202, "Update job job for user admin successfully."),
        (
            &[("x-muster-user", "bob")][..],
            202,
            "Update job job for user bob successfully.",
        ),
        (
            &[("x-muster-user", "a b")][..],
            400,
            "x-muster-user: user name \"a b\" is not valid: use letters, digits, '_', '.' and \
             '-', at most 255 of them",
        ),
    ] {
        let answer = setup.ask(submit(headers)).await;
        assert_eq!(answer.status.as_u16(), status);
        assert_eq!(answer.json()["message"], message);
    }
    assert_eq!(setup.guest("GET", "/api/muster/v1/node").await.status, 200);
}

#[tokio::test]
async fn secrets_in_a_users_extension_are_their_own() {
    let setup = Setup::new();
    for (token, has_key) in [(ADMIN, true), (ANN, false)] {
        let user = setup.get(token, "/api/v2/users/admin").await.json();
        assert_eq!(user["extension"].get("jobSSH").is_some(), has_key);
        assert_eq!(user["extension"]["mark"], "plain");
    }
    let own = setup.get(ANN, "/api/v1/user/ann").await.json();
    assert!(own["extension"].get("jobSSH").is_some());
}

#[tokio::test]
async fn pages_of_other_origins_may_ask() {
    let setup = Setup::new();
    let answer = setup
        .ask(TestRequest {
            method: "OPTIONS",
            path: "/api/v2/jobs",
            headers: &[("access-control-request-headers", "authorization,x-y")],
            body: "",
        })
        .await;
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(
        answer.header("access-control-allow-methods"),
        "GET,HEAD,PUT,PATCH,POST,DELETE"
    );
    assert_eq!(
        answer.header("access-control-allow-headers"),
        "authorization,x-y"
    );
    let answer = setup.guest("GET", "/api/v2/jobs").await;
    assert_eq!(
        answer.header("access-control-allow-origin"),
        "*",
        "on errors too"
    );
}

#[tokio::test]
async fn strangers_are_counted_and_local_callers_are_not() {
    let mut config = config();
    config.rates.api_per_minute = NonZeroU32::new(3).unwrap();
    config.rates.list_per_minute = NonZeroU32::new(1).unwrap();
    let mut setup = Setup::with(config);
    for _ in 0..5 {
        assert_eq!(setup.get(ANN, "/api/v2/jobs").await.status, 200);
    }
    setup.peer = RemoteEnd::Tcp([10, 0, 0, 9].into());
    assert_eq!(setup.get(ANN, "/api/v2/jobs").await.status, 200);
    let second = setup.get(ANN, "/api/v2/jobs").await;
    assert_eq!(second.header("x-ratelimit-limit"), "1", "listings");
    assert_eq!(
        setup.get(ADMIN, "/api/v2/jobs").await.status,
        200,
        "another user"
    );
    let fourth = setup.get(ADMIN, "/api/v2/info").await;
    assert_eq!(fourth.status, 429);
    assert_eq!(fourth.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(fourth.header("x-ratelimit-limit"), "3", "all requests");
    assert_ne!(fourth.header("retry-after"), "");
    assert_eq!(fourth.text(), "Too many requests, please try again later.");
}

#[tokio::test]
async fn large_answers_are_packed_for_those_who_take_it() {
    use std::io::Read as _;
    let setup = Setup::new();
    for number in 0..50 {
        setup.fake.put(waiting(&format!("admin~job{number}")));
    }
    let plain = setup.get(ADMIN, "/api/v2/jobs").await;
    let packed = setup
        .ask(TestRequest {
            method: "GET",
            path: "/api/v2/jobs",
            headers: &[
                ("authorization", ADMIN),
                ("accept-encoding", "br, gzip;q=0.5"),
            ],
            body: "",
        })
        .await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.len() < plain.body.len() / 5);
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed.body[..])
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, plain.text());
    assert_eq!(plain.header("content-encoding"), "");
}

#[tokio::test]
async fn pages_are_packed_and_their_form_keys_differ_each_time() {
    use std::io::Read as _;
    let setup = Setup::new();
    let mut texts = Vec::new();
    for _ in 0..2 {
        let ask = TestRequest {
            method: "GET",
            path: "/submit",
            headers: &[
                ("cookie", "muster_session=ann-token"),
                ("accept-encoding", "gzip"),
            ],
            body: "",
        };
        let packed = setup.ask(ask).await;
        assert_eq!(packed.header("content-encoding"), "gzip");
        assert_eq!(packed.header("vary"), "Accept-Encoding");
        // A page of another origin may not read a page of the portal, packed or not.
        assert_eq!(packed.header("access-control-allow-origin"), "");
        let mut text = String::new();
        let mut plain = flate2::read::GzDecoder::new(&packed.body[..]);
        plain.read_to_string(&mut text).unwrap();
        assert!(packed.body.len() < text.len() / 2);
        texts.push(text);
    }
    let keys = texts.iter().map(|text| {
        let (_, rest) = text.split_once("name=\"form_key\" value=\"").unwrap();
        let keys: Vec<_> = text.matches("name=\"form_key\" value=\"").collect();
        let key = rest.split_once('"').unwrap().0;
        assert_eq!(
            text.matches(key).count(),
            keys.len(),
            "one key in each answer"
        );
        key
    });
    let keys: Vec<_> = keys.collect();
    assert_ne!(keys[0], keys[1]);
}
