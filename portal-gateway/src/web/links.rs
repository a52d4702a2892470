//! The devices of a node, drawn with what links them, and the same as a table.

use std::collections::BTreeMap;

use maud::{Markup, html};
use muster_model::cluster_spec::Level;
use muster_model::id::JobKey;
use muster_model::known_node::{Has, KnownDevice};
use muster_model::node::DeviceLevel;

use super::{chip, job_list};

/// Width and height of a device, and of what is between two.
const DEVICE: (usize, usize) = (62, 34);
const GAP: usize = 10;
/// Height of a link, and of the wires between two rows.
const BAR: usize = 26;
const WIRE: usize = 20;

/// A rectangle with a text in it.
#[derive(Debug, PartialEq, Eq)]
struct LinkBox {
    x: usize,
    y: usize,
    width: usize,
    height: usize,
    class: &'static str,
    text: String,
}

/// Everything that is drawn.
#[derive(Debug, Default)]
struct LinkDrawing {
    boxes: Vec<LinkBox>,
    /// From a place down to another one: x, and two heights.
    wires: Vec<(usize, usize, usize)>,
    width: usize,
    height: usize,
}

/// The card with the drawing and the table.
/// `holders`: the jobs that have devices, by the index of the device.
pub(super) fn card(node: &str, has: &Has, holders: &BTreeMap<u32, JobKey>) -> Markup {
    html! {
        section.card {
            h2 { "Devices" }
            @if has.devices.is_empty() { p.dim { "It has none." } }
            @else {
                (drawn(&drawing(node, has)))
                @if has.levels.is_empty() { p.dim { "How they are linked is not known." } }
                (table(has, holders))
            }
        }
    }
}

fn drawn(drawing: &LinkDrawing) -> Markup {
    let (width, height) = (drawing.width, drawing.height);
    html! {
        div.wide tabindex="0" role="region" aria-label="Drawing of the devices and their links" {
            svg.links width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) }
                role="img" aria-label="Which devices are linked how; the table below says the same" {
                @for (x, from, to) in &drawing.wires { line.wire x1=(x) x2=(x) y1=(from) y2=(to) {} }
                @for it in &drawing.boxes {
                    rect class=(it.class) x=(it.x) y=(it.y) width=(it.width) height=(it.height) rx="4" {}
                    text x=(it.x + it.width / 2) y=(it.y + it.height / 2 + 4) { (it.text) }
                }
            }
        }
    }
}

fn table(has: &Has, holders: &BTreeMap<u32, JobKey>) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label="Devices" { table {
            thead { tr { th.n scope="col" { "Index" } th scope="col" { "Model" } th scope="col" { "State" } th scope="col" { "Job" }
                @for level in &has.levels { th scope="col" { (title(level.level)) } } } }
            tbody { @for device in &has.devices { tr {
                td.n { (device.index) } td { (device.model) }
                td { @match &device.fault {
                    Some(fault) => { (chip::word(false, "faulty")) " " (fault) }
                    None if device.is_used => { span.chip.busy { "in use" } }
                    None => { (chip::word(true, "free")) }
                } }
                td { @if let Some(key) = holders.get(&device.index) { (job_list::link(key)) " " span.dim { (key.user.as_str()) } } }
                @for level in &has.levels { td { (place(level, device.index)) } }
            } } }
        } }
    }
}

/// `group 1, with 4, 5 and 6`
fn place(level: &DeviceLevel, index: u32) -> String {
    let mut groups = level.groups.iter().enumerate();
    let Some((number, group)) = groups.find(|(_, group)| group.contains(&index)) else {
        return "in none".to_owned();
    };
    let others = group
        .iter()
        .filter(|it| **it != index)
        .map(ToString::to_string);
    let others = others.collect::<Vec<_>>();
    match others.is_empty() {
        true => format!("group {number}, alone"),
        false => format!("group {number}, with {}", others.join(", ")),
    }
}

const fn title(level: Level) -> &'static str {
    match level {
        Level::Pcie => "PCIe switch",
        Level::Nvlink => "NVLink",
        Level::Numa => "Socket",
        Level::Node => "Machine",
        Level::Rack => "Rack",
    }
}

