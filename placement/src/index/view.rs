//! A set of free leaves, with its counts kept ready in every domain.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::domains::Kids;
use super::{ChainRacks, NONE, ViewFrame, at, small};

/// The leaves that some kind of gang may use, over one chain.
#[derive(Clone, Debug)]
pub(crate) struct LeafView {
    pub(crate) frame: Arc<ViewFrame>,
    /// Where its machines stand; none if they were not told, or racks are cells of the chain.
    pub(crate) racks: Option<Arc<ChainRacks>>,
    /// Free leaves, by bin.
    masks: Vec<u128>,
    class: Vec<u16>,
    /// Bins by class, for every domain in turn.
    hist: Vec<u32>,
    /// Pods that fit, by kept size, for every domain in turn.
    caps: Vec<u32>,
    /// The capacities as they are filed in `ranked`.
    filed: Vec<u32>,
    /// Domains of one rank by capacity for one kept size; rank by rank, size by size.
    ranked: Vec<BTreeSet<(u32, u32)>>,
    /// Domains whose filing is behind.
    behind: Vec<u32>,
    is_behind: Vec<bool>,
}

impl LeafView {
    /// The empty set.
    pub(crate) fn new(frame: &Arc<ViewFrame>) -> Self {
        let (domains, classes) = (frame.domains.len(), &frame.classes);
        let sizes = classes.sizes.len();
        let mut view = Self {
            masks: vec![0; at(frame.bins)],
            class: vec![classes.of(0); at(frame.bins)],
            hist: vec![0; domains * classes.len()],
            caps: vec![0; domains * sizes],
            filed: vec![0; domains * sizes],
            ranked: vec![BTreeSet::new(); frame.domains.ranks.len() * sizes],
            behind: Vec::new(),
            is_behind: vec![false; domains],
            frame: Arc::clone(frame),
            racks: None,
        };
        let empty = usize::from(classes.of(0));
        for bin in 0..frame.bins {
            view.ancestors(bin, |view, domain| {
                view.hist[domain * view.frame.classes.len() + empty] += 1;
            });
        }
        view
    }

    fn ancestors(&mut self, bin: u32, mut each: impl FnMut(&mut Self, usize)) {
        let mut domain = self.frame.domains.bin_parent[at(bin)];
        while domain != NONE {
            each(self, at(domain));
            domain = self.frame.domains.parent[at(domain)];
        }
    }

    /// The told rack of a bin, if there are any.
    pub(crate) fn rack_of(&self, bin: u32) -> Option<u32> {
        let racks = self.racks.as_ref()?;
        Some(racks.of_bin(&self.frame, bin))
    }

    pub(crate) fn mask(&self, bin: usize) -> u128 {
        self.masks[bin]
    }

    /// Whether a leaf of the chain is in the set.
    pub(crate) fn has(&self, leaf: u32) -> bool {
        let (bin, bit) = self.frame.bin_of(leaf);
        self.masks[bin] & bit != 0
    }

    /// Sets which leaves of a bin are free. Searches need [`LeafView::settle`] first.
    pub(crate) fn set(&mut self, bin: usize, mask: u128) {
        if self.masks[bin] == mask {
            return;
        }
        self.masks[bin] = mask;
        let (old, new) = (self.class[bin], self.frame.classes.of(mask));
        if old == new {
            return;
        }
        self.class[bin] = new;
        let frame = Arc::clone(&self.frame);
        let classes = &frame.classes;
        let (old, new) = (usize::from(old), usize::from(new));
        let (old_free, new_free) = (classes.free[old], classes.free[new]);
        let mut domain = frame.domains.bin_parent[bin];
        while domain != NONE {
            let here = at(domain);
            self.hist[here * classes.len() + old] -= 1;
            self.hist[here * classes.len() + new] += 1;
            for (size, cap) in classes
                .sizes
                .iter()
                .zip(&mut self.caps[here * classes.sizes.len()..])
            {
                *cap = *cap - old_free / size + new_free / size;
            }
            if !self.is_behind[here] {
                self.is_behind[here] = true;
                self.behind.push(domain);
            }
            domain = frame.domains.parent[here];
        }
    }

    /// Adds (or takes) one leaf of the chain.
    pub(crate) fn set_leaf(&mut self, leaf: u32, free: bool) {
        let (bin, bit) = self.frame.bin_of(leaf);
        let mask = self.masks[bin];
        self.set(bin, if free { mask | bit } else { mask & !bit });
    }

