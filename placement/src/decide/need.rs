//! What a gang needs, told apart from who it is.

/// Leaves by pod.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    /// By pod, in the order of the members.
    pub(crate) sizes: Vec<u32>,
    pub(crate) total: u32,
    /// All pods ask for the same.
    pub(crate) is_uniform: bool,
}

impl Need {
    pub(crate) fn new(sizes: Vec<u32>) -> Self {
        Self {
            total: sizes.iter().sum(),
            is_uniform: sizes.windows(2).all(|pair| pair[0] == pair[1]),
            sizes,
        }
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
