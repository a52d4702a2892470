//! What a hostile client tries: odd paths, forged tokens, guessed passwords, ambiguous requests.

use std::net::IpAddr;

use muster_model::policy::{AccessPolicy, JobVisibility};
use muster_model::state::SubState;
use tokio::io::AsyncWriteExt as _;

use super::serving::{hear_out, serve};
use super::setup::*;
use crate::auth::RouteAccess;
use crate::peer::RemoteEnd;
use crate::route::{ROUTES, Route};

/// A gateway with the job `admin~hush`, which is private.
fn private() -> Setup {
    let setup = Setup::new();
    let mut job = placed("admin~hush", SubState::AttemptRunning);
    job.summary.tags = vec!["unheard".to_owned()];
    setup.fake.put(job);
    let uid = "a-0".parse().unwrap();
    setup.fake.write_log(&uid, "stdout", "unheard\n");
    setup.fake.set_access(AccessPolicy {
        jobs: JobVisibility::Private,
        ..AccessPolicy::default()
    });
    setup
}

#[tokio::test]
async fn no_writing_of_a_path_leads_around_the_check() {
    let setup = private();
    let names = [
        "admin~hush",
        "admin%7Ehush",
        "admin%7ehush",
        "%61dmin~hush",
        "admin%257Ehush",
        "ADMIN~hush",
        "Admin~Hush",
        "admin~hush.",
        "admin~hush%20",
        "admin~hush%00",
        "admin~hush;x=1",
        "admin~hush%3Fx",
        "admin~hush%23",
        "ann~own/../admin~hush",
        "ann~own%2F..%2Fadmin~hush",
        "ann~own%252F..%252Fadmin~hush",
        "ann~own%5C..%5Cadmin~hush",
        "./admin~hush",
        "%2e/admin~hush",
        "/admin~hush",
        "ann~admin~hush",
        "~hush",
        "admin~",
    ];
    let starts = [
        "/api/v2/jobs",
        "/API/V2/Jobs",
        "/rest-server/api/v2/jobs",
        "/Rest-Server/api/v2/jobs",
        "//api/v2/jobs",
        "/./api/v2/jobs",
        "/api/v2/../v2/jobs",
        "/api/v2/jobs/../../v2/jobs",
        "/rest-server/rest-server/api/v2/jobs",
        "/api/muster/v1/jobs",
    ];
    let ends = [
        "",
        "/",
        "/config",
        "/Config/",
        "/events",
        "/job-attempts",
        "/attempts/0",
        "/explanation",
        "/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs",
        "/attempts/0/tasks/worker/0/0/logs/stdout",
    ];
    for start in starts {
        for name in names {
            for end in ends {
                let path = format!("{start}/{name}{end}?username=admin&user=admin");
                let answer = setup.get(ANN, &path).await;
                let status = answer.status.as_u16();
                assert!(matches!(status, 400 | 403 | 404), "{path}: {status}");
                assert!(!answer.text().contains("unheard"), "{path}");
            }
        }
    }
    // One of them is the right one, for the owner.
    let own = setup
        .get(ADMIN, "/Rest-Server/api/v2/jobs/%61dmin%7ehush/")
        .await;
    assert!(own.text().contains("unheard"), "{}", own.text());
}

/// A path that leads to a route, whatever its parameters.
fn path_of(route: &Route) -> String {
    let words = route.pattern.split('/').map(|word| match word {
        "*" => "x",
        word => word
            .trim_start_matches(':')
            .rsplit('|')
            .next()
            .unwrap_or(word),
    });
    format!("/{}", words.collect::<Vec<_>>().join("/"))
}

async fn authorized(setup: &Setup, route: &Route, headers: &[(&str, &str)]) -> u16 {
    let method = route.method.clone().unwrap_or(http::Method::GET);
    let ask = TestRequest {
        method: method.as_str(),
        path: &path_of(route),
        headers,
        body: "",
    };
    setup.ask(ask).await.status.as_u16()
}

