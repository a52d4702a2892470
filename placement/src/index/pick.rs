//! Which leaves of a bin a pod gets: those with the lowest common cell.

use super::frame::ones;

/// Picks `k` of the free leaves so that their lowest common cell is as low as possible, in the
/// cell that has the fewest to spare; none if there are not that many. `size` has the leaves of
/// the inner cells by level, the bin's own last.
pub(crate) fn pick(size: &[u32], free: u128, k: u32) -> Option<u128> {
    for level in 0..size.len() {
        if let Some((start, _)) = best_cell(size, (size.len() - 1, 0), level, free, k) {
            return Some(take(size, level, start, free, k));
        }
    }
    None
}

/// Of the cells of `level` inside a cell (level, start), the one with the fewest free leaves
/// that has `k`, of equal ones that in the fullest dependencies: its first leaf, its free leaves.
fn best_cell(
    size: &[u32],
    (outer, start): (usize, u32),
    level: usize,
    free: u128,
    k: u32,
) -> Option<(u32, u32)> {
    if size[level] < k {
        return None;
    }
    let cells = (0..size[outer] / size[level]).map(|at| {
        let start = start + at * size[level];
        (start, within(free, start, size[level]).count_ones())
    });
    let around = |start: u32| -> u64 {
        let levels = size[level + 1..=outer].iter();
        levels.fold(0, |key, size| {
            let count = within(free, start - start % size, *size).count_ones();
            key << 8 | u64::from(count)
        })
    };
    let fits = cells.filter(|cell| cell.1 >= k);
    fits.min_by_key(|cell| (cell.1, around(cell.0)))
}

fn within(free: u128, start: u32, size: u32) -> u128 {
    free & ones(size) << start
}

/// Takes `k` leaves out of a cell that has them: whole children first, the largest first, the
/// rest from the child that fits it best, so that what is left over stays in large pieces.
fn take(size: &[u32], level: usize, start: u32, free: u128, k: u32) -> u128 {
    let mut free = within(free, start, size[level]);
    if free.count_ones() == k || level == 0 {
        return free;
    }
    let (mut taken, mut left) = (0, k);
    while left > 0 {
        if let Some((start, _)) = best_cell(size, (level, start), level - 1, free, left) {
            return taken | take(size, level - 1, start, free, left);
        }
        let children = (0..size[level] / size[level - 1]).map(|at| start + at * size[level - 1]);
        let child = children
            .rev()
            .map(|start| within(free, start, size[level - 1]))
            .max_by_key(|child| child.count_ones())
            .unwrap_or(0);
        if child == 0 {
            return taken;
        }
        taken |= child;
        left -= child.count_ones();
        free &= !child;
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: [u32; 4] = [1, 2, 4, 8];

    #[test]
    fn a_pair_is_taken_whole_before_a_larger_cell_is_broken() {
        assert_eq!(pick(&NODE, 0b1111_0110, 2), Some(0b0011_0000));
        assert_eq!(pick(&NODE, 0b0000_1111, 3), Some(0b0000_0111));
        assert_eq!(pick(&NODE, 0b1111_0111, 3), Some(0b0000_0111));
        assert_eq!(pick(&NODE, 0b0101_0101, 5), None);
        assert_eq!(pick(&NODE, 0b1000_1111, 1), Some(0b1000_0000));
        assert_eq!(pick(&NODE, 0b0011_1111, 1), Some(0b0001_0000));
        assert_eq!(pick(&NODE, 0b0011_1111, 2), Some(0b0011_0000));
    }

    /// Against every choice there is: no other `k` leaves have a lower common cell.
    #[test]
    fn no_choice_is_nearer() {
        let level_of = |mask: u128| {
            let covers = |size: &u32| {
                let cells = (0..8 / size).map(|at| ones(*size) << (at * size));
                cells.into_iter().any(|cell| mask & !cell == 0)
            };
            NODE.iter().position(covers).unwrap()
        };
        for free in 0..256u128 {
            for k in 1..=free.count_ones() {
                let got = pick(&NODE, free, k).unwrap();
                assert_eq!((got.count_ones(), got & !free), (k, 0));
                let all = (0..256u128).filter(|m| m & !free == 0 && m.count_ones() == k);
                assert_eq!(
                    level_of(got),
                    all.map(level_of).min().unwrap(),
                    "{free:b} {k}"
                );
            }
        }
    }
}
