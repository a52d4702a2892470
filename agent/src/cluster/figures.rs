//! What this machine and this agent are busy with.

use std::path::Path;

use async_trait::async_trait;
use muster_exec::figures;
use muster_model::metric::MetricFamily;
use muster_portal_gateway::port::Figures;

/// Figures of the machine that this agent runs on.
#[derive(Debug)]
pub(super) struct LocalFigures;

#[async_trait]
impl Figures for LocalFigures {
    async fn machine(&self) -> Vec<MetricFamily> {
        // Files of /sys may take long to read on a machine that is not well.
        let read = tokio::task::spawn_blocking(|| {
            let root = Path::new("/");
            let (mut families, own) = (figures::machine(root), figures::process(root));
            families.extend(own);
            families
        });
        read.await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use muster_portal_gateway::conformance;

    use super::*;

    #[tokio::test]
    async fn this_node_does_what_every_node_does() {
        conformance::figures(&LocalFigures).await;
        let families = LocalFigures.machine().await;
        let own = families
            .iter()
            .find(|it| it.name == "process_resident_memory_bytes");
        assert!(own.is_some_and(|it| it.samples[0].value > 1e6));
    }
}
