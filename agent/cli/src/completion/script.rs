//! What a shell reads to complete `muster`.

use super::CompletionShell;

const BASH: &str = r#"_muster() {
    local IFS=$'\n'
    COMPREPLY=($(muster __complete bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o bashdefault -o default -F _muster muster
"#;

const ZSH: &str = r#"#compdef muster
_muster() {
    local -a found
    found=("${(@f)$(muster __complete zsh -- "${words[@]:1:$((CURRENT - 1))}" 2>/dev/null)}")
    if [[ -n "${found[1]-}" ]]; then
        compadd -a found
    else
        _files
    fi
}
if [[ "${funcstack[1]-}" = _muster ]]; then
    _muster "$@"
else
    compdef _muster muster
fi
"#;

const FISH: &str = r#"function __muster_complete
    set -l found (muster __complete fish -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $found) -gt 0
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c muster -f -a '(__muster_complete)'
"#;

/// The script for a shell.
pub const fn script(shell: CompletionShell) -> &'static str {
    match shell {
        CompletionShell::Bash => BASH,
        CompletionShell::Zsh => ZSH,
        CompletionShell::Fish => FISH,
    }
}
