//! The PCI bus as sysfs shows it.

use std::fmt;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use super::kernel_file::{entries, hex, number};

const DEVICES: &str = "sys/bus/pci/devices";
const BRIDGE: u32 = 0x0604;

/// An address on the bus. Domains have four or more digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PciAddress {
    pub(super) slot: PciSlot,
    pub(super) function: u8,
}

/// An address without the function: all functions of a card share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PciSlot {
    domain: u32,
    bus: u8,
    device: u8,
}

/// The text is no PCI address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a PCI address like 0000:1a:00.0")]
pub(crate) struct PciAddressError;

impl FromStr for PciAddress {
    type Err = PciAddressError;

    fn from_str(text: &str) -> Result<Self, PciAddressError> {
        let number = |digits: &str, len: std::ops::RangeInclusive<usize>| {
            let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
            let digits = (is_hex && len.contains(&digits.len())).then_some(digits);
            let digits = digits.ok_or(PciAddressError)?;
            u32::from_str_radix(digits, 16).map_err(|_| PciAddressError)
        };
        let byte = |digits: &str, len| {
            let number = number(digits, len..=len)?;
            u8::try_from(number).map_err(|_| PciAddressError)
        };
        let (domain, rest) = text.split_once(':').ok_or(PciAddressError)?;
        let (bus, rest) = rest.split_once(':').ok_or(PciAddressError)?;
        let (device, function) = rest.split_once('.').ok_or(PciAddressError)?;
        let slot = PciSlot {
            domain: number(domain, 4..=8)?,
            bus: byte(bus, 2)?,
            device: byte(device, 2)?,
        };
        let function = byte(function, 1)?;
        Ok(Self { slot, function })
    }
}

impl fmt::Display for PciAddress {
    /// As the kernel writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PciSlot {
            domain,
            bus,
            device,
        } = self.slot;
        write!(f, "{domain:04x}:{bus:02x}:{device:02x}.{:x}", self.function)
    }
}

/// One function of a device on the bus.
#[derive(Clone, Debug)]
pub(super) struct PciFunction {
    pub(super) address: PciAddress,
    /// Class and subclass: 0x0302.
    pub(super) class: u32,
    pub(super) vendor: u32,
    pub(super) device: u32,
    /// The kernel's number, which is -1 where it knows none.
    pub(super) numa: Option<i64>,
    /// The bridges above it, the outermost first.
    pub(super) bridges: Vec<PciAddress>,
    /// The kernel's driver that is bound to it.
    pub(super) driver: Option<String>,
    /// Whether it is a virtual function of another one that this machine has.
    pub(super) is_virtual: bool,
    /// Its directory.
    pub(super) dir: PathBuf,
}

/// All functions on the bus whose class or vendor is asked for, by address.
pub(super) fn functions(root: &Path, wanted: impl Fn(u32, u32) -> bool) -> Vec<PciFunction> {
    let links = entries(root.join(DEVICES)).into_iter();
    let functions = links.filter_map(|(name, link)| {
        let address = name.parse().ok()?;
        let class = hex(link.join("class"))? >> 8;
        let vendor = hex(link.join("vendor"))?;
        wanted(class, vendor).then(|| read(root, address, class, vendor, link))?
    });
    let mut functions: Vec<_> = functions.collect();
    functions.sort_by_key(|function| function.address);
    functions
}

fn read(
    root: &Path,
    address: PciAddress,
    class: u32,
    vendor: u32,
    link: PathBuf,
) -> Option<PciFunction> {
    let driver = fs::read_link(link.join("driver")).ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    Some(PciFunction {
        address,
        class,
        vendor,
        device: hex(link.join("device"))?,
        numa: number(link.join("numa_node")),
        bridges: bridges(root, &link),
        driver,
        is_virtual: link.join("physfn").exists(),
        dir: link,
    })
}

/// The bridges above a device: its path below /sys has them all.
fn bridges(root: &Path, link: &Path) -> Vec<PciAddress> {
    let mut above = addresses(link);
    above.pop();
    let is_bridge = |address: &PciAddress| {
        let class = hex(root.join(DEVICES).join(address.to_string()).join("class"));
        class.is_none_or(|class| class >> 8 == BRIDGE)
    };
    above.retain(is_bridge);
    above
}

/// The PCI addresses in a directory's real path, the outermost first.
pub(super) fn addresses(dir: &Path) -> Vec<PciAddress> {
    let Ok(path) = fs::canonicalize(dir) else {
        return Vec::new();
    };
    path.components().filter_map(address).collect()
}

fn address(part: Component<'_>) -> Option<PciAddress> {
    part.as_os_str().to_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written() {
        for (text, expect) in [
            ("0000:1a:00.0", "0000:1a:00.0"),
            ("10000:00:04.0", "10000:00:04.0"),
            ("00000000:1A:1F.7", "0000:1a:1f.7"),
            ("0035:03:00.1", "0035:03:00.1"),
        ] {
            assert_eq!(text.parse::<PciAddress>().unwrap().to_string(), expect);
        }
        for text in [
            "",
            "pci0000:00",
            "0000:1a:00",
            "00:1a:00.0",
            "0000:1a:00.00",
            "0000:1g:00.0",
        ] {
            assert!(text.parse::<PciAddress>().is_err(), "{text}");
        }
    }
}
