//! Conditional requests, and a second try of a submission.

use serde_json::json;

use super::setup::*;

async fn ask(setup: &Setup, path: &str, headers: &[(&str, &str)]) -> WholeAnswer {
    let mut all = vec![("authorization", ANN)];
    all.extend(headers);
    let request = TestRequest {
        method: "GET",
        path,
        headers: &all,
        body: "",
    };
    setup.ask(request).await
}

const PATHS: [&str; 6] = [
    "/api/v2/jobs",
    "/api/v2/jobs?withTotalCount=true",
    "/api/v2/jobs/ann~job",
    "/api/v2/jobs/ann~job/config",
    "/api/v2/virtual-clusters",
    "/api/v2/virtual-clusters?nodes",
];

#[tokio::test]
async fn who_has_the_answer_gets_no_body() {
    let setup = Setup::new();
    setup.fake.put(waiting("ann~job"));
    for path in PATHS {
        let first = ask(&setup, path, &[]).await;
        let tag = first.header("etag").to_owned();
        assert!(tag.starts_with('"') && tag.len() == 34, "{path}: {tag}");
        let weak = format!("W/{tag}");
        let among = format!("\"other\", {tag}");
        for known in [&*tag, &weak, &among, "*"] {
            let again = ask(&setup, path, &[("if-none-match", known)]).await;
            assert_eq!(
                (again.status.as_u16(), again.text()),
                (304, ""),
                "{path} {known}"
            );
            assert_eq!(again.header("etag"), tag);
            assert_eq!(again.header("access-control-allow-origin"), "*");
        }
        let other = ask(&setup, path, &[("if-none-match", "\"other\"")]).await;
        assert_eq!((other.status.as_u16(), &other.body), (200, &first.body));
    }
    let tag = ask(&setup, "/api/v2/jobs", &[])
        .await
        .header("etag")
        .to_owned();
    setup.fake.put(waiting("ann~second"));
    let changed = ask(&setup, "/api/v2/jobs", &[("if-none-match", &tag)]).await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), tag);
    // The tag of a user is for changes: what their groups allow may have changed without it.
    let tag = ask(&setup, "/api/v2/users/ann", &[])
        .await
        .header("etag")
        .to_owned();
    assert!(!tag.is_empty());
    let again = ask(&setup, "/api/v2/users/ann", &[("if-none-match", &tag)]).await;
    assert_eq!(again.status, 200);
    // What failed is told again.
    let missing = ask(&setup, "/api/v2/jobs/ann~no", &[("if-none-match", "*")]).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn a_compressed_body_has_a_tag_of_its_own() {
    let setup = Setup::new();
    for nth in 0..9 {
        setup.fake.put(waiting(&format!("ann~job{nth}")));
    }
    let gzip = ("accept-encoding", "gzip");
    let plain = ask(&setup, "/api/v2/jobs", &[])
        .await
        .header("etag")
        .to_owned();
    let packed = ask(&setup, "/api/v2/jobs", &[gzip]).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    let tag = packed.header("etag").to_owned();
    assert_eq!(tag, format!("{}-gzip\"", plain.trim_end_matches('"')));
    let again = ask(&setup, "/api/v2/jobs", &[gzip, ("if-none-match", &tag)]).await;
    assert_eq!(
        (again.status.as_u16(), again.header("content-encoding")),
        (304, "")
    );
}

#[tokio::test]
async fn a_second_try_is_told_whether_the_first_was_the_same() {
    let setup = Setup::new();
    let post = async |text| setup.send(ANN, "POST", "/api/v2/jobs", text).await;
    assert_eq!(post("name: one\n").await.status, 202);
    for (text, same) in [("name: one\n", true), ("name: one\ntype: job\n", false)] {
        let refused = post(text).await;
        assert_eq!(refused.status, 409);
        assert_eq!(
            refused.json(),
            json!({"code": "ConflictJobError", "message": "Job ann~one already exists.", "same": same})
        );
    }
}
