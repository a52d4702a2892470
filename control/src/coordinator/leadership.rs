//! Whether this node leads the virtual cluster, and since which term.

use super::context::Context;
use super::options::{CoordinatorOptions, LeaderPolicy};
use crate::fence::Term;
use crate::now::Now;
use crate::vc::VcState;

/// Whom a coordinator leads, in which term, and what time it is.
#[derive(Clone, Debug)]
pub(super) struct LeaderTerm {
    options: CoordinatorOptions,
    /// The newest term that this node was elected in.
    term: Option<Term>,
    /// An entry of that term was applied.
    leads: bool,
    /// The time of the input that is being handled.
    now: Now,
}

impl LeaderTerm {
    pub(super) fn new(options: CoordinatorOptions) -> Self {
        Self {
            options,
            term: None,
            leads: false,
            now: Now::default(),
        }
    }

    pub(super) const fn options(&self) -> &CoordinatorOptions {
        &self.options
    }

    /// It goes by this from now on. Whether that is something else than before.
    pub(super) fn set_policy(&mut self, policy: LeaderPolicy) -> bool {
        let is_other = self.options.policy != policy;
        self.options.policy = policy;
        is_other
    }

    pub(super) const fn leads(&self) -> bool {
        self.leads
    }

    pub(super) const fn now(&self) -> Now {
        self.now
    }

    /// An input is handled at this time.
    pub(super) const fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// This node was elected. It leads once an entry of the term is applied: then it has all that was
    /// committed before.
    pub(super) const fn begin_term(&mut self, term: Term) {
        self.term = Some(term);
        self.leads = false;
    }

    /// An entry that begins a term was applied. Whether it is this node's own term.
    pub(super) fn confirm(&mut self, term: Term) -> bool {
        let is_own = self.term == Some(term);
        self.leads |= is_own;
        is_own
    }

    /// What the parts are told with the input that is being handled.
    pub(super) const fn context<'a>(&'a self, state: &'a VcState) -> Context<'a> {
        Context {
            options: &self.options,
            state,
            term: self.term,
            leads: self.leads,
            now: self.now.steady,
            wall: self.now.wall,
        }
    }
}