/// Devices side by side, those of a group together; below them what links them, the narrowest first.
fn drawing(node: &str, has: &Has) -> LinkDrawing {
    let mut devices: Vec<&KnownDevice> = has.devices.iter().collect();
    devices.sort_by_key(|device| (groups_of(has, device.index), device.index));
    let mut drawing = LinkDrawing::default();
    let step = DEVICE.0 + GAP;
    // By device, where its wire goes on: the middle and the lower edge of the lowest box that it is in.
    let mut ends = Vec::new();
    for (at, device) in devices.iter().enumerate() {
        let x = GAP + at * step;
        drawing.boxes.push(LinkBox {
            x,
            y: GAP,
            width: DEVICE.0,
            height: DEVICE.1,
            class: match &device.fault {
                Some(_) => "bad",
                None if device.is_used => "used",
                None => "device",
            },
            text: match &device.fault {
                Some(_) => format!("{} faulty", device.index),
                None if device.is_used => format!("{} used", device.index),
                None => format!("{} free", device.index),
            },
        });
        ends.push((x + DEVICE.0 / 2, GAP + DEVICE.1));
    }
    let mut y = GAP + DEVICE.1 + WIRE;
    for level in has.levels.iter().rev() {
        for (number, group) in level.groups.iter().enumerate() {
            let columns =
                |(at, device): (usize, &&KnownDevice)| group.contains(&device.index).then_some(at);
            let columns: Vec<usize> = devices.iter().enumerate().filter_map(columns).collect();
            let text = format!("{} {number}", title(level.level));
            link(
                &mut drawing,
                &mut ends,
                &columns,
                (y, level.level.as_str(), text),
            );
        }
        y += BAR + WIRE;
    }
    let all: Vec<usize> = (0..devices.len()).collect();
    link(&mut drawing, &mut ends, &all, (y, "node", node.to_owned()));
    drawing.width = GAP + devices.len() * step;
    drawing.height = y + BAR + GAP;
    drawing
}

/// Draws what links the devices of these columns, which lie side by side, with a wire from each box above.
fn link(
    drawing: &mut LinkDrawing,
    ends: &mut [(usize, usize)],
    columns: &[usize],
    (y, class, text): (usize, &'static str, String),
) {
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else {
        return;
    };
    let step = DEVICE.0 + GAP;
    let x = GAP + first * step;
    let width = (last - first) * step + DEVICE.0;
    let mut above: Vec<(usize, usize)> = columns.iter().map(|at| ends[*at]).collect();
    above.dedup();
    drawing
        .wires
        .extend(above.iter().map(|(x, from)| (*x, *from, y)));
    for at in columns {
        ends[*at] = (x + width / 2, y + BAR);
    }
    drawing.boxes.push(LinkBox {
        x,
        y,
        width,
        height: BAR,
        class,
        text,
    });
}

/// By level, the widest first, the number of the group that a device is in; those in none come last.
fn groups_of(has: &Has, index: u32) -> Vec<usize> {
    let number = |level: &DeviceLevel| {
        let mut groups = level.groups.iter();
        groups
            .position(|group| group.contains(&index))
            .unwrap_or(usize::MAX)
    };
    has.levels.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::known_node::Share;

    fn has(levels: Vec<DeviceLevel>) -> Has {
        let device = |index: u32| KnownDevice {
            index,
            model: "V100".to_owned(),
            fault: (index == 3).then(|| "Xid 79".to_owned()),
            is_used: index == 0,
        };
        Has {
            share: Share::default(),
            devices: (0..4).map(device).collect(),
            levels,
            silent_ms: 0,
        }
    }

    fn level(level: Level, groups: &[&[u32]]) -> DeviceLevel {
        DeviceLevel {
            level,
            groups: groups.iter().map(|group| group.to_vec()).collect(),
        }
    }

    #[test]
    fn devices_of_a_group_lie_side_by_side_above_what_links_them() {
        let has = has(vec![
            level(Level::Numa, &[&[0, 2], &[1, 3]]),
            level(Level::Nvlink, &[&[0, 2]]),
        ]);
        let drawing = drawing("n1", &has);
        let texts: Vec<&str> = drawing.boxes.iter().map(|it| &*it.text).collect();
        let expect = [
            "0 used", "2 free", "1 free", "3 faulty", "NVLink 0", "Socket 0", "Socket 1", "n1",
        ];
        assert_eq!(texts, expect);
        let find = |text: &str| drawing.boxes.iter().find(|it| it.text == text).unwrap();
        let (nvlink, socket) = (find("NVLink 0"), find("Socket 0"));
        assert_eq!((nvlink.x, nvlink.width), (socket.x, socket.width));
        assert!(nvlink.y < socket.y && socket.y < find("n1").y);
        // Two devices to the NVLink, that one and two devices to the sockets, two sockets to the machine.
        assert_eq!(drawing.wires.len(), 2 + 1 + 2 + 2);
        assert_eq!(find("n1").width, 4 * DEVICE.0 + 3 * GAP);
    }

    #[test]
    fn the_table_says_what_is_drawn() {
        let has = has(vec![level(Level::Nvlink, &[&[0, 2], &[3]])]);
        let told = |index| place(&has.levels[0], index);
        assert_eq!(told(0), "group 0, with 2");
        assert_eq!(told(3), "group 1, alone");
        assert_eq!(told(1), "in none");
    }
}
