//! A virtual cluster that has a copy here, and its coordinator, which leads the gangs while this
//! copy leads the group.

use muster_control::coordinator::{Coordinator, Input, Output};
use muster_control::fence::Term;
use muster_control::vc::VcState;
use muster_model::id::VcName;
use muster_model::time::Time;

/// A virtual cluster that has a copy here.
#[derive(Debug)]
pub(crate) struct Lead {
    vc: VcName,
    coordinator: Coordinator,
    leads: bool,
}

impl Lead {
    pub(crate) const fn new(vc: VcName, coordinator: Coordinator) -> Self {
        Self {
            vc,
            coordinator,
            leads: false,
        }
    }

    pub(crate) const fn vc(&self) -> &VcName {
        &self.vc
    }

    /// The coordinator, while it leads.
    pub(crate) fn coordinator(&self) -> Option<&Coordinator> {
        self.leads.then_some(&self.coordinator)
    }

    /// This copy leads from now on.
    pub(crate) fn elected(&mut self, now: Time, state: &VcState, term: u64) -> Vec<Output> {
        self.leads = true;
        self.feed(now, state, Input::Elected { term: Term(term) })
    }

    /// Another one leads, or none.
    pub(crate) const fn deposed(&mut self) {
        self.leads = false;
    }

    /// Gives the coordinator an input, if it leads.
    pub(crate) fn feed(&mut self, now: Time, state: &VcState, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.leads {
            self.coordinator.handle(now, state, input, &mut outputs);
        }
        outputs
    }

    /// When it wants [`Input::Tick`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.coordinator()?.deadline()
    }
}
