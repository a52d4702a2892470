//! What can go wrong, each with a check of its own.

mod attacks;
mod calm;
mod crashes;
mod cuts;
mod documents;
mod members;
mod stage;
mod weather;

pub(crate) use stage::{MeshStage, ScenarioResult};

/// Something that goes wrong, and what must come of it.
pub(crate) struct MeshScenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    play: Play,
}

enum Play {
    /// On a cluster that has run for a while.
    Warm(fn(&mut MeshStage)),
    /// On machines of which only the first is a member yet, and all are down.
    Empty(fn(&mut MeshStage)),
    /// Any number of these can go on at once.
    Weather(weather::MeshFault),
}

impl MeshScenario {
    /// Whether it can go on beside others.
    pub(crate) fn is_weather(&self) -> bool {
        matches!(self.play, Play::Weather(_))
    }
}

/// A scenario by its name, in any case.
pub(crate) fn find(name: &str) -> Option<&'static MeshScenario> {
    ALL.iter()
        .find(|scenario| scenario.name.eq_ignore_ascii_case(name))
}

/// Plays one scenario, or several faults at once. A core that panics is wrong too.
pub(crate) fn play(chosen: &[&MeshScenario], nodes: usize, seed: u64, loss: f64) -> ScenarioResult {
    let played = std::panic::catch_unwind(|| act(chosen, nodes, seed, loss));
    played.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        ScenarioResult {
            wrong: vec![format!("panicked: {}", text.unwrap_or("without a word"))],
            ..ScenarioResult::default()
        }
    })
}

fn act(chosen: &[&MeshScenario], nodes: usize, seed: u64, loss: f64) -> ScenarioResult {
    if let [
        MeshScenario {
            play: Play::Empty(play),
            ..
        },
    ] = chosen
    {
        let mut stage = MeshStage::new(nodes, 1, seed, loss);
        play(&mut stage);
        return stage.finish();
    }
    let mut stage = MeshStage::warm(nodes, seed, loss);
    if let [
        MeshScenario {
            play: Play::Warm(play),
            ..
        },
    ] = chosen
    {
        play(&mut stage);
        return stage.finish();
    }
    let fault = |one: &&MeshScenario| match one.play {
        Play::Weather(fault) => Some(fault),
        Play::Warm(_) | Play::Empty(_) => None,
    };
    let faults: Vec<weather::MeshFault> = chosen.iter().filter_map(fault).collect();
    weather::storm(&mut stage, &faults);
    stage.finish()
}

const fn warm(name: &'static str, about: &'static str, play: fn(&mut MeshStage)) -> MeshScenario {
    MeshScenario {
        name,
        about,
        play: Play::Warm(play),
    }
}

const fn fault(name: &'static str, about: &'static str, fault: weather::MeshFault) -> MeshScenario {
    MeshScenario {
        name,
        about,
        play: Play::Weather(fault),
    }
}

/// All there are.
pub(crate) static ALL: &[MeshScenario] = &[
    warm("S1", "one node crashes and comes back", crashes::single),
    warm("S2", "a rack loses power", crashes::rack),
    warm("S3", "halves part and meet again", cuts::halves),
    warm("S6", "a node sends but receives nothing", cuts::deaf),
    warm(
        "S7",
        "two sides, and one node that hears both",
        cuts::bridge,
    ),
    warm("S8", "a link comes and goes", cuts::flapping),
    warm(
        "S9",
        "a hundredth of the nodes hardly get to run",
        crashes::starved,
    ),
    warm("S10", "one node votes against everybody", attacks::liar),
    warm(
        "S11",
        "all nodes restart within a minute",
        crashes::restarts,
    ),
    MeshScenario {
        name: "S13",
        about: "all nodes join within ten seconds",
        play: Play::Empty(members::storm),
    },
    warm("S30", "documents that do harm", documents::poison),
    warm(
        "S32",
        "an expelled member signs an edit",
        members::expelled_signs,
    ),
    warm(
        "S33",
        "bits flip on wires and in memories",
        attacks::damaged,
    ),
    warm("S34", "a node returns with an old disk", members::returned),
    warm(
        "S35",
        "an expelled member keeps talking",
        members::expelled_talks,
    ),
    warm("S39", "a member floods its links", attacks::flood),
    warm(
        "foreign",
        "another cluster's frames and records arrive",
        attacks::foreign,
    ),
    warm(
        "diskloss",
        "a node loses its disk but not its key",
        members::disk_lost,
    ),
    warm(
        "forged",
        "a member signs what others alone may write",
        attacks::forged,
    ),
    warm(
        "half",
        "half of its watchers do not hear a node",
        cuts::half,
    ),
    warm(
        "firsttry",
        "news under loss, which repair should not have to bring",
        weather::first_try,
    ),
    warm(
        "lastword",
        "who doubted another dies, or forgets it",
        crashes::last_word,
    ),
    warm(
        "flicker",
        "a link fails for moments, again and again",
        cuts::flickering,
    ),
    warm(
        "forgiven",
        "a link that came and went long ago fails once",
        cuts::forgiven,
    ),
    fault("loss", "a quarter of all packets is lost", weather::loss),
    fault("dup", "packets arrive twice", weather::duplicates),
    fault("reorder", "packets overtake each other", weather::reorder),
    fault("delay", "packets take long", weather::delay),
    fault("corrupt", "bits flip", weather::corrupt),
    fault("replay", "old frames arrive again", weather::replay),
    fault("oneway", "ways are cut in one direction", weather::one_way),
    fault(
        "badlink",
        "some ways lose most of what they carry",
        weather::bad_links,
    ),
    fault("mute", "a node hears, but is not heard", weather::mute),
    fault(
        "partition",
        "the cluster is cut in two now and then",
        weather::partition,
    ),
    fault("bridge", "it is, but for one node", weather::bridge),
    fault(
        "rackcut",
        "a rack is cut off now and then",
        weather::rack_cut,
    ),
    fault("flap", "links come and go", weather::flap),
    fault("crash", "nodes crash and come back", weather::crash),
    fault("restart", "nodes restart", weather::restart),
    fault("pause", "nodes stand still", weather::pause),
    fault(
        "clockjump",
        "the wall clock of whoever edits jumps",
        weather::clock_jump,
    ),
];
