use std::sync::Arc;

use muster_model::cluster_spec::UnevenLevel;

use super::*;
use crate::index::{Shape, UnevenGroups, ViewFrame};
use crate::random::SplitMix64;

/// Machines of 8 leaves in pairs and sockets, racks of 3.
fn shape() -> Shape {
    Shape {
        types: ["G", "PAIR", "SOCKET", "NODE", "RACK"]
            .map(str::to_owned)
            .to_vec(),
        size: vec![1, 2, 4, 8, 24],
        levels: vec![
            None,
            Some(Level::Pcie),
            Some(Level::Numa),
            Some(Level::Node),
            Some(Level::Rack),
        ],
        node: 3,
        tops: 2,
        uneven: Vec::new(),
    }
}

fn random_view(random: &mut SplitMix64, frame: &Arc<ViewFrame>) -> LeafView {
    let mut view = LeafView::new(frame);
    let often = 20 + 20 * random.below(4);
    for leaf in 0..frame.shape.leaves() {
        view.set_leaf(leaf, random.percent(often));
    }
    view.settle();
    view
}

fn size_of(level: Level) -> u32 {
    match level {
        Level::Pcie => 2,
        Level::Nvlink => 1,
        Level::Numa => 4,
        Level::Node => 8,
        Level::Rack => 24,
    }
}

/// Whether any choice of leaves would do.
fn fits(view: &LeafView, level: Level, n: u32, k: u32) -> bool {
    let leaves = view.frame.shape.leaves();
    let free = |first: u32, size: u32| (first..first + size).filter(|l| view.has(*l)).count();
    let (pod, all) = match level.is_inside_node() {
        true => (size_of(level), leaves),
        false => (8, size_of(level)),
    };
    (0..leaves / all).any(|cell| {
        let parts = (0..all / pod).map(|part| small(free(cell * all + part * pod, pod)) / k);
        parts.sum::<u32>() >= n
    })
}

/// The cells of a level that leaves of spots lie in.
fn cells(spots: &[Spot], size: u32) -> std::collections::BTreeSet<u32> {
    let leaves = spots.iter().flat_map(|spot| {
        let bits = (0..8).filter(|bit| spot.mask >> bit & 1 == 1);
        bits.map(|bit| (spot.bin * 8 + bit) / size)
    });
    leaves.collect()
}

fn check_spots(view: &LeafView, sizes: &[u32], spots: &[Spot]) {
    let mut taken = vec![0u128; at(view.frame.bins)];
    for (spot, size) in spots.iter().zip(sizes) {
        let free = view.mask(at(spot.bin)) & !taken[at(spot.bin)];
        assert_eq!((spot.mask.count_ones(), spot.mask & !free), (*size, 0));
        taken[at(spot.bin)] |= spot.mask;
    }
}

fn check_wish(wish: &crate::decide::need::Wish, spots: &[Spot]) {
    let spots = &spots[wish.pods.clone()];
    let size = size_of(wish.level);
    match wish.level.is_inside_node() {
        true => assert!(spots.iter().all(|spot| cells(&[*spot], size).len() == 1)),
        false => assert_eq!(cells(spots, size).len(), 1),
    }
}

#[test]
fn equal_pods_find_a_place_whenever_there_is_one() {
    let frame = Arc::new(ViewFrame::new(&shape(), 3));
    let (mut placed, mut waited) = (0, 0);
    for seed in 0..6000 {
        let mut random = SplitMix64::new(seed);
        let view = random_view(&mut random, &frame);
        let level = *random
            .one_of(&[Level::Pcie, Level::Numa, Level::Node, Level::Rack])
            .unwrap();
        let n = 1 + u32::try_from(random.below(5)).unwrap();
        let most = size_of(level).min(8);
        let k = 1 + u32::try_from(random.below(u64::from(most))).unwrap();
        let need = Need::near(level, at(n), k);
        let possible = fits(&view, level, n, k);
        let got = super::super::fit::fit(&view, &need);
        assert_eq!(got.is_some(), possible, "seed {seed}: {n} x {k} in {level}");
        let across = super::super::fit::fit_across(&[&view], &need);
        assert_eq!(
            across.is_some(),
            possible,
            "seed {seed}: {n} x {k} in {level}"
        );
        // The ordinary search finds most of them already; this one must as well.
        let together = match view.frame.shape.near_part(level).unwrap() {
            NearPart::Cells(own) if !level.is_inside_node() => {
                Some(together::fit(&view, own, n, k))
            }
            _ => None,
        };
        assert!(
            together
                .as_ref()
                .is_none_or(|spots| spots.is_some() == possible)
        );
        for spots in got.iter().chain(&across).chain(together.iter().flatten()) {
            check_spots(&view, &need.sizes, spots);
            check_wish(&need.wishes[0], spots);
        }
        match got {
            Some(_) => placed += 1,
            None => waited += 1,
        }
    }
    assert!(placed > 1000 && waited > 500, "{placed} {waited}");
}

