//! Random clusters of 12 leaves against trying everything.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::cluster_spec::Level;

use super::brute::Brute;
use super::*;
use crate::cells::{AllocationMode, PlacedGang};
use crate::gang::Leaf;
use crate::random::SplitMix64;

const NOW: Time = Time(100);

fn some_gang(random: &mut SplitMix64, id: u64) -> Gang {
    let vc = *random.one_of(&["v", "v", "w"]).unwrap();
    let priority = *random.one_of(&[-1, 0, 0, 5]).unwrap();
    let (pods, leaves) = *random
        .one_of(&[
            (1, 1),
            (1, 1),
            (1, 2),
            (1, 2),
            (2, 1),
            (1, 3),
            (1, 4),
            (2, 2),
            (2, 3),
        ])
        .unwrap();
    let mut gang = gang(id, vc, priority, pods, leaves);
    if random.percent(25) {
        let leaves = 1 + u32::try_from(random.below(2)).unwrap();
        gang.members.push(GangMember {
            pods: 1,
            leaves,
            ..gang.members[0].clone()
        });
    } else if random.percent(40) {
        let level = *random.one_of(&[Level::Pcie, Level::Node]).unwrap();
        let required = true;
        gang.members[0].near = Some(Near { level, required });
    }
    gang.restartable = random.percent(50);
    let moment = |random: &mut SplitMix64| Time(90 + 10 * random.below(8));
    gang.ends_by = random.percent(50).then(|| moment(random));
    gang.fixed_until = random.percent(20).then(|| moment(random));
    gang
}

/// Small gangs anywhere, then others where they fit; some of them end, devices fail.
fn some_cells(random: &mut SplitMix64) -> Cells {
    let mut cells = cells(3);
    for leaf in 0..cells.leaf_count() {
        if random.percent(35) {
            let mut gang = some_gang(random, 20 + u64::from(leaf));
            gang.members.truncate(1);
            (gang.members[0].pods, gang.members[0].leaves) = (1, 1);
            let grant = Grant {
                placement: Placement {
                    pods: vec![vec![leaf]],
                },
                ..Grant::default()
            };
            // It may be another cluster's.
            let _refused = cells.apply(CellEvent::Started { gang, grant });
        }
    }
    for id in 1..6 {
        let gang = some_gang(random, id);
        if let Decision::Place(grant) = decide(&cells, &gang, &DecisionPolicy::default(), NOW) {
            cells.apply(CellEvent::Started { gang, grant }).unwrap();
        }
        if random.percent(30) {
            let ids: Vec<GangNumber> = cells.gangs().map(|gang| gang.0.id).collect();
            if let Some(id) = random.one_of(&ids) {
                cells.apply(CellEvent::GangEnded(*id)).unwrap();
            }
        }
    }
    for device in 0..4 {
        for node in ["n1", "n2", "n3"] {
            if random.percent(6) {
                let node = node.to_owned();
                let healthy = false;
                let event = CellEvent::DeviceHealth {
                    node,
                    device,
                    healthy,
                };
                cells.apply(event).unwrap();
            }
        }
    }
    cells
}

