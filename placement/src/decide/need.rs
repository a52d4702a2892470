//! What a gang needs, told apart from who it is.

use std::ops::Range;

use muster_model::cluster_spec::Level;

use crate::amount::MachineAmount;
use crate::gang::Gang;

/// Leaves by pod.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// By pod, in the order of the members.
    pub(crate) sizes: Vec<u32>,
    pub(crate) total: u32,
    /// All pods ask for the same.
    pub(crate) is_uniform: bool,
    /// What each pod takes of its machine beside leaves; empty if none takes anything.
    pub(crate) shares: Vec<MachineAmount>,
    /// Who must be near to whom; mostly nobody.
    pub(crate) wishes: Vec<Wish>,
}

/// Pods of one member that must be near to each other, or whose leaves must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) level: Level,
    pub(crate) pods: Range<usize>,
}

impl Need {
    pub(crate) fn new(sizes: Vec<u32>) -> Self {
        Self {
            total: sizes.iter().sum(),
            is_uniform: sizes.windows(2).all(|pair| pair[0] == pair[1]),
            sizes,
            shares: Vec::new(),
            wishes: Vec::new(),
        }
    }

    /// `n` pods of `k` leaves each.
    pub(crate) fn uniform(n: usize, k: u32) -> Self {
        Self::new(vec![k; n])
    }

    /// What a gang requires.
    pub(crate) fn of(gang: &Gang) -> Self {
        Self::with(gang, false)
    }

    /// What a gang requires and what it would like as well; none if it would like nothing.
    pub(crate) fn wanted(gang: &Gang) -> Option<Self> {
        let mut nears = gang.members.iter().filter_map(|member| member.near);
        let any = nears.any(|near| !near.required);
        any.then(|| Self::with(gang, true))
    }

    fn with(gang: &Gang, also_preferred: bool) -> Self {
        let mut need = Self::new(gang.sizes());
        if gang.has_shares() {
            need.shares = gang.shares().collect();
        }
        let mut first = 0;
        for member in &gang.members {
            let pods = first..first + member.pods as usize;
            first = pods.end;
            let near = member.near.filter(|near| near.required || also_preferred);
            need.wishes.extend(near.map(|near| Wish {
                level: near.level,
                pods,
            }));
        }
        need
    }

    /// What pods of one kind need.
    pub(crate) fn part(&self, pods: &[usize]) -> Self {
        let mut need = Self::new(pods.iter().map(|pod| self.sizes[*pod]).collect());
        if !self.shares.is_empty() {
            need.shares = pods.iter().map(|pod| self.shares[*pod]).collect();
        }
        let wish = pods.first().and_then(|pod| self.wish_of(*pod));
        need.wishes.extend(wish.map(|wish| Wish {
            level: wish.level,
            pods: 0..pods.len(),
        }));
        need
    }

    pub(super) fn wish_of(&self, pod: usize) -> Option<&Wish> {
        self.wishes.iter().find(|wish| wish.pods.contains(&pod))
    }

    /// The pods that ask for the same together: those who must be near first, then from the
    /// largest to the smallest.
    pub(crate) fn kinds(&self) -> Vec<Vec<usize>> {
        let mut kinds: Vec<Vec<usize>> = Vec::new();
        let ask = |pod: usize| (self.sizes[pod], self.shares.get(pod), self.wish_of(pod));
        let mut order = self.largest_first();
        order.sort_by_key(|pod| self.wish_of(*pod).is_none());
        for pod in order {
            match kinds.iter_mut().find(|kind| ask(kind[0]) == ask(pod)) {
                Some(kind) => kind.push(pod),
                None => kinds.push(vec![pod]),
            }
        }
        kinds
    }

    /// The share that all pods ask for, if all ask for the same leaves and the same share.
    pub(crate) fn equal_share(&self) -> Option<MachineAmount> {
        let first = self.shares.first().filter(|_| self.is_uniform)?;
        self.shares
            .iter()
            .all(|share| share == first)
            .then_some(*first)
    }

    /// The pods from the largest to the smallest.
    pub(crate) fn largest_first(&self) -> Vec<usize> {
        let mut pods: Vec<usize> = (0..self.sizes.len()).collect();
        pods.sort_by_key(|pod| std::cmp::Reverse(self.sizes[*pod]));
        pods
    }
}

/// The leaves of a pod: a bin of one of the views that were searched, and which of its leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) view: usize,
    pub(crate) bin: u32,
    pub(crate) mask: u128,
}

impl Spot {
    /// No leaves yet.
    pub(crate) const NOWHERE: Self = Self {
        view: 0,
        bin: 0,
        mask: 0,
    };
}