    /// Brings the filing by capacity up to date.
    pub(crate) fn settle(&mut self) {
        let sizes = self.frame.classes.sizes.len();
        while let Some(domain) = self.behind.pop() {
            self.is_behind[at(domain)] = false;
            let Some(rank) = self.frame.domains.rank_index(domain) else {
                continue;
            };
            for size in 0..sizes {
                let cap = self.caps[at(domain) * sizes + size];
                let filed = std::mem::replace(&mut self.filed[at(domain) * sizes + size], cap);
                if filed != cap {
                    let set = &mut self.ranked[rank * sizes + size];
                    set.remove(&(filed, domain));
                    if cap > 0 {
                        set.insert((cap, domain));
                    }
                }
            }
        }
    }

    /// Bins of a class in a domain.
    pub(crate) fn bins_of(&self, domain: u32, class: u16) -> u32 {
        self.hist[at(domain) * self.frame.classes.len() + usize::from(class)]
    }

    /// The free leaves of a domain.
    pub(crate) fn free(&self, domain: u32) -> u32 {
        self.caps[at(domain) * self.frame.classes.sizes.len()]
    }

    /// How many pods of `k` leaves each fit into a domain.
    pub(crate) fn capacity(&self, domain: u32, k: u32) -> u32 {
        let classes = &self.frame.classes;
        let size = classes.size_below(k);
        if classes.sizes[size] == k {
            return self.caps[at(domain) * classes.sizes.len() + size];
        }
        let bins =
            |class: &u16| self.bins_of(domain, *class) * (classes.free[usize::from(*class)] / k);
        classes.order(k).iter().map(bins).sum()
    }

    /// Domains of a rank by how many pods of the largest kept size up to `k` they hold.
    pub(crate) fn ranked(&self, rank: usize, k: u32) -> &BTreeSet<(u32, u32)> {
        let classes = &self.frame.classes;
        &self.ranked[rank * classes.sizes.len() + classes.size_below(k)]
    }

    /// Some bin of a class in a domain that has one; in the part of it that has the fewest
    /// whole bins left, so that large gangs find theirs together.
    pub(crate) fn bin_of_class(&self, domain: u32, class: u16) -> Option<u32> {
        let sizes = self.frame.classes.sizes.len();
        let mut domain = domain;
        loop {
            match self.frame.domains.kids(domain) {
                Kids::Bins(mut bins) => return bins.find(|bin| self.class[at(*bin)] == class),
                Kids::Domains(kids) => {
                    let has = kids.filter(|kid| self.bins_of(*kid, class) > 0);
                    domain = has.min_by_key(|kid| self.caps[at(*kid) * sizes + sizes - 1])?;
                }
            }
        }
    }

    /// Up to `limit` bins of a class in a domain, lowest first.
    pub(crate) fn bins_of_class(&self, domain: u32, class: u16, limit: u32) -> Vec<u32> {
        let mut bins = Vec::new();
        self.gather(domain, class, at(limit), &mut bins);
        bins
    }

    fn gather(&self, domain: u32, class: u16, limit: usize, bins: &mut Vec<u32>) {
        if bins.len() >= limit || self.bins_of(domain, class) == 0 {
            return;
        }
        match self.frame.domains.kids(domain) {
            Kids::Bins(kids) => {
                let left = limit - bins.len();
                bins.extend(kids.filter(|bin| self.class[at(*bin)] == class).take(left));
            }
            Kids::Domains(kids) => kids.for_each(|kid| self.gather(kid, class, limit, bins)),
        }
    }

    /// Checks every kept count against the masks; names the first that is wrong.
    pub(crate) fn audit(&self) -> Result<(), String> {
        let mut fresh = Self::new(&self.frame);
        for (bin, mask) in self.masks.iter().enumerate() {
            fresh.set(bin, *mask);
        }
        fresh.settle();
        if !self.behind.is_empty() {
            return Err(format!(
                "{} domains are not settled",
                small(self.behind.len())
            ));
        }
        if fresh.hist != self.hist || fresh.caps != self.caps || fresh.class != self.class {
            return Err("the counts of a view differ from its masks".to_owned());
        }
        if fresh.ranked != self.ranked || fresh.filed != self.filed {
            return Err("the filing of a view differs from its masks".to_owned());
        }
        Ok(())
    }
}
