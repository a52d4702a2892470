//! How long the disk takes to keep something: nothing is granted and no job accepted before that.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use muster_model::finding::{Finding, Grade};

/// Writes that are measured.
const WRITES: usize = 100;
/// Bytes of one: a page, as a log entry takes.
const WRITE_BYTES: usize = 4096;
/// No further write begins after this. A slow disk is known by then.
const TIME_MAX: Duration = Duration::from_secs(3);
/// A disk that kept nothing within this hangs.
const HUNG: Duration = Duration::from_secs(10);
/// Accepting a job costs two of these in a row; above it users notice.
const P99_WARN: Duration = Duration::from_millis(20);
/// Above this, the probes of a busy node look like those of a dead one.
const P99_FAIL: Duration = Duration::from_millis(500);

const REMEDY: &str = "put the state directory on an SSD or a disk of its own; see with iostat -x \
                      what else writes there";

/// Measures the disk of the state directory.
pub(super) async fn check(directory: PathBuf) -> Finding {
    let subject = directory.display().to_string();
    // A dead disk hangs the thread, not the agent.
    let measured = tokio::task::spawn_blocking(move || measure(&directory));
    match tokio::time::timeout(HUNG, measured).await {
        Ok(Ok(Ok(times))) => judged(subject, times),
        Ok(Ok(Err(error))) => Finding::ok("fsync", subject, format!("cannot write there: {error}"))
            .but(
                Grade::Fail,
                "make the directory writable and make room on its disk",
            ),
        Ok(Err(error)) => Finding::ok("fsync", subject, error.to_string()).but(Grade::Fail, REMEDY),
        Err(_) => {
            let evidence = format!("nothing was kept within {} s", HUNG.as_secs());
            Finding::ok("fsync", subject, evidence).but(
                Grade::Fail,
                "the disk hangs: see dmesg, then replace or remount it",
            )
        }
    }
}

/// Times of small synced writes to a file that is gone afterwards.
fn measure(directory: &Path) -> io::Result<Vec<Duration>> {
    let path = directory.join(format!("doctor-{}", std::process::id()));
    let times = File::create(&path).and_then(|file| timed(file, Instant::now()));
    let removed = std::fs::remove_file(&path);
    let times = times?;
    removed.map(|()| times)
}

fn timed(mut file: File, start: Instant) -> io::Result<Vec<Duration>> {
    let page = [0x5a; WRITE_BYTES];
    let mut times = Vec::with_capacity(WRITES);
    while times.len() < WRITES && (times.is_empty() || start.elapsed() < TIME_MAX) {
        let begin = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        times.push(begin.elapsed());
    }
    Ok(times)
}

fn judged(subject: String, mut times: Vec<Duration>) -> Finding {
    times.sort_unstable();
    let p99 = percentile(&times, 99);
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    let evidence = format!(
        "{} synced writes: p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
        times.len(),
        ms(percentile(&times, 50)),
        ms(p99),
        ms(percentile(&times, 100)),
    );
    let finding = Finding::ok("fsync", subject, evidence);
    match p99 {
        p99 if p99 > P99_FAIL => finding.but(Grade::Fail, REMEDY),
        p99 if p99 > P99_WARN => finding.but(Grade::Warn, REMEDY),
        _ => finding,
    }
}

/// The smallest of sorted times that `percent` of them do not exceed; nothing of none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    let at = rank.saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_99th_of_100_decides() {
        let times = |slow: usize, ms: u64| {
            let quick = std::iter::repeat_n(Duration::from_millis(1), 100 - slow);
            let slow = std::iter::repeat_n(Duration::from_millis(ms), slow);
            slow.chain(quick).collect::<Vec<_>>()
        };
        for (times, grade) in [
            (times(1, 9_000), Grade::Ok),
            (times(2, 20), Grade::Ok),
            (times(2, 21), Grade::Warn),
            (times(2, 501), Grade::Fail),
            (vec![Duration::from_secs(4)], Grade::Fail),
        ] {
            let finding = judged(String::new(), times);
            assert_eq!(finding.grade, grade, "{finding:?}");
        }
    }

    #[tokio::test]
    async fn a_directory_is_measured_and_left_as_it_was() {
        let directory = tempfile::tempdir().unwrap();
        let finding = check(directory.path().to_owned()).await;
        assert!(
            finding.evidence.contains("synced writes: p50"),
            "{finding:?}"
        );
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
        let gone = directory.path().join("gone");
        let finding = check(gone).await;
        assert_eq!(finding.grade, Grade::Fail, "{finding:?}");
    }
}
