use std::sync::Arc;

use super::*;
use crate::index::{Shape, ViewFrame};
use crate::random::SplitMix64;

/// Machines of 4 leaves in pairs, racks of 3, rows of 2 racks, and so many rows.
fn frame(rows: u32) -> Arc<ViewFrame> {
    let shape = Shape {
        types: ["G", "PAIR", "NODE", "RACK", "ROW"]
            .map(str::to_owned)
            .to_vec(),
        size: vec![1, 2, 4, 12, 24],
        levels: vec![None; 5],
        node: 2,
        tops: rows,
        uneven: Vec::new(),
    };
    Arc::new(ViewFrame::new(&shape, 2))
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

/// The level of the lowest cell above all leaves of the spots.
fn lca(frame: &ViewFrame, spots: &[Spot]) -> usize {
    let leaf = |spot: &Spot, bit: u32| spot.bin * frame.bin_size + bit;
    let leaves: Vec<u32> = spots
        .iter()
        .flat_map(|spot| {
            (0..frame.bin_size)
                .filter(|b| spot.mask >> b & 1 == 1)
                .map(|b| leaf(spot, b))
        })
        .collect();
    let within = |level: usize| {
        leaves
            .iter()
            .all(|l| l / frame.shape.size[level] == leaves[0] / frame.shape.size[level])
    };
    (0..frame.shape.size.len())
        .find(|level| within(*level))
        .unwrap_or(frame.shape.size.len())
}

fn packs(bins: &mut Vec<u32>, sizes: &[u32]) -> bool {
    let Some((size, rest)) = sizes.split_first() else {
        return true;
    };
    (0..bins.len()).any(|bin| {
        let fits = bins[bin] >= *size;
        if fits {
            bins[bin] -= size;
            let done = packs(bins, rest);
            bins[bin] += size;
            return done;
        }
        false
    })
}

/// The lowest level a cell of which holds all the pods, by trying every cell.
fn lowest(view: &LeafView, sizes: &[u32]) -> Option<usize> {
    let shape = &view.frame.shape;
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let holds = |level: usize, cell: u32| {
        let size = shape
            .size
            .get(level)
            .copied()
            .unwrap_or_else(|| shape.leaves());
        let leaves = cell * size..(cell + 1) * size;
        let mut bins = vec![0; at(shape.count(2))];
        leaves
            .filter(|leaf| view.has(*leaf))
            .for_each(|leaf| bins[at(leaf / 4)] += 1);
        bins.retain(|free| *free > 0);
        packs(&mut bins, &sizes)
    };
    (0..=shape.size.len()).find(|level| {
        let cells = if *level < shape.size.len() {
            shape.count(*level)
        } else {
            1
        };
        (0..cells).any(|cell| holds(*level, cell))
    })
}

#[test]
fn the_common_cell_is_as_low_as_trying_everything_says() {
    let frame = frame(3);
    let mut placed = 0;
    for seed in 0..4000 {
        let mut random = SplitMix64::new(seed);
        let view = random_view(&mut random, &frame);
        let kinds = 1 + random.below(2);
        let mut sizes = Vec::new();
        for _ in 0..kinds {
            let size = 1 + u32::try_from(random.below(4)).unwrap();
            sizes.extend((0..=random.below(3)).map(|_| size));
        }
        let need = Need::new(sizes.clone());
        let got = fit(&view, &need);
        assert_eq!(
            got.as_ref().map(|spots| lca(&frame, spots)),
            lowest(&view, &sizes),
            "seed {seed}: {sizes:?}"
        );
        let Some(spots) = got else { continue };
        placed += 1;
        let mut taken = vec![0u128; at(frame.bins)];
        for (spot, size) in spots.iter().zip(&sizes) {
            assert_eq!(spot.mask.count_ones(), *size);
            assert_eq!(
                spot.mask & !view.mask(at(spot.bin)) | spot.mask & taken[at(spot.bin)],
                0
            );
            taken[at(spot.bin)] |= spot.mask;
        }
    }
    assert!(placed > 1000, "{placed}");
}

/// Machines as pods: the fewest racks that any choice of racks in the lowest cell allows.
#[test]
fn whole_machines_are_on_the_fewest_racks() {
    let frame = frame(4);
    for seed in 0..2000 {
        let mut random = SplitMix64::new(seed);
        let mut view = LeafView::new(&frame);
        let mut whole = vec![0u32; at(frame.shape.count(3))];
        for bin in 0..frame.bins {
            if random.percent(60) {
                view.set(at(bin), 0b1111);
                whole[at(bin / 3)] += 1;
            }
        }
        view.settle();
        let n = 2 + u32::try_from(random.below(8)).unwrap();
        let need = Need::new(vec![4; at(n)]);
        let Some(spots) = fit(&view, &need) else {
            assert!(whole.iter().sum::<u32>() < n);
            continue;
        };
        let racks: std::collections::BTreeSet<u32> = spots.iter().map(|s| s.bin / 3).collect();
        let level = lca(&frame, &spots);
        let cells: Vec<Vec<u32>> = match level {
            0..=3 => whole.iter().map(|rack| vec![*rack]).collect(),
            4 => whole.chunks(2).map(<[u32]>::to_vec).collect(),
            _ => vec![whole.clone()],
        };
        let fewest = cells.into_iter().filter_map(|mut racks| {
            racks.sort_unstable_by(|a, b| b.cmp(a));
            let mut left = n;
            (1..).zip(racks).find_map(|(count, rack)| {
                left = left.saturating_sub(rack);
                (left == 0).then_some(count)
            })
        });
        assert_eq!(Some(racks.len()), fewest.min(), "seed {seed}: {n} machines");
    }
}
