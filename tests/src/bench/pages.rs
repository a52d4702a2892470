//! How heavy the portal's pages are, on a node of a cluster of 100 with 10,000 jobs: how long each takes to its
//! first byte on a connection of its own, and how many bytes it is on the wire, alone and with what it loads.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use muster_tests::net::Namespace;
use serde_json::{Map, Value, json};

use crate::alone::Alone;
use crate::sample::Sample;

/// How often each page is asked for; the first time is a part of it.
const TIMES: usize = 20;
const SETTLE: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_BYTE_MS_MAX: f64 = 50.0;
const FIRST_VISIT_BYTES_MAX: usize = 100_000;
const LATER_BYTES_MAX: usize = 30_000;

/// The pages by a name for the figures; `JOB` is a job that waits.
const PAGES: [(&str, &str); 14] = [
    ("overview", "/"),
    ("jobs", "/jobs"),
    ("jobs_waiting", "/jobs?state=WAITING"),
    ("jobs_text", "/jobs?text=many"),
    ("job", "/jobs/JOB"),
    ("submit", "/submit"),
    ("account", "/account"),
    ("people", "/people"),
    ("vc", "/virtual-clusters/default"),
    ("documents", "/documents"),
    ("rules", "/documents/failure-rules"),
    ("cluster", "/cluster"),
    ("nodes", "/nodes"),
    ("node", "/nodes/n1"),
];

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PagesArguments {
    /// The `muster` binary.
    #[arg(long)]
    muster: PathBuf,
    /// How many agents make up the cluster.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u8).range(1..=200))]
    agents: u8,
    /// How many jobs there are.
    #[arg(long, default_value_t = 10_000)]
    jobs: usize,
}

pub(crate) async fn run(arguments: &PagesArguments) -> Result<Value> {
    let alone = Alone::among(&arguments.muster, usize::from(arguments.agents)).await?;
    let job = alone.one_job().await?;
    alone.cordon().await?;
    alone.fill(arguments.jobs).await?;
    tokio::time::sleep(SETTLE).await;
    let mut line = Map::new();
    line.insert("bench".to_owned(), json!("pages"));
    line.insert("agents".to_owned(), json!(arguments.agents));
    line.insert("jobs".to_owned(), json!(arguments.jobs));
    let visitor = Visitor {
        namespace: alone.node().namespace(),
        token: alone.client.token(),
    };
    let mut met = true;
    for (name, path) in PAGES {
        let figures = PageFigures::of(&visitor, &path.replace("JOB", &job))?;
        met &= figures.is_met();
        figures.tell(name, &mut line);
    }
    line.insert("met".to_owned(), json!(met));
    Ok(Value::Object(line))
}

/// A page as it was served.
struct PageFigures {
    first_byte: Sample,
    /// Of the page, on the wire.
    bytes: usize,
    /// With all that it loads.
    first_visit_bytes: usize,
    requests: usize,
}

impl PageFigures {
    fn of(visitor: &Visitor<'_>, path: &str) -> Result<Self> {
        let mut first_byte = Sample::new()?;
        let first = visitor.visit(path)?;
        first_byte.add(first.first_byte);
        for _ in 1..TIMES {
            first_byte.add(visitor.visit(path)?.first_byte);
        }
        let assets = first.assets()?;
        let mut first_visit_bytes = first.wire.len();
        for asset in &assets {
            first_visit_bytes += visitor.visit(asset)?.wire.len();
        }
        Ok(Self {
            first_byte,
            bytes: first.wire.len(),
            first_visit_bytes,
            requests: 1 + assets.len(),
        })
    }

    fn is_met(&self) -> bool {
        self.first_byte.ms(1.0) <= FIRST_BYTE_MS_MAX
            && self.first_visit_bytes <= FIRST_VISIT_BYTES_MAX
            && self.bytes <= LATER_BYTES_MAX
    }

    fn tell(&self, name: &str, line: &mut Map<String, Value>) {
        let figures = [
            ("first_byte_p50_ms", json!(self.first_byte.ms(0.5))),
            ("first_byte_ms", json!(self.first_byte.ms(1.0))),
            ("bytes", json!(self.bytes)),
            ("first_visit_bytes", json!(self.first_visit_bytes)),
            ("requests", json!(self.requests)),
        ];
        let named = figures.map(|(figure, value)| (format!("{name}_{figure}"), value));
        line.extend(named);
    }
}

/// A browser of the admin's, as far as the wire sees it.
struct Visitor<'a> {
    namespace: &'a Namespace,
    token: &'a str,
}

/// An answer as it came.
struct Visit {
    /// From before the connection was opened.
    first_byte: Duration,
    /// Head and body.
    wire: Vec<u8>,
}

impl Visitor<'_> {
    /// Opens a connection, asks once, and reads all of the answer.
    fn visit(&self, path: &str) -> Result<Visit> {
        let address = Alone::address();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/html\r\naccept-encoding: gzip\r\n\
             cookie: muster_session={}\r\nconnection: close\r\n\r\n",
            self.token
        );
        let begun = Instant::now();
        let mut stream = self.namespace.enter(|| TcpStream::connect(address))??;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(request.as_bytes())?;
        let mut wire = vec![0];
        stream.read_exact(&mut wire)?;
        let first_byte = begun.elapsed();
        stream.read_to_end(&mut wire)?;
        ensure!(
            wire.starts_with(b"HTTP/1.1 200"),
            "{path}: {}",
            String::from_utf8_lossy(&wire[..wire.len().min(200)])
        );
        Ok(Visit { first_byte, wire })
    }
}

impl Visit {
    /// What the page has the browser load.
    fn assets(&self) -> Result<BTreeSet<String>> {
        let page = self.text()?;
        let named = page.split('"').filter(|part| part.starts_with("/assets/"));
        let assets: BTreeSet<String> = named.map(str::to_owned).collect();
        ensure!(!assets.is_empty(), "the page loads no style");
        Ok(assets)
    }

    fn text(&self) -> Result<String> {
        const HEAD_END: &[u8] = b"\r\n\r\n";
        let mut windows = self.wire.windows(HEAD_END.len());
        let end = windows.position(|it| it == HEAD_END);
        let (head, body) = self.wire.split_at(end.context("no head")? + HEAD_END.len());
        let head = String::from_utf8_lossy(head).to_ascii_lowercase();
        ensure!(!head.contains("transfer-encoding"), "{head}");
        let mut text = String::new();
        match head.contains("content-encoding: gzip") {
            true => flate2::read::GzDecoder::new(body).read_to_string(&mut text)?,
            false => (&mut &*body).read_to_string(&mut text)?,
        };
        Ok(text)
    }
}
