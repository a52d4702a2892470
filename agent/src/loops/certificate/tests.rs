//! Files that are replaced, well and badly, under a certificate that is shown.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use muster_tls::{Fingerprint, ShownCertificate};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

use super::*;
use crate::certificate::{self, CertificateNow, OpenedCertificate};
use crate::config::TlsConfig;
use crate::paths::Paths;

const HALF_A_YEAR_S: u32 = 15_768_000;

/// A certificate with its key, in PEM.
struct Issued {
    certificate: String,
    key: String,
}

/// Issued by an authority, valid in these years.
fn issue(first: i32, last: i32) -> Issued {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["n1".to_owned()]).unwrap();
    params
        .distinguished_name
        .push(rcgen::DnType::CommonName, "n1");
    params.not_before = date_time_ymd(first, 1, 1);
    params.not_after = date_time_ymd(last, 1, 1);
    let issued = params.signed_by(&key, &authority, &authority_key).unwrap();
    Issued {
        certificate: issued.pem(),
        key: key.serialize_pem(),
    }
}

/// A machine with a certificate of an authority.
struct Bench {
    directory: tempfile::TempDir,
    shown: ShownCertificate,
    now: CertificateNow,
    follow: CertificateLoop,
}

fn config(directory: &Path) -> TlsConfig {
    TlsConfig {
        cert: Some(directory.join("n1.crt")),
        key: Some(directory.join("n1.key")),
        strict_transport_s: HALF_A_YEAR_S,
        ..TlsConfig::default()
    }
}

