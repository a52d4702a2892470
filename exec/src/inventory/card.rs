//! Accelerators by the PCI bus and the directories of their drivers. A card is one device,
//! however many functions it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use muster_model::inventory::Accelerator;

use super::kernel_file::{number, numbered, text};
use super::numa::NumaNodes;
use super::pci::{self, PciFunction, PciSlot, addresses};
use super::rules::{AcceleratorRule, AcceleratorRules, FunctionUse, Known, PciNumbers};

/// What the bus and the drivers' directories show.
#[derive(Debug)]
pub(super) struct Bus<'r> {
    rules: &'r AcceleratorRules,
    /// Functions that may be accelerators, by address.
    functions: Vec<PciFunction>,
}

/// A device that no vendor's reader listed.
#[derive(Debug)]
pub(super) struct Card<'r> {
    pub(super) accelerator: Accelerator,
    pub(super) rule: Option<&'r AcceleratorRule>,
    /// The kernel's driver that is bound to it.
    pub(super) bound: Option<String>,
    /// Whether its driver shows it, in a directory or by a file of its own.
    pub(super) is_shown: bool,
    /// The driver's number; its place on the bus among those of its vendor, if the driver
    /// numbers none.
    pub(super) number: Option<u32>,
    /// Where the kernel shows it: the directory of its function, and its driver's entries.
    pub(super) dirs: Vec<PathBuf>,
    /// Its place on the bus. None for a device on no bus.
    slot: Option<PciSlot>,
}

/// Cards that a driver lists: slot and vendor.
pub(super) type ListedCards = BTreeSet<(PciSlot, String)>;

/// What tells cards apart: slot, vendor, and the function if each is a device.
type CardKey = (PciSlot, u32, u8);

/// A function with what the rules say of it.
type KnownFunction<'b, 'r> = (&'b PciFunction, Known<'r>);

/// An entry in a driver's directory.
#[derive(Clone, Debug)]
struct DriverEntry {
    number: u32,
    dir: PathBuf,
    slot: Option<PciSlot>,
}

impl<'r> Bus<'r> {
    pub(super) fn read(root: &Path, rules: &'r AcceleratorRules) -> Self {
        let functions = pci::functions(root, |class, vendor| rules.may_be(class, vendor));
        Self { rules, functions }
    }

    /// The first function in a slot.
    pub(super) fn function(&self, slot: PciSlot) -> Option<&PciFunction> {
        let mut functions = self.functions.iter();
        functions.find(|function| function.address.slot == slot)
    }

    /// Whether the rules leave out the card in a slot.
    pub(super) fn is_left_out(&self, slot: PciSlot) -> bool {
        let mut functions = self.functions.iter().filter(|it| it.address.slot == slot);
        let first = functions.next();
        first.is_some_and(|first| {
            let mut all = std::iter::once(first).chain(functions);
            all.all(|function| self.rules.leave_out(numbers(function)))
        })
    }

    /// Whether a function of this vendor and class is there.
    pub(super) fn has(&self, vendor: u32, class: u32) -> bool {
        let mut functions = self.functions.iter();
        functions.any(|function| function.vendor == vendor && function.class == class)
    }