#[tokio::test]
async fn no_route_takes_a_token_that_is_none() {
    let setup = private();
    let forged = [
        "",
        "Bearer",
        "Bearer ",
        "Bearer x",
        "Bearer admin-token x",
        "Bearer admin-token,ann-token",
        "Bearer ADMIN-TOKEN",
        "admin-token",
        "Basic",
        "Basic admin-token",
        "Digest admin-token",
        // admin:admin-token: no application token, and one of another user.
        "Basic YWRtaW46YWRtaW4tdG9rZW4=",
        "Basic YWRtaW46cHJvZ3JhbS10b2tlbg==",
        // {"alg":"none"}.{"username":"admin","admin":true}.
        "Bearer eyJhbGciOiJub25lIn0.eyJ1c2VybmFtZSI6ImFkbWluIiwiYWRtaW4iOnRydWV9.",
    ];
    let guarded = || ROUTES.iter().filter(|it| it.access != RouteAccess::Open);
    assert!(guarded().count() >= 60);
    for route in guarded() {
        for token in forged {
            let headers = [("authorization", token)];
            let status = authorized(&setup, route, &headers).await;
            assert_eq!(status, 401, "{} {token:?}", route.pattern);
        }
        // Names of users beside a token do not help.
        let headers = [("x-muster-user", "admin"), ("x-forwarded-user", "admin")];
        let as_guest = match route.access {
            RouteAccess::OpenOrUser => 200,
            _ => 401,
        };
        let status = authorized(&setup, route, &headers).await;
        assert_eq!(status, as_guest, "{}", route.pattern);
    }
}

#[tokio::test]
async fn rights_hold_on_every_route() {
    let setup = private();
    for route in ROUTES {
        let by = async |token: &str| {
            let headers = [("authorization", token), ("x-muster-user", "admin")];
            authorized(&setup, route, &headers).await
        };
        match route.access {
            RouteAccess::Admin => assert_eq!(by(ANN).await, 403, "{}", route.pattern),
            RouteAccess::AdminPerson => {
                assert_eq!(by(ANN).await, 403, "{}", route.pattern);
                assert_eq!(by(PROGRAM).await, 403, "{}", route.pattern);
            }
            RouteAccess::Person => assert_eq!(by(PROGRAM).await, 403, "{}", route.pattern),
            RouteAccess::Open
            | RouteAccess::OpenOrUser
            | RouteAccess::User
            | RouteAccess::Browser
            | RouteAccess::Page
            | RouteAccess::AdminPage => {}
        }
    }
}

async fn log_in(setup: &mut Setup, from: IpAddr, user: &str, password: &str) -> u16 {
    setup.peer = RemoteEnd::Tcp(from);
    let body = format!("username={user}&password={password}");
    let form = "application/x-www-form-urlencoded";
    let ask = TestRequest {
        method: "POST",
        path: "/api/v2/tokens",
        headers: &[("content-type", form)],
        body: &body,
    };
    setup.ask(ask).await.status.as_u16()
}

#[tokio::test]
async fn many_who_guess_from_many_addresses_do_not_lock_the_admin_out() {
    let mut setup = Setup::new();
    for last in 1..=200 {
        let from = [10, 0, 1, last].into();
        for _ in 0..6 {
            let status = log_in(&mut setup, from, "admin", "guessed-it").await;
            assert!(matches!(status, 400 | 429), "{status}");
        }
        assert_eq!(log_in(&mut setup, from, "admin", "guessed-it").await, 429);
        // Nor does the right password come through where one guesses.
        let right = log_in(&mut setup, from, "admin", "admin-password").await;
        assert_eq!(right, 429);
    }
    let own = [10, 0, 2, 1].into();
    assert_eq!(
        log_in(&mut setup, own, "admin", "admin-password").await,
        200
    );
    // One who mistypes is let in at once.
    assert_eq!(log_in(&mut setup, own, "admin", "mistyped").await, 400);
    assert_eq!(
        log_in(&mut setup, own, "admin", "admin-password").await,
        200
    );
    // Root on the node needs no password.
    setup.peer = RemoteEnd::Socket;
    assert_eq!(setup.guest("GET", "/api/v2/users").await.status, 200);
}