impl Brute<'_> {
    fn usable(&self, leaf: Leaf) -> bool {
        self.own(self.gang, leaf) && self.cells.usable(leaf)
    }

    fn is_free(&self, leaf: Leaf) -> bool {
        !self.is_held(leaf, NOW, (NOW, false))
    }

    /// The word that the definitions lead to.
    fn word(&self) -> &'static str {
        let gang = self.gang;
        let mut plain = gang.clone();
        let members = &mut plain.members;
        members.iter_mut().for_each(|member| member.near = None);
        let has_near = plain != *gang;
        let free = |leaf: Leaf| self.usable(leaf) && self.is_free(leaf);
        let unfixed = |leaf| self.usable(leaf) && !self.is_held(leaf, NOW, (NOW, true));
        let own = |leaf| self.own(gang, leaf);
        let healed = |leaf| own(leaf) && self.is_free(leaf);
        let leaves = 0..self.cells.leaf_count();
        let count = leaves.filter(|leaf| free(*leaf)).count();
        match () {
            () if !self.fits(gang, &own) => "too large",
            () if !self.fits(gang, &|leaf| self.usable(leaf)) => "hardware",
            () if has_near && self.fits(&plain, &free) => "topology",
            () if self.fits(gang, &healed) => "hardware",
            () if self.fits(gang, &unfixed) => "minimum run time",
            () if count as u64 >= gang.leaves() => "fragmentation",
            () if gang.is_opportunistic() => "idle cells",
            () => "quota",
        }
    }

    fn missing(&self) -> Option<u32> {
        self.cheapest(&[self.gang], &|_, leaf| {
            let cost = u32::from(!self.is_free(leaf));
            self.usable(leaf).then_some(cost)
        })
    }

    fn earliest(&self) -> EarliestStart {
        if !self.fits(self.gang, &|leaf| self.own(self.gang, leaf)) {
            return EarliestStart::Never;
        }
        let ends = self
            .cells
            .gangs()
            .map(|gang| [gang.0.ends_by, gang.0.fixed_until]);
        let moments: BTreeSet<Time> = ends.flatten().flatten().filter(|at| *at > NOW).collect();
        let fits = |at: &Time| {
            let free = |leaf| self.usable(leaf) && !self.is_held(leaf, NOW, (*at, false));
            self.fits(self.gang, &free)
        };
        let first = moments.into_iter().find(fits);
        first.map_or(EarliestStart::Unknown, EarliestStart::At)
    }

    /// The fewest leaves of at most three gangs that can move so that it fits.
    fn fewest_moved(&self) -> Option<u32> {
        let may = |running: &&PlacedGang| match running.mode {
            AllocationMode::Opportunistic => true,
            AllocationMode::Guaranteed => running.gang.restartable,
            AllocationMode::Preempting => false,
        };
        let movable: Vec<&PlacedGang> = self.cells.gangs.all().filter(may).collect();
        let sets = 1..1u32 << movable.len();
        let possible = sets.filter(|set| set.count_ones() <= 3).filter_map(|set| {
            let moved = (0..movable.len()).filter(|number| set >> number & 1 == 1);
            let moved: Vec<&PlacedGang> = moved.map(|number| movable[number]).collect();
            let ids: BTreeSet<GangNumber> = moved.iter().map(|running| running.gang.id).collect();
            let left = |gang: &Gang, leaf: Leaf| {
                let holder = self.cells.holder(leaf).map(|running| running.gang.id);
                let idle = holder.is_none_or(|id| ids.contains(&id));
                (idle && self.own(gang, leaf) && self.cells.usable(leaf)).then_some(0)
            };
            let mut gangs: Vec<&Gang> = moved.iter().map(|running| &running.gang).collect();
            gangs.push(self.gang);
            self.cheapest(&gangs, &left)?;
            let leaves = moved
                .iter()
                .map(|running| running.placement.leaves().count());
            Some(u32::try_from(leaves.sum::<usize>()).unwrap())
        });
        possible.min()
    }
}

/// Who holds what is missing holds all of it.
fn check_holders(found: &WaitExplanation) {
    let lacks: u64 = found.lacking.lacks.iter().map(|lack| lack.missing).sum();
    let held = found.lacking.holders.iter().map(|h| u64::from(h.leaves));
    assert_eq!(lacks, held.sum::<u64>());
}

/// Those who move are on different good leaves that others have not.
fn check_moves(cells: &Cells, moves: &[GangMove]) {
    let ids: BTreeSet<GangNumber> = moves.iter().map(|step| step.gang).collect();
    let mut seen = BTreeSet::new();
    for leaf in moves.iter().flat_map(|step| step.to.leaves()) {
        let holder = cells.holder(leaf).map(|running| running.gang.id);
        assert!(seen.insert(leaf) && cells.usable(leaf));
        assert!(holder.is_none_or(|id| ids.contains(&id)));
    }
}

#[test]
fn explanations_are_what_trying_everything_says() {
    let mut words: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut at, mut moved, mut missed) = (0, 0, 0);
    for seed in 0..4000 {
        let mut random = SplitMix64::new(seed);
        let cells = some_cells(&mut random);
        let gang = some_gang(&mut random, 99);
        let brute = Brute {
            cells: &cells,
            gang: &gang,
        };
        let queue = queue(std::slice::from_ref(&gang));
        let found = explain(&cells, &queue, gang.id, &DecisionPolicy::default(), NOW).unwrap();
        let word = found.constraint.word();
        *words.entry(word).or_default() += 1;
        if ["refused", "turn", "victims"].contains(&word) {
            continue;
        }
        let lacks = found.lacking.lacks.iter();
        let missing: u64 = lacks.map(|lack| lack.missing).sum();
        assert_eq!(word, brute.word(), "seed {seed}: {gang:?}");
        assert_eq!(
            missing,
            brute.missing().map_or(0, u64::from),
            "seed {seed}: {gang:?}"
        );
        assert_eq!(found.earliest, brute.earliest(), "seed {seed}: {gang:?}");
        check_holders(&found);
        at += u32::from(matches!(found.earliest, EarliestStart::At(_)));
        let fewest = brute.fewest_moved();
        let leaves = found.moves.iter().flat_map(|step| step.to.leaves()).count();
        let told = u32::try_from(leaves).unwrap();
        // An exchange of quota cells may do better than what was tried here.
        let is_less = told == 0 || fewest.is_some_and(|fewest| fewest < told);
        missed += u32::from(fewest.is_some() && is_less);
        check_moves(&cells, &found.moves);
        moved += u32::from(told > 0);
    }
    let kinds = [
        "too large",
        "minimum run time",
        "topology",
        "hardware",
        "fragmentation",
        "quota",
        "idle cells",
    ];
    assert!(
        kinds.iter().all(|kind| words.get(kind) > Some(&15)),
        "{words:?}"
    );
    // Proposals are looked for greedily.
    assert!(missed * 10 < moved, "{missed} of {moved} missed");
    assert!(at > 200 && moved > 50, "{at} {moved}");
}
