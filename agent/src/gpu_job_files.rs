//! Files that tell other exporters which job has which GPU, in the form that dcgm-exporter reads with
//! `--hpc-job-mapping-dir`: one for each GPU, named by the driver's number, with a job on each line. An instance in
//! MIG mode has one of its own, with its number behind a dot.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use muster_exec::figures::DeviceLoad;

/// All may read the files: exporters need not run as root.
const DIRECTORY_MODE: u32 = 0o755;
const FILE_MODE: u32 = 0o644;
/// Ends the name of a file that is not whole yet. Exporters read no file of such a name.
const UNFINISHED: &str = "new";

/// A directory of such files.
#[derive(Debug)]
pub(crate) struct GpuJobFiles {
    directory: PathBuf,
    /// What each file holds.
    written: BTreeMap<String, String>,
}

/// What each file is to hold, by name: the jobs that have the device, by the device's lasting name. A device that no
/// job has has an empty file.
pub(crate) fn wanted(
    loads: &[DeviceLoad],
    jobs: &BTreeMap<String, Vec<String>>,
) -> BTreeMap<String, String> {
    let file = |load: &DeviceLoad| {
        let jobs = jobs.get(&load.id).map_or(&[][..], Vec::as_slice);
        let lines = jobs.iter().map(|job| format!("{job}\n"));
        (load.number.clone(), lines.collect())
    };
    loads.iter().map(file).collect()
}

impl GpuJobFiles {
    /// Makes the directory, and empties the files that an earlier life of the agent has left in it.
    ///
    /// # Errors
    /// When it cannot be made or written.
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(DIRECTORY_MODE))?;
        let mut files = Self {
            directory: directory.to_owned(),
            written: BTreeMap::new(),
        };
        let mut left = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name.starts_with(|first: char| first.is_ascii_digit()) && !name.ends_with(UNFINISHED)
            {
                left.insert(name, String::new());
            }
        }
        files.write(left)?;
        Ok(files)
    }

    /// Writes what has changed, each file in one step. A file that is not wanted any more is emptied.
    ///
    /// # Errors
    /// When a file cannot be written. It is tried again with the next change.
    pub(crate) fn write(&mut self, wanted: BTreeMap<String, String>) -> io::Result<()> {
        let mut wanted = wanted;
        for name in self.written.keys() {
            wanted.entry(name.clone()).or_default();
        }
        for (name, text) in wanted {
            if self.written.get(&name) != Some(&text) {
                self.replace(&name, &text)?;
                self.written.insert(name, text);
            }
        }
        Ok(())
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let new = self.directory.join(format!("{name}.{UNFINISHED}"));
        fs::write(&new, text)?;
        fs::set_permissions(&new, Permissions::from_mode(FILE_MODE))?;
        fs::rename(&new, self.directory.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(id: &str, number: &str) -> DeviceLoad {
        DeviceLoad {
            id: id.to_owned(),
            number: number.to_owned(),
            ..DeviceLoad::default()
        }
    }

    fn texts(directory: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(directory).unwrap().map(Result::unwrap);
        let text = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        };
        entries.map(text).collect()
    }

    fn expect(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        let files = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        files.collect()
    }

    #[test]
    fn each_gpu_has_a_file_with_its_jobs() {
        let loads = [load("GPU-a", "0"), load("GPU-b", "1"), load("MIG-c", "2.3")];
        let jobs = BTreeMap::from([
            (
                "GPU-b".to_owned(),
                vec!["ann~x".to_owned(), "bob~y".to_owned()],
            ),
            ("MIG-c".to_owned(), vec!["ann~x".to_owned()]),
            ("GPU-unknown".to_owned(), vec!["ann~z".to_owned()]),
        ]);
        let expect = expect(&[("0", ""), ("1", "ann~x\nbob~y\n"), ("2.3", "ann~x\n")]);
        assert_eq!(wanted(&loads, &jobs), expect);
    }

    #[test]
    fn files_are_emptied_when_nothing_has_their_gpu_any_more() {
        let dir = tempfile::tempdir().unwrap();
        let directory = dir.path().join("gpu-jobs");
        fs::create_dir_all(&directory).unwrap();
        // Left by an earlier life, and not of ours.
        fs::write(directory.join("7"), "ann~old\n").unwrap();
        fs::write(directory.join("README"), "kept\n").unwrap();
        let mut files = GpuJobFiles::open(&directory).unwrap();
        files.write(expect(&[("0", "ann~x\n"), ("1", "")])).unwrap();
        let told = [("0", "ann~x\n"), ("1", ""), ("7", ""), ("README", "kept\n")];
        assert_eq!(texts(&directory), expect(&told));
        let mode = fs::metadata(directory.join("0"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o644);
        files.write(expect(&[("1", "bob~y\n")])).unwrap();
        let told = [("0", ""), ("1", "bob~y\n"), ("7", ""), ("README", "kept\n")];
        assert_eq!(texts(&directory), expect(&told));
    }
}
