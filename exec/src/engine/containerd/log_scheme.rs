//! By which scheme the engine is told of a task's logger.
//!
//! By `binary://` it takes the logger for ready when that closes its descriptor, and so also when it has
//! crashed: the task then runs without. By `binary-v2://`, which engines have since 2.3, it waits for a
//! byte.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use containerd_client::services::v1::PluginsRequest;
use tokio::time::Instant;

use super::Containerd;

const PLAIN: &str = "binary";
const WAITS: &str = "binary-v2";
/// The engine is asked again after so long: another version may have taken its place.
const HOLDS: Duration = Duration::from_secs(60);
/// The plugin that knows, and under what.
const PLUGIN: &str = "type==io.containerd.runtime.v2,id==task";
const EXPORT: &str = "log-uri-schemes";

/// What the engine said last.
#[derive(Debug, Default)]
pub(super) struct LogScheme(Mutex<Option<(Instant, &'static str)>>);

impl Containerd {
    /// The best scheme that the engine knows. One that does not say knows the plain one.
    pub(super) async fn log_scheme(&self) -> &'static str {
        let lock = || {
            self.log_scheme
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        };
        let now = Instant::now();
        if let Some((at, scheme)) = *lock()
            && now.saturating_duration_since(at) < HOLDS
        {
            return scheme;
        }
        let connection = &self.connection;
        let request = connection.request(PluginsRequest {
            filters: vec![PLUGIN.to_owned()],
        });
        let mut client = connection.client().introspection();
        let Ok(answer) = connection.call(client.plugins(request)).await else {
            return PLAIN;
        };
        let exports = answer.plugins.into_iter().map(|plugin| plugin.exports);
        let lists: Vec<String> = exports.filter_map(|mut all| all.remove(EXPORT)).collect();
        let scheme = best(lists.iter().map(String::as_str));
        *lock() = Some((now, scheme));
        scheme
    }
}

/// The best of the schemes in comma-separated lists.
fn best<'a>(lists: impl Iterator<Item = &'a str>) -> &'static str {
    let mut all = lists.flat_map(|list| list.split(','));
    if all.any(|scheme| scheme.trim() == WAITS) {
        WAITS
    } else {
        PLAIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logger_is_waited_for_where_the_engine_can() {
        for (lists, scheme) in [
            (&[][..], "binary"),
            (&["fifo,binary,file"], "binary"),
            (&["fifo,binary,binary-v2,file"], "binary-v2"),
            (&["fifo, binary-v2"], "binary-v2"),
            (&["binary-v20"], "binary"),
        ] {
            assert_eq!(best(lists.iter().copied()), scheme, "{lists:?}");
        }
    }
}
