//! Lines of NVIDIA's kernel modules: Xid of GPUs, SXid of switches, GPUs that are gone.

use muster_model::health::HealthSubject;

use super::{KernelFact, RecoveryChange, kernel_form, leading_number};

const XID: &str = "NVRM: Xid (";
const SWITCH: &str = "nvidia-nvswitch";
const NAMED: &str = "NVRM: The NVIDIA GPU ";
const GONE: &str = "fallen off the bus and is not responding to commands";
/// What the driver writes for a name that it does not know; for a number it has quotes as well.
const UNKNOWN: &str = "<unknown>";
const RECOVERY: &str = "GPU recovery action changed from ";

/// What a line of NVIDIA's drivers says. None for other lines.
pub(super) fn fact(line: &str) -> Option<KernelFact> {
    if let Some(rest) = after(line, XID) {
        return xid(rest);
    }
    if line.contains("nvidia-peermem ") && line.contains("detected invalid context") {
        return Some(KernelFact::new(HealthSubject::Machine, "peermem-context"));
    }
    sxid(after(line, SWITCH)?)
}

/// The address of a GPU that a message of several lines begins with.
pub(super) fn named_gpu(line: &str) -> Option<String> {
    let rest = after(line, NAMED)?;
    let address = rest.split(|c: char| c.is_whitespace()).next()?;
    // A message of one line is no beginning.
    let is_whole = rest.trim_end().len() > address.len() && !rest.contains("PCI ID");
    kernel_form(address).filter(|_| !is_whole)
}

/// The second line of such a message.
pub(super) fn numbers_gpu(line: &str) -> bool {
    line.contains("(PCI ID: ")
}

/// The third line, if the GPU is gone. Other messages begin in the same way.
pub(super) fn says_gone(line: &str) -> bool {
    line.contains(GONE)
}

pub(super) fn gone(address: &str) -> KernelFact {
    KernelFact::new(HealthSubject::at(address), "gpu-gone")
}

fn after<'a>(line: &'a str, mark: &str) -> Option<&'a str> {
    line.split_once(mark).map(|(_, rest)| rest)
}

/// `PCI:0000:05:00): 79, pid=12, name=python3, GPU has fallen off the bus.`
fn xid(rest: &str) -> Option<KernelFact> {
    let (address, rest) = rest.split_once("): ")?;
    let subject = HealthSubject::at(kernel_form(address.trim_start_matches("PCI:"))?);
    let number = leading_number(rest)?;
    let detail = rest.split_once(", ").map_or("", |(_, detail)| detail);
    let (pid, detail) = field(detail, "pid=");
    let (process, detail) = field(detail, "name=");
    Some(KernelFact {
        pid: pid.and_then(|pid| pid.parse().ok()),
        process: process
            .filter(|process| *process != UNKNOWN)
            .map(str::to_owned),
        fatal: fatal(detail),
        recovery: recovery(detail),
        ..KernelFact::new(subject, format!("xid {number}")).at_place(place(detail))
    })
}

/// A field that the text begins with, and what comes after it.
fn field<'a>(text: &'a str, name: &str) -> (Option<&'a str>, &'a str) {
    let Some(rest) = text.strip_prefix(name) else {
        return (None, text);
    };
    let (value, rest) = rest.split_once(", ").unwrap_or((rest, ""));
    (Some(value), rest)
}

/// Whether a word of the line says so.
fn fatal(detail: &str) -> Option<bool> {
    let mut words = detail.split([' ', ',']);
    words.find_map(|word| match word {
        "Fatal" => Some(true),
        "Nonfatal" | "Non-fatal" => Some(false),
        _ => None,
    })
}

/// `GPC 10, TPC 1` of `(GPC 10, TPC 1, SM 1)`, the engine of a memory fault, or a link.
fn place(detail: &str) -> Option<String> {
    if let Some(rest) = after(detail, "(GPC ") {
        let gpc = leading_number(rest)?;
        let tpc = leading_number(after(rest, "TPC ")?)?;
        return Some(format!("GPC {gpc}, TPC {tpc}"));
    }
    if let Some(rest) = after(detail, "ENGINE ") {
        let (engine, _) = rest.split_once(" faulted")?;
        return Some(engine.to_owned());
    }
    let link = leading_number(after(detail, "Link ")?)?;
    Some(format!("link {link}"))
}

/// `0x4 (Drain and Reset) to 0x1 (GPU Reset Required)`
fn recovery(detail: &str) -> Option<RecoveryChange> {
    let rest = after(detail, RECOVERY)?;
    let (from, to) = rest.split_once(" to ")?;
    let number = |text: &str| {
        let word = text.split(' ').next()?;
        u32::from_str_radix(word.trim_start_matches("0x"), 16).ok()
    };
    Some(RecoveryChange {
        from: number(from)?,
        to: number(to)?,
    })
}

/// `0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 62 LTSSM Fault Up`. Lines of the same error
/// that list registers say nothing of how bad it is, and are none of their own.
fn sxid(rest: &str) -> Option<KernelFact> {
    let rest = after(rest, "SXid (")?;
    let (address, rest) = rest.split_once("): ")?;
    let subject = HealthSubject::at(kernel_form(address.trim_start_matches("PCI:"))?);
    let number = leading_number(rest)?;
    let detail = rest.split_once(", ").map_or("", |(_, detail)| detail);
    Some(KernelFact {
        fatal: Some(fatal(detail)?),
        ..KernelFact::new(subject, format!("sxid {number}")).at_place(place(detail))
    })
}
