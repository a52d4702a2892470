//! `muster alias`: links under the names of other programs' commands.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::console::Console;
use super::error::CliError;
use super::slurm;
use super::status::CliStatus;

const EXAMPLES: &str = "\
Each is a link to this program, which looks at the name that it is started under. A file that is not such a link
is never replaced or removed.

Examples:
  muster alias slurm
  sudo muster alias slurm --dir /usr/local/bin
  muster alias slurm --remove";

/// Where links of root are for everybody.
const FOR_ALL: &str = "/usr/local/bin";
/// Where links of a user are, below the home directory.
const FOR_ONE: &str = ".local/bin";
/// What a link of ours leads to.
const PROGRAM: &str = "muster";

/// Which commands.
#[derive(Debug, Subcommand)]
pub enum AliasCommand {
    /// Install squeue, sbatch, scancel, sinfo, srun and sacct, which act on this cluster.
    #[command(after_help = EXAMPLES)]
    Slurm(AliasArguments),
}

/// Where, and whether they go or come.
#[derive(Debug, Args)]
pub struct AliasArguments {
    /// The directory [default: /usr/local/bin for root, else ~/.local/bin].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Take them away.
    #[arg(long)]
    remove: bool,
}

impl AliasCommand {
    pub(super) fn run(self, console: &Console) -> Result<CliStatus, CliError> {
        let Self::Slurm(AliasArguments { dir, remove }) = self;
        let folder = match dir {
            Some(dir) => dir,
            None => default_folder()?,
        };
        if remove {
            return take_away(&folder, console);
        }
        let program = std::env::current_exe();
        let program = program.map_err(|source| read_error(Path::new("/proc/self/exe"), source))?;
        install(&folder, &program, console)?;
        tell_path(&folder, std::env::var_os("PATH"), console);
        Ok(CliStatus::Ok)
    }
}

fn default_folder() -> Result<PathBuf, CliError> {
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from(FOR_ALL));
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.ok_or_else(|| CliError::Usage("HOME is not set: give --dir".into()))?;
    Ok(Path::new(&home).join(FOR_ONE))
}

fn read_error(path: &Path, source: std::io::Error) -> CliError {
    CliError::Read {
        path: path.to_owned(),
        source,
    }
}

fn write_error(path: &Path, error: &std::io::Error) -> CliError {
    CliError::Usage(format!("{}: {error}; give another --dir", path.display()))
}

/// What is at a place.
#[derive(Debug, PartialEq, Eq)]
enum AliasPlace {
    Nothing,
    Ours,
    Foreign,
}

impl AliasPlace {
    fn of(path: &Path) -> Result<Self, CliError> {
        match fs::read_link(path) {
            Ok(target) if target.file_name().is_some_and(|name| name == PROGRAM) => Ok(Self::Ours),
            Ok(_) => Ok(Self::Foreign),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Nothing),
            // It is no link.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(Self::Foreign),
            Err(source) => Err(read_error(path, source)),
        }
    }
}

/// Makes all links or none.
fn install(folder: &Path, program: &Path, console: &Console) -> Result<(), CliError> {
    if program.file_name().is_none_or(|name| name != PROGRAM) {
        let program = program.display();
        let why = format!("this program is {program}: links lead to one that is called {PROGRAM}");
        return Err(CliError::Usage(why));
    }
    fs::create_dir_all(folder).map_err(|error| write_error(folder, &error))?;
    let paths = slurm::NAMES.map(|name| folder.join(name));
    for path in &paths {
        if AliasPlace::of(path)? == AliasPlace::Foreign {
            let path = path.display();
            let why =
                format!("{path} is there already and is not ours: nothing was changed; give --dir");
            return Err(CliError::Usage(why));
        }
    }
    for path in &paths {
        if AliasPlace::of(path)? == AliasPlace::Ours {
            fs::remove_file(path).map_err(|error| write_error(path, &error))?;
        }
        symlink(program, path).map_err(|error| write_error(path, &error))?;
        console.line(format!("{} -> {}", path.display(), program.display()))?;
    }
    Ok(())
}

fn tell_path(folder: &Path, path: Option<std::ffi::OsString>, console: &Console) {
    let path = path.unwrap_or_default();
    let mut folders = std::env::split_paths(&path);
    if !folders.any(|one| one == folder) {
        let folder = folder.display();
        console.note(format!(
            "your shell does not look there: export PATH=\"{folder}:$PATH\", in ~/.profile to keep it"
        ));
    }
}

fn take_away(folder: &Path, console: &Console) -> Result<CliStatus, CliError> {
    for path in slurm::NAMES.map(|name| folder.join(name)) {
        match AliasPlace::of(&path)? {
            AliasPlace::Ours => {
                fs::remove_file(&path).map_err(|error| write_error(&path, &error))?;
                console.line(format!("removed {}", path.display()))?;
            }
            AliasPlace::Foreign => {
                console.note(format!("{} is not ours, and stays", path.display()));
            }
            AliasPlace::Nothing => {}
        }
    }
    Ok(CliStatus::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_come_and_go_and_other_files_stay() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        let (console, out, err) = Console::captured();
        let program = Path::new("/opt/muster/bin/muster");
        install(&bin, program, &console).unwrap();
        // Again, from where the program is now.
        let moved = Path::new("/usr/bin/muster");
        install(&bin, moved, &console).unwrap();
        assert_eq!(fs::read_link(bin.join("sbatch")).unwrap(), moved);
        assert!(
            out.text().contains("/squeue -> /usr/bin/muster"),
            "{}",
            out.text()
        );
        tell_path(&bin, Some("/bin".into()), &console);
        assert!(err.text().contains("export PATH="), "{}", err.text());
        take_away(&bin, &console).unwrap();
        assert_eq!(fs::read_dir(&bin).unwrap().count(), 0);

        for (name, target) in [("sinfo", None), ("srun", Some("/usr/bin/slurm-srun"))] {
            let path = bin.join(name);
            match target {
                None => fs::write(&path, "theirs").unwrap(),
                Some(target) => symlink(target, &path).unwrap(),
            }
            let error = install(&bin, program, &console).unwrap_err();
            assert!(
                error.to_string().contains("not ours: nothing was changed"),
                "{error}"
            );
            take_away(&bin, &console).unwrap();
            assert_eq!(fs::read_dir(&bin).unwrap().count(), 1);
            fs::remove_file(&path).unwrap();
        }
        let error = install(&bin, Path::new("/x/other"), &console).unwrap_err();
        assert!(error.to_string().contains("called muster"), "{error}");
    }
}