#[tokio::test]
async fn one_address_that_guesses_the_passwords_of_many_is_slowed_down_for_each() {
    let mut setup = Setup::new();
    let from = [10, 0, 1, 1].into();
    for nth in 0..100 {
        let user = format!("user{nth}");
        for _ in 0..4 {
            log_in(&mut setup, from, &user, "guessed-it").await;
        }
        let status = log_in(&mut setup, from, &user, "guessed-it").await;
        assert_eq!(status, 429, "{user}");
    }
    let other = [10, 0, 1, 2].into();
    assert_eq!(log_in(&mut setup, other, "ann", "ann-password").await, 200);
}

/// The request that one reader finds in the body of another one, where two readers end a body at different places.
const SECOND: &str = "GET /api/v2/info HTTP/1.1\r\nhost: x\r\n\r\n";

#[tokio::test]
async fn a_request_that_two_readers_would_end_differently_is_refused_with_its_connection() {
    let served = serve(config()).await;
    let chunked = "0\r\n\r\n";
    let heads: [(&str, &str); 17] = [
        (
            "content-length: 5\r\ntransfer-encoding: chunked\r\n",
            chunked,
        ),
        (
            "transfer-encoding: chunked\r\ncontent-length: 5\r\n",
            chunked,
        ),
        (
            "transfer-encoding: chunked\r\ncontent-length: 999\r\n",
            chunked,
        ),
        ("content-length: 0\r\ncontent-length: 44\r\n", ""),
        ("content-length: 44\r\ncontent-length: 0\r\n", ""),
        ("content-length: 0, 44\r\n", ""),
        ("content-length: +0\r\n", ""),
        ("content-length: 0x0\r\n", ""),
        ("content-length: -1\r\n", ""),
        ("content-length: \u{b}0\r\n", ""),
        ("content-length : 0\r\n", ""),
        ("transfer-encoding : chunked\r\n", chunked),
        ("transfer-encoding: xchunked\r\n", chunked),
        ("transfer-encoding: chunked, identity\r\n", chunked),
        (
            "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
            chunked,
        ),
        ("x: a\r\n b\r\n", ""),
        ("x: a\u{0}b\r\n", ""),
    ];
    for (head, body) in heads {
        let mut stream = served.connect().await;
        let request = format!(
            "PUT /api/v2/jobs/ann~x/tag HTTP/1.1\r\nhost: x\r\nauthorization: {ANN}\r\n{head}\r\n{body}{SECOND}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = hear_out(&mut stream).await;
        assert_eq!(text.matches("HTTP/1.1").count(), 1, "{head:?}: {text}");
        assert!(text.starts_with("HTTP/1.1 400"), "{head:?}: {text}");
    }
    served.stop().await;
}

#[tokio::test]
async fn broken_chunks_end_the_connection() {
    let served = serve(config()).await;
    for chunk in [
        "fffffffffffffffff1\r\nx",
        "-1\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5 \r\nhelloXX0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "\r\n\r\n",
    ] {
        let mut stream = served.connect().await;
        let request = format!(
            "PUT /api/v2/jobs/ann~x/tag HTTP/1.1\r\nhost: x\r\nauthorization: {ANN}\r\n\
             transfer-encoding: chunked\r\n\r\n{chunk}{SECOND}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = hear_out(&mut stream).await;
        assert!(text.matches("HTTP/1.1").count() <= 1, "{chunk:?}: {text}");
        assert!(!text.contains("200 OK"), "{chunk:?}: {text}");
    }
    served.stop().await;
}