fn open(config: &TlsConfig, home: &Path) -> OpenedCertificate {
    let paths = Paths::new(Some(home));
    std::fs::create_dir_all(&paths.state).unwrap();
    let opened = certificate::open(config, &paths, "n1", [10, 0, 0, 1].into());
    opened.unwrap().unwrap()
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), &issue(2020, 2090));
        Self::over(directory)
    }

    fn over(directory: tempfile::TempDir) -> Self {
        let opened = open(&config(directory.path()), directory.path());
        Self {
            directory,
            shown: opened.shown,
            now: opened.now,
            follow: opened.follow,
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn fingerprint(&self) -> Fingerprint {
        let told = self.now.get().unwrap().fingerprint;
        assert_eq!(told, self.shown.now().fingerprint, "told as it is shown");
        told
    }

    fn look(&mut self) {
        self.follow.look(now_s());
    }

    fn problem(&self) -> Option<CertificateProblem> {
        self.now.get().unwrap().problem
    }
}

fn write(directory: &Path, issued: &Issued) {
    std::fs::write(directory.join("n1.crt"), &issued.certificate).unwrap();
    write_key(directory, &issued.key);
}

fn write_key(directory: &Path, key: &str) {
    let path = directory.join("n1.key");
    std::fs::write(&path, key).unwrap();
    mode(&path, 0o600);
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn a_new_pair_is_shown_at_the_next_look() {
    let mut bench = Bench::new();
    let first = bench.fingerprint();
    assert_eq!(bench.shown.now().strict_transport_s, HALF_A_YEAR_S);
    bench.look();
    assert_eq!((bench.fingerprint(), bench.problem()), (first, None));
    write(bench.path(), &issue(2020, 2091));
    bench.look();
    assert_ne!(bench.fingerprint(), first);
    assert_eq!(bench.problem(), None);
    assert_eq!(bench.shown.now().strict_transport_s, HALF_A_YEAR_S);
    assert_eq!(
        certificate::pair::moment(bench.now.get().unwrap().until_s),
        "2091-01-01T00:00:00Z"
    );
}

/// As kubelet and certbot do it: what is replaced is a link above the files.
#[test]
fn a_link_that_is_swapped_is_followed() {
    let directory = tempfile::tempdir().unwrap();
    for (name, last) in [("v1", 2090), ("v2", 2091)] {
        std::fs::create_dir(directory.path().join(name)).unwrap();
        write(&directory.path().join(name), &issue(2020, last));
    }
    symlink("v1", directory.path().join("..data")).unwrap();
    for file in ["n1.crt", "n1.key"] {
        symlink(format!("..data/{file}"), directory.path().join(file)).unwrap();
    }
    let mut bench = Bench::over(directory);
    let first = bench.fingerprint();
    symlink("v2", bench.path().join("..new")).unwrap();
    std::fs::rename(bench.path().join("..new"), bench.path().join("..data")).unwrap();
    bench.look();
    assert_ne!(bench.fingerprint(), first);
    assert_eq!(bench.problem(), None);
}

/// Kinds of broken certificate files: the name of the case, the change that breaks them, the problem that is
/// reported.
#[test]
fn what_is_broken_is_told_and_the_one_before_stays() {
    type Break = fn(&Path);
    let cases: [(&str, Break, &str, &str); 10] = [
        (
            "a key of another",
            |at| write_key(at, &issue(2020, 2090).key),
            "n1.key is not that of the first certificate in",
            "its own key",
        ),
        (
            "expired",
            |at| write(at, &issue(2010, 2015)),
            "n1.crt has expired on 2015-01-01",
            "renewed",
        ),
        (
            "not valid yet",
            |at| write(at, &issue(2080, 2090)),
            "n1.crt is not valid before 2080-01-01",
            "set the clock",
        ),
        (
            "no certificate",
            |at| std::fs::write(at.join("n1.crt"), "nonsense").unwrap(),
            "n1.crt holds no certificate in PEM form: there is none",
            "BEGIN CERTIFICATE",
        ),
        (
            "a torn certificate",
            |at| {
                let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
                std::fs::write(at.join("n1.crt"), torn).unwrap();
            },
            "n1.crt cannot be used",
            "issued",
        ),
        (
            "no key",
            |at| write_key(at, "nonsense"),
            "n1.key holds no private key in PEM form: there is none",
            "without a passphrase",
        ),
        (
            "a key with a passphrase",
            |at| {
                let name = "ENCRYPTED PRIVATE KEY";
                write_key(
                    at,
                    &format!("-----BEGIN {name}-----\nAAAA\n-----END {name}-----\n"),
                );
            },
            "it has a passphrase",
            "without a passphrase",
        ),
        (
            "missing",
            |at| std::fs::remove_file(at.join("n1.crt")).unwrap(),
            "n1.crt cannot be read: No such file",
            "put",
        ),
        (
            "no file",
            |at| {
                std::fs::remove_file(at.join("n1.key")).unwrap();
                std::fs::create_dir(at.join("n1.key")).unwrap();
            },
            "n1.key cannot be read: it is no file",
            "put",
        ),
        (
            "open to all",
            |at| mode(&at.join("n1.key"), 0o644),
            "n1.key may be read by every user of this machine, or changed by its group (mode 0644)",
            "chmod 600",
        ),
    ];
    for (name, break_it, told, remedy) in cases {
        let mut bench = Bench::new();
        let first = bench.fingerprint();
        bench.look();
        break_it(bench.path());
        bench.look();
        bench.look();
        assert_eq!(bench.fingerprint(), first, "{name}");
        let problem = bench.problem().unwrap_or_else(|| panic!("{name} is well"));
        assert!(problem.text.contains(told), "{name}: {problem:?}");
        assert!(problem.remedy.contains(remedy), "{name}: {problem:?}");
        if bench.path().join("n1.key").is_dir() {
            std::fs::remove_dir(bench.path().join("n1.key")).unwrap();
        }
        write(bench.path(), &issue(2020, 2091));
        bench.look();
        assert_ne!(bench.fingerprint(), first, "{name}");
        assert_eq!(bench.problem(), None, "{name}");
    }
}

#[test]
fn the_moment_between_two_files_is_no_problem() {
    let mut bench = Bench::new();
    bench.look();
    let next = issue(2020, 2091);
    std::fs::write(bench.path().join("n1.crt"), &next.certificate).unwrap();
    bench.look();
    assert_eq!(bench.problem(), None);
    write_key(bench.path(), &next.key);
    bench.look();
    assert_eq!(bench.problem(), None);
    assert!(bench.now.get().unwrap().until_s > 3_800_000_000);
}

#[test]
fn time_ends_one_that_did_not_change() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), &issue(2020, 2080));
    let mut bench = Bench::over(directory);
    bench.look();
    let later = now_s() + 70 * 366 * 24 * 60 * 60;
    for _ in 0..=LOOKS_UNTIL_STALE {
        bench.follow.look(later);
    }
    let problem = bench.problem().unwrap();
    assert!(problem.text.contains("has expired on 2080"), "{problem:?}");
    // There is none that is any better.
    write(bench.path(), &issue(2020, 2079));
    bench.follow.look(later);
    let problem = bench.problem().unwrap();
    assert!(problem.text.contains("has expired on 2079"), "{problem:?}");
}

