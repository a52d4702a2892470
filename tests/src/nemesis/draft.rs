//! The jobs that clients submit: small, and of every kind of end.

use super::history::{AskedJob, Mark};
use crate::job::Job;
use crate::sim::random::Random;

/// What every line of a task begins with.
pub(super) const WORD: &str = "nemesis";
/// What comes before the mark in a job's commands.
pub(super) const MARK: &str = "mark=";
/// Beats of a job that goes on until it is stopped: two a second, for hours.
const ENDLESS: u32 = 100_000;
/// From so many beats on a job asks for few devices, or the others would wait for ever.
const LONG: u32 = 40;
/// The shortest run lease that a job may ask for, in its own words.
const SHORT_LEASE: &str = "muster: {partition: {seconds: 15}}";
/// What a job says that gives way to whoever was promised what it uses.
const GIVES_WAY: &str = "hivedScheduler: {jobPriorityClass: oppo}";
/// The virtual clusters, and how many machines each is promised.
pub(super) const VCS: [(&str, u32); 2] = [("default", 3), ("prod", 2)];
/// The devices of a machine.
const MACHINE: u32 = 8;

/// A job that is not submitted yet.
#[derive(Clone, Debug)]
pub(super) struct JobDraft {
    pub(super) mark: Mark,
    pub(super) name: String,
    tasks: u32,
    gpus: u32,
    /// Half seconds that it runs.
    beats: u32,
    code: i32,
    short_lease: bool,
    gives_way: bool,
}

impl JobDraft {
    /// The next job of a stream.
    pub(super) fn draw(mark: Mark, name: String, random: &mut Random) -> Self {
        let draw = |random: &mut Random, from: u32, to: u32| {
            from + u32::try_from(random.below(u64::from(to - from + 1))).unwrap_or(0)
        };
        let (beats, code) = match random.below(10) {
            0..4 => (draw(random, 0, 3), 0),
            4..6 => (draw(random, 4, 20), 0),
            6 => (draw(random, LONG, 2 * LONG), 0),
            7..9 => (draw(random, 0, 3), 7),
            _ => (ENDLESS, 0),
        };
        let mut draft = Self {
            mark,
            name,
            tasks: draw(random, 1, 3),
            gpus: match beats {
                LONG.. => [0, 1, 2][random.index(3)],
                _ => [0, 1, 1, 2, 4, 8][random.index(6)],
            },
            beats,
            code,
            short_lease: random.below(2) == 0,
            gives_way: random.below(3) == 0,
        };
        draft.tasks = draft.tasks.min(draft.tasks_max());
        draft
    }

    /// More would never have a place: a task with all of a machine's devices has it alone.
    fn tasks_max(&self) -> u32 {
        match self.gives_way || self.gpus < MACHINE {
            true => u32::MAX,
            false => self.share().1,
        }
    }

    /// Whether it goes on until somebody stops it.
    pub(super) const fn is_endless(&self) -> bool {
        self.beats == ENDLESS
    }

    pub(super) fn order(&self) -> AskedJob {
        AskedJob {
            job: self.name.clone(),
            code: self.code,
            tasks: self.tasks,
            // The others have one of five minutes.
            outlasts: !self.short_lease,
            gives_way: self.gives_way,
        }
    }

    /// The document.
    pub(super) fn yaml(&self) -> String {
        let commands = self.commands();
        let extra = self.extra();
        let job = Job {
            gpu: self.gpus,
            instances: self.tasks,
            extra: &extra,
            ..Job::new(&self.name, &commands)
        };
        job.yaml()
    }

    fn extra(&self) -> String {
        let extras = [
            self.short_lease.then_some(SHORT_LEASE),
            self.gives_way.then_some(GIVES_WAY),
        ];
        let extras: Vec<_> = extras.into_iter().flatten().collect();
        let ((vc, _), extras) = (self.share(), extras.join(", "));
        format!("defaults: {{virtualCluster: {vc}}}\nextras: {{{extras}}}")
    }

    /// Its virtual cluster and what that is promised. Whoever submits a name again means the same job:
    /// one of another virtual cluster is another.
    fn share(&self) -> (&'static str, u32) {
        let sum: usize = self.name.bytes().map(usize::from).sum();
        VCS[sum % VCS.len()]
    }

    /// Says what is needed to know where and when it ran: the time is that since the machine was
    /// booted, which all nodes share and nobody shifts.
    fn commands(&self) -> String {
        let Self {
            mark: Mark(mark),
            beats,
            code,
            ..
        } = self;
        format!(
            "{MARK}{mark}\n\
             tell() {{\n\
             read up rest </proc/uptime\n\
             echo \"{WORD} $1 $mark $FC_FRAMEWORK_ATTEMPT_ID $PAI_TASK_INDEX \
             $NVIDIA_VISIBLE_DEVICES $up $2\"\n\
             }}\n\
             tell begin 0\n\
             n=0\n\
             while [ $n -lt {beats} ]; do\n\
             sleep 0.5\n\
             tell beat 0\n\
             n=$((n + 1))\n\
             done\n\
             tell end {code}\n\
             exit {code}"
        )
    }
}
