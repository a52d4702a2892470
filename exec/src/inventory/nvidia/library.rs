//! The driver's library: there, not there, or there and of no use.

use std::path::Path;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// What the loader looks for on a machine with a driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The library of the machine whose file tree is at `root`; none if it is not there, or if it
/// says that no driver is. Another tree than this machine's has a driver only where one is named.
///
/// # Errors
/// When there is a library and it cannot be used.
pub(super) fn load(root: &Path, library: Option<&Path>) -> Result<Option<Nvml>, NvmlError> {
    let path = match library {
        Some(path) => path,
        None if root == Path::new("/") => Path::new(LIBRARY),
        None => return Ok(None),
    };
    match Nvml::builder().lib_path(path.as_os_str()).init() {
        Ok(nvml) => Ok(Some(nvml)),
        Err(NvmlError::LibloadingError(error)) if is_missing(path, &error.to_string()) => Ok(None),
        Err(NvmlError::DriverNotLoaded) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the loader's error says that the library itself is not there. The loader says the
/// same of a library that this one needs, with that one's name.
fn is_missing(path: &Path, error: &str) -> bool {
    let path = path.display();
    let glibc = format!("{path}: cannot open shared object file: No such file");
    let musl = format!("Error loading shared library {path}: No such file");
    // musl ends the error on a library that another one needs with "(needed by ...)".
    error.starts_with(&glibc) || error.starts_with(&musl) && !error.contains("needed by")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loaders_error_tells_whether_the_library_is_there() {
        for (path, error, expect) in [
            (
                LIBRARY,
                "libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
                true,
            ),
            (
                "/opt/libnvidia-ml.so.1",
                "/opt/libnvidia-ml.so.1: cannot open shared object file: No such file or directory",
                true,
            ),
            (
                LIBRARY,
                "libelf.so.9: cannot open shared object file: No such file or directory",
                false,
            ),
            (LIBRARY, "libnvidia-ml.so.1: file too short", false),
            (
                LIBRARY,
                "libnvidia-ml.so.1: cannot open shared object file: Permission denied",
                false,
            ),
            (
                LIBRARY,
                "Error loading shared library libnvidia-ml.so.1: No such file or directory",
                true,
            ),
            (
                LIBRARY,
                "Error loading shared library libelf.so.9: No such file or directory \
                 (needed by /usr/lib/libnvidia-ml.so.1)",
                false,
            ),
        ] {
            assert_eq!(is_missing(Path::new(path), error), expect, "{error}");
        }
    }

    #[test]
    fn another_file_tree_is_not_asked_of_this_machines_driver() {
        let root = tempfile::tempdir().unwrap();
        assert!(load(root.path(), None).unwrap().is_none());
    }
}
