//! Which calls a GPU does not have: they are asked again only rarely.

use std::collections::BTreeMap;

use nvml_wrapper::error::NvmlError;

/// Rounds that a call is left out after the driver said that it does not have it: an hour of rounds of ten seconds.
const ROUNDS_LEFT_OUT: u32 = 360;

/// Which calls of the library a GPU does not support.
#[derive(Debug, Default)]
pub(super) struct AskedCalls {
    round: u32,
    /// By call the round in which it is asked again.
    again: BTreeMap<&'static str, u32>,
    /// That the GPU, or its driver, is gone.
    lost: Option<String>,
}

impl AskedCalls {
    /// Another round begins.
    pub(super) fn next_round(&mut self) {
        self.round = self.round.wrapping_add(1);
        self.lost = None;
    }

    /// Asks, unless it is known that there is no such answer. `name` names the call.
    pub(super) fn ask<T>(
        &mut self,
        name: &'static str,
        call: impl FnOnce() -> Result<T, NvmlError>,
    ) -> Option<T> {
        if self.lost.is_some() || self.again.get(name).is_some_and(|at| *at > self.round) {
            return None;
        }
        match call() {
            Ok(value) => {
                self.again.remove(name);
                Some(value)
            }
            Err(error) => {
                self.note(name, &error);
                None
            }
        }
    }

    /// Why the GPU answers nothing any more, if so.
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref()
    }

    fn note(&mut self, name: &'static str, error: &NvmlError) {
        if is_unsupported(error) {
            self.again.insert(name, self.round + ROUNDS_LEFT_OUT);
        } else if is_lost(error) {
            self.lost = Some(error.to_string());
        }
    }
}

/// Whether the GPU, its driver or the library does not have what was asked for.
fn is_unsupported(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::NotSupported
            | NvmlError::FunctionNotFound
            | NvmlError::FailedToLoadSymbol(_)
            | NvmlError::InvalidArg
            | NvmlError::NoPermission
    )
}

/// Whether no other call can have an answer either.
fn is_lost(error: &NvmlError) -> bool {
    matches!(
        error,
        NvmlError::GpuLost
            | NvmlError::ResetRequired
            | NvmlError::Uninitialized
            | NvmlError::DriverNotLoaded
            | NvmlError::LibRmVersionMismatch
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_supported_is_asked_again_after_an_hour() {
        let mut calls = AskedCalls::default();
        let mut asked_in = Vec::new();
        for round in 0..=2 * ROUNDS_LEFT_OUT {
            let answer = calls.ask("power", || {
                asked_in.push(round);
                Err::<u32, _>(NvmlError::NotSupported)
            });
            assert_eq!(answer, None);
            calls.next_round();
        }
        assert_eq!(asked_in, [0, ROUNDS_LEFT_OUT, 2 * ROUNDS_LEFT_OUT]);
        assert_eq!(calls.ask("clock", || Ok(1)), Some(1));
    }

    #[test]
    fn a_passing_error_is_asked_again_in_the_next_round() {
        let mut calls = AskedCalls::default();
        assert_eq!(
            calls.ask("power", || Err::<u32, _>(NvmlError::Unknown)),
            None
        );
        calls.next_round();
        assert_eq!(calls.ask("power", || Ok(7)), Some(7));
    }

    #[test]
    fn a_lost_gpu_is_asked_nothing_more_in_the_round() {
        let mut calls = AskedCalls::default();
        assert_eq!(
            calls.ask("power", || Err::<u32, _>(NvmlError::GpuLost)),
            None
        );
        assert_eq!(calls.ask("clock", || Ok(1)), None);
        assert!(calls.lost().is_some());
        calls.next_round();
        assert_eq!(calls.ask("clock", || Ok(1)), Some(1));
    }
}
