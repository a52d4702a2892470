//! Where in a view a gang fits, as near together as it can be.
//!
//! One bin if one has room; else the lowest domain that holds the whole gang, and among those of
//! one rank the one with the least to spare; inside it the fewest racks.

use super::need::{Need, Spot};
use super::pack::{StepBudget, pack};
use super::{near, racks};
use crate::index::{LeafView, ViewFrame, at, pick, small};

/// Domains of a rank that are looked at.
const CANDIDATES: usize = 64;
/// Of those that hold the gang, how many are compared by racks.
const COMPARED: usize = 8;

/// Spots by pod, or none if the gang does not fit.
pub(crate) fn fit(view: &LeafView, need: &Need) -> Option<Vec<Spot>> {
    match need.wishes.is_empty() {
        true => anywhere(view, need),
        false => near::fit(view, need),
    }
}

/// The same, whoever asks to be near to whom.
pub(crate) fn anywhere(view: &LeafView, need: &Need) -> Option<Vec<Spot>> {
    let root = view.frame.domains.root;
    if view.free(root) < need.total {
        return None;
    }
    if let Some(spots) = in_one_bin(view, need) {
        return Some(spots);
    }
    if let Some(racks) = &view.racks
        && let Some(spots) = racks::fit(view, racks, need)
    {
        return Some(spots);
    }
    if need.is_uniform {
        return uniform(view, small(need.sizes.len()), *need.sizes.first()?);
    }
    mixed(view, need)
}

fn in_one_bin(view: &LeafView, need: &Need) -> Option<Vec<Spot>> {
    let root = view.frame.domains.root;
    let classes = view.frame.classes.order(need.total);
    let class = classes
        .iter()
        .find(|class| view.bins_of(root, **class) > 0)?;
    let bin = view.bin_of_class(root, *class)?;
    split_bin(view, bin, need)
}

/// The bins that have room for the whole gang, best first, up to a limit.
pub(crate) fn single_bins(view: &LeafView, need: &Need, limit: usize) -> Vec<u32> {
    let mut bins = Vec::new();
    for class in view.frame.classes.order(need.total) {
        if bins.len() < limit {
            let left = small(limit - bins.len());
            bins.extend(view.bins_of_class(view.frame.domains.root, *class, left));
        }
    }
    bins
}

/// So many of each class of bins that have room for the whole gang, best class first.
pub(crate) fn single_bins_each(view: &LeafView, need: &Need, limit: u32) -> Vec<u32> {
    let root = view.frame.domains.root;
    let classes = view.frame.classes.order(need.total).iter();
    let bins = classes.flat_map(|class| view.bins_of_class(root, *class, limit));
    bins.collect()
}

/// The whole gang in one bin.
pub(crate) fn into_bin(view: &LeafView, bin: u32, need: &Need) -> Option<Vec<Spot>> {
    match need.wishes.is_empty() {
        true => split_bin(view, bin, need),
        false => near::into_bin(view, bin, need),
    }
}

fn split_bin(view: &LeafView, bin: u32, need: &Need) -> Option<Vec<Spot>> {
    let order = need.largest_first();
    let sizes: Vec<u32> = order.iter().map(|pod| need.sizes[*pod]).collect();
    let masks = split(&view.frame, view.mask(at(bin)), &sizes)?;
    let empty = Spot {
        bin,
        ..Spot::NOWHERE
    };
    let mut spots = vec![empty; order.len()];
    for (pod, mask) in order.into_iter().zip(masks) {
        spots[pod].mask = mask;
    }
    Some(spots)
}

/// Leaves for pods of `sizes`, the largest first, all from one bin: near to each other, and
/// each pod's nearer still.
pub(crate) fn split(frame: &ViewFrame, free: u128, sizes: &[u32]) -> Option<Vec<u128>> {
    let inner = &frame.shape.size[..=frame.bin];
    let mut block = pick(inner, free, sizes.iter().sum())?;
    let each = sizes.iter().map(|size| {
        let mask = pick(inner, block, *size)?;
        block &= !mask;
        Some(mask)
    });
    each.collect()
}

/// `n` pods of `k` leaves each.
fn uniform(view: &LeafView, n: u32, k: u32) -> Option<Vec<Spot>> {
    let root = view.frame.domains.root;
    if view.capacity(root, k) < n {
        return None;
    }
    let ranks = 0..view.frame.domains.ranks.len();
    let nearest = ranks.into_iter().find_map(|rank| nearest(view, rank, n, k));
    fill(view, nearest.unwrap_or(root), n, k)
}

/// The domain of a rank that holds the gang on the fewest racks, then with the least to spare.
fn nearest(view: &LeafView, rank: usize, n: u32, k: u32) -> Option<u32> {
    let domains = view.ranked(rank, k).range((n, 0)..).take(CANDIDATES);
    let domains = domains.map(|entry| entry.1);
    let mut holding = domains.filter(|domain| view.capacity(*domain, k) >= n);
    if rank == 0 {
        return holding.next();
    }
    let racks = |domain: &u32| share_out(view, *domain, n, k).map_or(usize::MAX, |s| s.len());
    holding.take(COMPARED).min_by_key(racks)
}

/// Pods of one size in a domain that holds them, on the fewest racks.
pub(crate) fn fill(view: &LeafView, domain: u32, n: u32, k: u32) -> Option<Vec<Spot>> {
    let mut spots = Vec::new();
    for (rack, pods) in share_out(view, domain, n, k)? {
        fill_rack(view, rack, pods, k, &mut spots)?;
    }
    Some(spots)
}

