//! A log of jobs that is missing although the node is not new. It is not made silently: all jobs
//! would be gone, and nobody told.

use crate::paths::Paths;

/// Why no jobs of before are known, if so; looked at before the log is opened, which makes it.
pub(crate) fn problem(paths: &Paths) -> Option<String> {
    let is_old = paths.ledger().exists();
    (is_old && !paths.log().exists()).then(|| {
        format!(
            "{} was missing when the agent started, though the rest of its state was there: jobs of \
             before are not known here; stop the agent and put the file back from a backup, if \
             there is one",
            paths.log().display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_start_is_told_from_a_loss() {
        let directory = tempfile::tempdir().unwrap();
        let paths = Paths::new(Some(directory.path()));
        std::fs::create_dir_all(&paths.state).unwrap();
        assert_eq!(problem(&paths), None, "the first start");
        std::fs::write(paths.admin_password(), "").unwrap();
        assert_eq!(problem(&paths), None, "a first start that was cut off");
        std::fs::write(paths.ledger(), "").unwrap();
        let text = problem(&paths).unwrap();
        assert!(text.contains("log.redb was missing"), "{text}");
        std::fs::write(paths.log(), "").unwrap();
        assert_eq!(problem(&paths), None, "a whole state");
    }
}
