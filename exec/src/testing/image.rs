//! A tiny image for tests, made of the machine's static busybox.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

/// Debian's busybox-static.
const BUSYBOX: &str = "/usr/bin/busybox";
/// Commands that the image has.
const APPLETS: &[&str] = &[
    "cat", "chmod", "cp", "dd", "df", "echo", "env", "false", "grep", "head", "hostname", "id",
    "kill", "ls", "mkdir", "mknod", "mount", "nproc", "ps", "pwd", "rm", "sh", "sleep", "stat",
    "tail", "test", "touch", "true", "wc", "yes",
];

/// What the image says of its containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestImage {
    /// Its USER. The image knows `app` (1000:1001, and of group video, 44).
    pub user: String,
    /// Its WORKDIR.
    pub working_dir: String,
    /// Its ENV, `NAME=value` each.
    pub environment: Vec<String>,
}

impl TestImage {
    /// Writes it as an OCI archive to `path`; importing it names it `name`.
    pub fn write(&self, name: &str, path: &Path) -> io::Result<()> {
        let mut archive = Builder::new(File::create(path)?);
        let layer = layer()?;
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&layer)?;
        let packed = blob(&mut archive, "layer.v1.tar+gzip", &packed.finish()?)?;
        let config = self.config(&digest(&layer)).to_string();
        let config = blob(&mut archive, "config.v1+json", config.as_bytes())?;
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [packed],
        });
        let mut manifest = blob(
            &mut archive,
            "manifest.v1+json",
            manifest.to_string().as_bytes(),
        )?;
        manifest["annotations"] = json!({
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        });
        let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
        append(
            &mut archive,
            "index.json",
            index.to_string().as_bytes(),
            0o644,
        )?;
        append(
            &mut archive,
            "oci-layout",
            br#"{"imageLayoutVersion":"1.0.0"}"#,
            0o644,
        )?;
        archive.into_inner()?.sync_all()
    }

    fn config(&self, diff_id: &str) -> Value {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        json!({
            "os": "linux",
            "architecture": architecture,
            "config": {
                "Env": self.environment,
                "WorkingDir": self.working_dir,
                "User": self.user,
                "Entrypoint": ["/bin/false"],
            },
            "rootfs": { "type": "layers", "diff_ids": [diff_id] },
        })
    }
}

fn layer() -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    for dir in ["bin", "etc", "home", "home/app", "root", "tmp"] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Directory);
        header.set_mode(if dir == "tmp" { 0o1777 } else { 0o755 });
        header.set_size(0);
        tar.append_data(&mut header, dir, io::empty())?;
    }
    append(&mut tar, "bin/busybox", &std::fs::read(BUSYBOX)?, 0o755)?;
    for applet in APPLETS {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        tar.append_link(&mut header, format!("bin/{applet}"), "busybox")?;
    }
    let passwd = b"root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n";
    append(&mut tar, "etc/passwd", passwd, 0o644)?;
    append(
        &mut tar,
        "etc/group",
        b"root:x:0:\napp:x:1001:\nvideo:x:44:app\n",
        0o644,
    )?;
    tar.into_inner()
}

fn append<W: Write>(tar: &mut Builder<W>, path: &str, data: &[u8], mode: u32) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(mode);
    header.set_size(data.len() as u64);
    tar.append_data(&mut header, path, data)
}

/// Adds a blob and returns its descriptor.
fn blob<W: Write>(tar: &mut Builder<W>, kind: &str, data: &[u8]) -> io::Result<Value> {
    let digest = digest(data);
    append(
        tar,
        &format!("blobs/{}", digest.replace(':', "/")),
        data,
        0o644,
    )?;
    Ok(json!({
        "mediaType": format!("application/vnd.oci.image.{kind}"),
        "digest": digest,
        "size": data.len(),
    }))
}

fn digest(data: &[u8]) -> String {
    let hex: String = Sha256::digest(data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("sha256:{hex}")
}
