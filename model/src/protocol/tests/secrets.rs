//! Where secrets go and where they must not.

use super::super::{MASK, Secrets, remarks, upstream_message};
use super::{SMALLEST, invalid, valid};

const SECRET_JOB: &str = "\
protocolVersion: 2
name: job
type: job
secrets:
  token: hunter2
  quoted: p&\"q<
  registry: {password: swordfish, keys: [one, 2]}
  nothing: null
prerequisites:
  - type: dockerimage
    name: literal
    uri: a
    auth: {username: u, password: letmein, registryuri: r.io}
  - type: dockerimage
    name: referred
    uri: b
    auth: {username: u, password: '<% $secrets.registry.password %>'}
taskRoles:
  first:
    dockerImage: literal
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands: ['login <% $secrets.token %>']
  second:
    dockerImage: referred
    resourcePerInstance: {cpu: 1, memoryMB: 1, gpu: 0}
    commands: ['run']
";

#[test]
fn the_shown_document_and_the_spec_hold_no_secret() {
    let protocol = valid(SECRET_JOB);
    let (config, secrets) = protocol.split_secrets();
    let spec = protocol.job_spec().unwrap();
    let shown = format!("{config} {spec:?} {protocol:?} {secrets:?}");
    for secret in ["hunter2", "p&", "swordfish", "letmein"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert_eq!(config["secrets"], MASK);
    assert_eq!(config["prerequisites"][0]["auth"]["password"], MASK);
    let kept = "<% $secrets.registry.password %>";
    assert_eq!(config["prerequisites"][1]["auth"]["password"], kept);
    let keys: Vec<_> = config.as_object().unwrap().keys().cloned().collect();
    let expect = [
        "protocolVersion",
        "name",
        "type",
        "secrets",
        "prerequisites",
        "taskRoles",
    ];
    assert_eq!(keys, expect);
}

#[test]
fn the_node_gets_every_secret_back() {
    let protocol = valid(SECRET_JOB);
    let (_, secrets) = protocol.split_secrets();
    // Also through a format that does not describe itself.
    let sealed = postcard::to_allocvec(&secrets).unwrap();
    let secrets: Secrets = postcard::from_bytes(&sealed).unwrap();
    let spec = protocol.job_spec().unwrap();
    let passwords: Vec<_> = spec
        .roles
        .iter()
        .map(|role| secrets.render(&role.image_auth.as_ref().unwrap().password))
        .collect();
    assert_eq!(passwords, ["letmein", "swordfish"]);
    assert_eq!(secrets.render(&spec.roles[0].entrypoint), "login hunter2");
}

#[test]
fn secrets_are_put_in_raw_and_nothing_else_changes() {
    let (_, secrets) = valid(SECRET_JOB).split_secrets();
    let rows = [
        ("<% $secrets.quoted %>", "p&\"q<"),
        ("a<%$secrets.registry.keys[1]%>b", "a2b"),
        ("<% $secrets.registry.keys %>", "one,2"),
        ("<% $secrets.unknown %>", "<% $secrets.unknown %>"),
        ("<% $secrets.nothing %>", "<% $secrets.nothing %>"),
        ("<% $secrets.registry %>", "<% $secrets.registry %>"),
        (
            "<% $parameters.x %> <% open <% $secrets.token %>",
            "<% $parameters.x %> <% open hunter2",
        ),
        (" spaces stay \n", " spaces stay \n"),
        ("%> <%", "%> <%"),
    ];
    for (text, rendered) in rows {
        assert_eq!(secrets.render(text), rendered);
    }
}

#[test]
fn a_job_without_secrets_has_none() {
    let (config, secrets) = valid(SMALLEST).split_secrets();
    assert!(secrets.is_empty());
    assert_eq!(config.get("secrets"), None);
}

/// Also where it stands as what it cannot be.
#[test]
fn what_is_wrong_is_told_without_a_secret() {
    let image = "{type: dockerimage, name: image, uri: 'repo/image:1'";
    let auth = |auth: &str| SMALLEST.replace(image, &format!("{image}, auth: {auth}"));
    let rows = [
        (format!("{SMALLEST}secrets: 271828\n"), ".secrets"),
        (format!("{SMALLEST}secrets: {{a: b, 271828, 271828}}\n"), ""),
        (auth("271828"), ".prerequisites[0].auth"),
        (auth("'u:271828'"), ".prerequisites[0].auth"),
        (
            auth("{username: u, password: 271828}"),
            ".prerequisites[0].auth.password",
        ),
    ];
    for (text, path) in rows {
        let problems = invalid(&text);
        let told = remarks(&problems);
        let shown = format!("{told:?} {}", upstream_message(&problems));
        assert!(!shown.contains("271828"), "{shown}");
        assert!(told.iter().any(|remark| remark.path == path), "{shown}");
    }
}

/// The login of a script has no shape that is checked.
#[test]
fn a_login_of_any_shape_is_masked() {
    for auth in [
        "'u:271828'",
        "271828",
        "{password: 271828}",
        "{password: [271828]}",
        "{username: u, passwrd: '271828'}",
        "{username: u, token: {value: 271828}}",
    ] {
        let script = format!("prerequisites:\n  - {{type: script, name: s, auth: {auth}}}\n");
        let (config, _) = valid(&SMALLEST.replace("prerequisites:\n", &script)).split_secrets();
        assert!(!config.to_string().contains("271828"), "{config}");
        assert!(config.to_string().contains(MASK), "{config}");
    }
}