    /// Devices that are none of the `listed` cards: those of one vendor together, in the order of
    /// their driver, else of the bus.
    pub(super) fn cards(
        &self,
        root: &Path,
        listed: &ListedCards,
        numa: &NumaNodes,
    ) -> Vec<Card<'r>> {
        let mut cards: Vec<Card<'r>> = Vec::new();
        for functions in self.by_card().into_values() {
            let is_listed = |(function, known): &KnownFunction<'_, 'r>| {
                listed.contains(&(function.address.slot, known.vendor.clone()))
            };
            if !functions.iter().any(is_listed) {
                cards.extend(self.card(root, &functions, numa));
            }
        }
        let mut slots: BTreeSet<PciSlot> = listed.iter().map(|(slot, _)| *slot).collect();
        slots.extend(cards.iter().filter_map(|card| card.slot));
        for rule in self.rules.rules() {
            cards.extend(self.shown_only_by_driver(root, rule, &mut slots, numa));
        }
        order(cards)
    }

    /// The functions of each card that are an accelerator.
    fn by_card(&self) -> BTreeMap<CardKey, Vec<KnownFunction<'_, 'r>>> {
        let mut cards: BTreeMap<_, Vec<_>> = BTreeMap::new();
        let real = self
            .functions
            .iter()
            .filter(|function| !function.is_virtual);
        for function in real {
            let Some(known) = self.rules.known(numbers(function)) else {
                continue;
            };
            let each = known
                .rule
                .is_some_and(|rule| rule.functions == FunctionUse::Each);
            let number = if each { function.address.function } else { 0 };
            let key = (function.address.slot, function.vendor, number);
            cards.entry(key).or_default().push((function, known));
        }
        cards
    }

    fn card(
        &self,
        root: &Path,
        functions: &[KnownFunction<'_, 'r>],
        numa: &NumaNodes,
    ) -> Option<Card<'r>> {
        let ((function, known), has_file) = used(functions)?;
        let slot = function.address.slot;
        let entries = known.rule.map(|rule| entries_of(root, rule));
        let mut entries = entries.unwrap_or_default();
        entries.retain(|entry| entry.slot == Some(slot));
        let dirs = entries.iter().map(|entry| entry.dir.clone());
        let dirs = std::iter::once(function.dir.clone()).chain(dirs).collect();
        let entry = entries.into_iter().next();
        let model = || functions.iter().find_map(|(_, known)| known.model.clone());
        let model = known.model.clone().or_else(model);
        Some(Card {
            accelerator: Accelerator {
                kind: known.kind,
                vendor: known.vendor.clone(),
                model: model.unwrap_or_else(|| by_number(function)),
                pci: Some(function.address.to_string()),
                numa: numa.of_device(function.numa.filter(|number| *number >= 0)),
                memory_mb: memory_mb(known.rule, entry.as_ref()).unwrap_or(known.memory_mb),
                partition_of: None,
            },
            rule: known.rule,
            bound: function.driver.clone(),
            is_shown: entry.is_some() || has_file,
            number: entry.map(|entry| entry.number),
            dirs,
            slot: Some(slot),
        })
    }

    /// Devices that only the driver's directory shows: those on no bus, and cards whose class
    /// says nothing of an accelerator. Those in `slots` are listed already; theirs are added.
    fn shown_only_by_driver(
        &self,
        root: &Path,
        rule: &'r AcceleratorRule,
        slots: &mut BTreeSet<PciSlot>,
        numa: &NumaNodes,
    ) -> Vec<Card<'r>> {
        let entries = entries_of(root, rule).into_iter();
        let entries = entries.filter(|entry| self.is_for(rule, entry));
        let new = entries.filter(|entry| entry.slot.is_none_or(|slot| slots.insert(slot)));
        new.map(|entry| self.entry_card(rule, entry, numa))
            .collect()
    }

    /// Whether an entry shows a device of the rule's vendor.
    fn is_for(&self, rule: &AcceleratorRule, entry: &DriverEntry) -> bool {
        if !rule.is_without_pci() {
            let function = entry.slot.and_then(|slot| self.function(slot));
            return function.is_some_and(|function| rule.is_for_vendor(function.vendor));
        }
        let name = text(entry.dir.join("name")).unwrap_or_default();
        rule.name_has.is_empty()
            || rule
                .name_has
                .iter()
                .any(|word| name.contains(word.as_str()))
    }

    fn entry_card(
        &self,
        rule: &'r AcceleratorRule,
        entry: DriverEntry,
        numa: &NumaNodes,
    ) -> Card<'r> {
        let function = entry.slot.and_then(|slot| self.function(slot));
        let named = text(entry.dir.join("name")).filter(|name| !name.is_empty());
        let numbered = || function.map(by_number);
        let told = function.and_then(|function| function.numa.filter(|number| *number >= 0));
        Card {
            accelerator: Accelerator {
                kind: rule.kind,
                vendor: rule.vendor.clone(),
                model: named.or_else(numbered).unwrap_or_else(|| "unknown".into()),
                pci: function.map(|function| function.address.to_string()),
                numa: numa.of_device(told),
                memory_mb: memory_mb(Some(rule), Some(&entry)).unwrap_or(0),
                partition_of: None,
            },
            rule: Some(rule),
            bound: function.and_then(|function| function.driver.clone()),
            is_shown: true,
            number: Some(entry.number),
            slot: entry.slot,
            dirs: vec![entry.dir],
        }
    }
}

