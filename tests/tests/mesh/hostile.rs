//! What somebody with a member's key may do to the others: nothing, and they tell of it.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use muster_gossip::frame::{FRAME_BYTES_MAX, MeshFrame, Push, codec};
use muster_gossip::member::MemberId;
use muster_gossip::record::{
    DocumentId, Header, HeaderStage, NodeBody, Record, RecordKey, RecordVersion,
};
use muster_tests::net::{BareNode, Lan, View, Watch};

use super::impostor::{Impostor, Line};
use super::{LIMIT, elsewhere, pages, rules, united};

const GIB: u64 = 1 << 30;
/// Records written in the name of another member.
const FORGERIES: u64 = 100;
/// How often an old record is said again.
const REPLAYS: usize = 500;
/// Times that a stream much longer than a frame is sent.
const FLOODS: usize = 20;
/// Bytes that an agent may grow by; its allocator keeps what it once had.
const GROWTH_MAX: u64 = 6 << 20;
/// A document that no release knows.
const UNKNOWN: DocumentId = DocumentId(77);

/// What was sent to one member.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Frames that cannot be read.
    unreadable: u64,
    /// Records that are not to be taken.
    records: u64,
    /// Streams that are longer than any frame.
    floods: u64,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stolen_key_does_no_harm_and_is_told_of() -> Result<()> {
    let Some(mut lan) = united(4).await? else {
        return Ok(());
    };
    let old = record_of_2(&mut lan).await?;
    let rest = elsewhere(&lan, 4);
    rest.agree(3, LIMIT).await?;
    let before = rest.views().await?;
    let memory_before = memory(&lan)?;

    let impostor = Impostor::new(lan.node(4), "node.key", lan.node(1))?;
    let mut sent = Vec::new();
    for number in 1..=3 {
        let address = lan.node(number).address();
        sent.push(inside(lan.node(4), attack(&impostor, address, &old))?);
    }
    println!("sent: {sent:?}");
    all_refused(&rest, &before, &sent).await?;
    rest.agree(3, LIMIT).await?;
    same(&before, &rest.views().await?)?;
    for number in 1..=3 {
        told_of(lan.node(number))?;
    }
    huge_is_rejected(&lan, &impostor).await?;
    change_arrives(&lan).await?;
    rest.agree(3, LIMIT).await?;
    let memory_after = memory(&lan)?;
    println!("memory: {memory_before:?}, then {memory_after:?}");
    let mut pairs = memory_before.iter().zip(&memory_after);
    ensure!(pairs.all(|(before, after)| after < &(before + GROWTH_MAX)));
    Ok(())
}

/// Stops node 4 and takes its place; what node 2 said before it started anew.
async fn record_of_2(lan: &mut Lan) -> Result<Arc<Record>> {
    lan.node_mut(4).stop()?;
    let impostor = Impostor::new(lan.node(4), "node.key", lan.node(1))?;
    let address = lan.node(1).address();
    let old = inside(lan.node(4), async {
        let line = impostor.call(address).await?;
        line.ask(RecordKey::Node(MemberId(id(lan, 2)?)), 1).await
    })?;
    let life = |view: &View| view.incarnation("n2");
    let before = elsewhere(lan, 4).views().await?[0].clone();
    lan.node_mut(2).stop()?;
    lan.node_mut(2).start()?;
    let anew = |view: &View| life(view) > life(&before);
    let rest = elsewhere(lan, 4);
    rest.each("n2 speaks anew", LIMIT, anew).await?;
    Ok(old)
}

/// A node's number in the cluster, which is not its number in the network.
fn id(lan: &Lan, number: usize) -> Result<u32> {
    let folder = if number == 1 { "own" } else { "joined" };
    let mesh = lan.node(number).home().join("state/mesh");
    let path = mesh.join(folder).join("membership.json");
    let membership: serde_json::Value = serde_json::from_slice(&std::fs::read(path)?)?;
    let id = membership["member"].as_u64().context("no member")?;
    Ok(id.try_into()?)
}

/// Runs something where a node is.
fn inside<T: Send>(node: &BareNode, run: impl Future<Output = Result<T>> + Send) -> Result<T> {
    node.namespace().enter(|| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build()?;
        runtime.block_on(run)
    })?
}

