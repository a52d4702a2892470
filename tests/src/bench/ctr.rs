//! containerd's own client, as the peer of what we launch.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result};
use tokio::process::Command;

/// `ctr` in one of containerd's namespaces, and the image `muster/busybox` there.
#[derive(Clone, Debug)]
pub(crate) struct Ctr {
    socket: PathBuf,
    namespace: String,
    image: String,
}

impl Ctr {
    pub(crate) async fn new(socket: &Path, namespace: &str) -> Result<Self> {
        let mut ctr = Self {
            socket: socket.to_owned(),
            namespace: namespace.to_owned(),
            image: String::new(),
        };
        let output = ctr
            .command()
            .args(["images", "list", "-q"])
            .output()
            .await?;
        ctr.image = String::from_utf8(output.stdout)?
            .lines()
            .find(|name| name.contains("muster/busybox"))
            .with_context(|| format!("{namespace} has no muster/busybox image"))?
            .to_owned();
        Ok(ctr)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("ctr");
        command
            .arg("-a")
            .arg(&self.socket)
            .args(["-n", &self.namespace])
            .stdin(Stdio::null());
        command
    }

    /// `ctr run --rm` with these options, of these words in a container of this name.
    pub(crate) fn run(&self, options: &[&str], id: &str, words: &[&str]) -> Command {
        let mut command = self.command();
        command
            .args(["run", "--rm"])
            .args(options)
            .args([&self.image, id])
            .args(words);
        command
    }
}
