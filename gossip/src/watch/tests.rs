use super::*;
use crate::record::{SelfHealth, SuspicionLevel};

const ONE: MemberId = MemberId(1);

/// A watcher of one, asked every millisecond whether something is due; answers come as told.
struct Bench {
    watch: ProbeWatch,
    config: MeshOptions,
    now: Time,
    open: Option<u32>,
    probes: u32,
    alerts: u32,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            watch: ProbeWatch::default(),
            config: MeshOptions::default(),
            now: Time::from_millis(50_000),
            open: None,
            probes: 0,
            alerts: 0,
        };
        bench.watch.subjects(bench.now, [(ONE, Incarnation(1))]);
        bench
    }

    fn run(&mut self, ms: u64, answers: bool) {
        for _ in 0..ms {
            self.now = self.now.plus_millis(1);
            self.watch.wake(self.now);
            if let Some(number) = self.open.filter(|_| answers) {
                self.answer(number, 1);
                self.open = None;
            }
            let mut steps = vec![];
            self.watch.tick(self.now, &self.config, &mut steps);
            self.watch.deadline(&self.config);
            for step in steps {
                match step {
                    WatchStep::Probe(_, number) => {
                        self.open = Some(number);
                        self.probes += 1;
                    }
                    WatchStep::Alert(_) => self.alerts += 1,
                }
            }
        }
    }

    fn answer(&mut self, number: u32, incarnation: u64) -> AnswerEffect {
        let answer = ProbeAnswer {
            number,
            incarnation: Incarnation(incarnation),
            root: 0,
            health: SelfHealth::default(),
            next_ms: 1_000,
        };
        self.watch.answer(self.now, ONE, &answer, &self.config)
    }

    fn level(&self) -> Option<SuspicionLevel> {
        self.watch.votes().first().map(|vote| vote.level)
    }
}

#[test]
fn one_probe_a_second_while_answered() {
    let mut bench = Bench::new();
    bench.run(10_000, true);
    assert_eq!(bench.probes, 10);
    assert_eq!((bench.level(), bench.alerts), (None, 0));
}

#[test]
fn silence_becomes_doubt_then_certainty() {
    let mut bench = Bench::new();
    bench.run(3_500, true);
    // The next question is due in half a second and will be the first without an answer.
    bench.run(500 + 1_100, false);
    assert_eq!(bench.level(), None);
    assert!(bench.alerts >= 1);
    bench.run(100, false);
    assert_eq!(bench.level(), Some(SuspicionLevel::Doubt));
    bench.run(520, false);
    assert_eq!(bench.level(), Some(SuspicionLevel::Gone));
    bench.run(300, true);
    assert_eq!(bench.level(), None);
}

#[test]
fn a_single_loss_is_asked_again_at_once_and_told_nobody() {
    let mut bench = Bench::new();
    bench.run(3_500, true);
    bench.run(550, false);
    bench.run(2_000, true);
    assert_eq!((bench.level(), bench.alerts), (None, 0));
}

#[test]
fn one_that_is_heard_but_does_not_answer_is_said_to_be_so() {
    let mut bench = Bench::new();
    bench.run(3_500, true);
    bench.run(600, false);
    bench.watch.heard(bench.now, ONE);
    bench.run(1_300, false);
    assert!(!bench.watch.votes()[0].heard, "it was on its way");
    assert!(bench.watch.heard(bench.now, ONE), "the vote changes");
    assert!(bench.watch.votes()[0].heard);
    bench.run(3_000, false);
    assert!(!bench.watch.votes()[0].heard, "not for ever");
}

#[test]
fn a_stalled_watcher_abstains() {
    let mut bench = Bench::new();
    bench.run(3_500, true);
    for _ in 0..20 {
        bench.run(100, false);
        bench.now = bench.now.plus_millis(400);
    }
    assert_eq!(bench.level(), None);
}

