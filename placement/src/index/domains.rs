//! The tree above the bins.
//!
//! Real cells (racks, rows) are domains. So that no step looks at more than a few children,
//! groups of at most [`FAN_MAX`] are put between a cell and its many children, and above the
//! top cells up to one root. A group means nothing; only real cells count as near.

use super::frame::Shape;
use super::{NONE, at, small};

/// Most children of a domain.
const FAN_MAX: u32 = 16;

/// Numbered from the lowest layer up; children of one domain are consecutive.
#[derive(Debug, Default)]
pub(crate) struct Domains {
    /// By domain; none for the root.
    pub(crate) parent: Vec<u32>,
    /// By bin.
    pub(crate) bin_parent: Vec<u32>,
    /// By domain, first child and the one past the last: bins below `lowest`, else domains.
    kids: Vec<(u32, u32)>,
    /// Domains below this number have bins as children.
    lowest: u32,
    /// The real layers, lowest first.
    pub(crate) ranks: Vec<Rank>,
    pub(crate) root: u32,
}

/// The domains that are the cells of one level.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    pub(crate) level: usize,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// What a domain consists of.
#[derive(Clone, Debug)]
pub(crate) enum Kids {
    Bins(std::ops::Range<u32>),
    Domains(std::ops::Range<u32>),
}

impl Domains {
    pub(crate) fn new(shape: &Shape, bin: usize) -> Self {
        let mut domains = Self {
            bin_parent: vec![NONE; at(shape.count(bin))],
            ..Self::default()
        };
        let mut layer = (0, shape.count(bin));
        for level in bin + 1..=shape.top() {
            let mut fan = shape.fan(level);
            while fan > FAN_MAX {
                layer = domains.layer(layer, fan, FAN_MAX);
                fan = fan.div_ceil(FAN_MAX);
            }
            layer = domains.layer(layer, fan, fan);
            domains.ranks.push(Rank {
                level,
                first: layer.0,
                count: layer.1,
            });
        }
        let mut left = layer.1;
        while left > 1 || domains.parent.is_empty() {
            layer = domains.layer(layer, left, FAN_MAX);
            left = layer.1;
        }
        domains.root = small(domains.parent.len()) - 1;
        domains
    }

    /// Adds a layer above another (first, count): every `fan` of its items get
    /// parents of at most `each` children. Gives the new layer back.
    fn layer(&mut self, (first, count): (u32, u32), fan: u32, each: u32) -> (u32, u32) {
        let below_are_bins = self.parent.is_empty();
        let new = small(self.parent.len());
        for family in 0..count / fan.max(1) {
            let mut at = family * fan;
            while at < (family + 1) * fan {
                let end = (at + each).min((family + 1) * fan);
                self.adopt(below_are_bins, first + at..first + end);
                at = end;
            }
        }
        if below_are_bins {
            self.lowest = small(self.parent.len());
        }
        (new, small(self.parent.len()) - new)
    }

    fn adopt(&mut self, bins: bool, kids: std::ops::Range<u32>) {
        let own = small(self.parent.len());
        let parents = if bins {
            &mut self.bin_parent
        } else {
            &mut self.parent
        };
        for kid in kids.clone() {
            parents[at(kid)] = own;
        }
        self.parent.push(NONE);
        self.kids.push((kids.start, kids.end));
    }

    pub(crate) fn len(&self) -> usize {
        self.parent.len()
    }

    pub(crate) fn kids(&self, domain: u32) -> Kids {
        let (first, end) = self.kids[at(domain)];
        if domain < self.lowest {
            Kids::Bins(first..end)
        } else {
            Kids::Domains(first..end)
        }
    }

    /// Which real layer a domain belongs to.
    pub(crate) fn rank_of(&self, domain: u32) -> Option<Rank> {
        let inside = |rank: &&Rank| (rank.first..rank.first + rank.count).contains(&domain);
        self.ranks.iter().find(inside).copied()
    }

    pub(crate) fn rank_index(&self, domain: u32) -> Option<usize> {
        let inside = |rank: &Rank| (rank.first..rank.first + rank.count).contains(&domain);
        self.ranks.iter().position(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(size: &[u32], tops: u32) -> Shape {
        Shape {
            types: size.iter().map(ToString::to_string).collect(),
            size: size.to_vec(),
            levels: vec![None; size.len()],
            node: 1,
            tops,
            uneven: Vec::new(),
        }
    }

    #[test]
    fn no_domain_has_many_children_and_all_meet_in_the_root() {
        for (size, tops) in [
            (vec![1, 8], 1),
            (vec![1, 8], 5000),
            (vec![1, 4, 4 * 1000, 8000], 3),
        ] {
            let shape = shape(&size, tops);
            let domains = Domains::new(&shape, 1);
            for bin in 0..shape.count(1) {
                let mut domain = domains.bin_parent[at(bin)];
                while domain != domains.root {
                    let (first, end) = domains.kids[at(domain)];
                    assert!(end - first <= FAN_MAX && first < end);
                    domain = domains.parent[at(domain)];
                }
            }
            for rank in &domains.ranks {
                assert_eq!(rank.count, shape.count(rank.level));
            }
        }
    }
}
