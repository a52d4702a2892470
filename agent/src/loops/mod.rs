//! The agent's tokio tasks, one per file. Each owns what it works on and hands out a handle.

pub(crate) mod certificate;
pub(crate) mod disk;
pub(crate) mod engine;
pub(crate) mod failures;
pub(crate) mod gpu_job_files;
pub(crate) mod gpu_samples;
pub(crate) mod groups;
pub(crate) mod hardware;
pub(crate) mod health;
pub(crate) mod images;
pub(crate) mod node;
pub(crate) mod resident;
pub(crate) mod sweep;
pub(crate) mod terms;
pub(crate) mod watchdog;

/// Waits until then; forever without a time.
pub(crate) async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
