//! Writes man pages and shell completions from the command line's own definition. Part of the
//! build of the package, and not of what it installs.
//!
//! Usage: muster-documentation DIRECTORY

use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _};
use muster_cli::{Cli, CompletionShell, completion_script};

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1) else {
        eprintln!("usage: muster-documentation DIRECTORY");
        return ExitCode::from(2);
    };
    match write(Path::new(&directory)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("muster-documentation: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Man pages in `man1`, one for each command; completions in a folder for each shell.
fn write(directory: &Path) -> std::io::Result<()> {
    let pages = directory.join("man1");
    std::fs::create_dir_all(&pages)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    write_pages(&command, &pages)?;
    for (shell, folder, file) in [
        (CompletionShell::Bash, "bash", "muster.bash"),
        (CompletionShell::Zsh, "zsh", "_muster"),
        (CompletionShell::Fish, "fish", "muster.fish"),
    ] {
        let folder = directory.join(folder);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(file), completion_script(shell))?;
    }
    Ok(())
}

fn write_pages(command: &Command, directory: &Path) -> std::io::Result<()> {
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    for subcommand in shown {
        write_pages(subcommand, directory)?;
    }
    let page = clap_mangen::Man::new(command.clone()).manual("Muster");
    page.generate_to(directory)?;
    Ok(())
}