#[test]
fn answers_nobody_asked_for_and_of_earlier_lives_do_not_count() {
    let mut bench = Bench::new();
    bench.run(3_500, true);
    bench.run(2_800, false);
    assert_eq!(bench.level(), Some(SuspicionLevel::Gone));
    assert_eq!(bench.answer(999_999, 1), AnswerEffect::default());
    bench.watch.life(bench.now, ONE, Incarnation(2));
    assert_eq!(bench.level(), None, "a new life voids the vote");
    bench.run(2_800, false);
    assert_eq!(bench.level(), Some(SuspicionLevel::Gone));
    let number = bench.open.unwrap();
    assert_eq!(bench.answer(number, 1), AnswerEffect::default());
    assert_eq!(bench.level(), Some(SuspicionLevel::Gone));
    assert!(bench.answer(number, 2).back);
}

#[test]
fn a_flapping_link_is_believed_later_each_time() {
    let mut bench = Bench::new();
    let mut held = vec![];
    for _ in 0..6 {
        bench.run(5_000, false);
        assert_eq!(bench.level(), Some(SuspicionLevel::Gone));
        let mut ms = 0;
        while bench.level().is_some() && ms < 20_000 {
            bench.run(10, true);
            ms += 10;
        }
        held.push(ms);
    }
    assert!(held[0] < 300 && held[1] < 300, "{held:?}");
    assert!(held[5] > 3_000, "{held:?}");
    bench.run(700_000, true);
    bench.run(5_000, false);
    bench.run(300, true);
    assert_eq!(bench.level(), None, "forgiven");
}

#[test]
fn a_doubt_on_its_way_out_does_not_take_back_a_new_one() {
    let mut bench = Bench::new();
    for _ in 0..6 {
        bench.run(5_000, false);
        bench.run(100, true);
    }
    // The answer is believed in some seconds only; by then it is silent again.
    for _ in 0..100 {
        bench.run(100, false);
        assert!(bench.level().is_some());
    }
}

#[test]
fn watchers_are_spread_evenly() {
    let mut watch = ProbeWatch::default();
    let config = MeshOptions::default();
    let mine = ProbeAnswer {
        number: 1,
        incarnation: Incarnation(1),
        root: 0,
        health: SelfHealth::default(),
        next_ms: 0,
    };
    for (count, expect) in [
        (1_u32, 250),
        (2, 250),
        (3, 250),
        (4, 250),
        (5, 200),
        (20, 50),
    ] {
        // All ask at the same moment and then as they were told.
        let mut next: Vec<_> = (0..count).map(|_| Time::from_millis(77_000)).collect();
        let mut asked = vec![];
        for _ in 0..count * 8 {
            let (at, who) = next
                .iter()
                .zip(0..)
                .map(|(at, who)| (*at, who))
                .min()
                .unwrap();
            let answer = watch.asked(at, MemberId(who), mine, &config);
            next[who as usize] = at.plus_millis(u64::from(answer.next_ms));
            asked.push(at.as_millis());
        }
        let late = &asked[(count * 4) as usize..];
        let gaps: Vec<_> = late.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(gaps.iter().all(|gap| *gap == expect), "{count}: {gaps:?}");
    }
}

#[test]
fn who_misses_many_says_only_who_is_gone() {
    for (gone, expect) in [(GONE_MANY - 1, GONE_MANY), (GONE_MANY, GONE_MANY)] {
        let mut watch = ProbeWatch::default();
        let config = MeshOptions::default();
        let first = (0..).map(MemberId).take(gone);
        watch.subjects(Time(0), first.map(|member| (member, Incarnation(1))));
        let all = (0..).map(MemberId).take(gone + 1);
        for ms in 0..2_000 {
            let now = Time::from_millis(ms);
            if ms == 600 {
                watch.subjects(now, all.clone().map(|member| (member, Incarnation(1))));
            }
            watch.tick(now, &config, &mut vec![]);
        }
        // The last one is doubted by now.
        assert_eq!(watch.votes().len(), expect, "{gone}");
    }
}
