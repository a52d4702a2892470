//! The least that containerd asks of a logger, as a shell script.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Called as `SCRIPT log-dir DIR`: copies descriptor 3 to DIR/stdout and 4 to DIR/stderr, and writes a
/// byte to 5 and closes it to say that it is ready. Makes DIR/done once both have ended. containerd
/// sends TERM when the container is deleted, output read or not, so that is ignored.
const SCRIPT: &str = "#!/bin/sh
trap '' TERM
mkdir -p \"$2\"
cat <&3 >\"$2/stdout\" 5>&- &
cat <&4 >\"$2/stderr\" 5>&- &
printf x >&5
exec 3<&- 4<&- 5>&-
wait
: >\"$2/done\"
";

/// Writes the script into `dir` and returns its path.
pub fn script(dir: &Path) -> io::Result<PathBuf> {
    let path = dir.join("logger.sh");
    std::fs::write(&path, SCRIPT)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}
