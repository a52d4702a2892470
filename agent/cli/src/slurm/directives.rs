//! `#SBATCH` lines of a script.

/// What begins such a line.
const MARK: &str = "#SBATCH";

/// The words of one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DirectiveLine {
    /// Counts from 1.
    pub(super) number: usize,
    pub(super) words: Vec<String>,
}

/// The lines up to the script's first command.
pub(super) fn directives(script: &str) -> Vec<DirectiveLine> {
    let mut found = Vec::new();
    for (index, line) in script.lines().enumerate() {
        if let Some(rest) = line.strip_prefix(MARK) {
            let words = words(rest);
            if !words.is_empty() {
                let number = index + 1;
                found.push(DirectiveLine { number, words });
            }
        } else if is_command(line) {
            break;
        }
    }
    found
}

fn is_command(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// Words as Slurm divides them: quotes and backslashes hold blanks, and a word that begins with `#` begins a
/// comment. Nothing is replaced: `$HOME` stays as it is written.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut letters = text.chars().peekable();
    loop {
        while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
        match letters.peek() {
            None | Some('#') => return words,
            Some(_) => words.push(word(&mut letters)),
        }
    }
}

fn word(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut word = String::new();
    let mut quote = None;
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => word.extend(letters.next()),
            (letter, Some(open)) if letter == open => quote = None,
            (letter, Some(_)) => word.push(letter),
            ('"' | '\'', None) => quote = Some(letter),
            (letter, None) if letter.is_whitespace() => return word,
            (letter, None) => word.push(letter),
        }
    }
    word
}

/// Why a script is none, if so.
pub(super) fn fault(script: &str) -> Option<&'static str> {
    if script.trim().is_empty() {
        Some("the script is empty")
    } else if !script.starts_with("#!") {
        Some(
            "the script does not say what runs it: begin its first line with #! and the path of an \
             interpreter, as in #!/bin/bash",
        )
    } else if script.contains("\r\n") {
        Some("the script has line ends of DOS: convert it, as with `sed -i 's/\\r$//' FILE`")
    } else if script.contains('\0') {
        Some("the script holds a NUL byte: it is no text")
    } else {
        None
    }
}

/// The program that the script's first line names.
pub(super) fn interpreter(script: &str) -> Option<&str> {
    let first = script.lines().next()?.strip_prefix("#!")?;
    first.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_until_the_first_command() {
        let script = "\
#!/bin/bash -l
#SBATCH --job-name=train   # what it is
#SBATCH -N 2 -n4

##SBATCH --gres=gpu:8
# SBATCH -p no
   # indented comment
 #SBATCH -p no
#SBATCH
#SBATCH\t--comment='two words' --wrap=\"a 'b' c\"
#SBATCH -o logs/%j\\ x.out
module load cuda
#SBATCH --time=1
";
        let found = directives(script);
        let found: Vec<(usize, Vec<&str>)> = found
            .iter()
            .map(|line| (line.number, line.words.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(
            found,
            [
                (2, vec!["--job-name=train"]),
                (3, vec!["-N", "2", "-n4"]),
                (10, vec!["--comment=two words", "--wrap=a 'b' c"]),
                (11, vec!["-o", "logs/%j x.out"]),
            ]
        );
    }

    #[test]
    fn a_script_has_to_be_one() {
        assert_eq!(fault("#!/bin/sh\nid\n"), None);
        for (script, word) in [
            (" \n", "empty"),
            ("id\n", "#!/bin/bash"),
            ("#!/bin/sh\r\nid\r\n", "DOS"),
            ("#!/bin/sh\n\0", "NUL"),
        ] {
            let fault = fault(script).unwrap();
            assert!(fault.contains(word), "{fault}");
        }
        assert_eq!(
            interpreter("#! /usr/bin/env python3\n"),
            Some("/usr/bin/env")
        );
        assert_eq!(interpreter("#!\n"), None);
    }
}