async fn attack(impostor: &Impostor, victim: IpAddr, old: &Arc<Record>) -> Result<Sent> {
    let mut sent = Sent::default();
    let line = impostor.call(victim).await?;
    let newest = line.ask(old.key, old.version.incarnation + 1).await?;
    for frame in tampered(&line, &newest) {
        if line.is_frame(&frame) {
            sent.records += 1;
        } else {
            sent.unreadable += 1;
        }
        line.send(&frame).await?;
    }
    for number in 1..=FORGERIES {
        let forgery = forgery(impostor, &newest, number)?;
        line.send(&line.encode(&push(forgery))).await?;
        sent.records += 1;
    }
    for _ in 0..REPLAYS {
        line.send(&line.encode(&push(old.clone()))).await?;
        sent.records += 1;
    }
    for header in headers(impostor)? {
        line.send(&line.encode(&push(header))).await?;
        sent.records += 1;
    }
    for frame in overlong(&line, &newest) {
        ensure!(!line.is_frame(&frame), "{frame:?}");
        line.send(&frame).await?;
        sent.unreadable += 1;
    }
    // Whole frames, whose cargo is none: groups drop it.
    for cargo in [vec![], vec![0xff; 64], vec![7; 200 << 10]] {
        let cargo = line.encode(&MeshFrame::Cargo(cargo.into()));
        line.send(&cargo).await?;
    }
    line.hang_up().await?;
    for _ in 0..FLOODS {
        flood(impostor, victim).await?;
        sent.floods += 1;
    }
    Ok(sent)
}

fn push(record: Arc<Record>) -> MeshFrame {
    let records = vec![record];
    MeshFrame::Push(Push { number: 0, records })
}

/// Frames with this record, each with another byte of it changed. Their checksums are right.
fn tampered(line: &Line, record: &Arc<Record>) -> Vec<Vec<u8>> {
    let frame = line.encode(&push(record.clone()));
    let at = frame.len() - record.bytes().len();
    let changed = (at..frame.len()).map(|at| {
        let mut frame = frame.clone();
        frame[at] ^= 1;
        codec::seal(&mut frame);
        frame
    });
    changed.collect()
}

/// What this member's next words could be, signed by the impostor.
fn forgery(impostor: &Impostor, newest: &Record, number: u64) -> Result<Arc<Record>> {
    let version = RecordVersion {
        number: newest.version.number + number,
        ..newest.version
    };
    let body: NodeBody = newest.body()?;
    let record = Record::sign(impostor.cluster, newest.key, version, &body, impostor)?;
    Ok(Arc::new(record))
}

/// Headers of a document of 1 GiB: signed by a member that may not, and by nobody.
fn headers(impostor: &Impostor) -> Result<[Arc<Record>; 2]> {
    let signed = header(impostor, DocumentId(1))?;
    let mut nobody = signed.bytes().to_vec();
    let signature = nobody.len() - 64;
    nobody[signature..].fill(0);
    let nobody = Record::decode(&nobody)?;
    Ok([signed, nobody].map(Arc::new))
}

fn header(signer: &Impostor, id: DocumentId) -> Result<Record> {
    let header = Header {
        version: 1_000,
        hash: [1; 32],
        bytes: GIB,
        chunks: [2; 32],
        stage: HeaderStage::Active,
        active: 1_000,
        active_body: None,
        author: "nobody".to_owned(),
        at_ms: 0,
        forced: true,
    };
    let version = RecordVersion {
        incarnation: 1,
        number: 1_000,
    };
    let key = RecordKey::Document(id);
    Ok(Record::sign(signer.cluster, key, version, &header, signer)?)
}

/// Frames that say they are longer than they are, or hold more than they do.
fn overlong(line: &Line, record: &Arc<Record>) -> Vec<Vec<u8>> {
    /// Where a frame says how long its body is, and of which kind it is.
    const LENGTH: std::ops::Range<usize> = 6..10;
    const KIND: std::ops::Range<usize> = 4..6;
    /// The kind whose body is any bytes.
    const CARGO: u16 = 9;
    let whole = line.encode(&push(record.clone()));
    let mut long = whole.clone();
    long[LENGTH].copy_from_slice(&u32::try_from(GIB).unwrap_or(u32::MAX).to_le_bytes());
    let mut frames = vec![long];
    for kind in (0..30_u16).filter(|kind| *kind != CARGO) {
        let mut frame = whole[..codec::HEADER_BYTES].to_vec();
        frame[KIND].copy_from_slice(&kind.to_le_bytes());
        // Numbers, and lengths of 2 GiB.
        frame.extend_from_slice(&[0xff, 0xff, 0xff, 0xff, 0x07].repeat(8));
        codec::seal(&mut frame);
        frames.push(frame);
    }
    frames
}

/// Says something longer than a frame, for which the member hangs up.
async fn flood(impostor: &Impostor, victim: IpAddr) -> Result<()> {
    let line = impostor.call(victim).await?;
    let endless = vec![7; FRAME_BYTES_MAX * 16];
    // The member hangs up in the middle of it.
    let _ = line.send(&endless).await;
    line.left_alone().await
}

