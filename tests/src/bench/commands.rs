//! How long the command line takes for a job of a cached image, from the start of the program to its end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::build::Build;
use crate::ctr::Ctr;
use crate::sample::Sample;
use crate::{Arguments, compared, job, unique};

/// What the command line is asked, by a build.
#[derive(Clone, Copy, Debug)]
enum Words {
    /// `muster run -- true`.
    Run,
    /// `muster job submit --wait`.
    Submit,
}

/// The times of one build.
#[derive(Debug)]
struct Times {
    build: Build,
    run: Sample,
    submit: Sample,
}

/// The builds and `ctr run --rm` take turns, so that all have the machine in the same state.
pub(crate) async fn run(arguments: &Arguments, n: usize) -> Result<Value> {
    let mut sides = Vec::new();
    let mut agents = Vec::new();
    for build in arguments.builds()? {
        agents.push(build.start()?);
        sides.push(Times {
            build,
            run: Sample::new()?,
            submit: Sample::new()?,
        });
    }
    let ctr = Ctr::new(&sides[0].build.containerd, &sides[0].build.namespace).await?;
    let mut bare = Sample::new()?;
    for side in &sides {
        timed(&side.build, Words::Run)?;
        timed(&side.build, Words::Submit)?;
    }
    for _ in 0..n {
        for side in &mut sides {
            side.run.add(timed(&side.build, Words::Run)?);
            side.submit.add(timed(&side.build, Words::Submit)?);
        }
        let begin = Instant::now();
        let id = unique("ctr");
        ensure!(
            ctr.run(&[], &id, &["true"])
                .output()
                .await?
                .status
                .success(),
            "ctr run failed"
        );
        bare.add(begin.elapsed());
    }
    let mut ours = compared(line(&sides[0]), sides.get(1).map(line).as_ref());
    ours["bench"] = "commands".into();
    ours["n"] = n.into();
    ours["engine"] = sides[0].build.engine()?.into();
    ours["ctr_p50_ms"] = bare.ms(0.5).into();
    Ok(ours)
}

fn line(side: &Times) -> Value {
    json!({
        "run_p50_ms": side.run.ms(0.5), "run_p99_ms": side.run.ms(0.99),
        "submit_wait_p50_ms": side.submit.ms(0.5), "submit_wait_p99_ms": side.submit.ms(0.99),
    })
}

fn timed(build: &Build, words: Words) -> Result<Duration> {
    let mut command = match words {
        Words::Run => build.command(&["run", "--image", "muster/busybox", "--", "true"]),
        Words::Submit => {
            let file = build.home.join("bench-job.yaml");
            std::fs::write(&file, job(&unique("commands"), 1, "true"))?;
            let mut command = build.command(&["job", "submit", "--wait"]);
            command.arg(file);
            command
        }
    };
    command.stdin(Stdio::null());
    let begin = Instant::now();
    let output = command.output()?;
    let time = begin.elapsed();
    ensure!(
        output.status.success(),
        "{words:?} of {} failed: {}",
        build.muster.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(time)
}