/// The function of a card that tasks use: the one with the driver's file, else the first. Whether
/// there is such a file is told beside it.
fn used<'f, 'b, 'r>(
    functions: &'f [KnownFunction<'b, 'r>],
) -> Option<(&'f KnownFunction<'b, 'r>, bool)> {
    let with_file = functions.iter().filter_map(|one| {
        let (function, known) = one;
        let mut files = known.rule?.driver_files.iter();
        let place = files.position(|file| function.dir.join(file).exists())?;
        Some((place, function.address, one))
    });
    let with_file = with_file.min_by_key(|(place, address, _)| (*place, *address));
    let with_file = with_file.map(|(_, _, one)| one);
    let used = with_file.or_else(|| functions.first())?;
    Some((used, with_file.is_some()))
}

fn numbers(function: &PciFunction) -> PciNumbers {
    PciNumbers {
        class: function.class,
        vendor: function.vendor,
        device: function.device,
        is_on_root_bus: function.bridges.is_empty(),
    }
}

/// `VENDOR:DEVICE`, for a device that no table has.
fn by_number(function: &PciFunction) -> String {
    format!("{:04x}:{:04x}", function.vendor, function.device)
}

/// The entries of a rule's driver, by directory and number.
fn entries_of(root: &Path, rule: &AcceleratorRule) -> Vec<DriverEntry> {
    let dirs = rule.driver_entries.iter();
    let entries = dirs.flat_map(|entries| numbered(root.join(&entries.dir), &entries.prefix));
    let entries = entries.map(|(number, dir)| DriverEntry {
        number,
        slot: addresses(&dir).last().map(|address| address.slot),
        dir,
    });
    entries.collect()
}

fn memory_mb(rule: Option<&AcceleratorRule>, entry: Option<&DriverEntry>) -> Option<u64> {
    let file = rule?.memory_file.as_ref()?;
    let units = number(entry?.dir.join(&file.file))?;
    u64::try_from(units).ok()?.checked_mul(file.unit_mb)
}

/// Devices of one vendor together, in the order of the first of each on the bus; those that
/// have a number of their driver by it.
fn order(mut cards: Vec<Card<'_>>) -> Vec<Card<'_>> {
    cards.sort_by(|a, b| {
        (a.slot.is_none(), a.slot, &a.accelerator.pci).cmp(&(
            b.slot.is_none(),
            b.slot,
            &b.accelerator.pci,
        ))
    });
    let mut firsts: BTreeMap<String, usize> = BTreeMap::new();
    for (place, card) in cards.iter().enumerate() {
        firsts
            .entry(card.accelerator.vendor.clone())
            .or_insert(place);
    }
    cards.sort_by_key(|card| {
        let first = firsts.get(&card.accelerator.vendor).copied();
        (first, card.number.is_none(), card.number)
    });
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for card in &mut cards {
        let count = counts.entry(card.accelerator.vendor.clone()).or_default();
        card.number.get_or_insert(*count);
        *count += 1;
    }
    cards
}
