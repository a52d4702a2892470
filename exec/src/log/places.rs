//! Places in a whole log: lines with a text, and what was written at a time.

use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom};

use memchr::memmem::Finder;
use muster_init::task_dir::TaskDir;

use super::LogError;
use super::file::path_of;
use super::parts::LogFiles;
use super::times::TimeMarks;

/// Bytes that one search looks at.
const SCAN_BYTES_MAX: u64 = 32 << 20;
/// Lines that one search finds.
const PLACES_MAX: usize = 100;
/// A longer line is searched in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// What is shown of a line: so much before what was found, and so much in all.
const BEFORE_BYTES: usize = 200;
const TEXT_BYTES: usize = 600;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogLookup {
    /// Lines with this text, in capitals or not.
    Text {
        /// The text, not empty.
        text: String,
        /// Where to begin, counted from the first byte that was ever written.
        from: u64,
        /// The number of the line that begins there, where it is known.
        line: Option<u64>,
    },
    /// What was written at this time, milliseconds since the epoch.
    Time(u64),
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundLine {
    /// Its first byte within the whole log.
    pub offset: u64,
    /// Its number, counted from 1 at the first byte that is kept; none where the search began elsewhere.
    pub line: Option<u64>,
    /// About when it was written, milliseconds since the epoch.
    pub at_ms: Option<u64>,
    /// A part of it with what was found.
    pub text: Vec<u8>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundLines {
    /// The first byte of the log that is kept.
    pub start: u64,
    /// Bytes of the whole log.
    pub size: u64,
    /// The lines in their order.
    pub lines: Vec<FoundLine>,
    /// Where to go on, with the number of that line; none at the end of the log.
    pub next: Option<(u64, Option<u64>)>,
}

/// Looks in the whole log called `name`. Bounded work; blocks.
pub fn find(dir: &TaskDir, name: &str, question: &LogLookup) -> Result<FoundLines, LogError> {
    let path = path_of(dir, name)?;
    let found = LogFiles::open(dir, name).and_then(|files| {
        let marks = TimeMarks::open(dir, name);
        match question {
            LogLookup::Text { text, from, line } => search(files, &marks, (text, *from, *line)),
            LogLookup::Time(at_ms) => at_time(&files, &marks, *at_ms),
        }
    });
    found.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LogError::NoLog(name.to_owned()),
        _ => LogError::Io { path, source },
    })
}

fn at_time(files: &LogFiles, marks: &TimeMarks, at_ms: u64) -> io::Result<FoundLines> {
    let mark = marks.at_time(at_ms)?;
    let line = mark.map(|mark| FoundLine {
        offset: mark.offset.max(files.dropped),
        line: None,
        at_ms: Some(mark.at_ms),
        text: Vec::new(),
    });
    Ok(FoundLines {
        start: files.dropped,
        size: files.end(),
        lines: line.into_iter().collect(),
        next: None,
    })
}

fn search(
    files: LogFiles,
    marks: &TimeMarks,
    (text, from, line): (&str, u64, Option<u64>),
) -> io::Result<FoundLines> {
    let mut found = FoundLines {
        start: files.dropped,
        size: files.end(),
        ..FoundLines::default()
    };
    let wanted = text.to_ascii_lowercase();
    let finder = Finder::new(wanted.as_bytes());
    let mut place = from.max(found.start);
    let mut number = match place == found.start {
        true => Some(1),
        false => line,
    };
    let last = place.saturating_add(SCAN_BYTES_MAX);
    let mut reader = BufReader::with_capacity(1 << 18, from_place(files, place)?);
    let (mut bytes, mut lowered) = (Vec::new(), Vec::new());
    loop {
        bytes.clear();
        reader
            .by_ref()
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(found);
        }
        lowered.clone_from(&bytes);
        lowered.make_ascii_lowercase();
        if let Some(at) = finder.find(&lowered) {
            found.lines.push(FoundLine {
                offset: place,
                line: number,
                at_ms: marks.at_offset(place)?.map(|mark| mark.at_ms),
                text: around(&bytes, at),
            });
        }
        place += bytes.len() as u64;
        if bytes.ends_with(b"\n") {
            number = number.map(|number| number + 1);
        }
        if found.lines.len() >= PLACES_MAX || place >= last {
            found.next = (place < found.size).then_some((place, number));
            return Ok(found);
        }
    }
}

