//! Files that were captured on real machines, in `exec/tests/captures`. Each folder says in
//! SOURCE.txt where they come from.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The folder of a capture.
pub fn capture_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/captures")
        .join(name)
}

/// Unpacks every archive of a capture into a directory that goes away with the value. The tools
/// tar and xz do it.
///
/// # Errors
/// When there is no such capture, or it cannot be unpacked.
pub fn unpack_capture(name: &str) -> io::Result<tempfile::TempDir> {
    let root = tempfile::tempdir()?;
    for entry in capture_dir(name).read_dir()? {
        let archive = entry?.path();
        if archive.to_string_lossy().contains(".tar.") {
            let mut tar = Command::new("tar");
            tar.arg("-xf").arg(&archive).arg("-C").arg(root.path());
            done(tar.output()?)?;
        }
    }
    Ok(root)
}

/// The text of a capture's file that is packed with xz.
///
/// # Errors
/// When there is no such file, or it cannot be unpacked.
pub fn unpack_text(name: &str, file: &str) -> io::Result<String> {
    let mut xz = Command::new("xz");
    xz.arg("-dc").arg(capture_dir(name).join(file));
    String::from_utf8(done(xz.output()?)?).map_err(io::Error::other)
}

fn done(output: Output) -> io::Result<Vec<u8>> {
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(io::Error::other(String::from_utf8_lossy(&output.stderr)))
    }
}
