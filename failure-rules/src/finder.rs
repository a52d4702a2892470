//! Finds, in one pass over a log, where each of many texts first occurs. Case is ignored.
//!
//! An automaton takes one step per byte, and each step waits for the one before. Four walks
//! through four quarters of the log at a time fill that wait.

use aho_corasick::automaton::{Automaton, StateID};
use aho_corasick::dfa::DFA;
use aho_corasick::{Anchored, MatchKind};

const LANES: usize = 4;

/// An automaton for a list of texts.
#[derive(Clone, Debug)]
pub(crate) struct Finder {
    automaton: DFA,
    texts: usize,
}

/// One walk through a part of the log.
#[derive(Clone, Copy)]
struct LogWalk {
    state: StateID,
    /// How far it has come, from the start of the log.
    at: usize,
}

impl Finder {
    /// `None` if the automaton would be too large, or there is nothing to find.
    pub(crate) fn new(texts: &[&[u8]]) -> Option<Self> {
        let mut builder = DFA::builder();
        builder
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard);
        let automaton = builder.build(texts).ok().filter(|_| !texts.is_empty())?;
        Some(Self {
            automaton,
            texts: texts.len(),
        })
    }

    /// For each text the offset of its first occurrence.
    pub(crate) fn first_hits(&self, log: &[u8]) -> Vec<Option<usize>> {
        let mut hits = vec![None; self.texts];
        let Ok(state) = self.automaton.start_state(Anchored::No) else {
            return hits;
        };
        let quarter = log.len() / LANES;
        let mut lanes: [LogWalk; LANES] = std::array::from_fn(|lane| LogWalk {
            state,
            at: lane * quarter,
        });
        self.walk_together(log, quarter, &mut lanes, &mut hits);
        // A text may lie across two quarters: each walk goes on into the next one.
        let beyond = self.automaton.max_pattern_len().saturating_sub(1);
        for (index, lane) in lanes.iter_mut().enumerate() {
            let end = if index + 1 == LANES {
                log.len()
            } else {
                log.len().min(lane.at + beyond)
            };
            while lane.at < end {
                self.step(lane, log[lane.at], &mut hits);
            }
        }
        hits
    }

    fn walk_together(
        &self,
        log: &[u8],
        quarter: usize,
        lanes: &mut [LogWalk; LANES],
        hits: &mut [Option<usize>],
    ) {
        let (first, rest) = log.split_at(quarter);
        let (second, rest) = rest.split_at(quarter);
        let (third, fourth) = rest.split_at(quarter);
        let [a, b, c, d] = lanes;
        for (((w, x), y), z) in first.iter().zip(second).zip(third).zip(fourth) {
            self.step(a, *w, hits);
            self.step(b, *x, hits);
            self.step(c, *y, hits);
            self.step(d, *z, hits);
        }
    }

    #[inline(always)]
    fn step(&self, lane: &mut LogWalk, byte: u8, hits: &mut [Option<usize>]) {
        lane.state = self.automaton.next_state(Anchored::No, lane.state, byte);
        lane.at += 1;
        if self.automaton.is_special(lane.state) {
            self.note(*lane, hits);
        }
    }

    #[cold]
    fn note(&self, lane: LogWalk, hits: &mut [Option<usize>]) {
        if !self.automaton.is_match(lane.state) {
            return;
        }
        for index in 0..self.automaton.match_len(lane.state) {
            let text = self.automaton.match_pattern(lane.state, index);
            let start = lane.at - self.automaton.pattern_len(text);
            let hit = &mut hits[text.as_usize()];
            *hit = Some(hit.map_or(start, |known| known.min(start)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Finder;

    #[test]
    fn agrees_with_a_plain_search_wherever_the_quarters_end() {
        let texts = ["abc", "bcd", "out of memory", "memory", "x"];
        let bytes = texts.map(str::as_bytes);
        let finder = Finder::new(&bytes).expect("small");
        for filler in 0..40 {
            let log = format!(
                "{}Out of Memory{}aBCd",
                "-".repeat(filler),
                "memory ".repeat(filler % 7)
            );
            let lower = log.to_ascii_lowercase();
            let expect: Vec<Option<usize>> = texts.iter().map(|text| lower.find(text)).collect();
            assert_eq!(finder.first_hits(log.as_bytes()), expect, "{log}");
        }
        assert_eq!(finder.first_hits(b""), [None; 5]);
    }
}