/// A line without its end, or a part of it around a place.
fn around(line: &[u8], at: usize) -> Vec<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let start = match at {
        ..=BEFORE_BYTES => 0,
        _ => at - BEFORE_BYTES,
    };
    line[start.min(line.len())..line.len().min(start + TEXT_BYTES)].to_vec()
}

/// What is kept of the log from a place on, up to where it ended when it was opened.
fn from_place(files: LogFiles, place: u64) -> io::Result<impl Read> {
    let old_size = files.old.as_ref().map_or(0, |part| part.size);
    let between = files.dropped + old_size;
    let part = |part: Option<super::parts::OpenLogFile>, starts: u64| {
        let Some(mut part) = part else {
            return Ok(None);
        };
        let skip = place.saturating_sub(starts).min(part.size);
        part.file.seek(SeekFrom::Start(skip))?;
        io::Result::Ok(Some(part.file.take(part.size - skip)))
    };
    let old = part(files.old, files.dropped)?;
    let new = part(files.new, between)?;
    let read = |part: Option<io::Take<std::fs::File>>| -> Box<dyn Read> {
        match part {
            Some(part) => Box::new(part),
            None => Box::new(io::empty()),
        }
    };
    Ok(read(old).chain(read(new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, TaskDir) {
        let home = tempfile::tempdir().unwrap();
        let dir = TaskDir::new(home.path());
        std::fs::create_dir(dir.log()).unwrap();
        (home, dir)
    }

    fn asked(text: &str, from: u64, line: Option<u64>) -> LogLookup {
        LogLookup::Text {
            text: text.to_owned(),
            from,
            line,
        }
    }

    #[test]
    fn lines_are_found_over_the_files_with_their_numbers() {
        let (_home, dir) = home();
        let write = |name: &str, text: &str| std::fs::write(dir.log().join(name), text).unwrap();
        write("all", "three Error\nfour\nerror five");
        write("all.1", "one\nERROR two\r\n");
        write("all.dropped", "1000");
        let found = find(&dir, "all", &asked("error", 0, None)).unwrap();
        let lines = found.lines.iter().map(|it| {
            let text = std::str::from_utf8(&it.text).unwrap();
            (it.offset, it.line, text)
        });
        let lines: Vec<_> = lines.collect();
        assert_eq!(
            lines,
            [
                (1004, Some(2), "ERROR two"),
                (1015, Some(3), "three Error"),
                (1032, Some(5), "error five"),
            ]
        );
        assert_eq!((found.start, found.size, found.next), (1000, 1042, None));
        let later = find(&dir, "all", &asked("error", 1015, Some(3))).unwrap();
        assert_eq!(later.lines[0].line, Some(3));
        let unknown = find(&dir, "all", &asked("four", 1015, None)).unwrap();
        assert_eq!(
            (unknown.lines[0].offset, unknown.lines[0].line),
            (1027, None)
        );
        assert!(
            find(&dir, "all", &asked("six", 0, None))
                .unwrap()
                .lines
                .is_empty()
        );
        let missing = find(&dir, "stderr", &asked("x", 0, None));
        assert!(matches!(missing, Err(LogError::NoLog(_))));
    }

    #[test]
    fn a_search_has_a_bound_and_goes_on_where_it_stopped() {
        let (_home, dir) = home();
        let text: String = (1..=250).map(|n| format!("line {n}\n")).collect();
        std::fs::write(dir.log().join("all"), &text).unwrap();
        let (mut from, mut line, mut seen) = (0, None, 0);
        loop {
            let found = find(&dir, "all", &asked("line", from, line)).unwrap();
            assert!(found.lines.len() <= PLACES_MAX);
            for it in &found.lines {
                seen += 1;
                assert_eq!(it.line, Some(seen));
                assert_eq!(it.text, format!("line {seen}").as_bytes());
            }
            match found.next {
                Some(next) => (from, line) = next,
                None => break,
            }
        }
        assert_eq!(seen, 250);
    }

    #[test]
    fn a_long_line_is_shown_around_what_was_found() {
        let (_home, dir) = home();
        let text = format!("{}needle{}\n", "x".repeat(5_000), "y".repeat(5_000));
        std::fs::write(dir.log().join("all"), text).unwrap();
        let found = find(&dir, "all", &asked("needle", 0, None)).unwrap();
        assert_eq!(found.lines[0].text.len(), TEXT_BYTES);
        assert_eq!(
            &found.lines[0].text[BEFORE_BYTES..BEFORE_BYTES + 6],
            b"needle"
        );
    }
}