/// Machines of 8 leaves in groups of three and one, which are no cells.
fn uneven_shape() -> Shape {
    let level = UnevenLevel {
        level: Level::Nvlink,
        sizes: vec![3, 3, 1, 1],
    };
    Shape {
        uneven: vec![UnevenGroups::new(&level)],
        ..shape()
    }
}

#[test]
fn equal_pods_find_a_group_whenever_there_is_one() {
    // Bins of a machine, and of a socket, which cuts the second group.
    for (bin, groups) in [
        (3, [0..3, 3..6, 6..7, 7..8].as_slice()),
        (2, [0..3, 3..4, 4..6, 6..7, 7..8].as_slice()),
    ] {
        let frame = Arc::new(ViewFrame::new(&uneven_shape(), bin));
        let mut placed = 0;
        for seed in 0..2000 {
            let mut random = SplitMix64::new(seed);
            let view = random_view(&mut random, &frame);
            let (n, k) = (1 + random.below(5), 1 + random.below(4));
            let (n, k) = (u32::try_from(n).unwrap(), u32::try_from(k).unwrap());
            let machines = 0..frame.shape.leaves() / 8;
            let room = machines.map(|machine| {
                let free = |group: &std::ops::Range<u32>| {
                    let leaves = group.clone().map(|leaf| machine * 8 + leaf);
                    small(leaves.filter(|leaf| view.has(*leaf)).count()) / k
                };
                groups.iter().map(free).sum::<u32>()
            });
            let possible = room.sum::<u32>() >= n;
            let need = Need::near(Level::Nvlink, at(n), k);
            let got = super::super::fit::fit(&view, &need);
            let across = super::super::fit::fit_across(&[&view], &need);
            assert_eq!(got.is_some(), possible, "seed {seed}: {n} x {k}");
            assert_eq!(across.is_some(), possible, "seed {seed}: {n} x {k}");
            for spots in got.iter().chain(&across) {
                assert!(holds(&[&view], &need, spots), "seed {seed}: {spots:?}");
                for spot in spots {
                    let first = spot.bin * frame.bin_size % 8;
                    let own = spot.mask << first;
                    let in_group = |group: &std::ops::Range<u32>| {
                        group.clone().fold(own, |left, leaf| left & !(1 << leaf)) == 0
                    };
                    assert!(groups.iter().any(in_group), "{spot:?}");
                    assert_eq!(spot.mask.count_ones(), k);
                }
                placed += 1;
            }
        }
        assert!(placed > 500, "{placed}");
    }
}

/// Members that ask for different things get what they ask for, in one bin and in many.
#[test]
fn several_members_are_each_near_enough() {
    let frame = Arc::new(ViewFrame::new(&shape(), 3));
    let mut placed = 0;
    for seed in 0..3000 {
        let mut random = SplitMix64::new(seed);
        let view = random_view(&mut random, &frame);
        let mut need = Need::new(Vec::new());
        for _ in 0..2 + random.below(2) {
            let first = need.sizes.len();
            let k = 1 + u32::try_from(random.below(3)).unwrap();
            let n = 1 + random.below(3);
            need.sizes.extend((0..n).map(|_| k));
            let levels = [Level::Numa, Level::Node, Level::Rack];
            let level = random.one_of(&levels).copied();
            if let Some(level) = level.filter(|_| random.percent(70)) {
                let pods = first..need.sizes.len();
                need.wishes.push(crate::decide::need::Wish { level, pods });
            }
        }
        let wishes = std::mem::take(&mut need.wishes);
        need = Need::new(need.sizes);
        need.wishes = wishes;
        let bin = u32::try_from(random.below(6)).unwrap();
        let found = [
            super::super::fit::fit(&view, &need),
            super::super::fit::into_bin(&view, bin, &need),
        ];
        for spots in found.iter().flatten() {
            placed += 1;
            check_spots(&view, &need.sizes, spots);
            need.wishes.iter().for_each(|wish| check_wish(wish, spots));
        }
    }
    assert!(placed > 1000, "{placed}");
}