/// How many pods go to which rack of a domain that holds them all: as few racks as possible,
/// the last of them with the least to spare.
fn share_out(view: &LeafView, domain: u32, n: u32, k: u32) -> Option<Vec<(u32, u32)>> {
    let Some(racks) = view.frame.racks_of(domain).filter(|racks| racks.len() > 1) else {
        return Some(vec![(domain, n)]);
    };
    let racks = largest_racks(view, domain, racks, n, k);
    let (mut shares, mut left) = (Vec::new(), n);
    for (number, (cap, rack)) in racks.iter().enumerate() {
        if *cap >= left {
            let rest = racks[number..].iter().rev().find(|rack| rack.0 >= left);
            shares.push((rest.map_or(*rack, |rack| rack.1), left));
            return Some(shares);
        }
        shares.push((*rack, *cap));
        left -= cap;
    }
    None
}

/// Racks (capacity, rack) from the largest down: enough of them for the pods, and for the last
/// pods also the one that fits them best.
fn largest_racks(
    view: &LeafView,
    domain: u32,
    racks: std::ops::Range<u32>,
    n: u32,
    k: u32,
) -> Vec<(u32, u32)> {
    let is_kept = view.frame.classes.sizes.contains(&k);
    if domain != view.frame.domains.root || !is_kept {
        let caps = racks.map(|rack| (view.capacity(rack, k), rack));
        let mut caps: Vec<(u32, u32)> = caps.filter(|rack| rack.0 > 0).collect();
        caps.sort_by_key(|rack| (std::cmp::Reverse(rack.0), rack.1));
        return caps;
    }
    let ranked = view.ranked(0, k);
    let (mut caps, mut left) = (Vec::new(), n);
    for (cap, rack) in ranked.iter().rev() {
        caps.push((*cap, *rack));
        if *cap >= left {
            break;
        }
        left -= cap;
    }
    let best = ranked.range((left, 0)..).next().copied();
    caps.extend(best.filter(|best| !caps.contains(best)));
    caps
}

/// Places pods of one size on the fewest bins of a rack.
fn fill_rack(view: &LeafView, rack: u32, n: u32, k: u32, spots: &mut Vec<Spot>) -> Option<()> {
    let mut stock = stock(view, rack, k);
    let mut left = n;
    // Positions in the stock, with how many pods go into a bin of it.
    let mut full = Vec::new();
    while left > 0 {
        let open = || stock.iter().enumerate().filter(|(_, s)| s.used < s.count);
        let last = open().filter(|(_, s)| s.pods >= left);
        if let Some((number, _)) = last.min_by_key(|(_, s)| s.free) {
            stock[number].used += 1;
            full.push((number, left));
            break;
        }
        let (number, most) = open().max_by_key(|(_, s)| (s.pods, u32::MAX - s.free))?;
        let (bins, pods) = ((most.count - most.used).min(left / most.pods), most.pods);
        stock[number].used += bins;
        full.extend((0..bins).map(|_| (number, pods)));
        left -= bins * pods;
    }
    let bins = stock
        .iter()
        .map(|s| view.bins_of_class(rack, s.class, s.used));
    let mut bins: Vec<std::vec::IntoIter<u32>> = bins.map(Vec::into_iter).collect();
    for (number, pods) in full {
        let bin = bins[number].next()?;
        let sizes = vec![k; at(pods)];
        let masks = split(&view.frame, view.mask(at(bin)), &sizes)?;
        spots.extend(masks.into_iter().map(|mask| Spot { view: 0, bin, mask }));
    }
    Some(())
}

/// Bins of one class in a rack, and how many of them are taken.
struct BinStock {
    class: u16,
    free: u32,
    pods: u32,
    count: u32,
    used: u32,
}

fn stock(view: &LeafView, rack: u32, k: u32) -> Vec<BinStock> {
    let classes = &view.frame.classes;
    let mut stock = Vec::new();
    for class in classes.order(k) {
        let count = view.bins_of(rack, *class);
        if count > 0 {
            let free = classes.free[usize::from(*class)];
            stock.push(BinStock {
                class: *class,
                free,
                pods: free / k,
                count,
                used: 0,
            });
        }
    }
    stock
}

/// Pods of several sizes.
fn mixed(view: &LeafView, need: &Need) -> Option<Vec<Spot>> {
    let mut budget = StepBudget::default();
    for rank in 0..view.frame.domains.ranks.len() {
        let domains = view.ranked(rank, 1).range((need.total, 0)..);
        for (_, domain) in domains.take(CANDIDATES) {
            if let Some(spots) = pack(&[(view, *domain)], need, &mut budget) {
                return Some(spots);
            }
        }
    }
    pack(
        &[(view, view.frame.domains.root)],
        need,
        &mut StepBudget::default(),
    )
}

/// A gang over several views at once.
pub(crate) fn fit_across(views: &[&LeafView], need: &Need) -> Option<Vec<Spot>> {
    match need.wishes.is_empty() {
        true => across(views, need),
        false => near::fit_across(views, need),
    }
}

/// The same, whoever asks to be near to whom.
pub(crate) fn across(views: &[&LeafView], need: &Need) -> Option<Vec<Spot>> {
    let free = views
        .iter()
        .map(|view| u64::from(view.free(view.frame.domains.root)));
    if free.sum::<u64>() < u64::from(need.total) {
        return None;
    }
    let sources: Vec<(&LeafView, u32)> = views
        .iter()
        .map(|view| (*view, view.frame.domains.root))
        .collect();
    pack(&sources, need, &mut StepBudget::default())
}

#[cfg(test)]
mod tests;