#[test]
fn a_broken_pair_at_the_start_has_a_stand_in() {
    let directory = tempfile::tempdir().unwrap();
    let mut bench = Bench::over(directory);
    let stand_in = bench.now.get().unwrap();
    assert!(stand_in.file.ends_with("rest.crt") && stand_in.is_self_signed);
    assert!(bench.now.problem().unwrap().contains("n1.crt"));
    assert_eq!(bench.shown.now().strict_transport_s, 0);
    write(bench.path(), &issue(2020, 2090));
    bench.look();
    let named = bench.now.get().unwrap();
    assert!(named.file.ends_with("n1.crt") && !named.is_self_signed);
    assert_eq!(named.problem, None);
    assert_eq!(bench.shown.now().strict_transport_s, HALF_A_YEAR_S);
    assert_eq!(bench.fingerprint(), named.fingerprint);
}

#[test]
fn without_leave_for_a_stand_in_it_does_not_start() {
    let directory = tempfile::tempdir().unwrap();
    let config = TlsConfig {
        self_signed: false,
        ..config(directory.path())
    };
    let paths = Paths::new(Some(directory.path()));
    let opened = certificate::open(&config, &paths, "n1", [10, 0, 0, 1].into());
    let error = opened.err().map(|error| error.to_string()).unwrap();
    assert!(error.contains("n1.crt cannot be read"), "{error}");
    assert!(!paths.rest_key().exists());
    let off = TlsConfig {
        enabled: false,
        ..config
    };
    let opened = certificate::open(&off, &paths, "n1", [10, 0, 0, 1].into());
    assert!(opened.unwrap().is_none());
}

#[test]
fn keys_are_read_in_each_form() {
    let directory = tempfile::tempdir().unwrap();
    let script = "openssl genrsa -traditional -out n1.key 2048 && \
         openssl req -x509 -key n1.key -subj /CN=n1 -days 100 -out n1.crt && chmod 600 n1.key";
    run(directory.path(), script);
    let text = std::fs::read_to_string(directory.path().join("n1.key")).unwrap();
    assert!(text.contains("BEGIN RSA PRIVATE KEY"), "PKCS#1");
    let bench = Bench::over(directory);
    assert_eq!(bench.problem(), None);
    assert_eq!(bench.shown.now().strict_transport_s, 0, "it is self-signed");
    let script = "openssl ecparam -name prime256v1 -genkey -noout -out n1.key && \
         openssl req -x509 -key n1.key -subj /CN=n1 -days 100 -out n1.crt";
    run(bench.path(), script);
    let text = std::fs::read_to_string(bench.path().join("n1.key")).unwrap();
    assert!(text.contains("BEGIN EC PRIVATE KEY"), "SEC1");
    let bench = Bench::over(bench.directory);
    assert_eq!(bench.problem(), None);
}

fn run(directory: &Path, script: &str) {
    let done = Command::new("sh")
        .args(["-c", script])
        .current_dir(directory)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
}
