//! What was dropped, and why.

macro_rules! counters {
    ($(#[$what:meta])* struct Counters { $($(#[$doc:meta])* $name:ident),* $(,)? }) => {
        $(#[$what])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and counts, in a fixed order.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// Counts of what a mesh refused or did, since its start.
    struct Counters {
        /// Frames of somebody who is no member.
        strangers,
        /// Frames of a member that sends too many.
        frames_limited,
        /// Records whose signature is wrong or of another cluster.
        records_forged,
        /// Records whose content is not what their key says, or too long.
        records_malformed,
        /// Records whose writer is not known (yet), or no member any more.
        records_unknown,
        /// Records that came again, or are older than what is known.
        records_old,
        /// Records of a writer that writes too often; its newest is taken later.
        records_limited,
        /// Records taken.
        records_taken,
        /// Digests exchanged because a difference stayed.
        repairs,
        /// Times this node noticed that it had stalled.
        stalls,
        /// Times another wrote with this node's key.
        clones,
    }
}