/// Waits until all that was sent was counted as what it is.
async fn all_refused(rest: &Watch, before: &[View], sent: &[Sent]) -> Result<()> {
    let refused = |views: &[View]| {
        let mut nodes = views.iter().zip(before).zip(sent);
        nodes.all(|((view, before), sent)| {
            let more = |name| view.counters(name) - before.counters(name);
            more("records_old") >= REPLAYS as u64
                // Of the changed ones some count as old: their versions are not newer.
                && more("records_forged") >= FORGERIES + 2
                && refusals(view) - refusals(before) >= sent.records
                && more("net_bad_frame") >= sent.unreadable
                && more("net_oversize_in") >= sent.floods
        })
    };
    let time = rest.all("all is refused", LIMIT, refused).await?;
    println!("counted after {time:?}");
    Ok(())
}

/// Records that were not taken.
fn refusals(view: &View) -> u64 {
    let reasons = ["forged", "malformed", "unknown", "old", "limited"];
    let counts = reasons.map(|reason| view.counters(&format!("records_{reason}")));
    counts.iter().sum()
}

/// Nobody believes anything else of those who were spoken of.
fn same(before: &[View], after: &[View]) -> Result<()> {
    for (before, after) in before.iter().zip(after) {
        let lives = |view: &View| [1, 2, 3].map(|n| view.incarnation(&format!("n{n}")));
        ensure!(lives(before) == lives(after), "{}", after.summary());
        let documents = |view: &View| view.0["documents"].clone();
        ensure!(documents(before) == documents(after), "{}", after.0);
    }
    Ok(())
}

/// What was refused, and why, stands where users look.
fn told_of(node: &BareNode) -> Result<()> {
    // Node 4 does not answer, so all is not well.
    let status = node.refused(&["cluster", "status"], 1)?;
    let members = node.prints(&["cluster", "members"])?;
    let page = pages::curl(node, "/status.txt")?;
    for count in [
        "records_forged",
        "records_old",
        "net_bad_frame",
        "net_oversize_in",
    ] {
        ensure!(status.contains(count), "{count}: {status}");
        ensure!(page.contains(count), "{count}: {page}");
    }
    for text in [members, page] {
        let mut lines = text.lines().filter(|line| line.contains("wrong signature"));
        let by_4 = lines.all(|line| line.contains("n4"));
        ensure!(by_4 && text.contains("wrong signature"), "{text}");
    }
    Ok(())
}

/// A header of 1 GiB that is signed as it should be: nobody fetches that, and all say why.
async fn huge_is_rejected(lan: &Lan, impostor: &Impostor) -> Result<()> {
    let signing = Impostor::new(lan.node(1), "own/signing.key", lan.node(1))?;
    let header = Arc::new(header(&signing, UNKNOWN)?);
    let victim = lan.node(2).address();
    inside(lan.node(4), async {
        let line = impostor.call(victim).await?;
        line.send(&line.encode(&push(header))).await?;
        line.hang_up().await
    })?;
    let rejected = |view: &View| {
        let documents = view.0["documents"].as_array().into_iter().flatten();
        let mut named = documents.filter(|one| one["name"] == "document-77");
        named.any(|one| {
            let problem = one["here"]["problem"].as_str().unwrap_or_default();
            problem.contains("more than 16 MiB") && one["here"]["has_newest"] == false
        })
    };
    let time = elsewhere(lan, 4)
        .each("it is rejected", LIMIT, rejected)
        .await?;
    println!("1 GiB rejected on all after {time:?}");
    for number in 1..=3 {
        let page = pages::curl(lan.node(number), "/status.txt")?;
        ensure!(page.contains("more than 16 MiB"), "{page}");
    }
    Ok(())
}

/// What is honest still arrives.
async fn change_arrives(lan: &Lan) -> Result<()> {
    let text = rules::rules("Honest");
    ensure!(rules::applied(lan.node(3), &text, &["--now"])? == "version 1");
    let in_force = |view: &View| rules::document(view)["here"]["active"] == 1;
    elsewhere(lan, 4)
        .each("a change arrives", LIMIT, in_force)
        .await?;
    Ok(())
}

/// Memory of the agents of nodes 1 to 3, in bytes.
fn memory(lan: &Lan) -> Result<Vec<u64>> {
    (1..=3).map(|number| resident(lan.node(number))).collect()
}

fn resident(node: &BareNode) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", node.pid()?))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kib.context("no VmRSS")?.trim().parse::<u64>()? << 10)
}
