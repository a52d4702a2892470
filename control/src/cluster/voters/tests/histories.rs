//! Members come, go, fall and return, disks are lost and the lead moves, while the group follows
//! the advice. In the end it has what it should, and no more is advised.

use muster_gossip::member::MemberId;
use muster_gossip::mesh::Reach;

use super::bench::{Bench, LONG_MS, id};
use crate::cluster::voters::{Condition, GroupCopy};

const SEEDS: u64 = 2_000;
const EVENTS: u32 = 60;
const RACKS: [&str; 4] = ["", "a", "b", "c"];

struct History {
    seed: u64,
    bench: Bench,
    next: u32,
    made: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut bench = Bench::of(1).voters(&[0]);
        bench.wanted.group = seed;
        bench.wanted.apart = seed.is_multiple_of(2);
        bench.wanted.voters_max = if seed.is_multiple_of(3) { 3 } else { 5 };
        Self {
            seed,
            bench,
            next: 1,
            made: 0,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }

    fn run(&mut self) {
        for _ in 0..EVENTS {
            let before = self.bench.clone();
            self.event();
            if !has_quorum(&self.bench) {
                // What cannot be decided by anybody is no matter for advice.
                self.bench = before;
            }
            self.bench.elect();
            if self.below(3) > 0 {
                let before = self.bench.clone();
                self.made += usize::from(self.bench.make());
                assert!(has_quorum(&self.bench), "advised to death: {before:?}");
                self.bench.elect();
            }
        }
    }

    fn event(&mut self) {
        let nodes = self.bench.nodes.len();
        let who = match nodes {
            0 => return self.join(),
            _ => {
                let at = self.below(nodes);
                self.bench.nodes[at].member.0
            }
        };
        match self.below(19) {
            0..4 if nodes < 9 => self.join(),
            0..2 if nodes > 1 => self.bench.leave(who),
            2..6 => self.bench.down(who, 0),
            6..9 => self.bench.up(who),
            9 => self.bench.node(who).reach = Reach::Suspect,
            10 => self.lose(who),
            11 => self.hand_over(),
            12 => self.bench.node(who).has_store = true,
            13 => self.bench.wait(LONG_MS),
            14 => self.bench.wait(31_000),
            15 => self.bench.node(who).is_drained = true,
            16 => self.bench.node(who).is_drained = false,
            17 => self.bench.node(who).votes_in_cluster_group ^= true,
            _ => self.bench.learn(),
        }
    }

    fn join(&mut self) {
        let number = self.next;
        self.next += 1;
        self.bench.join(number);
        let rack = RACKS[self.below(RACKS.len())];
        self.bench.rack(number, rack);
        self.bench.node(number).since_ms = 0;
        self.bench.node(number).votes_in_cluster_group = self.below(2) > 0;
        self.bench.node(number).votes = self.below(5) > 0;
        self.bench.node(number).has_store = self.below(4) > 0;
    }

    fn lose(&mut self, who: u32) {
        if self.bench.copies.iter().any(|copy| copy.member == id(who)) {
            self.bench.copy(who).condition = Condition::Lost;
        }
    }

    fn hand_over(&mut self) {
        self.bench
            .copies
            .iter_mut()
            .for_each(|copy| copy.leads = false);
        let at = self.below(self.bench.copies.len());
        self.bench.copies.rotate_left(at);
    }

    /// Nothing happens any more. What is unreachable stays so.
    fn end(&mut self) {
        self.bench.elect();
        self.made += self.bench.settle();
        self.bench.wait(LONG_MS);
        self.made += self.bench.settle();
        self.bench.wait(LONG_MS);
        assert_eq!(self.bench.settle(), 0, "time alone changes nothing more");
        self.has_what_it_should();
    }

    fn has_what_it_should(&self) {
        let bench = &self.bench;
        let may_vote = bench.nodes.iter().filter(|node| node.votes);
        let all = may_vote.clone().count();
        let usable = may_vote.filter(|node| node.reach != Reach::Unreachable && node.has_store);
        let usable: Vec<_> = usable.map(|node| node.member).collect();
        let wanted = match all.min(bench.wanted.voters_max) {
            0 => return,
            1 | 2 => 1,
            3 | 4 => 3,
            _ => 5,
        };
        let voting = bench.voting();
        if usable.len() >= wanted {
            assert_eq!(voting.len(), wanted, "{bench:?}");
            let good = voting.iter().all(|id| usable.contains(id));
            assert!(good, "a voter is not there: {bench:?}");
            let drained = |ids: &[MemberId]| ids.iter().filter(|id| bench.is_drained(**id)).count();
            let lasting = usable.len() - drained(&usable);
            let needed = wanted.saturating_sub(lasting);
            assert_eq!(drained(&voting), needed, "a voter is drained: {bench:?}");
        } else {
            let has_copy = |id| bench.copies.iter().any(|copy| copy.member == id);
            let all = usable.iter().all(|id| has_copy(*id));
            assert!(all, "somebody could help: {bench:?}");
        }
        let over = bench.copies.iter().any(|copy| bench.is_over(copy.member));
        assert!(!over, "a copy is of no use: {bench:?}");
    }
}

/// Whether a majority of the voters is there and somebody leads or can.
fn has_quorum(bench: &Bench) -> bool {
    let up = |copy: &&GroupCopy| {
        let mut nodes = bench.nodes.iter().filter(|node| node.member == copy.member);
        copy.condition != Condition::Lost && nodes.any(|node| node.reach != Reach::Unreachable)
    };
    let voters = bench.copies.iter().filter(|copy| copy.votes);
    voters.clone().filter(up).count() * 2 > voters.count()
}

#[test]
fn every_history_ends_with_the_voters_that_there_should_be() {
    let mut made = 0;
    for seed in 0..SEEDS {
        let mut history = History::new(seed);
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            history.run();
            history.end();
        }));
        made += history.made;
        if let Err(panic) = result {
            eprintln!("seed {seed} failed");
            std::panic::resume_unwind(panic);
        }
    }
    assert!(made > 10_000, "next to nothing was advised: {made}");
}
